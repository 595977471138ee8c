/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Parts of the modelled kernel: sim/figures/kernel_locks.h, sim/figures/kernel_rmap.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "sim/figures/fig_read.h"
#include "sim/figures/kernel_locks.h"
#include "sim/figures/kernel_rmap.h"
#include "sim/keys.h"
#include "sim/machine.h"

#define NR_READERS 8u
#define WRITERS_FROM 8u
#define NR_TASKS 12u
#define TURNS 50u

static struct machine machine;

/* ---- the lock that sleeps ---- */

static struct {
	struct kernel_rwsem s;
	u32 nr_inside, nr_writers_inside, nr_reads, nr_writes, most_inside;
	bool wrong;
} locking;

static void reader_body(void *arg)
{
	u32 i;

	(void)arg;
	for (i = 0; i < TURNS; i++) {
		kernel_rwsem_read_begin(&locking.s);
		locking.nr_inside++;
		if (locking.nr_inside > locking.most_inside)
			locking.most_inside = locking.nr_inside;
		locking.wrong |= locking.nr_writers_inside > 0;
		sim_sleep(2000);
		locking.wrong |= locking.nr_writers_inside > 0;
		locking.nr_inside--;
		locking.nr_reads++;
		kernel_rwsem_read_end(&locking.s);
		sim_sleep(1000);
	}
}

static void writer_body(void *arg)
{
	u32 i;

	(void)arg;
	for (i = 0; i < TURNS; i++) {
		kernel_rwsem_write_begin(&locking.s);
		locking.nr_writers_inside++;
		locking.wrong |=
			locking.nr_writers_inside != 1 || locking.nr_inside > 0;
		sim_sleep(3000);
		locking.wrong |=
			locking.nr_writers_inside != 1 || locking.nr_inside > 0;
		locking.nr_writers_inside--;
		locking.nr_writes++;
		kernel_rwsem_write_end(&locking.s);
		sim_sleep(5000);
	}
}

static void run_locking(u32 nr_tasks)
{
	struct sim_result result;
	u32 i;

	memset(&locking, 0, sizeof(locking));
	sim_begin(&machine.timing, 1);
	assert_int_equal(kernel_rwsem_make(&locking.s, &machine.timing, "lock"), 0);
	for (i = 0; i < nr_tasks; i++)
		sim_task(i, i < WRITERS_FROM ? reader_body : writer_body, NULL);
	sim_run(0, 1000000000, &result);
}

static void rwsem_of_readers_and_writers_excludes(void **state)
{
	(void)state;
	run_locking(NR_TASKS);
	assert_false(locking.wrong);
	assert_int_equal(locking.nr_reads, NR_READERS * TURNS);
	assert_int_equal(locking.nr_writes, (NR_TASKS - WRITERS_FROM) * TURNS);
	assert_true(locking.s.nr_sleeps > 0);
	/* Nobody is left inside, and nobody in the queue. */
	assert_int_equal(*locking.s.word, 0);
	assert_int_equal(locking.s.nr_queued, 0);
}

static void rwsem_of_readers_alone_never_sleeps(void **state)
{
	(void)state;
	run_locking(NR_READERS);
	assert_int_equal(locking.nr_reads, NR_READERS * TURNS);
	assert_int_equal(locking.s.nr_sleeps, 0);
	assert_true(locking.most_inside > 1);
}

/* ---- the reverse mapping ---- */

#define NR_USERS 6u

static struct {
	struct fig_world world;
	struct kernel_rmap rmap;
	bool held, free_again;
	u32 nr_left;
} mapping;

static void mapping_body(void *arg)
{
	struct count *c = &mapping.world.count;
	u64 token;

	(void)arg;
	assert_true(count_ref(c, 0, 3, &token));
	mapping.held = kernel_rmap_query(&mapping.rmap, c, 0);
	count_unref(c, 0, 3, token);
	mapping.free_again = !kernel_rmap_query(&mapping.rmap, c, 0);
	kernel_rmap_unmap(&mapping.rmap, c, 0);
	mapping.nr_left = count_owned_share(c, 0);
}

static void rmap_of_held_frame_finds_the_holder(void **state)
{
	struct sim_result result;
	u32 user;

	(void)state;
	memset(&mapping, 0, sizeof(mapping));
	mapping.nr_left = NR_USERS;
	sim_begin(&machine.timing, 1);
	assert_int_equal(fig_world_make(&mapping.world, count_scheme_find("lodic"), 1,
	                                1, NR_USERS, 64),
	                 0);
	assert_int_equal(kernel_rmap_make(&mapping.rmap, NR_USERS), 0);
	for (user = 0; user < NR_USERS; user++)
		assert_int_equal(fig_world_share(&mapping.world, user, 1), 0);
	sim_task(0, mapping_body, NULL);
	sim_run(0, 1000000, &result);
	assert_true(mapping.held);
	assert_true(mapping.free_again);
	assert_int_equal(mapping.nr_left, 0);
}

static int read_machine(void **state)
{
	(void)state;
	return keys_look_in(LODIC_MODEL_DIR) || machine_read("8x15", NULL, &machine);
}

int main(void)
{
	const struct CMUnitTest parts[] = {
		cmocka_unit_test(rwsem_of_readers_and_writers_excludes),
		cmocka_unit_test(rwsem_of_readers_alone_never_sleeps),
		cmocka_unit_test(rmap_of_held_frame_finds_the_holder),
	};

	return cmocka_run_group_tests(parts, read_machine, NULL);
}
