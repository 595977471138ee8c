/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Mappings in a program of one thread: the ways of run_reader.c for `lodic run --mmap`. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>

#include "tests/run/run_maps.h"

#define SERVED_SECONDS 20

const char *big_path(unsigned int n)
{
	static _Thread_local char path[4096];

	snprintf(path, sizeof(path), "%s/big%u", folder, n);
	return path;
}

void big_write(int fd, unsigned int g)
{
	static uint8_t bytes[BIG_BYTES];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = file_byte(g, i);
	NEED(pwrite(fd, bytes, sizeof(bytes), 0) == BIG_BYTES, "%s", strerror(errno));
}

int big_open(unsigned int n)
{
	int fd = open(big_path(n), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd >= 0) {
		big_write(fd, n);
		close(fd);
	}
	fd = open(big_path(n), O_RDONLY | O_CLOEXEC);
	NEED(fd >= 0, "%s: %s", big_path(n), strerror(errno));
	return fd;
}

bool is_hold(const void *at)
{
	unsigned long first, last;
	bool found = false;
	char line[4200];
	FILE *f = fopen("/proc/self/maps", "re");

	NEED(f, "/proc/self/maps: %s", strerror(errno));
	while (!found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%lx-%lx", &first, &last) == 2 &&
		        (unsigned long)at >= first && (unsigned long)at < last;
	fclose(f);
	NEED(found, "nothing is mapped at %p", at);
	return strstr(line, "lodic-hold") != NULL;
}

void see(const uint8_t *p, size_t n, unsigned int g, size_t offset)
{
	for (size_t i = 0; i < n; i += i % BLOCK < 32 ? 1 : 61) {
		size_t at = offset + i;
		uint8_t want = at < BIG_BYTES ? file_byte(g, at) : 0;

		NEED(p[i] == want, "byte %zu of %u is %u, not %u", at, g, p[i], want);
	}
}

uint8_t *map_served(int fd, void *address, size_t n, int flags, off_t offset)
{
	time_t end = time(NULL) + SERVED_SECONDS;
	uint8_t *p;

	for (;;) {
		errno = 77;
		p = mmap(address, n, PROT_READ, flags, fd, offset);
		NEED(p != MAP_FAILED, "%s", strerror(errno));
		NEED(errno == 77, "errno %d", errno);
		if (!cached || is_hold(p))
			return p;
		NEED(time(NULL) < end, "mmap() is not served");
		/* What lies below MAP_FIXED must stay. */
		if (!(flags & MAP_FIXED))
			munmap(p, n);
	}
}

uint8_t *map_all(int fd)
{
	return map_served(fd, NULL, BIG_BYTES, MAP_PRIVATE, 0);
}

sigjmp_buf fault_jump;

void fault_caught(int number)
{
	siglongjmp(fault_jump, number);
}

int fault_of(const volatile uint8_t *p)
{
	struct sigaction act = { .sa_handler = fault_caught }, bus, segv;
	int number;

	sigaction(SIGBUS, &act, &bus);
	sigaction(SIGSEGV, &act, &segv);
	number = sigsetjmp(fault_jump, 1);
	if (number == 0)
		(void)*p;
	sigaction(SIGBUS, &bus, NULL);
	sigaction(SIGSEGV, &segv, NULL);
	return number;
}

static void way_bytes(void)
{
	const int more[] = { 0, MAP_POPULATE, MAP_POPULATE | MAP_NONBLOCK,
		             MAP_NORESERVE };
	int fd = big_open(1);
	uint8_t *p = map_all(fd), *q;

	see(p, BIG_PAGES_BYTES, 1, 0);
	for (size_t page = 0; page < BIG_BLOCKS; page += 37)
		for (size_t n = 1; page * BLOCK + n <= BIG_PAGES_BYTES; n = n * 3 + 5) {
			q = map_served(fd, NULL, n, MAP_PRIVATE | more[n % 4],
			               (off_t)(page * BLOCK));
			see(q, n, 1, page * BLOCK);
			NEED(munmap(q, n) == 0, "%s", strerror(errno));
		}
	q = mmap64(NULL, BLOCK, PROT_READ, MAP_PRIVATE, fd, 5 * BLOCK);
	NEED(q != MAP_FAILED && is_hold(q) == cached, "mmap64");
	see(q, BLOCK, 1, 5 * BLOCK);
	/* The last page, to its end. */
	q = map_served(fd, NULL, BLOCK, MAP_PRIVATE, BIG_PAGES_BYTES - BLOCK);
	see(q, BLOCK, 1, BIG_PAGES_BYTES - BLOCK);
	close(fd);
	see(p, BIG_PAGES_BYTES, 1, 0);
	fd = big_open(PROMISED);
	q = map_served(fd, NULL, BIG_BYTES, MAP_SHARED, 0);
	see(q, BIG_PAGES_BYTES, PROMISED, 0);
}

static void way_parts(void)
{
	const size_t from = 7, pages = 20, all = pages * BLOCK;
	int fd = big_open(1);
	uint8_t *p = map_served(fd, NULL, all, MAP_PRIVATE, (off_t)(from * BLOCK));
	uint8_t *place, *q;

	close(fd);
	NEED(munmap(p + 4 * BLOCK, 3 * BLOCK) == 0, "%s", strerror(errno));
	see(p, 4 * BLOCK, 1, from * BLOCK);
	see(p + 7 * BLOCK, all - 7 * BLOCK, 1, (from + 7) * BLOCK);
	NEED(fault_of(p + 5 * BLOCK) == SIGSEGV, "a hole");
	/* Shorter, elsewhere, and longer: what comes are the file's next pages. */
	NEED(mremap(p + 7 * BLOCK, all - 7 * BLOCK, 2 * BLOCK, 0) == p + 7 * BLOCK,
	     "%s", strerror(errno));
	NEED(fault_of(p + 9 * BLOCK) == SIGSEGV, "cut off");
	q = mremap(p, 4 * BLOCK, (BIG_BLOCKS - from) * BLOCK, MREMAP_MAYMOVE);
	NEED(q != MAP_FAILED, "%s", strerror(errno));
	see(q, (BIG_BLOCKS - from) * BLOCK, 1, from * BLOCK);
	NEED(is_hold(q) == cached, "it moved");
	place = mmap(NULL, BIG_PAGES_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
	             0);
	NEED(mremap(q, (BIG_BLOCKS - from) * BLOCK, BIG_PAGES_BYTES,
	            MREMAP_MAYMOVE | MREMAP_FIXED, place) == place,
	     "%s", strerror(errno));
	see(place, (BIG_BLOCKS - from) * BLOCK, 1, from * BLOCK);
	NEED(fault_of(place + (BIG_BLOCKS - from) * BLOCK) == SIGBUS, "behind the end");
	NEED(fault_of(q) == SIGSEGV, "it has moved away");
	see(p + 7 * BLOCK, 2 * BLOCK, 1, (from + 7) * BLOCK);
}

static void way_fixed(void)
{
	int fd = big_open(1), other = big_open(2);
	uint8_t *p = mmap(NULL, BIG_PAGES_BYTES, PROT_READ | PROT_WRITE,
	                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *q;

	memset(p, 0xaa, BIG_PAGES_BYTES);
	q = map_served(fd, p + 2 * BLOCK, 9 * BLOCK - 1, MAP_PRIVATE | MAP_FIXED,
	               3 * BLOCK);
	NEED(q == p + 2 * BLOCK, "%p", (void *)q);
	see(q, 9 * BLOCK, 1, 3 * BLOCK);
	NEED(p[2 * BLOCK - 1] == 0xaa && p[11 * BLOCK] == 0xaa, "beside it");
	/* A piece of another file in the middle of it. */
	map_served(other, q + BLOCK, BLOCK, MAP_PRIVATE | MAP_FIXED, 400 * BLOCK);
	see(q, BLOCK, 1, 3 * BLOCK);
	see(q + BLOCK, BLOCK, 2, 400 * BLOCK);
	see(q + 2 * BLOCK, 7 * BLOCK, 1, 5 * BLOCK);
	errno = 77;
	NEED(mmap(q, BLOCK, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0) ==
	                     MAP_FAILED &&
	             errno == EEXIST,
	     "errno %d", errno);
	see(q, BLOCK, 1, 3 * BLOCK);
	NEED(mmap(q + 1, BLOCK, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) ==
	                     MAP_FAILED &&
	             errno == EINVAL,
	     "errno %d", errno);
	munmap(p, BIG_PAGES_BYTES);
	/* An address that is only wished for. */
	NEED(map_served(fd, p, 4 * BLOCK, MAP_PRIVATE, 0) == p, "a free place");
	see(p, 4 * BLOCK, 1, 0);
}

static void way_write(void)
{
	int fd = big_open(1), shared = big_open(PROMISED);
	uint8_t *p = map_all(fd), *other = map_all(fd), byte;
	pid_t child;

	NEED(mprotect(p + BLOCK, 2 * BLOCK, PROT_READ | PROT_WRITE) == 0, "%s",
	     strerror(errno));
	memset(p + BLOCK, 0x55, BLOCK);
	see(p, BLOCK, 1, 0);
	see(p + 2 * BLOCK, BIG_PAGES_BYTES - 2 * BLOCK, 1, 2 * BLOCK);
	see(other, BIG_PAGES_BYTES, 1, 0);
	NEED(pread(fd, &byte, 1, BLOCK) == 1 && byte == file_byte(1, BLOCK),
	     "the file");
	child = fork();
	if (child == 0) {
		NEED(p[BLOCK] == 0x55, "the child's");
		memset(p + BLOCK, 0x66, 2 * BLOCK);
		_exit(0);
	}
	wait_for(child);
	NEED(p[BLOCK] == 0x55 && p[2 * BLOCK - 1] == 0x55, "the parent's");
	see(p + 2 * BLOCK, BLOCK, 1, 2 * BLOCK);
	NEED(mprotect(p, BIG_BYTES, PROT_READ) == 0, "%s", strerror(errno));
	NEED(fault_of(p + BLOCK) == 0 && p[BLOCK] == 0x55, "read only again");
	NEED(madvise(p + BLOCK, BLOCK, MADV_DONTNEED) == 0, "%s", strerror(errno));
	see(p, BIG_PAGES_BYTES, 1, 0);
	NEED(mprotect(p, BLOCK, PROT_READ | PROT_EXEC) == 0, "%s", strerror(errno));
	see(p, BLOCK, 1, 0);
	p = map_served(shared, NULL, BIG_BYTES, MAP_SHARED, 0);
	NEED(mprotect(p, BLOCK, PROT_READ | PROT_WRITE) == -1 && errno == EACCES,
	     "errno %d", errno);
}

/* A mapping to write to from the start: numpy's mode "c", Python's ACCESS_COPY. */
static void way_copy(void)
{
	int fd = big_open(1);
	uint8_t *other = map_all(fd), *p, byte;
	pid_t child;

	p = mmap(NULL, BIG_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	NEED(p != MAP_FAILED && is_hold(p) == cached, "a private one to write to");
	see(p, BIG_PAGES_BYTES, 1, 0);
	memset(p + BLOCK, 0x55, BLOCK);
	NEED(p[BLOCK] == 0x55 && other[BLOCK] == file_byte(1, BLOCK), "its own page");
	NEED(pread(fd, &byte, 1, BLOCK) == 1 && byte == file_byte(1, BLOCK),
	     "the file");
	child = fork();
	if (child == 0) {
		memset(p + BLOCK, 0x66, 2 * BLOCK);
		_exit(0);
	}
	wait_for(child);
	NEED(p[BLOCK] == 0x55, "the parent's");
	see(p + 2 * BLOCK, BIG_PAGES_BYTES - 2 * BLOCK, 1, 2 * BLOCK);
	/* The program's page goes, and the file's comes. */
	NEED(madvise(p + BLOCK, BLOCK, MADV_DONTNEED) == 0, "%s", strerror(errno));
	see(p, BIG_PAGES_BYTES, 1, 0);
	p = mmap(p + 4 * BLOCK, 4 * BLOCK, PROT_READ | PROT_WRITE,
	         MAP_PRIVATE | MAP_FIXED, fd, 9 * BLOCK);
	NEED(p != MAP_FAILED && is_hold(p) == cached, "at an address");
	p[0] ^= 0xff;
	see(p + BLOCK, 3 * BLOCK, 1, 10 * BLOCK);
}

static void way_advice(void)
{
	static const int advice[] = { MADV_NORMAL,    MADV_RANDOM,   MADV_SEQUENTIAL,
		                      MADV_WILLNEED,  MADV_DONTNEED, MADV_DONTDUMP,
		                      MADV_DONTFORK,  MADV_DOFORK,   MADV_POPULATE_READ,
		                      MADV_NOHUGEPAGE };
	uint8_t *p = map_all(big_open(1)), there[BIG_BLOCKS];

	for (size_t i = 0; i < LENGTH(advice); i++) {
		NEED(madvise(p, BIG_BYTES, advice[i]) == 0, "advice %d: %s", advice[i],
		     strerror(errno));
		see(p, BIG_PAGES_BYTES, 1, 0);
	}
	NEED(madvise(p, BIG_BYTES, MADV_FREE) == -1 && errno == EINVAL, "errno %d",
	     errno);
	NEED(madvise(p, BIG_BYTES, MADV_REMOVE) == -1 && errno == EACCES, "errno %d",
	     errno);
	NEED(msync(p, BIG_BYTES, MS_SYNC) == 0 && msync(p, BIG_BYTES, MS_ASYNC) == 0 &&
	             msync(p, BIG_BYTES, MS_INVALIDATE) == 0,
	     "%s", strerror(errno));
	NEED(mincore(p, BIG_BYTES, there) == 0 && there[0] & 1, "%s", strerror(errno));
	NEED(mlock(p, 4 * BLOCK) == 0 && munlock(p, 4 * BLOCK) == 0, "%s",
	     strerror(errno));
	see(p, BIG_PAGES_BYTES, 1, 0);
}

void map_kernel(int fd, size_t n, int protection, int flags, unsigned int g,
                off_t offset)
{
	size_t left = BIG_PAGES_BYTES - (size_t)offset;
	uint8_t *p = mmap(NULL, n, protection, flags, fd, offset);

	NEED(p != MAP_FAILED, "%s", strerror(errno));
	NEED(!is_hold(p), "it is served");
	if (protection & PROT_READ)
		see(p, n < left ? n : left, g, (size_t)offset);
	if (n > left && protection & PROT_READ)
		NEED(fault_of(p + left) == SIGBUS, "behind the end");
	munmap(p, n);
}

/* test_run_maps.py knows how many of these there are of each kind. */
static void way_not_served(void)
{
	int fd = big_open(1), both = open(big_path(1), O_RDWR | O_CLOEXEC), small;
	uint8_t *p, *q, byte = 0x77;

	map_kernel(both, BIG_BYTES, PROT_READ, MAP_PRIVATE, 1, 0);
	close(both);
	map_all(fd);
	map_kernel(fd, BIG_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, 1, 0);
	map_kernel(fd, BIG_BYTES, PROT_NONE, MAP_PRIVATE, 1, 0);
	map_kernel(fd, BIG_BYTES, PROT_READ, MAP_PRIVATE | MAP_LOCKED, 1, 0);
	map_kernel(fd, BIG_PAGES_BYTES + 1, PROT_READ, MAP_PRIVATE, 1, 0);
	map_kernel(fd, 2 * BLOCK, PROT_READ, MAP_PRIVATE, 1, BIG_PAGES_BYTES - BLOCK);
	p = mmap(NULL, BLOCK, PROT_READ, MAP_PRIVATE, fd, (off_t)1 << 40);
	NEED(p != MAP_FAILED && fault_of(p) == SIGBUS, "behind the end");
	small = file_open(1);
	p = mmap(NULL, FILE_BYTES, PROT_READ, MAP_PRIVATE, small, 0);
	NEED(p != MAP_FAILED && !is_hold(p) && p[BLOCK] == file_byte(1, BLOCK),
	     "small");
	close(small);
	/* A shared mapping of which nothing was promised shows what others write. */
	p = mmap(NULL, BIG_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	q = map_all(fd);
	NEED(p != MAP_FAILED && !is_hold(p), "shared");
	both = open(big_path(1), O_RDWR | O_CLOEXEC);
	NEED(pwrite(both, &byte, 1, 3 * BLOCK) == 1 && p[3 * BLOCK] == byte, "shared");
	if (cached) /* a snapshot; without a cache it is for the kernel to say */
		see(q, BIG_PAGES_BYTES, 1, 0);
	close(both);
	close(fd);
	fd = big_open(2);
	map_all(fd);
	NEED(flock(fd, LOCK_SH) == 0, "%s", strerror(errno));
	map_kernel(fd, BIG_BYTES, PROT_READ, MAP_PRIVATE, 2, 0);
}

/* The same errors, and no more than that. */
static void way_errors(void)
{
	int fd = big_open(1), writes = open(big_path(1), O_WRONLY), closed = dup(fd);
	int place = open(folder, O_RDONLY | O_DIRECTORY), ends[2];
	struct {
		int fd, protection, flags, error;
		size_t n;
		off_t offset;
	} wrong[] = {
		{ fd, PROT_READ, MAP_PRIVATE, EINVAL, 0, 0 },
		{ fd, PROT_READ, MAP_PRIVATE, EINVAL, BLOCK, 1 },
		{ fd, PROT_READ, MAP_PRIVATE, EINVAL, BLOCK, -BLOCK + 1 },
		{ fd, PROT_READ, 0, EINVAL, BLOCK, 0 },
		{ fd, PROT_READ, MAP_PRIVATE, ENOMEM, SIZE_MAX - BLOCK, 0 },
		{ fd, PROT_READ, MAP_PRIVATE, EOVERFLOW, BLOCK, INT64_MAX - BLOCK + 1 },
		{ fd, PROT_READ | PROT_WRITE, MAP_SHARED, EACCES, BLOCK, 0 },
		{ writes, PROT_READ, MAP_PRIVATE, EACCES, BLOCK, 0 },
		{ closed, PROT_READ, MAP_PRIVATE, EBADF, BLOCK, 0 },
		{ 1 << 20, PROT_READ, MAP_PRIVATE, EBADF, BLOCK, 0 },
		{ -1, PROT_READ, MAP_PRIVATE, EBADF, BLOCK, 0 },
		{ place, PROT_READ, MAP_PRIVATE, ENODEV, BLOCK, 0 },
		{ 0, PROT_READ, MAP_PRIVATE, ENODEV, BLOCK, 0 },
	};

	NEED(pipe(ends) == 0, "pipe");
	wrong[LENGTH(wrong) - 1].fd = ends[0];
	close(closed);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < LENGTH(wrong); i++) {
			errno = 77;
			NEED(mmap(NULL, wrong[i].n, wrong[i].protection, wrong[i].flags,
			          wrong[i].fd, wrong[i].offset) == MAP_FAILED,
			     "case %zu", i);
			NEED(errno == wrong[i].error, "case %zu: errno %d", i, errno);
		}
		if (writes >= 0)
			close(writes);
		wrong[7] = wrong[8];
		writes = -1;
		map_all(fd);
	}
}

const struct way map_ways[] = {
	{ "map_bytes", way_bytes },
	{ "map_parts", way_parts },
	{ "map_fixed", way_fixed },
	{ "map_write", way_write },
	{ "map_copy", way_copy },
	{ "map_advice", way_advice },
	{ "map_not_served", way_not_served },
	{ "map_errors", way_errors },
	{ NULL, NULL },
};
