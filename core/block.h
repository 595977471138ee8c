/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A block is a file's n-th piece of BLOCK_BYTES. Its identity fits in one word, so that
 * a frame can say what it holds, and a reader can ask, with a single load.
 */
#ifndef LODIC_CORE_BLOCK_H
#define LODIC_CORE_BLOCK_H

#include "core/check.h"

#ifndef BLOCK_SHIFT
#define BLOCK_SHIFT 12
#endif
#define BLOCK_BYTES ((u64)1 << BLOCK_SHIFT)

/* File ids start at 1 and are never used again while an arena lives. */
#define FILE_NONE 0u

/* The identity of no block. */
#define BLOCK_NONE 0u

/* file: 1..2^32-1; index: the block's number in its file, so files end at 16 TiB. */
static inline u64 block_id(u32 file, u32 index)
{
	return (u64)file << 32 | index;
}

static inline u32 block_file(u64 block)
{
	return (u32)(block >> 32);
}

static inline u32 block_index(u64 block)
{
	return (u32)block;
}

/* Spreads neighbouring blocks over the whole word. Callers should use the high bits (Knuth's
 * multiplicative hashing; the constant is 2^64 divided by the golden ratio). */
static inline u64 block_hash(u64 block)
{
	return block * 0x9e3779b97f4a7c15u;
}

#endif
