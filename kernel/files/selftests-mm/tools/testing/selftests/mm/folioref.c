// SPDX-License-Identifier: GPL-2.0
/*
 * Readers of the page cache count their references where vm.folioref says. This test
 * looks at the counters of LODIC, whose readers count in page table entries of their
 * own process. It needs root, and a kernel with CONFIG_LODIC.
 *
 * The counters are the machine's, so other readers add to them. The test therefore
 * asks for at least so many where it reads often, and for few where there may be none.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../kselftest_harness.h"

#define FOLIOREF "/proc/sys/vm/folioref"
#define MAPPERS "/proc/sys/vm/lodic_mappers"
#define PAGES 4
#define READS 4000
#define ROUNDS 400
#define READERS 2
#define QUIET_TRIES 50

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

static long read_number(const char *path)
{
	long n = -1;
	FILE *f = fopen(path, "r");

	if (!f)
		return -1;
	if (fscanf(f, "%ld", &n) != 1)
		n = -1;
	fclose(f);
	return n;
}

static int write_number(const char *path, long n)
{
	FILE *f = fopen(path, "w");
	int err;

	if (!f)
		return -1;
	err = fprintf(f, "%ld\n", n) < 0;
	err |= fclose(f);
	return err ? -1 : 0;
}

static long read_vmstat(const char *name)
{
	FILE *f = fopen("/proc/vmstat", "r");
	char found[64];
	long n, value = -1;

	if (!f)
		return -1;
	while (value < 0 && fscanf(f, "%63s %ld", found, &n) == 2)
		if (!strcmp(found, name))
			value = n;
	fclose(f);
	return value;
}

/* Each local reference was given back, and each folded one globally. */
static bool sums_hold(void)
{
	int tries;

	/* Other readers may be inside a read: then look again. */
	for (tries = 0; tries < QUIET_TRIES; tries++) {
		long global = read_vmstat("lodic_unref_global");

		if (read_vmstat("lodic_ref") == read_vmstat("lodic_unref") + global &&
		    read_vmstat("lodic_folded") == global)
			return true;
		usleep(20000);
	}
	return false;
}

static char byte_at(size_t offset)
{
	return 1 + offset % 251;
}

FIXTURE(folioref)
{
	long folioref, mappers;
	size_t page, bytes;
	int fd;
	char *map;
};

static bool other_scheme(void)
{
	char line[4096] = "";
	int fd = open("/proc/cmdline", O_RDONLY);
	ssize_t n = read(fd, line, sizeof(line) - 1);
	char *word;

	close(fd);
	word = n > 0 ? strstr(line, "folioref=") : NULL;
	if (!word)
		return false;
	word += strlen("folioref=");
	return strncmp(word, "lodic", 5) && strncmp(word, "vanilla", 7);
}

/* Returns a file of that length, or -1. */
static int make_file(size_t bytes)
{
	char path[] = "folioref.tmp.XXXXXX";
	char *text = malloc(bytes);
	int fd = mkstemp(path);
	ssize_t n;
	size_t i;

	unlink(path);
	if (fd < 0 || !text)
		return -1;
	for (i = 0; i < bytes; i++)
		text[i] = byte_at(i);
	n = write(fd, text, bytes);
	free(text);
	return n == (ssize_t)bytes && !fsync(fd) ? fd : -1;
}

FIXTURE_SETUP(folioref)
{
	self->folioref = read_number(FOLIOREF);
	self->mappers = read_number(MAPPERS);
	if (self->folioref < 0 || self->mappers < 0 || read_vmstat("lodic_ref") < 0)
		SKIP(return, "no CONFIG_LODIC");
	if (geteuid())
		SKIP(return, "not root");
	if (other_scheme())
		SKIP(return, "another scheme was chosen by folioref=");
	if (write_number(FOLIOREF, 1))
		SKIP(return, "vm.folioref does not turn on");
	ASSERT_EQ(write_number(MAPPERS, 1), 0);
	self->page = sysconf(_SC_PAGESIZE);
	self->bytes = PAGES * self->page;
	self->fd = make_file(self->bytes);
	ASSERT_GE(self->fd, 0);
	self->map = mmap(NULL, self->bytes, PROT_READ, MAP_SHARED, self->fd, 0);
	ASSERT_NE(self->map, MAP_FAILED);
	ASSERT_EQ(madvise(self->map, self->bytes, MADV_POPULATE_READ), 0);
}

FIXTURE_TEARDOWN(folioref)
{
	munmap(self->map, self->bytes);
	close(self->fd);
	write_number(MAPPERS, self->mappers);
	write_number(FOLIOREF, self->folioref);
}

/* Reads a few bytes so often; returns how many were wrong, or not read. */
static int read_often(int fd, size_t page, int reads)
{
	char got[64];
	int i, bad = 0;
	size_t j;

	for (i = 0; i < reads; i++) {
		size_t offset = i % PAGES * page + i % 100;

		if (pread(fd, got, sizeof(got), offset) != sizeof(got)) {
			bad++;
			continue;
		}
		for (j = 0; j < sizeof(got); j++)
			bad += got[j] != byte_at(offset + j);
	}
	return bad;
}

TEST_F(folioref, mapped_pages_are_counted_locally)
{
	long ref = read_vmstat("lodic_ref");

	EXPECT_EQ(read_often(self->fd, self->page, READS), 0);
	EXPECT_GE(read_vmstat("lodic_ref") - ref, READS * 9 / 10);
	EXPECT_TRUE(sums_hold());
}

TEST_F(folioref, other_pages_are_not)
{
	long ref;

	ASSERT_EQ(munmap(self->map, self->bytes), 0);
	ref = read_vmstat("lodic_ref");
	EXPECT_EQ(read_often(self->fd, self->page, READS), 0);
	EXPECT_LT(read_vmstat("lodic_ref") - ref, READS / 2);
}

TEST_F(folioref, pages_mapped_by_too_few_are_not)
{
	long ref;

	ASSERT_EQ(write_number(MAPPERS, 2), 0);
	ref = read_vmstat("lodic_ref");
	EXPECT_EQ(read_often(self->fd, self->page, READS), 0);
	EXPECT_LT(read_vmstat("lodic_ref") - ref, READS / 2);
}

TEST_F(folioref, nothing_is_when_switched_off)
{
	long ref;

	ASSERT_EQ(write_number(FOLIOREF, 0), 0);
	ref = read_vmstat("lodic_ref");
	EXPECT_EQ(read_often(self->fd, self->page, READS), 0);
	EXPECT_EQ(read_vmstat("lodic_ref"), ref);
	EXPECT_TRUE(sums_hold());
}

/* -- one reader stops in its copy, at memory whose faults we answer ---------------- */

struct stopped {
	int fd, uffd;
	char *to;
	size_t page;
	ssize_t n;
};

static void *stopped_read(void *arg)
{
	struct stopped *s = arg;

	s->n = pread(s->fd, s->to, s->page, 0);
	return NULL;
}

static int stopped_init(struct stopped *s)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	s->to = mmap(NULL, s->page, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s->to == MAP_FAILED)
		return -1;
	reg.range.start = (unsigned long)s->to;
	reg.range.len = s->page;
	s->uffd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (s->uffd < 0 || ioctl(s->uffd, UFFDIO_API, &api))
		return -1;
	return ioctl(s->uffd, UFFDIO_REGISTER, &reg);
}

TEST_F(folioref, an_unmapped_page_keeps_its_reader)
{
	struct stopped s = { .fd = self->fd, .page = self->page };
	struct uffdio_zeropage zero = { };
	long folded, global;
	struct pollfd p;
	pthread_t thread;
	size_t i;

	if (stopped_init(&s))
		SKIP(return, "no userfaultfd");
	folded = read_vmstat("lodic_folded");
	global = read_vmstat("lodic_unref_global");
	ASSERT_EQ(pthread_create(&thread, NULL, stopped_read, &s), 0);
	p = (struct pollfd){ .fd = s.uffd, .events = POLLIN };
	ASSERT_EQ(poll(&p, 1, 10000), 1);

	/* The reader holds the first page now. Its reference must not get lost. */
	ASSERT_EQ(munmap(self->map, self->bytes), 0);
	EXPECT_GE(read_vmstat("lodic_folded") - folded, 1);

	zero.range.start = (unsigned long)s.to;
	zero.range.len = s.page;
	ASSERT_EQ(ioctl(s.uffd, UFFDIO_ZEROPAGE, &zero), 0);
	ASSERT_EQ(pthread_join(thread, NULL), 0);
	EXPECT_GE(read_vmstat("lodic_unref_global") - global, 1);
	ASSERT_EQ(s.n, (ssize_t)s.page);
	for (i = 0; i < s.page && s.to[i] == byte_at(i); i++)
		;
	EXPECT_EQ(i, s.page);
	EXPECT_TRUE(sums_hold());
	close(s.uffd);
}

/* -- readers while the mapping comes and goes -------------------------------------- */

struct racer {
	int fd;
	size_t page;
	atomic_int *stop;
	int bad;
};

static void *race_read(void *arg)
{
	struct racer *r = arg;

	while (!atomic_load(r->stop))
		r->bad += read_often(r->fd, r->page, 100);
	return NULL;
}

TEST_F(folioref, readers_and_munmap)
{
	struct racer racers[READERS];
	pthread_t threads[READERS];
	atomic_int stop = 0;
	long ref = read_vmstat("lodic_ref");
	int i, j;

	for (i = 0; i < READERS; i++) {
		racers[i] = (struct racer){ self->fd, self->page, &stop, 0 };
		ASSERT_EQ(pthread_create(&threads[i], NULL, race_read, &racers[i]), 0);
	}
	for (j = 0; j < ROUNDS; j++) {
		ASSERT_EQ(munmap(self->map, self->bytes), 0);
		self->map = mmap(NULL, self->bytes, PROT_READ, MAP_SHARED, self->fd, 0);
		ASSERT_NE(self->map, MAP_FAILED);
		ASSERT_EQ(madvise(self->map, self->bytes, MADV_POPULATE_READ), 0);
		usleep(100);
	}
	atomic_store(&stop, 1);
	for (i = 0; i < READERS; i++) {
		pthread_join(threads[i], NULL);
		EXPECT_EQ(racers[i].bad, 0);
	}
	EXPECT_GT(read_vmstat("lodic_ref"), ref);
	EXPECT_TRUE(sums_hold());
}

TEST_HARNESS_MAIN
