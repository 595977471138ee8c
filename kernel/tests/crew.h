/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Readers to race with: forked processes, each with a descriptor and a shared mapping of
 * its own, and in each some threads that pread() hot pages and check every byte. Their
 * destination is taken away before each read, so that the copy faults and a reference lives
 * as long as a page fault. The first thread of each process does what disturbs its own
 * mappings, or keeps them populated while the parent disturbs from outside.
 */
#ifndef LODIC_TESTS_CREW_H
#define LODIC_TESTS_CREW_H

#include "fs.h"
#include "uring.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#define MAX_PROCS 16
#define MAX_THREADS 8
#define HOT_BYTES (8 * PAGE)
#define FILE_BYTES PMD_BYTES
#define READ_MAX (3 * PAGE)
/* Where a process maps the file: far from everything else, tables of its own. */
#define AREA_A ((char *)(1ul << 44))
#define AREA_B (AREA_A + (1ul << 32))

enum crew_flags {
	CREW_ZEROS = 1 << 0,  /* zeros may stand for data: holes are being made */
	CREW_SHORT = 1 << 1,  /* reads may end early: the file is being truncated */
	CREW_EIO = 1 << 2,    /* reads may fail: pages are being poisoned */
	CREW_URING = 1 << 3,  /* read through io_uring */
	CREW_KILLED = 1 << 4, /* readers may die by SIGKILL */
	CREW_UNMAP =
		1 << 5, /* refault() also drops the mapping's entries, now and then */
	CREW_EXEC = 1 << 6, /* map executable, for khugepaged and uprobes */
	CREW_PRIVATE = 1 << 7,
	CREW_WRITABLE = 1 << 8, /* descriptors and mappings for writing too */
	CREW_WHOLE = 1 << 9,    /* map the whole file, not only the hot pages */
	CREW_LARGE = 1 << 11,   /* large folios: the whole file mapped, and populated */
	CREW_GUEST = 1 << 10,   /* does something to the whole machine: not with -d */
	CREW_LAZY = 1 << 12,    /* readers pause: a page is free of them now and then */
};

/* One reader's results, written by it alone; the parent reads them at any time. */
struct tally {
	_Alignas(64) atomic_ulong reads, bytes, zeros, shorts, errors;
};

/* Shared by all processes of a crew. */
struct board {
	atomic_int stop;
	atomic_uint ready; /* processes that have mapped the file, in all */
	atomic_ulong rounds;
	atomic_uint bad;
	char bad_text[200]; /* written by whoever raised bad from 0 */
	struct tally tally[MAX_PROCS * MAX_THREADS];
};

/* One reader process, as its first thread sees it. */
struct seat {
	struct crew *crew;
	u32 index;
	u64 rng;
	u64 round;
	int fd;
	char *map;
	size_t map_bytes;
	int prot, map_flags;
	void *extra; /* of the disturber */
};

struct crew {
	const char *path;
	const u8 *expect;
	u32 procs, threads, flags;
	u32 hot_pages;      /* that are read; 0: all of HOT_BYTES */
	const char *cgroup; /* directory that readers put themselves into */
	void (*inside)(
		struct seat *s); /* one round in a reader process; NULL: refault() */
	int (*seat_setup)(struct seat *s); /* before the first round; or NULL */
	struct board *board;
	u32 generation;
	pid_t pid[MAX_PROCS];
};

struct reader {
	struct seat *seat;
	u32 index;
	pthread_t thread;
};

static inline bool crew_stopped(const struct crew *c)
{
	return atomic_load_explicit(&c->board->stop, memory_order_relaxed);
}

static unused __attribute__((format(printf, 2, 3))) void crew_bad(struct crew *c,
                                                                  const char *fmt, ...)
{
	va_list ap;

	if (atomic_fetch_add(&c->board->bad, 1))
		return;
	va_start(ap, fmt);
	vsnprintf(c->board->bad_text, sizeof(c->board->bad_text), fmt, ap);
	va_end(ap);
}

/* -- mapping, in a reader process -------------------------------------------------------- */

/* Never by touching: an entry may be gone, and the page behind it past the file's end. */
static unused void populate(const struct seat *s)
{
	madvise(s->map, s->crew->flags & CREW_LARGE ? s->map_bytes : HOT_BYTES,
	        MADV_POPULATE_READ);
}

static unused void map_file(struct seat *s, char *at)
{
	char *p = mmap(at, s->map_bytes, s->prot, s->map_flags | MAP_FIXED, s->fd, 0);

	if (p == MAP_FAILED) {
		crew_bad(s->crew, "mmap at %p: %s", at, strerror(errno));
		return;
	}
	s->map = p;
}

/* Keeps the mapping's entries present, for those who take them away from outside. */
static void refault(struct seat *s)
{
	if (s->crew->flags & CREW_UNMAP && s->round % 4 == 3)
		madvise(s->map, s->map_bytes, MADV_DONTNEED);
	else
		populate(s);
	sleep_ms(1);
}

/* A short pause with the mapping populated, so that readers find entries to count on. */
static unused void settle(struct seat *s)
{
	populate(s);
	if (rnd(&s->rng) % 4 == 0)
		sleep_ms(1);
	else
		sched_yield();
}

/* -- reading --------------------------------------------------------------------------- */

static void reader_check(struct reader *r, struct tally *t, const u8 *got, size_t asked,
                         ssize_t n, u64 offset)
{
	struct crew *c = r->seat->crew;
	size_t at = 0, zeros = 0, bad;

	if (n < 0) {
		atomic_fetch_add(&t->errors, 1);
		if (!(c->flags & CREW_EIO && n == -EIO))
			crew_bad(c, "read at %llu: %s", (unsigned long long)offset,
			         strerror(-n));
		return;
	}
	if ((size_t)n < asked) {
		atomic_fetch_add(&t->shorts, 1);
		if (!(c->flags & CREW_SHORT))
			crew_bad(c, "read at %llu: %zd of %zu bytes",
			         (unsigned long long)offset, n, asked);
	}
	bad = data_check(got, c->expect + offset, n, c->flags & CREW_ZEROS, &at,
	                 &zeros);
	if (bad)
		crew_bad(c, "%zu bad bytes in %zd at %llu; at %llu 0x%02x, want 0x%02x",
		         bad, n, (unsigned long long)offset,
		         (unsigned long long)(offset + at), got[at],
		         c->expect[offset + at]);
	atomic_fetch_add(&t->reads, 1);
	atomic_fetch_add(&t->bytes, n);
	atomic_fetch_add(&t->zeros, zeros);
}

static void reader_loop(struct reader *r, u8 *dest, struct uring *ring)
{
	struct seat *s = r->seat;
	u64 hot = s->crew->hot_pages ? s->crew->hot_pages * PAGE : HOT_BYTES;
	struct tally *t = &s->crew->board->tally[s->index * MAX_THREADS + r->index];
	u64 rng = mix64(opt.seed ^
	                mix64(s->index * 64 + r->index + s->crew->generation * 4096));

	while (!crew_stopped(s->crew)) {
		u64 offset = rnd(&rng) % hot;
		size_t most =
			HOT_BYTES - offset < READ_MAX ? HOT_BYTES - offset : READ_MAX;
		size_t len = 1 + rnd(&rng) % most;
		u8 *to = dest + rnd(&rng) % PAGE;
		ssize_t n;

		if (s->crew->flags & CREW_LAZY)
			sleep_ms(rnd(&rng) % 8);
		/* One time in eight the destination stays: a short reference. */
		if (rnd(&rng) % 8)
			madvise(dest, READ_MAX + PAGE, MADV_DONTNEED);
		if (ring) {
			n = uring_read(ring, s->fd, to, len, offset);
		} else {
			n = pread(s->fd, to, len, offset);
			if (n < 0)
				n = -errno;
		}
		reader_check(r, t, to, len, n, offset);
	}
}

static void *reader_main(void *arg)
{
	struct reader *r = arg;
	struct uring ring, *use = NULL;
	u8 *dest = mmap(NULL, READ_MAX + PAGE, PROT_READ | PROT_WRITE,
	                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	pin_cpu(r->seat->index + 1 + r->index);
	if (dest == MAP_FAILED) {
		crew_bad(r->seat->crew, "no memory for a destination");
		return NULL;
	}
	/* A destination of huge pages would fault once. */
	madvise(dest, READ_MAX + PAGE, MADV_NOHUGEPAGE);
	if (r->seat->crew->flags & CREW_URING) {
		if (uring_open(&ring)) {
			crew_bad(r->seat->crew, "io_uring_setup: %s", strerror(errno));
			return NULL;
		}
		use = &ring;
	}
	reader_loop(r, dest, use);
	if (use)
		uring_close(use);
	return NULL;
}

/* -- one reader process ------------------------------------------------------------------ */

static void seat_open(struct seat *s)
{
	u32 flags = s->crew->flags;

	s->fd = open(s->crew->path,
	             (flags & CREW_WRITABLE ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (s->fd < 0)
		crew_bad(s->crew, "open %s: %s", s->crew->path, strerror(errno));
	s->map_bytes = flags & (CREW_WHOLE | CREW_LARGE) ? FILE_BYTES : HOT_BYTES;
	s->prot = PROT_READ | (flags & CREW_EXEC ? PROT_EXEC : 0);
	if (flags & CREW_WRITABLE)
		s->prot |= PROT_WRITE;
	s->map_flags = flags & CREW_PRIVATE ? MAP_PRIVATE : MAP_SHARED;
	map_file(s, AREA_A);
	populate(s);
}

static void seat_run(struct seat *s)
{
	struct crew *c = s->crew;
	void (*round)(struct seat * s) = c->inside ? c->inside : refault;

	while (!crew_stopped(c)) {
		round(s);
		s->round++;
		atomic_fetch_add(&c->board->rounds, 1);
	}
}

static void seat_main(struct crew *c, u32 index)
{
	struct seat s = { .crew = c, .index = index, .fd = -1 };
	struct reader readers[MAX_THREADS];
	u32 i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (c->cgroup) {
		char path[160];

		snprintf(path, sizeof(path), "%s/cgroup.procs", c->cgroup);
		if (write_text(path, "0"))
			crew_bad(c, "%s: %s", path, strerror(errno));
	}
	pin_cpu(index);
	s.rng = mix64(opt.seed + index);
	seat_open(&s);
	if (c->seat_setup && !c->board->bad && c->seat_setup(&s))
		crew_bad(c, "setting up: %s", strerror(errno));
	atomic_fetch_add(&c->board->ready, 1);
	for (i = 0; i < c->threads; i++) {
		readers[i].seat = &s;
		readers[i].index = i;
		if (pthread_create(&readers[i].thread, NULL, reader_main,
		                   &readers[i])) {
			crew_bad(c, "pthread_create");
			_exit(1);
		}
	}
	seat_run(&s);
	for (i = 0; i < c->threads; i++)
		pthread_join(readers[i].thread, NULL);
	_exit(0);
}

/* -- the crew, in the parent ------------------------------------------------------------- */

static void crew_fork(struct crew *c, u32 index)
{
	fflush(stdout);
	c->generation++;
	c->pid[index] = fork();
	if (c->pid[index] < 0)
		bail("fork");
	if (c->pid[index] == 0)
		seat_main(c, index);
}

/* Starts the readers and waits until each has the file mapped. */
static unused void crew_start(struct crew *c)
{
	u64 deadline = now_ns() + 30000000000ull;
	u32 i;

	c->board = mmap(NULL, sizeof(*c->board), PROT_READ | PROT_WRITE,
	                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (c->board == MAP_FAILED)
		bail("no memory for the board");
	for (i = 0; i < c->procs; i++)
		crew_fork(c, i);
	while (atomic_load(&c->board->ready) < c->procs && now_ns() < deadline)
		sleep_ms(5);
	if (atomic_load(&c->board->ready) < c->procs)
		fail("readers are not ready after 30 s");
}

/* Puts a new process where one was killed. */
static unused void crew_replace(struct crew *c, u32 index)
{
	int status;

	waitpid(c->pid[index], &status, 0);
	crew_fork(c, index);
}

/* Waits for one process; false when the deadline has passed. */
static bool crew_wait(struct crew *c, u32 i, u64 deadline)
{
	int status = 0;
	pid_t got;

	while (!(got = waitpid(c->pid[i], &status, WNOHANG))) {
		if (now_ns() > deadline)
			return false;
		sleep_ms(5);
	}
	if (got < 0)
		return true; /* an OOM victim that was waited for already */
	if (WIFSIGNALED(status) &&
	    !(c->flags & CREW_KILLED && WTERMSIG(status) == SIGKILL))
		fail("reader %u ended by signal %d", i, WTERMSIG(status));
	if (WIFEXITED(status) && WEXITSTATUS(status))
		fail("reader %u ended with status %d", i, WEXITSTATUS(status));
	return true;
}

struct crew_total {
	unsigned long reads, bytes, zeros, shorts, errors, rounds;
};

/*
 * Ends the readers and says what they found. What must hold after every test of this kind
 * is checked here but for counters and the log: data right, everybody ended.
 */
static unused struct crew_total crew_stop(struct crew *c)
{
	struct crew_total sum = { 0 };
	u64 deadline;
	u32 i;

	atomic_store(&c->board->stop, 1);
	deadline = now_ns() + 30000000000ull;
	for (i = 0; i < c->procs; i++) {
		if (crew_wait(c, i, deadline))
			continue;
		fail("reader %u has not ended in 30 s", i);
		kill(c->pid[i], SIGKILL);
		crew_wait(c, i, now_ns() + 5000000000ull);
	}
	if (atomic_load(&c->board->bad))
		fail("%u bad reads: %s", atomic_load(&c->board->bad),
		     c->board->bad_text);
	for (i = 0; i < MAX_PROCS * MAX_THREADS; i++) {
		struct tally *t = &c->board->tally[i];

		sum.reads += atomic_load(&t->reads);
		sum.bytes += atomic_load(&t->bytes);
		sum.zeros += atomic_load(&t->zeros);
		sum.shorts += atomic_load(&t->shorts);
		sum.errors += atomic_load(&t->errors);
	}
	sum.rounds = atomic_load(&c->board->rounds);
	munmap(c->board, sizeof(*c->board));
	if (!sum.reads)
		fail("no reader read anything");
	return sum;
}

#endif
