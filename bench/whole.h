/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * bench_whole: how a program gets a whole file as one range of memory, and what that costs. Five
 * ways alternate, in an order drawn anew:
 *
 *   pread      the file is read through a buffer, and each later look is a pread()
 *   mmap       mapped, and each page comes when it is touched
 *   populate   mapped with MAP_POPULATE
 *   own        read into memory of the process's own
 *   hold       lodic_hold() of the whole file
 *
 * Every way begins once cold and once warm. Cold: the file is not in the page cache, and no hold
 * of it is left. Warm: the page cache has it, and a hold that was released before is still there.
 *
 * Each process takes three times. The first is until its first byte is there, and the second until
 * it has read one byte of each page. The third is of a copy of 64 bytes from a random place. A
 * process that has a hold then takes the same one again and again, which is a time of its own.
 * Then all processes wait, and their memory is weighed: the growth of their PSS and the service's.
 * The page cache is weighed beside it, because it is nobody's PSS unless it is mapped.
 */
#ifndef LODIC_BENCH_WHOLE_H
#define LODIC_BENCH_WHOLE_H

#include <limits.h>
#include <stdio.h>

#include "bench/measure/rig.h"
#include "bench/measure/slots.h"
#include "cli/series.h"

#define WHOLE_MAX_PROCESSES 4u
#define WHOLE_MAX_SIZES 8u

enum whole_way {
	WHOLE_PREAD,
	WHOLE_MMAP,
	WHOLE_POPULATE,
	WHOLE_OWN,
	WHOLE_HOLD,
	WHOLE_NR_WAYS
};
enum whole_start { WHOLE_COLD, WHOLE_WARM, WHOLE_NR_STARTS };
/* 1, 2 and 4 processes. */
#define WHOLE_NR_CROWDS 3u

enum whole_op { WHOLE_ATTACH, WHOLE_USE, WHOLE_WEIGH, WHOLE_LEAVE };

/* What one process has measured. */
struct whole_figures {
	u64 first_ns, last_ns; /* since it began */
	double random_ns;      /* for each copy */
	u64 again_ns;          /* hold: one more hold and its first byte, median */
	u64 pss_before, pss_after;
	u64 nr_wrong;
	int error; /* 0 or -errno */
	u32 pad;
};

/* What the processes are told, in shared memory. */
struct whole_order {
	enum whole_op op;
	enum whole_way way;
	char path[PATH_MAX];
	char socket[OWN_CACHE_SOCKET_BYTES];
	u64 bytes;     /* the file's */
	u64 window_ns; /* of random copies */
	struct whole_figures figures[WHOLE_MAX_PROCESSES];
};

/* Word i of the file. */
static inline u64 whole_word(u64 i)
{
	return (i + 1) * 0x9e3779b97f4a7c15u;
}

/* Does what order says; slots_call() runs it in each process. Returns 1 if that failed. */
u64 whole_process_run(void *order, u32 process, u64 position, u64 nr);
/* The proportional set size of a process; 0: unknown. */
u64 whole_pss(long pid);

struct whole_plan {
	u64 sizes[WHOLE_MAX_SIZES];
	u32 nr_sizes;
	u32 rounds;
	u32 cold_rounds; /* of rounds: those in which the way also begins cold */
	u64 window_ns;
	u64 seed;
	const char *huge_pages; /* the service's setting; NULL: its default */
};

/* One way, from one start, with so many processes. Times are of the slowest process. */
struct whole_cell {
	struct series first_us, last_us, random_ns;
	struct series again_us;   /* of one process, for hold alone */
	struct series memory;     /* bytes: of all processes and the service together */
	struct series page_cache; /* bytes of the file in it afterwards */
};

struct whole_bench {
	struct whole_plan plan;
	struct slots processes;
	struct whole_order *order;
	char folder[OWN_CACHE_FOLDER_BYTES];
	char path[PATH_MAX];
	struct own_cache cache;
	u64 holds_read; /* ranges that the service read, in all */
	u64 nr_wrong;
	u64 huge_percent; /* of the largest hold that was seen */
	u64 duration_ns;
	struct whole_cell cells[WHOLE_MAX_SIZES][WHOLE_NR_CROWDS][WHOLE_NR_STARTS]
			       [WHOLE_NR_WAYS];
	char why[RIG_WHY_BYTES];
};

/* Sets everything up and measures. -errno with b->why; -EINTR: cli_stopped. The caller must call
 * whole_bench_drop() in any case. */
int whole_bench_run(struct whole_bench *b, const struct whole_plan *plan,
                    const char *folder);
void whole_bench_drop(struct whole_bench *b);

const char *whole_way_name(enum whole_way way);
u32 whole_crowd(u32 i); /* 1, 2, 4 */

void whole_print(const struct whole_bench *b, FILE *to);
/* Prints what is promised with its figure; NULL: prints nothing. Returns how many were missed. */
u32 whole_goals(const struct whole_bench *b, FILE *to);
void whole_print_json(const struct whole_bench *b, FILE *to);
/* -errno. */
int whole_write_csv(const struct whole_bench *b, const char *path);

#endif
