/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * template: the smallest scheme that spreads its writes, and a real one. To begin a scheme
 * of your own, copy this file to core/count/count_mine.c and put "mine" for "template". Give
 * its rules numbers that no other file has. Then add COUNT_SCHEME(count_mine) to
 * core/count/count_list.h, and it runs everywhere. Then change one function after the
 * other. doc/add-a-scheme.md goes through it.
 *
 * A scheme's opening comment gives, as this one does, the idea and its source, and every
 * shared word with its writers. Then states, invariants, order, progress, and what the
 * file leaves out.
 *
 * Idea. STRIPES words per object, each counting for itself by the protocol of atomic
 * (core/count_word.h: 0 frozen, 1 base, 1 + n references). A reader takes the stripe of
 * its CPU, so that only every STRIPES-th CPU writes the same line. A freezer takes the
 * stripes one after the other.
 *
 * Words
 *   stripe   STRIPES per object, a line each. Readers by cas and add, when it is not 0;
 *            base <-> 0 by the thread that freezes or thaws, one at a time.
 *
 *     all 1..n  --freeze takes one after the other-->  all 0 = frozen
 *         ^  ^------- gives them back: one is used ------'    |
 *         '---------------------- thaw -----------------------'
 *
 * Invariants (core/count/count.h has N1 to N5, which every scheme owes)
 * Y1 A token names the stripe that counts it, and unref goes there, on whatever CPU it runs.
 * Y2 Frozen means that all stripes are 0, and a stripe that is 0 gives no reference. So when
 *    the freezer has taken the last stripe, nobody holds a reference: the first ones cannot
 *    have been used since (N2).
 * Order: W1 and W2 of core/count_word.h, for each stripe.
 * Progress: ref lock-free, unref wait-free, freeze and query STRIPES steps. Locks: none.
 * Not here: a freeze that does not disturb. While it runs, refs fail on stripes that it has
 * taken, even if it gives them back (count_ref() allows that, and callers retry).
 */
#include "core/count/count.h"
#include "core/count_word.h"

/* Ours: enough to show what spreading gains, few enough that queries stay cheap. A comment
 * like this must say that a number is ours, and how we found it. */
#define STRIPES 4u

/* Shared state is u64 words, and the scheme must touch it through host_* functions only. A
 * word that is written often has a line of its own. */
static u64 *count_template_stripe(struct count *c, u32 object, u32 stripe)
{
	u64 *words = c->state;

	return &words[((u64)object * STRIPES + stripe) * COUNT_LINE_WORDS];
}

static u64 count_template_bytes(const struct count *c)
{
	return (u64)c->nr_objects * STRIPES * COUNT_LINE_BYTES;
}

static int count_template_init(struct count *c)
{
	/* host_alloc() gives zeroed memory, and 0 is frozen: N1. */
	c->state = host_alloc(count_template_bytes(c), COUNT_LINE_BYTES);
	return c->state ? 0 : -ENOMEM;
}

static void count_template_fini(struct count *c)
{
	host_free(c->state, count_template_bytes(c));
}

/* The fast path. user is the one that asks. A scheme that counts per user (hazard, lodic)
 * needs it; this one asks where it runs instead. The answer of host_cpu() may be old at
 * once. Here that costs only a little speed, because the token says which stripe counts. */
static bool count_template_ref(struct count *c, u32 object, u32 user, u64 *ret_token)
{
	u32 stripe = host_cpu() % STRIPES;

	(void)user;
	if (!count_atomic_word_ref(count_template_stripe(c, object, stripe)))
		return false; /* and ret_token is untouched */
	*ret_token = stripe;  /* Y1 */
	return true;
}

static void count_template_unref(struct count *c, u32 object, u32 user, u64 token)
{
	(void)user;
	count_atomic_word_unref(count_template_stripe(c, object, (u32)token)); /* Y1 */
}

/* N4: a reference that is held all through the call stands in one stripe all the time. */
static bool count_template_query(struct count *c, u32 object)
{
	u32 i;

	for (i = 0; i < STRIPES; i++)
		if (count_atomic_word_query(count_template_stripe(c, object, i)))
			return true;
	return false;
}

static bool count_template_freeze(struct count *c, u32 object)
{
	u32 nr = 0; /* stripes taken */

	while (nr < STRIPES &&
	       count_atomic_word_freeze(count_template_stripe(c, object, nr))) /* W1 */
		nr++;
	if (nr == STRIPES)
		return true; /* Y2 */
	while (nr > 0)
		count_atomic_word_thaw(count_template_stripe(c, object, --nr));
	return false;
}

static void count_template_thaw(struct count *c, u32 object)
{
	u32 i;

	for (i = 0; i < STRIPES; i++)
		count_atomic_word_thaw(count_template_stripe(c, object, i)); /* W2 */
}

static u64 count_template_sum(struct count *c, u32 object)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < STRIPES; i++)
		sum += count_atomic_word_sum(count_template_stripe(c, object, i));
	return sum;
}

static void count_template_cost(const struct count *c, struct count_cost *ret_cost)
{
	(void)c;
	*ret_cost = (struct count_cost){ .object_bytes = STRIPES * COUNT_LINE_BYTES };
}

/* Asserts, by name, everything that must hold when nothing moves. Unit tests, the checker
 * and the stress tests call it, and know all references that are held. */
static void count_template_check(struct count *c, const struct count_held *held,
                                 u32 nr_held)
{
	u32 object, i, j;

	for (object = 0; object < c->nr_objects; object++) {
		u32 nr_frozen = 0;

		for (i = 0; i < STRIPES; i++) {
			u64 v = host_load_relaxed(count_template_stripe(c, object, i));
			u32 nr = 0;

			for (j = 0; j < nr_held; j++)
				nr += held[j].object == object && held[j].token == i;
			CHECK(v == (v ? COUNT_BASE + nr : 0) && (v || nr == 0),
			      "Y1: a stripe counts the tokens that name it");
			nr_frozen += v == 0;
		}
		CHECK(nr_frozen == 0 || nr_frozen == STRIPES,
		      "Y2: all stripes are frozen, or none");
	}
}

const struct count_scheme count_template = {
	.name = "template",
	.counts = true,
	.init = count_template_init,
	.fini = count_template_fini,
	.ref = count_template_ref,
	.unref = count_template_unref,
	.query = count_template_query,
	.freeze = count_template_freeze,
	.thaw = count_template_thaw,
	.sum = count_template_sum,
	.cost = count_template_cost,
	.check = count_template_check,
};
