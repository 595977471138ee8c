/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The cache gets another size while programs read, hold pins and change files. No reader sees a
 * wrong byte. What was cached stays so as far as there is room. What goes wrong leaves the cache
 * as it was.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/wire.h"
#include "tests/support/watchers.h"

#define BLOCK LODIC_BLOCK_BYTES
#define MIB ((u64)1 << 20)
#define TEST_SECONDS 120
#define RESIZES 50u
#define KILLS 4u
/* Takes long enough to be met half-way. */
#define LARGE_BYTES (24 * MIB)
/* So long a resize waits for a file that does not come back (lib/service/succession/carry.c). */
#define FILE_PATIENCE_NS (500 * (u64)1000000)

static struct look *look_at(const struct test_service *service)
{
	struct look *look;
	int pid;

	REQUIRE(look_open(service->socket, &look, &pid) == 0, "nobody listens");
	return look;
}

/* true: the resize is over. The same connection asks from the beginning to the end. */
static bool resize_is_over(struct look *look, struct look_resize *now)
{
	int err = look_resize(look, 0, now);

	REQUIRE(err == 0, "%s", strerror(-err));
	return now->state != LOOK_RESIZE_RUNS;
}

static struct look_resize resize(const struct test_service *service, u64 bytes)
{
	struct look *look = look_at(service);
	struct look_resize now;
	int err = look_resize(look, bytes, &now);

	REQUIRE(err == 0, "%s", strerror(-err));
	REQUIRE(WAIT_UNTIL(resize_is_over(look, &now)), "it takes too long");
	look_close(look);
	return now;
}

static void resize_must(const struct test_service *service, u64 bytes)
{
	struct look_resize now = resize(service, bytes);

	REQUIRE(now.state == LOOK_RESIZE_DONE, "%s", now.why);
	REQUIRE(now.to == bytes, "%llu", (unsigned long long)now.to);
}

/* Four readers compare all that they see with what may be there, and keep pins. Meanwhile the
 * cache grows and shrinks, and files change at any moment of that. */
static void resize_while_files_change_no_wrong_byte(void **state)
{
	static struct watchers w = { .nr_files = 4, .nr = 4 };
	static const u64 sizes[] = { 96, 32, 256, 64, 24 };
	u64 random = random_stream(1);
	struct watcher_tally sum;
	struct look *look;

	(void)state;
	watchers_start(&w, sizes[0] * BLOCK, "lodic", &random);
	look = look_at(&w.service);
	for (u32 i = 0; i < RESIZES || (i < 10 * RESIZES && !watchers_seen_all(&w));
	     i++) {
		u64 bytes = sizes[(i + 1) % 5] * BLOCK;
		struct watched_file *f = &w.files[random_below(&random, 4)];
		struct look_resize now;

		/* Often all readers are in the cache again when the next resize begins. */
		if (random_below(&random, 3) > 0)
			WAIT_UNTIL_MS(watched_file_is_hot(f, 4), 100);
		assert_int_equal(look_resize(look, bytes, &now), 0);
		fixture_pause_us(random_below(&random, 2000));
		if (random_below(&random, 2))
			watched_file_change(
				f,
				(enum watched_change)random_below(&random, NR_CHANGES),
				random_below(&random, 2), &random);
		assert_true(WAIT_UNTIL(resize_is_over(look, &now)));
		assert_int_equal(now.state, LOOK_RESIZE_DONE);
		watchers_check(&w);
	}
	look_close(look);
	watchers_stop(&w);
	sum = watchers_report(&w);
	assert_true(sum.hits > 1000);
	assert_int_equal(test_service_stop(&w.service), 0);
}

/* All of a file stays cached, larger or smaller: no block is read from it once more. */
static void resize_with_room_nothing_read_again(void **state)
{
	const u64 blocks = 200;
	struct lodic_stat before, after;
	struct test_bed b;
	u32 hits;

	(void)state;
	test_bed_make_blocks(&b, MIB, blocks);
	test_bed_fill(&b);
	before = test_service_stat(b.lodic);
	assert_int_equal(before.cached, blocks);
	for (u32 round = 0; round < 2; round++) {
		resize_must(&b.service, round == 0 ? 4 * MIB : (blocks + 30) * BLOCK);
		test_bed_come_back(&b);
		hits = 0;
		for (u64 i = 0; i < blocks; i++)
			hits += test_bed_reads_hit(&b, i);
		assert_int_equal(hits, blocks);
		after = test_service_stat(b.lodic);
		assert_int_equal(after.frames,
		                 round == 0 ? 4 * MIB / BLOCK : blocks + 30);
		assert_int_equal(after.admitted, before.admitted);
		assert_int_equal(after.cached, blocks);
		assert_int_equal(after.evicted, 0);
		assert_int_equal(after.service_pid, before.service_pid);
		assert_true(after.uptime_ns > before.uptime_ns);
		assert_true(after.hits >= before.hits + blocks);
		before = after;
	}
	test_bed_free(&b);
}

/* What is read often stays, wherever it lies. */
static void resize_smaller_hot_blocks_stay(void **state)
{
	const u64 blocks = 240, hot = 60;
	struct lodic_stat before;
	struct test_bed b;
	u32 hits = 0;

	(void)state;
	test_bed_make_blocks(&b, MIB, blocks);
	test_bed_fill(&b);
	for (u32 round = 0; round < 3; round++)
		for (u64 i = 0; i < hot; i++)
			assert_true(test_bed_reads_hit(&b, i * 4));
	before = test_service_stat(b.lodic);
	resize_must(&b.service, 96 * BLOCK);
	test_bed_come_back(&b);
	for (u64 i = 0; i < hot; i++)
		hits += test_bed_reads_hit(&b, i * 4);
	assert_int_equal(hits, hot);
	assert_int_equal(test_service_stat(b.lodic).admitted, before.admitted);
	assert_true(test_service_stat(b.lodic).cached > 80);
	test_bed_free(&b);
}

/* A pin is of the memory, and that stays for as long as it is held. */
static void pin_over_resizes_bytes_stay(void **state)
{
	struct lodic_pin pins[4], pin;
	struct test_bed b;

	(void)state;
	test_bed_make_blocks(&b, MIB, 100);
	test_bed_fill(&b);
	for (u32 i = 0; i < 4; i++) {
		assert_int_equal(lodic_pin(b.context, b.file, i * BLOCK, &pins[i]), 0);
		resize_must(&b.service, (i % 2 ? 1 : 2) * MIB);
		test_bed_come_back(&b);
	}
	/* Frames that are used again must not be theirs. */
	resize_must(&b.service, 32 * BLOCK);
	for (u64 i = 0; i < 100; i++)
		test_bed_reads_hit(&b, i);
	for (u32 i = 0; i < 4; i++) {
		assert_int_equal(pins[i].bytes, BLOCK);
		assert_true(pattern_holds(pins[i].data, 1, 1, i * BLOCK, BLOCK));
		lodic_unpin(b.context, &pins[i]);
	}
	test_bed_come_back(&b);
	assert_int_equal(lodic_pin(b.context, b.file, 0, &pin), 0);
	assert_int_equal(test_service_stat(b.lodic).pinned, 1);
	lodic_unpin(b.context, &pin);
	test_bed_free(&b);
}

/* The last name of an open file is gone; its program has it cached all the same. */
static void resize_open_file_without_name_stays(void **state)
{
	struct test_bed b;
	u64 admitted;

	(void)state;
	test_bed_make_blocks(&b, MIB, 20);
	test_bed_fill(&b);
	unlink(b.path);
	admitted = test_service_stat(b.lodic).admitted;
	resize_must(&b.service, 2 * MIB);
	/* Longer than the service takes to let such a file go. */
	assert_true(WAIT_UNTIL(test_service_stat(b.lodic).uptime_ns > 300000000));
	test_bed_come_back(&b);
	for (u64 i = 0; i < 20; i++)
		assert_true(test_bed_reads_hit(&b, i));
	assert_int_equal(test_service_stat(b.lodic).admitted, admitted);
	test_bed_free(&b);
}

static void resize_no_memory_says_so_cache_stays(void **state)
{
	struct look_resize now;
	struct test_bed b;

	(void)state;
	test_bed_make_blocks(&b, MIB, 20);
	test_bed_fill(&b);
	now = resize(&b.service, (u64)7 << 40);
	assert_int_equal(now.state, LOOK_RESIZE_FAILED);
	assert_int_equal(now.error, -ENOMEM);
	assert_non_null(strstr(now.why, "give it less"));
	for (u64 i = 0; i < 20; i++)
		assert_true(test_bed_reads_hit(
			&b, i)); /* at once: nobody had to come back */
	assert_int_equal(test_service_stat(b.lodic).frames, MIB / BLOCK);
	resize_must(&b.service, 2 * MIB);
	test_bed_free(&b);
}

static void resize_while_another_runs_ebusy(void **state)
{
	struct look_resize now;
	struct test_bed b;
	struct look *look;
	int err;

	(void)state;
	test_bed_make_blocks(&b, MIB, 20);
	test_bed_fill(&b);
	look = look_at(&b.service);
	/* On a loaded machine the first may be over before the second is asked for. */
	assert_true(WAIT_UNTIL(({
		err = 0;
		if (resize_is_over(look, &now)) {
			assert_int_equal(look_resize(look, LARGE_BYTES, &now), 0);
			assert_int_equal(now.state, LOOK_RESIZE_RUNS);
			err = look_resize(look, 2 * MIB, &now);
		}
		err != 0;
	})));
	assert_int_equal(err, -EBUSY);
	assert_int_equal(now.to, LARGE_BYTES);
	assert_true(WAIT_UNTIL(resize_is_over(look, &now)));
	assert_int_equal(now.state, LOOK_RESIZE_DONE);
	assert_int_equal(look_resize(look, 1, &now), -EINVAL);
	assert_int_equal(test_service_stat(b.lodic).frames, LARGE_BYTES / BLOCK);
	look_close(look);
	test_bed_free(&b);
}

/* What is dropped while blocks are copied is in neither memory. */
static void drop_while_resizing_nothing_comes_along(void **state)
{
	struct look_dropped dropped = { 0 };
	struct look_resize now;
	struct test_bed b;
	struct look *look;

	(void)state;
	test_bed_make_blocks(&b, LARGE_BYTES, 4000);
	test_bed_fill(&b);
	look = look_at(&b.service);
	assert_int_equal(look_resize(look, 2 * LARGE_BYTES, &now), 0);
	assert_true(WAIT_UNTIL(resize_is_over(look, &now) || now.taken > 0));
	assert_int_equal(look_drop(look, 0, LOOK_ALL, &dropped), 0);
	assert_int_equal(dropped.files, 1);
	assert_true(WAIT_UNTIL(resize_is_over(look, &now)));
	assert_int_equal(test_service_stat(b.lodic).files, 0);
	look_close(look);
	test_bed_free(&b);
}

/* The service ends, or is killed, at any moment of a resize. Readers find the next one. */
static void service_ends_in_resize(bool killed)
{
	u64 random = random_stream(2);
	struct look_resize now;
	struct test_bed b;
	struct look *look;

	test_bed_make_blocks(&b, LARGE_BYTES, 4000);
	test_bed_fill(&b);
	for (u32 i = 0; i < KILLS; i++) {
		look = look_at(&b.service);
		assert_int_equal(look_resize(look, LARGE_BYTES - i * MIB, &now), 0);
		/* Half of the time it has begun to copy. */
		if (i % 2)
			WAIT_UNTIL_MS(resize_is_over(look, &now) || now.taken > 0,
			              1000);
		else
			fixture_pause_us(random_below(&random, 10000));
		look_close(look);
		if (killed)
			test_service_kill(&b.service);
		else
			assert_int_equal(test_service_stop(&b.service), 0);
		test_bed_reads_hit(&b, i);
		b.service.inherits = true;
		assert_int_equal(test_service_start(&b.service), 0);
		assert_true(WAIT_UNTIL(test_bed_reads_hit(&b, i)));
	}
	test_bed_free(&b);
}

static void service_killed_in_resize_readers_find_next(void **state)
{
	(void)state;
	service_ends_in_resize(true);
}

static void service_stopped_in_resize_ends_in_order(void **state)
{
	(void)state;
	service_ends_in_resize(false);
}

/* A thread that opens and prefetches without end. */
struct opener {
	struct test_bed *b;
	u64 stop;
	u64 nr, refused, failed;
};

static void *open_on(void *arg)
{
	struct opener *o = arg;
	struct lodic_context *context;
	struct lodic_file *file;

	while (!host_load_acquire(&o->stop)) {
		o->nr++;
		o->failed += lodic_open(o->b->lodic, o->b->fd, &file) != 0;
		/* -ESTALE: resized since. */
		o->refused += lodic_file_cached(file) == -ECONNRESET;
		lodic_close(file);
		o->failed += lodic_context_open(o->b->lodic, &context) != 0;
		lodic_context_close(context);
	}
	return NULL;
}

/* Requests go on. A program that is told to come again does so by itself. */
static void resize_while_programs_open_requests_answered(void **state)
{
	struct opener o = { 0 };
	pthread_t thread;
	struct test_bed b;
	u64 resizes = 20;

	(void)state;
	test_bed_make_blocks(&b, MIB, 20);
	test_bed_fill(&b);
	o.b = &b;
	assert_int_equal(pthread_create(&thread, NULL, open_on, &o), 0);
	for (u64 i = 0; i < resizes; i++)
		resize_must(&b.service, (i % 2 ? 1 : 2) * MIB);
	host_store_release(&o.stop, 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	print_message("%llu opens, %llu refused\n", (unsigned long long)o.nr,
	              (unsigned long long)o.refused);
	assert_true(o.nr > resizes);
	assert_int_equal(o.failed, 0);
	assert_int_equal(o.refused, 0);
	test_bed_free(&b);
}

/* A file that is opened while blocks are copied. What was brought in of it is there afterwards. */
static void resize_file_comes_meanwhile_nothing_lost(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	struct look_resize now;
	struct lodic_file *file;
	struct test_bed b;
	struct look *look;
	u32 nr_whole = 0;

	(void)state;
	test_bed_make_blocks(&b, LARGE_BYTES, 4000);
	test_bed_fill(&b);
	look = look_at(&b.service);
	for (u64 round = 0; round < 6; round++) {
		u64 admitted = test_service_stat(b.lodic).admitted, hits;
		u8 buffer[BLOCK];
		int fd;

		pattern_file_make(path, "meanwhile", 2 + round, 1, 10 * BLOCK);
		fd = fixture_open(path, O_RDONLY);
		assert_int_equal(
			look_resize(look, LARGE_BYTES + (round % 2) * MIB, &now), 0);
		assert_true(WAIT_UNTIL(resize_is_over(look, &now) || now.taken > 0));
		assert_int_equal(lodic_open(b.lodic, fd, &file), 0);
		lodic_prefetch(b.context, file, 0, 0, LODIC_WAIT);
		assert_true(WAIT_UNTIL(resize_is_over(look, &now)));
		test_bed_come_back(&b);
		admitted = test_service_stat(b.lodic).admitted - admitted;
		assert_true(WAIT_UNTIL(lodic_read(b.context, file, buffer, 1, 0) == 1 &&
		                       lodic_file_cached(file) == 0));
		hits = test_context_stat(b.context).hits;
		for (u64 i = 0; i < 10; i++) {
			assert_int_equal(lodic_read(b.context, file, buffer, BLOCK,
			                            (off_t)(i * BLOCK)),
			                 BLOCK);
			assert_true(
				pattern_holds(buffer, 2 + round, 1, i * BLOCK, BLOCK));
		}
		hits = test_context_stat(b.context).hits - hits;
		/* Some may come twice. On a loaded machine the file may come too late. */
		if (now.ns < FILE_PATIENCE_NS)
			assert_true(hits >= admitted || hits == 10);
		nr_whole += hits == 10;
		lodic_close(file);
		close(fd);
		unlink(path);
	}
	assert_int_not_equal(nr_whole, 0);
	look_close(look);
	test_bed_free(&b);
}

/* A request that was on its way when the readers' arena died. An answer would be for the wrong
 * arena. */
static void reader_of_before_opens_econnreset(void **state)
{
	static const u32 ops[] = { WIRE_CONTEXT_OPEN, WIRE_FILE_OPEN };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct wire_request request = { .version = WIRE_VERSION, .op = WIRE_HELLO };
	struct pollfd wait = { .events = POLLIN };
	int fds[WIRE_MAX_FDS];
	struct wire_reply reply;
	struct test_bed b;
	u32 nr_fds;

	(void)state;
	test_bed_make_blocks(&b, MIB, 20);
	test_bed_fill(&b);
	strcpy(address.sun_path, b.service.socket);
	wait.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(wait.fd, (struct sockaddr *)&address, sizeof(address)),
	                 0);
	for (u32 i = 0; i < 3; i++) {
		if (i > 0)
			request.op = ops[i - 1];
		assert_int_equal(wire_send(wait.fd, &request, sizeof(request), &b.fd,
		                           request.op == WIRE_FILE_OPEN),
		                 0);
		assert_int_equal(poll(&wait, 1, FIXTURE_DEADLINE_MS), 1);
		assert_int_equal(
			wire_receive(wait.fd, &reply, sizeof(reply), fds, &nr_fds), 0);
		for (u32 j = 0; j < nr_fds; j++)
			close(fds[j]);
		assert_int_equal(reply.error, i == 0 ? 0 : -ECONNRESET);
		if (i == 0)
			resize_must(&b.service, 2 * MIB);
	}
	close(wait.fd);
	test_bed_free(&b);
}

/* Holds are no part of the arena. What is held stands, and later requests share it. A
 * file that has changed shows its new bytes. */
static void hold_over_resizes_stands_and_is_shared(void **state)
{
	const u64 bytes = 4 * MIB;
	struct lodic_hold *first, *again, *changed;
	struct lodic_stat stat;
	struct test_bed b;

	(void)state;
	test_bed_init(&b, LODIC_LODIC);
	b.service.options.sizes.cache_bytes = LARGE_BYTES;
	b.service.options.sizes.hold_bytes = 4 * bytes;
	test_bed_make(&b, 2 * bytes);
	assert_int_equal(lodic_hold(b.lodic, b.file, 0, bytes, LODIC_WAIT, &first), 0);
	resize_must(&b.service, 2 * MIB);
	assert_true(WAIT_UNTIL(test_bed_reads_hit(&b, 0)));
	assert_int_equal(lodic_hold(b.lodic, b.file, 0, bytes, LODIC_WAIT, &again), 0);
	stat = test_service_stat(b.lodic);
	assert_int_equal(stat.holds_read, 1);
	assert_int_equal(stat.holds_given, 2);
	assert_int_equal(stat.hold_used_bytes, bytes);
	assert_true(pattern_holds(lodic_hold_data(first), 1, 1, 0, bytes));
	assert_true(pattern_holds(lodic_hold_data(again), 1, 1, 0, bytes));

	pattern_file_make(b.path, "bed-file", 1, 2, 2 * bytes);
	assert_true(WAIT_UNTIL(
		lodic_hold(b.lodic, b.file, 0, bytes, LODIC_WAIT, &changed) == 0));
	assert_true(pattern_holds(lodic_hold_data(changed), 1, 2, 0, bytes));
	assert_true(pattern_holds(lodic_hold_data(first), 1, 1, 0, bytes));
	assert_true(pattern_holds(lodic_hold_data(again), 1, 1, 0, bytes));
	lodic_release(first);
	lodic_release(again);
	lodic_release(changed);
	test_bed_free(&b);
}

/* One that takes longer to read than the resize. Its program waits at the old service, and the rest
 * is read by the old service's descriptors. */
static void hold_being_read_over_a_resize_comes(void **state)
{
	const u64 bytes = 48 * MIB;
	struct look_resize now;
	struct lodic_hold *hold;
	struct test_bed b;
	struct look *look;

	(void)state;
	test_bed_init(&b, LODIC_LODIC);
	b.service.options.sizes.hold_bytes = bytes;
	test_bed_make(&b, bytes);
	look = look_at(&b.service);
	assert_int_equal(lodic_hold(b.lodic, b.file, 0, 0, 0, &hold), 0);
	assert_int_equal(look_resize(look, 2 * MIB, &now), 0);
	assert_true(WAIT_UNTIL(lodic_hold_ready(hold) != 0));
	assert_int_equal(lodic_hold_ready(hold), 1);
	assert_true(pattern_holds(lodic_hold_data(hold), 1, 1, 0, bytes));
	assert_true(WAIT_UNTIL(resize_is_over(look, &now)));
	assert_int_equal(test_service_stat(b.lodic).holds_read, 1);
	look_close(look);
	lodic_release(hold);
	test_bed_free(&b);
}

/* A program that has nothing to read just now is there all the same. */
static void resize_programs_idle_service_stays(void **state)
{
	struct test_bed b;

	(void)state;
	test_bed_init(&b, LODIC_LODIC);
	/* So long that a program on a loaded machine attaches in time. */
	b.service.options.place.idle_exit_ms = 1000;
	test_bed_make(&b, 20 * BLOCK);
	resize_must(&b.service, 2 * MIB);
	fixture_pause_us(2200000); /* it must outlive this: nothing happens then */
	test_bed_come_back(&b);
	test_bed_free(&b);
}

static int guard_set(void **state)
{
	(void)state;
	alarm(TEST_SECONDS);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, guard_set)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(resize_while_files_change_no_wrong_byte),
		TEST(resize_with_room_nothing_read_again),
		TEST(resize_smaller_hot_blocks_stay),
		TEST(pin_over_resizes_bytes_stay),
		TEST(resize_open_file_without_name_stays),
		TEST(resize_no_memory_says_so_cache_stays),
		TEST(resize_while_another_runs_ebusy),
		TEST(drop_while_resizing_nothing_comes_along),
		TEST(service_killed_in_resize_readers_find_next),
		TEST(service_stopped_in_resize_ends_in_order),
		TEST(resize_while_programs_open_requests_answered),
		TEST(resize_file_comes_meanwhile_nothing_lost),
		TEST(reader_of_before_opens_econnreset),
		TEST(hold_over_resizes_stands_and_is_shared),
		TEST(hold_being_read_over_a_resize_comes),
		TEST(resize_programs_idle_service_stays),
	};

	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("resize", tests, NULL, NULL);
}
