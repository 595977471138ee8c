/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Hints: a reader tells the service which blocks it missed. Each context has a ring that its
 * reader writes and the service reads. A hint is advisory: a full ring drops it, and the
 * service validates each hint and may drop it. Neither side waits for the other.
 *
 *   reader: hint_post()   slot written, head + 1, full fence, posted = 1, full fence,
 *                         sleeping?                                       -> wake-up
 *   service: hint_look()  posted = 0, full fence; then
 *            hint_take()  head > tail? slot read, tail + 1
 *            hint_sleep_begin(), then each ring's posted                  -> really sleep?
 *
 * Words
 *   head      hints posted, ever; the reader writes
 *   tail      hints taken, ever; the service writes
 *   posted    a byte for each ring, all of them together: 1, the service must look at the
 *             ring; both write. So many rings without hints cost the service little
 *   sleeping  1 while the service waits for an event; the service writes
 *
 * Rules
 * H1 a reader writes a slot before head says so. Release and acquire of head pair.
 * H2 the service reads a slot before tail gives it back, and a reader reuses only slots that
 *    tail has given back. Release and acquire of tail pair.
 * H3 the reader sets posted, full fence, looks at sleeping. Shape SB with H4.
 * H4 the service says that it sleeps, full fence, looks at posted of all rings. Because of H3
 *    and H4 one of the two sees the other, and no wake-up is lost.
 * H5 a reader may write anything into its ring, and into posted. The service believes head only
 *    if it is at most HINT_MAX ahead of tail, and takes one hint at a time. So it looks at a
 *    ring that nobody writes HINT_MAX times at most, and then it sleeps. A reader that clears
 *    another's posted delays that one's hints until its next.
 * H6 the reader posts, full fence, looks whether posted is 1 already. The service clears posted,
 *    full fence, looks at the ring. Shape SB: if the reader leaves posted as it is, the service
 *    has yet to see the hint. The service then takes all that the ring can hold.
 */
#ifndef LODIC_CORE_CACHE_HINT_H
#define LODIC_CORE_CACHE_HINT_H

#include "core/check.h"
#include "core/mutant.h"

#ifndef HINT_MAX
#define HINT_MAX 128u /* hints that a ring holds */
#endif

/* In a hint's number of blocks: the program has asked for them. Otherwise a reader has missed
 * them, and the service may find that they are not worth their place. */
#define HINT_ASKED ((u64)1 << 63)

struct hint_ring {
	u64 head; /* reader writes */
	u64 pad0[7];
	u64 tail; /* service writes */
	u64 pad1[7];
	u64 slots[HINT_MAX][2]; /* block, number of blocks; reader writes */
};

/* Sets posted if nobody has: H6, H3. */
static inline void hint_mark(u8 *posted)
{
	if (host_load_byte(posted))
		return;
	host_store_byte(posted, 1);
	if (!MUTANT(HINT_MARK_WITHOUT_FENCE))
		host_fence_full(); /* H3 */
}

/* How many hints are there? 0: none, or the ring lies (H5). */
static inline u64 hint_nr(u64 head, u64 tail)
{
	return head - tail <= HINT_MAX || MUTANT(HINT_LIE_BELIEVED) ? head - tail : 0;
}

static inline bool hint_full(const struct hint_ring *r)
{
	/* H2. Acquire: the service has read the old hint. */
	return host_load_relaxed(&r->head) - host_load_acquire(&r->tail) >= HINT_MAX &&
	       !MUTANT(HINT_OVER_FULL);
}

/* Posts a hint that nr blocks from block on are wanted, or drops it when the ring is full. A
 * full ring is marked as well: another reader may have taken its mark away (H5).
 * true: the service sleeps, and the caller must wake it. The reader calls this. */
static inline bool hint_post(struct hint_ring *r, u8 *posted, const u64 *sleeping,
                             u64 block, u64 nr)
{
	u64 head = host_load_relaxed(&r->head);
	u64 *slot = r->slots[head % HINT_MAX];

	if (hint_full(r)) {
		hint_mark(posted);
		return host_load_relaxed(sleeping);
	}
	if (MUTANT(HINT_HEAD_FIRST))
		host_store_release(&r->head, head + 1);
	if (MUTANT(HINT_MARK_FIRST))
		hint_mark(posted);
	host_store_relaxed(&slot[0], block);
	host_store_relaxed(&slot[1], nr);
	host_store_release(&r->head, head + 1); /* H1 */
	if (!MUTANT(HINT_WITHOUT_FENCE))
		host_fence_full(); /* H6 */
	if (!MUTANT(HINT_MARK_FIRST))
		hint_mark(posted);
	return host_load_relaxed(sleeping);
}

/* Is there anything to look for in the ring? Afterwards hint_take() must be called until it
 * says no, or HINT_MAX times. The service calls this. */
static inline bool hint_look(u8 *posted)
{
	if (!host_load_byte(posted))
		return false;
	host_store_byte(posted, 0);
	if (!MUTANT(HINT_LOOK_WITHOUT_FENCE))
		host_fence_full(); /* H6 */
	return true;
}

/* Takes the oldest hint; false when there is none. The service calls this. */
static inline bool hint_take(struct hint_ring *r, u64 *ret_block, u64 *ret_nr)
{
	u64 tail = host_load_relaxed(&r->tail);
	u64 *slot = r->slots[tail % HINT_MAX];

	if (hint_nr(host_load_acquire(&r->head), tail) == 0) /* H1 */
		return false;
	if (MUTANT(HINT_TAIL_FIRST))
		host_store_release(&r->tail, tail + 1);
	*ret_block = host_load_relaxed(&slot[0]);
	*ret_nr = host_load_relaxed(&slot[1]);
	host_store_release(&r->tail, tail + 1); /* H2 */
	return true;
}

static inline void hint_sleep_begin(u64 *sleeping)
{
	if (!MUTANT(SLEEP_AFTER_LOOK))
		host_store_relaxed(sleeping, 1);
	if (!MUTANT(SLEEP_WITHOUT_FENCE))
		host_fence_full(); /* H4 */
}

#endif
