/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port/guest.h. Only the shim is linked with this, and a test. */
#define _GNU_SOURCE
#include "lib/port/guest.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <os_impl.h>
#include <time.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#define NS_PER_S UINT64_C(1000000000)
#define PROC_PATH_BYTES 64

/* ---- the program ---- */

const char *port_program_name(void)
{
	return program_invocation_short_name;
}

void port_variable_empty(const char *name)
{
	char *text = getenv(name);

	if (text)
		*text = '\0';
}

int64_t port_process_text(const char *path, char *to, size_t bytes)
{
	char whole[PROC_PATH_BYTES];
	int64_t n;
	int fd;

	snprintf(whole, sizeof(whole), "/proc/self/%s", path);
	fd = os_open(whole, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	n = os_read(fd, to, bytes);
	n = n < 0 ? -errno : n;
	os_shut(fd);
	return n;
}

int port_run_in_child(void (*run)(void))
{
	return -pthread_atfork(NULL, NULL, run);
}

int port_listens(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd, err;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	fd = os_socket_for_now(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return -errno;
	err = os_connect(fd, &address, sizeof(address)) == 0 ? 0 : -errno;
	os_shut(fd);
	return err;
}

/* ---- threads ---- */

#define QUIET_CANCEL 16 /* which word */
_Static_assert(QUIET_CANCEL * sizeof(uint64_t) >= sizeof(sigset_t), "a mask has room");

void port_quiet_begin(struct port_quiet *ret_before)
{
	sigset_t all;
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	ret_before->words[QUIET_CANCEL] = (uint64_t)cancel;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, (sigset_t *)ret_before->words);
}

void port_quiet_end(const struct port_quiet *before)
{
	pthread_sigmask(SIG_SETMASK, (const sigset_t *)before->words, NULL);
	pthread_setcancelstate((int)before->words[QUIET_CANCEL], NULL);
}

unsigned int port_quiet_signals(void)
{
	sigset_t waiting;

	sigpending(&waiting);
	return (sigismember(&waiting, SIGPIPE) ? PORT_BROKEN_PIPE : 0) |
	       (sigismember(&waiting, SIGXFSZ) ? PORT_FILE_LIMIT : 0);
}

void port_quiet_drop(unsigned int signals)
{
	const struct timespec at_once = { 0 };
	sigset_t set;

	sigemptyset(&set);
	if (signals & PORT_BROKEN_PIPE)
		sigaddset(&set, SIGPIPE);
	if (signals & PORT_FILE_LIMIT)
		sigaddset(&set, SIGXFSZ);
	sigtimedwait(&set, NULL, &at_once);
}

void port_cancel_point(void)
{
	pthread_testcancel();
}

/* ---- what descriptors of the program lead to ---- */

int64_t port_position(int fd)
{
	off_t at = lseek(fd, 0, SEEK_CUR);

	return at < 0 ? -errno : at;
}

int port_file_system(int fd, uint64_t *ret_kind)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) != 0)
		return -errno;
	*ret_kind = (uint32_t)fs.f_type;
	return 0;
}

int port_birth(int fd, struct port_birth *ret)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_INO | STATX_BTIME, &st) !=
	    0)
		return -errno;
	*ret = (struct port_birth){ .regular = S_ISREG(st.stx_mode),
		                    .dev = makedev(st.stx_dev_major, st.stx_dev_minor),
		                    .ino = st.stx_ino };
	if (st.stx_mask & STATX_BTIME)
		ret->ns =
			(uint64_t)st.stx_btime.tv_sec * NS_PER_S + st.stx_btime.tv_nsec;
	return 0;
}

/* ---- descriptors of the guest's own ---- */

int port_dup_above(int fd, int lowest)
{
	int other = os_dup_above(fd, lowest);

	return other < 0 ? -errno : other;
}

void port_hang_up(int socket)
{
	os_shutdown(socket, SHUT_RDWR);
}

/* ---- files of the guest's own ---- */

int port_append(const char *path)
{
	int fd = os_open(
		path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
		0666);

	return fd < 0 ? -errno : fd;
}

int port_open_both(const char *path)
{
	int fd = os_open(path, O_RDWR | O_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

int port_create_both(const char *path)
{
	int fd = os_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

int64_t port_put(int fd, const void *from, size_t bytes)
{
	ssize_t n = os_put(fd, from, bytes);

	return n < 0 ? -errno : n;
}

int port_resize(int fd, uint64_t bytes)
{
	return os_ftruncate(fd, (off_t)bytes) == 0 ? 0 : -errno;
}

int port_give(const char *path, uint32_t user)
{
	return os_lchown(path, user, (gid_t)-1) == 0 ? 0 : -errno;
}

int port_remove_folder(const char *path)
{
	return os_rmdir(path) == 0 ? 0 : -errno;
}

/* ---- memory ---- */

int port_fault_in(void *at, uint64_t bytes, bool write)
{
	int advice = write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;

	return os_madvise(at, bytes, advice) == 0 ? 0 : -errno;
}

/* A line of /proc/self/maps up to its path. */
#define MAPPED_BYTES 128u

/* PROCMAP_QUERY of linux/fs.h, which old headers do not have. */
struct mapped_query {
	uint64_t bytes, flags, at;
	uint64_t begin, end, mode, page_bytes, offset, ino;
	uint32_t dev_major, dev_minor;
	uint32_t name_bytes, build_id_bytes;
	uint64_t name, build_id;
};
#define MAPPED_QUERY _IOWR('f', 17, struct mapped_query)
#define MAPPED_READS 1u
#define MAPPED_WRITES 2u
#define MAPPED_RUNS 4u
#define MAPPED_SHARED 8u

static bool mapped_parse(const char *line, struct port_mapped *ret)
{
	unsigned int high;
	char *p;

	ret->begin = strtoull(line, &p, 16);
	if (*p++ != '-')
		return false;
	ret->end = strtoull(p, &p, 16);
	if (*p++ != ' ' || strlen(p) < 5)
		return false;
	ret->reads_only = strncmp(p, "r--", 3) == 0;
	ret->shared = p[3] == 's';
	ret->offset = strtoull(p + 5, &p, 16);
	high = (unsigned int)strtoull(p, &p, 16);
	if (*p++ != ':')
		return false;
	ret->dev = makedev(high, (unsigned int)strtoull(p, &p, 16));
	ret->ino = strtoull(p, NULL, 10);
	return true;
}

/* 0 or -ENOENT as port_mapped_at(). -ENOTTY: the kernel does not answer such a question. */
static int mapped_ask(int fd, uint64_t at, struct port_mapped *ret)
{
	struct mapped_query q = { .bytes = sizeof(q), .at = at };

	if (os_ioctl(fd, MAPPED_QUERY, &q) != 0)
		return errno == ENOENT ? -ENOENT : -ENOTTY;
	*ret = (struct port_mapped){
		.begin = q.begin,
		.end = q.end,
		.offset = q.offset,
		.dev = makedev(q.dev_major, q.dev_minor),
		.ino = q.ino,
		.reads_only = (q.mode & (MAPPED_READS | MAPPED_WRITES | MAPPED_RUNS)) ==
		              MAPPED_READS,
		.shared = q.mode & MAPPED_SHARED,
	};
	return 0;
}

/* Reads the list up to the address. */
static int mapped_read(int fd, uint64_t at, char *room, size_t room_bytes,
                       struct port_mapped *ret)
{
	struct port_mapped one = { 0 };
	char line[MAPPED_BYTES];
	bool found = false;
	size_t n = 0;
	ssize_t got = 1;

	while (one.end <= at && (got = os_read(fd, room, room_bytes)) > 0)
		for (ssize_t i = 0; i < got && one.end <= at; i++) {
			if (room[i] != '\n' && n < sizeof(line) - 1)
				line[n++] = room[i];
			if (room[i] != '\n')
				continue;
			line[n] = '\0';
			n = 0;
			found = mapped_parse(line, &one);
		}
	if (!found || one.begin > at || one.end <= at)
		return -ENOENT;
	*ret = one;
	return 0;
}

/* A kernel from 6.11 on says what is mapped at one address. Others give the list, which is long in
 * a large program. */
int port_mapped_at(uint64_t at, char *room, size_t room_bytes, struct port_mapped *ret)
{
	int fd = os_open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	int err;

	if (fd < 0)
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -errno
		                                                             : -ENOENT;
	err = mapped_ask(fd, at, ret);
	if (err == -ENOTTY)
		err = mapped_read(fd, at, room, room_bytes, ret);
	os_shut(fd);
	return err;
}

int port_segment_bytes(int segment, uint64_t *ret_bytes)
{
	struct shmid_ds is;

	if (shmctl(segment, IPC_STAT, &is) != 0)
		return -errno;
	*ret_bytes = is.shm_segsz;
	return 0;
}

int port_segment_map(int segment, void **ret_at)
{
	void *p = shmat(segment, NULL, 0);

	if ((intptr_t)p == -1)
		return -errno;
	*ret_at = p;
	return 0;
}

void port_segment_unmap(void *at)
{
	shmdt(at);
}

void port_segment_end(int segment)
{
	shmctl(segment, IPC_RMID, NULL);
}
