/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * refcache_sv6: RefCache as the papers ran it, with a lock in each object (ADR-0034).
 * Source: Clements et al., "RadixVM: Scalable Address Spaces for Multithreaded
 * Applications" (EuroSys 2013), s.3.1. PAYGO's authors took it from sv6, RadixVM's kernel
 * (PAYGO s.4), and say more of it in PAYGO s.2 and s.6.2.3; see also LODIC s.5.2.1. It is a
 * rival for the checker and the timing model. core/count/count_refcache.c is this tree's own.
 *
 * Idea. A reader adds and subtracts in the slot of its CPU. A slot that another object needs
 * is evicted, and every slot is once an epoch. An eviction takes the object's lock, also when
 * the slot's difference is 0. It adds the difference to the object's global count. An object
 * whose global count is 0 then goes to the review queue of that CPU. Two epochs later the
 * CPU's tick reviews it, with all others of its queue that are due. If the global count is 0
 * and no reference came in between, that is a true zero, and a freeze needs one cas.
 *
 * Words
 *   slot     of a CPU: object + 1 (32 bits) and difference (32 bits, signed), or 0: empty.
 *            Only that CPU, by host_percpu_cas().
 *   gate     of an object (core/count/count_gate.h). WATCHED is what RadixVM calls dying.
 *   lock     of an object. Global, watch, review and zero have one writer, who has it.
 *   global   signed, modulo 2^32.
 *   watch    the mark of the gate that the object was queued under; and ZERO, when a true zero
 *            was found under it.
 *   review   of an object on a queue: the epoch in which its watch was set, plus 1; else 0.
 *   next     of an object on a queue: the next one plus 1, or 0. Under the queue's lock.
 *   queue    of a CPU: its lock, the first object plus 1, the last one plus 1.
 *   epoch    one. By cas, when all CPUs have ticked in it.
 *   ticked   one per CPU: that CPU's slots were empty once in the epoch before this one.
 *            The thread that ticks for that CPU, one at a time.
 *
 *           global is 0             two epochs later, still 0         freeze
 *      LIVE ----------> WATCHED, queued ----------> WATCHED, ZERO ------------> FROZEN
 *       ^                  | a ref                     | a ref                    |
 *       |<-----------------'---------------------------'                          |
 *       '-------------------------------- thaw -----------------------------------'
 *
 * Invariants
 * RC1 global + all slots = references held, and readers between count and look. A difference
 *     leaves its slot and enters global under the object's lock. So a thread that has the lock
 *     sees it in one of the two.
 * RC2 ticked says e + 1: each slot of that CPU was found empty once, or was emptied. That
 *     was after the epoch had become e, and after a heavy fence.
 * RC3 The epoch in review was read after the watch had been set. Two epochs later each CPU
 *     has evicted all of its slots after that.
 * RC4 A reader that finds a watch takes it away (count_gate_pass()). So a reference that is
 *     held while a watch stands was counted before the watch was set. After two epochs its
 *     addition is in global. Then a global of 0 says that nobody has one.
 * RC5 A true zero holds for the watch under which it was found, and for no later one.
 *
 * Otherwise G1 to G3 of core/count/count_gate.h.
 *
 * Order: a caller may take a queue's lock while it has an object's, and never the other way
 * round. Nobody has two objects' locks.
 * Progress: a ref or unref that must evict waits for the object's lock, as do query, freeze and
 * tick. Without ticks on every CPU no freeze succeeds.
 * Not here: RadixVM's dirty bit, which an eviction sets while the object is queued. Its review
 * then begins anew. Here each reference takes the watch away, and the next freeze or review
 * sets another one. Nor does a review free what it finds unused; callers ask. A freeze
 * may look by itself, so that three epochs are enough (count_tick()).
 * Worse than refcache: each eviction writes the object's line, so that with many blocks
 * readers contend for locks. Worse than atomic: two epochs' delay, too.
 */
#include "core/count/count_gate.h"

/* A core's hash has 4096 entries (LODIC s.5.2.1). */
#define COUNT_REFCACHE_SV6_SLOTS 4096u
/* Ours: only tests have so few objects. All of them share one slot, to meet collisions. */
#define COUNT_REFCACHE_SV6_FEW 16u
/* RC3. */
#define COUNT_REFCACHE_SV6_EPOCHS 2u

/* An object's line. */
#define WORD_GATE 0u
#define WORD_LOCK 1u
#define WORD_GLOBAL 2u
#define WORD_WATCH 3u
#define WORD_REVIEW 4u
#define WORD_NEXT 5u

/* In a watch's lower half, where a mark has nothing. */
#define ZERO ((u64)1)

/* A CPU's line. */
#define CPU_TICKED 0u
#define CPU_LOCK 1u
#define CPU_FIRST 2u
#define CPU_LAST 3u

struct refcache_sv6 {
	u64 *objects; /* a line per object */
	u64 *slots;   /* per CPU */
	u64 *cpus;    /* the epoch's line, then a line per CPU */
	u32 nr_cpus;
	u32 nr_slots;     /* per CPU */
	u32 stride_words; /* from one CPU's slots to the next one's */
};

static u64 refcache_sv6_slot(u32 object, u32 n)
{
	return ((u64)object + 1) << 32 | n;
}

/* Only of a slot that is not empty. */
static u32 refcache_sv6_object(u64 slot)
{
	return (u32)(slot >> 32) - 1;
}

static u32 refcache_sv6_difference(u64 slot)
{
	return (u32)slot;
}

/* Have two epochs passed by now (RC3)? */
static bool refcache_sv6_is_due(u64 review, u64 now)
{
	return now + 1 - review >= COUNT_REFCACHE_SV6_EPOCHS;
}

/* Whatever the objects are, they fall on places as if by chance. So a few hundred in use meet
 * the first collisions (PAYGO s.2). count_hash() would keep neighbours apart, but the frames
 * of a file are not neighbours. */
static u32 refcache_sv6_place(u32 object, u32 nr)
{
	u64 mixed = object * 0x9e3779b97f4a7c15u;

	mixed = (mixed ^ mixed >> 32) * 0x9e3779b97f4a7c15u;
	return (u32)((mixed >> 32) * nr >> 32);
}

static u64 *count_refcache_sv6_word(struct count *c, u32 object, u32 word)
{
	struct refcache_sv6 *s = c->state;

	return &s->objects[(u64)object * COUNT_LINE_WORDS + word];
}

static u64 *count_refcache_sv6_slot(struct count *c, u32 cpu, u32 i)
{
	struct refcache_sv6 *s = c->state;

	return &s->slots[(u64)cpu * s->stride_words + i];
}

static u64 *count_refcache_sv6_epoch(struct count *c)
{
	struct refcache_sv6 *s = c->state;

	return s->cpus;
}

static u64 *count_refcache_sv6_cpu(struct count *c, u32 cpu, u32 word)
{
	struct refcache_sv6 *s = c->state;

	return &s->cpus[((u64)cpu + 1) * COUNT_LINE_WORDS + word];
}

static u64 count_refcache_sv6_objects_bytes(const struct count *c)
{
	return (u64)c->nr_objects * COUNT_LINE_BYTES;
}

static u64 count_refcache_sv6_slots_bytes(const struct refcache_sv6 *s)
{
	return (u64)s->nr_cpus * s->stride_words * sizeof(u64);
}

static u64 count_refcache_sv6_cpus_bytes(const struct refcache_sv6 *s)
{
	return ((u64)s->nr_cpus + 1) * COUNT_LINE_BYTES;
}

static void count_refcache_sv6_fini(struct count *c)
{
	struct refcache_sv6 *s = c->state;

	if (s->objects)
		host_free(s->objects, count_refcache_sv6_objects_bytes(c));
	if (s->slots)
		host_free(s->slots, count_refcache_sv6_slots_bytes(s));
	if (s->cpus)
		host_free(s->cpus, count_refcache_sv6_cpus_bytes(s));
	host_free(s, sizeof(*s));
}

static int count_refcache_sv6_init(struct count *c)
{
	struct refcache_sv6 *s = host_alloc(sizeof(*s), COUNT_LINE_BYTES);

	if (!s)
		return -ENOMEM;
	c->state = s;
	s->nr_cpus = host_nr_cpus();
	s->nr_slots =
		c->nr_objects < COUNT_REFCACHE_SV6_FEW ? 1 : COUNT_REFCACHE_SV6_SLOTS;
	s->stride_words = count_round_to_line(s->nr_slots);
	s->objects = host_alloc(count_refcache_sv6_objects_bytes(c), COUNT_LINE_BYTES);
	s->slots = host_alloc(count_refcache_sv6_slots_bytes(s), COUNT_LINE_BYTES);
	s->cpus = host_alloc(count_refcache_sv6_cpus_bytes(s), COUNT_LINE_BYTES);
	if (s->objects && s->slots && s->cpus)
		return 0;
	count_refcache_sv6_fini(c);
	c->state = NULL;
	return -ENOMEM;
}

/* Appends object to the queue of the CPU that runs this. */
static void count_refcache_sv6_push(struct count *c, u32 object)
{
	u32 cpu = host_cpu();
	u64 *lock = count_refcache_sv6_cpu(c, cpu, CPU_LOCK);
	u64 *last = count_refcache_sv6_cpu(c, cpu, CPU_LAST);
	u64 before;

	host_lock(lock);
	before = host_load_relaxed(last);
	host_store_relaxed(count_refcache_sv6_word(c, object, WORD_NEXT), 0);
	if (before)
		host_store_relaxed(count_refcache_sv6_word(c, (u32)before - 1,
		                                           WORD_NEXT),
		                   (u64)object + 1);
	else
		host_store_relaxed(count_refcache_sv6_cpu(c, cpu, CPU_FIRST),
		                   (u64)object + 1);
	host_store_relaxed(last, (u64)object + 1);
	host_unlock(lock);
}

/* Takes the first object off cpu's queue, if it is due in epoch now. Its review may change
 * meanwhile, under the object's lock. So the caller looks again there. */
static bool count_refcache_sv6_pop(struct count *c, u32 cpu, u64 now, u32 *ret_object)
{
	u64 *lock = count_refcache_sv6_cpu(c, cpu, CPU_LOCK);
	u64 *first = count_refcache_sv6_cpu(c, cpu, CPU_FIRST);
	u64 v, next;
	u32 object;
	bool due;

	host_lock(lock);
	v = host_load_relaxed(first);
	object = (u32)v - 1;
	due = v != 0 && refcache_sv6_is_due(host_load_relaxed(count_refcache_sv6_word(
						    c, object, WORD_REVIEW)),
	                                    now);
	if (due) {
		next = host_load_relaxed(count_refcache_sv6_word(c, object, WORD_NEXT));
		host_store_relaxed(first, next);
		if (!next)
			host_store_relaxed(count_refcache_sv6_cpu(c, cpu, CPU_LAST), 0);
		*ret_object = object;
	}
	host_unlock(lock);
	return due;
}

/* Does the object's watch stand, as its gate says? Relaxed: if the gate is old, a freeze's cas
 * fails. The caller has the object's lock, here and in the next two functions. */
static bool count_refcache_sv6_stands(struct count *c, u32 object)
{
	u64 gate = host_load_relaxed(count_refcache_sv6_word(c, object, WORD_GATE));
	u64 watch = host_load_relaxed(count_refcache_sv6_word(c, object, WORD_WATCH));

	return count_gate_mark(gate) == (watch & ~ZERO);
}

/* Global is 0: sees to a watch, and to a review. */
static void count_refcache_sv6_queue(struct count *c, u32 object)
{
	u64 *review = count_refcache_sv6_word(c, object, WORD_REVIEW);
	u64 *watch = count_refcache_sv6_word(c, object, WORD_WATCH);
	u64 *epoch = count_refcache_sv6_epoch(c);
	bool queued = host_load_relaxed(review) != 0;
	u64 now = 0;

	if (count_refcache_sv6_stands(c, object) &&
	    (queued || host_load_relaxed(watch) & ZERO))
		return;
	host_store_relaxed(
		watch, count_gate_watch(count_refcache_sv6_word(c, object, WORD_GATE)));
	now = host_load_acquire(epoch); /* RC3 */
	host_store_relaxed(review, now + 1);
	if (!queued)
		count_refcache_sv6_push(c, object);
}

/* Global is 0, and the object was queued as review says: is that a true zero? */
static bool count_refcache_sv6_settle(struct count *c, u32 object, u64 review)
{
	u64 *watch = count_refcache_sv6_word(c, object, WORD_WATCH);
	u64 now = host_load_acquire(count_refcache_sv6_epoch(c));

	if (review == 0 || !refcache_sv6_is_due(review, now) ||
	    !count_refcache_sv6_stands(c, object))
		return false;
	host_store_release(watch, host_load_relaxed(watch) | ZERO); /* RC4 */
	return true;
}

/* Replaces a slot's word by next. What was in it, a difference of 0 included, goes to its
 * object (RC1). false: the task is not on cpu, or the slot holds something else, and nothing
 * has changed. */
static bool count_refcache_sv6_evict(struct count *c, u32 cpu, u64 *slot, u64 old,
                                     u64 next)
{
	u32 object = refcache_sv6_object(old);
	u64 *lock = count_refcache_sv6_word(c, object, WORD_LOCK);
	u64 *global = count_refcache_sv6_word(c, object, WORD_GLOBAL);
	u64 *review = count_refcache_sv6_word(c, object, WORD_REVIEW);
	bool done;
	u32 sum;

	host_lock(lock);
	done = host_percpu_cas(slot, cpu, old, next);
	if (done) {
		sum = (u32)host_load_relaxed(global) + refcache_sv6_difference(old);
		host_store_relaxed(global, sum);
		/* As in RadixVM, it stays on a queue with the watch that it has, although
		 * a reference may have come. */
		if (sum == 0 && host_load_relaxed(review) == 0)
			count_refcache_sv6_queue(c, object);
	}
	host_unlock(lock);
	return done;
}

/* Adds 1 or -1 to object's difference on this CPU. */
static void count_refcache_sv6_add(struct count *c, u32 object, u32 difference)
{
	struct refcache_sv6 *s = c->state;
	u32 i = refcache_sv6_place(object, s->nr_slots);
	u64 v, next;
	u64 *slot;
	u32 cpu;
	bool done;

	/* Retried when the task was moved, or another task of this CPU used the slot. */
	do {
		cpu = host_cpu();
		slot = count_refcache_sv6_slot(c, cpu, i);
		v = host_load_relaxed(slot); /* the commit fails if it is old */
		next = refcache_sv6_slot(object, difference);
		if (likely(v != 0 && refcache_sv6_object(v) == object))
			next = refcache_sv6_slot(object, (u32)v + difference);
		if (likely(v == 0 || refcache_sv6_object(v) == object))
			done = host_percpu_cas(slot, cpu, v, next);
		else
			done = count_refcache_sv6_evict(c, cpu, slot, v, next);
	} while (unlikely(!done));
}

static bool count_refcache_sv6_ref(struct count *c, u32 object, u32 user,
                                   u64 *ret_token)
{
	(void)user;
	count_refcache_sv6_add(c, object, 1);
	if (likely(count_gate_pass(
		    count_refcache_sv6_word(c, object, WORD_GATE)))) { /* RC4 */
		*ret_token = 0;
		return true;
	}
	count_refcache_sv6_add(c, object, -1u);
	return false;
}

static void count_refcache_sv6_unref(struct count *c, u32 object, u32 user, u64 token)
{
	(void)user;
	(void)token;
	host_fence_release(); /* G3 */
	count_refcache_sv6_add(c, object, -1u);
}

/* Has a review found a true zero under the watch that the gate shows (RC5)? Acquire, partner:
 * count_refcache_sv6_review_one(). */
static bool count_refcache_sv6_is_zero(struct count *c, u32 object, u64 gate)
{
	u64 watch = host_load_acquire(count_refcache_sv6_word(c, object, WORD_WATCH));

	return count_gate_state(gate) == COUNT_GATE_WATCHED &&
	       watch == (count_gate_mark(gate) | ZERO);
}

/* Global and slots together; the lock keeps evictions away (RC1). */
static u64 count_refcache_sv6_total(struct count *c, u32 object)
{
	struct refcache_sv6 *s = c->state;
	u32 i = refcache_sv6_place(object, s->nr_slots);
	u64 *lock = count_refcache_sv6_word(c, object, WORD_LOCK);
	u32 sum, cpu;

	host_lock(lock);
	sum = (u32)host_load_relaxed(count_refcache_sv6_word(c, object, WORD_GLOBAL));
	for (cpu = 0; cpu < s->nr_cpus; cpu++) {
		/* Relaxed: the heavy fence before it shows what is needed (G1), and
		 * nothing hangs on what holders wrote. */
		u64 v = host_load_relaxed(count_refcache_sv6_slot(c, cpu, i));

		if (v != 0 && refcache_sv6_object(v) == object)
			sum += refcache_sv6_difference(v);
	}
	host_unlock(lock);
	return sum;
}

static bool count_refcache_sv6_used(struct count *c, u32 object)
{
	return count_refcache_sv6_total(c, object) != 0;
}

static bool count_refcache_sv6_query(struct count *c, u32 object)
{
	u64 *gate = count_refcache_sv6_word(c, object, WORD_GATE);

	/* The watch stood when the gate was looked at: nobody had a reference then. */
	if (count_refcache_sv6_is_zero(c, object, host_load_acquire(gate)))
		return false;
	return count_gate_query(c, object, gate, count_refcache_sv6_used);
}

static bool count_refcache_sv6_freeze(struct count *c, u32 object)
{
	u64 *gate = count_refcache_sv6_word(c, object, WORD_GATE);
	u64 *lock = count_refcache_sv6_word(c, object, WORD_LOCK);
	u64 *review = count_refcache_sv6_word(c, object, WORD_REVIEW);
	u64 v = host_load_acquire(gate);

	if (count_gate_state(v) == COUNT_GATE_FROZEN)
		return false;
	if (!count_refcache_sv6_is_zero(c, object, v)) {
		/* Perhaps nobody has evicted it since it was thawed, or a reference came
		 * after it was queued. Then its two epochs begin now. Or they are over, and
		 * its turn in the queue has not come. */
		host_lock(lock);
		if (host_load_relaxed(
			    count_refcache_sv6_word(c, object, WORD_GLOBAL)) == 0 &&
		    !count_refcache_sv6_settle(c, object, host_load_relaxed(review)))
			count_refcache_sv6_queue(c, object);
		host_unlock(lock);
	}
	return count_refcache_sv6_is_zero(c, object, v) &&
	       host_cas(gate, v, count_gate_with(v, COUNT_GATE_FROZEN));
}

static void count_refcache_sv6_thaw(struct count *c, u32 object)
{
	count_gate_thaw(count_refcache_sv6_word(c, object, WORD_GATE));
}

/* Evicts all slots of cpu. false: the caller is not on cpu, and one of the slots has a
 * difference. */
static bool count_refcache_sv6_flush(struct count *c, u32 cpu)
{
	struct refcache_sv6 *s = c->state;
	u32 i;

	/* Drains the store buffer of cpu (RC2, G1). */
	host_fence_heavy();
	for (i = 0; i < s->nr_slots; i++) {
		u64 *slot = count_refcache_sv6_slot(c, cpu, i);
		u64 v = host_load_acquire(slot);

		/* Retried when another task of this CPU used the slot. */
		while (v != 0 && !count_refcache_sv6_evict(c, cpu, slot, v, 0)) {
			bool here = host_cpu() == cpu;

			if (!here && refcache_sv6_difference(v) != 0)
				return false;
			v = here ? host_load_acquire(slot) : 0;
		}
	}
	return true;
}

/* The object has come off a queue. */
static void count_refcache_sv6_review_one(struct count *c, u32 object)
{
	u64 *lock = count_refcache_sv6_word(c, object, WORD_LOCK);
	u64 *review = count_refcache_sv6_word(c, object, WORD_REVIEW);
	u64 *gate = count_refcache_sv6_word(c, object, WORD_GATE);
	u64 before;

	host_lock(lock);
	before = host_load_relaxed(review);
	host_store_relaxed(review, 0);
	if (host_load_relaxed(count_refcache_sv6_word(c, object, WORD_GLOBAL)) == 0 &&
	    !count_refcache_sv6_settle(c, object, before) &&
	    count_gate_state(host_load_relaxed(gate)) != COUNT_GATE_FROZEN)
		count_refcache_sv6_queue(c, object);
	host_unlock(lock);
}

static void count_refcache_sv6_tick(struct count *c, u32 cpu)
{
	struct refcache_sv6 *s = c->state;
	u64 *epoch = count_refcache_sv6_epoch(c);
	u64 now = host_load_acquire(epoch);
	bool over = count_refcache_sv6_flush(c, cpu);
	u32 object, i;

	if (over)
		/* Release: a thread that sees it, and the next epoch, sees what was
		 * evicted. */
		host_store_release(count_refcache_sv6_cpu(c, cpu, CPU_TICKED), now + 1);
	for (i = 0; over && i < s->nr_cpus; i++)
		over = host_load_acquire(count_refcache_sv6_cpu(c, i, CPU_TICKED)) >
		       now;
	if (over)
		host_cas(epoch, now, now + 1); /* if it fails, another thread has */
	now = host_load_acquire(epoch);
	/* What a review queues again is not due in this epoch. */
	for (i = 0; i < c->nr_objects && count_refcache_sv6_pop(c, cpu, now, &object);
	     i++)
		count_refcache_sv6_review_one(c, object);
}

static void count_refcache_sv6_cost(const struct count *c, struct count_cost *ret_cost)
{
	const struct refcache_sv6 *s = c->state;

	*ret_cost = (struct count_cost){
		.object_bytes = COUNT_LINE_BYTES,
		.cpu_bytes = s->stride_words * sizeof(u64) + COUNT_LINE_BYTES,
	};
}

/* How many objects are on cpu's queue; more than there are: it has a ring. */
static u32 count_refcache_sv6_queued(struct count *c, u32 cpu)
{
	u64 v = host_load_relaxed(count_refcache_sv6_cpu(c, cpu, CPU_FIRST));
	u32 nr;

	for (nr = 0; v != 0 && nr <= c->nr_objects; nr++)
		v = host_load_relaxed(
			count_refcache_sv6_word(c, (u32)v - 1, WORD_NEXT));
	return nr;
}

static void count_refcache_sv6_check(struct count *c, const struct count_held *held,
                                     u32 nr_held)
{
	struct refcache_sv6 *s = c->state;
	u64 now = host_load_relaxed(count_refcache_sv6_epoch(c));
	u32 object, cpu, i, nr_queued = 0;

	for (object = 0; object < c->nr_objects; object++) {
		u32 nr = count_held_on(held, nr_held, object);

		count_gate_check(count_refcache_sv6_word(c, object, WORD_GATE), nr);
		CHECK(count_refcache_sv6_total(c, object) == nr,
		      "RC1: global and slots count what is held");
		nr_queued += host_load_relaxed(count_refcache_sv6_word(
				     c, object, WORD_REVIEW)) != 0;
	}
	for (cpu = 0; cpu < s->nr_cpus; cpu++) {
		nr_queued -= count_refcache_sv6_queued(c, cpu);
		CHECK(host_load_relaxed(count_refcache_sv6_cpu(c, cpu, CPU_TICKED)) <=
		              now + 1,
		      "RC2: no CPU is ahead of its epoch");
		for (i = 0; i < s->nr_slots; i++) {
			u64 v = host_load_relaxed(count_refcache_sv6_slot(c, cpu, i));

			CHECK(v == 0 || refcache_sv6_place(refcache_sv6_object(v),
			                                   s->nr_slots) == i,
			      "a slot's object hashes to it");
		}
	}
	CHECK(nr_queued == 0, "an object with a review is on one queue");
}

const struct count_scheme count_refcache_sv6 = {
	.name = "refcache_sv6",
	.counts = true,
	.is_rival = true,
	.init = count_refcache_sv6_init,
	.fini = count_refcache_sv6_fini,
	.ref = count_refcache_sv6_ref,
	.unref = count_refcache_sv6_unref,
	.query = count_refcache_sv6_query,
	.freeze = count_refcache_sv6_freeze,
	.thaw = count_refcache_sv6_thaw,
	.sum = count_refcache_sv6_total,
	.cost = count_refcache_sv6_cost,
	.check = count_refcache_sv6_check,
	.tick = count_refcache_sv6_tick,
};
