/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Successors take the service's place again and again, while watchers read and hold pins, and files
 * change at any moment of that. Often the test kills the successor on its way, or the old service.
 * Watchers see no wrong byte, never hang, and come back to the cache by themselves. If the
 * successor dies before it serves, the old service goes on (HO3). If the old service dies, the
 * successor serves (HO6).
 *
 * Built with a mutant the test must find wrong bytes (--mutant: that is success).
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "lib/look.h"
#include "tests/support/watchers.h"

#define NR_WATCHERS 3u
#define NR_FILES 4u
#define CACHE_BYTES ((u64)64 * LODIC_BLOCK_BYTES)
#define QUOTA 8u
#define MOST_DELAY_US 30000u
#define MUTANT_MOST 3000u

enum way { WAY_LIVES, WAY_SUCCESSOR_DIES, WAY_OLD_DIES, NR_WAYS };

static struct watchers watchers = { .nr_files = NR_FILES,
	                            .nr = NR_WATCHERS,
	                            .quota = QUOTA };

static struct {
	u64 ways[NR_WAYS];
	u64 went_on; /* the old service, after its successor's death */
	u64 changes; /* while a successor was on its way */
} seen;

static u64 nr_restarts = 100;
static const char *scheme_name = "lodic";
static bool mutant;

static bool any_wrong(void)
{
	for (u32 i = 0; i < NR_WATCHERS; i++)
		if (host_load_relaxed(&watchers.tallies[i].wrong) > 0)
			return true;
	return false;
}

static void change_one(u64 *random)
{
	struct watched_file *w = &watchers.files[random_below(random, NR_FILES)];

	watched_file_change(w,
	                    mutant ? CHANGE_OVERWRITE
	                           : (enum watched_change)random_below(random,
	                                                               NR_CHANGES),
	                    0, random);
	seen.changes++;
}

/* Until the successor has said how its start went, or for so long. */
static void change_files(const struct test_service *next, u64 us, u64 *random)
{
	u64 end_ns = host_now_ns() + us * 1000;

	while (!test_service_has_said(next) && host_now_ns() < end_ns) {
		change_one(random);
		fixture_pause_us(random_below(random, mutant ? 3000 : 300));
	}
}

/* The process that serves; 0: none answers. */
static pid_t who_serves(void)
{
	struct lodic_stat stat;
	struct look *look;
	int pid;

	if (look_open(watchers.service.socket, &look, &pid) != 0)
		return 0;
	if (look_stat(look, &stat) != 0)
		pid = 0;
	look_close(look);
	return pid;
}

static void let_live(struct test_service *old, struct test_service *next)
{
	REQUIRE(test_service_await(next) == 0, "%s", next->why);
	REQUIRE(fixture_wait(old->pid) == 0, "the old service did not end in order");
	REQUIRE(who_serves() == next->pid, "another one serves");
	*old = *next;
}

/* HANDED may have been on its way: then the old service ends, as late as a busy machine lets it. It
 * has read all that the successor sent before it answers a question that came later. */
static void kill_successor(struct test_service *old, struct test_service *next)
{
	bool ended = false;
	int status;

	kill(next->pid, SIGKILL);
	test_service_await(next);
	test_service_kill(next);
	REQUIRE(WAIT_UNTIL(
			(ended = waitpid(old->pid, &status, WNOHANG) == old->pid) ||
			who_serves() == old->pid),
	        "the old one neither goes on nor ends");
	if (!ended) {
		seen.went_on++;
		return;
	}
	REQUIRE(status == 0, "the old service did not end in order");
	old->options.place.takeover = false;
	REQUIRE(test_service_start(old) == 0, "%s", old->why);
}

static void kill_old(struct test_service *old, struct test_service *next)
{
	test_service_kill(old);
	REQUIRE(test_service_await(next) == 0, "%s", next->why);
	REQUIRE(WAIT_UNTIL(who_serves() == next->pid), "another one serves");
	*old = *next;
}

static void restart_once(u64 *random)
{
	struct test_service *old = &watchers.service;
	struct test_service next = *old;
	u64 delay_us = random_below(random, MOST_DELAY_US);
	enum way way = mutant ? WAY_LIVES : (enum way)random_below(random, 4);

	way = way < NR_WAYS ? way : WAY_LIVES;
	seen.ways[way]++;
	if (random_below(random, 4) > 0)
		watchers_wait_for_hits(&watchers);
	next.options.place.takeover = true;
	test_service_begin(&next);
	if (way == WAY_LIVES)
		delay_us = (u64)FIXTURE_DEADLINE_MS * 1000;
	if (mutant || random_below(random, 2))
		change_files(&next, delay_us, random);
	else if (way != WAY_LIVES)
		fixture_pause_us(delay_us);
	switch (way) {
	case WAY_SUCCESSOR_DIES: kill_successor(old, &next); break;
	case WAY_OLD_DIES: kill_old(old, &next); break;
	default: let_live(old, &next); break;
	}
	if (!mutant)
		watchers_check(&watchers);
}

static int run_mutant(u64 *random)
{
	for (u32 i = 0; i < MUTANT_MOST && !any_wrong(); i++)
		restart_once(random);
	printf(any_wrong() ? "mutant caught after %llu restarts\n"
	                   : "mutant NOT caught in %llu restarts\n",
	       (unsigned long long)seen.ways[WAY_LIVES]);
	return !any_wrong();
}

static void report(u64 ns)
{
	printf("%llu restarts (%s), %llu successors and %llu old services killed, %llu old "
	       "ones went on, %llu changes meanwhile, in %.1f s\n",
	       (unsigned long long)seen.ways[WAY_LIVES], scheme_name,
	       (unsigned long long)seen.ways[WAY_SUCCESSOR_DIES],
	       (unsigned long long)seen.ways[WAY_OLD_DIES],
	       (unsigned long long)seen.went_on, (unsigned long long)seen.changes,
	       (double)ns / 1e9);
	watchers_report(&watchers);
	REQUIRE(seen.went_on > 0 && seen.changes > 0, "too little was seen");
}

int main(int argc, char **argv)
{
	const struct fixture_option options[] = {
		{ .name = "--restarts", .number = &nr_restarts },
		{ .name = "--scheme", .text = &scheme_name },
		{ 0 },
	};
	u64 random, start;

	if (argc > 1 && strcmp(argv[argc - 1], "--mutant") == 0) {
		mutant = true;
		argc--;
	}
	fixture_begin(argc, argv, options);
	random = random_stream(0);
	watchers_start(&watchers, CACHE_BYTES, scheme_name, &random);
	start = host_now_ns();
	watchers_wait_for_hits(&watchers);
	if (mutant)
		return run_mutant(&random);
	/* The rare things may want some more. */
	for (u64 i = 0;
	     i < nr_restarts || (i < 10 * nr_restarts &&
	                         (!watchers_seen_all(&watchers) || seen.went_on == 0));
	     i++)
		restart_once(&random);
	watchers_wait_for_hits(&watchers);
	watchers_stop(&watchers);
	report(host_now_ns() - start);
	REQUIRE(test_service_stop(&watchers.service) == 0,
	        "the service did not end in order");
	return 0;
}
