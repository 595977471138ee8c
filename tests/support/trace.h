/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Three access traces for hit ratios, and what a reference implementation of S3-FIFO
 * makes of them.
 *
 * The traces are made by integer arithmetic alone. So every machine and compiler makes the
 * same ones, to the last access. The reference figures hold for exactly these. All traces are
 * over TRACE_NR_BLOCKS blocks, numbered from 0: one file of 256 MiB, of which each access
 * reads one block of 4 KiB.
 *
 *   zipf   popularity falls with rank ^ 0.98; ranks are spread over the file
 *   scan   the same, but one access in three (at random) reads the file from front to
 *          back, over and over. Those blocks are not soon wanted again.
 *   shift  the same as zipf, but every 200,000 accesses the ranks move on by an eighth
 *          of all blocks. What was hot is cold at once.
 */
#ifndef LODIC_TESTS_SUPPORT_TRACE_H
#define LODIC_TESTS_SUPPORT_TRACE_H

#include "host/random.h"

#define TRACE_NR_BLOCKS 65536u
#define TRACE_SEED 0x6c6f646963u
#define TRACE_SHIFT_ACCESSES 200000u
#define TRACE_SHIFT_BLOCKS (TRACE_NR_BLOCKS / 8)
#define TRACE_SCAN_ONE_IN 3u

enum trace_kind { TRACE_ZIPF, TRACE_SCAN, TRACE_SHIFT, TRACE_NR_KINDS };

static const char *const trace_names[TRACE_NR_KINDS] = { "zipf", "scan", "shift" };

/*
 * Hits of the S3-FIFO of libCacheSim, the library of S3-FIFO's authors: from an empty cache,
 * in the first TRACE_SHORT and TRACE_LONG accesses. They come from the Python package
 * libcachesim 0.3.5 and its S3FIFO(nr_frames) with its defaults: small_size_ratio 0.1,
 * ghost_size_ratio 0.9, move_to_main_threshold 2. Each block of the trace was one request of
 * size 1 with obj_id = block + 1. get() told the hits.
 */
#define TRACE_SHORT 500000u
#define TRACE_LONG 2000000u

struct trace_reference {
	enum trace_kind kind;
	u32 nr_frames; /* 5 % and 25 % of the blocks */
	u64 hits_short;
	u64 hits_long;
};

static const struct trace_reference trace_references[] = {
	{ TRACE_ZIPF, 3276, 345545, 1392274 },  { TRACE_ZIPF, 16384, 411146, 1676585 },
	{ TRACE_SCAN, 3276, 232388, 945074 },   { TRACE_SCAN, 16384, 292896, 1213284 },
	{ TRACE_SHIFT, 3276, 334501, 1341435 }, { TRACE_SHIFT, 16384, 394026, 1578611 },
};
#define TRACE_NR_REFERENCES (sizeof(trace_references) / sizeof(trace_references[0]))

/* About 770 KiB: keep it static. */
struct trace {
	u64 below[TRACE_NR_BLOCKS]; /* sum of the weights of all ranks up to this one */
	u32 block_of[TRACE_NR_BLOCKS]; /* rank -> block */
	u64 random;                    /* random_next()'s state */
	u64 nr_done;                   /* accesses given */
	u32 scan_at;
	enum trace_kind kind;
};

static inline u64 trace_random(struct trace *t)
{
	return random_next(&t->random);
}

/* log2(x), x > 0, in units of 2^-32: a bit for each squaring of x, scaled to 1..2. */
static inline u64 trace_log2(u32 x)
{
	u32 whole = 31 - (u32)__builtin_clz(x);
	u64 m = (u64)x << (31 - whole); /* 1..2 in units of 2^-31 */
	u64 log = whole;

	for (u32 i = 0; i < 32; i++) {
		m = m * m >> 31;
		log <<= 1;
		if (m >> 32) {
			m >>= 1;
			log |= 1;
		}
	}
	return log;
}

static inline u64 trace_sqrt(u64 x)
{
	u64 root = 0;

	for (u64 bit = (u64)1 << 31; bit > 0; bit >>= 1)
		if ((root | bit) * (root | bit) <= x)
			root |= bit;
	return root;
}

/* 2^(x / 2^32) in units of 2^-31 for x below 2^32: the product of the roots of 2 that
 * x's bits name. */
static inline u64 trace_exp2(u64 x)
{
	u64 root = (u64)2 << 31;
	u64 product = (u64)1 << 31;

	for (u32 bit = 0; bit < 24; bit++) {
		root = trace_sqrt(root << 31);
		if (x >> (31 - bit) & 1)
			product = product * root >> 31;
	}
	return product;
}

/* 2^48 / rank^0.98; ranks from 1 to TRACE_NR_BLOCKS, whose weight is above 2^31. */
static inline u64 trace_weight(u32 rank)
{
	u64 log = ((u64)48 << 32) - trace_log2(rank) * 98 / 100;

	return trace_exp2(log & 0xffffffffu) << ((log >> 32) - 31);
}

static inline void trace_init(struct trace *t, enum trace_kind kind)
{
	u64 sum = 0;

	t->random = TRACE_SEED;
	t->nr_done = 0;
	t->scan_at = 0;
	t->kind = kind;
	for (u32 i = 0; i < TRACE_NR_BLOCKS; i++) {
		sum += trace_weight(i + 1);
		t->below[i] = sum;
		t->block_of[i] = i;
	}
	for (u32 i = TRACE_NR_BLOCKS - 1; i > 0; i--) {
		u32 j = (u32)(trace_random(t) % (i + 1));
		u32 block = t->block_of[i];

		t->block_of[i] = t->block_of[j];
		t->block_of[j] = block;
	}
}

/* The rank, from 0, whose share of the weights a random number falls into. */
static inline u32 trace_rank(struct trace *t)
{
	u64 x = trace_random(t) % t->below[TRACE_NR_BLOCKS - 1];
	u32 low = 0, high = TRACE_NR_BLOCKS - 1;

	while (low < high) {
		u32 middle = (low + high) / 2;

		if (t->below[middle] > x)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* The next block that is read. */
static inline u32 trace_next(struct trace *t)
{
	u64 nr_shifts = t->nr_done++ / TRACE_SHIFT_ACCESSES;
	u32 rank;

	if (t->kind == TRACE_SCAN && trace_random(t) % TRACE_SCAN_ONE_IN == 0)
		return t->scan_at++ % TRACE_NR_BLOCKS;
	rank = trace_rank(t);
	if (t->kind == TRACE_SHIFT)
		rank += (u32)(nr_shifts % 8) * TRACE_SHIFT_BLOCKS;
	return t->block_of[rank % TRACE_NR_BLOCKS];
}

/*
 * Plays the next nr accesses: read() reads one block and says whether it was a hit.
 * Returns the number of hits. With a cache that another thread or process fills, read() must
 * not return from a miss before the block is cached. Otherwise the figure would be of another
 * sequence of events than the reference's.
 */
static inline u64 trace_replay(struct trace *t, u64 nr,
                               bool (*read)(void *ctx, u32 block), void *ctx)
{
	u64 hits = 0;

	while (nr-- > 0)
		hits += read(ctx, trace_next(t));
	return hits;
}

#endif
