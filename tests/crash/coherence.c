/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A cached file is changed by an outsider while readers read it and hold pins on it: no
 * read or pin that begins after the writer's open returned sees an old byte from the
 * cache. Overwritten, truncated, replaced by rename, extended, stored to through a
 * mapping, punched; a change is made only when every reader has had verified hits since
 * the one before. The cache is a little smaller than the files, so that eviction goes on
 * besides. One reader unlocks leases and takes locks on the descriptors that it passed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/watched_file.h"

#define NR_READERS 2u
#define NR_FILES 8u
#define CACHE_BYTES ((u64)96 * LODIC_BLOCK_BYTES)
#define HOT_HITS 3u
/* In every so manieth change the writer stays until readers have looked. */
#define LINGER_ONE_IN 8u
#define LOOKS_WHILE_OPEN 20u

static struct {
	struct watched_file files[NR_FILES];
	struct watcher_tally tallies[NR_READERS];
} * shared;

static u64 changes_each = 200;
static const char *scheme_name = "lodic";

static void reader_run(const struct test_service *service, u32 number)
{
	static struct watcher watcher;
	int err;

	signal(SIGURG, SIG_IGN);
	signal(SIGIO, SIG_IGN);
	watcher.watched = shared->files;
	watcher.tally = &shared->tallies[number];
	watcher.nr_files = NR_FILES;
	watcher.number = number;
	watcher.meddles = number == 0;
	err = test_service_attach(service, &watcher.lodic);
	REQUIRE(err == 0, "%s", strerror(-err));
	watcher_begin(&watcher);
	while (!host_load_acquire(&watcher.tally->stop))
		watcher_step(&watcher);
	watcher_end(&watcher);
	lodic_detach(watcher.lodic);
	_exit(watcher.tally->wrong > 0);
}

static bool all_hot(const struct watched_file *w)
{
	for (u32 i = 0; i < NR_READERS; i++)
		if (!watched_file_is_hot(w, i, HOT_HITS))
			return false;
	return true;
}

/* The file stays open for writing until every reader has looked at it. */
static void linger(struct watched_file *w)
{
	u64 seen[NR_READERS];

	for (u32 i = 0; i < NR_READERS; i++) {
		seen[i] = host_load_relaxed(&w->seen_open[i]);
		REQUIRE(WAIT_UNTIL(host_load_acquire(&w->seen_open[i]) >=
		                   seen[i] + LOOKS_WHILE_OPEN),
		        "reader %u hangs", i);
	}
}

static struct watched_file *next_hot(u64 *random)
{
	u32 i = (u32)random_below(random, NR_FILES);
	u32 tries = 0;

	while (!all_hot(&shared->files[i % NR_FILES]) && tries++ < NR_FILES)
		i++;
	return tries <= NR_FILES ? &shared->files[i % NR_FILES] : NULL;
}

static void outsider_run(u64 *nr_changes)
{
	u64 random = random_stream(1);
	u64 left = changes_each * NR_CHANGES;
	struct watched_file *w = NULL;
	u64 kind;

	while (left > 0) {
		kind = random_below(&random, NR_CHANGES);
		if (nr_changes[kind] == changes_each)
			continue;
		REQUIRE(WAIT_UNTIL((w = next_hot(&random)) != NULL),
		        "no file becomes cached after %llu changes",
		        (unsigned long long)(changes_each * NR_CHANGES - left));
		watched_file_change(w, (enum watched_change)kind, &random,
		                    random_below(&random, LINGER_ONE_IN) ? NULL
		                                                         : linger);
		nr_changes[kind]++;
		left--;
		for (u32 i = 0; i < NR_READERS; i++)
			REQUIRE(shared->tallies[i].wrong == 0,
			        "reader %u saw wrong bytes", i);
	}
}

static void report(const u64 *nr_changes, u64 ns)
{
	struct watcher_tally sum = { 0 };

	for (u32 i = 0; i < NR_READERS; i++) {
		const struct watcher_tally *t = &shared->tallies[i];

		sum.reads += t->reads;
		sum.pins += t->pins;
		sum.hits += t->hits;
		sum.exact += t->exact;
		sum.open += t->open;
		sum.raced += t->raced;
		sum.snapshots += t->snapshots;
		sum.wrong += t->wrong;
	}
	for (u32 i = 0; i < NR_CHANGES; i++)
		printf("%s%s %llu", i ? ", " : "", watched_change_names[i],
		       (unsigned long long)nr_changes[i]);
	printf(" in %.1f s (%s)\n%llu reads, %llu pins, %llu hits; %llu compared byte by byte, "
	       "%llu while a writer had the file, %llu raced; %llu pins kept over a change; "
	       "%llu wrong\n",
	       (double)ns / 1e9, scheme_name, (unsigned long long)sum.reads,
	       (unsigned long long)sum.pins, (unsigned long long)sum.hits,
	       (unsigned long long)sum.exact, (unsigned long long)sum.open,
	       (unsigned long long)sum.raced, (unsigned long long)sum.snapshots,
	       (unsigned long long)sum.wrong);
	REQUIRE(sum.wrong == 0, "%llu", (unsigned long long)sum.wrong);
	REQUIRE(sum.snapshots > 0 && sum.open > 0 && sum.raced > 0,
	        "too little was seen");
}

/* Every frame that a revoked file had is nobody's again: the reads that came back after a
 * writer had come have left nothing behind. */
static void check_no_frame_lost(const struct test_service *service)
{
	struct lodic *lodic;
	struct lodic_stat stat;

	REQUIRE(test_service_attach(service, &lodic) == 0, "no service");
	for (u32 i = 0; i < NR_FILES; i++)
		close(fixture_open(shared->files[i].path, O_WRONLY));
	(void)WAIT_UNTIL((stat = test_service_stat(lodic)).cached == 0);
	REQUIRE(stat.cached == 0 && stat.pinned == 0, "%llu cached, %llu pinned",
	        (unsigned long long)stat.cached, (unsigned long long)stat.pinned);
	lodic_detach(lodic);
}

int main(int argc, char **argv)
{
	const struct fixture_option options[] = {
		{ .name = "--changes", .number = &changes_each },
		{ .name = "--scheme", .text = &scheme_name },
		{ 0 },
	};
	u64 nr_changes[NR_CHANGES] = { 0 };
	struct test_service service;
	pid_t readers[NR_READERS];
	u64 random, start;

	fixture_begin(argc, argv, options);
	random = random_stream(0);
	shared = fixture_shared(sizeof(*shared));
	for (u32 i = 0; i < NR_FILES; i++)
		watched_file_init(&shared->files[i], i + 1, &random);
	test_service_init(&service, "s");
	service.options.cache_bytes = CACHE_BYTES;
	service.options.scheme = fixture_scheme(scheme_name);
	REQUIRE(test_service_start(&service) == 0, "%s", service.why);
	fixture_need_leases(&service, shared->files[0].path);
	start = host_now_ns();
	for (u32 i = 0; i < NR_READERS; i++) {
		readers[i] = fixture_fork();
		if (readers[i] == 0)
			reader_run(&service, i);
	}
	outsider_run(nr_changes);
	for (u32 i = 0; i < NR_READERS; i++) {
		host_store_release(&shared->tallies[i].stop, 1);
		REQUIRE(fixture_wait(readers[i]) == 0, "reader %u", i);
	}
	report(nr_changes, host_now_ns() - start);
	check_no_frame_lost(&service);
	REQUIRE(test_service_stop(&service) == 0, "the service did not end in order");
	return 0;
}
