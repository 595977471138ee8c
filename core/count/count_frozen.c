/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * frozen: one word per object, fetch-add, live or frozen by its top bit. It saves atomic's
 * retries, but every reader still writes the object's cache line. Protocol: core/count_word.h.
 */
#include "core/count/count.h"
#include "core/count_word.h"

static u64 *count_frozen_word(struct count *c, u32 object)
{
	u64 *words = c->state;

	return &words[(u64)object * COUNT_LINE_WORDS];
}

static int count_frozen_init(struct count *c)
{
	/* Zeroed words are frozen (N1). */
	c->state = host_alloc((u64)c->nr_objects * COUNT_LINE_BYTES, COUNT_LINE_BYTES);
	if (!c->state)
		return -ENOMEM;
	return 0;
}

static void count_frozen_fini(struct count *c)
{
	host_free(c->state, (u64)c->nr_objects * COUNT_LINE_BYTES);
}

static bool count_frozen_ref(struct count *c, u32 object, u32 user, u64 *ret_token)
{
	(void)user;
	*ret_token = 0;
	return count_frozen_word_ref(count_frozen_word(c, object));
}

static void count_frozen_unref(struct count *c, u32 object, u32 user, u64 token)
{
	(void)user;
	(void)token;
	count_frozen_word_unref(count_frozen_word(c, object));
}

static bool count_frozen_query(struct count *c, u32 object)
{
	return count_frozen_word_query(count_frozen_word(c, object));
}

static bool count_frozen_freeze(struct count *c, u32 object)
{
	return count_frozen_word_freeze(count_frozen_word(c, object));
}

static void count_frozen_thaw(struct count *c, u32 object)
{
	count_frozen_word_thaw(count_frozen_word(c, object));
}

static u64 count_frozen_sum(struct count *c, u32 object)
{
	return count_frozen_word_sum(count_frozen_word(c, object));
}

static void count_frozen_cost(const struct count *c, struct count_cost *ret_cost)
{
	(void)c;
	*ret_cost = (struct count_cost){ .object_bytes = COUNT_LINE_BYTES };
}

static void count_frozen_check(struct count *c, const struct count_held *held,
                               u32 nr_held)
{
	u32 object;

	for (object = 0; object < c->nr_objects; object++) {
		u64 v = host_load_relaxed(count_frozen_word(c, object));

		CHECK(v == 0 || v == COUNT_LIVE_BIT + count_held_on(held, nr_held, object),
		      "a word is frozen with nothing owed, or live and what is held");
	}
}

const struct count_scheme count_frozen = {
	.name = "frozen",
	.counts = true,
	.init = count_frozen_init,
	.fini = count_frozen_fini,
	.ref = count_frozen_ref,
	.unref = count_frozen_unref,
	.query = count_frozen_query,
	.freeze = count_frozen_freeze,
	.thaw = count_frozen_thaw,
	.sum = count_frozen_sum,
	.cost = count_frozen_cost,
	.check = count_frozen_check,
};
