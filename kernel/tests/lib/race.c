// SPDX-License-Identifier: GPL-2.0
#include "race.h"
#include "clock.h"
#include "data.h"
#include "klog.h"
#include "ktap.h"
#include "options.h"
#include "random.h"

/* So many times as long a race may take to fold as many references as it must. */
#define PATIENCE 5

const u8 *race_expect;

int race_skip(struct running *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->skip, sizeof(r->skip), fmt, ap);
	va_end(ap);
	return -1;
}

int race_open(struct running *r)
{
	const struct race *race = r->race;

	r->fd = -1;
	if (opt.dir && race->flags & CREW_GUEST)
		return race_skip(r, "only on a machine of its own");
	if (!race_expect)
		race_expect = data_expected(FILE_BYTES);
	snprintf(r->path, sizeof(r->path), "%s/race-%s", r->fs.dir, race->name);
	if (file_make(r->path, race_expect, FILE_BYTES))
		return race_skip(r, "cannot make %s: %s", r->path, strerror(errno));
	if (!(race->flags & CREW_EXEC)) {
		r->fd = open(r->path, O_RDWR | O_CLOEXEC);
		if (r->fd < 0)
			return race_skip(r, "open: %s", strerror(errno));
	}
	if (race->own_map) {
		r->map = mmap(NULL, HOT_BYTES, PROT_READ, MAP_SHARED, r->fd, 0);
		if (r->map == MAP_FAILED)
			return race_skip(r, "mmap: %s", strerror(errno));
		/* So that a reader finds its own mapping, and not an inherited one. */
		madvise(r->map, HOT_BYTES, MADV_DONTFORK);
		madvise(r->map, HOT_BYTES, MADV_POPULATE_READ);
	}
	r->rng = random_mix(opt.seed);
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

void race_close(struct running *r)
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

void race_check_counters(const struct race *race, const struct counters *before)
{
	struct counters d = counters_since(before);

	counters_diag(race->name, &d);
	counters_check_quiet();
	if (!d.ref)
		ktap_fail("no local reference was taken: shows nothing");
	if (d.folded < race->min_fold)
		ktap_fail("%llu references folded, at least %u expected",
		          (unsigned long long)d.folded, race->min_fold);
}

static void race_loop(struct running *r, u32 seconds)
{
	u64 end = clock_now_ns() + seconds * 1000000000ull;

	while (clock_now_ns() < end && !atomic_load(&r->crew.board->bad)) {
		if (!r->race->outside) {
			clock_sleep_ms(20);
			continue;
		}
		r->race->outside(r);
		r->round++;
	}
}

void race_run(const struct race *race, struct test_fs *fs, bool lodic, int klog)
{
	struct running r = { .race = race, .fs = *fs, .done_name = "outside rounds" };
	struct counters before;
	struct crew_total sum;
	u64 start = clock_now_ns();
	u32 turns = 0;

	klog_skip(klog);
	counters_read(&before);
	if (race_open(&r)) {
		race_close(&r);
		if (r.path[0])
			unlink(r.path);
		ktap_skip(race->name, r.skip);
		return;
	}
	crew_start(&r.crew);
	/* On a loaded host it is a matter of luck whether a clear meets a reader. */
	do {
		race_loop(&r, opt.seconds);
		turns++;
	} while (lodic && turns < PATIENCE &&
	         counters_since(&before).folded < race->min_fold);
	sum = crew_stop(&r.crew);
	race_close(&r);
	file_check_exact(&r.fs, r.path, FILE_BYTES);
	ktap_diag(
		"%s: %u x %u readers, %lu reads, %lu zeros, %lu short, %lu errors, %lu rounds, "
		"%llu %s, %llu ms",
		race->name, r.crew.procs, r.crew.threads, sum.reads, sum.zeros,
		sum.shorts, sum.errors, sum.rounds,
		(unsigned long long)(r.done ? r.done : r.round), r.done_name,
		(unsigned long long)((clock_now_ns() - start) / 1000000));
	if (lodic)
		race_check_counters(race, &before);
	klog_check(klog);
	if (unlink(r.path))
		ktap_fail("unlink %s: %s", r.path, strerror(errno));
	ktap_result(race->name);
}
