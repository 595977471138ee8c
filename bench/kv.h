/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * bench_kv: a key-value reader, as people write it over a file of records that no longer
 * change. A get finds a record by its number and verifies every byte of it. The record has
 * 1000 bytes, so every fourth one crosses the border of a block. Processes get records by
 * pread, by mmap, by lodic_read() and in place by lodic_pinv(). A record that crosses a border
 * is verified in its two pinned pieces. When a pin says that a block is not cached, the reader
 * takes the record by pread.
 *
 * Results are gets in a second of CPU time. They count user and system time of the readers
 * and of the service together, until the service rests. So nothing that the service does for
 * the readers is free, and a busy machine changes little. Ways to get alternate in short
 * slots, in an order drawn anew.
 *
 * Settings:
 *   roomy   the whole file is in the cache before the first get
 *   tight   the cache has a fifth of the file
 *   cold    the cache could hold the file and begins empty, anew for each slot. The number is
 *           how often readers went to the kernel for a block that they came by.
 */
#ifndef LODIC_BENCH_KV_H
#define LODIC_BENCH_KV_H

#include <limits.h>
#include <stdio.h>

#include "bench/measure/rig.h"
#include "bench/measure/slots.h"
#include "cli/series.h"

#define KV_RECORD_BYTES 1000u
#define KV_RECORD_WORDS (KV_RECORD_BYTES / 8)
#define KV_MAX_READERS 16u
#define KV_ZIPF_SKEW 0.99
/* Keys of each distribution that are drawn in advance; a power of two. */
#define KV_NR_KEYS ((u64)1 << 22)

enum kv_method { KV_PREAD, KV_MMAP, KV_READ, KV_PIN, KV_NR_METHODS };
enum kv_draw { KV_ZIPF, KV_RANDOM, KV_NR_DRAWS };
enum kv_setting { KV_ROOMY, KV_TIGHT, KV_COLD, KV_NR_SETTINGS };
/* Why a get by pins became a copy: they refuse two pieces, a block is not cached, or they refuse
 * one piece. */
enum kv_copy { KV_BORDER, KV_UNCACHED, KV_REFUSED, KV_NR_COPIES };

/* The file, and the records that are asked for. Readers inherit it. */
struct kv_store {
	char path[PATH_MAX];
	char filesystem[32];
	u64 bytes, nr_records, nr_blocks;
	u32 *keys[KV_NR_DRAWS]; /* shared memory */
};

/* What readers did in a slot: one of them, or all together. */
struct kv_tally {
	u64 nr_gets, nr_wrong, nr_failed;
	u64 cpu_ns;
	u64 nr_kernel; /* blocks that came from the kernel, by pread() or in lodic_read() */
	u64 copies[KV_NR_COPIES];
	u64 pad[2];
};

enum kv_op { KV_ATTACH, KV_GET, KV_LEAVE };

/* What readers are told, in shared memory. */
struct kv_order {
	enum kv_op op;
	char socket[OWN_CACHE_SOCKET_BYTES];
	enum kv_method method;
	enum kv_draw draw;
	u64 window_ns;                /* a reader stops after this time, */
	u64 most_gets;                /* or after so many gets */
	u64 position[KV_MAX_READERS]; /* in the keys, mod KV_NR_KEYS; moves on */
	struct kv_tally tallies[KV_MAX_READERS]; /* the readers write */
	int errors[KV_MAX_READERS];              /* KV_ATTACH: 0 or -errno */
};

/* Makes a file of `bytes` in folder, which goes with the program, and draws the keys. -errno;
 * -EINTR: cli_stopped. */
int kv_store_make(struct kv_store *store, const char *folder, u64 bytes, u64 seed);
void kv_store_drop(struct kv_store *store);
/* The part of the file that the kernel's page cache holds, 0 to 1. */
double kv_store_warmth(const struct kv_store *store);

/* The sum that the words of record key have. */
u64 kv_record_sum(u64 key);

/* Does what order says; slots_call() runs it in each reader. Returns 1 if that failed. */
u64 kv_reader_run(void *order, u32 reader, u64 position, u64 nr);
/* The readers inherit it: call it before they are forked. */
void kv_reader_prepare(const struct kv_store *store);

struct kv_plan {
	bool settings[KV_NR_SETTINGS];
	u32 nr_readers;
	u32 rounds, cold_rounds;
	u64 slot_ns;
	u64 warm_ns; /* tight: before the first slot */
	u64 file_bytes;
	u64 cold_gets; /* of each reader in a cold slot */
	u64 seed;
};

/* One way to get, in one setting, with one distribution of keys. */
struct kv_cell {
	struct series rate;          /* gets in a second of CPU time */
	struct series service_share; /* of the CPU time */
	struct series kernel_reads;  /* cold: of each block that readers came by */
	struct series cached;        /* cold: the part of those blocks that is cached */
	struct kv_tally sum;         /* of all slots */
	u64 cache_bytes;             /* of its setting */
};

struct kv {
	struct kv_plan plan;
	struct kv_store store;
	struct slots readers;
	struct kv_order *order;
	char folder[OWN_CACHE_FOLDER_BYTES];
	struct own_cache cache;
	u8 *touched; /* a byte a block */
	struct kv_cell cells[KV_NR_SETTINGS][KV_NR_DRAWS][KV_NR_METHODS];
	u64 duration_ns;
	double warmth; /* at the end: kv_store_warmth() */
	char why[RIG_WHY_BYTES];
};

/* Sets everything up and measures. -errno with kv->why; -EINTR: cli_stopped. The caller must
 * call kv_drop() in any case. */
int kv_run(struct kv *kv, const struct kv_plan *plan, const char *folder);
void kv_drop(struct kv *kv);

const char *kv_setting_name(enum kv_setting setting);

/* Prints tables. */
void kv_print(const struct kv *kv, FILE *to);
/* Prints what is promised with its figure; NULL: prints nothing. Returns how many goals were
 * missed. */
u32 kv_goals(const struct kv *kv, FILE *to);
void kv_print_json(const struct kv *kv, FILE *to);
/* -errno. */
int kv_write_csv(const struct kv *kv, const char *path);

#endif
