// SPDX-License-Identifier: GPL-2.0
/*
 * Disturbers that work in a reader's own address space. Each clears, replaces, moves or
 * changes the entries that the reader's other threads count on.
 */
#include "disturb.h"

#include "clock.h"
#include "data.h"
#include "options.h"
#include "random.h"
#include "seat.h"
#include "switches.h"
#include "text.h"
#include "uffd.h"

#include <sys/prctl.h>
#include <sys/uio.h>

/* Unmaps all of it, which frees page tables too, or some pages in the middle. */
void disturb_munmap(struct seat *s)
{
	size_t from = 0, bytes = s->map_bytes;

	if (random_next(&s->rng) % 2) {
		from = random_next(&s->rng) % 4 * PAGE;
		bytes = PAGE + random_next(&s->rng) % 4 * PAGE;
	}
	munmap(s->map + from, bytes);
	if (random_next(&s->rng) % 4 == 0)
		sched_yield();
	seat_map(s, AREA_A);
	seat_settle(s);
}

/* Maps other memory, or the same file's other pages, at the same addresses. */
void disturb_map_fixed(struct seat *s)
{
	u64 shift = (1 + random_next(&s->rng) % 7) * PAGE;

	switch (random_next(&s->rng) % 3) {
	case 0:
		mmap(s->map, s->map_bytes, PROT_READ,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		madvise(s->map, s->map_bytes, MADV_POPULATE_READ);
		break;
	case 1:
		/* Hot pages still, but each where another one was. */
		mmap(s->map, s->map_bytes, s->prot, s->map_flags | MAP_FIXED, s->fd,
		     shift);
		seat_populate(s);
		sched_yield();
		break;
	default: break; /* the same, anew */
	}
	seat_map(s, AREA_A);
	seat_settle(s);
}

static void disturb_mremap(struct seat *s, char *to)
{
	char *p = mremap(s->map, s->map_bytes, s->map_bytes,
	                 MREMAP_MAYMOVE | MREMAP_FIXED, to);

	if (p == MAP_FAILED)
		crew_bad(s->crew, "mremap: %s", strerror(errno));
	else
		s->map = p;
	seat_settle(s);
}

/* Entries move one by one, because the new place is not aligned as the first is. */
void disturb_mremap_pte(struct seat *s)
{
	disturb_mremap(s, s->map == AREA_A ? AREA_B + PAGE : AREA_A);
}

/* The whole table could move, because both places are aligned to what a table covers. */
void disturb_mremap_pmd(struct seat *s)
{
	disturb_mremap(s, s->map == AREA_A ? AREA_B : AREA_A);
}

void disturb_mprotect(struct seat *s)
{
	static const int prots[] = { PROT_READ, PROT_NONE, PROT_READ | PROT_WRITE };

	if (mprotect(s->map, s->map_bytes, prots[random_next(&s->rng) % 3]))
		crew_bad(s->crew, "mprotect: %s", strerror(errno));
	if (random_next(&s->rng) % 2)
		sched_yield();
	mprotect(s->map, s->map_bytes, PROT_READ | PROT_WRITE);
	seat_settle(s);
}

static void disturb_read_in_child(struct seat *s)
{
	size_t at = 0, zeros;
	u8 got[256];
	int i;

	for (i = 0; i < 8; i++) {
		u64 offset = random_next(&s->rng) % (HOT_BYTES - sizeof(got));
		ssize_t n = pread(s->fd, got, sizeof(got), offset);

		if (n < 0 ||
		    (n < (ssize_t)sizeof(got) && !(s->crew->flags & CREW_SHORT)) ||
		    data_check(got, s->crew->expect + offset, n,
		               s->crew->flags & CREW_ZEROS, &at, &zeros))
			crew_bad(s->crew, "child read at %llu: %zd",
			         (unsigned long long)offset, n);
		if (i == 4 && random_next(&s->rng) % 2)
			munmap(s->map, s->map_bytes);
	}
}

/* A child has entries of its own, without a count. It reads by them, and unmaps them. */
void disturb_fork(struct seat *s)
{
	int status;
	pid_t pid;

	seat_populate(s);
	pid = fork();
	if (pid < 0) {
		clock_sleep_ms(1);
		return;
	}
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		disturb_read_in_child(s);
		_exit(0);
	}
	random_next(&s->rng); /* the child's choices are not the next round's */
	waitpid(pid, &status, 0);
}

/*
 * The kernel copies entries of a private mapping only once something was written there. So
 * the last of the hot pages is written first.
 */
static void disturb_fork_private(struct seat *s)
{
	if (madvise(s->map + HOT_BYTES - PAGE, PAGE, MADV_POPULATE_WRITE))
		crew_bad(s->crew, "populate: %s", strerror(errno));
	disturb_fork(s);
}

/*
 * A child in the same address space counts in the same entries. When it becomes another
 * program, the address space must stay as it was.
 */
static void disturb_vfork(struct seat *s)
{
	static u8 got[256];
	static volatile ssize_t n;
	u64 offset = random_next(&s->rng) % (HOT_BYTES - sizeof(got));
	int status;
	pid_t pid;

	if (random_next(&s->rng) % 4 == 0)
		madvise(s->map, s->map_bytes, MADV_DONTNEED);
	seat_populate(s);
	pid = vfork();
	if (!pid) {
		n = pread(s->fd, got, sizeof(got), offset);
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		crew_bad(s->crew, "vfork's child");
	else if (n != sizeof(got) || memcmp(got, s->crew->expect + offset, sizeof(got)))
		crew_bad(s->crew, "vfork's child: read at %llu: %zd",
		         (unsigned long long)offset, n);
}

/* Writes to a private mapping. The kernel copies each page and replaces its entry. */
static void disturb_cow(struct seat *s)
{
	u32 i;

	for (i = 0; i < 8; i++) {
		char *page = s->map + (random_next(&s->rng) % 8) * PAGE;

		/* A private page does not reach the file, so any byte will do. */
		if (madvise(page, PAGE, MADV_POPULATE_WRITE))
			crew_bad(s->crew, "populate: %s", strerror(errno));
	}
	madvise(s->map, s->map_bytes, MADV_DONTNEED);
	seat_settle(s);
}

/*
 * Stores through a shared mapping. So entries become writable and dirty in place, and
 * write-back makes them read-only again. It stores each byte as it is.
 */
static void disturb_write_fault(struct seat *s)
{
	u32 i;

	for (i = 0; i < 8; i++) {
		volatile char *p = s->map + random_next(&s->rng) % HOT_BYTES;

		*p = s->crew->expect[p - s->map];
	}
	if (random_next(&s->rng) % 4 == 0)
		sync_file_range(s->fd, 0, HOT_BYTES,
		                SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
		                        SYNC_FILE_RANGE_WAIT_AFTER);
	if (random_next(&s->rng) % 4 == 0)
		madvise(s->map, s->map_bytes, MADV_DONTNEED);
	seat_populate(s);
}

void disturb_madv_dontneed(struct seat *s)
{
	madvise(s->map, s->map_bytes, MADV_DONTNEED);
	seat_settle(s);
}

/*
 * Entries are cleared while readers count on them all the time. A clear whose
 * compare-and-swaps all fail adds as much as the count can be, and takes the rest back.
 */
#define BUSY_WINDOW 2000 /* spins: other readers count meanwhile */

static int disturb_busy_setup(struct running *r)
{
	r->before = text_read_number(DEBUG_MOST);
	r->done_name = "clears gave up trying";
	text_write_number(DEBUG_WINDOW, opt.window ? BUSY_WINDOW : 0);
	return 0;
}

/* Prints how many. It asks for none: see kernel/README.md. */
static void disturb_busy_teardown(struct running *r)
{
	text_write_number(DEBUG_WINDOW, opt.window);
	if (!r->skip[0] && r->before >= 0)
		r->done = text_read_number(DEBUG_MOST) - r->before;
}

void disturb_madv_cold(struct seat *s)
{
	madvise(s->map, s->map_bytes, random_next(&s->rng) % 2 ? MADV_COLD : MADV_FREE);
	seat_settle(s);
}

/* The kernel takes a page only if one process maps it: so this race has one. */
void disturb_madv_pageout(struct seat *s)
{
	madvise(s->map, s->map_bytes, MADV_PAGEOUT);
	seat_settle(s);
}

void disturb_clear_refs(struct seat *s)
{
	/* 1: young bits; 4: soft-dirty bits, by clearing and setting each entry. */
	text_write("/proc/self/clear_refs", random_next(&s->rng) % 4 ? "4" : "1");
	seat_settle(s);
}

/* Takes other references on the same pages, by the fast walk that looks at entries. */
static void disturb_gup(struct seat *s)
{
	static char sink[HOT_BYTES];
	struct iovec from = { s->map, HOT_BYTES }, to = { sink, HOT_BYTES };
	int *pipes = s->extra;

	seat_populate(s);
	if (vmsplice(pipes[1], &from, 1, SPLICE_F_NONBLOCK) > 0) {
		if (random_next(&s->rng) % 4 == 0)
			madvise(s->map, s->map_bytes, MADV_DONTNEED);
		if (read(pipes[0], sink, sizeof(sink)) <= 0 ||
		    memcmp(sink, s->crew->expect, PAGE))
			crew_bad(s->crew, "vmsplice");
	}
	process_vm_readv(getpid(), &to, 1, &from, 1, 0);
	sched_yield();
}

static int disturb_gup_setup(struct seat *s)
{
	s->extra = malloc(2 * sizeof(int));
	return s->extra ? pipe2(s->extra, O_CLOEXEC) : -1;
}

/* -- userfaultfd: write protection of a mapping of tmpfs --------------------------------- */

static int disturb_uffd_setup(struct running *r)
{
	int fd = uffd_open(NULL, 0, 0);

	if (fd < 0)
		return race_skip(r, "userfaultfd-wp on shared memory: %s",
		                 strerror(errno));
	close(fd);
	return 0;
}

static int disturb_uffd_seat_setup(struct seat *s)
{
	int fd = uffd_open(s->map, s->map_bytes, 0);

	s->extra = (void *)(intptr_t)fd;
	return fd < 0 ? -1 : 0;
}

static void disturb_uffd_wp(struct seat *s)
{
	if (uffd_protect((int)(intptr_t)s->extra, s->map, s->map_bytes,
	                 s->round % 2 == 0))
		crew_bad(s->crew, "UFFDIO_WRITEPROTECT: %s", strerror(errno));
	if (random_next(&s->rng) % 8 == 0)
		madvise(s->map, s->map_bytes, MADV_DONTNEED);
	seat_settle(s);
}

/* -- the table --------------------------------------------------------------------------- */

#define INSIDE(n, kind, f, p, t, fn, ...) \
	{ \
		.name = n, .fs = kind, .flags = f, .procs = p, .threads = t, \
		.inside = fn, __VA_ARGS__ \
	}

/*
 * No fold is asked of fork and of madvise-cold. They clear no entry: they must leave each
 * count where it is. Nor of clear-busy, whose readers hold a reference for so short a time
 * that a run of seconds may meet none.
 */
static const struct race races[] = {
	/* One process, one page, a reader on each other processor: all on one entry. */
	INSIDE("munmap-hot", "ext4", 0, 1, 3, disturb_munmap, .hot_pages = 1,
	       .min_fold = 1),
	INSIDE("clear-busy", "ext4", CREW_WARM, 1, 3, disturb_madv_dontneed,
	       .hot_pages = 1, .setup = disturb_busy_setup,
	       .teardown = disturb_busy_teardown),
	INSIDE("munmap", "ext4", 0, 2, 2, disturb_munmap, .min_fold = 1),
	INSIDE("munmap-xfs", "xfs", CREW_LARGE, 2, 2, disturb_munmap, .min_fold = 1),
	INSIDE("munmap-tmpfs", "tmpfs", 0, 2, 2, disturb_munmap, .min_fold = 1),
	INSIDE("munmap-uring", "ext4", CREW_URING, 2, 2, disturb_munmap, .min_fold = 1),
	INSIDE("map-fixed", "ext4", 0, 2, 2, disturb_map_fixed, .min_fold = 1),
	INSIDE("mremap-pte", "ext4", 0, 2, 2, disturb_mremap_pte, .min_fold = 1),
	INSIDE("mremap-pmd", "ext4", CREW_WHOLE, 2, 2, disturb_mremap_pmd,
	       .min_fold = 1),
	INSIDE("mprotect", "ext4", CREW_WRITABLE, 2, 2, disturb_mprotect,
	       .min_fold = 1),
	INSIDE("fork", "ext4", 0, 2, 2, disturb_fork),
	INSIDE("fork-private", "ext4", CREW_PRIVATE | CREW_WRITABLE, 2, 2,
	       disturb_fork_private),
	INSIDE("vfork-exec", "ext4", 0, 2, 2, disturb_vfork, .min_fold = 1),
	INSIDE("copy-on-write", "ext4", CREW_PRIVATE | CREW_WRITABLE, 2, 2, disturb_cow,
	       .min_fold = 1),
	INSIDE("write-fault", "ext4", CREW_WRITABLE, 2, 2, disturb_write_fault,
	       .min_fold = 1),
	INSIDE("write-fault-tmpfs", "tmpfs", CREW_WRITABLE, 2, 2, disturb_write_fault,
	       .min_fold = 1),
	INSIDE("madvise-dontneed", "ext4", 0, 2, 2, disturb_madv_dontneed,
	       .min_fold = 1),
	INSIDE("madvise-cold", "ext4", 0, 2, 2, disturb_madv_cold),
	INSIDE("madvise-pageout", "ext4", 0, 1, 4, disturb_madv_pageout, .min_fold = 1),
	INSIDE("clear-refs", "ext4", CREW_WRITABLE, 2, 2, disturb_clear_refs,
	       .min_fold = 1),
	INSIDE("gup", "ext4", 0, 2, 2, disturb_gup, .seat_setup = disturb_gup_setup,
	       .min_fold = 1),
	INSIDE("uffd-wp", "tmpfs", CREW_WRITABLE, 2, 2, disturb_uffd_wp,
	       .setup = disturb_uffd_setup, .seat_setup = disturb_uffd_seat_setup,
	       .min_fold = 1),
};

const struct race_table disturb_map = { races, NR(races) };
