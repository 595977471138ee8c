/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * percpu: a count per object and CPU; a freeze sends everybody to one word.
 * Source: Linux, lib/percpu-refcount.c (percpu_ref_kill() and percpu_ref_tryget_live()).
 *
 * Idea. A reader adds to its CPU's word, and later subtracts from the word of the CPU that
 * it then runs on. A single word means nothing, but their sum does. A freezer turns the
 * object's mode, as percpu_ref_kill() does, and waits until everybody has seen it. Then it
 * folds all words into one number and decides.
 *
 * Words
 *   local    one per object and CPU, modulo 2^64, may be "negative". Only that CPU, by
 *            host_percpu_add().
 *   mode     the object's gate (core/count/count_gate.h). LIVE and WATCHED are the percpu
 *            mode, CLOSED and FROZEN the atomic mode.
 *   undone   the atomic word: refs that counted and found the mode turned. Atomic add, by
 *            those readers; only grows.
 *
 *      percpu mode --freeze: turn, fence, fold--> sum is 0: atomic mode, frozen
 *           ^  ^-------------- sum is not 0 ---------'             |
 *           '-------------------------- thaw ----------------------'
 *
 * Invariants
 * D1 sum of locals - undone = references held + readers between their count and their look.
 *    When nothing moves it equals the references held.
 * D2 A query or freeze reads undone first and the locals afterwards. A reader that fails
 *    adds to its local before it adds to undone. So both are seen, or only the addition.
 *    The other way round:
 *
 *       freezer                      reader
 *       local 0: 1 (it is held)
 *                                    local 0: 1 -> 2
 *                                    mode is atomic: undone 0 -> 1
 *       undone is 1: sum 0
 *
 * Otherwise G1 to G3 of core/count/count_gate.h. The query does not see an unref on a CPU
 * that it has read already. If it sees an unref, it also sees that reference: references
 * taken before the gate closed are in memory before the query reads any word.
 *
 * Progress: ref and unref are wait-free but for a watch (core/count/count_gate.h). query and
 * freeze take one step per CPU and cannot end early: a negative word may make up for a
 * positive one.
 * Not here: what Linux does with a percpu_ref that is killed while it is held. It stays in
 * atomic mode and calls back when the last reference goes; a freeze here goes back to percpu
 * mode (N2). Linux waits for a grace period of RCU where this file has a heavy fence. So
 * its readers can look at the mode first.
 * Worse than atomic: memory, a word per object and CPU.
 */
#include "core/count/count_gate.h"

/* An object's line. */
#define WORD_MODE 0u
#define WORD_UNDONE 1u

struct percpu {
	u64 *modes;  /* a line per object */
	u64 *locals; /* per CPU: a word per object */
	u32 nr_cpus;
	u32 stride_words; /* from one CPU's words to the next one's */
};

static u64 *count_percpu_mode(struct count *c, u32 object)
{
	struct percpu *s = c->state;

	return &s->modes[(u64)object * COUNT_LINE_WORDS + WORD_MODE];
}

static u64 *count_percpu_undone(struct count *c, u32 object)
{
	struct percpu *s = c->state;

	return &s->modes[(u64)object * COUNT_LINE_WORDS + WORD_UNDONE];
}

/* CPU 0's word; the others lie stride_words apart. */
static u64 *count_percpu_locals(struct count *c, u32 object)
{
	struct percpu *s = c->state;

	return &s->locals[object];
}

static u64 count_percpu_modes_bytes(const struct count *c)
{
	return (u64)c->nr_objects * COUNT_LINE_BYTES;
}

static u64 count_percpu_locals_bytes(const struct percpu *s)
{
	return (u64)s->nr_cpus * s->stride_words * sizeof(u64);
}

static void count_percpu_fini(struct count *c)
{
	struct percpu *s = c->state;

	if (s->modes)
		host_free(s->modes, count_percpu_modes_bytes(c));
	if (s->locals)
		host_free(s->locals, count_percpu_locals_bytes(s));
	host_free(s, sizeof(*s));
}

static int count_percpu_init(struct count *c)
{
	struct percpu *s = host_alloc(sizeof(*s), COUNT_LINE_BYTES);

	if (!s)
		return -ENOMEM;
	c->state = s;
	s->nr_cpus = host_nr_cpus();
	s->stride_words = count_round_to_line(c->nr_objects);
	s->modes = host_alloc(count_percpu_modes_bytes(c), COUNT_LINE_BYTES);
	s->locals = host_alloc(count_percpu_locals_bytes(s), COUNT_LINE_BYTES);
	if (s->modes && s->locals)
		return 0;
	count_percpu_fini(c);
	c->state = NULL;
	return -ENOMEM;
}

static bool count_percpu_ref(struct count *c, u32 object, u32 user, u64 *ret_token)
{
	struct percpu *s = c->state;

	(void)user;
	host_percpu_add(count_percpu_locals(c, object), s->stride_words, 1);
	if (likely(count_gate_pass(count_percpu_mode(c, object)))) {
		*ret_token = 0;
		return true;
	}
	host_fetch_add(count_percpu_undone(c, object), 1); /* D2: full */
	return false;
}

static void count_percpu_unref(struct count *c, u32 object, u32 user, u64 token)
{
	struct percpu *s = c->state;

	(void)user;
	(void)token;
	host_fence_release(); /* G3 */
	host_percpu_add(count_percpu_locals(c, object), s->stride_words, -(u64)1);
}

static u64 count_percpu_all_locals(struct count *c, u32 object)
{
	struct percpu *s = c->state;
	const u64 *local = count_percpu_locals(c, object);
	u64 sum = 0;
	u32 cpu;

	for (cpu = 0; cpu < s->nr_cpus; cpu++, local += s->stride_words)
		sum += host_load_acquire(local); /* G3 */
	return sum;
}

static bool count_percpu_used(struct count *c, u32 object)
{
	u64 undone, locals;

	/* D2 */
	undone = host_load_acquire(count_percpu_undone(c, object));
	locals = count_percpu_all_locals(c, object);
	return locals != undone;
}

static bool count_percpu_query(struct count *c, u32 object)
{
	return count_gate_query(c, object, count_percpu_mode(c, object),
	                        count_percpu_used);
}

static bool count_percpu_freeze(struct count *c, u32 object)
{
	return count_gate_freeze(c, object, count_percpu_mode(c, object),
	                         count_percpu_used);
}

static void count_percpu_thaw(struct count *c, u32 object)
{
	count_gate_thaw(count_percpu_mode(c, object));
}

static u64 count_percpu_sum(struct count *c, u32 object)
{
	return count_percpu_all_locals(c, object) -
	       host_load_relaxed(count_percpu_undone(c, object));
}

static void count_percpu_cost(const struct count *c, struct count_cost *ret_cost)
{
	const struct percpu *s = c->state;

	*ret_cost = (struct count_cost){ .object_bytes = COUNT_LINE_BYTES,
		                         .cpu_bytes = s->stride_words * sizeof(u64) };
}

static void count_percpu_check(struct count *c, const struct count_held *held,
                               u32 nr_held)
{
	u32 object;

	for (object = 0; object < c->nr_objects; object++) {
		u32 nr = count_held_on(held, nr_held, object);

		count_gate_check(count_percpu_mode(c, object), nr);
		CHECK(count_percpu_sum(c, object) == nr,
		      "D1: all words together count what is held");
	}
}

const struct count_scheme count_percpu = {
	.name = "percpu",
	.counts = true,
	.init = count_percpu_init,
	.fini = count_percpu_fini,
	.ref = count_percpu_ref,
	.unref = count_percpu_unref,
	.query = count_percpu_query,
	.freeze = count_percpu_freeze,
	.thaw = count_percpu_thaw,
	.sum = count_percpu_sum,
	.cost = count_percpu_cost,
	.check = count_percpu_check,
};
