/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a measurement runs on: caches of its own, the file in all of them, and reader
 * processes. Each cache is a service of one kind with a socket in a private folder.
 * rig_close() removes all that was set up, even after a failure half way.
 */
#ifndef LODIC_BENCH_MEASURE_RIG_H
#define LODIC_BENCH_MEASURE_RIG_H

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#include "bench/measure/corpus.h"
#include "bench/measure/method.h"
#include "bench/measure/reader.h"
#include "bench/measure/workload.h"
#include "cli/own_cache.h"

/* A service holds 1024 contexts, and the largest machine that lodic-sim knows has so many
 * CPUs. */
#define RIG_MAX_READERS 512
#define RIG_WHY_BYTES 256

struct rig_reader {
	pid_t pid; /* 0: none */
	int channel;
};

struct rig {
	const struct corpus *corpus;
	struct workload workload;
	uint8_t *private_bytes;
	uint64_t private_map_bytes;
	char folder[OWN_CACHE_FOLDER_BYTES];
	struct own_cache caches[NR_CACHES];
	struct rig_reader readers[RIG_MAX_READERS];
	unsigned int nr_readers;
	int cpus[RIG_MAX_READERS]; /* where reader i stays, if there are as many */
	const char *huge_pages;    /* the setting of all caches; NULL: the default */
	unsigned int nr_cpus;      /* that this process may use */
	/* What rig_ask() sends to reader i, and what reader i answers. */
	struct reader_order orders[RIG_MAX_READERS];
	struct reader_report reports[RIG_MAX_READERS];
	char why[RIG_WHY_BYTES]; /* what went wrong, for the user */
};

/* Caches are served by the program at path. NULL: by the `lodic` beside this program, or else in
 * folder, which is relative to this program's own. */
void rig_serve_by(const char *path, const char *folder);

/* Sets all of it up. -errno with rig->why; the caller must call rig_close() then, too.
 * -EACCES -ETXTBSY -EOPNOTSUPP: lodic_file_cached() refuses the file, and may accept a
 * copy. -EINTR: cli_stopped. */
int rig_open(struct rig *rig, const struct corpus *corpus, unsigned int nr_readers,
             uint64_t seed, const char *huge_pages);
void rig_close(struct rig *rig);

/* Gives the first nr readers their rig->orders and waits for rig->reports. -errno with
 * rig->why: one of them failed, died, or does not answer. -EINTR: cli_stopped. */
int rig_ask(struct rig *rig, unsigned int nr);

#endif
