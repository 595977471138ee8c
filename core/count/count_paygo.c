/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * paygo: a small hash of counts on each CPU. A reader that has moved to another CPU pays
 * with an atomic.
 * Source: PAYGO (PAYGO s.3), with three decisions where the paper is open (below).
 *
 * Idea. A reader counts in an entry of its CPU's hash. Its token says which one: its home.
 * The reader gives the reference back there. While it is still on that CPU, it subtracts by
 * a plain store (local); from any other CPU, by an atomic (anchor). So an entry's two words add up
 * to 0 as soon as its references are gone. Then another object can use it at once, without
 * flushing and without epochs.
 *
 * Words
 *   local    one per entry: object (32 bits) and count (32 bits, modulo 2^32). Only that
 *            CPU, by host_percpu_cas().
 *   anchor   one per entry: what was subtracted from other CPUs, as a negative number
 *            modulo 2^32. Any thread that holds a token of that entry, by atomic add.
 *   gate     one per object (core/count/count_gate.h). Its central count is the overflow:
 *            refs that found their bucket full of other objects' live entries.
 *
 *                          ref                 ref
 *      garbage: K, sum 0 -------> K, sum 1 <--------> K, sum 2 ...   sum = local + anchor
 *          |    ^                  |           unref
 *          |    '----- unref ------'
 *          '--- ref of L: (K, n) -> (L, n + 1), the anchor stays as it is
 *
 * Invariants
 * A1 An entry's sum is the number of tokens that name it (and of readers between count and
 *    look), and they are all of its object.
 * A2 A live entry, whose sum is not 0, never moves and never changes its object. A ref that
 *    finds no room counts in the overflow, and its token says so.
 * A3 An entry is used anew in one commit that leaves the anchor as it is. A count means
 *    something only together with its anchor. Its parts were loaded one by one before: the
 *    local word (K, n), and the anchor a, with n + a = 0. When the commit finds (K, n) in
 *    place, the sum is n + a' for the anchor a' of that moment. Anchors only sink, so
 *    a' = a - k, and the sum is -k. But it is a number of tokens (A1), so k = 0: there were
 *    none left. A thread without a token touches neither word. This needs no order among
 *    the loads, and allows that (K, n) went and came back. (All modulo 2^32: there must be
 *    fewer tokens than that.)
 * A4 READ-ALL loads an entry's anchor first and its local afterwards. To load
 *    local first would free a held object:
 *
 *       reader, on CPU 0       freezer                 another reader
 *       holds: local 0 is 1    gate := CLOSED
 *                              local 0 is 1
 *                                                      local 0: 1 -> 2
 *                                                      moves; gate is CLOSED, so
 *                                                      it undoes: anchor 0 := -1
 *                              anchor 0 is -1: sum 0
 *
 *    With the anchor first, READ-ALL sees the reference of each subtraction that it sees.
 *    No sum is too low, and the first that is not 0 ends the look (PAYGO s.3.4).
 * A5 Several CPUs change an anchor at once, so they must change it atomically.
 *
 * Otherwise G1 to G3 of core/count/count_gate.h.
 *
 * Progress: ref and unref are lock-free. A retry means that the task was moved, or that
 * another task of this CPU counted in the same entry. Locks: none. query and freeze: one
 * bucket, a cache line, per CPU.
 *
 * Departures from the paper:
 * - There are fences between count and look, which its Figure 4 does not have (G1).
 * - READ-ALL has an order, which the paper does not give (A4).
 * - Live entries are not evicted to a list from which they are loaded again (PAYGO s.3.5).
 *   Otherwise an unref could go to the anchor of an evicted entry, and take from the object
 *   that has the entry now (A2).
 * - The paper switches preemption off. Here a commit fails when the task was moved. So two
 *   tasks of a CPU may both begin an entry for one object. That is allowed, because
 *   READ-ALL adds up all it finds.
 *
 * Worse than atomic: an object whose bucket is full, READ-ALL of many CPUs.
 */
#include "core/count/count_gate.h"

/* A core's hash has 4096 entries (LODIC s.5.2.1). */
#define COUNT_PAYGO_ENTRIES 4096u
/* Ours: as many as fill a cache line, so that a bucket costs one. */
#define COUNT_PAYGO_WAYS 4u
/* Ours: only tests have so few objects. All of them share one bucket of so many entries, to
 * meet collisions. */
#define COUNT_PAYGO_FEW 16u
#ifndef COUNT_PAYGO_FEW_WAYS
#define COUNT_PAYGO_FEW_WAYS 1u
#endif

/* A token is the home CPU (upper half) and the entry there, or this. */
#define COUNT_PAYGO_OVERFLOW (~(u64)0)
#define TOKEN_CPU_SHIFT 32

struct paygo_entry {
	u64 local;
	u64 anchor;
};

struct paygo {
	u64 *gates;                  /* a line per object */
	struct paygo_entry *entries; /* per CPU: buckets of nr_ways */
	u32 nr_cpus;
	u32 nr_buckets, nr_ways; /* per CPU */
	u32 stride;              /* entries from one CPU to the next */
};

static u64 paygo_local(u32 object, u32 n)
{
	return (u64)object << 32 | n;
}

static u32 paygo_object(u64 local)
{
	return (u32)(local >> 32);
}

static u32 paygo_sum(u64 local, u64 anchor)
{
	return (u32)local + (u32)anchor;
}

static u64 *count_paygo_gate(struct count *c, u32 object)
{
	struct paygo *s = c->state;

	return &s->gates[(u64)object * COUNT_LINE_WORDS];
}

static struct paygo_entry *count_paygo_entry(struct count *c, u32 cpu, u32 index)
{
	struct paygo *s = c->state;

	return &s->entries[(u64)cpu * s->stride + index];
}

/* The first entry of the object's bucket, the same on all CPUs. */
static u32 count_paygo_bucket(const struct paygo *s, u32 object)
{
	return count_hash(object, s->nr_buckets) * s->nr_ways;
}

static u64 count_paygo_gates_bytes(const struct count *c)
{
	return (u64)c->nr_objects * COUNT_LINE_BYTES;
}

static u64 count_paygo_entries_bytes(const struct paygo *s)
{
	return (u64)s->nr_cpus * s->stride * sizeof(struct paygo_entry);
}

static void count_paygo_fini(struct count *c)
{
	struct paygo *s = c->state;

	if (s->gates)
		host_free(s->gates, count_paygo_gates_bytes(c));
	if (s->entries)
		host_free(s->entries, count_paygo_entries_bytes(s));
	host_free(s, sizeof(*s));
}

static int count_paygo_init(struct count *c)
{
	struct paygo *s = host_alloc(sizeof(*s), COUNT_LINE_BYTES);
	bool few = c->nr_objects < COUNT_PAYGO_FEW;

	if (!s)
		return -ENOMEM;
	c->state = s;
	s->nr_cpus = host_nr_cpus();
	s->nr_ways = few ? COUNT_PAYGO_FEW_WAYS : COUNT_PAYGO_WAYS;
	s->nr_buckets = few ? 1 : COUNT_PAYGO_ENTRIES / COUNT_PAYGO_WAYS;
	s->stride = few ? COUNT_PAYGO_WAYS : COUNT_PAYGO_ENTRIES; /* whole lines */
	s->gates = host_alloc(count_paygo_gates_bytes(c), COUNT_LINE_BYTES);
	s->entries = host_alloc(count_paygo_entries_bytes(s), COUNT_LINE_BYTES);
	if (s->gates && s->entries)
		return 0;
	count_paygo_fini(c);
	c->state = NULL;
	return -ENOMEM;
}

/* Finds where object counts on cpu: its entry, or else one that is garbage. Returns its
 * index and, in ret_local, what its local word was. The index past the bucket's last means
 * that the bucket is full. */
static u32 count_paygo_find(struct count *c, u32 cpu, u32 object, u64 *ret_local)
{
	struct paygo *s = c->state;
	u32 bucket = count_paygo_bucket(s, object);
	u32 garbage = bucket + s->nr_ways;
	u64 garbage_local = 0;
	u32 i;

	for (i = bucket; i < bucket + s->nr_ways; i++) {
		struct paygo_entry *e = count_paygo_entry(c, cpu, i);
		u64 local = host_load_relaxed(&e->local); /* the commit fails if old */

		if (likely(paygo_object(local) == object)) {
			*ret_local = local;
			return i;
		}
		if (garbage == bucket + s->nr_ways &&
		    paygo_sum(local, host_load_relaxed(&e->anchor)) == 0) { /* A3 */
			garbage = i;
			garbage_local = local;
		}
	}
	*ret_local = garbage_local;
	return garbage;
}

/* Adds delta, 1 or -1, to object's count on this CPU. Returns the token. When the bucket is
 * full, it does nothing and returns COUNT_PAYGO_OVERFLOW. */
static u64 count_paygo_add_here(struct count *c, u32 object, u32 delta)
{
	struct paygo *s = c->state;
	u32 full = count_paygo_bucket(s, object) + s->nr_ways;
	u64 local;
	u32 cpu, i;

	do {
		cpu = host_cpu();
		i = count_paygo_find(c, cpu, object, &local);
		if (unlikely(i == full))
			return COUNT_PAYGO_OVERFLOW;
	} while (unlikely(!host_percpu_cas(&count_paygo_entry(c, cpu, i)->local, cpu,
	                                   local,
	                                   paygo_local(object, (u32)local + delta))));
	return (u64)cpu << TOKEN_CPU_SHIFT | i;
}

/* Subtracts in local on the home CPU, in the anchor from elsewhere. */
static void count_paygo_sub(struct count *c, u32 object, u64 token)
{
	u32 home = (u32)(token >> TOKEN_CPU_SHIFT);
	struct paygo_entry *e = count_paygo_entry(c, home, (u32)token);

	host_fence_release(); /* G3 */
	while (likely(host_cpu() == home)) {
		u64 local = host_load_relaxed(&e->local);

		DCHECK(paygo_object(local) == object,
		       "A2: an entry with a token stays");
		if (likely(host_percpu_cas(&e->local, home, local,
		                           paygo_local(object, (u32)local - 1))))
			return;
	}
	host_fetch_add(&e->anchor, -(u64)1); /* A5 */
}

static void count_paygo_unref(struct count *c, u32 object, u32 user, u64 token)
{
	(void)user;
	if (token == COUNT_PAYGO_OVERFLOW)
		count_gate_central_unref(count_paygo_gate(c, object), 1);
	else
		count_paygo_sub(c, object, token);
}

static bool count_paygo_ref(struct count *c, u32 object, u32 user, u64 *ret_token)
{
	u64 *gate = count_paygo_gate(c, object);
	u64 token = count_paygo_add_here(c, object, 1);

	if (unlikely(token == COUNT_PAYGO_OVERFLOW)) {
		if (!count_gate_central_ref(gate)) /* A2 */
			return false;
	} else if (unlikely(!count_gate_pass(gate))) {
		count_paygo_unref(c, object, user, token);
		return false;
	}
	*ret_token = token;
	return true;
}

/* An entry's count of object; 0 when it counts another one. */
static u32 count_paygo_load(struct count *c, u32 cpu, u32 i, u32 object)
{
	const struct paygo_entry *e = count_paygo_entry(c, cpu, i);
	u64 local, anchor;

	/* A4 */
	anchor = host_load_acquire(&e->anchor);
	local = host_load_acquire(&e->local);
	return paygo_object(local) == object ? paygo_sum(local, anchor) : 0;
}

/* READ-ALL, up to the first sign (PAYGO s.3.4). */
static bool count_paygo_used(struct count *c, u32 object)
{
	struct paygo *s = c->state;
	u32 bucket = count_paygo_bucket(s, object);
	u32 end = bucket + s->nr_ways;
	u32 cpu, i;

	if (count_gate_central(host_load_acquire(count_paygo_gate(c, object))) > 0)
		return true;
	for (cpu = 0; cpu < s->nr_cpus; cpu++)
		for (i = bucket; i < end; i++)
			if (count_paygo_load(c, cpu, i, object) != 0)
				return true;
	return false;
}

static bool count_paygo_query(struct count *c, u32 object)
{
	return count_gate_query(c, object, count_paygo_gate(c, object),
	                        count_paygo_used);
}

static bool count_paygo_freeze(struct count *c, u32 object)
{
	return count_gate_freeze(c, object, count_paygo_gate(c, object),
	                         count_paygo_used);
}

static void count_paygo_thaw(struct count *c, u32 object)
{
	count_gate_thaw(count_paygo_gate(c, object));
}

static u64 count_paygo_sum(struct count *c, u32 object)
{
	struct paygo *s = c->state;
	u32 bucket = count_paygo_bucket(s, object);
	u64 sum = count_gate_central(host_load_relaxed(count_paygo_gate(c, object)));
	u32 cpu, i;

	for (cpu = 0; cpu < s->nr_cpus; cpu++)
		for (i = bucket; i < bucket + s->nr_ways; i++)
			sum += count_paygo_load(c, cpu, i, object);
	return sum;
}

static void count_paygo_cost(const struct count *c, struct count_cost *ret_cost)
{
	const struct paygo *s = c->state;

	*ret_cost = (struct count_cost){
		.object_bytes = COUNT_LINE_BYTES,
		.cpu_bytes = s->stride * sizeof(struct paygo_entry),
	};
}

/* How many of held have this token, on any object. ret_object: the last one's object. */
static u32 count_paygo_named(const struct count_held *held, u32 nr_held, u64 token,
                             u32 *ret_object)
{
	u32 nr = 0;
	u32 i;

	for (i = 0; i < nr_held; i++)
		if (held[i].token == token) {
			nr++;
			*ret_object = held[i].object;
		}
	return nr;
}

static void count_paygo_check(struct count *c, const struct count_held *held,
                              u32 nr_held)
{
	struct paygo *s = c->state;
	u32 nr_entries = s->nr_buckets * s->nr_ways;
	u32 object, cpu, i;

	for (cpu = 0; cpu < s->nr_cpus; cpu++)
		for (i = 0; i < nr_entries; i++) {
			struct paygo_entry *e = count_paygo_entry(c, cpu, i);
			u64 local = host_load_relaxed(&e->local);
			u64 anchor = host_load_relaxed(&e->anchor);
			u32 nr;

			object = paygo_object(local);
			nr = count_paygo_named(held, nr_held,
			                       (u64)cpu << TOKEN_CPU_SHIFT | i,
			                       &object);
			CHECK(paygo_sum(local, anchor) == nr,
			      "A1: an entry counts its tokens");
			CHECK(paygo_object(local) == object,
			      "A2: a live entry keeps its object");
		}
	for (object = 0; object < c->nr_objects; object++) {
		u64 *gate = count_paygo_gate(c, object);
		u32 nr = 0;

		count_gate_check(gate, count_held_on(held, nr_held, object));
		for (i = 0; i < nr_held; i++)
			nr += held[i].object == object &&
			      held[i].token == COUNT_PAYGO_OVERFLOW;
		CHECK(count_gate_central(host_load_relaxed(gate)) == nr,
		      "A2: the overflow counts its tokens");
	}
}

const struct count_scheme count_paygo = {
	.name = "paygo",
	.counts = true,
	.init = count_paygo_init,
	.fini = count_paygo_fini,
	.ref = count_paygo_ref,
	.unref = count_paygo_unref,
	.query = count_paygo_query,
	.freeze = count_paygo_freeze,
	.thaw = count_paygo_thaw,
	.sum = count_paygo_sum,
	.cost = count_paygo_cost,
	.check = count_paygo_check,
};
