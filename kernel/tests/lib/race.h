/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A race: a crew of readers, and one disturber that takes pages or entries away from under
 * them. race_run() checks what a race must show, and what must hold after it.
 */
#ifndef LODIC_TESTS_RACE_H
#define LODIC_TESTS_RACE_H

#include "crew.h"
#include "counters.h"
#include "fs.h"

struct race;

/* A race that is running, as the parent sees it. */
struct running {
	const struct race *race;
	struct crew crew;
	struct test_fs fs;
	char path[160];
	int fd; /* for reading and writing; -1 for CREW_EXEC, whose files nobody writes */
	char *map; /* the parent's own mapping; NULL unless the race asks for it */
	u64 rng;
	u64 round;
	u64 done;              /* what the disturber counts as success */
	const char *done_name; /* what that is */
	long long before;      /* a counter of the machine, read by setup */
	char skip[120];        /* why the race cannot run here, written by setup */
	void *extra;
};

struct race {
	const char *name;
	const char *fs;
	u32 flags; /* enum crew_flags */
	u32 procs, threads;
	u32 hot_pages;
	bool own_map; /* the parent maps the file too */
	u32 min_fold; /* a race that folded fewer references fails */
	void (*inside)(struct seat *s);
	int (*seat_setup)(struct seat *s);
	/* Before readers start. 0, or -1 with why in r->skip. */
	int (*setup)(struct running *r);
	void (*outside)(struct running *r); /* one round; NULL: the parent only waits */
	void (*teardown)(struct running *r);
};

/* Races of one kind. */
struct race_table {
	const struct race *races;
	u32 nr;
};

/* The bytes that the readers must find. race_open() makes them. */
extern const u8 *race_expect;

/* Notes why the race cannot run here. Returns -1. */
int race_skip(struct running *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Makes the file and the crew. Returns 0, or -1 with the reason in r->skip. */
int race_open(struct running *r);

void race_close(struct running *r);

/* Fails the subtest unless the race took local references, folded enough and lost none. */
void race_check_counters(const struct race *race, const struct counters *before);

/*
 * Runs one race and prints its line. After it these must hold:
 *   - every byte that a reader read was right, and all readers have ended;
 *   - nobody holds a page of the file;
 *   - each local reference was given back, locally or globally;
 *   - the kernel's log has no report.
 */
void race_run(const struct race *race, struct test_fs *fs, bool lodic, int klog);

#endif
