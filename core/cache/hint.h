/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Hints: a reader tells the service which blocks it missed. Each context has a ring that its
 * reader writes and the service reads. A hint is advisory: the service validates each one
 * and may drop it. Neither side waits for the other.
 *
 * What finds no room in the ring the reader keeps beside it, as a few ranges that it merges.
 * So what a reader wanted is not forgotten while the service is busy elsewhere.
 *
 *   reader: hint_post()   slot written, head + 1, full fence, posted = 1, full fence,
 *                         sleeping?                                       -> wake-up
 *           hint_keep()   the ring is full: version odd, ranges written, version even; then
 *                         as above
 *   service: hint_look()  posted = 0, full fence; then
 *            hint_take()  head > tail? slot read, tail + 1
 *            hint_take_kept()  version even and not taken? ranges read, the same version?
 *                         taken = version
 *            hint_sleep_begin(), then each ring's posted                  -> really sleep?
 *
 * Words
 *   head      hints posted, ever; the reader writes
 *   tail      hints taken, ever; the service writes
 *   posted    a byte for each ring, all of them together: 1, the service must look at the
 *             ring; both write. So many rings without hints cost the service little
 *   sleeping  1 while the service waits for an event; the service writes
 *   version   of the ranges that are kept, odd while they change; the reader writes
 *   taken     the version that the service has last taken; the service writes
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
 *    has yet to see the hint. The service then takes all that the ring can hold, and what is
 *    kept. It may meet ranges that change just now, and leaves them: the reader marks the
 *    ring afterwards.
 * H7 a reader adds to what is kept, and begins anew only when the service has taken that very
 *    version. So the service may get a range twice, and misses none.
 * H8 the service believes ranges only if version was the same, and even, before and after.
 *    The reader makes version odd, release fence, stores; then even, with release order.
 */
#ifndef LODIC_CORE_CACHE_HINT_H
#define LODIC_CORE_CACHE_HINT_H

#include "core/block.h"
#include "core/check.h"

#ifndef HINT_MAX
#define HINT_MAX 128u /* hints that a ring holds */
#endif

/* In a hint's number of blocks: the program has asked for them. Otherwise a reader has missed
 * them, and the service may find that they are not worth their place. */
#define HINT_ASKED ((u64)1 << 63)
/* The same, of a range that was kept: blocks of it nobody has asked for or missed. They lie
 * between two ranges of a file that were merged, because there was no room for both. */
#define HINT_GAPS ((u64)1 << 62)
#define HINT_BITS (HINT_ASKED | HINT_GAPS)

#ifndef HINT_KEPT
#define HINT_KEPT 15u /* ranges beside a ring. Our choice: so many files at a time */
#endif

struct hint_ring {
	u64 head; /* reader writes */
	u64 pad0[7];
	u64 tail; /* service writes */
	u64 pad1[7];
	u64 slots[HINT_MAX][2]; /* block, number of blocks; reader writes */
};

struct hint_kept {
	u64 version; /* reader writes, and the ranges */
	u64 pad0[7];
	u64 taken; /* service writes */
	u64 pad1[7];
	u64 ranges[HINT_KEPT][2]; /* as a slot; number 0: no range */
	u64 pad2[2];
};

/* Sets posted if nobody has: H6, H3. */
static inline void hint_mark(u8 *posted)
{
	if (host_load_byte(posted))
		return;
	host_store_byte(posted, 1);
	host_fence_full(); /* H3 */
}

/* How many hints are there? 0: none, or the ring lies (H5). */
static inline u64 hint_nr(u64 head, u64 tail)
{
	return head - tail <= HINT_MAX ? head - tail : 0;
}

static inline bool hint_full(const struct hint_ring *r)
{
	/* H2. Acquire: the service has read the old hint. */
	return host_load_relaxed(&r->head) - host_load_acquire(&r->tail) >= HINT_MAX;
}

/* Where the range goes among those kept: *ret_range is what then stands there. HINT_KEPT: there
 * is no room, and none is of the same file. Blocks of one file have numbers in a row. */
static inline u32 hint_place(const struct hint_kept *k, u64 block, u64 nr,
                             u64 ret_range[2])
{
	u64 best = ~(u64)0, end = block + (nr & ~HINT_BITS);
	u32 place = HINT_KEPT;

	ret_range[0] = block;
	ret_range[1] = nr;
	for (u32 i = 0; i < HINT_KEPT; i++) {
		u64 first = host_load_relaxed(&k->ranges[i][0]);
		u64 number = host_load_relaxed(&k->ranges[i][1]);
		u64 bits = number & HINT_BITS, blocks = number & ~HINT_BITS;
		u64 last = first + blocks;
		u64 gap = block > last ? block - last : first > end ? first - end : 0;

		/* A free place is better than a gap, and worse than none. */
		if (blocks == 0)
			gap = 1;
		else if (block_file(first) != block_file(block) ||
		         (nr & HINT_ASKED) != (bits & HINT_ASKED))
			continue;
		else if (gap > 0)
			gap++;
		if (gap >= best)
			continue;
		best = gap;
		place = i;
		ret_range[0] = blocks == 0 || block < first ? block : first;
		ret_range[1] =
			((blocks == 0 || end > last ? end : last) - ret_range[0]) |
			(nr & HINT_BITS) | bits | (gap > 1 ? HINT_GAPS : 0);
		if (gap == 0)
			break;
	}
	return place;
}

/* Keeps a range that the ring has no room for. It is merged with one that it touches, or it gets a
 * free place, or it is merged with the nearest of its file. Files beyond HINT_KEPT at a time find
 * no room, and their readers miss again. The reader calls this. Cost: a look at HINT_KEPT ranges,
 * no atomics. */
static inline void hint_keep(struct hint_kept *k, u64 block, u64 nr)
{
	u64 version = host_load_relaxed(&k->version);
	u64 range[2];
	u32 place;

	host_store_relaxed(&k->version, version + 1);
	host_fence_release(); /* H8 */
	/* H7. Acquire: the service has read them. */
	if (host_load_acquire(&k->taken) == version)
		for (u32 i = 0; i < HINT_KEPT; i++)
			host_store_relaxed(&k->ranges[i][1], 0);
	place = hint_place(k, block, nr, range);
	if (place < HINT_KEPT) {
		host_store_relaxed(&k->ranges[place][0], range[0]);
		host_store_relaxed(&k->ranges[place][1], range[1]);
	}
	host_store_release(&k->version, version + 2); /* H8 */
}

/* Posts a hint that nr blocks from block on are wanted; when the ring is full it keeps the hint. A
 * full ring is marked as well: another reader may have taken its mark away (H5).
 * true: the service sleeps, and the caller must wake it. The reader calls this. */
static inline bool hint_post(struct hint_ring *r, struct hint_kept *kept, u8 *posted,
                             const u64 *sleeping, u64 block, u64 nr)
{
	u64 head = host_load_relaxed(&r->head);
	u64 *slot = r->slots[head % HINT_MAX];

	if (hint_full(r)) {
		hint_keep(kept, block, nr);
		host_fence_full(); /* H6 */
		hint_mark(posted);
		return host_load_relaxed(sleeping);
	}
	host_store_relaxed(&slot[0], block);
	host_store_relaxed(&slot[1], nr);
	host_store_release(&r->head, head + 1); /* H1 */
	host_fence_full();                      /* H6 */
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
	*ret_block = host_load_relaxed(&slot[0]);
	*ret_nr = host_load_relaxed(&slot[1]);
	host_store_release(&r->tail, tail + 1); /* H2 */
	return true;
}

/* Takes the ranges that are kept, if it has not: how many. The service calls this. */
static inline u32 hint_take_kept(struct hint_kept *k, u64 ret_ranges[HINT_KEPT][2])
{
	u64 version = host_load_acquire(&k->version);
	u32 nr = 0;

	if (version == host_load_relaxed(&k->taken) || version % 2)
		return 0;
	for (u32 i = 0; i < HINT_KEPT; i++) {
		ret_ranges[nr][0] = host_load_relaxed(&k->ranges[i][0]);
		ret_ranges[nr][1] = host_load_relaxed(&k->ranges[i][1]);
		nr += (ret_ranges[nr][1] & ~HINT_BITS) > 0;
	}
	host_fence_acquire();
	if (host_load_relaxed(&k->version) != version) /* H8 */
		return 0;
	host_store_release(&k->taken, version); /* H7 */
	return nr;
}

static inline void hint_sleep_begin(u64 *sleeping)
{
	host_store_relaxed(sleeping, 1);
	host_fence_full(); /* H4 */
}

#endif
