/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * See mover.h.
 *
 *   request --hide, and a free frame of the other tier--> open batch --the fence--> away
 *                                                                                    |
 *   cached there <--copied, led to, cleared-- nobody has it pinned <-----------------+
 *   cached here  <--shown, the free frame goes back-- pinned, rescued, or its file has gone
 *
 * The target is set aside when the frame is hidden. So a move that has begun does not end for
 * want of room, and a fill finds fewer free frames for a fence's time.
 *
 * Eviction counts such a target as a frame that comes. Otherwise each move in a full cache would
 * push a block out. Another one would then come in, however many have come (admission.h).
 *
 * Eviction may choose a frame that is hidden for a move. It hides the frame by its own number,
 * and the move passes it by (B1 in core/cache/batch.h). The mover in turn leaves alone what
 * eviction has hidden.
 */
#include <errno.h>

#include "core/cache/move.h"
#include "lib/service/file/files.h"
#include "lib/service/frame/fence.h"
#include "lib/service/frame/mover.h"
#include "lib/service/frame/sweep.h"
#include "lib/service/tier/policy.h"
#include "lib/service/tier/tier.h"
#include "lib/service/tier/where.h"
#include "lib/service/frame/state.h"
#include "lib/service/file/held.h"

/* Files that wait to be moved, one after the other; a power of two. */
#define MOVER_FILES 4096u
/* What a frame touches besides the arena when it moves: lists of its file, queues, free frames. */
#define RELINK_LINES 16u
/* To look at the next frame of a file. */
#define NEXT_LINES 6u
#define NO_OBJECT 0xffffffffu
/* Batches of eviction have 1 and 2. */
#define FIRST_NUMBER 3u

/* What becomes of a request for one frame. */
enum mover_answer {
	MOVER_BEGUN, /* it is hidden, and moves or stays when the fence is over */
	MOVER_DONE, /* it has moved already: words were frozen, and there was no fence */
	MOVER_THERE, /* it lies in that tier */
	MOVER_BUSY, /* it is pinned, on its way out, moving, or holds nothing of a live file */
	MOVER_NO_ROOM, /* that tier has no free frame */
};

struct mover_batch {
	struct batch batch;
	u32 targets[BATCH_FRAMES]; /* where its frames go */
	u64 blocks[BATCH_FRAMES];  /* what they held then */
	u32 objects[BATCH_FRAMES]; /* the policy's, or NO_OBJECT */
};

struct mover_file {
	u32 slot, id;
	u32 left; /* frames of it to look at */
	u32 to;   /* enum tier */
};

struct mover {
	struct mover_batch batches[2];
	struct mover_batch *open; /* hidden frames go there */
	struct mover_batch *away; /* its fence or its walk is under way; NULL: none */
	bool waits;               /* for that fence */
	u64 fence;
	u32 lines;          /* that this turn may still touch */
	bool more;          /* the policy may have more to move */
	u32 head, nr_files; /* of files */
	struct mover_file files[MOVER_FILES];
};

int mover_init(struct frames *s)
{
	struct mover *m;

	if (!tier_are_two(s->tiers))
		return 0;
	m = port_alloc(sizeof(*m));
	if (!m)
		return -ENOMEM;
	for (u32 i = 0; i < 2; i++)
		batch_init(&m->batches[i].batch, FIRST_NUMBER + i);
	m->open = &m->batches[0];
	s->mover = m;
	return 0;
}

void mover_fini(struct frames *s)
{
	port_free(s->mover);
	s->mover = NULL;
}

static void mover_spend(struct mover *m, u32 lines)
{
	m->lines -= lines < m->lines ? lines : m->lines;
}

static u32 mover_walk_lines(const struct frames *s, const struct batch *b)
{
	return walk_lines(s->arena, &b->list) + MOVE_LINES + RELINK_LINES +
	       SWEEP_FRAME_LINES;
}

/* Visits that nobody has collected yet would be lost at the old frame. */
static void mover_collect(struct frames *s, u32 frame)
{
	u8 visits = 0;

	sweep_collect(s, frame, 1, &visits);
	if (visits)
		reclaim_collect(&s->reclaim, frame, visits);
}

/* All but the arena knows the block by its new frame from now on (MV6). */
static void mover_moved(struct frames *s, u64 block, u32 source, u32 target)
{
	reclaim_move(&s->reclaim, source, target);
	policy_follow(s->tiers, source, target);
	files_move_frame(s->files, files_find(s->files, block_file(block)), source,
	                 target);
	tier_push(s->tiers, source);
}

/* May the block of frame move at all? */
static bool mover_may(struct frames *s, u32 frame)
{
	const struct frame *f = &s->arena->frames[frame];
	const struct held_file *file;

	if (host_load_relaxed(&f->state) != FRAME_CACHED ||
	    batch_is_hidden(s->arena, frame))
		return false;
	file = files_find(s->files, block_file(host_load_relaxed(&f->block)));
	return file && files_is_live(s->files, file);
}

/* Under atomic and frozen: at once, or not. */
static enum mover_answer mover_word(struct frames *s, u32 frame, u32 target)
{
	u64 block = host_load_relaxed(&s->arena->frames[frame].block);
	bool moved;

	mover_collect(s, frame);
	tier_move_begun(s->tiers, target);
	moved = move_word(s->arena, frame, target);
	if (moved)
		mover_moved(s, block, frame, target);
	mover_spend(s->mover, MOVE_LINES + RELINK_LINES);
	tier_move_ended(s->tiers, target, moved);
	return moved ? MOVER_DONE : MOVER_BUSY;
}

/* The open batch has room. */
static enum mover_answer mover_frame(struct frames *s, u32 frame, enum tier to,
                                     u32 object)
{
	struct mover *m = s->mover;
	struct batch *b = &m->open->batch;
	u32 target;

	if (tier_of(s->tiers, frame) == to)
		return MOVER_THERE;
	if (!mover_may(s, frame))
		return MOVER_BUSY;
	target = tier_set_aside(s->tiers, to);
	if (target == FRAME_NONE)
		return MOVER_NO_ROOM;
	if (s->arena->counts)
		return mover_word(s, frame, target);
	/* The list says which contexts had pins lately: that spares a hide in vain. */
	mover_spend(m, walk_lines(s->arena, &s->evict.list) + NEXT_LINES);
	if (!batch_add(s->arena, b, &s->evict.list, frame)) {
		tier_put_back(s->tiers, target);
		return MOVER_BUSY;
	}
	m->open->targets[b->nr - 1] = target;
	m->open->objects[b->nr - 1] = object;
	m->open->blocks[b->nr - 1] = host_load_relaxed(&s->arena->frames[frame].block);
	tier_move_begun(s->tiers, target);
	return MOVER_BEGUN;
}

/* ---- files ---- */

int mover_file(struct frames *s, u32 slot, enum tier to)
{
	struct held_file *f = files_at(s->files, slot);
	struct mover *m = s->mover;

	if (!m)
		return -ENOTSUP;
	if (tier_has_policy(s->tiers))
		return -EPERM;
	held_set_tier(f, to);
	if (m->nr_files == MOVER_FILES)
		return -EAGAIN;
	m->files[(m->head + m->nr_files++) % MOVER_FILES] =
		(struct mover_file){ slot, held_id(f), held_nr_frames(f), to };
	return 0;
}

int mover_request(struct frames *s, u64 to, u64 dev, u64 ino)
{
	const struct held_file *f = files_find_held(s->files, dev, ino);

	if (to >= NR_TIERS)
		return -EINVAL;
	return f ? mover_file(s, files_slot(s->files, f), (enum tier)to) : -ENOENT;
}

/* The next frame of the file that comes first. The open batch has room. */
static void mover_next_of_file(struct frames *s)
{
	struct mover *m = s->mover;
	struct mover_file *j = &m->files[m->head];
	enum mover_answer answer = MOVER_NO_ROOM;
	const struct held_file *f = NULL;
	u32 frame = FRAME_NONE;

	mover_spend(m, NEXT_LINES);
	if (j->left > 0)
		f = files_find(s->files, j->id);
	/* A later request has another opinion, or the file has gone. */
	if (f && held_where(f)->tier == j->to)
		frame = files_next_frame(s->files, j->slot);
	if (frame != FRAME_NONE) {
		j->left--;
		answer = mover_frame(s, frame, (enum tier)j->to, NO_OBJECT);
	}
	if (answer == MOVER_NO_ROOM) {
		m->head = (m->head + 1) % MOVER_FILES;
		m->nr_files--;
	}
}

static bool mover_is_full(const struct frames *s)
{
	const struct batch *b = &s->mover->open->batch;

	return batch_is_full(b) ||
	       (s->tables->move_batch && b->nr >= s->tables->move_batch);
}

static bool mover_has_room(const struct frames *s)
{
	return s->mover->lines > 0 && !mover_is_full(s);
}

static void mover_files(struct frames *s)
{
	struct mover *m = s->mover;

	while (m->nr_files > 0 && mover_has_room(s))
		mover_next_of_file(s);
}

/* ---- the policy's ---- */

static void mover_policy(struct frames *s)
{
	struct mover *m = s->mover;
	struct policy_move p;

	m->more = tier_has_policy(s->tiers);
	while (m->more && mover_has_room(s)) {
		mover_spend(m, NEXT_LINES);
		m->more = policy_next(s->tiers, &p);
		if (!m->more)
			break;
		switch (mover_frame(s, p.frame, p.to, p.object)) {
		case MOVER_BEGUN: break;
		case MOVER_DONE:
		case MOVER_THERE: policy_moved(s->tiers, p.object, POLICY_MOVED); break;
		case MOVER_BUSY: policy_moved(s->tiers, p.object, POLICY_BUSY); break;
		case MOVER_NO_ROOM:
			policy_moved(s->tiers, p.object, POLICY_NO_ROOM);
			break;
		}
	}
}

/* ---- turns ---- */

/* The fence of the batch that is away fails: its frames stay. */
static void mover_show_away(struct frames *s)
{
	const struct batch *b = &s->mover->away->batch;

	for (u32 i = 0; i < b->nr; i++)
		if (frame_is_hidden(&s->arena->frames[b->frames[i]], b->number))
			batch_rescue(s->arena, b->frames[i]);
}

static void mover_fenced(struct frames *s)
{
	struct mover *m = s->mover;
	enum fence_state state;

	if (!m->waits)
		return;
	state = fence_state(s, m->fence);
	if (state == FENCE_WAITS)
		return;
	m->waits = false;
	if (state == FENCE_FAILED)
		mover_show_away(s);
	batch_fenced(s->arena, &m->away->batch);
	mover_spend(m, s->arena->nr_contexts);
}

static void mover_send(struct frames *s)
{
	struct mover *m = s->mover;

	if (m->away || m->open->batch.nr == 0)
		return;
	batch_close(s->arena, &m->open->batch);
	m->away = m->open;
	m->open = &m->batches[m->away == &m->batches[0]];
	m->waits = true;
	m->fence = fence_want(s);
	mover_fenced(s);
}

/* The file of a frame in the batch may have gone meanwhile: then the frame is an orphan. */
static void mover_leave_orphan(struct frames *s, const struct batch *b, u32 frame)
{
	const struct frame *f = &s->arena->frames[frame];

	if (frame_is_hidden(f, b->number) &&
	    !files_find(s->files, block_file(host_load_relaxed(&f->block))))
		batch_rescue(s->arena, frame);
}

/* Ends the move of one more frame. false: that was the last. */
static bool mover_walk_one(struct frames *s)
{
	struct mover *m = s->mover;
	struct batch *b = &m->away->batch;
	u32 target = FRAME_NONE, frame = FRAME_NONE, object = NO_OBJECT;
	u64 block = BLOCK_NONE;
	enum batch_end end;

	if (b->at < b->nr) {
		target = m->away->targets[b->at];
		object = m->away->objects[b->at];
		frame = b->frames[b->at];
		block = m->away->blocks[b->at];
		mover_leave_orphan(s, b, frame);
		if (frame_is_hidden(&s->arena->frames[frame], b->number))
			mover_collect(s, frame);
	}
	end = move_next(s->arena, b, target, &frame);
	if (end == BATCH_DONE) {
		m->away = NULL;
		return false;
	}
	if (end == BATCH_TAKEN)
		mover_moved(s, block, frame, target);
	tier_move_ended(s->tiers, target, end == BATCH_TAKEN);
	if (object != NO_OBJECT)
		policy_moved(s->tiers, object,
		             end == BATCH_TAKEN ? POLICY_MOVED : POLICY_BUSY);
	return true;
}

static void mover_walk(struct frames *s)
{
	struct mover *m = s->mover;
	u32 lines = mover_walk_lines(s, &m->away->batch);

	/* At least one a turn, however many pin. */
	do {
		if (!mover_walk_one(s))
			return;
		mover_spend(m, lines);
	} while (m->lines >= lines);
}

bool mover_run(struct frames *s)
{
	struct mover *m = s->mover;

	if (!m)
		return false;
	m->lines = TURN_LINES;
	mover_fenced(s);
	if (m->away && !m->waits)
		mover_walk(s);
	mover_files(s);
	mover_policy(s);
	mover_send(s);
	return (m->away && !m->waits) ||
	       ((m->nr_files > 0 || m->more) && !mover_is_full(s));
}

bool mover_is_idle(const struct frames *s)
{
	const struct mover *m = s->mover;

	return !m || (!m->away && m->open->batch.nr == 0 && m->nr_files == 0);
}
