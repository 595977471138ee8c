/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Where holds lie. A hold goes to its file's tier, and moves there when that changes and nobody has
 * it. One that is taken while it moves has the right bytes all the time. With `replicate' each node
 * has a copy of its own; a folder of this test stands in for a machine with two nodes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/look.h"
#include "tests/support/held.h"
#include "tests/support/wire_caller.h"

#define MIB ((u64)1 << 20)
#define FILE_BYTES (3 * MIB + 123)
/* Each looks at every byte, which TSan makes ten times as long. */
#ifdef __SANITIZE_THREAD__
#define NR_ROUNDS 40u
#else
#define NR_ROUNDS 200u
#endif
#define FAR_CPU 1u /* as fixture_two_nodes() has it */

static struct test_bed bed;
static struct look *look;
static struct stat st;

static void make_begin(void)
{
	test_bed_init(&bed, LODIC_LODIC);
	bed.service.options.sizes.cache_bytes = 8 * MIB;
	bed.service.options.sizes.fast_bytes = 4 * MIB;
	bed.service.options.sizes.hold_bytes = 64 * MIB;
}

static void make_end(void)
{
	int pid;

	test_bed_make(&bed, FILE_BYTES);
	assert_int_equal(look_open(bed.service.socket, &look, &pid), 0);
	assert_int_equal(stat(bed.path, &st), 0);
}

static void make(void)
{
	make_begin();
	make_end();
}

static void end(void)
{
	look_close(look);
	test_bed_free(&bed);
}

static int keep_tier(void *ctx, const void *record)
{
	struct look_tier *tiers = ctx;
	const struct look_tier *r = record;

	assert_in_range(r->tier, 0, LOOK_NR_TIERS - 1);
	tiers[r->tier] = *r;
	return 0;
}

/* How many holds lie in the slow tier, once nothing moves any more. */
static u64 nr_slow(struct look_tier tiers[LOOK_NR_TIERS])
{
	assert_true(WAIT_UNTIL(look_list(look, LOOK_TIERS, keep_tier, tiers) == 0 &&
	                       !tiers[0].busy));
	return tiers[LOOK_TIER_SLOW].holds;
}

static void take_and_release(void)
{
	struct lodic_hold *h = held_range(&bed, 0, 0);

	assert_true(held_has(h, 1, 1, 0, FILE_BYTES));
	lodic_release(h);
}

static int move_to(enum look_tier_kind to)
{
	return look_move(look, st.st_dev, st.st_ino, to);
}

static u64 nr_read(void)
{
	return test_service_stat(bed.lodic).holds_read;
}

static void hold_nobody_has_it_moves_there_and_back(void **state)
{
	struct look_tier tiers[LOOK_NR_TIERS];

	(void)state;
	make();
	take_and_release();
	assert_int_equal(nr_slow(tiers), 0);
	assert_int_equal(tiers[LOOK_TIER_FAST].holds, 1);
	for (u64 round = 1; round <= 3; round++) {
		assert_int_equal(move_to(LOOK_TIER_SLOW), 0);
		assert_int_equal(nr_slow(tiers), 1);
		assert_int_equal(tiers[LOOK_TIER_SLOW].holds_came, round);
		assert_int_equal(tiers[LOOK_TIER_FAST].hold_bytes, 0);
		take_and_release();
		assert_int_equal(move_to(LOOK_TIER_FAST), 0);
		assert_int_equal(nr_slow(tiers), 0);
		assert_int_equal(tiers[LOOK_TIER_FAST].holds_came, round);
		take_and_release();
	}
	assert_int_equal(nr_read(), 1);
	assert_int_equal(tiers[0].holds_refused + tiers[1].holds_refused, 0);
	end();
}

static void hold_somebody_has_it_stays_until_released(void **state)
{
	struct look_tier tiers[LOOK_NR_TIERS];
	struct lodic_hold *h;

	(void)state;
	make();
	h = held_range(&bed, 0, 0);
	assert_int_equal(move_to(LOOK_TIER_SLOW), 0);
	assert_int_equal(nr_slow(tiers), 0);
	assert_true(held_has(h, 1, 1, 0, FILE_BYTES));
	lodic_release(h);
	assert_true(WAIT_UNTIL(nr_slow(tiers) == 1));
	take_and_release();
	assert_int_equal(nr_read(), 1);
	end();
}

static void hold_after_move_comes_in_there(void **state)
{
	struct look_tier tiers[LOOK_NR_TIERS];

	(void)state;
	make();
	assert_int_equal(move_to(LOOK_TIER_SLOW), 0);
	take_and_release();
	assert_int_equal(nr_slow(tiers), 1);
	assert_int_equal(tiers[LOOK_TIER_SLOW].holds_came, 0);
	end();
}

/* The bytes are looked at before, while and after the pages move. */
static void hold_taken_while_it_moves_is_served(void **state)
{
	struct look_tier tiers[LOOK_NR_TIERS];
	struct lodic_hold *holds[2];

	(void)state;
	make();
	take_and_release();
	for (u32 round = 0; round < NR_ROUNDS; round++) {
		assert_int_equal(move_to(round % 2 ? LOOK_TIER_FAST : LOOK_TIER_SLOW),
		                 0);
		for (u32 i = 0; i < 2; i++)
			holds[i] = held_range(&bed, i * MIB, 2 * MIB);
		for (u32 i = 0; i < 2; i++) {
			assert_true(held_has(holds[i], 1, 1, i * MIB, 2 * MIB));
			lodic_release(holds[i]);
		}
	}
	nr_slow(tiers);
	assert_true(tiers[0].holds_came + tiers[1].holds_came > 0);
	assert_int_equal(nr_read(), 1);
	end();
}

/* What moves may become outdated, be wanted by nobody, or be of a cache that is being resized. */
static void hold_that_moves_file_changes_room_comes_back(void **state)
{
	struct look_resize now = { 0 };
	struct look_tier tiers[LOOK_NR_TIERS];

	(void)state;
	make();
	for (u32 round = 0; round < NR_ROUNDS / 4; round++) {
		struct lodic_hold *h = NULL;

		/* A writer may have just gone, and the file is not proved yet. */
		assert_true(WAIT_UNTIL(
			lodic_hold(bed.lodic, bed.file, 0, 0, LODIC_WAIT, &h) == 0));
		assert_true(held_has(h, 1, 1, 0, FILE_BYTES));
		lodic_release(h);
		(void)move_to(round % 2 ? LOOK_TIER_FAST : LOOK_TIER_SLOW);
		switch (round % 3) {
		case 0: close(fixture_open(bed.path, O_WRONLY)); break;
		case 1:
			look_resize(look, (8 + round % 2) * MIB, &now);
			assert_true(WAIT_UNTIL(look_resize(look, 0, &now) == 0 &&
			                       now.state != LOOK_RESIZE_RUNS));
			break;
		default: break;
		}
	}
	close(fixture_open(bed.path, O_WRONLY));
	assert_true(WAIT_UNTIL(nr_slow(tiers) + tiers[LOOK_TIER_FAST].holds == 0));
	assert_int_equal(tiers[0].hold_bytes + tiers[1].hold_bytes, 0);
	assert_true(WAIT_UNTIL(test_service_stat(bed.lodic).hold_bytes == 0));
	end();
}

/* A service that ends does not wait for what moves. */
static void stop_while_hold_moves_ends_in_order(void **state)
{
	(void)state;
	for (u32 round = 0; round < 5; round++) {
		make();
		take_and_release();
		assert_int_equal(move_to(LOOK_TIER_SLOW), 0);
		end();
	}
}

static void kloc_last_close_demotes_hold_open_promotes(void **state)
{
	struct look_tier tiers[LOOK_NR_TIERS];

	(void)state;
	make_begin();
	bed.service.options.placing.policy = "kloc";
	make_end();
	take_and_release();
	assert_int_equal(nr_slow(tiers), 0);
	for (u32 round = 0; round < 2; round++) {
		lodic_close(bed.file);
		assert_true(WAIT_UNTIL(nr_slow(tiers) == 1));
		assert_int_equal(lodic_open(bed.lodic, bed.fd, &bed.file), 0);
		assert_true(WAIT_UNTIL(nr_slow(tiers) == 0));
		take_and_release();
	}
	assert_int_equal(nr_read(), 1);
	end();
}

/* Holds are in no LRU list: they stay where they were placed. */
static void nimble_close_leaves_hold(void **state)
{
	struct look_tier tiers[LOOK_NR_TIERS];

	(void)state;
	make_begin();
	bed.service.options.placing.policy = "nimble++";
	make_end();
	take_and_release();
	lodic_close(bed.file);
	/* The service looks all the same. */
	assert_int_equal(move_to(LOOK_TIER_SLOW), -EPERM);
	assert_int_equal(nr_slow(tiers), 0);
	assert_int_equal(tiers[LOOK_TIER_FAST].holds, 1);
	assert_int_equal(lodic_open(bed.lodic, bed.fd, &bed.file), 0);
	end();
}

/* ---- a copy for each node ---- */

struct log {
	u64 one_copy;
};

static void log_take(void *arg, enum service_level level, const char *event,
                     const char *line)
{
	struct log *log = arg;

	(void)level;
	(void)line;
	if (strcmp(event, "one_copy") == 0)
		host_fetch_add(&log->one_copy, 1);
}

/* nodes: NULL: those of this machine. */
static struct log *make_copies(const char *nodes, bool immutable, const char *name)
{
	static const char *globs[] = { NULL, NULL };
	static char folder[FIXTURE_PATH_BYTES];
	struct log *log = fixture_shared(sizeof(*log));

	fixture_path(folder, name);
	globs[0] = folder;
	make_begin();
	bed.service.options.placing.nodes = nodes;
	bed.service.options.placing.replicate = globs;
	bed.service.options.keeping.immutable = immutable ? globs : NULL;
	bed.service.options.events.say = log_take;
	bed.service.options.events.say_arg = log;
	make_end();
	return log;
}

static void hold_from(struct wire_caller *c, u64 cpu, u64 id, u64 *ret_number)
{
	int fd;

	c->cpu = cpu;
	fd = caller_hold(c, &bed.service, id, 0, 0);
	assert_true(fd >= 0);
	*ret_number = c->reply.hold.number;
	assert_true(caller_holds_pattern(fd, 1, 1, 0, FILE_BYTES));
	close(fd);
}

/* How many ranges were read when programs of both nodes have asked twice. */
static u64 nr_copies(void)
{
	struct wire_caller near, far;
	u64 near_id, far_id, first, second, again, more;

	caller_hello(&near, &bed.service);
	caller_hello(&far, &bed.service);
	near_id = caller_open(&near, bed.path);
	far_id = caller_open(&far, bed.path);
	hold_from(&near, 0, near_id, &first);
	hold_from(&far, FAR_CPU, far_id, &second);
	hold_from(&near, 0, near_id, &again);
	hold_from(&far, FAR_CPU + 1, far_id, &more);
	assert_int_equal(first, again);
	assert_int_equal(second, more);
	close(near.socket);
	close(far.socket);
	return nr_read();
}

static void replicate_immutable_file_each_node_has_a_copy(void **state)
{
	struct look_tier tiers[LOOK_NR_TIERS];
	const struct log *log;

	(void)state;
	log = make_copies(fixture_two_nodes(), true, "*");
	assert_int_equal(nr_copies(), 2);
	nr_slow(tiers);
	assert_int_equal(tiers[LOOK_TIER_FAST].holds, 1);
	assert_int_equal(tiers[LOOK_TIER_SLOW].holds, 1);
	/* A copy stays on its node. */
	assert_int_equal(move_to(LOOK_TIER_SLOW), 0);
	assert_int_equal(nr_slow(tiers), 1);
	assert_int_equal(tiers[LOOK_TIER_SLOW].holds_came, 0);
	assert_int_equal(host_load_relaxed(&log->one_copy), 0);
	end();
}

/* It may change, and then all copies would be read anew. */
static void replicate_file_that_may_change_has_one_copy(void **state)
{
	(void)state;
	make_copies(fixture_two_nodes(), false, "*");
	assert_int_equal(nr_copies(), 1);
	end();
}

static void replicate_other_file_has_one_copy(void **state)
{
	(void)state;
	make_copies(fixture_two_nodes(), true, "no-such");
	assert_int_equal(nr_copies(), 1);
	end();
}

static void replicate_one_node_has_one_copy_said_once(void **state)
{
	struct look_resize now = { 0 };
	char none[FIXTURE_PATH_BYTES];
	const struct log *log;

	(void)state;
	fixture_path(none, "no-nodes");
	log = make_copies(none, true, "*");
	assert_int_equal(nr_copies(), 1);
	look_resize(look, 9 * MIB, &now);
	assert_true(WAIT_UNTIL(look_resize(look, 0, &now) == 0 &&
	                       now.state != LOOK_RESIZE_RUNS));
	assert_int_equal(host_load_relaxed(&log->one_copy), 1);
	end();
}

/* The library says on which CPU it asks. */
static void replicate_program_on_other_node_gets_its_copy(void **state)
{
	cpu_set_t before, near, far;

	(void)state;
	CPU_ZERO(&near);
	CPU_SET(0, &near); /* no other: fixture_two_nodes() */
	CPU_ZERO(&far);
	CPU_SET(FAR_CPU, &far);
	sched_getaffinity(0, sizeof(before), &before);
	make_copies(fixture_two_nodes(), true, "*");
	if (sched_setaffinity(0, sizeof(near), &near) != 0) {
		end();
		skip();
	}
	take_and_release();
	if (sched_setaffinity(0, sizeof(far), &far) != 0) {
		sched_setaffinity(0, sizeof(before), &before);
		end();
		skip();
	}
	take_and_release();
	assert_int_equal(nr_read(), 2);
	take_and_release();
	assert_int_equal(nr_read(), 2);
	sched_setaffinity(0, sizeof(before), &before);
	end();
}

int main(int argc, char **argv)
{
	const struct fixture_option options[] = { { 0 } };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hold_nobody_has_it_moves_there_and_back),
		cmocka_unit_test(hold_somebody_has_it_stays_until_released),
		cmocka_unit_test(hold_after_move_comes_in_there),
		cmocka_unit_test(hold_taken_while_it_moves_is_served),
		cmocka_unit_test(hold_that_moves_file_changes_room_comes_back),
		cmocka_unit_test(stop_while_hold_moves_ends_in_order),
		cmocka_unit_test(kloc_last_close_demotes_hold_open_promotes),
		cmocka_unit_test(nimble_close_leaves_hold),
		cmocka_unit_test(replicate_immutable_file_each_node_has_a_copy),
		cmocka_unit_test(replicate_file_that_may_change_has_one_copy),
		cmocka_unit_test(replicate_other_file_has_one_copy),
		cmocka_unit_test(replicate_one_node_has_one_copy_said_once),
		cmocka_unit_test(replicate_program_on_other_node_gets_its_copy),
	};

	fixture_begin(argc, argv, options);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("hold_tier", tests, NULL, NULL);
}
