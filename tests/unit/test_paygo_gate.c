/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * PAYGO's entries that own a reference (core/paygo_gate.h), by themselves and on one thread.
 * The global word is a variable here. A case may hang a function on the add, which then runs
 * in the middle of a fold, as a task on another CPU would. The checker does the rest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/check.h"

#define WAYS 2u
#define KEY 7u
#define OTHER 8u

struct world {
	u64 global[OTHER + 1];
	bool disabled;
	void (*in_add)(void);
};

static struct world world;

struct paygo_words {
	struct world *world;
};

static inline bool paygo_disabled(struct paygo_words words)
{
	return words.world->disabled;
}

static void paygo_add(struct paygo_words words, u64 key, u64 n)
{
	words.world->global[key] += n;
	if (words.world->in_add)
		words.world->in_add();
}

#include "core/paygo_gate.h"

static struct paygo_entry entries[WAYS];
static const struct paygo_bucket bucket = { { &world }, entries, WAYS };

static int begin(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	memset(entries, 0, sizeof(entries));
	return 0;
}

/* An open entry with so many tokens, the installer's among them. */
static struct paygo_entry *open_entry(u64 key, u32 tokens)
{
	struct paygo_entry *e = paygo_gate_install(bucket, key);

	assert_non_null(e);
	world.global[key]++;
	while (--tokens)
		assert_ptr_equal(paygo_gate_hit(bucket, key), e);
	return e;
}

static void fold(struct paygo_entry *e)
{
	u64 key = e->key;

	world.global[key] -= paygo_gate_fold(bucket.words, e);
}

static void hit_empty_null(void **state)
{
	(void)state;
	assert_null(paygo_gate_hit(bucket, KEY));
	open_entry(OTHER, 1);
	assert_null(paygo_gate_hit(bucket, KEY));
}

static void hit_open_leaves_global_alone(void **state)
{
	struct paygo_entry *e = open_entry(KEY, 3);

	(void)state;
	assert_int_equal(world.global[KEY], 1);
	assert_int_equal(paygo_gate_live(e), 3);
	assert_true(paygo_gate_unref_home(bucket, KEY));
	assert_true(paygo_gate_unref_away(bucket, KEY));
	assert_int_equal(paygo_gate_live(e), 1);
	assert_true(paygo_gate_unref_away(bucket, KEY));
	assert_int_equal(paygo_gate_live(e), 0);
	assert_true(paygo_gate_is_open(e));
	assert_int_equal(world.global[KEY], 1);
}

static void fold_unused_leaves_nothing(void **state)
{
	struct paygo_entry *e = open_entry(KEY, 1);

	(void)state;
	assert_true(paygo_gate_unref_home(bucket, KEY));
	fold(e);
	assert_int_equal(world.global[KEY], 0);
	assert_true(paygo_gate_is_reusable(e));
	assert_null(paygo_gate_hit(bucket, KEY));
}

static void fold_live_tokens_drop_in_global(void **state)
{
	struct paygo_entry *e = open_entry(KEY, 3);

	(void)state;
	assert_true(paygo_gate_unref_away(bucket, KEY));
	fold(e);
	assert_int_equal(world.global[KEY], 2);
	assert_null(paygo_gate_hit(bucket, KEY));
	assert_false(paygo_gate_unref_home(bucket, KEY));
	assert_false(paygo_gate_is_reusable(e));
	assert_false(paygo_gate_unref_away(bucket, KEY));
	assert_true(paygo_gate_is_reusable(e));
}

static void return_one(void)
{
	world.in_add = NULL;
	assert_int_equal(world.global[KEY], 3); /* its own, and the two that are live */
	assert_true(paygo_gate_unref_away(bucket, KEY));
}

static void fold_return_meanwhile_surplus_goes_back(void **state)
{
	struct paygo_entry *e = open_entry(KEY, 2);

	(void)state;
	world.in_add = return_one;
	fold(e);
	assert_int_equal(world.global[KEY], 1);
	assert_int_equal(paygo_gate_live(e), 1);
}

static void install_beside_own_key_null(void **state)
{
	struct paygo_entry *e = open_entry(KEY, 1);

	(void)state;
	assert_null(paygo_gate_install(bucket, KEY));
	fold(e);
	assert_null(paygo_gate_install(bucket, KEY)); /* a tombstone */
	assert_false(paygo_gate_unref_home(bucket, KEY));
	assert_ptr_equal(paygo_gate_install(bucket, KEY), e);
}

static void install_reusable_takes_its_own_first(void **state)
{
	struct paygo_entry *first = open_entry(OTHER, 1);
	struct paygo_entry *second = open_entry(KEY, 1);

	(void)state;
	assert_true(paygo_gate_unref_home(bucket, OTHER));
	assert_true(paygo_gate_unref_home(bucket, KEY));
	fold(first);
	fold(second);
	assert_ptr_equal(paygo_gate_install(bucket, KEY), second); /* PG4 */
}

static void install_full_bucket_null(void **state)
{
	struct paygo_entry *e = open_entry(KEY, 1);

	(void)state;
	open_entry(OTHER, 1);
	assert_null(paygo_gate_install(bucket, OTHER + 1));
	fold(e);
	assert_null(paygo_gate_install(bucket, OTHER + 1));
	assert_false(paygo_gate_unref_away(bucket, KEY));
	assert_ptr_equal(paygo_gate_install(bucket, OTHER + 1), e);
	assert_int_equal(paygo_gate_live(e), 1);
}

static void install_disabled_null(void **state)
{
	(void)state;
	open_entry(KEY, 1);
	world.disabled = true;
	assert_null(paygo_gate_install(bucket, OTHER));
	assert_true(paygo_gate_unref_home(bucket, KEY));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(hit_empty_null, begin),
		cmocka_unit_test_setup(hit_open_leaves_global_alone, begin),
		cmocka_unit_test_setup(fold_unused_leaves_nothing, begin),
		cmocka_unit_test_setup(fold_live_tokens_drop_in_global, begin),
		cmocka_unit_test_setup(fold_return_meanwhile_surplus_goes_back, begin),
		cmocka_unit_test_setup(install_beside_own_key_null, begin),
		cmocka_unit_test_setup(install_reusable_takes_its_own_first, begin),
		cmocka_unit_test_setup(install_full_bucket_null, begin),
		cmocka_unit_test_setup(install_disabled_null, begin),
	};

	return cmocka_run_group_tests_name("paygo_gate", tests, NULL, NULL);
}
