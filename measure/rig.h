/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a measurement runs on: caches of its own, the file in all of them, and reader
 * processes. Each cache is a service of one kind with a socket in a private folder.
 * rig_close() removes all that was set up, even after a failure half way.
 */
#ifndef LODIC_MEASURE_RIG_H
#define LODIC_MEASURE_RIG_H

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#include "measure/corpus.h"
#include "measure/method.h"
#include "measure/reader.h"
#include "measure/workload.h"

/* A service holds 1024 contexts, and the largest machine that lodic-sim knows has so many
 * CPUs. */
#define RIG_MAX_READERS 512
#define RIG_SOCKET_BYTES 108 /* sockaddr_un has no more */
#define RIG_FOLDER_BYTES 64
#define RIG_WHY_BYTES 256
#define RIG_MAX_GLOBS 64

struct rig_reader {
	pid_t pid; /* 0: none */
	int channel;
};

struct rig_cache {
	char socket[RIG_SOCKET_BYTES];
	struct method_seat seat; /* the parent's; it keeps the file in the cache */
	uint64_t
		hold_bytes; /* for holds, beside the cache; to be set before the start */
	const char *const *immutable; /* the same; NULL: what files of settings say */
	uint64_t service_pid;
	uint64_t cached_blocks;
};

struct rig {
	const struct corpus *corpus;
	struct workload workload;
	uint8_t *private_bytes;
	uint64_t private_map_bytes;
	char folder[RIG_FOLDER_BYTES];
	struct rig_cache caches[NR_CACHES];
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

/* Sets all of it up. -errno with rig->why; the caller must call rig_close() then, too.
 * -EACCES -ETXTBSY -EOPNOTSUPP: lodic_file_cached() refuses the file, and may accept a
 * copy. -EINTR: cli_stopped. */
int rig_open(struct rig *rig, const struct corpus *corpus, unsigned int nr_readers,
             uint64_t seed, const char *huge_pages);
void rig_close(struct rig *rig);

/* Gives the first nr readers their rig->orders and waits for rig->reports. -errno with
 * rig->why: one of them failed, died, or does not answer. -EINTR: cli_stopped. */
int rig_ask(struct rig *rig, unsigned int nr);

/* Starts a cache of this kind with room for cache_bytes, and takes a seat in it for the
 * file of fd. The cache is larger if nr_contexts could not all pin otherwise. -errno as
 * lodic_attach(), lodic_open() and lodic_file_cached(). */
int rig_cache_start(struct rig_cache *cache, const char *folder, enum method_cache kind,
                    uint64_t cache_bytes, unsigned int nr_contexts,
                    const char *huge_pages, int fd);
/* From now on the program at path serves caches: it is `lodic`, and this program is not. path
 * must stay. */
void rig_serve_by(const char *path);
/* The path of that program, or of this one. */
const char *rig_served_by(void);
/* The `lodic` of the build that this program of bench/ is of. */
const char *rig_lodic_beside(void);
/* Ends its service and waits until it is gone. */
void rig_cache_stop(struct rig_cache *cache);

/* Makes a private folder for sockets, which goes with this program. -errno. */
int rig_folder_make(char *path, unsigned int bytes);

#endif
