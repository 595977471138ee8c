/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the files of `lodic bench service` share. */
#ifndef LODIC_BENCH_COMMAND_SERVICE_H
#define LODIC_BENCH_COMMAND_SERVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bench/measure/rig.h"
#include "bench/measure/times.h"
#include "lib/service/trial.h"

/* The reader is a process that uses the measured service by the library, as any program would.
 * It gets an order, carries it out, and answers. */
enum service_reader_ask {
	/* Attaches a times, each time with a context, and opens a file that is a hole. n: the
	 * file's inode number. */
	ASK_ATTACH,
	/* The first a contexts pin b blocks each, of those from c up to d. n: pins. */
	ASK_PIN,
	ASK_UNPIN,
	/* Makes a file of a bytes, and opens it. */
	ASK_MAKE,
	/* Asks for all of that file and waits. n: its blocks. ns: how long it took. */
	ASK_FILL,
	/* Makes files 0 to a - 1. */
	ASK_FILES,
	/* Opens and closes them, one after the other: shared->open_wall, open_cpu. */
	ASK_OPEN,
	/* Opens them and closes none, until one is not cached; reads that one, and then closes
	 * all. n: those that were cached. refused: why the next one was not; 0: all were. */
	ASK_HOLD,
};

struct service_reader_order {
	uint32_t kind;
	uint64_t a, b, c, d;
};

struct service_reader_answer {
	int error;
	int refused;
	uint64_t n, ns;
};

/* Both processes have it. The reader writes. */
struct service_reader_shared {
	uint64_t done; /* of what the order asks for */
	struct times open_wall;
	struct times open_cpu; /* CPU time of all threads of the service's process */
};

struct service_reader_setup {
	const char *socket;
	const char *folder; /* for its files */
	int channel;
	struct service_reader_shared *shared;
};

/* The path of file i in folder. */
#define SERVICE_READER_PATH_BYTES 4200
void bench_service_reader_path(char path[SERVICE_READER_PATH_BYTES], const char *folder,
                               uint64_t i);

/* The child of a fork() calls it, before its parent opens the service. */
_Noreturn void bench_service_reader_run(const struct service_reader_setup *setup);

/* ---- the measurement, and what it finds ---- */

enum service_row {
	ROW_EVICT,
	ROW_EVICT_PINNED,
	ROW_FILL,
	ROW_OPEN,
	ROW_OPEN_WALL,
	ROW_REAP,
	ROW_TURN,
	ROW_BARRIER,
	NR_ROWS
};

struct service_result {
	uint64_t nr;      /* of what the row counts */
	uint64_t wall_ns; /* that it took, by the clock; 0: not asked */
	struct times times;
};

struct service_bench {
	/* What the user asked for. */
	uint64_t memory, nr_contexts, nr_files, ms, nr_pinning, nr_pins;
	enum service_barrier barrier;
	const char *workdir;
	bool json;

	char sockets[OWN_CACHE_FOLDER_BYTES], socket[OWN_CACHE_SOCKET_BYTES];
	char folder[SERVICE_READER_PATH_BYTES];
	struct service_reader_shared *shared;
	pid_t reader; /* 0: none */
	int channel;
	struct service_trial *trial;
	uint64_t frames, pinned;
	uint64_t held, limit; /* files, by so many descriptors */
	int refused;          /* why the next file was not cached; 0: there was none */
	bool light;
	struct service_result results[NR_ROWS];
	char why[RIG_WHY_BYTES];
};

/* Print what was measured. */
void bench_service_report_json(const struct service_bench *b);
void bench_service_report_table(const struct service_bench *b);

#endif
