/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a resize takes along from one service to the next (resize.h): files, and as many of their
 * blocks as there is room for. Both services are of this process. Between two calls the main
 * thread goes on with the first one.
 *
 *   carry_files()   for each held file, a worker opens a description, and `to` proves it
 *   carry_blocks()  frames are copied, and published in `to`
 *
 * The second round takes what has come meanwhile. For that no fill may begin in it.
 *
 * RS1 before the service publishes a block in the new arena, it looks at the old proof of the file,
 *     which must hold. The new proof must have begun before that look. The old proof holds since
 *     before the block was read. So the old frame has the bytes that the file had when the new
 *     proof held. If that still holds at the publication (O20), no writer has come between. When
 *     the bytes were copied does not matter: nobody but this thread changes a cached frame.
 * RS2 the two descriptions of a file have a read lease each. A writer waits for both lease
 *     threads. Each revokes its arena's file before it gives its lease back (L1).
 */
#ifndef LODIC_LIB_SERVICE_SUCCESSION_CARRY_H
#define LODIC_LIB_SERVICE_SUCCESSION_CARRY_H

#include "lib/service/base/worker.h"
#include "core/cache/reclaim.h"
#include "core/frame.h"

struct file_past;
struct service;

/* Files that workers open at once, of WORKERS_MOST. */
#define CARRY_OPENS 4u
#define CARRY_VISITS (FRAME_VISITS_MAX + 1)

struct carry_opening;

/* What becomes of the frames in one queue of eviction. */
struct carry_queue {
	u32 counts[CARRY_VISITS]; /* frames, by visits */
	/* Frames with fewer visits stay behind, and so do the next `more` with just so many. */
	u32 least, more;
};

/* The file in slot of `to' has just been opened there, and goes on from its past. Its program comes
 * back when it next reads. Until then a file without a name stays. */
void carry_past(struct service *to, u32 slot, const struct file_past *past);
/* Decides which frames stay behind where `to' has not room for all: those that eviction would take
 * first. The counts stand in queues[RECLAIM_SMALL] and [RECLAIM_MAIN]; queues are filled. */
void carry_plan(struct service *to, struct carry_queue *queues, bool filled);
/* Does the next frame of the queue, with so many visits, stay behind? */
bool carry_leaves(struct carry_queue *queue, u32 visits);

struct carry {
	struct service *to;
	bool again;      /* the second round */
	u64 had, taken;  /* blocks */
	u64 progress_ns; /* when the last file came back */
	u32 slot;        /* the next file */
	struct carry_opening *openings[CARRY_OPENS];
	struct carry_file *files; /* by slot */
	bool counted;             /* the frames; once */
	u32 frame;                /* the next to count */
	struct carry_queue queues[RECLAIM_MAIN + 1];
	u32 queue; /* the one whose frames are copied; RECLAIM_OUT: none yet */
	u64 nr_looks;
};

/* -ENOMEM. carry_fini() may be called in any case. carry_begin() says where all goes. */
int carry_init(struct carry *c, const struct service *s);
void carry_begin(struct carry *c, struct service *to);
void carry_fini(struct carry *c);

/* One turn's work. CARRY_WAITS: until a worker or a read comes back, or some time has passed. */
enum carry_next { CARRY_ON, CARRY_WAITS, CARRY_DONE };
enum carry_next carry_files(struct service *s, struct carry *c);
enum carry_next carry_blocks(struct service *s, struct carry *c);
/* Workers that have not come back yet need not any more. */
void carry_forget(struct carry *c);
/* The number in `to` of the file of s with this id. FILE_NONE: it stays behind. */
u32 carry_new_id(const struct carry *c, const struct service *s, u32 id);

#endif
