/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A reader process of the benchmarks. The rig forks it before any process attaches. It
 * sleeps until an order comes through its socket. It ends when the parent closes the other
 * end, or is killed.
 */
#ifndef LODIC_BENCH_MEASURE_READER_H
#define LODIC_BENCH_MEASURE_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/measure/method.h"
#include "bench/measure/workload.h"

#define READER_WHY_BYTES 120

enum reader_op {
	READER_ATTACH, /* to all caches; opens the file */
	READER_VERIFY, /* read a part of the file in every way and compare */
	READER_SLOT,   /* one measured slot */
};

struct reader_order {
	enum reader_op op;
	/* READER_VERIFY; the rest is READER_SLOT's. */
	uint64_t verify_offset, verify_bytes;
	enum method method;
	enum access access;
	uint32_t bytes;
	uint64_t position;
	uint64_t start_ns, warm_ns, window_ns;
	int cpu;   /* stay there; -1: anywhere */
	bool spin; /* wait for start_ns busily, because each reader has a CPU */
};

struct reader_report {
	int error; /* 0 or -errno, with why */
	char why[READER_WHY_BYTES];
	/* READER_SLOT */
	uint64_t nr_ops, begin_ns, end_ns;
	uint64_t
		nr_all_ops; /* with the warm-up, as are hits, misses and nr_fallbacks */
	bool preempted;
	/* READER_SLOT and READER_VERIFY */
	/* Of the method's cache; READER_VERIFY: of the lodic cache. */
	uint64_t hits, misses;
	uint64_t nr_fallbacks; /* refused pins */
	uint64_t nr_wrong_bytes;
	/* READER_VERIFY: in the lodic cache, and in all caches */
	uint64_t read_bytes, pinned_bytes, all_bytes;
};

/* What a reader inherits from its parent. */
struct reader_setup {
	const char *path;
	uint64_t file_bytes;
	const uint8_t *private_bytes;
	const struct workload *workload;
	const char *sockets[NR_CACHES]; /* NULL: there is no such cache */
};

/* Carries out orders from channel until that closes; never returns. */
_Noreturn void reader_run(const struct reader_setup *setup, int channel);

#endif
