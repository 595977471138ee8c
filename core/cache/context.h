/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A context: liblodic's process space (LODIC s.4.4.1), the reader's side of an arena. One
 * thread owns it. Its memory holds a bounded table of ptes, each with a pin counter in its
 * upper bits (LODIC s.4.3). A ring takes hints (hint.h). All contexts share a byte for each
 * frame, which notes visits.
 *
 * Words
 *   pte       the owner alone writes; the service loads
 *   nr_pinned the same: how many of the ptes have a count
 *   visits    all owners: count up to 3; service: back to 0. A lost visit makes a worse
 *             victim, nothing else.
 *
 *          pin (look succeeds)                pin
 *   count 0 ------------------> present, 1 <------> present, 2 .. 127
 *     ^  \                          |        unpin
 *     |   \--> look fails, undone   | unpin
 *     +-----------------------------+
 *   An entry whose count is 0 holds nothing. It may be empty, right, or stale: its frame has
 *   another block by now. The owner uses it for any block of its set.
 *
 * Rules
 * C1 to pin, the owner counts in its own pte, passes a fence, and looks. The frame must take
 *    pins for the block (F4), and the file's proof and the service must still live. The fence
 *    is light where the service has a heavy one for all processes, else full (O5 in arena.h).
 * C2 nobody but the owner writes its ptes, so it may use plain stores. That holds for one
 *    owner thread and only under the scanned gate (ADR-0001).
 * C3 whose block an entry leads to is decided by the look after the count, never before it.
 *    The frame that was found may have been refilled in between.
 * C4 a copy counts only if seq was even and the same before and after, and the frame had
 *    the block's name. After the copy, the file's proof and the service must still live.
 * C5 if the look fails, the owner takes the count back. Meanwhile it holds nothing. If the
 *    service sees it, it refuses the frame once, in vain.
 * C6 an entry, or a word of the translation, leads to the block that the caller wants only
 *    if the frame's name says so. A tag alone does not: two blocks may share all its bits.
 * C7 an unpin of an entry whose count is 0 changes nothing. It would make the count 127 for
 *    good, and with it the frame. Only a misuse of the library comes to this.
 * C8 nr_pinned is raised before an entry's count leaves 0, so before the look (C1). It is
 *    lowered when the count is back at 0, never in between. So the service may skip a context
 *    that it sees at 0, after its heavy fence.
 * C9 an owner pins no more entries at a time than its quota. The table may have more.
 * C22 an owner looks at a frame only if the arena has one of that number. The service, or a
 *    fault of its memory, may have written any number.
 *
 * Mutual exclusion. X: the two must not run at the same time. A rule's name: they may, and
 * the rule keeps them from harm. -: they may, for they share no word.
 *
 *                                 read, vouch   pin, unpin    hint_post
 *   the owner's calls             X             X             X
 *   another context's calls       -             -             -
 *   arena_publish                 O2            O30           -
 *   batch_add, batch_next         C4, O1        C1-C3, C5, C8 -
 *   arena_visits                  a visit may be lost         -
 *   arena_hint, _kept, _sleep     -             -             H1-H8
 *   file_proof_end, arena_end     O22           O22           -
 *   arena_leave, context_check    X             X             X
 *
 * One owner thread keeps its own calls apart. The service calls arena_leave() only when the
 * owner's last call is over (O25). Under atomic and frozen all contexts share their counters,
 * and core/count_word.h has the rules.
 *
 * Progress: read and pin are bounded. No loop waits for a step of another thread.
 */
#ifndef LODIC_CORE_CACHE_CONTEXT_H
#define LODIC_CORE_CACHE_CONTEXT_H

#include "core/cache/arena.h"
#include "core/errno.h"
#include "core/pte.h"

#define CONTEXT_PIN_TRIES 4u

/* What the owner alone has. */
struct context {
	const struct frame *frames;
	const u8 *data;
	struct translation translation;
	u64 *entries; /* ptes; hazard slots under ARENA_HAZARD */
	u8 *visits;
	u64 *counts;
	struct context_memory *memory;
	const u64 *alive;
	u64 alive_value;
	u32 home_shift; /* 64 - log2(entries) */
	u32 scheme;
	u32 quota;  /* entries that may be pinned at a time; 0: reads only */
	bool light; /* C1: a light fence will do */
};

/* memory: arena_context_bytes() bytes that the service has put on the walk list. */
void context_init(struct context *c, const struct arena *a, void *memory,
                  u64 alive_value, u32 quota);

/* Has the arena a frame of that number (C22)? */
static inline bool context_has(const struct context *c, u32 frame)
{
	return likely(frame < c->translation.nr_frames);
}

static inline void context_bump(struct context *c, enum context_counter which)
{
	u64 *p = &c->memory->counters[which];

	/* Relaxed: one writer; readers of statistics can be a little behind. */
	host_store_relaxed(p, host_load_relaxed(p) + 1);
}

/* Notes a visit to frame, for eviction (S3-FIFO needs "more than once": ADR-0003).
 * Writes only up to the third time, so a hot frame's byte is only read. */
static inline void context_visit(struct context *c, u32 frame)
{
	u8 *p = &c->visits[frame];
	u8 visits = host_load_byte(p);

	if (unlikely(visits < FRAME_VISITS_MAX))
		host_store_byte(p, (u8)(visits + 1));
}

/* Does the file's proof still hold and does the service live? Call it after the copies
 * or the pin that it shall vouch for: core/cache/cache.h does. */
static inline bool context_vouch(const struct context *c, const struct file_proof *s,
                                 u32 id)
{
	return likely(file_proof_holds(s, id)) &&
	       host_load_relaxed(c->alive) == c->alive_value;
}

/* Copies from f, which is frame. The caller has seen its seq even, with the block's name. */
static inline __attribute__((always_inline)) bool
context_copy(struct context *c, const struct frame *f, u32 frame, u64 seq, u32 offset,
             void *to, u32 n)
{
	context_visit(c, frame); /* before the copy: fewer values live across it */
	host_copy(to, c->data + ((u64)frame << BLOCK_SHIFT) + offset, n);
	/* O1: if any byte came from a later fill, its odd seq is seen now. */
	host_fence_acquire();
	return likely(host_load_relaxed(&f->seq) == seq);
}

/*
 * Copies n bytes of block from offset on (offset + n <= BLOCK_BYTES). true: they are the
 * block's bytes, if context_vouch() says so afterwards. false: not cached, or the frame
 * was refilled under the copy; the buffer holds rubbish. The reader writes nothing that
 * anybody shares, but for the frame's visits, three times at most.
 */
bool context_read(struct context *c, u64 block, u32 offset, void *to, u32 n);

/* The same, but it looks only where most blocks are, and calls nothing. false may also mean
 * that the block stands elsewhere. A fast path must then fall back on context_read(). */
static inline __attribute__((always_inline)) bool
context_read_home(struct context *c, u64 block, u32 offset, void *to, u32 n)
{
	u32 frame = translation_frame(
		translation_guess(&c->translation, block_hash(block)));
	const struct frame *f = &c->frames[frame];
	u64 seq;

	if (unlikely(!context_has(c, frame)))
		return false;
	/* O2: after an even seq, the name and the bytes that belong to it. */
	seq = host_load_acquire(&f->seq);
	if (unlikely(host_load_relaxed(&f->block) != block || seq & 1))
		return false;
	return context_copy(c, f, frame, seq, offset, to, n);
}

/*
 * Pins block: until cache_unpin() (cache.h), its frame's bytes stand still. On success
 * ret_frame says where they are, and ret_word is what the pin is counted in. context_vouch()
 * must confirm, else the caller must unpin. On an error, read instead. -EAGAIN: the block is
 * not cached now. -EOVERFLOW: the context holds PTE_COUNT_MAX pins on it. -ENOBUFS: the quota,
 * the set, or every hazard slot is pinned. -EDQUOT: the context may not pin at all.
 * Cost: a plain store in the context's own cache line, or (lock) an uncontended exchange.
 */
int context_pin(struct context *c, u64 block, u32 *ret_frame, u64 **ret_word);

/* The same for ARENA_SCANNED, but it looks only where most blocks are, and calls nothing. It
 * is one pass: warm by the entry's own frame, cold by the translation's guess, and one look.
 * false may also mean that the block stands elsewhere: fall back on context_pin(). */
static inline __attribute__((always_inline)) bool
context_pin_home(struct context *c, u64 block, u32 *ret_frame, u64 **ret_word);

/* How many entries, or hazard slots, have a count. Not known (0) for the schemes that count
 * in shared words. */
u32 context_nr_pinned(const struct context *c);

/* Asserts C1 and C2 for a context whose owner is at rest. */
void context_check(const struct context *c);

/* The index of block's first choice of an entry. Its set of CONTEXT_WAYS is around it. */
static inline u32 context_home(const struct context *c, u64 hash)
{
	return (u32)(hash >> c->home_shift);
}

/* What a pte of a block looks like but for its frame and count. */
static inline u64 context_tag(u64 hash)
{
	return PTE_PRESENT | (hash & PTE_TAG_MASK);
}

/* How many entries the owner has pinned. */
static inline u64 context_pinned(const struct context *c)
{
	return host_load_relaxed(&c->memory->nr_pinned);
}

/* One count in pte becomes visible before anything that the owner loads afterwards: the
 * owner's half of O5. */
static inline void context_count(const struct context *c, u64 *pte, u64 v)
{
	if (likely(c->light)) {
		host_store_relaxed(pte, v);
		host_fence_light();
	} else {
		host_xchg(pte, v);
	}
}

/* C1: does frame take pins for block? Acquire, partner O30: the bytes come after. */
static inline bool context_look(const struct context *c, u32 frame, u64 block)
{
	return likely(host_load_acquire(&c->frames[frame].pins) == block);
}

static inline void context_unpin_scanned(struct context *c, u64 *pte);

/* The entry at pte has no count: makes it v, counted once. false: the quota is used up (C9), or
 * there is no such frame (C22). Or the frame does not take pins for block; then the entry is
 * empty. */
static inline __attribute__((always_inline)) bool
context_pin_at(struct context *c, u64 *pte, u64 v, u64 block)
{
	u64 *nr_pinned = &c->memory->nr_pinned;
	u64 nr = host_load_relaxed(nr_pinned);

	if (unlikely(nr >= c->quota))
		return false;
	if (unlikely(!context_has(c, pte_frame(v))))
		return false;
	host_store_relaxed(nr_pinned, nr + 1); /* C8 */
	context_count(c, pte, v + PTE_COUNT_ONE);
	if (likely(context_look(c, pte_frame(v), block)))
		return true;
	/* C5. Release: a walk that finds these values must know of the reads under an earlier
	 * pin. An unpin's own values would say so. */
	host_store_release(pte, PTE_EMPTY);
	host_store_release(nr_pinned, nr);
	return false;
}

static inline __attribute__((always_inline)) bool
context_pin_home(struct context *c, u64 block, u32 *ret_frame, u64 **ret_word)
{
	u64 hash = block_hash(block);
	u64 *pte = &c->entries[context_home(c, hash)];
	u64 v = host_load_relaxed(pte);
	bool cold = (v ^ context_tag(hash)) >> 32; /* another block's, or counted */

	if (cold) {
		u64 word = translation_guess(&c->translation, hash);

		/* The tag first: most blocks that are not cached go no further. */
		if (unlikely(pte_count(v) > 0 ||
		             !translation_leads(word, translation_tag(hash, block))))
			return false;
		v = context_tag(hash) | translation_frame(word);
	}
	if (unlikely(!context_pin_at(c, pte, v, block)))
		return false;
	if (cold)
		context_bump(c, CONTEXT_SOFT);
	*ret_frame = pte_frame(v);
	*ret_word = pte;
	context_visit(c, pte_frame(v));
	return true;
}

static inline void context_unpin_scanned(struct context *c, u64 *pte)
{
	u64 *nr = &c->memory->nr_pinned;
	u64 v = host_load_relaxed(pte);

	DCHECK(pte_count(v) > 0, "C7: an unpin of what is pinned, not of a pin's copy");
	if (unlikely(pte_count(v) == 0))
		return;
	/* Release, partner: the service's loads in walk.c. The owner's loads of the frame's
	 * bytes come before the service sees the lower count. */
	host_store_release(pte, v - PTE_COUNT_ONE);
	if (pte_count(v) == 1)
		host_store_release(nr, host_load_relaxed(nr) - 1); /* C8 */
}

#endif
