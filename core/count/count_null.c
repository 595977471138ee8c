/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * null counts nothing, so it shows what counting costs (LODIC s.5, "NCount"). It cannot
 * know whether anybody uses an object, so it never freezes one. Reclaim cannot use it.
 */
#include "core/count/count.h"

static int count_null_init(struct count *c)
{
	(void)c;
	return 0;
}

static void count_null_fini(struct count *c)
{
	(void)c;
}

static bool count_null_ref(struct count *c, u32 object, u32 user, u64 *ret_token)
{
	(void)c;
	(void)object;
	(void)user;
	*ret_token = 0;
	return true;
}

static void count_null_unref(struct count *c, u32 object, u32 user, u64 token)
{
	(void)c;
	(void)object;
	(void)user;
	(void)token;
}

/* Somebody may use it. */
static bool count_null_query(struct count *c, u32 object)
{
	(void)c;
	(void)object;
	return true;
}

static bool count_null_freeze(struct count *c, u32 object)
{
	(void)c;
	(void)object;
	return false;
}

static void count_null_thaw(struct count *c, u32 object)
{
	(void)c;
	(void)object;
}

static u64 count_null_sum(struct count *c, u32 object)
{
	(void)c;
	(void)object;
	return 0;
}

static void count_null_cost(const struct count *c, struct count_cost *ret_cost)
{
	(void)c;
	*ret_cost = (struct count_cost){ 0, 0, 0 };
}

static void count_null_check(struct count *c, const struct count_held *held,
                             u32 nr_held)
{
	(void)held;
	(void)nr_held;
	CHECK(!c->state, "null has no state");
}

const struct count_scheme count_null = {
	.name = "null",
	.counts = false,
	.init = count_null_init,
	.fini = count_null_fini,
	.ref = count_null_ref,
	.unref = count_null_unref,
	.query = count_null_query,
	.freeze = count_null_freeze,
	.thaw = count_null_thaw,
	.sum = count_null_sum,
	.cost = count_null_cost,
	.check = count_null_check,
};
