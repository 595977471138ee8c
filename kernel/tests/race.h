/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A race: a crew of readers and one thing that takes pages or entries away from under them.
 * What one race must show, and what must hold after it, is race_run()'s.
 */
#ifndef LODIC_TESTS_RACE_H
#define LODIC_TESTS_RACE_H

#include "crew.h"

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
	u32 min_fold; /* references that must have been folded for the race to show anything */
	void (*inside)(struct seat *s);
	int (*seat_setup)(struct seat *s);
	/* Before readers start. 0, or -1 with why in r->skip. */
	int (*setup)(struct running *r);
	void (*outside)(struct running *r); /* one round; NULL: the parent only waits */
	void (*teardown)(struct running *r);
};

static unused __attribute__((format(printf, 2, 3))) int skip(struct running *r,
                                                             const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->skip, sizeof(r->skip), fmt, ap);
	va_end(ap);
	return -1;
}

static const u8 *race_expect;

static int race_open(struct running *r)
{
	const struct race *race = r->race;

	r->fd = -1;
	if (opt.dir && race->flags & CREW_GUEST)
		return skip(r, "only on a machine of its own");
	if (!race_expect)
		race_expect = data_expected(FILE_BYTES);
	snprintf(r->path, sizeof(r->path), "%s/race-%s", r->fs.dir, race->name);
	if (file_make(r->path, race_expect, FILE_BYTES))
		return skip(r, "cannot make %s: %s", r->path, strerror(errno));
	if (!(race->flags & CREW_EXEC)) {
		r->fd = open(r->path, O_RDWR | O_CLOEXEC);
		if (r->fd < 0)
			return skip(r, "open: %s", strerror(errno));
	}
	if (race->own_map) {
		r->map = mmap(NULL, HOT_BYTES, PROT_READ, MAP_SHARED, r->fd, 0);
		if (r->map == MAP_FAILED)
			return skip(r, "mmap: %s", strerror(errno));
		/* Readers shall find their own mapping, not an inherited one. */
		madvise(r->map, HOT_BYTES, MADV_DONTFORK);
		madvise(r->map, HOT_BYTES, MADV_POPULATE_READ);
	}
	r->rng = mix64(opt.seed);
	r->crew = (struct crew){
		.path = r->path,
		.expect = race_expect,
		.procs = opt.procs ? opt.procs : race->procs,
		.threads = opt.threads ? opt.threads : race->threads,
		.flags = race->flags,
		.hot_pages = race->hot_pages,
		.inside = race->inside,
		.seat_setup = race->seat_setup,
	};
	return race->setup ? race->setup(r) : 0;
}

static void race_close(struct running *r)
{
	if (r->race->teardown)
		r->race->teardown(r);
	if (r->map)
		munmap(r->map, HOT_BYTES);
	if (r->fd >= 0)
		close(r->fd);
	r->map = NULL;
	r->fd = -1;
}

/* Counters: the race took local references, folded some, and none is lost. */
static void race_check_counters(const struct race *race,
                                const struct lodic_counters *before)
{
	struct lodic_counters d = lodic_since(before);

	lodic_diag(race->name, &d);
	lodic_check_quiet();
	if (!d.ref)
		fail("no local reference was taken: shows nothing");
	if (d.folded < race->min_fold)
		fail("%llu references folded, at least %u expected",
		     (unsigned long long)d.folded, race->min_fold);
}

static void race_loop(struct running *r, u32 seconds)
{
	u64 end = now_ns() + seconds * 1000000000ull;

	while (now_ns() < end && !atomic_load(&r->crew.board->bad)) {
		if (!r->race->outside) {
			sleep_ms(20);
			continue;
		}
		r->race->outside(r);
		r->round++;
	}
}

/*
 * Runs one race and prints its line. Afterwards must hold: every byte read was right; all
 * readers ended; no page of the file is held by anybody; each local reference was given
 * back, locally or globally; the kernel's log has no complaint.
 */
static unused void race_run(const struct race *race, struct test_fs *fs, bool lodic,
                            int klog)
{
	struct running r = { .race = race, .fs = *fs, .done_name = "outside rounds" };
	struct lodic_counters before;
	struct crew_total sum;
	char line[200];
	u64 start = now_ns();

	klog_look(klog, line, sizeof(line)); /* what was before is not this race's */
	lodic_read(&before);
	if (race_open(&r)) {
		race_close(&r);
		if (r.path[0])
			unlink(r.path);
		ktap_skip(race->name, r.skip);
		return;
	}
	crew_start(&r.crew);
	race_loop(&r, opt.seconds);
	sum = crew_stop(&r.crew);
	race_close(&r);
	file_check_exact(&r.fs, r.path, FILE_BYTES);
	diag("%s: %u x %u readers, %lu reads, %lu zeros, %lu short, %lu errors, %lu rounds, "
	     "%llu %s, %llu ms",
	     race->name, r.crew.procs, r.crew.threads, sum.reads, sum.zeros, sum.shorts,
	     sum.errors, sum.rounds, (unsigned long long)(r.done ? r.done : r.round),
	     r.done_name, (unsigned long long)((now_ns() - start) / 1000000));
	if (lodic)
		race_check_counters(race, &before);
	klog_check(klog);
	if (unlink(r.path))
		fail("unlink %s: %s", r.path, strerror(errno));
	ktap_result(race->name);
}

#endif
