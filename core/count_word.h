/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How one word counts: the protocols of atomic, frozen and hazard on a bare u64. They are
 * inline, so that core/count/ and liblodic's pin path share one source at full speed.
 *
 * atomic   0 = frozen, 1 = base (the cache's own reference), 1 + n = n references
 *
 *            thaw          ref          ref
 *          0 ----> base (1) ----> 2 ----> 3 ...      freeze only from base
 *            <----           <----   <----
 *            freeze         unref    unref
 *
 * frozen   top bit = live, which is the cache's own reference; below it the others. Without
 *          the bit the word is frozen, as zeroed memory is. A ref adds first and looks
 *          afterwards. So a ref that fails has still added, and owes a subtraction. That
 *          may come late, even after the next thaw. Hence every change but the freeze
 *          itself is an atomic add: a store would swallow what is owed.
 *
 * hazard   a slot of the reader's own holds object + 1, or 0. A ref writes nothing shared.
 *
 * Order
 * W1 unref (full fence, or release in hazard) pairs with the freezer's cas or acquire
 *    load. A holder's last look at the object comes before anything that is done to it
 *    while it is frozen.
 * W2 thaw (full fence) pairs with ref. A reader that gets a reference sees what was made of
 *    the object while it was frozen.
 * W3 hazard, reader: slot published, full fence, second look at the object. Freezer: object
 *    marked, full fence, slots scanned. Shape SB: one of the two sees the other. A light
 *    fence will do for the reader where the freezer has a heavy one.
 *
 * One caller at a time may freeze or thaw a word. Any number may ref, unref and query.
 */
#ifndef LODIC_CORE_COUNT_WORD_H
#define LODIC_CORE_COUNT_WORD_H

#include "core/check.h"

/* The cache's own reference, in a word that is not frozen. frozen has a bit for it. */
#define COUNT_BASE ((u64)1)
#define COUNT_LIVE_BIT ((u64)1 << 63)

/* The loop of Linux's page_ref_add_unless(). It tries again when its cas loses against
 * another reader, and these tries cost time on a hot block. Progress: lock-free; only
 * another caller's successful step on the same word can make it retry. */
static inline bool count_atomic_word_ref(u64 *word)
{
	u64 v;

	do {
		/* Relaxed: the cas below orders, and fails if v is old. */
		v = host_load_relaxed(word);
		if (unlikely(v == 0))
			return false;
	} while (unlikely(!host_cas(word, v, v + 1)));
	return true;
}

/* The same. ret_contended becomes true when a cas has failed, and is left alone otherwise. */
static inline bool count_atomic_word_ref_told(u64 *word, bool *ret_contended)
{
	u64 v = host_load_relaxed(word); /* as above */

	if (unlikely(v == 0))
		return false;
	if (likely(host_cas(word, v, v + 1)))
		return true;
	*ret_contended = true;
	return count_atomic_word_ref(word);
}

static inline void count_atomic_word_unref(u64 *word)
{
	u64 before = host_fetch_add(word, -(u64)1); /* W1 */

	(void)before;
	DCHECK(before > COUNT_BASE, "unref of what is referenced");
}

static inline bool count_atomic_word_query(const u64 *word)
{
	return host_load_acquire(word) > COUNT_BASE; /* W1 */
}

static inline bool count_atomic_word_freeze(u64 *word)
{
	return host_cas(word, COUNT_BASE, 0); /* W1 */
}

static inline void count_atomic_word_thaw(u64 *word)
{
	bool done = host_cas(word, 0, COUNT_BASE); /* W2 */

	CHECK(done, "thaw of what is frozen, and counted by nobody");
}

/* The number of references held; exact when nothing moves. */
static inline u64 count_atomic_word_sum(const u64 *word)
{
	u64 v = host_load_relaxed(word);

	return v == 0 ? 0 : v - COUNT_BASE;
}

/* Wait-free: it never retries, however many others count. */
static inline bool count_frozen_word_ref(u64 *word)
{
	if (likely(host_fetch_add(word, 1) & COUNT_LIVE_BIT))
		return true;
	host_fetch_add(word, -(u64)1);
	return false;
}

static inline void count_frozen_word_unref(u64 *word)
{
	u64 before = host_fetch_add(word, -(u64)1); /* W1 */

	(void)before;
	DCHECK((before & ~COUNT_LIVE_BIT) > 0, "unref of what is referenced");
}

static inline bool count_frozen_word_query(const u64 *word)
{
	return host_load_acquire(word) > COUNT_LIVE_BIT; /* W1 */
}

static inline bool count_frozen_word_freeze(u64 *word)
{
	return host_cas(word, COUNT_LIVE_BIT, 0); /* W1 */
}

static inline void count_frozen_word_thaw(u64 *word)
{
	u64 before = host_fetch_add(word, COUNT_LIVE_BIT); /* W2 */

	(void)before;
	DCHECK(!(before & COUNT_LIVE_BIT), "thaw of what is frozen");
}

static inline u64 count_frozen_word_sum(const u64 *word)
{
	return host_load_relaxed(word) & ~COUNT_LIVE_BIT;
}

/* slot must be empty, and only the calling thread may write it. After this the caller must
 * look again whether object may be used, and drop the slot if not (W3). */
static inline void count_hazard_word_ref(u64 *slot, u32 object)
{
	host_xchg(slot, (u64)object + 1);
}

/* The same by a plain store, for a freezer whose fence is a heavy one. */
static inline void count_hazard_word_ref_light(u64 *slot, u32 object)
{
	host_store_relaxed(slot, (u64)object + 1);
	host_fence_light();
}

/* The same for a slot that several threads may want. false: another thread has it. */
static inline bool count_hazard_word_claim(u64 *slot, u32 object)
{
	if (host_load_relaxed(slot) != 0)
		return false;
	return host_cas(slot, 0, (u64)object + 1);
}

static inline void count_hazard_word_unref(u64 *slot)
{
	host_store_release(slot, 0); /* W1 */
}

static inline bool count_hazard_word_query(const u64 *slot, u32 object)
{
	return host_load_acquire(slot) == (u64)object + 1; /* W1 */
}

#endif
