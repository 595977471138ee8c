/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Reading threads never wait for anybody but pread(2), whatever has become of the service.
 * It is stopped, dead, restarting, or busy with a file whose open does not answer. Meanwhile
 * other threads of the program wait in lodic_open(), in a start, and in LODIC_WAIT. A seccomp
 * filter watches each system call of the readers, and every byte they get is verified. After
 * each of these times the readers must come back to the cache by themselves.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/client/attach.h"
#include "tests/support/cache_fixture.h"
#include "tests/support/waitless.h"

#define NR_READERS 3u
#define NR_FILES 3u /* the last one is that whose open does not answer */
#define SLOW (NR_FILES - 1)
#define FILE_BLOCKS 40u
#define FILE_BYTES ((u64)FILE_BLOCKS * LODIC_BLOCK_BYTES)
#define MOST_READ 600u
#define NR_RESTARTS 20u
#define HOT_HITS 50u

struct reader {
	pthread_t thread;
	struct lodic_context *context;
	struct lodic_pin held;
	u64 held_file, held_offset;
	u64 random;
	u64 reads, hits, pins, wrong, longest_ns; /* the reader writes */
};

static struct {
	struct test_service service;
	struct lodic *lodic;
	char paths[NR_FILES][FIXTURE_PATH_BYTES];
	int fds[NR_FILES];
	struct lodic_file *files[NR_FILES];
	struct reader readers[NR_READERS];
	u64 nr_ready, stop;
} bed;

static u64 nr_reads = 100000;
static const char *scheme_name = "lodic";

static void reader_verify(struct reader *r, const void *bytes, u64 file, u64 offset,
                          u64 n)
{
	if (!pattern_holds(bytes, file + 1, 1, offset, n))
		host_store_release(&r->wrong, r->wrong + 1);
}

/* Gives back the pin that it has kept, and takes another one. Pins outlive their service. */
static void reader_pin(struct reader *r, u64 file, u64 offset)
{
	if (r->held.word) {
		reader_verify(r, r->held.data, r->held_file, r->held_offset,
		              r->held.bytes);
		lodic_unpin(r->context, &r->held);
	}
	if (lodic_pin(r->context, bed.files[file], (off_t)offset, &r->held) == 0) {
		reader_verify(r, r->held.data, file, offset, r->held.bytes);
		r->held_file = file;
		r->held_offset = offset;
		host_store_release(&r->pins, r->pins + 1);
	}
}

static void reader_step(struct reader *r)
{
	u64 file = random_below(&r->random, NR_FILES);
	u64 n = 1 + random_below(&r->random, MOST_READ);
	u64 offset = random_below(&r->random, FILE_BYTES - n);
	u64 start = host_now_ns();
	u8 buffer[MOST_READ];
	u64 ns;

	if (lodic_read(r->context, bed.files[file], buffer, n, (off_t)offset) !=
	    (ssize_t)n)
		host_store_release(&r->wrong, r->wrong + 1);
	ns = host_now_ns() - start;
	if (ns > r->longest_ns)
		host_store_release(&r->longest_ns, ns);
	reader_verify(r, buffer, file, offset, n);
	if (random_below(&r->random, 8) == 0)
		reader_pin(r, file, offset);
	if (random_below(&r->random, 64) == 0)
		host_store_release(&r->hits, test_context_stat(r->context).hits);
	host_store_release(&r->reads, r->reads + 1);
}

static void *reader_run(void *arg)
{
	struct reader *r = arg;

	waitless_begin();
	host_fetch_add(&bed.nr_ready, 1);
	while (!host_load_acquire(&bed.stop))
		reader_step(r);
	lodic_unpin(r->context, &r->held);
	return NULL;
}

/* Every reader makes so many reads more, none of them wrong. */
static void require_reads(u64 nr, const char *when)
{
	u64 before[NR_READERS];

	for (u32 i = 0; i < NR_READERS; i++)
		before[i] = host_load_acquire(&bed.readers[i].reads);
	for (u32 i = 0; i < NR_READERS; i++) {
		const struct reader *r = &bed.readers[i];

		REQUIRE(WAIT_UNTIL(host_load_acquire(&r->reads) >= before[i] + nr),
		        "%s: reader %u hangs", when, i);
		REQUIRE(host_load_acquire(&r->wrong) == 0, "%s: reader %u: wrong bytes",
		        when, i);
	}
}

/* Every reader gets hits that it did not have before. */
static void require_hits(const char *when)
{
	u64 before[NR_READERS];

	for (u32 i = 0; i < NR_READERS; i++)
		before[i] = host_load_acquire(&bed.readers[i].hits);
	for (u32 i = 0; i < NR_READERS; i++)
		REQUIRE(WAIT_UNTIL(host_load_acquire(&bed.readers[i].hits) >=
		                   before[i] + HOT_HITS),
		        "%s: reader %u does not come back to the cache", when, i);
}

static void report(const char *when, u64 start)
{
	u64 longest = 0;

	for (u32 i = 0; i < NR_READERS; i++) {
		u64 ns = host_load_acquire(&bed.readers[i].longest_ns);

		if (ns > longest)
			longest = ns;
	}
	printf("%s: %llu reads by each of %u threads, 0 hung, 0 wrong, in %.1f s; the "
	       "longest so far %.1f ms\n",
	       when, (unsigned long long)nr_reads, NR_READERS,
	       (double)(host_now_ns() - start) / 1e9, (double)longest / 1e6);
	fflush(stdout);
}

/* Others of the same program, which may wait. */
static void *open_and_close(void *arg)
{
	struct lodic_file *file;

	if (lodic_open(bed.lodic, bed.fds[(u64)arg], &file) == 0)
		lodic_close(file);
	return NULL;
}

static void *prefetch_and_wait(void *arg)
{
	lodic_prefetch(arg, bed.files[0], 0, 0, LODIC_WAIT);
	return NULL;
}

static pthread_t begin(void *(*run)(void *arg), void *arg)
{
	pthread_t thread;

	REQUIRE(pthread_create(&thread, NULL, run, arg) == 0, "no thread");
	return thread;
}

static void while_stopped(void)
{
	struct lodic_context *context;
	pthread_t opener, waiter;
	u64 start = host_now_ns();

	REQUIRE(lodic_context_open(bed.lodic, &context) == 0, "no context");
	REQUIRE(WAIT_UNTIL(lodic_prefetch(context, bed.files[0], 0, 0, LODIC_WAIT) ==
	                   0),
	        "not tied");
	test_service_freeze(&bed.service);
	opener = begin(open_and_close, (void *)1);
	waiter = begin(prefetch_and_wait, context);
	require_reads(nr_reads, "stopped");
	pthread_join(opener, NULL); /* 2 s later */
	opener = begin(open_and_close, (void *)1);
	require_reads(nr_reads / 4, "stopped");
	kill(bed.service.pid, SIGCONT);
	pthread_join(waiter, NULL);
	pthread_join(opener, NULL);
	lodic_context_close(context);
	require_hits("stopped");
	report("stopped", start);
}

/* A new service is stopped before the readers are back: nobody answers their steps. */
static void while_new_one_stopped(void)
{
	u64 start = host_now_ns();
	pthread_t opener;

	test_service_kill(&bed.service);
	require_reads(1, "new one stopped");
	REQUIRE(test_service_start(&bed.service) == 0, "%s", bed.service.why);
	test_service_freeze(&bed.service);
	opener = begin(open_and_close, (void *)1);
	require_reads(nr_reads, "new one stopped");
	pthread_join(opener, NULL);
	kill(bed.service.pid, SIGCONT);
	require_hits("new one stopped");
	report("new one stopped", start);
}

/* The service to start does not come up for a while. The readers must not start it. */
static void while_dead(void)
{
	u64 start = host_now_ns();
	char started[FIXTURE_PATH_BYTES];
	pthread_t opener;

	test_service_kill(&bed.service);
	require_reads(nr_reads / 4, "dead");
	fixture_path(started, "started");
	REQUIRE(access(started, F_OK) != 0, "a reader has started a service");
	opener = begin(open_and_close, (void *)1);
	REQUIRE(WAIT_UNTIL(access(started, F_OK) == 0),
	        "lodic_open() starts no service");
	require_reads(nr_reads, "dead");
	pthread_join(opener, NULL);
	REQUIRE(test_service_start(&bed.service) == 0, "%s", bed.service.why);
	require_hits("dead");
	report("dead", start);
}

static void while_restarting(void)
{
	u64 start = host_now_ns();

	for (u32 i = 0; i < NR_RESTARTS; i++) {
		require_reads(nr_reads / NR_RESTARTS / 2, "restarting");
		if (i % 2)
			test_service_kill(&bed.service);
		else
			REQUIRE(test_service_stop(&bed.service) == 0, "not in order");
		require_reads(nr_reads / NR_RESTARTS / 2, "restarting");
		REQUIRE(test_service_start(&bed.service) == 0, "%s", bed.service.why);
	}
	require_hits("restarting");
	report("restarting", start);
}

/* The service opens the last file, and waits until somebody answers for it. Nobody does. It
 * is a new service, so that the readers come back to it, one step at a time. */
static void while_open_does_not_answer(void)
{
	struct pollfd asked = { .events = POLLIN };
	u64 start = host_now_ns();
	pthread_t opener;

	REQUIRE(test_service_stop(&bed.service) == 0, "not in order");
	asked.fd = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY | O_CLOEXEC);
	if (asked.fd < 0 || fanotify_mark(asked.fd, FAN_MARK_ADD, FAN_OPEN_PERM,
	                                  AT_FDCWD, bed.paths[SLOW]) != 0) {
		printf("open does not answer: not tried, %s\n", strerror(errno));
		REQUIRE(test_service_start(&bed.service) == 0, "%s", bed.service.why);
		return;
	}
	REQUIRE(test_service_start(&bed.service) == 0, "%s", bed.service.why);
	opener = begin(open_and_close, (void *)(u64)SLOW);
	REQUIRE(poll(&asked, 1, FIXTURE_DEADLINE_MS) == 1, "nobody opens it");
	require_reads(nr_reads, "open does not answer");
	pthread_join(opener, NULL);
	close(asked.fd); /* now it answers */
	require_hits("open does not answer");
	report("open does not answer", start);
}

static void make_bed(void)
{
	struct lodic_options options = { .bytes = sizeof(options),
		                         .socket = bed.service.socket };
	static char program[FIXTURE_PATH_BYTES];
	static const char script[] =
		"#!/bin/sh\n: > ${0%/*}/started\nsleep 1\nexit 2\n";
	char name[16];
	int fd;

	/* A service to start that takes its time, and fails. */
	fixture_path(program, "slow-program");
	fd = open(program, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	REQUIRE(write(fd, script, sizeof(script) - 1) == sizeof(script) - 1, "script");
	close(fd);
	options.service = program;
	test_service_init(&bed.service, "s");
	options.socket = bed.service.socket;
	bed.service.inherits = true;
	bed.service.options.tables.scheme = fixture_scheme(scheme_name);
	REQUIRE(test_service_start(&bed.service) == 0, "%s", bed.service.why);
	REQUIRE(lodic_attach(&options, &bed.lodic) == 0, "not attached");
	for (u32 i = 0; i < NR_FILES; i++) {
		snprintf(name, sizeof(name), "file%u", i);
		pattern_file_make(bed.paths[i], name, i + 1, 1, FILE_BYTES);
		bed.fds[i] = fixture_open(bed.paths[i], O_RDONLY);
		REQUIRE(lodic_open(bed.lodic, bed.fds[i], &bed.files[i]) == 0, "file");
	}
	fixture_need_leases(&bed.service, bed.paths[0]);
}

int main(int argc, char **argv)
{
	const struct fixture_option options[] = {
		{ .name = "--reads", .number = &nr_reads },
		{ .name = "--scheme", .text = &scheme_name },
		{ 0 },
	};

	fixture_begin(argc, argv, options);
	make_bed();
	waitless_prepare(bed.lodic, sizeof(*bed.lodic));
	for (u32 i = 0; i < NR_READERS; i++) {
		struct reader *r = &bed.readers[i];

		r->random = random_stream(i);
		REQUIRE(lodic_context_open(bed.lodic, &r->context) == 0, "context");
		r->thread = begin(reader_run, r);
	}
	require_hits("at first");
	while_stopped();
	while_new_one_stopped();
	while_dead();
	while_restarting();
	while_open_does_not_answer();
	host_store_release(&bed.stop, 1);
	for (u32 i = 0; i < NR_READERS; i++) {
		pthread_join(bed.readers[i].thread, NULL);
		REQUIRE(bed.readers[i].pins > 0, "reader %u never pinned", i);
		lodic_context_close(bed.readers[i].context);
	}
	for (u32 i = 0; i < NR_FILES; i++) {
		lodic_close(bed.files[i]);
		close(bed.fds[i]);
	}
	lodic_detach(bed.lodic);
	REQUIRE(test_service_stop(&bed.service) == 0,
	        "the service did not end in order");
	return 0;
}
