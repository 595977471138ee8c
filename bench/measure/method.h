/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The ways to read a block that are measured against each other. Each copies the same
 * number of bytes from the same offsets into one private buffer. All use the same memcpy,
 * with a size that only the run knows. They differ in how they find and hold the block.
 *
 *   private     memory of the process: the physical limit.
 *   mmap        the file's pages, mapped.
 *   lodic_read  an optimistic copy that holds nothing.
 *   lodic_pin   pin, copy, unpin; counted in the reader's own entry.
 *   lodic_pin_apart
 *               lodic_pin by two processes, each in a cache of its own. They execute what
 *               two processes with lodic_pin execute, and share nothing. A yardstick.
 *   lodic_view  the block read in place, and asked afterwards whether that was right.
 *   lodic_read_inline, lodic_pin_inline, lodic_view_inline
 *               the same three, by lodic/inline.h.
 *   pin_atomic  the same calls on a cache that counts in one shared word (cas loop).
 *   pin_frozen  the same, in one shared word by fetch-and-add.
 *   pin_hazard  the same, in a slot of the context that names the frame.
 *   pread       the kernel's page cache.
 *   cas_pair    private, between two compare-and-swaps of a word that nobody shares: what
 *               a counter must cost at least. A yardstick, not a way to read.
 */
#ifndef LODIC_BENCH_MEASURE_METHOD_H
#define LODIC_BENCH_MEASURE_METHOD_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/own_cache.h"
#include "lodic/inline.h"

enum method {
	METHOD_PRIVATE,
	METHOD_MMAP,
	METHOD_LODIC_READ,
	METHOD_LODIC_READ_INLINE,
	METHOD_LODIC_PIN,
	METHOD_LODIC_PIN_INLINE,
	METHOD_LODIC_PIN_LOCK,
	METHOD_LODIC_PIN_APART,
	METHOD_PIN_ATOMIC,
	METHOD_PIN_FROZEN,
	METHOD_PIN_HAZARD,
	METHOD_PIN_HAZARD_LIGHT,
	METHOD_LODIC_VIEW,
	METHOD_LODIC_VIEW_INLINE,
	METHOD_PREAD,
	METHOD_CAS_PAIR,
	NR_METHODS
};

/* The caches that are compared: a scheme, and what orders its pins. The first ones are enum
 * lodic_scheme, with the fence that they are shipped with. */
enum method_cache {
	CACHE_LODIC,
	CACHE_ATOMIC,
	CACHE_FROZEN,
	CACHE_HAZARD,
	CACHE_LODIC_LOCK,   /* an atomic exchange in each pin */
	CACHE_HAZARD_LIGHT, /* a plain store in each slot */
	CACHE_LODIC_APART,  /* as CACHE_LODIC, for one process alone */
	NR_CACHES
};

/* Everything that a reader process reads with. */
struct method_ground {
	const uint8_t *private_bytes;
	const uint8_t *mapped_bytes;
	int fd;
	struct own_cache_seat seats[NR_CACHES];
	uint8_t *buffer; /* of a block, and aligned to one */
	uint64_t *word;  /* for cas_pair, alone in its cache line */
	/* Results. */
	uint64_t nr_fallbacks; /* pins that were refused and became reads */
	uint64_t nr_failed;    /* reads that did not give all their bytes */
};

/* The offsets of reads: steps position, position + 1, ... of a sequence that wraps. */
struct method_steps {
	const uint32_t *units;
	uint64_t position;
	/* A power of two from 64 to 4096. Offsets are rounded down to it. */
	uint32_t bytes;
};

/* Does nr reads. */
void method_run(enum method method, struct method_ground *g,
                const struct method_steps *s, uint64_t nr);

/* The offset of step i. */
uint64_t method_offset(const struct method_steps *s, uint64_t i);

/* The cache that the method uses, as enum method_cache; -1: none. */
int method_cache(enum method method);
/* "lodic", "atomic", ..., "hazard-light". */
const char *method_cache_name(enum method_cache cache);
const struct own_cache_kind *method_cache_kind(enum method_cache cache);
const char *method_name(enum method method);

#endif
