/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Where the measured reads go: sequences of offsets, made once from a printed seed. All
 * methods and processes share them, so that no method gets easier accesses than another.
 */
#ifndef LODIC_BENCH_MEASURE_WORKLOAD_H
#define LODIC_BENCH_MEASURE_WORKLOAD_H

#include <stdint.h>

/* A power of two, and so many that a slot does not wrap to what it has read before.
 * Reading a piece again would turn misses of the CPU's caches into hits. */
#define WORKLOAD_STEPS ((uint64_t)1 << 20)
#define WORKLOAD_UNIT_BYTES 64
#define WORKLOAD_UNIT_SHIFT 6
/* About the skew of YCSB and of the S3-FIFO authors' synthetic traces. */
#define WORKLOAD_ZIPF_SKEW 0.98
#define WORKLOAD_SEED UINT64_C(20240731)

enum access { ACCESS_HOT, ACCESS_RANDOM, ACCESS_ZIPF, NR_ACCESSES };

struct workload {
	/* Offsets in units of 64 bytes, within whole blocks. hot: within one block. */
	uint32_t *units[NR_ACCESSES];
	uint64_t nr_blocks;
	uint64_t seed;
};

/* -ENOMEM; -EINVAL: the file has no whole block, or more units than 32 bits name. */
int workload_make(struct workload *w, uint64_t file_bytes, uint64_t seed);
void workload_drop(struct workload *w);

const char *workload_access_name(enum access access);
/* -EINVAL: no such name. */
int workload_access_parse(const char *name, enum access *ret_access);

/* A popularity: item i of n is drawn with a weight of (its rank)^-skew. A shuffle gives the
 * items their ranks, so that hot ones are not neighbours. */
struct workload_zipf {
	double *cumulated; /* weights of ranks */
	uint32_t *items;   /* rank -> item */
	uint64_t n;
};

/* -ENOMEM. */
int workload_zipf_make(struct workload_zipf *z, uint64_t n, double skew,
                       uint64_t *state);
void workload_zipf_drop(struct workload_zipf *z);
uint32_t workload_zipf_draw(const struct workload_zipf *z, uint64_t *state);

/* A number below n; all are equally likely. */
uint64_t workload_random_below(uint64_t *state, uint64_t n);

/* A generator of 64 random bits; the state is the caller's. */
uint64_t workload_random(uint64_t *state);

#endif
