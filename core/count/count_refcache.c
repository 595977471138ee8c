/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * refcache: a small hash of unsettled differences on each CPU, settled once an epoch.
 * Source: Clements et al., "RadixVM: Scalable Address Spaces for Multithreaded
 * Applications" (EuroSys 2013), s.3.1.
 *
 * Idea. A reader adds and subtracts in the slot of the CPU that it runs on. A slot that
 * another object needs, and every slot once an epoch, is flushed into the object's global
 * count. That may be 0 by chance while references are held, because some differences are
 * still in slots. But suppose that a watch was set on the object and two epochs have passed
 * in which nobody took a reference. If the global count is 0 then, nobody has one.
 *
 * Words
 *   slot     of a CPU: object (32 bits) and difference (32 bits, signed). Only that CPU, by
 *            host_percpu_cas().
 *   global   of an object: count in the lower half, and an operation more in the upper half
 *            for each change. Any thread that flushes, by atomic add.
 *   gate     of an object (core/count/count_gate.h); WATCHED is what RadixVM calls dying.
 *   stamp    of an object: which watch (mark of the gate) was seen in which epoch. Its
 *            freezer, one at a time.
 *   epoch    one. By cas, when all CPUs have ticked in it.
 *   ticked   one per CPU: that CPU's slots were empty once in the epoch before this one.
 *            The thread that ticks for that CPU, one at a time.
 *
 *            freeze                 freeze, two epochs later, global 0
 *      LIVE -------> WATCHED, stamp ----------------------------------> FROZEN
 *       ^                  | a ref                                         |
 *       |<-----------------'                                               |
 *       '------------------------------- thaw -----------------------------'
 *
 * Invariants
 * E1 global + all slots >= references held (and readers between count and look, and
 *    differences that are being flushed); equal when nothing moves. So a flush adds a
 *    positive difference to global before the commit that empties its slot. It takes that
 *    back when the commit fails. It adds a negative difference afterwards.
 * E2 ticked says e + 1: each slot of that CPU was found empty once, or was emptied. That
 *    was after the epoch had become e, and after a heavy fence.
 * E3 A stamp is an epoch that was read after the watch had been set. Two epochs later each
 *    CPU has flushed after the watch was set, whatever it had done before in that epoch.
 * E4 A reader that finds a watch takes it away (count_gate_pass()). So a reference that is
 *    held while the watch stands was counted and looked at before it was set. The flushes
 *    of two epochs have brought its addition into global. Its subtraction may be there or
 *    not. Global 0 says that all subtractions are there. RadixVM has a dirty bit for
 *    references that come about without a look; here there are none.
 * E5 Query, without epochs: global, all slots, global again. If global has not changed, no
 *    difference was flushed in between, so the query saw none twice, in slot and global.
 *
 * Otherwise G1 and G3 of core/count/count_gate.h.
 *
 *       reader                   flush of CPU 0            freezer
 *       slot 0: +1
 *       sees LIVE: has it
 *                                tick: epoch e is over     (first zero: watch, stamp)
 *                                slot 0: global 0 -> 1     (two epochs: global is 1)
 *
 * Progress: ref and unref are lock-free. A retry means that the task was moved, or that
 * another task of this CPU used the slot. freeze is one look at global, but without ticks
 * on every CPU none succeeds. Locks: none.
 * Not here: the review queue. RadixVM frees what its queue finds unused. Here callers ask
 * for an object, so their list of candidates is the queue. The first freeze sets the watch
 * (first zero), a later one reviews. A query cannot rely on a stamp alone, because an object
 * that nobody tried to freeze has none (E5).
 * Worse than atomic: two epochs' delay; collisions, where each ref is a flush.
 */
#include "core/count/count_gate.h"

/* A core's hash has 4096 entries (LODIC s.5.2.1). */
#define COUNT_REFCACHE_SLOTS 4096u
/* Ours: only tests have so few objects. All of them share one slot, to meet collisions. */
#define COUNT_REFCACHE_FEW 16u
/* E3. */
#define COUNT_REFCACHE_EPOCHS 2u

/* An object's line. */
#define WORD_GATE 0u
#define WORD_GLOBAL 1u
#define WORD_STAMP 2u

struct refcache {
	u64 *objects; /* a line per object */
	u64 *slots;   /* per CPU */
	u64 *epochs;  /* a line each: the epoch, then ticked of each CPU */
	u32 nr_cpus;
	u32 nr_slots;     /* per CPU */
	u32 stride_words; /* from one CPU's slots to the next one's */
};

static u64 refcache_slot(u32 object, u32 n)
{
	return (u64)object << 32 | n;
}

static u32 refcache_object(u64 slot)
{
	return (u32)(slot >> 32);
}

static u32 refcache_difference(u64 slot)
{
	return (u32)slot;
}

/* Differences are signed, modulo 2^32. */
static bool refcache_is_positive(u32 difference)
{
	return difference != 0 && difference < (u32)1 << 31;
}

static u64 *count_refcache_word(struct count *c, u32 object, u32 word)
{
	struct refcache *s = c->state;

	return &s->objects[(u64)object * COUNT_LINE_WORDS + word];
}

static u64 *count_refcache_slot(struct count *c, u32 cpu, u32 i)
{
	struct refcache *s = c->state;

	return &s->slots[(u64)cpu * s->stride_words + i];
}

static u64 *count_refcache_epoch(struct count *c)
{
	struct refcache *s = c->state;

	return s->epochs;
}

static u64 *count_refcache_ticked(struct count *c, u32 cpu)
{
	struct refcache *s = c->state;

	return &s->epochs[((u64)cpu + 1) * COUNT_LINE_WORDS];
}

static u64 count_refcache_objects_bytes(const struct count *c)
{
	return (u64)c->nr_objects * COUNT_LINE_BYTES;
}

static u64 count_refcache_slots_bytes(const struct refcache *s)
{
	return (u64)s->nr_cpus * s->stride_words * sizeof(u64);
}

static u64 count_refcache_epochs_bytes(const struct refcache *s)
{
	return ((u64)s->nr_cpus + 1) * COUNT_LINE_BYTES;
}

static void count_refcache_fini(struct count *c)
{
	struct refcache *s = c->state;

	if (s->objects)
		host_free(s->objects, count_refcache_objects_bytes(c));
	if (s->slots)
		host_free(s->slots, count_refcache_slots_bytes(s));
	if (s->epochs)
		host_free(s->epochs, count_refcache_epochs_bytes(s));
	host_free(s, sizeof(*s));
}

static int count_refcache_init(struct count *c)
{
	struct refcache *s = host_alloc(sizeof(*s), COUNT_LINE_BYTES);

	if (!s)
		return -ENOMEM;
	c->state = s;
	s->nr_cpus = host_nr_cpus();
	s->nr_slots = c->nr_objects < COUNT_REFCACHE_FEW ? 1 : COUNT_REFCACHE_SLOTS;
	s->stride_words = count_round_to_line(s->nr_slots);
	s->objects = host_alloc(count_refcache_objects_bytes(c), COUNT_LINE_BYTES);
	s->slots = host_alloc(count_refcache_slots_bytes(s), COUNT_LINE_BYTES);
	s->epochs = host_alloc(count_refcache_epochs_bytes(s), COUNT_LINE_BYTES);
	if (s->objects && s->slots && s->epochs)
		return 0;
	count_refcache_fini(c);
	c->state = NULL;
	return -ENOMEM;
}

/* Adds one operation, and the difference. The lower half may carry into the upper one or
 * borrow from it. For fewer than 2^31 changes, a change always shows in the whole word. */
static void count_refcache_settle(struct count *c, u32 object, u32 difference)
{
	u64 one = (u64)1 << 32;
	u64 negative = difference >> 31;

	host_fetch_add(count_refcache_word(c, object, WORD_GLOBAL),
	               one + difference - negative * one);
}

/* Replaces a slot's word by next and flushes what was in it (E1). false: the task is not on
 * cpu, or the slot holds something else, and nothing has changed. */
static bool count_refcache_replace(struct count *c, u32 cpu, u64 *slot, u64 old,
                                   u64 next)
{
	u32 object = refcache_object(old);
	u32 difference = refcache_difference(old);
	bool first = refcache_is_positive(difference);
	bool done;

	if (first)
		count_refcache_settle(c, object, difference);
	done = host_percpu_cas(slot, cpu, old, next);
	if (first && !done)
		count_refcache_settle(c, object, -difference);
	if (!first && done && difference != 0)
		count_refcache_settle(c, object, difference);
	return done;
}

/* Adds 1 or -1 to object's difference on this CPU. */
static void count_refcache_add(struct count *c, u32 object, u32 difference)
{
	struct refcache *s = c->state;
	u32 i = count_hash(object, s->nr_slots);
	u64 v, next;
	u64 *slot;
	u32 cpu;
	bool done;

	do {
		cpu = host_cpu();
		slot = count_refcache_slot(c, cpu, i);
		v = host_load_relaxed(slot); /* the commit fails if it is old */
		if (likely(refcache_object(v) == object)) {
			next = refcache_slot(object, (u32)v + difference);
			done = host_percpu_cas(slot, cpu, v, next);
		} else {
			next = refcache_slot(object, difference);
			done = count_refcache_replace(c, cpu, slot, v, next);
		}
	} while (unlikely(!done));
}

static bool count_refcache_ref(struct count *c, u32 object, u32 user, u64 *ret_token)
{
	(void)user;
	count_refcache_add(c, object, 1);
	if (likely(count_gate_pass(
		    count_refcache_word(c, object, WORD_GATE)))) { /* E4 */
		*ret_token = 0;
		return true;
	}
	count_refcache_add(c, object, -1u);
	return false;
}

static void count_refcache_unref(struct count *c, u32 object, u32 user, u64 token)
{
	(void)user;
	(void)token;
	host_fence_release(); /* G3 */
	count_refcache_add(c, object, -1u);
}

static u64 count_refcache_global(struct count *c, u32 object)
{
	return host_load_acquire(count_refcache_word(c, object, WORD_GLOBAL)); /* G3 */
}

/* Was the watch that the gate shows stamped two epochs ago? */
static bool count_refcache_reviewed(struct count *c, u32 object, u64 gate)
{
	u64 stamp = host_load_acquire(count_refcache_word(c, object, WORD_STAMP));
	u32 now = (u32)host_load_acquire(count_refcache_epoch(c));

	return count_gate_state(gate) == COUNT_GATE_WATCHED &&
	       count_gate_mark(stamp) == gate &&
	       now - (u32)stamp >= COUNT_REFCACHE_EPOCHS;
}

/* Global and slots together (E5). A look that was disturbed answers that it is used. */
static bool count_refcache_used(struct count *c, u32 object)
{
	struct refcache *s = c->state;
	u32 i = count_hash(object, s->nr_slots);
	u64 global = count_refcache_global(c, object);
	u32 sum = (u32)global;
	u32 cpu;

	for (cpu = 0; cpu < s->nr_cpus; cpu++) {
		u64 v = host_load_acquire(count_refcache_slot(c, cpu, i)); /* G3 */

		if (refcache_object(v) == object)
			sum += (u32)v;
	}
	return sum != 0 || count_refcache_global(c, object) != global;
}

static bool count_refcache_query(struct count *c, u32 object)
{
	u64 *gate = count_refcache_word(c, object, WORD_GATE);
	u64 v = host_load_acquire(gate);

	/* After a freeze that came too early, one look at global may do. */
	if (count_refcache_reviewed(c, object, v) &&
	    (u32)count_refcache_global(c, object) == 0 && count_gate_unpassed(gate, v))
		return false;
	return count_gate_query(c, object, gate, count_refcache_used);
}

static bool count_refcache_freeze(struct count *c, u32 object)
{
	u64 *gate = count_refcache_word(c, object, WORD_GATE);
	u64 *stamp = count_refcache_word(c, object, WORD_STAMP);
	u64 v = host_load_acquire(gate);

	if (count_gate_state(v) == COUNT_GATE_FROZEN)
		return false;
	/* With more than 0, the object is used, or global falls within an epoch. */
	if (refcache_is_positive((u32)count_refcache_global(c, object)))
		return false;
	v = count_gate_watch(gate);
	if (count_gate_mark(host_load_relaxed(stamp)) != v) {
		/* First zero. The epoch is read after the watch is set (E3). */
		u32 now = (u32)host_load_acquire(count_refcache_epoch(c));

		host_store_release(stamp, v | now);
		return false;
	}
	return count_refcache_reviewed(c, object, v) &&
	       (u32)count_refcache_global(c, object) == 0 &&
	       host_cas(gate, v, count_gate_with(v, COUNT_GATE_FROZEN));
}

static void count_refcache_thaw(struct count *c, u32 object)
{
	count_gate_thaw(count_refcache_word(c, object, WORD_GATE));
}

static bool count_refcache_empty(struct count *c, u32 cpu, u64 *slot, u64 v)
{
	return count_refcache_replace(c, cpu, slot, v,
	                              refcache_slot(refcache_object(v), 0));
}

/* Empties cpu's slots, or finds them empty. false: the caller is not on cpu, and one of the
 * slots is not empty. */
static bool count_refcache_flush(struct count *c, u32 cpu)
{
	struct refcache *s = c->state;
	u32 i;

	/* Drains the store buffer of cpu (E2, G1). */
	host_fence_heavy();
	for (i = 0; i < s->nr_slots; i++) {
		u64 *slot = count_refcache_slot(c, cpu, i);
		u64 v = host_load_acquire(slot);

		/* Retried when another task of this CPU used the slot. */
		while (refcache_difference(v) != 0 &&
		       !count_refcache_empty(c, cpu, slot, v)) {
			if (host_cpu() != cpu)
				return false;
			v = host_load_acquire(slot);
		}
	}
	return true;
}

static void count_refcache_tick(struct count *c, u32 cpu)
{
	struct refcache *s = c->state;
	u64 *epoch = count_refcache_epoch(c);
	u64 now = host_load_acquire(epoch);
	u32 i;

	if (!count_refcache_flush(c, cpu))
		return;
	/* Release: a thread that sees it, and the next epoch, sees what was flushed. */
	host_store_release(count_refcache_ticked(c, cpu), now + 1);
	for (i = 0; i < s->nr_cpus; i++)
		if (host_load_acquire(count_refcache_ticked(c, i)) <= now)
			return;
	host_cas(epoch, now, now + 1); /* if it fails, another thread has done it */
}

static u64 count_refcache_sum(struct count *c, u32 object)
{
	struct refcache *s = c->state;
	u32 i = count_hash(object, s->nr_slots);
	u32 sum = (u32)count_refcache_global(c, object);
	u32 cpu;

	for (cpu = 0; cpu < s->nr_cpus; cpu++) {
		u64 v = host_load_relaxed(count_refcache_slot(c, cpu, i));

		if (refcache_object(v) == object)
			sum += (u32)v;
	}
	return sum;
}

static void count_refcache_cost(const struct count *c, struct count_cost *ret_cost)
{
	const struct refcache *s = c->state;

	*ret_cost = (struct count_cost){
		.object_bytes = COUNT_LINE_BYTES,
		.cpu_bytes = s->stride_words * sizeof(u64) + COUNT_LINE_BYTES,
	};
}

static void count_refcache_check(struct count *c, const struct count_held *held,
                                 u32 nr_held)
{
	struct refcache *s = c->state;
	u64 now = host_load_relaxed(count_refcache_epoch(c));
	u32 object, cpu, i;

	for (object = 0; object < c->nr_objects; object++) {
		u32 nr = count_held_on(held, nr_held, object);

		count_gate_check(count_refcache_word(c, object, WORD_GATE), nr);
		CHECK(count_refcache_sum(c, object) == nr,
		      "E1: global and slots count what is held");
	}
	for (cpu = 0; cpu < s->nr_cpus; cpu++) {
		CHECK(host_load_relaxed(count_refcache_ticked(c, cpu)) <= now + 1,
		      "E2: no CPU is ahead of its epoch");
		for (i = 0; i < s->nr_slots; i++) {
			u64 v = host_load_relaxed(count_refcache_slot(c, cpu, i));

			object = refcache_object(v);
			CHECK(object < c->nr_objects &&
			              (v == 0 || count_hash(object, s->nr_slots) == i),
			      "a slot's object hashes to it");
		}
	}
}

const struct count_scheme count_refcache = {
	.name = "refcache",
	.counts = true,
	.init = count_refcache_init,
	.fini = count_refcache_fini,
	.ref = count_refcache_ref,
	.unref = count_refcache_unref,
	.query = count_refcache_query,
	.freeze = count_refcache_freeze,
	.thaw = count_refcache_thaw,
	.sum = count_refcache_sum,
	.cost = count_refcache_cost,
	.check = count_refcache_check,
	.tick = count_refcache_tick,
};
