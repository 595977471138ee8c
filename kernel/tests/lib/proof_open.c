// SPDX-License-Identifier: GPL-2.0
/* Paths of tests/proofs.c that go by the file's name. */
#include "proof.h"

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>

static int result(int done)
{
	return done < 0 ? -errno : 0;
}

static int open_close(const char *name, int flags)
{
	int fd = open(name, flags | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

int path_open_rdonly(struct scene *s)
{
	return open_close(s->via, O_RDONLY);
}

int path_open_write(struct scene *s)
{
	return open_close(s->via, O_WRONLY);
}

int path_open_trunc_rdonly(struct scene *s)
{
	return open_close(s->via, O_RDONLY | O_TRUNC);
}

int path_open_trunc_wronly(struct scene *s)
{
	return open_close(s->via, O_WRONLY | O_TRUNC);
}

int path_open_handle(struct scene *s)
{
	union {
		struct file_handle handle;
		char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} h = { .handle.handle_bytes = MAX_HANDLE_SZ };
	int mount_id, mount_fd, fd, err = 0;

	if (name_to_handle_at(AT_FDCWD, s->via, &h.handle, &mount_id, 0))
		return -errno;
	mount_fd = open(s->other, O_RDONLY | O_CLOEXEC);
	fd = open_by_handle_at(mount_fd, &h.handle, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		err = -errno;
	else
		close(fd);
	close(mount_fd);
	return err;
}

int path_open_proc(struct scene *s)
{
	int fd = open(s->via, O_RDONLY | O_CLOEXEC), err;
	char name[40];

	if (fd < 0)
		return -errno;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	err = open_close(name, O_WRONLY);
	close(fd);
	return err;
}

int path_open_link(struct scene *s)
{
	char name[PROOF_NAME + 8];
	int err;

	snprintf(name, sizeof(name), "%s.link", s->via);
	if (link(s->via, name))
		return -errno;
	err = open_close(name, O_WRONLY);
	unlink(name);
	return err;
}

int path_truncate_less(struct scene *s)
{
	return result(truncate(s->via, PAGE));
}

int path_truncate_more(struct scene *s)
{
	return result(truncate(s->via, 2 * PROOF_BYTES));
}

/* There and back, so that the name is the file's at the end. */
int path_rename(struct scene *s)
{
	char name[PROOF_NAME + 8];

	snprintf(name, sizeof(name), "%s.new", s->via);
	if (rename(s->via, name))
		return -errno;
	return result(rename(name, s->via));
}

int path_rename_over(struct scene *s)
{
	return result(rename(s->other, s->via));
}

int path_rename_exchange(struct scene *s)
{
	return result(renameat2(AT_FDCWD, s->other, AT_FDCWD, s->via, RENAME_EXCHANGE));
}

int path_unlink(struct scene *s)
{
	return result(unlink(s->via));
}

int path_link(struct scene *s)
{
	char name[PROOF_NAME + 8];

	snprintf(name, sizeof(name), "%s.link", s->via);
	if (link(s->via, name))
		return -errno;
	return result(unlink(name));
}

int path_chmod(struct scene *s)
{
	return result(chmod(s->via, 0640));
}

int path_chown(struct scene *s)
{
	return result(chown(s->via, 1000, 1000));
}

int path_utimes(struct scene *s)
{
	return result(utimensat(AT_FDCWD, s->via, NULL, 0));
}

int path_setxattr(struct scene *s)
{
	return result(setxattr(s->via, "trusted.proof", "x", 1, 0));
}

/* A flag of the inode that no file system takes for more than a hint: no access times. */
int path_chattr(struct scene *s)
{
	int fd = open(s->via, O_RDONLY | O_CLOEXEC), flags, err = 0;

	if (fd < 0)
		return -errno;
	if (ioctl(fd, FS_IOC_GETFLAGS, &flags)) {
		err = -errno;
	} else {
		flags |= FS_NOATIME_FL;
		err = result(ioctl(fd, FS_IOC_SETFLAGS, &flags));
	}
	close(fd);
	return err;
}
