/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * atomic: one word per object and a compare-and-swap loop, as Linux counts a page today.
 * Every reader of a hot object writes the same cache line. Protocol: core/count_word.h.
 */
#include "core/count/count.h"
#include "core/count_word.h"

static u64 *count_atomic_word(struct count *c, u32 object)
{
	u64 *words = c->state;

	return &words[(u64)object * COUNT_LINE_WORDS];
}

static int count_atomic_init(struct count *c)
{
	/* Zeroed words are frozen (N1). */
	c->state = host_alloc((u64)c->nr_objects * COUNT_LINE_BYTES, COUNT_LINE_BYTES);
	if (!c->state)
		return -ENOMEM;
	return 0;
}

static void count_atomic_fini(struct count *c)
{
	host_free(c->state, (u64)c->nr_objects * COUNT_LINE_BYTES);
}

static bool count_atomic_ref(struct count *c, u32 object, u32 user, u64 *ret_token)
{
	(void)user;
	*ret_token = 0;
	return count_atomic_word_ref(count_atomic_word(c, object));
}

static void count_atomic_unref(struct count *c, u32 object, u32 user, u64 token)
{
	(void)user;
	(void)token;
	count_atomic_word_unref(count_atomic_word(c, object));
}

static bool count_atomic_query(struct count *c, u32 object)
{
	return count_atomic_word_query(count_atomic_word(c, object));
}

static bool count_atomic_freeze(struct count *c, u32 object)
{
	return count_atomic_word_freeze(count_atomic_word(c, object));
}

static void count_atomic_thaw(struct count *c, u32 object)
{
	count_atomic_word_thaw(count_atomic_word(c, object));
}

static u64 count_atomic_sum(struct count *c, u32 object)
{
	return count_atomic_word_sum(count_atomic_word(c, object));
}

static void count_atomic_cost(const struct count *c, struct count_cost *ret_cost)
{
	(void)c;
	*ret_cost = (struct count_cost){ .object_bytes = COUNT_LINE_BYTES };
}

static void count_atomic_check(struct count *c, const struct count_held *held,
                               u32 nr_held)
{
	u32 object;

	for (object = 0; object < c->nr_objects; object++) {
		u64 v = host_load_relaxed(count_atomic_word(c, object));

		CHECK(v == 0 || v == COUNT_BASE + count_held_on(held, nr_held, object),
		      "a word is frozen, or base and what is held");
	}
}

const struct count_scheme count_atomic = {
	.name = "atomic",
	.counts = true,
	.init = count_atomic_init,
	.fini = count_atomic_fini,
	.ref = count_atomic_ref,
	.unref = count_atomic_unref,
	.query = count_atomic_query,
	.freeze = count_atomic_freeze,
	.thaw = count_atomic_thaw,
	.sum = count_atomic_sum,
	.cost = count_atomic_cost,
	.check = count_atomic_check,
};
