/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What a run keeps: for engine.c and engine_objects.c alone. */
#ifndef LODIC_SIM_TIER_ENGINE_STATE_H
#define LODIC_SIM_TIER_ENGINE_STATE_H

#include "sim/tier/engine.h"
#include "sim/tier/table.h"

/* By core/kloc's number. */
struct engine_object {
	u32 file, index, bytes;
	u8 kind;
	bool was_used; /* for engine_reclaim() */
	bool is_live;
	u32 next, before; /* among those of its file */
	u32 opening; /* of its file, when it was used last; and was that measured? */
	double begin_ns;
};

/* All bytes of a new file are 0. */
#define KNODE_NONE_YET 0u
#define KNODE_UNGROUPED 1u
#define KNODE_FIRST 2u

struct engine_file {
	u32 knode; /* its number + KNODE_FIRST, or one of the two above */
	u32 first; /* of its objects */
	u32 nr_opens;
	u32 opening;    /* how often it was opened while nobody had it open */
	u32 last_frame; /* the last one read, for readahead */
	bool is_unlinked;
};

struct engine {
	const struct engine_options *options;
	struct tier_source *source;
	struct kloc *kloc;
	struct charge charge;
	struct table names; /* of objects: value is the number */
	struct engine_object *objects;
	u32 nr_objects; /* room */
	struct engine_file *files;
	u32 nr_files; /* room */
	u32 hand;     /* engine_reclaim()'s clock, over objects */
	double tick_ns;
	double work_ns; /* that the kernel's threads may still use */
	bool is_measured;
	u32 task_cpus; /* added to each event's CPU: where the tasks are now */
	const struct tier_event *adding; /* inside kloc_add() */
	struct kloc_stat last;           /* at the turn before */
	struct engine_result *result;
	u64 live[KLOC_NR_KINDS];
};

/* 0 or -ENOMEM. */
int engine_objects_begin(struct engine *e, u32 nr);
void engine_objects_end(struct engine *e);

/* KLOC_NONE: there is none. */
u32 engine_find(const struct engine *e, u32 file, u32 kind, u32 index);
/* The file, which begins if it is new. NULL: no memory. */
struct engine_file *engine_file(struct engine *e, u32 file);
/* KLOC_NONE: the file has no group. f may be NULL. */
u32 engine_knode(const struct engine_file *f);
/* Places an object. KLOC_NONE: there is no room, even after some frames were given back. */
u32 engine_add(struct engine *e, const struct tier_event *event, u32 cpu,
               bool prefetch);
void engine_remove(struct engine *e, u32 object);
/* Removes what an unlinked file still has. */
void engine_remove_all(struct engine *e, struct engine_file *file);

#endif
