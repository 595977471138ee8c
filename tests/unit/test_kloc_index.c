/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How core/kloc finds knodes and objects: the CPUs' lists of knodes (knode_list.h), the red-black
 * trees (tree.h), and what each costs. LODIC_SEED=n sets the seed of the random cases.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/kloc/knode_list.h"
#include "core/kloc/state.h"
#include "core/kloc/tree.h"
#include "host/random.h"
#include "tests/support/kloc_rig.h"

#define NR_NODES 512u
#define NR_STEPS 20000u
#define NR_MANY 65536u

static u64 seed_of_run(void)
{
	const char *text = getenv("LODIC_SEED");
	u64 seed = text ? strtoull(text, NULL, 0) : 1;

	printf("seed %" PRIu64 "\n", seed);
	return seed;
}

static void tree_random_against_array(void **state)
{
	struct tree_node *nodes = calloc(NR_NODES, sizeof(*nodes));
	static bool there[NR_NODES];
	static u64 keys[NR_NODES];
	struct tree_walks w = { 0 };
	u64 random = seed_of_run();
	u32 root = TREE_NONE, nr = 0, step;

	(void)state;
	assert_non_null(nodes);
	for (step = 0; step < NR_STEPS; step++) {
		u32 node = (u32)(random_next(&random) % NR_NODES), found, i;
		u64 key = random_next(&random) % 97;

		if (there[node]) {
			tree_remove(nodes, &root, node, &w);
			nr--;
		} else {
			keys[node] = key;
			tree_insert(nodes, &root, node, key, &w);
			nr++;
		}
		there[node] = !there[node];
		if (step % 16)
			continue;
		assert_int_equal(tree_check(nodes, root), nr);
		found = tree_find(nodes, root, key, &w);
		for (i = 0; i < NR_NODES && !(there[i] && keys[i] == key); i++)
			;
		assert_int_equal(found, i < NR_NODES ? i : TREE_NONE);
	}
	free(nodes);
}

static u32 tenths_of_visits(u32 nr, u64 seed)
{
	struct tree_node *nodes = calloc(nr, sizeof(*nodes));
	struct tree_walks w = { 0 };
	u32 root = TREE_NONE, tenths, i;

	assert_non_null(nodes);
	for (i = 0; i < nr; i++)
		tree_insert(nodes, &root, i, random_next(&seed), &w);
	assert_int_equal(tree_check(nodes, root), nr);
	w = (struct tree_walks){ 0 };
	for (i = 0; i < nr; i++)
		assert_int_equal(tree_find(nodes, root, nodes[i].key, &w), i);
	assert_int_equal(w.walks, nr);
	printf("%u nodes: %.2f visits a walk\n", nr, (double)w.visits / w.walks);
	tenths = (u32)(10 * w.visits / w.walks);
	tree_remove(nodes, &root, 0, &w);
	assert_int_equal(w.walks, nr + 1); /* that is a walk, too */
	free(nodes);
	return tenths;
}

/* The paper counts 10 references a walk (KLOCs s.4.2.3), for files of 4 MB. A find here goes on to
 * the leaves, for the first of equal keys. */
static void tree_walk_visits_are_few(void **state)
{
	u64 seed = seed_of_run();
	u32 small = tenths_of_visits(4 << 20 >> 12, seed);
	u32 large = tenths_of_visits(NR_MANY, seed);

	(void)state;
	assert_in_range(small, 90, 120);
	assert_in_range(large, 150, 180);
}

static struct knode_lists start_lists(void)
{
	struct knode_lists l;

	assert_true(knode_list_init(&l, 8, 2, 2));
	for (u32 i = 0; i < 8; i++)
		knode_list_name(&l, i, 100 + i);
	return l;
}

static void list_use_then_find(void **state)
{
	struct knode_lists l = start_lists();
	u64 nr_stale = 0;

	(void)state;
	assert_int_equal(knode_list_find(&l, 0, 103, NULL).knode, KNODE_NONE);
	assert_int_equal(knode_list_use(&l, 0, knode_list_token(&l, 3)), KNODE_MISS);
	assert_int_equal(knode_list_use(&l, 0, knode_list_token(&l, 3)), KNODE_HIT);
	assert_int_equal(knode_list_find(&l, 0, 103, NULL).knode, 3);
	assert_int_equal(knode_list_find(&l, 1, 103, NULL).knode, KNODE_NONE);
	/* What a CPU notes of hits is no entry of knode 0. */
	assert_int_equal(knode_list_find(&l, 0, 100, &nr_stale).knode, KNODE_NONE);
	assert_int_equal(nr_stale, 0);
	knode_list_fini(&l);
}

/* Of any length: each CPU has all of its own, and no other CPU's. */
static void list_full_serves_all(void **state)
{
	struct knode_lists l;

	(void)state;
	for (u32 length = 1; length <= KNODE_LIST_MAX_LENGTH; length++) {
		assert_true(knode_list_init(&l, 2 * length, 2, length));
		for (u32 i = 0; i < 2 * length; i++) {
			knode_list_name(&l, i, 100 + i);
			knode_list_use(&l, i / length, knode_list_token(&l, i));
		}
		for (u32 i = 0; i < 2 * length; i++)
			for (u32 cpu = 0; cpu < 2; cpu++)
				assert_int_equal(
					knode_list_find(&l, cpu, 100 + i, NULL).knode,
					cpu == i / length ? i : KNODE_NONE);
		knode_list_fini(&l);
	}
}

/* KL20, KL22. */
static void list_forgotten_knode_is_not_served(void **state)
{
	struct knode_lists l = start_lists();
	struct knode_token old = knode_list_token(&l, 3), found;
	u64 nr_stale = 0;
	u32 age;

	(void)state;
	knode_list_use(&l, 0, old);
	found = knode_list_find(&l, 0, 103, NULL);
	assert_int_equal(found.knode, 3);
	assert_int_equal(found.generation, old.generation);
	knode_list_forget(&l, 3);
	assert_int_equal(knode_list_find(&l, 0, 103, &nr_stale).knode, KNODE_NONE);
	assert_int_equal(nr_stale, 1);
	assert_int_equal(knode_list_collect(&l, 0, 0, &age), KNODE_NONE);
	knode_list_name(&l, 3, 200);
	assert_int_equal(knode_list_find(&l, 0, 200, NULL).knode, KNODE_NONE);
	assert_int_equal(knode_list_use(&l, 1, old), KNODE_STALE);
	assert_int_equal(knode_list_find(&l, 1, 200, NULL).knode, KNODE_NONE);
	/* The stale entry's place is taken first. */
	assert_int_equal(knode_list_use(&l, 0, knode_list_token(&l, 3)), KNODE_STALE);
	assert_int_equal(knode_list_find(&l, 0, 200, NULL).knode, 3);
	knode_list_fini(&l);
}

static void list_full_keeps_what_was_hit(void **state)
{
	struct knode_lists l = start_lists();

	(void)state;
	knode_list_use(&l, 0, knode_list_token(&l, 0));
	knode_list_use(&l, 0, knode_list_token(&l, 1));
	knode_list_use(&l, 0, knode_list_token(&l, 0));
	knode_list_use(&l, 0, knode_list_token(&l, 2)); /* 1 goes */
	assert_int_equal(knode_list_find(&l, 0, 100, NULL).knode, 0);
	assert_int_equal(knode_list_find(&l, 0, 101, NULL).knode, KNODE_NONE);
	assert_int_equal(knode_list_find(&l, 0, 102, NULL).knode, 2);
	knode_list_fini(&l);
}

/* KL24. */
static void list_collect_tells_age(void **state)
{
	struct knode_lists l = start_lists();
	u32 age = 9;

	(void)state;
	knode_list_use(&l, 0, knode_list_token(&l, 5));
	assert_int_equal(knode_list_collect(&l, 0, 0, &age), 5);
	assert_int_equal(age, 0);
	assert_int_equal(knode_list_collect(&l, 0, 1, &age), KNODE_NONE);
	knode_list_tick(&l);
	knode_list_tick(&l);
	assert_int_equal(knode_list_collect(&l, 0, 0, &age), 5);
	assert_int_equal(age, 2);
	knode_list_fini(&l);
}

/* Uses that find their knode in the CPU's list need no walk (KLOCs s.4.3). */
static void list_hits_save_walks(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_KLOC, 100000, 100000);
	struct kloc_rig r;
	struct kloc_stat stat;
	u32 objects[8], i;
	u64 before;

	(void)state;
	s.parameters.trees = true;
	kloc_rig_start(&r, &s);
	for (i = 0; i < 8; i++)
		objects[i] = kloc_rig_add(&r, kloc_rig_file(&r, i + 1), KLOC_FRAME, 10);
	kloc_stat(r.k, &stat);
	before = stat.tree_walks;
	for (i = 0; i < 80; i++)
		kloc_touch(r.k, objects[i % 4], 1);
	kloc_stat(r.k, &stat);
	assert_int_equal(stat.tree_walks - before, 4); /* each of four files once */
	before = stat.tree_walks;
	for (i = 0; i < 80; i++)
		kloc_touch(r.k, objects[i % 8], 1); /* twice as many as entries */
	kloc_stat(r.k, &stat);
	assert_true(stat.tree_walks - before > 40);
	assert_true(stat.tree_visits > stat.tree_walks);
	kloc_rig_stop(&r);
}

/* Each use is a hit or a miss. A miss that takes a dead knode's place is also stale. */
static void list_statistics_count_each_use_once(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_KLOC, 100000, 100000);
	struct kloc_stat before, stat;
	u32 objects[4], files[4], i;
	struct kloc_rig r;

	(void)state;
	kloc_rig_start(&r, &s);
	for (i = 0; i < 4; i++) {
		files[i] = kloc_rig_file(&r, i + 1);
		objects[i] = kloc_rig_add(&r, files[i], KLOC_FRAME, 10);
	}
	kloc_stat(r.k, &before);
	for (i = 0; i < 8; i++)
		kloc_touch(r.k, objects[i % 4], 1);
	assert_int_equal(kloc_find(r.k, 2, 1), files[1]);
	assert_int_equal(kloc_find(r.k, 77, 1), KLOC_NONE);
	kloc_stat(r.k, &stat);
	assert_int_equal(stat.list_hits - before.list_hits, 4 + 1);
	assert_int_equal(stat.list_misses - before.list_misses, 4 + 1);
	assert_int_equal(stat.list_stale - before.list_stale, 0);
	for (i = 0; i < 4; i++) { /* that CPU's list is full of knodes that go */
		kloc_unlink(r.k, files[i], 0);
		kloc_close(r.k, files[i], 0);
		kloc_remove(r.k, objects[i]);
	}
	objects[0] = kloc_rig_add(&r, kloc_rig_file(&r, 9), KLOC_FRAME, 10);
	kloc_stat(r.k, &before);
	kloc_touch(r.k, objects[0], 1);
	kloc_stat(r.k, &stat);
	assert_int_equal(stat.list_misses - before.list_misses, 1);
	assert_int_equal(stat.list_stale - before.list_stale, 1);
	kloc_rig_stop(&r);
}

/* A CPU notes a use by itself, and the manager learns of it at the next tick. The use counts for
 * the tick before (KL24). */
static void list_collected_use_has_its_cpu(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_KLOC, 100000, 100000);
	struct kloc_knode_stat stat;
	struct kloc_rig r;
	u32 file, at = KLOC_NONE;

	(void)state;
	kloc_rig_start(&r, &s);
	file = kloc_rig_file(&r, 1);
	assert_int_equal(kloc_last_cpu(r.k, file), 0);
	kloc_tick(r.k);
	knode_list_use(&r.k->lists, 3, knode_list_token(&r.k->lists, file));
	assert_int_equal(kloc_last_cpu(r.k, file), 0);
	kloc_tick(r.k);
	assert_int_equal(kloc_last_cpu(r.k, file), 3);
	assert_true(kloc_next_knode(r.k, &at, &stat));
	assert_int_equal(stat.age, 1);
	kloc_rig_stop(&r);
}

static void cost_is_by_sizeof(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_KLOC, 1000, 1000);
	struct kloc_cost plain, trees;
	struct kloc_rig r;

	(void)state;
	kloc_rig_start(&r, &s);
	kloc_rig_add(&r, kloc_rig_file(&r, 1), KLOC_FRAME, 10);
	kloc_cost(r.k, &plain);
	assert_int_equal(plain.object_bytes, 32);
	assert_int_equal(plain.link_bytes, 8);
	assert_true(plain.now_bytes >= plain.knode_bytes + plain.object_bytes);
	kloc_rig_stop(&r);
	s.parameters.trees = true;
	kloc_rig_start(&r, &s);
	kloc_cost(r.k, &trees);
	assert_int_equal(trees.link_bytes, 24);
	assert_int_equal(trees.object_bytes, plain.object_bytes + 24);
	printf("a knode %u bytes, an object %u, an entry of a list %u; with trees %u and %u\n",
	       plain.knode_bytes, plain.object_bytes, plain.entry_bytes,
	       trees.knode_bytes, trees.object_bytes);
	kloc_rig_stop(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tree_random_against_array),
		cmocka_unit_test(tree_walk_visits_are_few),
		cmocka_unit_test(list_use_then_find),
		cmocka_unit_test(list_full_serves_all),
		cmocka_unit_test(list_forgotten_knode_is_not_served),
		cmocka_unit_test(list_full_keeps_what_was_hit),
		cmocka_unit_test(list_collect_tells_age),
		cmocka_unit_test(list_hits_save_walks),
		cmocka_unit_test(list_statistics_count_each_use_once),
		cmocka_unit_test(list_collected_use_has_its_cpu),
		cmocka_unit_test(cost_is_by_sizeof),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
