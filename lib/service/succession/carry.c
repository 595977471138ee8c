/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * See carry.h. Which blocks come along where not all have room: those that S3-FIFO would keep.
 * Frames are counted by their visits first. Then each queue is gone over from its old end, and
 * those that eviction would take first stay behind. GHOST's names stay behind, too.
 */
#include <errno.h>
#include <string.h>

#include "core/cache/cache.h"
#include "lib/port.h"
#include "lib/service/file/files.h"
#include "lib/service/frame/evict.h"
#include "lib/service/frame/fill.h"
#include "lib/service/succession/carry.h"
#include "lib/service/tier/policy.h"
#include "lib/service/tier/tier.h"
#include "lib/service/tier/where.h"
#include "lib/service/succession/whole.h"
#include "lib/service/base/base.h"
#include "lib/service/base/worker.h"
#include "lib/service/file/held.h"
#include "lib/service/file/opens.h"
#include "lib/service/file/past.h"
#include "lib/service/file/proof.h"

/* Stuck workers count by program. These two are none: for local files, and for others. */
#define PROCESS_LOCAL (-2)
#define PROCESS_OTHER (-3)
/* How long to wait for a file that does not come back. Our choice. A local one does, but its worker
 * may have to wait for a CPU on a loaded machine. */
#define PATIENCE_NS (500 * NS_PER_MS)
#define PATIENCE_LOCAL_NS (2000 * NS_PER_MS)
#define SLOTS_PER_TURN 4096u
#define LOOK_LINES 12u /* node, frame, visit, file; in the new arena the translation */
#define COPY_LINES (2 * (u32)(BLOCK_BYTES / 64) + 16u)

/* A file of the old arena, and what it is in the new one. */
struct carry_file {
	u32 id, new_id; /* FILE_NONE: it is not there */
};

struct carry_opening {
	struct worker_job job;
	struct carry *c; /* the main thread's; NULL: nobody waits for it */
	struct service_options options;
	u32 slot, id;
	int fd;
	bool local;
	struct passed_file file;
};

int carry_init(struct carry *c, const struct service *s)
{
	c->files = port_alloc(s->memory.shape.nr_files * sizeof(*c->files));
	return c->files ? 0 : -ENOMEM;
}

void carry_begin(struct carry *c, struct service *to)
{
	c->to = to;
	c->progress_ns = host_now_ns();
}

void carry_fini(struct carry *c)
{
	carry_forget(c);
	port_free(c->files);
}

u32 carry_new_id(const struct carry *c, const struct service *s, u32 id)
{
	const struct carry_file *file = &c->files[(id - 1) % s->memory.shape.nr_files];

	return file->id == id ? file->new_id : FILE_NONE;
}

/* ---- files ---- */

static void carry_open_work(struct worker_job *job)
{
	struct carry_opening *o = (struct carry_opening *)job;

	proof_look(&o->options, &o->fd, &o->file);
}

void carry_past(struct service *to, u32 slot, const struct file_past *past)
{
	u32 id = held_id(files_at(&to->files, slot));

	past_go_on(&to->files, &to->tiers, slot, past,
	           past->nr_opens > 0 &&
	                   opens_add(&to->change.handed, to->memory.shape.nr_files,
	                             slot, id) == 0);
}

/* The new service proves the file that a worker has opened. */
static void carry_admit(struct service *s, struct carry_opening *o)
{
	struct service *to = o->c->to;
	const struct held_file *f = files_find(&s->files, o->id);
	struct file_past past;
	u32 slot;

	if (!f || files_open(&to->files, &o->file, held_where(f)->cpu, &slot) != 0)
		return;
	o->c->files[o->slot] =
		(struct carry_file){ o->id, held_id(files_at(&to->files, slot)) };
	past = past_of(f);
	carry_past(to, slot, &past);
}

static void carry_came_back(struct carry *c, const struct carry_opening *o)
{
	for (u32 i = 0; i < CARRY_OPENS; i++)
		if (c->openings[i] == o)
			c->openings[i] = NULL;
	c->progress_ns = host_now_ns();
}

static void carry_open_done(void *owner, struct worker_job *job)
{
	struct service *s = owner;
	struct carry_opening *o = (struct carry_opening *)job;

	if (o->fd >= 0)
		worker_close(&s->base, o->fd);
	if (worker_was_refused(&o->job))
		o->file.fd = -1;
	else if (o->c)
		carry_admit(s, o);
	if (o->file.fd >= 0)
		worker_close(&s->base, o->file.fd);
	if (o->c)
		carry_came_back(o->c, o);
	port_free(o);
}

void carry_forget(struct carry *c)
{
	for (u32 i = 0; i < CARRY_OPENS; i++) {
		if (c->openings[i])
			c->openings[i]->c = NULL;
		c->openings[i] = NULL;
	}
}

/* Not here: every close of a descriptor flushes its file, also where others of the same description
 * stay open. The file's server may be dead. */
static void carry_open_refused(struct service *s, struct carry_opening *o)
{
	if (o->fd >= 0 && o->local)
		worker_close_local(&s->base, o->fd);
	else if (o->fd >= 0)
		worker_close(&s->base, o->fd);
	port_free(o);
}

/* A file that cannot be opened now stays behind: programs pass it again. */
static void carry_open(struct service *s, struct carry *c, u32 slot,
                       struct carry_opening **ret)
{
	const struct held_file *f = held_at(&s->files, slot);
	struct carry_opening *o;

	if (!f || files_find(&c->to->files, carry_new_id(c, s, held_id(f))))
		return;
	o = port_alloc(sizeof(*o));
	if (!o)
		return;
	o->local = held_is_local(f);
	worker_job_init(&o->job, WORKER_ANY, o->local ? PROCESS_LOCAL : PROCESS_OTHER,
	                OWNER_SERVICE, carry_open_work, carry_open_done);
	o->c = c;
	o->options = s->options;
	o->slot = slot;
	o->id = held_id(f);
	o->fd = port_dup(held_fd(f));
	if (o->fd >= 0 && worker_do(&s->base, &o->job) == 0) {
		*ret = o;
		return;
	}
	carry_open_refused(s, o);
}

static u64 carry_patience(const struct carry *c)
{
	for (u32 i = 0; i < CARRY_OPENS; i++)
		if (c->openings[i] && c->openings[i]->local)
			return PATIENCE_LOCAL_NS;
	return PATIENCE_NS;
}

enum carry_next carry_files(struct service *s, struct carry *c)
{
	u32 most = SLOTS_PER_TURN, nr = 0;
	bool late = host_now_ns() - c->progress_ns > carry_patience(c);

	if (late)
		carry_forget(c);
	for (u32 i = 0; i < CARRY_OPENS; i++) {
		while (!c->openings[i] && c->slot < s->memory.shape.nr_files &&
		       most-- > 0)
			carry_open(s, c, c->slot++, &c->openings[i]);
		nr += c->openings[i] != NULL;
	}
	if (late && c->slot < s->memory.shape.nr_files)
		c->progress_ns = host_now_ns();
	if (c->slot < s->memory.shape.nr_files)
		return nr < CARRY_OPENS ? CARRY_ON : CARRY_WAITS;
	/* The second time no read may come back after its blocks were looked for. */
	if (nr > 0 || (c->again && fill_is_busy(&s->frames) && !late))
		return CARRY_WAITS;
	c->slot = 0;
	return CARRY_DONE;
}

/* ---- blocks ---- */

/* nr frames of the queue stay behind: those that eviction would take first. */
static void carry_leave(struct carry_queue *q, u32 nr)
{
	while (q->least < FRAME_VISITS_MAX && nr >= q->counts[q->least])
		nr -= q->counts[q->least++];
	q->more = nr;
}

static u32 carry_nr(const struct carry_queue *q)
{
	u32 nr = 0;

	for (u32 i = 0; i < CARRY_VISITS; i++)
		nr += q->counts[i];
	return nr;
}

void carry_plan(struct service *to, struct carry_queue *queues, bool filled)
{
	struct reclaim *r = &to->frames.reclaim;
	u32 nr_small = carry_nr(&queues[RECLAIM_SMALL]);
	u32 nr_main = carry_nr(&queues[RECLAIM_MAIN]);
	u32 room = evict_nr_spare(&to->frames);
	u32 small = room > r->main_size ? room - r->main_size : 0;
	u32 keep_main, keep_small;

	reclaim_adopt_begin(r, filled || (u64)nr_small + nr_main > room);
	/* SMALL keeps its part, and what MAIN leaves. */
	small = small < nr_small ? small : nr_small;
	keep_main = nr_main < room - small ? nr_main : room - small;
	keep_small = nr_small < room - keep_main ? nr_small : room - keep_main;
	carry_leave(&queues[RECLAIM_MAIN], nr_main - keep_main);
	carry_leave(&queues[RECLAIM_SMALL], nr_small - keep_small);
}

/* true: all are counted. */
static bool carry_count(const struct service *s, struct carry *c)
{
	u32 queue;

	for (u32 left = TURN_LINES; c->frame < s->memory.shape.nr_frames; left--) {
		if (left == 0)
			return false;
		queue = evict_queue(&s->frames, c->frame);
		if (queue == RECLAIM_SMALL || queue == RECLAIM_MAIN)
			c->queues[queue].counts[evict_visits(&s->frames, c->frame)]++;
		c->frame++;
	}
	c->had = (u64)carry_nr(&c->queues[RECLAIM_SMALL]) +
	         carry_nr(&c->queues[RECLAIM_MAIN]);
	carry_plan(c->to, c->queues, s->frames.reclaim.filled);
	c->counted = true;
	return true;
}

bool carry_leaves(struct carry_queue *q, u32 visits)
{
	if (visits > q->least)
		return false;
	if (visits < q->least)
		return true;
	if (q->more == 0)
		return false;
	q->more--;
	return true;
}

/* Copies frame of f, whose file is n in the new arena. */
static void carry_copy(struct service *s, struct carry *c, u32 frame,
                       const struct held_file *f, const struct held_file *n, u64 block)
{
	struct service *to = c->to;
	u32 slot = files_slot(&to->files, n);
	/* Both services have two tiers, or neither has. */
	u32 copy = policy_frame_again(&to->tiers, held_where(n), block_index(block),
	                              tier_of(&s->tiers, frame));
	u32 visits = evict_visits(&s->frames, frame);

	cache_fill_begin(&to->memory.arena, copy);
	memcpy(arena_frame_bytes(&to->memory.arena, copy),
	       arena_frame_bytes(&s->memory.arena, frame), BLOCK_BYTES);
	if (!files_is_live(&s->files, f)) /* RS1: n's proof began when n was admitted */
		fill_publish(&to->frames, slot, copy, block, false);
	else if (fill_adopt(&to->frames, slot, copy, block,
	                    (enum reclaim_queue)c->queue, visits))
		c->taken++;
}

/* Takes the block in frame along, if it is worth it. Returns the lines it has touched. */
static u32 carry_block(struct service *s, struct carry *c, u32 frame)
{
	u64 block = host_load_relaxed(&s->memory.arena.frames[frame].block);
	const struct held_file *f = files_find(&s->files, block_file(block));
	const struct held_file *n;

	if (!f || (!c->again &&
	           carry_leaves(&c->queues[c->queue], evict_visits(&s->frames, frame))))
		return LOOK_LINES;
	n = files_find(&c->to->files, carry_new_id(c, s, held_id(f)));
	if (!n || held_size(n) != held_size(f))
		return LOOK_LINES;
	block = block_id(held_id(n), block_index(block));
	if (fill_has(&c->to->frames, block))
		return LOOK_LINES;
	carry_copy(s, c, frame, f, n, block);
	return LOOK_LINES + COPY_LINES;
}

/* The next queue: MAIN, then SMALL. false: there is none. */
static bool carry_next_queue(struct service *s, struct carry *c)
{
	if (c->queue == RECLAIM_SMALL)
		return false;
	c->queue = c->queue == RECLAIM_MAIN ? RECLAIM_SMALL : RECLAIM_MAIN;
	c->nr_looks = 0;
	reclaim_walk_begin(&s->frames.reclaim, (enum reclaim_queue)c->queue);
	return true;
}

enum carry_next carry_blocks(struct service *s, struct carry *c)
{
	u32 lines = TURN_LINES;

	if (!c->counted && !carry_count(s, c))
		return CARRY_ON;
	while (lines > LOOK_LINES + COPY_LINES) {
		u32 frame = c->queue == RECLAIM_OUT ? RECLAIM_NONE
		                                    : reclaim_walk(&s->frames.reclaim);

		/* Twice the frames: the hand of eviction may keep moving some to the end. */
		if (frame != RECLAIM_NONE && evict_nr_spare(&c->to->frames) > 0 &&
		    c->nr_looks++ < 2 * (u64)s->memory.shape.nr_frames) {
			lines -= carry_block(s, c, frame);
		} else if (!carry_next_queue(s, c)) {
			c->queue = RECLAIM_OUT;
			c->again = true;
			c->progress_ns = host_now_ns();
			return CARRY_DONE;
		}
	}
	return CARRY_ON;
}
