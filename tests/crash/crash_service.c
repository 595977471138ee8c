/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The service is killed at random moments while readers read and hold pins, and a
 * successor is started at the same socket each time. Readers see no wrong byte, never
 * hang, and come back to the cache by themselves. Often an outsider writes to a file
 * between the kill and the successor's start: its open waits until the kernel has dropped
 * the dead service's lease, and from then on no reader may believe what it has mapped.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/watched_file.h"

#define NR_READERS 3u
#define NR_FILES 4u
#define CACHE_BYTES ((u64)64 * LODIC_BLOCK_BYTES)
#define HOT_HITS 4u
#define MOST_DELAY_US 4000u
#define LOOKS_WHILE_OPEN 5u

static struct {
	struct watched_file files[NR_FILES];
	struct watcher_tally tallies[NR_READERS];
} * shared;

static struct {
	u64 early;      /* killed before all readers had come back */
	u64 writes;     /* by the outsider, while no service was there */
	u64 longest_ns; /* from a kill until every reader had hits again */
} seen;

static u64 nr_kills = 100;
static const char *scheme_name = "lodic";

static void reader_run(const struct test_service *service, u32 number)
{
	static struct watcher watcher;
	int err = 0;

	watcher.watched = shared->files;
	watcher.tally = &shared->tallies[number];
	watcher.nr_files = NR_FILES;
	watcher.number = number;
	/* The service may be killed under the first attempts. */
	REQUIRE(WAIT_UNTIL((err = test_service_attach(service, &watcher.lodic)) == 0),
	        "%s", strerror(-err));
	watcher_begin(&watcher);
	while (!host_load_acquire(&watcher.tally->stop))
		watcher_step(&watcher);
	watcher_end(&watcher);
	lodic_detach(watcher.lodic);
	_exit(watcher.tally->wrong > 0);
}

/* Readers go on at any time, service or not. */
static void require_progress(void)
{
	for (u32 i = 0; i < NR_READERS; i++) {
		const u64 *p = &shared->tallies[i].progress;
		u64 before = host_load_acquire(p);

		REQUIRE(WAIT_UNTIL(host_load_acquire(p) > before), "reader %u hangs",
		        i);
		REQUIRE(shared->tallies[i].wrong == 0, "reader %u saw wrong bytes", i);
	}
}

/* Every reader has hits that it did not have at the beginning of the wait. */
static void wait_for_hits(void)
{
	u64 before[NR_READERS];

	for (u32 i = 0; i < NR_READERS; i++)
		before[i] = host_load_acquire(&shared->tallies[i].hits);
	for (u32 i = 0; i < NR_READERS; i++)
		REQUIRE(WAIT_UNTIL(host_load_acquire(&shared->tallies[i].hits) >=
		                   before[i] + HOT_HITS),
		        "reader %u does not come back to the cache", i);
}

static void linger(struct watched_file *w)
{
	u64 seen_open[NR_READERS];

	for (u32 i = 0; i < NR_READERS; i++)
		seen_open[i] = host_load_acquire(&w->seen_open[i]);
	for (u32 i = 0; i < NR_READERS; i++)
		REQUIRE(WAIT_UNTIL(host_load_acquire(&w->seen_open[i]) >=
		                   seen_open[i] + LOOKS_WHILE_OPEN),
		        "reader %u hangs", i);
}

/* One to three changes to files that the dead service had leases on. The first often
 * begins before the kernel is done with killing: SIGKILL has been sent, no more. */
static void outsider_writes(u64 *random)
{
	u64 nr = 1 + random_below(random, 3);

	while (nr-- > 0) {
		struct watched_file *w = &shared->files[random_below(random, NR_FILES)];

		watched_file_change(
			w, (enum watched_change)random_below(random, NR_CHANGES),
			random, random_below(random, 2) ? linger : NULL);
		seen.writes++;
	}
}

static void kill_once(struct test_service *service, u64 *random)
{
	bool early = random_below(random, 5) == 0;
	u64 start;

	if (early)
		seen.early++;
	else
		wait_for_hits();
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
		wait_for_hits();
		if (host_now_ns() - start > seen.longest_ns)
			seen.longest_ns = host_now_ns() - start;
	}
}

static void report(u64 ns)
{
	struct watcher_tally sum = { 0 };

	for (u32 i = 0; i < NR_READERS; i++) {
		const struct watcher_tally *t = &shared->tallies[i];

		sum.reads += t->reads;
		sum.pins += t->pins;
		sum.hits += t->hits;
		sum.exact += t->exact;
		sum.open += t->open;
		sum.snapshots += t->snapshots;
		sum.wrong += t->wrong;
	}
	printf("%llu kills of the service (%s), %llu of them early, %llu changes without a "
	       "service, in %.1f s; back after %.0f ms at most\n"
	       "%llu reads, %llu pins, %llu hits, %llu compared byte by byte, %llu while a "
	       "writer had the file, %llu pins kept over a change; %llu wrong, 0 hung\n",
	       (unsigned long long)nr_kills, scheme_name,
	       (unsigned long long)seen.early, (unsigned long long)seen.writes,
	       (double)ns / 1e9, (double)seen.longest_ns / 1e6,
	       (unsigned long long)sum.reads, (unsigned long long)sum.pins,
	       (unsigned long long)sum.hits, (unsigned long long)sum.exact,
	       (unsigned long long)sum.open, (unsigned long long)sum.snapshots,
	       (unsigned long long)sum.wrong);
	REQUIRE(sum.wrong == 0, "%llu", (unsigned long long)sum.wrong);
	REQUIRE(sum.snapshots > 0, "no pin outlived its service's file");
}

int main(int argc, char **argv)
{
	const struct fixture_option options[] = {
		{ .name = "--kills", .number = &nr_kills },
		{ .name = "--scheme", .text = &scheme_name },
		{ 0 },
	};
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
	/* Who has not attached when the first service dies waits for the next, and the writer
	 * of an early kill would wait for him. */
	require_progress();
	for (u64 i = 0; i < nr_kills; i++)
		kill_once(&service, &random);
	wait_for_hits();
	for (u32 i = 0; i < NR_READERS; i++) {
		host_store_release(&shared->tallies[i].stop, 1);
		REQUIRE(fixture_wait(readers[i]) == 0, "reader %u", i);
	}
	report(host_now_ns() - start);
	REQUIRE(test_service_stop(&service) == 0, "the service did not end in order");
	return 0;
}
