/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Disturbers that work in a reader's own address space: each clears, replaces, moves or
 * changes the entries that the reader's other threads count on.
 */
#ifndef LODIC_TESTS_DISTURB_MAP_H
#define LODIC_TESTS_DISTURB_MAP_H

#include "race.h"
#include "uffd.h"

#include <sys/uio.h>

/* All of it, or some pages in the middle; in between the page tables are freed too. */
static void do_munmap(struct seat *s)
{
	size_t from = 0, bytes = s->map_bytes;

	if (rnd(&s->rng) % 2) {
		from = rnd(&s->rng) % 4 * PAGE;
		bytes = PAGE + rnd(&s->rng) % 4 * PAGE;
	}
	munmap(s->map + from, bytes);
	if (rnd(&s->rng) % 4 == 0)
		sched_yield();
	map_file(s, AREA_A);
	settle(s);
}

/* Something else at the same addresses: nothing, or the same file's other pages. */
static void do_map_fixed(struct seat *s)
{
	u64 shift = (1 + rnd(&s->rng) % 7) * PAGE;

	switch (rnd(&s->rng) % 3) {
	case 0:
		mmap(s->map, s->map_bytes, PROT_READ,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		madvise(s->map, s->map_bytes, MADV_POPULATE_READ);
		break;
	case 1:
		/* Hot pages still, each at the place where another one was. */
		mmap(s->map, s->map_bytes, s->prot, s->map_flags | MAP_FIXED, s->fd,
		     shift);
		populate(s);
		sched_yield();
		break;
	default: break; /* the same, anew */
	}
	map_file(s, AREA_A);
	settle(s);
}

static void move_map(struct seat *s, char *to)
{
	char *p = mremap(s->map, s->map_bytes, s->map_bytes,
	                 MREMAP_MAYMOVE | MREMAP_FIXED, to);

	if (p == MAP_FAILED)
		crew_bad(s->crew, "mremap: %s", strerror(errno));
	else
		s->map = p;
	settle(s);
}

/* Entries move one by one: to a place that is not aligned as the first is. */
static void do_mremap_pte(struct seat *s)
{
	move_map(s, s->map == AREA_A ? AREA_B + PAGE : AREA_A);
}

/* The whole table could move: both places are aligned to what one table covers. */
static void do_mremap_pmd(struct seat *s)
{
	move_map(s, s->map == AREA_A ? AREA_B : AREA_A);
}

static void do_mprotect(struct seat *s)
{
	static const int prots[] = { PROT_READ, PROT_NONE, PROT_READ | PROT_WRITE };

	if (mprotect(s->map, s->map_bytes, prots[rnd(&s->rng) % 3]))
		crew_bad(s->crew, "mprotect: %s", strerror(errno));
	if (rnd(&s->rng) % 2)
		sched_yield();
	mprotect(s->map, s->map_bytes, PROT_READ | PROT_WRITE);
	settle(s);
}

static void child_reads(struct seat *s)
{
	size_t at = 0, zeros;
	u8 got[256];
	int i;

	for (i = 0; i < 8; i++) {
		u64 offset = rnd(&s->rng) % (HOT_BYTES - sizeof(got));
		ssize_t n = pread(s->fd, got, sizeof(got), offset);

		if (n < 0 ||
		    (n < (ssize_t)sizeof(got) && !(s->crew->flags & CREW_SHORT)) ||
		    data_check(got, s->crew->expect + offset, n,
		               s->crew->flags & CREW_ZEROS, &at, &zeros))
			crew_bad(s->crew, "child read at %llu: %zd",
			         (unsigned long long)offset, n);
		if (i == 4 && rnd(&s->rng) % 2)
			munmap(s->map, s->map_bytes);
	}
}

/* A child has entries of its own, with no count; it reads by them, unmaps them and ends. */
static void do_fork(struct seat *s)
{
	int status;
	pid_t pid;

	populate(s);
	pid = fork();
	if (pid < 0) {
		sleep_ms(1);
		return;
	}
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		child_reads(s);
		_exit(0);
	}
	rnd(&s->rng); /* the child's choices are not the next round's */
	waitpid(pid, &status, 0);
}

/* Writes to a private mapping: each page is copied, and its entry replaced. */
static void do_cow(struct seat *s)
{
	u32 i;

	for (i = 0; i < 8; i++) {
		char *page = s->map + (rnd(&s->rng) % 8) * PAGE;

		/* Nothing of the file is behind a private page: any byte will do. */
		if (madvise(page, PAGE, MADV_POPULATE_WRITE))
			crew_bad(s->crew, "populate: %s", strerror(errno));
	}
	madvise(s->map, s->map_bytes, MADV_DONTNEED);
	settle(s);
}

/*
 * Stores through a shared mapping: entries become writable and dirty in place, and
 * write-back makes them read-only again. Each byte is stored as it is.
 */
static void do_write_fault(struct seat *s)
{
	u32 i;

	for (i = 0; i < 8; i++) {
		volatile char *p = s->map + rnd(&s->rng) % HOT_BYTES;

		*p = s->crew->expect[p - s->map];
	}
	if (rnd(&s->rng) % 4 == 0)
		sync_file_range(s->fd, 0, HOT_BYTES,
		                SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
		                        SYNC_FILE_RANGE_WAIT_AFTER);
	if (rnd(&s->rng) % 4 == 0)
		madvise(s->map, s->map_bytes, MADV_DONTNEED);
	populate(s);
}

static void do_madv_dontneed(struct seat *s)
{
	madvise(s->map, s->map_bytes, MADV_DONTNEED);
	settle(s);
}

static void do_madv_cold(struct seat *s)
{
	madvise(s->map, s->map_bytes, rnd(&s->rng) % 2 ? MADV_COLD : MADV_FREE);
	settle(s);
}

/* Takes pages only from who maps them alone: one process. */
static void do_madv_pageout(struct seat *s)
{
	madvise(s->map, s->map_bytes, MADV_PAGEOUT);
	settle(s);
}

static void do_clear_refs(struct seat *s)
{
	/* 1: young bits; 4: soft-dirty bits, by clearing and setting each entry. */
	write_text("/proc/self/clear_refs", rnd(&s->rng) % 4 ? "4" : "1");
	settle(s);
}

/* References of others on the same pages: by the fast walk, which looks at entries. */
static void do_gup(struct seat *s)
{
	static char sink[HOT_BYTES];
	struct iovec from = { s->map, HOT_BYTES }, to = { sink, HOT_BYTES };
	int *pipes = s->extra;

	populate(s);
	if (vmsplice(pipes[1], &from, 1, SPLICE_F_NONBLOCK) > 0) {
		if (rnd(&s->rng) % 4 == 0)
			madvise(s->map, s->map_bytes, MADV_DONTNEED);
		if (read(pipes[0], sink, sizeof(sink)) <= 0 ||
		    memcmp(sink, s->crew->expect, PAGE))
			crew_bad(s->crew, "vmsplice");
	}
	process_vm_readv(getpid(), &to, 1, &from, 1, 0);
	sched_yield();
}

static int gup_setup(struct seat *s)
{
	s->extra = malloc(2 * sizeof(int));
	return s->extra ? pipe2(s->extra, O_CLOEXEC) : -1;
}

/* -- userfaultfd: write protection of a mapping of tmpfs --------------------------------- */

static int uffd_setup(struct running *r)
{
	int fd = uffd_wp_open(NULL, 0, 0);

	if (fd < 0)
		return skip(r, "userfaultfd-wp on shared memory: %s", strerror(errno));
	close(fd);
	return 0;
}

static int uffd_seat_setup(struct seat *s)
{
	int fd = uffd_wp_open(s->map, s->map_bytes, 0);

	s->extra = (void *)(intptr_t)fd;
	return fd < 0 ? -1 : 0;
}

static void do_uffd_wp(struct seat *s)
{
	if (uffd_wp((int)(intptr_t)s->extra, s->map, s->map_bytes, s->round % 2 == 0))
		crew_bad(s->crew, "UFFDIO_WRITEPROTECT: %s", strerror(errno));
	if (rnd(&s->rng) % 8 == 0)
		madvise(s->map, s->map_bytes, MADV_DONTNEED);
	settle(s);
}

/* -- the table --------------------------------------------------------------------------- */

#define INSIDE(n, kind, f, p, t, fn, ...) \
	{ \
		.name = n, .fs = kind, .flags = f, .procs = p, .threads = t, \
		.inside = fn, __VA_ARGS__ \
	}

static const struct race races_map[] = {
	/* One process, one page, a reader on each other processor: all on one entry. */
	INSIDE("munmap-hot", "ext4", 0, 1, 3, do_munmap, .hot_pages = 1, .min_fold = 1),
	INSIDE("munmap", "ext4", 0, 2, 2, do_munmap, .min_fold = 1),
	INSIDE("munmap-xfs", "xfs", CREW_LARGE, 2, 2, do_munmap, .min_fold = 1),
	INSIDE("munmap-tmpfs", "tmpfs", 0, 2, 2, do_munmap, .min_fold = 1),
	INSIDE("munmap-uring", "ext4", CREW_URING, 2, 2, do_munmap, .min_fold = 1),
	INSIDE("map-fixed", "ext4", 0, 2, 2, do_map_fixed, .min_fold = 1),
	INSIDE("mremap-pte", "ext4", 0, 2, 2, do_mremap_pte, .min_fold = 1),
	INSIDE("mremap-pmd", "ext4", CREW_WHOLE, 2, 2, do_mremap_pmd, .min_fold = 1),
	INSIDE("mprotect", "ext4", CREW_WRITABLE, 2, 2, do_mprotect, .min_fold = 1),
	INSIDE("fork", "ext4", 0, 2, 2, do_fork),
	INSIDE("fork-private", "ext4", CREW_PRIVATE, 2, 2, do_fork),
	INSIDE("copy-on-write", "ext4", CREW_PRIVATE | CREW_WRITABLE, 2, 2, do_cow,
	       .min_fold = 1),
	INSIDE("write-fault", "ext4", CREW_WRITABLE, 2, 2, do_write_fault,
	       .min_fold = 1),
	INSIDE("write-fault-tmpfs", "tmpfs", CREW_WRITABLE, 2, 2, do_write_fault),
	INSIDE("madvise-dontneed", "ext4", 0, 2, 2, do_madv_dontneed, .min_fold = 1),
	INSIDE("madvise-cold", "ext4", 0, 2, 2, do_madv_cold),
	INSIDE("madvise-pageout", "ext4", 0, 1, 4, do_madv_pageout, .min_fold = 1),
	INSIDE("clear-refs", "ext4", CREW_WRITABLE, 2, 2, do_clear_refs),
	INSIDE("gup", "ext4", 0, 2, 2, do_gup, .seat_setup = gup_setup),
	INSIDE("uffd-wp", "tmpfs", CREW_WRITABLE, 2, 2, do_uffd_wp, .setup = uffd_setup,
	       .seat_setup = uffd_seat_setup, .min_fold = 1),
};

#endif
