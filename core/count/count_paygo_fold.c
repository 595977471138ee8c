/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * paygo_fold: PAYGO as a kernel can have it. A small hash of counts on each CPU, as in
 * core/count/count_paygo.c, but an entry owns a reference in the object's global word.
 * Source: PAYGO s.3, with another gate (ADR-0025).
 *
 * Idea. The global word is atomic's (core/count_word.h). Tasks whose compare-and-swap on it
 * fails meet others there, and so the task turns its reference into an entry of its CPU.
 * From then on tasks of that CPU count in the entry, by plain loads and stores. An entry
 * that nobody hits for some ticks folds into the global word.
 *
 * Words, states, invariants, order: core/paygo_gate.h. A token is PAYGO_TOKEN and the home
 * CPU, or 0 for the global word.
 *
 *              cas(0 -> base)           ref, install: + 1
 *      FROZEN ----------------> base <---------------------> base + n
 *             <----------------             unref, fold
 *              cas(base -> 0)
 *
 * Progress. ref: a bucket, then lock-free on the global word. unref: wait-free. query and
 * freeze: one word. They say "used" while an entry is open, so a freeze may need a tick or
 * two on each CPU first. Locks: none.
 *
 * Departures from the paper (ADR-0025):
 * - There is no flag, no fence in ref, and no READ-ALL. So a freeze fails safe at any place
 *   that expects a count, and frozen objects cost nothing.
 * - Live entries fold, which the paper has as an eviction (PAYGO s.3.5). Tokens of a folded
 *   entry find that out by the word that they add to.
 * - Counting begins where there is contention. The paper counts so from the first open of a
 *   file.
 *
 * Worse than atomic: a freeze waits for ticks. An object that is read on many CPUs, and
 * seldom on each, costs an install and a fold for few hits. Each open entry keeps a frame.
 */
#include "core/count/paygo_table.h"
#include "core/count_word.h"

struct paygo_fold {
	u64 *globals; /* a line per object */
	struct paygo_table table;
};

static struct paygo_fold *count_paygo_fold_of(struct count *c)
{
	return c->state;
}

static u64 *count_paygo_fold_global(struct count *c, u32 object)
{
	return &count_paygo_fold_of(c)->globals[(u64)object * COUNT_LINE_WORDS];
}

static u64 count_paygo_fold_bytes(const struct count *c)
{
	return (u64)c->nr_objects * COUNT_LINE_BYTES;
}

static void count_paygo_fold_fini(struct count *c)
{
	struct paygo_fold *s = c->state;

	paygo_table_fini(&s->table);
	host_free(s->globals, count_paygo_fold_bytes(c));
	host_free(s, sizeof(*s));
}

static int count_paygo_fold_init(struct count *c)
{
	struct paygo_fold *s = host_alloc(sizeof(*s), COUNT_LINE_BYTES);

	if (!s)
		return -ENOMEM;
	s->globals = host_alloc(count_paygo_fold_bytes(c), COUNT_LINE_BYTES); /* N1 */
	if (s->globals && !paygo_table_init(&s->table, s->globals, c->nr_objects)) {
		c->state = s;
		return 0;
	}
	if (s->globals)
		host_free(s->globals, count_paygo_fold_bytes(c));
	host_free(s, sizeof(*s));
	return -ENOMEM;
}

static struct paygo_table *count_paygo_fold_table(struct count *c)
{
	return &count_paygo_fold_of(c)->table;
}

static bool count_paygo_fold_ref(struct count *c, u32 object, u32 user, u64 *ret_token)
{
	struct paygo_table *t = count_paygo_fold_table(c);
	bool contended = t->eager;

	(void)user;
	if (likely(paygo_table_ref(t, object, ret_token)))
		return true;
	if (!count_atomic_word_ref_told(count_paygo_fold_global(c, object), &contended))
		return false;
	if (!contended || !paygo_table_install(t, object, ret_token))
		*ret_token = 0;
	return true;
}

static void count_paygo_fold_unref(struct count *c, u32 object, u32 user, u64 token)
{
	(void)user;
	if (token == 0)
		count_atomic_word_unref(count_paygo_fold_global(c, object));
	else
		paygo_table_unref(count_paygo_fold_table(c), object, token);
}

static bool count_paygo_fold_query(struct count *c, u32 object)
{
	return count_atomic_word_query(count_paygo_fold_global(c, object));
}

static bool count_paygo_fold_freeze(struct count *c, u32 object)
{
	return count_atomic_word_freeze(count_paygo_fold_global(c, object)); /* PG3 */
}

static void count_paygo_fold_thaw(struct count *c, u32 object)
{
	count_atomic_word_thaw(count_paygo_fold_global(c, object));
}

static void count_paygo_fold_tick(struct count *c, u32 cpu)
{
	paygo_table_tick(count_paygo_fold_table(c), cpu);
}

static u64 count_paygo_fold_sum(struct count *c, u32 object)
{
	struct paygo_table *t = count_paygo_fold_table(c);

	/* PG2 */
	return count_atomic_word_sum(count_paygo_fold_global(c, object)) -
	       paygo_table_nr_open(t, object) + paygo_table_live(t, object);
}

static void count_paygo_fold_cost(const struct count *c, struct count_cost *ret_cost)
{
	const struct paygo_fold *s = c->state;

	*ret_cost = (struct count_cost){
		.object_bytes = COUNT_LINE_BYTES,
		.cpu_bytes = paygo_table_cpu_bytes(&s->table),
	};
}

static void count_paygo_fold_check(struct count *c, const struct count_held *held,
                                   u32 nr_held)
{
	struct paygo_table *t = count_paygo_fold_table(c);
	u32 object;

	paygo_table_check(t, held, nr_held);
	for (object = 0; object < c->nr_objects; object++) {
		u64 global = host_load_relaxed(count_paygo_fold_global(c, object));
		u64 open = paygo_table_nr_open(t, object);
		u64 tokens = count_held_on(held, nr_held, object);

		CHECK(global != 0 || (open == 0 && tokens == 0),
		      "PG3: frozen is unused, and no entry is open");
		CHECK(global == 0 || global + paygo_table_live(t, object) ==
		                             COUNT_BASE + open + tokens,
		      "PG2: global + live = base + open entries + tokens");
	}
}

const struct count_scheme count_paygo_fold = {
	.name = "paygo_fold",
	.counts = true,
	.init = count_paygo_fold_init,
	.fini = count_paygo_fold_fini,
	.ref = count_paygo_fold_ref,
	.unref = count_paygo_fold_unref,
	.query = count_paygo_fold_query,
	.freeze = count_paygo_fold_freeze,
	.thaw = count_paygo_fold_thaw,
	.sum = count_paygo_fold_sum,
	.cost = count_paygo_fold_cost,
	.check = count_paygo_fold_check,
	.tick = count_paygo_fold_tick,
	.table = count_paygo_fold_table,
};
