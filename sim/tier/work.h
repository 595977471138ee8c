/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Generators: workloads with the shape of the paper's (KLOCs Table 3), and controls. A workload
 * is a function that makes the events of one step, an operation of one of its threads. What all
 * share is here: the queue of events that a step fills, and what a kernel does for a file or a
 * socket. All choices follow from the seed.
 */
#ifndef LODIC_SIM_TIER_WORK_H
#define LODIC_SIM_TIER_WORK_H

#include "core/kloc/kloc.h"
#include "sim/tier/cost.h"
#include "sim/tier/event.h"

#define WORK_PAGE 4096u
#define WORK_TABLE_SLOTS 64u /* frames in one node of the file's index */
#define WORK_EXTENT_FRAMES 256u

/* A file's small objects have these indexes in kind KLOC_SLAB; extents follow. */
enum { WORK_INODE, WORK_DENTRY, WORK_EXTENT };

struct work;

/* One kind of workload. */
struct work_kind {
	const char *name;
	const char *what;    /* for people */
	const void *variant; /* for begin(), where kinds share their functions */
	bool is_control;
	size_t state_bytes;
	/* 0 or -ENOMEM. It sets nr_cpus, os_percent and what is to be touched. */
	int (*begin)(struct work *w);
	/* Makes the next events. Called until the run has touched enough. */
	void (*step)(struct work *w);
	void (*end)(struct work *w); /* frees what begin() allocated; may be NULL */
};

struct work {
	struct tier_source source;
	const struct work_kind *kind;
	const struct cost_work *cost;
	void *state;
	u64 random;
	u32 scale; /* all bytes of the paper are divided by it */
	u32 reuse; /* of a frame while its file is open, in controls; 0: their own */
	/* Events that a step has made, and that the caller has not taken. */
	struct tier_event *queue;
	u32 head, nr, room;
	bool failed;      /* no memory for the queue */
	bool measured;    /* TIER_MEASURE was emitted */
	u64 touched;      /* bytes of frames and of programs since then */
	u64 to_touch;     /* the run ends there */
	u32 next_file;    /* ids are never used again */
	u32 next_cpu;     /* whose turn it is */
	u32 nr_new;       /* frames since the last journal block */
	u32 nr_request;   /* frames in the block request under way, */
	u32 request_file; /* and the file that it began with */
	/* Journal blocks that are not checkpointed yet: a ring. */
	u32 *journal_files, *journal_indexes;
	u32 journal_at, journal_room, next_journal;
	u32 app_pages, app_loaded; /* of all programs; those touched so far */
};

struct work_options {
	u64 seed;
	u32 scale;
	u32 reuse; /* 0: the control's own */
	const struct cost *cost;
};

extern const struct work_kind *const work_kinds[];
extern const u32 work_nr_kinds;

/* A source of that workload's events. -ENOENT: no such workload. -E2BIG: more threads than
 * TIER_MAX_CPUS. -ENOMEM. */
int work_open(const char *name, const struct work_options *options,
              struct tier_source **ret_source);

/* For generators. */
u32 work_random(struct work *w, u32 n); /* below n */
/* Below n, by Zipf's law with theta in percent; 0 is uniform. Low numbers are frequent. */
u32 work_zipf(struct work *w, u32 n, u32 theta_percent);
/* Bytes of the paper's machine, in MiB, at this scale: in pages, at least least. */
u32 work_pages(const struct work *w, u64 mib, u32 percent, u32 least);
u32 work_turn(struct work *w); /* the next CPU, round robin over those that are busy */
void work_emit(struct work *w, enum tier_op op, u32 cpu, u32 kind, u32 file, u32 index,
               u32 bytes);

/* Memory of programs. */
void work_app(struct work *w, u32 cpu, u32 page, u32 bytes, bool write);
/* Has so much of the application's memory touched as part is of whole. */
void work_app_load(struct work *w, u32 cpu, u64 part, u64 whole);

/* A file: its inode, dentry, index, extents, journal blocks and block requests. */
u32 work_file_create(struct work *w, u32 cpu); /* open */
void work_file_open(struct work *w, u32 cpu, u32 file);
void work_file_close(struct work *w, u32 cpu, u32 file);
void work_file_unlink(struct work *w, u32 cpu, u32 file);
void work_file_append(struct work *w, u32 cpu, u32 file, u32 frame);
void work_file_write(struct work *w, u32 cpu, u32 file, u32 frame, u32 bytes);
void work_file_read(struct work *w, u32 cpu, u32 file, u32 frame, u32 bytes);

/* A socket: packets come and go. flight: how many of its packets stay in memory. */
struct work_socket {
	u32 file, next, flight;
};
void work_socket_open(struct work *w, u32 cpu, struct work_socket *socket, u32 flight);
void work_socket_packet(struct work *w, u32 cpu, struct work_socket *socket, u32 bytes);

/* What came before was preparation. */
void work_measure(struct work *w);
/* The run ends when so many pages were touched, run_percent times. */
void work_footprint(struct work *w, u32 pages);

#endif
