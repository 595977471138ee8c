/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * An outsider changes a cached file while watchers read it and hold pins on it. No read or
 * pin that begins after the writer's open returned may see an old byte from the cache. The
 * changes are those of enum watched_change. The outsider makes one only when every watcher
 * has had verified hits since the one before. The cache is a little smaller than the files,
 * so that eviction goes on as well. One watcher unlocks leases and takes locks on the
 * descriptors that it passed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/support/watchers.h"

#define NR_WATCHERS 2u
#define NR_FILES 8u
#define CACHE_BYTES ((u64)96 * LODIC_BLOCK_BYTES)
#define HOT_HITS 3u
/* In one of so many changes the writer waits until the watchers have looked. */
#define LINGER_ONE_IN 8u
#define LOOKS_WHILE_OPEN 20u

static u64 changes_each = 200;
static const char *scheme_name = "lodic";

static struct watchers watchers = { .nr_files = NR_FILES,
	                            .nr = NR_WATCHERS,
	                            .meddles = true };

static struct watched_file *next_hot(u64 *random)
{
	u32 i = (u32)random_below(random, NR_FILES);
	u32 tries = 0;

	while (!watched_file_is_hot(&watchers.files[i % NR_FILES], HOT_HITS) &&
	       tries++ < NR_FILES)
		i++;
	return tries <= NR_FILES ? &watchers.files[i % NR_FILES] : NULL;
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
		watched_file_change(
			w, (enum watched_change)kind,
			random_below(&random, LINGER_ONE_IN) ? 0 : LOOKS_WHILE_OPEN,
			&random);
		nr_changes[kind]++;
		left--;
		watchers_check(&watchers);
	}
}

static void report(const u64 *nr_changes, u64 ns)
{
	struct watcher_tally sum;

	for (u32 i = 0; i < NR_CHANGES; i++)
		printf("%s%s %llu", i ? ", " : "", watched_change_names[i],
		       (unsigned long long)nr_changes[i]);
	printf(" in %.1f s (%s)\n", (double)ns / 1e9, scheme_name);
	sum = watchers_report(&watchers);
	REQUIRE(sum.open > 0 && sum.raced > 0, "too little was seen");
}

/* Every frame of a revoked file is free again. So reads that the service answered after a
 * writer had come have left nothing behind. */
static void check_no_frame_lost(void)
{
	struct lodic *lodic;
	struct lodic_stat stat;

	REQUIRE(test_service_attach(&watchers.service, &lodic) == 0, "no service");
	for (u32 i = 0; i < NR_FILES; i++)
		close(fixture_open(watchers.files[i].path, O_WRONLY));
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
	u64 random, start;

	fixture_begin(argc, argv, options);
	random = random_stream(0);
	watchers_start(&watchers, CACHE_BYTES, scheme_name, &random);
	start = host_now_ns();
	outsider_run(nr_changes);
	watchers_stop(&watchers);
	report(nr_changes, host_now_ns() - start);
	check_no_frame_lost();
	REQUIRE(test_service_stop(&watchers.service) == 0,
	        "the service did not end in order");
	return 0;
}
