/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a measurement stands on: four caches of its own (one per scheme, each a service
 * with a socket in a private folder), the file in all of them, and reader processes.
 * rig_close() leaves nothing behind, whatever had been set up.
 */
#ifndef LODIC_MEASURE_RIG_H
#define LODIC_MEASURE_RIG_H

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#include "measure/corpus.h"
#include "measure/methods.h"
#include "measure/reader.h"
#include "measure/workload.h"

#define RIG_MAX_READERS 16
#define RIG_SOCKET_BYTES 108 /* sockaddr_un has no more */
#define RIG_FOLDER_BYTES 64
#define RIG_WHY_BYTES 256

struct rig_reader {
	pid_t pid; /* 0: none */
	int channel;
};

struct rig_cache {
	char socket[RIG_SOCKET_BYTES];
	struct method_seat seat; /* the parent's: keeps the file in the cache */
	uint64_t service_pid;
	uint64_t cached_blocks;
};

struct rig {
	const struct corpus *corpus;
	struct workload workload;
	uint8_t *private_bytes;
	uint64_t private_map_bytes;
	char folder[RIG_FOLDER_BYTES];
	struct rig_cache caches[NR_SCHEMES];
	struct rig_reader readers[RIG_MAX_READERS];
	unsigned int nr_readers;
	int cpus[RIG_MAX_READERS]; /* where reader i stays, if there are as many */
	unsigned int nr_cpus;      /* that this process may use */
	char why[RIG_WHY_BYTES];   /* what went wrong, a sentence */
};

/* Sets all of it up. -errno with rig->why; call rig_close() then, too. What
 * lodic_file_cached() says comes through: -EACCES -ETXTBSY -EOPNOTSUPP mean that a copy
 * of the file may do better. -EINTR: cli_stopped. */
int rig_open(struct rig *rig, const struct corpus *corpus, unsigned int nr_readers,
             uint64_t seed);
void rig_close(struct rig *rig);

/* Gives nr readers an order each and waits for all their reports. -errno with rig->why:
 * one of them failed, died, or does not answer; or cli_stopped (-EINTR). */
int rig_ask(struct rig *rig, const struct reader_order *orders, unsigned int nr,
            struct reader_report *ret_reports);

/* Starts a cache of scheme for the program's own use, and takes a seat in it for the
 * file fd. -errno as lodic_attach(), lodic_open() and lodic_file_cached(). */
int rig_cache_start(struct rig_cache *cache, const char *folder,
                    enum lodic_scheme scheme, uint64_t cache_bytes, int fd);
/* Ends its service and waits until it is gone. */
void rig_cache_stop(struct rig_cache *cache);

/* A folder of one's own for sockets. -errno. */
int rig_folder_make(char *path, unsigned int bytes);

/* The CPUs that this process may use, those that share a core last; returns how many
 * there are. */
unsigned int rig_cpus(int *ret_cpus, unsigned int most);

#endif
