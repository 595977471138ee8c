/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Plain words of each user's own. Contract: bench/private.h. */
#include "bench/private.h"

static u64 *private_word(struct count *c, u32 object, u32 user)
{
	u64 **words = c->state;

	return &words[user][(u64)object * COUNT_LINE_WORDS];
}

static int private_init(struct count *c)
{
	c->state = host_alloc(c->nr_users * sizeof(u64 *), COUNT_LINE_BYTES);
	return c->state ? 0 : -ENOMEM;
}

/* Makes all words of a user at its first share. The user's own thread does it, so that the
 * words are near it. */
static int private_share(struct count *c, u32 user, u32 object)
{
	u64 **words = c->state;

	(void)object;
	if (!words[user])
		words[user] = host_alloc((u64)c->nr_objects * COUNT_LINE_BYTES,
		                         COUNT_LINE_BYTES);
	return words[user] ? 0 : -ENOMEM;
}

static void private_fini(struct count *c)
{
	u64 **words = c->state;
	u32 user;

	for (user = 0; user < c->nr_users; user++)
		if (words[user])
			host_free(words[user], (u64)c->nr_objects * COUNT_LINE_BYTES);
	host_free(words, c->nr_users * sizeof(u64 *));
}

static bool private_ref(struct count *c, u32 object, u32 user, u64 *ret_token)
{
	u64 *word = private_word(c, object, user);

	/* Relaxed, here and below: no other thread looks. */
	host_store_relaxed(word, host_load_relaxed(word) + 1);
	*ret_token = 0;
	return true;
}

static void private_unref(struct count *c, u32 object, u32 user, u64 token)
{
	u64 *word = private_word(c, object, user);

	(void)token;
	host_store_relaxed(word, host_load_relaxed(word) - 1);
}

static bool private_query(struct count *c, u32 object)
{
	(void)c;
	(void)object;
	return true;
}

static bool private_freeze(struct count *c, u32 object)
{
	(void)c;
	(void)object;
	return false;
}

static void private_thaw(struct count *c, u32 object)
{
	(void)c;
	(void)object;
}

static u64 private_sum(struct count *c, u32 object)
{
	u64 **words = c->state;
	u64 sum = 0;
	u32 user;

	for (user = 0; user < c->nr_users; user++)
		if (words[user])
			sum += host_load_relaxed(private_word(c, object, user));
	return sum;
}

static void private_cost(const struct count *c, struct count_cost *ret_cost)
{
	*ret_cost = (struct count_cost){
		.user_bytes = (u64)c->nr_objects * COUNT_LINE_BYTES,
	};
}

static void private_check(struct count *c, const struct count_held *held, u32 nr_held)
{
	u32 object;

	for (object = 0; object < c->nr_objects; object++)
		CHECK(private_sum(c, object) == count_held_on(held, nr_held, object),
		      "N5: sum is what is held");
}

const struct count_scheme private_control = {
	.name = "private",
	.counts = false,
	.init = private_init,
	.fini = private_fini,
	.ref = private_ref,
	.unref = private_unref,
	.query = private_query,
	.freeze = private_freeze,
	.thaw = private_thaw,
	.sum = private_sum,
	.cost = private_cost,
	.check = private_check,
	.share = private_share,
};
