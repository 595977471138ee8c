/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Pins by ranges, and pins by plain stores while a real service evicts. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/cache/arena.h"
#include "lib/service/service.h"
#include "tests/support/wire_caller.h"

#define BLOCK ((u64)LODIC_BLOCK_BYTES)
#define TEST_SECONDS 120
#define NR_FRAMES 256u
#define NR_BLOCKS (4 * NR_FRAMES)
#define NR_PINS 8u

static void bed_make(struct test_bed *b, enum service_barrier barrier, u64 file_bytes)
{
	test_bed_init(b, LODIC_LODIC);
	b->service.options.sizes.cache_bytes = NR_FRAMES * BLOCK;
	b->service.options.tables.barrier = barrier;
	b->service.options.tables.quota = 2 * NR_PINS;
	test_bed_make(b, file_bytes);
}

static void pinv_over_borders_one_call_all_pieces(void **state)
{
	struct lodic_pin pins[4];
	struct test_bed b;

	bed_make(&b, SERVICE_BARRIER_AUTO, 3 * BLOCK + 100);
	assert_int_equal(lodic_prefetch(b.context, b.file, 0, 0, LODIC_WAIT), 0);
	/* Inside a block, over one border, over two, to the end of the file. */
	assert_int_equal(lodic_pinv(b.context, b.file, 10, 1000, pins, 4), 1);
	assert_int_equal(pins[0].bytes, 1000);
	assert_true(pattern_holds(pins[0].data, 1, 1, 10, 1000));
	lodic_unpin(b.context, &pins[0]);
	assert_int_equal(
		lodic_pinv(b.context, b.file, (off_t)BLOCK - 30, 1000, pins, 2), 2);
	assert_int_equal(pins[0].bytes, 30);
	assert_int_equal(pins[1].bytes, 970);
	assert_true(pattern_holds(pins[0].data, 1, 1, BLOCK - 30, 30));
	assert_true(pattern_holds(pins[1].data, 1, 1, BLOCK, 970));
	assert_int_equal(test_service_stat(b.lodic).pinned, 2);
	lodic_unpin(b.context, &pins[0]);
	lodic_unpin(b.context, &pins[1]);
	assert_int_equal(lodic_pinv(b.context, b.file, 1, 2 * BLOCK, pins, 4), 3);
	assert_int_equal(pins[2].bytes, 1);
	for (u32 i = 0; i < 3; i++)
		lodic_unpin(b.context, &pins[i]);
	assert_int_equal(lodic_pinv(b.context, b.file, 2 * (off_t)BLOCK, UINT64_MAX,
	                            pins, 4),
	                 2);
	assert_int_equal(pins[1].bytes, 100);
	lodic_unpin(b.context, &pins[0]);
	lodic_unpin(b.context, &pins[1]);
	/* Too few pins: what they can cover. */
	assert_int_equal(lodic_pinv(b.context, b.file, 0, 3 * BLOCK, pins, 2), 2);
	assert_int_equal(pins[1].bytes, BLOCK);
	lodic_unpin(b.context, &pins[0]);
	lodic_unpin(b.context, &pins[1]);
	assert_int_equal(test_service_stat(b.lodic).pinned, 0);
	test_bed_free(&b);
	(void)state;
}

static void pinv_error_nothing_pinned(void **state)
{
	struct lodic_pin pins[2 * NR_PINS + 1];
	struct test_bed b;

	bed_make(&b, SERVICE_BARRIER_AUTO, (2 * NR_PINS + 2) * BLOCK);
	assert_int_equal(lodic_prefetch(b.context, b.file, 0, BLOCK, LODIC_WAIT), 0);
	assert_int_equal(lodic_pinv(b.context, b.file, -1, 1, pins, 1), -EINVAL);
	assert_int_equal(lodic_pinv(b.context, b.file, 0, 0, pins, 1), -EINVAL);
	assert_int_equal(lodic_pinv(b.context, b.file, 0, 1, pins, 0), -EINVAL);
	assert_int_equal(lodic_pinv(b.context, b.file, INT64_MAX, 1, pins, 1),
	                 -ENODATA);
	/* The second block is not cached. */
	assert_int_equal(lodic_pinv(b.context, b.file, 0, 2 * BLOCK, pins, 2), -EAGAIN);
	assert_null(pins[0].word);
	assert_int_equal(test_service_stat(b.lodic).pinned, 0);
	/* The quota ends before the range does. */
	assert_int_equal(lodic_prefetch(b.context, b.file, 0, 0, LODIC_WAIT), 0);
	assert_int_equal(lodic_pinv(b.context, b.file, 0, UINT64_MAX, pins,
	                            2 * NR_PINS + 1),
	                 -ENOBUFS);
	assert_int_equal(test_service_stat(b.lodic).pinned, 0);
	test_bed_free(&b);
	(void)state;
}

/* All of the file goes through the cache again and again; what is pinned stands. */
static void pin_by_store_others_evicted_it_stands(void **state)
{
	struct lodic_pin pins[NR_PINS];
	struct lodic_stat stat;
	struct test_bed b;

	bed_make(&b, SERVICE_BARRIER_LIGHT, NR_BLOCKS * BLOCK);
	assert_int_equal(
		lodic_prefetch(b.context, b.file, 0, NR_PINS * BLOCK, LODIC_WAIT), 0);
	for (u32 i = 0; i < NR_PINS; i++)
		assert_int_equal(
			lodic_pin(b.context, b.file, (off_t)(i * BLOCK), &pins[i]), 0);
	assert_int_equal(test_service_stat(b.lodic).light_pins, 1);
	for (u32 i = 0; i < 2 * NR_BLOCKS; i += NR_FRAMES / 4)
		assert_int_equal(lodic_prefetch(b.context, b.file,
		                                (off_t)(i % NR_BLOCKS * BLOCK),
		                                NR_FRAMES / 4 * BLOCK, LODIC_WAIT),
		                 0);
	stat = test_service_stat(b.lodic);
	assert_true(stat.evicted > NR_FRAMES);
	assert_int_equal(stat.pinned, NR_PINS);
	for (u32 i = 0; i < NR_PINS; i++) {
		assert_true(pattern_holds(pins[i].data, 1, 1, i * BLOCK, BLOCK));
		lodic_unpin(b.context, &pins[i]);
	}
	assert_int_equal(test_service_stat(b.lodic).pinned, 0);
	test_bed_free(&b);
	(void)state;
}

/* Every frame is wanted, and every one that a context may pin is pinned. */
static void pin_by_store_file_dropped_pins_stand_then_frames_free(void **state)
{
	struct lodic_pin pins[NR_PINS];
	struct test_bed b;
	int fd;

	bed_make(&b, SERVICE_BARRIER_LIGHT, NR_FRAMES / 2 * BLOCK);
	assert_int_equal(lodic_prefetch(b.context, b.file, 0, 0, LODIC_WAIT), 0);
	for (u32 i = 0; i < NR_PINS; i++)
		assert_int_equal(
			lodic_pin(b.context, b.file, (off_t)(i * BLOCK), &pins[i]), 0);
	/* A writer ends the file's proof: its frames are nobody's but for the pins. */
	fd = fixture_open(b.path, O_WRONLY);
	assert_true(WAIT_UNTIL(test_service_stat(b.lodic).cached == NR_PINS));
	for (u32 i = 0; i < NR_PINS; i++) {
		assert_true(pattern_holds(pins[i].data, 1, 1, i * BLOCK, BLOCK));
		lodic_unpin(b.context, &pins[i]);
	}
	assert_true(WAIT_UNTIL(test_service_stat(b.lodic).cached == 0));
	close(fd);
	test_bed_free(&b);
	(void)state;
}

static void barrier_auto_by_the_cache_s_size(void **state)
{
	for (u32 large = 0; large < 2; large++) {
		struct test_bed b;

		test_bed_init(&b, LODIC_LODIC);
		b.service.options.sizes.cache_bytes = (u64)(large ? 64 : 16) << 20;
		test_bed_make(&b, BLOCK);
		assert_int_equal(test_service_stat(b.lodic).light_pins, large);
		test_bed_free(&b);
	}
	(void)state;
}

/* From now on this process, and what it starts, has no membarrier(2). */
static void forbid_membarrier(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };

	REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "%s", strerror(errno));
	REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "%s",
	        strerror(errno));
}

static void serve_without_membarrier(void)
{
	struct service_options options = { .sizes.cache_bytes = (u64)64 << 20,
		                           .tables.barrier = SERVICE_BARRIER_LIGHT };
	char socket[FIXTURE_PATH_BYTES];
	const char *why = NULL;
	struct lodic *lodic;
	struct test_bed b;
	int err;

	forbid_membarrier();
	fixture_path(socket, "light.sock");
	options.place.socket = socket;
	err = service_run(&options, NULL, NULL, &why);
	REQUIRE(err == -EOPNOTSUPP && strstr(why, "--barrier lock"), "%d: %s", err,
	        why);
	test_bed_init(&b, LODIC_LODIC);
	b.service.options.sizes.cache_bytes = options.sizes.cache_bytes;
	REQUIRE(test_service_start(&b.service) == 0, "not started");
	REQUIRE(test_service_attach(&b.service, &lodic) == 0, "not attached");
	REQUIRE(test_service_stat(lodic).light_pins == 0, "light, and no fence");
	lodic_detach(lodic);
	REQUIRE(test_service_stop(&b.service) == 0, "not stopped");
}

static void membarrier_forbidden_auto_locks_light_says_why(void **state)
{
	pid_t pid = fixture_fork();

	if (pid == 0) {
		serve_without_membarrier();
		_exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
	(void)state;
}

static void group_begin(struct test_service *service, struct wire_caller *c, u32 scheme, u32 quota)
{
	test_service_init(service, scheme == ARENA_HAZARD ? "slots" : "group");
	service->options.sizes.cache_bytes = NR_FRAMES * BLOCK;
	service->options.tables.scheme = scheme;
	service->options.tables.quota = quota;
	service->options.sharing.for_group = true;
	service->options.sharing.group = getgid();
	assert_int_equal(test_service_start(service), 0);
	caller_hello(c, service);
}

/* Another user's program may count in each entry of a context that pins. All such entries together
 * are a part of the cache, so that what it keeps leaves frames to others. */
static void contexts_of_a_group_keep_a_part_whatever_they_write(void **state)
{
	u64 most = NR_FRAMES * 3 / 8, entries = 0;
	struct test_service service;
	struct wire_caller c;
	u32 nr = 0;

	(void)state;
	group_begin(&service, &c, ARENA_SCANNED, NR_PINS);
	do {
		assert_int_equal(caller_ask(&c, WIRE_CONTEXT_OPEN, 0, 0, 0), 0);
		close(c.fds[0]);
		entries += c.reply.context.bytes - arena_context_bytes(0, 1);
		nr += c.reply.context.quota > 0;
	} while (c.reply.context.quota > 0);
	assert_in_range(nr, 2, most / NR_PINS);
	entries = entries / sizeof(u64) - CONTEXT_WAYS; /* the last one's, which may not pin */
	assert_in_range(entries, nr * NR_PINS, most);
	close(c.socket);
	assert_int_equal(test_service_stop(&service), 0);
}

/* A slot is no entry of a table: there are as many as in any service. */
static void group_with_slots_counts_them_once(void **state)
{
	struct test_service service;
	struct wire_caller c;

	(void)state;
	group_begin(&service, &c, ARENA_HAZARD, 0);
	assert_int_equal(caller_ask(&c, WIRE_CONTEXT_OPEN, 0, 0, 0), 0);
	close(c.fds[0]);
	assert_int_equal(c.reply.context.bytes, arena_context_bytes(ARENA_HAZARD_SLOTS, 1));
	close(c.socket);
	assert_int_equal(test_service_stop(&service), 0);
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
		TEST(pinv_over_borders_one_call_all_pieces),
		TEST(pinv_error_nothing_pinned),
		TEST(pin_by_store_others_evicted_it_stands),
		TEST(pin_by_store_file_dropped_pins_stand_then_frames_free),
		TEST(contexts_of_a_group_keep_a_part_whatever_they_write),
		TEST(group_with_slots_counts_them_once),
		TEST(barrier_auto_by_the_cache_s_size),
		TEST(membarrier_forbidden_auto_locks_light_says_why),
	};

	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("pins", tests, NULL, NULL);
}
