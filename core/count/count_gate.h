/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The gate of an object whose counts lie in many places. Sloppy, percpu, refcache and paygo
 * count on the reader's CPU, and have this one word per object. It says whether a reader
 * may take a reference. It also lets one caller find out that nobody has any, although that
 * caller must look at the places one after the other. PAYGO has it as a flag (PAYGO s.3.3).
 *
 * Idea. A reader counts first and looks at the gate afterwards. A freezer closes the gate
 * first and looks at the counts afterwards; readers that find the gate closed take their
 * count back and fail. A query sets a watch first and looks at the counts afterwards; the
 * next reader passes, and takes the watch away. Whichever of the two is later sees the
 * other.
 *
 * The word
 *   state     2 bits. The thread that freezes or thaws, one at a time; LIVE <-> WATCHED by
 *             anybody.
 *   version   30 bits. It grows when a watch is set and when the gate is closed, so that
 *             no query takes an old watch for its own.
 *   central   32 bits, for the scheme: sloppy's central count, paygo's overflow. Never
 *             less than 0. Refs by cas, together with the state; otherwise atomic adds.
 *
 *               watch                                  close
 *      LIVE ------------> WATCHED            LIVE, WATCHED --------> CLOSED
 *       ^ ^<----------------'                   ^                     |  |
 *       |      a reader passes                  '---- used -----------'  | unused
 *       |                                                                v
 *       '----------------------------- thaw -------------------------- FROZEN (0)
 *
 * Invariants
 * G1 A reader counts on its CPU, does a light fence, and looks at the gate. A freezer or
 *    query closes or watches the gate, does a heavy fence, and looks at the counts. Shape
 *    SB:
 *
 *       reader on CPU 0            freezer
 *       local := 1                 gate := CLOSED
 *       light fence                heavy fence
 *       gate is LIVE: passes       local is 0: FROZEN
 *
 *    Without the fences both can happen: the 1 waits in CPU 0's store buffer. With them the
 *    freezer sees the count of a reader that passes, or the reader sees the gate closed.
 * G2 While the gate is CLOSED, or WATCHED with the same version, no reader gets a reference.
 *    So counts that are looked at one after the other, and each found 0, are 0 together at
 *    the end of the look.
 * G3 Thaw (full) pairs with a reader's look (acquire): a reader that passes sees what was
 *    done to the object while it was frozen (N3). What holders did comes before their
 *    release fence or atomic, and a freezer loads the counts by acquire (N2). Between two
 *    tasks of one CPU lies a switch of tasks, which is a full fence.
 *
 * A reader that fails takes its count back, maybe late, after the next thaw. So counts are
 * only ever added to, never set. Each scheme argues in which order it looks at them: it
 * must not see the taking back without seeing the count that it takes back.
 *
 * Progress. A reader retries only when another one passed or a watch was set: lock-free.
 * freeze and query take as many steps as the scheme has places. Refs of other readers do
 * not delay them, but make a query say "used". Locks: none.
 * Not here: waiting. A reader that finds the gate closed fails. In the paper it retries
 * until the gate opens (PAYGO s.3.3). Nor does anything guard the version: it repeats after
 * 2^30 turns of one gate, and a query during which that happens can err.
 */
#ifndef LODIC_CORE_COUNT_COUNT_GATE_H
#define LODIC_CORE_COUNT_COUNT_GATE_H

#include "core/count/count.h"

#define COUNT_GATE_STATE ((u64)3 << 62)
#define COUNT_GATE_FROZEN ((u64)0 << 62) /* also in zeroed memory (N1) */
#define COUNT_GATE_LIVE ((u64)1 << 62)
#define COUNT_GATE_WATCHED ((u64)2 << 62)
#define COUNT_GATE_CLOSED ((u64)3 << 62)

#define COUNT_GATE_VERSION_SHIFT 32
#define COUNT_GATE_VERSION ((u64)0x3fffffff << COUNT_GATE_VERSION_SHIFT)
#define COUNT_GATE_CENTRAL ((u64)0xffffffff)

/* The words that one CPU takes, rounded up to whole cache lines. */
static inline u32 count_round_to_line(u32 nr_words)
{
	return (nr_words + COUNT_LINE_WORDS - 1) / COUNT_LINE_WORDS * COUNT_LINE_WORDS;
}

/* Spreads objects over nr places. Objects are numbered from 0 and used in runs or strides.
 * Knuth's multiplier keeps both from falling on few places. */
static inline u32 count_hash(u32 object, u32 nr)
{
	return (u32)((u64)(object * 2654435769u) * nr >> 32);
}

static inline u64 count_gate_state(u64 v)
{
	return v & COUNT_GATE_STATE;
}

/* State and version, which together identify a watch. */
static inline u64 count_gate_mark(u64 v)
{
	return v & ~COUNT_GATE_CENTRAL;
}

static inline u32 count_gate_central(u64 v)
{
	return (u32)(v & COUNT_GATE_CENTRAL);
}

/* v with another state. */
static inline u64 count_gate_with(u64 v, u64 state)
{
	return (v & ~COUNT_GATE_STATE) | state;
}

/* v with another state and the next version. */
static inline u64 count_gate_turn(u64 v, u64 state)
{
	u64 version = (v + ((u64)1 << COUNT_GATE_VERSION_SHIFT)) & COUNT_GATE_VERSION;

	return state | version | count_gate_central(v);
}

/* A reader has counted on its CPU. true: that is a reference. false: the reader must take
 * its count back. Cost: one load of a line that is written only around freezes and
 * queries. */
static inline bool count_gate_pass(u64 *gate)
{
	u64 v;

	host_fence_light(); /* G1 */
	do {
		v = host_load_acquire(gate); /* G3 */
		if (likely(count_gate_state(v) == COUNT_GATE_LIVE))
			return true;
		if (count_gate_state(v) != COUNT_GATE_WATCHED)
			return false;
	} while (!host_cas(gate, v, count_gate_with(v, COUNT_GATE_LIVE)));
	return true;
}

/* Takes a reference in the central count. State and count change in one step. */
static inline bool count_gate_central_ref(u64 *gate)
{
	u64 v;

	do {
		/* Relaxed: the cas orders, and fails if v is old. */
		v = host_load_relaxed(gate);
		if (count_gate_state(v) != COUNT_GATE_LIVE &&
		    count_gate_state(v) != COUNT_GATE_WATCHED)
			return false;
	} while (!host_cas(gate, v, count_gate_with(v, COUNT_GATE_LIVE) + 1));
	return true;
}

/* Takes nr off the central count; full fence. */
static inline void count_gate_central_unref(u64 *gate, u32 nr)
{
	u64 before = host_fetch_add(gate, -(u64)nr);

	(void)before;
	DCHECK(count_gate_central(before) >= nr, "the central count is not below 0");
}

/* Sets a watch, unless there is one, and returns the gate as it leaves it. A new reference
 * changes the mark of a watched gate. In a gate that is CLOSED or FROZEN there is nothing
 * to set. It retries when a reader changed the central count. The caller must do a heavy
 * fence next. */
static inline u64 count_gate_watch(u64 *gate)
{
	u64 v, watched;

	do {
		v = host_load_relaxed(gate);
		if (count_gate_state(v) != COUNT_GATE_LIVE)
			return v;
		watched = count_gate_turn(v, COUNT_GATE_WATCHED);
	} while (!host_cas(gate, v, watched));
	return watched;
}

/* After a look that found nobody: has no reader passed since the gate was seen (G2)? A gate
 * that is frozen meanwhile is as good. */
static inline bool count_gate_unpassed(const u64 *gate, u64 seen)
{
	/* Relaxed: the looks before it are acquire loads, and nothing hangs on what comes
	 * after. */
	u64 v = host_load_relaxed(gate);

	return count_gate_mark(v) == count_gate_mark(seen) ||
	       count_gate_state(v) == COUNT_GATE_FROZEN;
}

/* For query and freeze of sloppy, percpu and paygo: looks at the counts once. It may say
 * true without reason. It must say false only if all counts were 0 together (G2). */
typedef bool count_gate_used(struct count *c, u32 object);

static inline bool count_gate_query(struct count *c, u32 object, u64 *gate,
                                    count_gate_used *used)
{
	u64 seen = host_load_relaxed(gate);

	if (count_gate_state(seen) == COUNT_GATE_FROZEN)
		return false;
	/* Most queries end here and disturb nobody. */
	if (used(c, object))
		return true;
	seen = count_gate_watch(gate);
	host_fence_heavy(); /* G1 */
	return used(c, object) || !count_gate_unpassed(gate, seen);
}

/* Readers fail meanwhile. A caller that would rather not disturb them must query first. */
static inline bool count_gate_freeze(struct count *c, u32 object, u64 *gate,
                                     count_gate_used *used)
{
	u64 v, closed;
	bool is_used;

	do {
		/* Retried when a reader passed, or a query watches. */
		v = host_load_relaxed(gate);
		if (count_gate_state(v) == COUNT_GATE_FROZEN)
			return false;
		closed = count_gate_turn(v, COUNT_GATE_CLOSED);
	} while (!host_cas(gate, v, closed));
	host_fence_heavy(); /* G1 */
	is_used = used(c, object);
	/* An add: the state is this thread's alone now, the central count is not. */
	host_fetch_add(gate, (is_used ? COUNT_GATE_LIVE : COUNT_GATE_FROZEN) -
	                             COUNT_GATE_CLOSED);
	return !is_used;
}

static inline void count_gate_thaw(u64 *gate)
{
	u64 before = host_fetch_add(gate, COUNT_GATE_LIVE); /* G3 */

	CHECK(count_gate_state(before) == COUNT_GATE_FROZEN, "thaw of what is frozen");
}

/* For a scheme's check, at rest. */
static inline void count_gate_check(const u64 *gate, u32 nr_held)
{
	u64 state = count_gate_state(host_load_relaxed(gate));

	CHECK(state != COUNT_GATE_CLOSED, "a gate is closed only during a freeze");
	CHECK(state != COUNT_GATE_FROZEN || nr_held == 0, "N2: frozen is unused");
}

#endif
