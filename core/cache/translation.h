/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Block -> frame, for all files of an arena: a hash table whose size follows the cache
 * and not the files (ADR-0002). The service alone writes it; readers load it at any time.
 *
 * Idea. Buckets of eight words, a cache line each. A block has a home, one word. When that is
 * taken, the block stands elsewhere in the home's bucket. When that is full, it stands in a
 * second bucket. A word holds a 31-bit tag and the frame. Frame 0 is never used, so an empty
 * word leads to a frame that holds nothing. The tag only narrows a search; the frame's own
 * block name decides. So a reader may look at a wrong frame or miss a right one. It then
 * reads from the kernel, and never gets a wrong byte.
 *
 * One bit of each word, also of an empty one, belongs to its bucket. As many of these bits are
 * set as blocks of this bucket stand in their second one. That is hardly ever any, so a reader
 * who looks for a block that is not cached looks at one cache line.
 *
 * Rules
 * T1 a word leads to a frame only while that frame is CACHED with that word's block.
 * T2 no two words carry the same tag in one bucket.
 * T3 a bucket has as many spill bits as blocks of it stand in their second bucket.
 * O3 a word promises nothing, and is relaxed on both sides. A reader that comes by it looks at the
 *    frame's seq, pins or name, by an acquire load. Only a move releases (O50).
 */
#ifndef LODIC_CORE_CACHE_TRANSLATION_H
#define LODIC_CORE_CACHE_TRANSLATION_H

#include "core/block.h"

#ifndef BUCKET_WAYS
#define BUCKET_WAYS 8u
#endif
#define FRAME_NONE 0xffffffffu
#define FRAME_FIRST 1u /* frame 0 holds nothing, ever */

struct translation {
	u64 *words;    /* service writes, everybody reads */
	u32 shift;     /* 64 - log2(nr_words) */
	u32 nr_frames; /* a word that leads to no frame of these is wrong: C22 */
};

#define TRANSLATION_SPILL ((u64)1 << 63)

static inline u64 translation_tag(u64 hash, u64 block)
{
	/* The hash's low half depends on the index alone, so stir in the file. */
	return (hash ^ (u64)block_file(block) * 0x85ebca6bu) << 32 & ~TRANSLATION_SPILL;
}

static inline u64 translation_second_hash(u64 block)
{
	return block_hash(block ^ 0xc2b2ae3d27d4eb4fu) ^ 0x5555555555555555u;
}

static inline u64 translation_word(u64 tag, u32 frame)
{
	return tag | frame;
}

static inline u32 translation_frame(u64 word)
{
	return (u32)word;
}

/* May word lead to a block with this tag? */
static inline bool translation_leads(u64 word, u64 tag)
{
	return ((word ^ tag) & ~TRANSLATION_SPILL) >> 32 == 0 &&
	       translation_frame(word) >= FRAME_FIRST;
}

/* The word at block's home, right seven times in eight: the first look. Relaxed. */
static inline u64 translation_guess(const struct translation *t, u64 hash)
{
	return host_load_relaxed(&t->words[hash >> t->shift]);
}

/* The word that may lead to block, and its value in ret_word; NULL when there is none.
 * Relaxed: the caller proves the frame, or looks at the word again after a fence. Cost:
 * one cache line, and another one if blocks of the first bucket stand in second ones. */
u64 *translation_find(const struct translation *t, u64 block, u64 *ret_word);

/* The number of words for nr_frames: a power of two, and four times as many at least. Seven
 * blocks in eight then stand at their home, and both of a block's buckets are never full in
 * practice. 32 to 64 bytes a frame. */
u64 translation_nr_words(u32 nr_frames);

void translation_init(struct translation *t, u64 *words, u64 nr_words);

/* Writers: the service only.
 * translation_set() makes block -> frame known. false when both of the block's buckets are full
 * or hold its tag: then the block is simply not cached. */
bool translation_set(struct translation *t, u64 block, u32 frame);
/* Takes block -> frame away, if it is there. A reader that comes by the old word finds no such
 * block in the frame, so relaxed. */
void translation_clear(struct translation *t, u64 block, u32 frame);

/* Makes the word of block -> from lead to another frame, by one store with release order. It
 * keeps its place, and T2 and T3 hold as before. */
void translation_move(struct translation *t, u64 block, u32 from, u32 to);

/* The word of block -> frame, NULL when it is not there. */
u64 *translation_find_exact(const struct translation *t, u64 block, u32 frame);

/* Does the word at `at`, which is block's, lie in the block's second bucket? */
bool translation_is_spilled(const struct translation *t, u64 block, const u64 *at);

#endif
