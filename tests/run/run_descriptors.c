/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Reads, and what happens to descriptors: the ways of run_reader.c that need one process. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "tests/run/run_reader.h"

#define MANY_FILES 64
#define LEFT_FILES 200

ssize_t __pread_chk(int fd, void *to, size_t n, off_t offset, size_t room);
ssize_t __pread64_chk(int fd, void *to, size_t n, off_t offset, size_t room);

/* Reads [at, at + n) of file 1 in six ways. The answer must be want each time; errno is 77
 * before, and afterwards if nothing has failed. */
static void read_ways(int fd, off_t at, size_t n, ssize_t want, int error)
{
	static uint8_t to[3 * BLOCK];
	const struct iovec two[] = { { to, n / 3 }, { to + n / 3, n - n / 3 } };

	for (int way = 0; way < 6; way++) {
		ssize_t got = -2;

		memset(to, 0, sizeof(to));
		errno = 77;
		switch (way) {
		case 0: got = pread(fd, to, n, at); break;
		case 1: got = pread64(fd, to, n, at); break;
		case 2: got = preadv(fd, two, 2, at); break;
		case 3: got = preadv2(fd, two, 2, at, 0); break;
		case 4: got = __pread_chk(fd, to, n, at, sizeof(to)); break;
		case 5: got = __pread64_chk(fd, to, n, at, sizeof(to)); break;
		default: break;
		}
		NEED(got == want, "way %d at %lld: %zd, not %zd", way, (long long)at,
		     got, want);
		NEED(errno == (error ? error : 77), "way %d: errno %d", way, errno);
		for (ssize_t i = 0; i < got; i++)
			NEED(to[i] == file_byte(1, (uint64_t)(at + i)), "byte %zd", i);
	}
}

static void way_ends(void)
{
	int fd = warm_open(1);
	/* Not constants: compilers warn of them. */
	const struct iovec *volatile none = NULL;
	volatile int too_few = -1, too_many = IOV_MAX + 1, one = 1;
	int closed = dup(fd), ends[2];

	close(closed);
	for (off_t at = 0; at < FILE_BYTES; at += 777) {
		off_t left = FILE_BYTES - at;

		read_ways(fd, at, 700, left < 700 ? left : 700, 0);
		read_ways(fd, at, 3 * BLOCK, left < 3 * BLOCK ? left : 3 * BLOCK, 0);
	}
	read_ways(fd, FILE_BYTES, 10, 0, 0);
	read_ways(fd, (off_t)1 << 40, 10, 0, 0);
	read_ways(fd, 5, 0, 0, 0);
	read_ways(fd, -2, 10, -1, EINVAL);
	read_ways(fd, INT64_MAX - 5, 10, -1, EINVAL);
	read_ways(closed, 0, 10, -1, EBADF);
	read_ways(-1, 0, 10, -1, EBADF);
	read_ways(1 << 20, 0, 10, -1, EBADF);
	NEED(pipe(ends) == 0, "pipe");
	read_ways(ends[0], 0, 10, -1, ESPIPE);
	NEED(preadv(fd, none, too_few, 0) == -1 && errno == EINVAL, "errno %d", errno);
	NEED(preadv(fd, none, too_many, 0) == -1 && errno == EINVAL, "errno %d", errno);
	NEED(preadv(ends[0], none, one, 0) == -1, "a bad list, not served");
	NEED(is_served(fd, 1) == cached, "still served");
}

/* The descriptor's own offset stays with the kernel. */
static void way_offset(void)
{
	int fd = warm_open(1);
	uint8_t byte;

	for (int i = 0; i < 1000; i++) {
		NEED(lseek(fd, 0, SEEK_CUR) == i, "offset");
		NEED(read(fd, &byte, 1) == 1 && byte == file_byte(1, (uint64_t)i),
		     "byte %d", i);
		look(fd, 1);
	}
}

/* Each way puts file 2 where file 1 was served. */
static int replace(int way, int fd)
{
	int other = file_open(2);
	FILE *stream;

	switch (way) {
	case 0: close(fd); return fcntl(other, F_DUPFD, fd);
	case 1: return dup2(other, fd);
	case 2: return dup3(other, fd, O_CLOEXEC);
	case 3: close(fd); return fcntl(other, F_DUPFD_CLOEXEC, fd);
	case 4:
		stream = fdopen(fd, "r");
		fclose(stream);
		return fcntl(other, F_DUPFD, fd);
	case 5:
		stream = fdopen(fd, "r");
		return fileno(freopen(file_make(2), "r", stream));
	case 6: close_range((unsigned int)fd, (unsigned int)fd, 0); break;
	case 7: syscall(SYS_close, fd); break;
	case 8: return (int)syscall(SYS_dup3, other, fd, 0);
	case 9: syscall(SYS_close_range, fd, fd, 0); break;
	case 10:
		close(other);
		close(fd);
		return open(file_make(2), O_RDONLY);
	case 11:
		close(other);
		close(fd);
		return openat(AT_FDCWD, file_make(2), O_RDONLY);
	case 12:
		close(other);
		syscall(SYS_close, fd);
		return (int)syscall(SYS_openat, AT_FDCWD, file_make(2), O_RDONLY);
	default: return -1;
	}
	return fcntl(other, F_DUPFD, fd);
}

static void way_replaced(void)
{
	for (int way = 0; way <= 12; way++) {
		int fd = warm_open(1);
		int at = replace(way, fd);

		/* freopen() and open() may take another number. */
		NEED(at >= 0, "way %d: %s", way, strerror(errno));
		for (int i = 0; i < 5; i++)
			look(at, 2);
		warm(at, 2);
		close(at);
	}
}

/* All duplicates lead to the file, and go one by one. */
static void way_duplicated(void)
{
	int fd = warm_open(1);
	int fds[] = { dup(fd), fcntl(fd, F_DUPFD, 50), dup2(fd, 60) };

	close(fd);
	for (int i = 0; i < 3; i++) {
		warm(fds[i], 1);
		close(fds[i]);
		for (int k = i + 1; k < 3; k++)
			look(fds[k], 1);
		NEED(pread(fds[i], &fd, 1, 0) == -1 && errno == EBADF, "closed");
	}
}

static void way_direct(void)
{
	int fd = warm_open(1);
	uint8_t to[BLOCK];
	ssize_t first;

	if (fcntl(fd, F_SETFL, O_DIRECT) != 0)
		return; /* not on this file system */
	first = pread(fd, to + 1, 100, 3);
	NEED(first == -1 && errno == EINVAL, "unaligned: %zd", first);
	for (int i = 0; i < 10; i++)
		NEED(pread(fd, to + 1, 100, 3) == -1, "unaligned");
	NEED(fcntl(fd, F_SETFL, 0) == 0, "%s", strerror(errno));
	warm(fd, 1);
}

static void way_writable(void)
{
	int fd = open(file_make(1), O_RDWR);
	uint8_t byte = 1;

	for (int i = 0; i < 100; i++)
		look(fd, 1);
	NEED(pwrite(fd, &byte, 1, 9) == 1, "%s", strerror(errno));
	NEED(pread(fd, &byte, 1, 9) == 1 && byte == 1, "the new byte");
	NEED(!is_served(fd, 1), "not served");
	fd = open(file_make(2), O_WRONLY);
	for (int i = 0; i < 5; i++)
		NEED(pread(fd, &byte, 1, 0) == -1 && errno == EBADF, "errno %d", errno);
}

/* Closes every number, as a daemon does. The shim's own are not the program's to close. */
static void way_close_all(void)
{
	int fd = warm_open(1);
	int keep = complain_fd;

	complain_fd = fcntl(keep, F_DUPFD, 3000);
	if (complain_fd < 0)
		complain_fd = keep;
	for (int i = 0; i < 2000; i++) {
		bool closed = close(i) == 0;

		NEED(i < 900 || !closed, "number %d is not the program's", i);
	}
	NEED(open("/dev/null", O_RDWR) == 0, "the lowest number is free");
	fd = file_open(1);
	NEED(fd == 1, "the next number: %d", fd);
	warm(fd, 1);
	closefrom(1);
	fd = file_open(3);
	NEED(fd == 1, "the next number: %d", fd);
	complain_fd = 0;
	warm(fd, 3);
	NEED(close_range(0, ~0u, 0) == 0, "close_range");
	NEED(close_range(5, 4, 0) == -1 && errno == EINVAL, "errno %d", errno);
	fd = file_open(4);
	NEED(fd == 0, "the next number: %d", fd);
	warm(fd, 4);
}

/* Numbers 0 to 2 are free, and the program gets them. */
static void way_standard_closed(void)
{
	complain_fd = fcntl(STDERR_FILENO, F_DUPFD, 100);
	for (int i = 0; i < 3; i++)
		close(i);
	for (int i = 0; i < 3; i++)
		NEED(file_open(1) == i, "number %d", i);
	for (int i = 0; i < 3; i++)
		warm(i, 1);
	NEED(socket(AF_UNIX, SOCK_STREAM, 0) == 3, "the next number");
}

/* They are closed when the shim knows a file and has not begun to ask for it. */
static void way_standard_closed_later(void)
{
	int fd = file_open(1);

	complain_fd = fcntl(STDERR_FILENO, F_DUPFD, 100);
	for (int i = 0; i < 3; i++)
		close(i);
	warm(fd, 1);
	NEED(file_open(2) == 0, "the lowest number is free");
}

/* The program takes the shim's number for a file. */
static void way_own_number_taken(void)
{
	int fd = warm_open(1);
	int other = file_open(2);
	uint8_t byte;

	for (int to = 900; to < 1024; to++)
		NEED(dup2(other, to) == to, "%s", strerror(errno));
	/* The service cannot be woken. */
	errno = 77;
	for (int block = 0; block < FILE_BLOCKS; block++)
		NEED(pread(fd, &byte, 1, block * BLOCK) == 1 && errno == 77, "errno %d",
		     errno);
	for (int i = 0; i < 100; i++)
		for (int to = 900; to < 1024; to += 9)
			look(to, 2);
	warm(fd, 1);
	warm(file_open(5), 5);
	for (int to = 900; to < 1024; to++) {
		look(to, 2);
		NEED(pread(to, &byte, 1, FILE_BYTES) == 0, "number %d has grown", to);
	}
	for (int to = 900; to < 1024; to++) {
		NEED(close(to) == 0, "number %d: %s", to, strerror(errno));
		NEED(fcntl(to, F_GETFD) == -1, "number %d is open", to);
	}
}

/* A program that opens all descriptors it may have gets two less, and its reads are right. */
static void way_descriptors_used_up(void)
{
	struct rlimit limit = { 64, 64 };
	int fd, last = -1;

	NEED(setrlimit(RLIMIT_NOFILE, &limit) == 0, "%s", strerror(errno));
	fd = file_open(1);
	for (int next; (next = dup(fd)) >= 0; last = next)
		look(next, 1);
	NEED(errno == EMFILE && last >= 61 - 2, "the last is %d", last);
	for (int i = 0; i < 200; i++)
		look(last, 1);
	close(last);
	for (int i = 10; i < 20; i++)
		close(i);
	warm(fd, 1);
}

static sigjmp_buf jump;

static void on_fault(int sig)
{
	(void)sig;
	siglongjmp(jump, 1);
}

/* doc/hazards.md: with the cache a bad buffer is a fault; without it is EFAULT. */
static void way_bad_buffer(void)
{
	int fd = warm_open(1);
	void *bad = mmap(NULL, BLOCK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile bool faulted = false;

	signal(SIGSEGV, on_fault);
	if (sigsetjmp(jump, 1) == 0)
		NEED(pread(fd, bad, 100, 3 * BLOCK) == -1 && errno == EFAULT,
		     "errno %d", errno);
	else
		faulted = true;
	NEED(faulted == cached, "a fault: %d", faulted);
	/* U16: this thread reads from the kernel from now on, and rightly. */
	for (int i = 0; i < 100; i++)
		look(fd, 1);
	NEED(!is_served(fd, 1), "served after a jump");
	fd = file_open(2);
	for (int i = 0; i < 100; i++)
		look(fd, 2);
}

/* doc/hazards.md: a read that the cache serves is no read of the file for the kernel. */
static void way_access_time(void)
{
	const struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 2000 } };
	int fd = warm_open(1);
	struct stat st;

	NEED(futimens(fd, old) == 0, "%s", strerror(errno));
	if (cached)
		warm(fd, 1);
	NEED(futimens(fd, old) == 0, "%s", strerror(errno));
	NEED(is_served(fd, 1) == cached, "served");
	NEED(fstat(fd, &st) == 0, "%s", strerror(errno));
	if (cached)
		NEED(st.st_atime == 1000, "served, and the time is new");
}

static void way_address_space(void)
{
	struct rlimit limit = { (rlim_t)1 << 40, (rlim_t)1 << 40 };
	int fd;

	NEED(setrlimit(RLIMIT_AS, &limit) == 0, "%s", strerror(errno));
	fd = file_open(1);
	for (int i = 0; i < 1000; i++)
		look(fd, 1);
	NEED(!is_served(fd, 1), "not served");
}

/* Many files are open at once, and half of them go. */
#define SETS 512 /* of the shim's table */
#define SET_FILES 8

/* Leaves one file more in a set of the table than it has places for. Returns their descriptors. */
static void table_set_fill(int fds[SET_FILES + 1])
{
	static unsigned int sets[SETS][SET_FILES + 1], nr[SETS], set;
	struct stat st;
	char path[4096];

	for (unsigned int n = 0; nr[set] <= SET_FILES; n++) {
		snprintf(path, sizeof(path), "%s/set%u", folder, n);
		close(open(path, O_WRONLY | O_CREAT, 0600));
		NEED(stat(path, &st) == 0, "%s", strerror(errno));
		set = (unsigned int)((((uint64_t)st.st_ino ^ (uint64_t)st.st_dev
		                                                     << 32) *
		                      UINT64_C(0x9e3779b97f4a7c15)) >>
		                     32) %
		      SETS;
		sets[set][nr[set]++] = n;
	}
	for (int i = 0; i <= SET_FILES; i++) {
		snprintf(path, sizeof(path), "%s/set%u", folder, sets[set][i]);
		NEED(truncate(path, BLOCK) == 0, "%s", strerror(errno));
		fds[i] = open(path, O_RDONLY);
	}
}

/* Where the table has no place the shim does not look again with each read. */
static void way_table_full(void)
{
	int fds[SET_FILES + 1];
	char byte = 1;
	long before;

	table_set_fill(fds);
	for (int i = 0; i <= SET_FILES; i++)
		for (int k = 0; k < 100; k++)
			NEED(pread(fds[i], &byte, 1, 7) == 1 && !byte, "file %d", i);
	before = count_getpids();
	for (int k = 0; k < 1000; k++)
		NEED(pread(fds[SET_FILES], &byte, 1, 7) == 1 && !byte, "read %d", k);
	NEED(count_getpids() - before < 50, "%ld locks", count_getpids() - before);
	NEED(flock(fds[SET_FILES], LOCK_EX | LOCK_NB) == 0, "%s", strerror(errno));
	NEED(pread(fds[SET_FILES], &byte, 1, 7) == 1, "a locked file");
}

/* Each file was served, and its last descriptor is closed. From then on the program reads
 * something else. */
static void way_files_left(void)
{
	int fds[LEFT_FILES];
	char text[64];

	for (unsigned int n = 0; n < LEFT_FILES; n++)
		fds[n] = warm_open(n);
	for (unsigned int n = 0; n < LEFT_FILES; n++)
		close(fds[n]);
	fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
	dprintf(STDOUT_FILENO, "ready\n");
	while (read(STDIN_FILENO, text, 1) < 0) {
		int fd = open("/proc/self/stat", O_RDONLY);

		NEED(read(fd, text, sizeof(text)) > 0, "%s", strerror(errno));
		close(fd);
		usleep(500);
	}
}

/* The shim steps aside, and the program goes on with its file open. */
static void way_stepped_aside(void)
{
	int fd = warm_open(1);

	if (mlockall(MCL_CURRENT) == 0)
		munlockall();
	wait_until_told();
	look(fd, 1);
}

static void way_many_files(void)
{
	int fds[MANY_FILES];

	for (unsigned int i = 0; i < MANY_FILES; i++)
		fds[i] = file_open(100 + i);
	for (unsigned int i = 0; i < MANY_FILES; i++)
		warm(fds[i], 100 + i);
	for (unsigned int i = 0; i < MANY_FILES; i += 2)
		close(fds[i]);
	for (unsigned int i = 1; i < MANY_FILES; i += 2)
		look(fds[i], 100 + i);
}

const struct way descriptor_ways[] = {
	{ "ends", way_ends },
	{ "offset", way_offset },
	{ "replaced", way_replaced },
	{ "duplicated", way_duplicated },
	{ "direct", way_direct },
	{ "writable", way_writable },
	{ "close_all", way_close_all },
	{ "standard_closed", way_standard_closed },
	{ "standard_closed_later", way_standard_closed_later },
	{ "own_number_taken", way_own_number_taken },
	{ "descriptors_used_up", way_descriptors_used_up },
	{ "bad_buffer", way_bad_buffer },
	{ "access_time", way_access_time },
	{ "address_space", way_address_space },
	{ "files_left", way_files_left },
	{ "stepped_aside", way_stepped_aside },
	{ "table_full", way_table_full },
	{ "many_files", way_many_files },
	{ NULL, NULL },
};
