/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Readers to race with: forked processes, each with a descriptor and a shared mapping of its
 * own. In each process some threads pread() hot pages and check every byte. A thread drops
 * its destination before each read, so that the copy faults and a reference lives as long as
 * a page fault. The first thread of each process disturbs the process's own mappings. Or it
 * keeps them populated while the parent disturbs them from outside.
 */
#ifndef LODIC_TESTS_CREW_H
#define LODIC_TESTS_CREW_H

#include "file.h"

#define MAX_PROCS 16
#define MAX_THREADS 8
#define HOT_BYTES (8 * PAGE)

enum crew_flags {
	CREW_ZEROS = 1 << 0,  /* zeros may stand for data: holes are being made */
	CREW_SHORT = 1 << 1,  /* reads may end early: the file is being truncated */
	CREW_EIO = 1 << 2,    /* reads may fail: pages are being poisoned */
	CREW_URING = 1 << 3,  /* read through io_uring */
	CREW_KILLED = 1 << 4, /* readers may die by SIGKILL */
	CREW_UNMAP = 1 << 5,  /* seat_refault() also drops the mapping's entries */
	CREW_EXEC = 1 << 6,   /* map executable, for khugepaged and uprobes */
	CREW_PRIVATE = 1 << 7,
	CREW_WRITABLE = 1 << 8, /* descriptors and mappings for writing too */
	CREW_WHOLE = 1 << 9,    /* map the whole file, not only the hot pages */
	CREW_GUEST = 1 << 10,   /* does something to the whole machine: not with -d */
	CREW_LARGE = 1 << 11,   /* large folios: the whole file mapped, and populated */
	CREW_LAZY = 1 << 12,    /* readers pause: a page is free of them now and then */
	CREW_WARM =
		1 << 13, /* destinations stay: references are short, and come fast */
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
	char bad_text[200]; /* written by the one that raised bad from 0 */
	struct tally tally[MAX_PROCS * MAX_THREADS];
};

struct seat;

struct crew {
	const char *path;
	const u8 *expect;
	u32 procs, threads, flags;
	u32 hot_pages;      /* that are read; 0: all of HOT_BYTES */
	const char *cgroup; /* directory that readers put themselves into */
	/* One round in a reader process; NULL: seat_refault(). */
	void (*inside)(struct seat *s);
	int (*seat_setup)(struct seat *s); /* before the first round; or NULL */
	struct board *board;
	u32 generation;
	pid_t pid[MAX_PROCS];
};

struct crew_total {
	unsigned long reads, bytes, zeros, shorts, errors, rounds;
};

static inline bool crew_stopped(const struct crew *c)
{
	return atomic_load_explicit(&c->board->stop, memory_order_relaxed);
}

/* Notes what a reader saw that is wrong, for crew_stop(). The first text is kept. */
void crew_bad(struct crew *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Starts one reader process. */
void crew_fork(struct crew *c, u32 index);

/* Starts the readers and waits until each has the file mapped. */
void crew_start(struct crew *c);

/* Puts a new process where one was killed. */
void crew_replace(struct crew *c, u32 index);

/*
 * Ends the readers and returns what they found. Fails the subtest if a reader saw a wrong
 * byte, or did not end, or if nobody read. The caller checks the counters and the log.
 */
struct crew_total crew_stop(struct crew *c);

#endif
