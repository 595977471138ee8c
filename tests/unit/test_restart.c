/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A planned restart: a successor takes the place of the service, and what that has cached. What
 * comes along, what programs notice, and when nothing is taken.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/wire.h"
#include "tests/support/cache_fixture.h"

#define BLOCK LODIC_BLOCK_BYTES
#define MIB ((u64)1 << 20)
#define NR_READERS 2u
#define LOAD_BLOCKS 4096u /* of a file of which the cache has room for a half */
#define MEASURE_NS ((u64)1000000000)
#define RATIO_MOST 0.02
#define TEST_SECONDS 120

/* A reader process under load. It writes these; the test reads them. */
struct load {
	u64 stop;
	u64 reads, failed, wrong;
	u64 hits, misses; /* of blocks */
};

static void restart_full_cache_is_full_and_fills_nothing(void **state)
{
	struct test_bed b;
	struct lodic_stat stat;

	(void)state;
	test_bed_make_blocks(&b, MIB, 200);
	test_bed_fill(&b);
	for (u32 round = 0; round < 3; round++) {
		test_bed_succeed(&b);
		test_bed_come_back(&b);
		for (u64 i = 0; i < 200; i++)
			assert_true(test_bed_reads_hit(&b, i));
		stat = test_service_stat(b.lodic);
		assert_int_equal(stat.service_pid, b.service.pid);
		assert_int_equal(stat.cached, 200);
		assert_int_equal(stat.admitted, 0);
	}
	test_bed_free(&b);
}

static void restart_what_was_pinned_stays_readable(void **state)
{
	struct lodic_pin pin;
	struct test_bed b;

	(void)state;
	test_bed_make_blocks(&b, MIB, 20);
	test_bed_fill(&b);
	assert_int_equal(lodic_pin(b.context, b.file, 3 * BLOCK, &pin), 0);
	test_bed_succeed(&b);
	test_bed_come_back(&b);
	assert_true(pattern_holds(pin.data, 1, 1, 3 * BLOCK, BLOCK));
	lodic_unpin(b.context, &pin);
	test_bed_free(&b);
}

static void restart_other_size_takes_what_has_room(void **state)
{
	struct test_bed b;
	u64 hits = 0;

	(void)state;
	test_bed_make_blocks(&b, MIB, 200);
	test_bed_fill(&b);
	/* SMALL has the last ones. Those that were read are the last to stay behind there. */
	for (u32 round = 0; round < 3; round++)
		for (u64 i = 0; i < 20; i++)
			assert_true(test_bed_reads_hit(&b, i));
	b.service.options.sizes.cache_bytes = 64 * BLOCK;
	test_bed_succeed(&b);
	assert_in_range(test_service_stat(b.lodic).cached, 60, 64);
	assert_int_equal(test_service_stat(b.lodic).admitted, 0);
	test_bed_come_back(&b);
	for (u64 i = 0; i < 20; i++)
		hits += test_bed_reads_hit(&b, i);
	assert_true(hits > 0);
	b.service.options.sizes.cache_bytes = 2 * MIB;
	test_bed_succeed(&b);
	assert_in_range(test_service_stat(b.lodic).cached, 40, 64);
	for (u64 i = 0; i < 200; i++)
		test_bed_reads_hit(&b, i);
	test_bed_free(&b);
}

static void restart_file_that_a_writer_has_stays_behind(void **state)
{
	struct test_bed b;
	u8 buffer[BLOCK];
	int writer;

	(void)state;
	test_bed_make_blocks(&b, MIB, 20);
	test_bed_fill(&b);
	writer = fixture_open(b.path, O_WRONLY);
	test_bed_succeed(&b);
	pattern_fill(buffer, 1, 2, 0, BLOCK);
	assert_int_equal(pwrite(writer, buffer, BLOCK, 0), BLOCK);
	close(writer);
	for (u32 i = 0; i < 100; i++) {
		assert_int_equal(lodic_read(b.context, b.file, buffer, BLOCK, 0),
		                 BLOCK);
		assert_true(pattern_holds(buffer, 1, 2, 0, BLOCK));
	}
	test_bed_free(&b);
}

/* The successor, and nobody else, has the lease now. */
static void restart_writer_is_answered_by_the_successor(void **state)
{
	struct test_bed b;
	u8 buffer[BLOCK];
	u64 start;
	int writer;

	(void)state;
	test_bed_make_blocks(&b, MIB, 20);
	test_bed_fill(&b);
	test_bed_succeed(&b);
	test_bed_come_back(&b);
	start = host_now_ns();
	writer = fixture_open(b.path, O_WRONLY);
	/* The kernel would wait for 45 s. */
	assert_true(host_now_ns() - start < (u64)FIXTURE_DEADLINE_MS * 1000000);
	pattern_fill(buffer, 1, 2, 0, BLOCK);
	assert_int_equal(pwrite(writer, buffer, BLOCK, 0), BLOCK);
	assert_int_equal(lodic_read(b.context, b.file, buffer, BLOCK, 0), BLOCK);
	assert_true(pattern_holds(buffer, 1, 2, 0, BLOCK));
	close(writer);
	assert_true(WAIT_UNTIL(test_service_stat(b.lodic).revoked == 1));
	test_bed_free(&b);
}

static void restart_many_files_come_along(void **state)
{
	struct lodic_file *files[60];
	char path[FIXTURE_PATH_BYTES];
	struct test_bed b;
	int fds[60];

	(void)state;
	test_bed_make_blocks(&b, MIB, 1);
	for (u32 i = 0; i < 60; i++) {
		char name[16];

		snprintf(name, sizeof(name), "many%u", i);
		pattern_file_make(path, name, 2 + i, 1, 2 * BLOCK);
		fds[i] = fixture_open(path, O_RDONLY);
		assert_int_equal(lodic_open(b.lodic, fds[i], &files[i]), 0);
		assert_int_equal(lodic_prefetch(b.context, files[i], 0, 0, LODIC_WAIT),
		                 0);
	}
	test_bed_fill(&b);
	test_bed_succeed(&b);
	assert_int_equal(test_service_stat(b.lodic).files, 61);
	assert_int_equal(test_service_stat(b.lodic).cached, 121);
	for (u32 i = 0; i < 60; i++) {
		lodic_close(files[i]);
		close(fds[i]);
	}
	test_bed_free(&b);
}

static void takeover_nobody_there_is_a_start(void **state)
{
	struct test_service service;

	(void)state;
	test_service_init(&service, "alone");
	service.options.place.takeover = true;
	assert_int_equal(test_service_start(&service), 0);
	assert_int_equal(test_service_stop(&service), 0);
}

/* Another program's socket, which answers each request with so many bytes, or never. */
static pid_t stranger(const char *path, int bytes)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), client;
	char buffer[4096] = "";
	pid_t pid;

	strcpy(address.sun_path, path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	pid = fixture_fork();
	if (pid > 0) {
		close(fd);
		return pid;
	}
	while ((client = accept(fd, NULL, NULL)) >= 0)
		if (recv(client, buffer, sizeof(buffer), 0) > 0 && bytes > 0)
			send(client, buffer, (size_t)bytes, 0);
	_exit(0);
}

static void takeover_other_version_or_silence_is_refused(void **state)
{
	static const struct {
		int bytes, error;
		const char *why;
	} cases[] = { { 64, -EPROTO, "of another version" },
		      { 0, -ETIMEDOUT, "does not answer" } };
	struct test_service service;
	pid_t pid;

	(void)state;
	for (u32 i = 0; i < 2; i++) {
		test_service_init(&service, i ? "silent" : "other");
		service.options.place.takeover = true;
		pid = stranger(service.socket, cases[i].bytes);
		assert_int_equal(test_service_start(&service), cases[i].error);
		assert_non_null(strstr(service.why, cases[i].why));
		assert_int_equal(access(service.socket, F_OK), 0);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

/* Of two successors at once one gets the place; the other one says so, and nobody is lost. */
static void two_successors_one_gets_the_place(void **state)
{
	struct test_service next[2];
	struct test_bed b;
	int errors[2];
	u32 winner;

	(void)state;
	test_bed_make_blocks(&b, MIB, 100);
	test_bed_fill(&b);
	for (u32 round = 0; round < 10; round++) {
		for (u32 i = 0; i < 2; i++) {
			next[i] = b.service;
			next[i].options.place.takeover = true;
			test_service_begin(&next[i]);
		}
		for (u32 i = 0; i < 2; i++)
			errors[i] = test_service_await(&next[i]);
		assert_int_equal(fixture_wait(b.service.pid), 0);
		/* The second may come when the first serves, and take its place. */
		winner = errors[0] == 0 ? 0 : 1;
		if (errors[0] == 0 && errors[1] == 0) {
			int status = -1;

			assert_true(WAIT_UNTIL(
				waitpid(next[0].pid, &status, WNOHANG) == next[0].pid
					? (winner = 1)
					: waitpid(next[1].pid, &status, WNOHANG) ==
						  next[1].pid));
			assert_int_equal(status, 0);
			assert_int_equal(test_service_stat(b.lodic).service_pid,
			                 next[winner].pid);
		} else {
			assert_true(errors[1 - winner] == -EBUSY ||
			            errors[1 - winner] == -EADDRINUSE);
		}
		b.service = next[winner];
		b.service.options.place.takeover = false;
		test_bed_come_back(&b);
	}
	test_bed_free(&b);
}

/* ---- under load ---- */

static _Noreturn void load_run(const struct test_bed *b, struct load *load, u64 number)
{
	struct lodic_context_stat before, now;
	struct lodic_context *context;
	struct lodic_file *file;
	struct lodic *lodic;
	u64 random = random_stream(number);
	u8 buffer[BLOCK];

	REQUIRE(test_service_attach(&b->service, &lodic) == 0, "not attached");
	REQUIRE(lodic_context_open(lodic, &context) == 0, "no context");
	REQUIRE(lodic_open(lodic, fixture_open(b->path, O_RDONLY), &file) == 0,
	        "not opened");
	before = test_context_stat(context);
	while (!host_load_acquire(&load->stop)) {
		/* The square: most reads are of few blocks. */
		u64 x = random_below(&random, LOAD_BLOCKS);
		u64 i = x * x / LOAD_BLOCKS;
		ssize_t n =
			lodic_read(context, file, buffer, BLOCK, (off_t)(i * BLOCK));

		load->failed += n != (ssize_t)BLOCK;
		load->wrong += !pattern_holds(buffer, 1, 1, i * BLOCK, BLOCK);
		host_store_release(&load->reads, load->reads + 1);
		now = test_context_stat(context);
		/* A context that has moved begins at 0. What is read without one is a miss. */
		if (now.hits > before.hits)
			host_store_release(&load->hits, load->hits + 1);
		else
			host_store_release(&load->misses, load->misses + 1);
		before = now;
	}
	_exit(0);
}

static double ratio_of(struct load *loads, u64 ns)
{
	u64 hits = 0, misses = 0, end_ns;

	for (u32 i = 0; i < NR_READERS; i++) {
		hits -= host_load_acquire(&loads[i].hits);
		misses -= host_load_acquire(&loads[i].misses);
	}
	end_ns = host_now_ns() + ns;
	while (host_now_ns() < end_ns)
		fixture_pause_us(1000);
	for (u32 i = 0; i < NR_READERS; i++) {
		hits += host_load_acquire(&loads[i].hits);
		misses += host_load_acquire(&loads[i].misses);
	}
	assert_true(hits > 0);
	return (double)hits / (double)(hits + misses);
}

/* Every reader is in the cache again: it has hits that it did not have before. */
static void load_comes_back(const struct load *loads)
{
	u64 before[NR_READERS];

	for (u32 i = 0; i < NR_READERS; i++)
		before[i] = host_load_acquire(&loads[i].hits);
	for (u32 i = 0; i < NR_READERS; i++)
		assert_true(WAIT_UNTIL(host_load_acquire(&loads[i].hits) > before[i]));
}

static void restart_under_load_keeps_the_hit_ratio(void **state)
{
	struct load *loads = fixture_shared(NR_READERS * sizeof(*loads));
	double before, after;
	struct test_bed b;
	pid_t pids[NR_READERS];

	(void)state;
	test_bed_make_blocks(&b, LOAD_BLOCKS / 2 * BLOCK, LOAD_BLOCKS);
	for (u32 i = 0; i < NR_READERS; i++) {
		pids[i] = fixture_fork();
		if (pids[i] == 0)
			load_run(&b, &loads[i], i + 1);
	}
	load_comes_back(loads);
	ratio_of(loads, 2 * MEASURE_NS); /* until the cache has settled */
	for (u32 round = 0; round < 3; round++) {
		before = ratio_of(loads, MEASURE_NS);
		test_bed_succeed(&b);
		/* At once, but not on a loaded machine. */
		load_comes_back(loads);
		fixture_pause_us(MEASURE_NS / 1000);
		after = ratio_of(loads, MEASURE_NS);
		printf("hit ratio %.4f before, %.4f from 1 s after\n", before, after);
		assert_true(after > before - RATIO_MOST);
	}
	for (u32 i = 0; i < NR_READERS; i++) {
		host_store_release(&loads[i].stop, 1);
		assert_int_equal(fixture_wait(pids[i]), 0);
		assert_int_equal(loads[i].failed, 0);
		assert_int_equal(loads[i].wrong, 0);
		assert_true(loads[i].reads > 1000);
	}
	test_bed_free(&b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(restart_full_cache_is_full_and_fills_nothing),
		cmocka_unit_test(restart_what_was_pinned_stays_readable),
		cmocka_unit_test(restart_other_size_takes_what_has_room),
		cmocka_unit_test(restart_file_that_a_writer_has_stays_behind),
		cmocka_unit_test(restart_writer_is_answered_by_the_successor),
		cmocka_unit_test(restart_many_files_come_along),
		cmocka_unit_test(takeover_nobody_there_is_a_start),
		cmocka_unit_test(takeover_other_version_or_silence_is_refused),
		cmocka_unit_test(two_successors_one_gets_the_place),
		cmocka_unit_test(restart_under_load_keeps_the_hit_ratio),
	};
	struct test_bed b;

	fixture_begin(argc, argv, NULL);
	alarm(TEST_SECONDS);
	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	fixture_need_leases(&b.service, b.path);
	test_bed_free(&b);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
