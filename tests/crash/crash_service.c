/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The test kills the service at random moments while watchers read and hold pins, and starts
 * a successor at the same socket each time. Watchers see no wrong byte, never hang, and come
 * back to the cache by themselves. Often the test writes to a file between the kill and the
 * successor's start. Its open waits until the kernel has dropped the dead service's lease.
 * From then on no watcher may believe what it has mapped.
 *
 * A visitor comes and goes all the while. In the end no context is left.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>

#include "tests/support/visitor.h"
#include "tests/support/watchers.h"

#define NR_WATCHERS 3u
#define NR_FILES 4u
#define CACHE_BYTES ((u64)64 * LODIC_BLOCK_BYTES)
/* Six contexts share three quarters of the cache: the visitor can pin though it comes last. */
#define QUOTA 8u
#define MOST_DELAY_US 4000u
#define LOOKS_WHILE_OPEN 5u
#define VISITED_BLOCKS 32u

static struct watchers watchers = { .nr_files = NR_FILES,
	                            .nr = NR_WATCHERS,
	                            .quota = QUOTA };

static struct {
	u64 kills;
	u64 early;      /* of these: killed before all watchers had come back */
	u64 writes;     /* while there was no service */
	u64 longest_ns; /* from a kill until every watcher had hits again */
} seen;

static u64 nr_kills = 100;
static const char *scheme_name = "lodic";

/* Watchers go on at any time, with or without a service. */
static void require_progress(void)
{
	for (u32 i = 0; i < NR_WATCHERS; i++) {
		const u64 *p = &watchers.tallies[i].progress;
		u64 before = host_load_acquire(p);

		REQUIRE(WAIT_UNTIL(host_load_acquire(p) > before), "watcher %u hangs",
		        i);
	}
	watchers_check(&watchers);
}

/* Makes one to three changes to files that the dead service had leases on. The first often
 * begins while the kernel is still killing the service. */
static void outsider_writes(u64 *random)
{
	u64 nr = 1 + random_below(random, 3);

	while (nr-- > 0) {
		struct watched_file *w =
			&watchers.files[random_below(random, NR_FILES)];

		watched_file_change(
			w, (enum watched_change)random_below(random, NR_CHANGES),
			random_below(random, 2) ? LOOKS_WHILE_OPEN : 0, random);
		seen.writes++;
	}
}

static void kill_once(struct test_service *service, u64 *random)
{
	bool early = random_below(random, 5) == 0;
	u64 start;

	seen.kills++;
	if (early)
		seen.early++;
	else
		watchers_wait_for_hits(&watchers);
	fixture_pause_us(random_below(random, MOST_DELAY_US));
	start = host_now_ns();
	if (random_below(random, 2)) {
		kill(service->pid, SIGKILL);
		outsider_writes(random);
	}
	test_service_kill(service);
	if (random_below(random, 4) == 0)
		require_progress();
	REQUIRE(test_service_start(service) == 0, "%s", service->why);
	require_progress();
	if (!early && random_below(random, 4) == 0) {
		watchers_wait_for_hits(&watchers);
		if (host_now_ns() - start > seen.longest_ns)
			seen.longest_ns = host_now_ns() - start;
	}
}

static void report(u64 ns)
{
	printf("%llu kills of the service (%s), %llu of them early, %llu changes without a "
	       "service, in %.1f s; back after %.0f ms at most\n",
	       (unsigned long long)seen.kills, scheme_name,
	       (unsigned long long)seen.early, (unsigned long long)seen.writes,
	       (double)ns / 1e9, (double)seen.longest_ns / 1e6);
	watchers_report(&watchers);
}

static void check_no_context_left(void)
{
	struct lodic *lodic;

	REQUIRE(test_service_attach(&watchers.service, &lodic) == 0, "no service");
	REQUIRE(WAIT_UNTIL(test_service_stat(lodic).contexts == 0), "%llu contexts",
	        (unsigned long long)test_service_stat(lodic).contexts);
	lodic_detach(lodic);
}

int main(int argc, char **argv)
{
	const struct fixture_option options[] = {
		{ .name = "--kills", .number = &nr_kills },
		{ .name = "--scheme", .text = &scheme_name },
		{ 0 },
	};
	char visited[FIXTURE_PATH_BYTES];
	struct visitor visitor;
	u64 random, start;

	visitor_begin(argc, argv);
	fixture_begin(argc, argv, options);
	random = random_stream(0);
	watchers_start(&watchers, CACHE_BYTES, scheme_name, &random);
	start = host_now_ns();
	pattern_file_make(visited, "visited", NR_FILES + 1, 1,
	                  VISITED_BLOCKS * LODIC_BLOCK_BYTES);
	visitor_start(&visitor, &watchers.service, visited);
	/* A watcher that has not attached when the first service dies waits for the next.
	 * The writer of an early kill would wait for that watcher. */
	require_progress();
	/* The rare things may want some more. */
	for (u64 i = 0;
	     i < nr_kills || (i < 10 * nr_kills && !watchers_seen_all(&watchers)); i++)
		kill_once(&watchers.service, &random);
	watchers_wait_for_hits(&watchers);
	visitor_stop(&visitor);
	watchers_stop(&watchers);
	check_no_context_left();
	report(host_now_ns() - start);
	REQUIRE(test_service_stop(&watchers.service) == 0,
	        "the service did not end in order");
	return 0;
}
