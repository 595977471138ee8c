/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: watchers.h. */
#define _GNU_SOURCE
#include "tests/support/watchers.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HOT_HITS 4u

static _Noreturn void watchers_run_one(const struct watchers *w, u32 number)
{
	static struct watcher watcher;
	int err = 0;

	/* What a meddler's own leases send it. */
	signal(SIGURG, SIG_IGN);
	signal(SIGIO, SIG_IGN);
	watcher.watched = w->files;
	watcher.tally = &w->tallies[number];
	watcher.nr_files = w->nr_files;
	watcher.number = number;
	watcher.meddles = w->meddles && number == 0;
	/* The test may kill the service under the first attempts. */
	REQUIRE(WAIT_UNTIL((err = test_service_attach(&w->service, &watcher.lodic)) ==
	                   0),
	        "%s", strerror(-err));
	watcher_begin(&watcher);
	while (!host_load_acquire(&watcher.tally->stop))
		watcher_step(&watcher);
	watcher_end(&watcher);
	lodic_detach(watcher.lodic);
	_exit(watcher.tally->wrong > 0);
}

void watchers_start(struct watchers *w, u64 cache_bytes, const char *scheme,
                    u64 *random)
{
	w->files = fixture_shared(w->nr_files * sizeof(*w->files));
	w->tallies = fixture_shared(w->nr * sizeof(*w->tallies));
	for (u32 i = 0; i < w->nr_files; i++)
		watched_file_init(&w->files[i], i + 1, w->nr, random);
	test_service_init(&w->service, "s");
	w->service.options.sizes.cache_bytes = cache_bytes;
	w->service.options.tables.quota = w->quota;
	w->service.options.tables.scheme = fixture_scheme(scheme);
	REQUIRE(test_service_start(&w->service) == 0, "%s", w->service.why);
	fixture_need_leases(&w->service, w->files[0].path);
	for (u32 i = 0; i < w->nr; i++) {
		w->pids[i] = fixture_fork();
		if (w->pids[i] == 0)
			watchers_run_one(w, i);
	}
}

void watchers_stop(struct watchers *w)
{
	for (u32 i = 0; i < w->nr; i++) {
		host_store_release(&w->tallies[i].stop, 1);
		REQUIRE(fixture_wait(w->pids[i]) == 0, "watcher %u", i);
	}
}

void watchers_wait_for_hits(const struct watchers *w)
{
	u64 before[WATCHED_MAX_WATCHERS];

	for (u32 i = 0; i < w->nr; i++)
		before[i] = host_load_acquire(&w->tallies[i].hits);
	for (u32 i = 0; i < w->nr; i++)
		REQUIRE(WAIT_UNTIL(host_load_acquire(&w->tallies[i].hits) >=
		                   before[i] + HOT_HITS),
		        "watcher %u does not come back to the cache", i);
}

void watchers_check(const struct watchers *w)
{
	for (u32 i = 0; i < w->nr; i++)
		REQUIRE(w->tallies[i].wrong == 0, "watcher %u saw wrong bytes", i);
}

bool watchers_seen_all(const struct watchers *w)
{
	u64 snapshots = 0, views = 0;

	for (u32 i = 0; i < w->nr; i++) {
		snapshots += host_load_relaxed(&w->tallies[i].snapshots);
		views += host_load_relaxed(&w->tallies[i].views);
	}
	return snapshots > 0 && views > 0;
}

struct watcher_tally watchers_report(const struct watchers *w)
{
	struct watcher_tally sum = { 0 };

	for (u32 i = 0; i < w->nr; i++) {
		const struct watcher_tally *t = &w->tallies[i];

		sum.reads += t->reads;
		sum.views += t->views;
		sum.pins += t->pins;
		sum.hits += t->hits;
		sum.exact += t->exact;
		sum.open += t->open;
		sum.raced += t->raced;
		sum.snapshots += t->snapshots;
		sum.wrong += t->wrong;
	}
	printf("%llu reads, %llu views, %llu pins, %llu hits; %llu compared byte by byte, "
	       "%llu while a writer had the file, %llu raced; %llu pins kept over a "
	       "change; %llu wrong\n",
	       (unsigned long long)sum.reads, (unsigned long long)sum.views,
	       (unsigned long long)sum.pins, (unsigned long long)sum.hits,
	       (unsigned long long)sum.exact, (unsigned long long)sum.open,
	       (unsigned long long)sum.raced, (unsigned long long)sum.snapshots,
	       (unsigned long long)sum.wrong);
	REQUIRE(sum.wrong == 0, "%llu", (unsigned long long)sum.wrong);
	REQUIRE(sum.snapshots > 0, "no pin outlived a change");
	REQUIRE(sum.views > 0, "no view was valid");
	return sum;
}
