/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port.h. Files. */
#define _GNU_SOURCE
#include "lib/port.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <os_impl.h>

#define FD_PATH_BYTES 32
#define NS_PER_S UINT64_C(1000000000)

static int file_fill(int failed, const struct stat *st, struct port_file *ret)
{
	if (failed)
		return -errno;
	ret->dev = st->st_dev;
	ret->ino = st->st_ino;
	ret->kind = S_ISREG(st->st_mode)    ? PORT_FILE_REGULAR
	            : S_ISDIR(st->st_mode)  ? PORT_FILE_FOLDER
	            : S_ISSOCK(st->st_mode) ? PORT_FILE_SOCKET
	                                    : PORT_FILE_OTHER;
	ret->uid = st->st_uid;
	ret->gid = st->st_gid;
	ret->rights = st->st_mode & 07777;
	ret->nr_names = (uint32_t)st->st_nlink;
	ret->bytes = (uint64_t)st->st_size;
	ret->device = st->st_rdev;
	ret->mtime_ns =
		(uint64_t)st->st_mtim.tv_sec * NS_PER_S + (uint64_t)st->st_mtim.tv_nsec;
	return 0;
}

int port_look(int fd, struct port_file *ret)
{
	struct stat st;

	return file_fill(fstat(fd, &st), &st, ret);
}

int port_look_local(int fd, struct port_file *ret)
{
	return port_look(fd, ret);
}

int port_look_at(const char *path, bool follow, struct port_file *ret)
{
	struct stat st;

	return file_fill(follow ? stat(path, &st) : lstat(path, &st), &st, ret);
}

int port_path_of(int fd, char *to, size_t bytes)
{
	char path[FD_PATH_BYTES];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, to, bytes - 1);
	if (n < 0)
		return -errno;
	to[n] = '\0';
	return 0;
}

/* A folder passes access(2), too. */
bool port_may_run(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

bool port_is_read_only(const char *folder)
{
	struct statvfs system;

	return statvfs(folder, &system) == 0 && system.f_flag & ST_RDONLY;
}

int port_open(const char *path)
{
	int fd = os_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);

	return fd < 0 ? -errno : fd;
}

int port_create(const char *path)
{
	int fd = os_open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	                 0600);

	return fd < 0 ? -errno : fd;
}

int port_reopen(int fd)
{
	char path[FD_PATH_BYTES];
	int own;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = os_open(path, O_RDONLY | O_CLOEXEC, 0);
	return own < 0 ? -errno : own;
}

int port_shut(int fd)
{
	return os_shut(fd) == 0 ? 0 : -errno;
}

int64_t port_read(int fd, void *to, size_t bytes, uint64_t offset)
{
	ssize_t n = os_pread(fd, to, bytes, (off_t)offset);

	return n < 0 ? -errno : n;
}

int port_system_open(const char *path)
{
	int fd = os_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);

	return fd < 0 ? -errno : fd;
}

int64_t port_system_read(int fd, void *to, size_t bytes, uint64_t offset)
{
	ssize_t n = os_pread(fd, to, bytes, (off_t)offset);

	return n < 0 ? -errno : n;
}

int64_t port_system_text(const char *path, char *to, size_t room)
{
	int fd = port_system_open(path);
	int64_t n = fd;
	size_t got = 0;

	if (fd < 0)
		return fd;
	while (got < room - 1 &&
	       (n = port_system_read(fd, to + got, room - 1 - got, got)) > 0)
		got += (size_t)n;
	port_close(fd);
	if (n < 0)
		return n;
	to[got] = '\0';
	return (int64_t)got;
}

int64_t port_write(int fd, const void *from, size_t bytes, uint64_t offset)
{
	ssize_t n = pwrite(fd, from, bytes, (off_t)offset);

	return n < 0 ? -errno : n;
}

int port_remove(const char *path)
{
	return unlink(path) == 0 ? 0 : -errno;
}

int port_rename(const char *from, const char *to)
{
	return rename(from, to) == 0 ? 0 : -errno;
}

int port_make_folder(const char *path)
{
	return os_mkdir(path, 0700) == 0 ? 0 : -errno;
}
