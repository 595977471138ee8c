/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A reader process of the benchmarks: forked before anybody attaches, tied to its
 * parent by a socket, asleep until it gets an order. It ends when the parent's end
 * closes, also when the parent was killed.
 */
#ifndef LODIC_MEASURE_READER_H
#define LODIC_MEASURE_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "measure/methods.h"
#include "measure/workload.h"

#define READER_WHY_BYTES 120

enum reader_op {
	READER_ATTACH, /* to all caches; opens the file */
	READER_VERIFY, /* read the whole file in every way and compare */
	READER_SLOT,   /* one measured slot */
};

struct reader_order {
	enum reader_op op;
	enum method method;
	enum access access;
	uint32_t bytes;
	uint64_t position;
	uint64_t start_ns, warm_ns, window_ns;
	int cpu;   /* stay there; -1: anywhere */
	bool spin; /* wait for start_ns busily: there is a CPU for each reader */
};

struct reader_report {
	int error; /* 0 or -errno; why says the rest */
	char why[READER_WHY_BYTES];
	/* READER_SLOT */
	uint64_t nr_ops, begin_ns, end_ns;
	uint64_t nr_all_ops; /* with the warm-up; so are hits, misses, nr_fallbacks */
	bool preempted;
	/* READER_SLOT and READER_VERIFY */
	uint64_t hits, misses; /* of the method's cache; of all caches */
	uint64_t nr_fallbacks; /* pins that were refused */
	uint64_t nr_wrong_bytes;
	/* READER_VERIFY: in the lodic cache, and in all caches */
	uint64_t read_bytes, pinned_bytes, all_bytes;
};

/* What a reader finds in the memory that it was forked with. */
struct reader_setup {
	const char *path;
	uint64_t file_bytes;
	const uint8_t *private_bytes;
	const struct workload *workload;
	const char *sockets[NR_SCHEMES]; /* NULL: that cache is not there */
};

/* Serves orders from channel until it closes; never returns. */
_Noreturn void reader_run(const struct reader_setup *setup, int channel);

/* 0 when this reader can use all caches, or -errno. Also for the parent itself. */
int reader_take_seat(struct method_seat *seat, const char *socket, int fd);
void reader_leave_seat(struct method_seat *seat);

#endif
