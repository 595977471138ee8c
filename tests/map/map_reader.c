/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A program that reads files and does not know of `lodic map`; test_map.py runs it with
 * and without. Each of its ways does something that a shim could spoil, and looks whether
 * the shim did. With --mapped the test says that files are mapped; then the program looks
 * into its own maps too.
 *
 * It ends with 0, or with 1 and a line on what was wrong.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/random.h"

#define BLOCK 4096
#define ROUNDS 40 /* of reads; after these a file must be mapped */
#define PATTERN UINT64_C(0x9e3779b97f4a7c15)
#define MAX_THREADS 64
#define PATH_BYTES 4096

static bool mapped; /* the program runs under the shim */
static const char *file_path;
static uint64_t seed = 1;

#define NEED(condition, ...) \
	do { \
		if (!(condition)) { \
			dprintf(complain_fd, "line %d: %s: ", __LINE__, #condition); \
			dprintf(complain_fd, __VA_ARGS__); \
			dprintf(complain_fd, "\n"); \
			_exit(1); \
		} \
	} while (0)

static int complain_fd = STDERR_FILENO;

/* A file's bytes are a function of their place. */
static uint8_t byte_at(uint64_t offset)
{
	return (uint8_t)((offset / 8 + 1) * PATTERN >> (offset % 8 * 8));
}

static bool bytes_right(const uint8_t *p, uint64_t offset, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != byte_at(offset + i))
			return false;
	return true;
}

static void file_make(const char *path, uint64_t bytes)
{
	static uint8_t block[BLOCK];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

	NEED(fd >= 0, "%s: %s", path, strerror(errno));
	for (uint64_t at = 0; at < bytes; at += BLOCK) {
		size_t n = bytes - at < BLOCK ? bytes - at : BLOCK;

		for (size_t i = 0; i < n; i++)
			block[i] = byte_at(at + i);
		NEED(write(fd, block, n) == (ssize_t)n, "%s", strerror(errno));
	}
	close(fd);
}

static int file_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	NEED(fd >= 0, "%s: %s", path, strerror(errno));
	return fd;
}

static uint64_t file_bytes(int fd)
{
	struct stat st;

	NEED(fstat(fd, &st) == 0, "%s", strerror(errno));
	return (uint64_t)st.st_size;
}

static void read_through(int fd, bool backwards)
{
	uint8_t block[BLOCK];
	uint64_t bytes = file_bytes(fd);

	for (uint64_t at = 0; at < bytes; at += BLOCK) {
		uint64_t offset = backwards ? (bytes - 1 - at) & -BLOCK : at;
		ssize_t n = pread(fd, block, BLOCK, (off_t)offset);

		NEED(n > 0 && bytes_right(block, offset, (size_t)n), "%zd at %llu", n,
		     (unsigned long long)offset);
	}
}

/* Reads all of the file, again and again, so that the shim maps it. */
static void read_often(int fd)
{
	for (int round = 0; round < ROUNDS; round++)
		read_through(fd, round % 2 == 0);
}

/* How many KiB of path this process has ptes for; -1: path is not mapped. Reading the file of
 * /proc does not disturb the test: it is another file. */
static long resident_kib(const char *path)
{
	char line[PATH_BYTES], real[PATH_BYTES];
	FILE *f = fopen("/proc/self/smaps", "r");
	bool here = false;
	long kib = -1;

	NEED(f && realpath(path, real), "%s", strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		char *end = strchr(line, '\n');

		if (end)
			*end = '\0';
		/* "address-address ..." begins a mapping, "Name: ..." goes on with it. */
		if (strcspn(line, "-") < strcspn(line, ": ")) {
			const char *name = strchr(line, '/');

			here = name && strcmp(name, real) == 0;
			if (here && kib < 0)
				kib = 0;
		}
		if (here && strncmp(line, "Rss:", 4) == 0)
			kib += atol(line + 4);
	}
	fclose(f);
	return kib;
}

static void need_mapped(const char *path, bool whole)
{
	struct stat st;
	long kib = resident_kib(path);

	if (!mapped)
		return;
	NEED(kib >= 0, "%s is not mapped", path);
	NEED(stat(path, &st) == 0, "%s", strerror(errno));
	if (whole)
		NEED(kib == (st.st_size + BLOCK - 1) / BLOCK * (BLOCK / 1024),
		     "%ld KiB have ptes, of %lld bytes", kib, (long long)st.st_size);
}

static void need_unmapped(const char *path)
{
	NEED(resident_kib(path) < 0, "%s is still mapped", path);
}

static void plain(void)
{
	int fd = file_open(file_path);

	read_often(fd);
	need_mapped(file_path, true);
	close(fd);
	need_unmapped(file_path);
}

/* Tries each way to read, and each way to lose a descriptor. */
static void ways(void)
{
	uint8_t a[100], b[BLOCK];
	struct iovec to[] = { { a, sizeof(a) }, { b, sizeof(b) } };
	int fd, other = file_open("/dev/null");

	for (int way = 0; way < 6; way++) {
		fd = file_open(file_path);
		for (int i = 0; i < ROUNDS; i++) {
			off_t at = i % 7 * 5000;
			ssize_t n;

			lseek(fd, at, SEEK_SET);
			switch (way) {
			case 0: n = read(fd, b, sizeof(b)); break;
			case 1: n = pread(fd, b, sizeof(b), at); break;
			case 2: n = readv(fd, to + 1, 1); break;
			case 3: n = preadv(fd, to + 1, 1, at); break;
			case 4: n = preadv2(fd, to + 1, 1, at, 0); break;
			default: n = preadv2(fd, to + 1, 1, -1, 0); break;
			}
			NEED(n == sizeof(b) && bytes_right(b, (uint64_t)at, sizeof(b)),
			     "way %d: %zd", way, n);
		}
		need_mapped(file_path, false);
		switch (way) {
		case 0: close(fd); break;
		case 1: NEED(dup2(other, fd) == fd, "%s", strerror(errno)); break;
		case 2: NEED(dup3(other, fd, 0) == fd, "%s", strerror(errno)); break;
		case 3: close_range((unsigned int)fd, ~0u, 0); break;
		case 4: fclose(fdopen(fd, "r")); break;
		default: closefrom(fd); break;
		}
		need_unmapped(file_path);
		if (way == 1 || way == 2)
			close(fd);
	}
}

/* Reads each page once, in one pass: the shim must not map the file. */
static void pass(void)
{
	uint8_t block[512];
	int fd = file_open(file_path);

	while (read(fd, block, sizeof(block)) > 0)
		;
	for (off_t at = 0; pread(fd, block, sizeof(block), at) > 0; at += sizeof(block))
		if ((uint64_t)at > file_bytes(fd) / 2)
			break; /* with the first pass, one and a half */
	close(fd);
}

static void errno_kept(void)
{
	struct rlimit limit;
	uint8_t byte;
	int fd = file_open(file_path), nothing = file_open("/dev/zero");

	for (int i = 0; i < 3000; i++) {
		errno = 4711;
		NEED(pread(fd, &byte, 1, i * 4097 % 100000) == 1, "%s",
		     strerror(errno));
		NEED(errno == 4711, "%d", errno);
		NEED(read(nothing, &byte, 1) == 1 && errno == 4711, "%d", errno);
	}
	NEED(read(-1, &byte, 1) == -1 && errno == EBADF, "%d", errno);
	NEED(pread(fd, &byte, 1, -1) == -1 && errno == EINVAL, "%d", errno);
	/* From here on there are no more descriptors, not for the shim either. */
	NEED(getrlimit(RLIMIT_NOFILE, &limit) == 0, "%s", strerror(errno));
	limit.rlim_cur = (rlim_t)nothing + 1;
	NEED(setrlimit(RLIMIT_NOFILE, &limit) == 0, "%s", strerror(errno));
	errno = 4711;
	NEED(close(fd) == 0 && errno == 4711, "%d", errno);
	NEED(close(fd) == -1 && errno == EBADF, "%d", errno);
}

static int wait_for(pid_t pid)
{
	int status;

	NEED(pid > 0 && waitpid(pid, &status, 0) == pid, "%s", strerror(errno));
	return status;
}

static void forked(void)
{
	int fd = file_open(file_path);
	pid_t pid;

	read_often(fd);
	need_mapped(file_path, true);
	pid = fork();
	if (pid == 0) {
		need_unmapped(file_path); /* the parent's are not copied */
		read_often(fd);
		need_mapped(file_path, true);
		close(fd);
		need_unmapped(file_path);
		_exit(0);
	}
	NEED(wait_for(pid) == 0, "child");
	need_mapped(file_path, true);
	/* This child shares memory, but not descriptors. */
	pid = vfork();
	if (pid == 0) {
		close(fd);
		_exit(0);
	}
	NEED(wait_for(pid) == 0, "child");
	need_mapped(file_path, true);
	read_often(fd);
	close(fd);
}

static void shortened(void)
{
	uint8_t block[BLOCK];
	int fd = file_open(file_path);
	uint64_t bytes = file_bytes(fd);

	read_often(fd);
	need_mapped(file_path, true);
	NEED(truncate(file_path, BLOCK + 10) == 0, "%s", strerror(errno));
	NEED(pread(fd, block, BLOCK, BLOCK) == 10 && bytes_right(block, BLOCK, 10),
	     "end");
	NEED(pread(fd, block, BLOCK, 5 * BLOCK) == 0, "behind the end");
	read_often(fd);
	NEED(truncate(file_path, 0) == 0, "%s", strerror(errno));
	NEED(pread(fd, block, BLOCK, 0) == 0, "empty");
	file_make(file_path, 2 * bytes);
	read_often(fd);
	need_mapped(file_path, true); /* the larger half too */
	NEED(unlink(file_path) == 0, "%s", strerror(errno));
	NEED(pread(fd, block, BLOCK, 0) == BLOCK && bytes_right(block, 0, BLOCK),
	     "gone");
	close(fd);
}

/* Locks of either kind go when they would have gone, and no sooner. */
static void locks(void)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	int fd = file_open(file_path), again;
	pid_t pid;

	NEED(flock(fd, LOCK_EX) == 0 && fcntl(fd, F_SETLK, &lock) == 0, "%s",
	     strerror(errno));
	read_often(fd);
	need_mapped(file_path, true);
	pid = fork();
	if (pid == 0) {
		lock.l_type = F_WRLCK;
		close(fd);
		fd = open(file_path, O_RDWR);
		NEED(fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_RDLCK,
		     "the fcntl() lock is lost");
		NEED(flock(fd, LOCK_EX | LOCK_NB) != 0, "the flock() lock is lost");
		_exit(0);
	}
	NEED(wait_for(pid) == 0, "child");
	close(fd);
	again = file_open(file_path);
	NEED(flock(again, LOCK_EX | LOCK_NB) == 0, "the closed file is still locked");
	close(again);
}

/* Opens data files as standard descriptors: the report must not go into one of them. */
static void standard(void)
{
	char path[PATH_BYTES];
	int fd;

	snprintf(path, sizeof(path), "%s.out", file_path);
	complain_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100);
	for (fd = 0; fd <= 2; fd++)
		close(fd);
	for (fd = 0; fd <= 1; fd++) {
		NEED(open(file_path, O_RDONLY) == fd, "%s", strerror(errno));
		read_often(fd);
		need_mapped(file_path, true);
	}
	NEED(open(path, O_RDWR | O_CREAT | O_TRUNC, 0666) == 2, "%s", strerror(errno));
	NEED(write(2, "data", 4) == 4, "%s", strerror(errno));
	read_often(1);
	_exit(0);
}

static void limited(void)
{
	const struct rlimit limit = { UINT64_C(1) << 33, RLIM_INFINITY };
	int fd = file_open(file_path);

	NEED(setrlimit(RLIMIT_AS, &limit) == 0, "%s", strerror(errno));
	read_often(fd);
	need_unmapped(file_path);
	close(fd);
}

static void dropped(void)
{
	unsigned char in_memory[16];
	int fd = file_open(file_path);
	uint8_t *p;

	fsync(fd);
	read_often(fd);
	need_mapped(file_path, true);
	NEED(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0, "fadvise");
	need_unmapped(file_path);
	p = mmap(NULL, sizeof(in_memory) * BLOCK, PROT_READ, MAP_SHARED, fd, 0);
	NEED(mincore(p, sizeof(in_memory) * BLOCK, in_memory) == 0, "%s",
	     strerror(errno));
	munmap(p, sizeof(in_memory) * BLOCK);
	read_often(fd);
	need_mapped(file_path, true);
	if (mlockall(MCL_CURRENT) == 0)
		munlockall();
	need_unmapped(file_path);
}

/* Opens the files %s.0, %s.1 ... all at once, reads each often, then each once more. */
static void many(int nr)
{
	char path[PATH_BYTES + 16];
	int *fds = calloc((size_t)nr, sizeof(*fds));

	for (int i = 0; i < nr; i++) {
		snprintf(path, sizeof(path), "%s.%d", file_path, i);
		file_make(path, 5 * BLOCK);
		fds[i] = file_open(path);
	}
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < nr; i++)
			read_often(fds[i]);
	for (int i = 0; i < nr; i++) {
		snprintf(path, sizeof(path), "%s.%d", file_path, i);
		close(fds[i]);
		unlink(path);
	}
	free(fds);
}

/* Reads one file between all the others: the shim must never throw it out for them. */
static void hot(int nr)
{
	char path[PATH_BYTES + 16];
	uint8_t byte;
	int fd, other;

	file_make(file_path, 5 * BLOCK);
	fd = file_open(file_path);
	read_often(fd);
	for (int i = 0; i < nr; i++) {
		snprintf(path, sizeof(path), "%s.%d", file_path, i);
		file_make(path, 5 * BLOCK);
		other = file_open(path);
		for (int round = 0; round < ROUNDS; round++) {
			read_through(other, false);
			NEED(pread(fd, &byte, 1, 0) == 1, "%s", strerror(errno));
		}
		need_mapped(path, true);
		need_mapped(file_path, true);
	}
}

struct thread {
	pthread_t id;
	uint64_t random;
	uint64_t reads;
	int shared_fd;
};

/* Reads at random, from a descriptor of its own and from one that all share, which it
 * closes and opens now and then. */
static void *thread_run(void *arg)
{
	struct thread *t = arg;
	uint8_t bytes[3 * BLOCK];
	char path[PATH_BYTES + 16];
	int fd = -1;

	for (uint64_t i = 0; i < t->reads; i++) {
		uint64_t r = random_next(&t->random);
		uint64_t at, n = 1 + (r >> 32) % sizeof(bytes);
		int from = r & 1 ? t->shared_fd : fd;
		ssize_t got;

		if (fd < 0 || r % 300 == 0) {
			if (fd >= 0)
				NEED(close(fd) == 0, "%s", strerror(errno));
			snprintf(path, sizeof(path), "%s.%d", file_path,
			         (int)(r >> 8 & 3));
			fd = file_open(path);
			continue;
		}
		at = (r >> 16) % file_bytes(fd);
		if (from == fd && r & 2) {
			NEED(lseek(fd, (off_t)at, SEEK_SET) == (off_t)at, "lseek");
			got = read(fd, bytes, n);
		} else {
			got = pread(from, bytes, n, (off_t)at);
		}
		NEED(got > 0 && bytes_right(bytes, at, (size_t)got), "%zd at %llu", got,
		     (unsigned long long)at);
	}
	close(fd);
	return NULL;
}

static char handler_path[PATH_BYTES + 16];
static u64 handled; /* calls, of any thread */

/* A signal handler may call open, pread and close. */
static void on_alarm(int signal)
{
	uint8_t byte;
	int error = errno, fd = open(handler_path, O_RDONLY);

	(void)signal;
	for (int i = 0; i < ROUNDS; i++)
		NEED(pread(fd, &byte, 1, i) == 1 && byte == byte_at((uint64_t)i),
		     "handler");
	close(fd);
	host_fetch_add(&handled, 1);
	errno = error;
}

static void threads(int nr, uint64_t reads)
{
	const struct itimerval often = { { 0, 700 }, { 0, 700 } }, never = { 0 };
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct thread all[MAX_THREADS] = { 0 };
	char path[PATH_BYTES + 16];
	int shared;

	NEED(nr <= MAX_THREADS, "%d", nr);
	dprintf(STDOUT_FILENO, "seed=%llu\n", (unsigned long long)seed);
	for (int i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s.%d", file_path, i);
		file_make(path, UINT64_C(3) << 20);
	}
	strcpy(handler_path, path);
	shared = file_open(path);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < nr; i++) {
		all[i].random = seed * MAX_THREADS + (uint64_t)i;
		all[i].reads = reads;
		all[i].shared_fd = shared;
		NEED(pthread_create(&all[i].id, NULL, thread_run, &all[i]) == 0,
		     "thread");
	}
	for (int i = 0; i < nr; i++) {
		NEED(wait_for(fork() ?: (_exit(0), 0)) == 0, "child");
		pthread_join(all[i].id, NULL);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	NEED(host_load_relaxed(&handled) > 0, "no signal came");
	close(shared);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} tests[] = {
		{ "plain", plain },     { "ways", ways },
		{ "pass", pass },       { "errno", errno_kept },
		{ "fork", forked },     { "short", shortened },
		{ "locks", locks },     { "standard", standard },
		{ "limited", limited }, { "dropped", dropped },
	};
	const char *way = argc > 3 ? argv[1] : "";

	NEED(argc > 3, "usage: map_reader WAY FILE mapped|plain [NR [READS [SEED]]]");
	file_path = argv[2];
	mapped = strcmp(argv[3], "mapped") == 0;
	seed = argc > 6 ? strtoull(argv[6], NULL, 10) : 1;
	if (strcmp(way, "many") == 0) {
		many(atoi(argv[4]));
		return 0;
	}
	if (strcmp(way, "hot") == 0) {
		hot(atoi(argv[4]));
		return 0;
	}
	if (strcmp(way, "threads") == 0) {
		threads(atoi(argv[4]), strtoull(argv[5], NULL, 10));
		return 0;
	}
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		if (strcmp(tests[i].name, way) == 0) {
			file_make(file_path, 100 * BLOCK - 77);
			tests[i].run();
			return 0;
		}
	NEED(false, "no way '%s'", way);
}
