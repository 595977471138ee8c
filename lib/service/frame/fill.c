/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * From a hint to a cached block. Only the main thread comes here.
 *
 *   rings --take_hints--> queue --run--> frames, a read under way --reap--> published
 *                           ^      |
 *                           +------+ the rest of a long range: behind the others
 *
 * A range of a file that may not answer goes on to a queue of its own (far) while it has to wait.
 * So it is in no other range's way, and no turn looks at it in vain.
 *
 * Hints are advisory. The service validates each one and may drop it. The service reads a
 * block only if it is neither cached nor under way, so no two frames ever hold one block.
 *
 * fill_hints.c has the way into the queue.
 *
 * The service publishes a read only if the file is still vouched for when the read has come
 * back: cache_fill_end() looks (O20). If a writer got through before the last byte was read,
 * the lease thread had revoked the file before (L1 in lease.c). The service never publishes
 * an error. A reader of such a block gets the kernel's answer from its own pread().
 */
#include <string.h>

#include "core/cache/cache.h"
#include "lib/service/file/files.h"
#include "lib/service/frame/evict.h"
#include "lib/service/frame/fill.h"
#include "lib/service/frame/fill_hints.h"
#include "lib/service/frame/reads.h"
#include "lib/service/tier/policy.h"
#include "lib/service/frame/state.h"
#include "lib/service/frame/stuck.h"
#include "lib/service/base/base.h"
#include "lib/service/file/held.h"
#include "lib/service/tier/tier.h"
#include "lib/service/frame/sync.h"

/* A step looks at so many blocks of a range at most, when all are there already. A look
 * touches so many lines: translation, frame, reads under way. */
#define SKIPS_PER_STEP 1024u
#define SKIP_LINES 4u
#define BLOCK_LINES ((u32)(BLOCK_BYTES / 64))
/* Steps before the main loop looks at its clients again. */
#define STEPS_PER_TURN 128u
/* All frames are pinned: readers have the kernel meanwhile. */
#define STARVED_NS (10 * NS_PER_MS)

static bool block_is_wanted(const struct frames *s, u32 id, u64 index)
{
	return fill_frame(s, block_id(id, (u32)index)) == FRAME_NONE &&
	       !fill_is_under_way(s, id, index);
}

void fill_sync_begin(const struct frames *s, struct fill_sync *sync)
{
	/* A round that is under way may have passed the hint by. */
	sync->round = s->fill.nr_rounds + 1 + (s->fill.round_asked > 0);
}

bool fill_sync_is_done(const struct frames *s, struct fill_sync *sync, u64 oldest)
{
	if (s->fill.nr_rounds < sync->round)
		return false;
	if (sync->round > 0)
		*sync = (struct fill_sync){ .ticket = s->fill.ticket };
	return sync->ticket < oldest;
}

static u64 queue_oldest(const struct fill_queue *queue)
{
	u64 oldest = UINT64_MAX;

	for (u32 i = 0; i < queue->nr; i++) {
		u64 ticket = queue->ranges[(queue->head + i) % FILL_QUEUE].ticket;

		oldest = ticket < oldest ? ticket : oldest;
	}
	return oldest;
}

u64 fill_oldest(const struct frames *s)
{
	const struct fill *fill = &s->fill;
	u64 now = host_now_ns();
	u64 oldest = queue_oldest(&fill->queue), far = queue_oldest(&fill->far);

	oldest = far < oldest ? far : oldest;
	for (u32 i = 0; i < FILL_OPS; i++) {
		const struct fill_op *op = &fill->ops[i];

		if (op->busy && !stuck_is(op, now) && op->ticket < oldest)
			oldest = op->ticket;
	}
	return oldest;
}

/* Are all reads stuck that may be under way at once? */
static bool fill_is_stuck(const struct frames *s)
{
	return s->fill.nr_busy >= s->fill.most_busy && stuck_all(s);
}

/* Are as many reads of files under way that may not answer as there may be? These get half of all
 * reads, so that local files always have some. */
static bool fill_is_far_full(const struct fill *fill)
{
	return fill->nr_far >= fill->most_busy / 2;
}

/* The bytes of the op's i-th block that a file of this size has. */
static u64 op_valid(const struct fill_op *op, u64 size, u32 i)
{
	u64 at = (op->first + i) << BLOCK_SHIFT;

	return size - at < BLOCK_BYTES ? size - at : BLOCK_BYTES;
}

static u64 op_block(const struct fill_op *op, u32 i)
{
	return block_id(op->id, (u32)(op->first + i));
}

/* All but the queues of eviction. */
static bool fill_end(struct frames *s, u32 slot, u32 frame, u64 block, bool whole)
{
	const struct cache_file file = { &s->arena->files[slot], block_file(block) };

	if (!cache_fill_end(s->arena, &file, frame, block, whole)) {
		policy_free(s->tiers, frame);
		return false;
	}
	files_link_frame(s->files, slot, frame);
	service_count(&s->arena->header->nr_cached, 1);
	return true;
}

static bool fill_insert(struct frames *s, u32 slot, u32 frame, u64 block, bool whole,
                        bool unread)
{
	if (!fill_end(s, slot, frame, block, whole))
		return false;
	if (unread)
		reclaim_insert_unread(&s->reclaim, frame, block);
	else
		reclaim_insert(&s->reclaim, frame, block);
	service_count(&s->arena->header->nr_admitted, 1);
	return true;
}

bool fill_publish(struct frames *s, u32 slot, u32 frame, u64 block, bool whole)
{
	return fill_insert(s, slot, frame, block, whole, false);
}

bool fill_adopt(struct frames *s, u32 slot, u32 frame, u64 block,
                enum reclaim_queue queue, u32 visits)
{
	if (!fill_end(s, slot, frame, block, true))
		return false;
	reclaim_adopt(&s->reclaim, frame, block, queue, visits);
	return true;
}

/* The op's i-th block: valid bytes of it are there, if whole. */
static void op_publish(struct frames *s, const struct fill_op *op, u32 i, u64 valid,
                       bool whole)
{
	u32 frame = op->frames[i];

	if (whole)
		memset((u8 *)arena_frame_bytes(s->arena, frame) + valid, 0,
		       BLOCK_BYTES - valid);
	fill_insert(s, op->slot, frame, op_block(op, i), whole, op->ahead);
}

static void fill_note_time(struct look_times *times, u64 ns)
{
	times->nr[look_time_bucket(ns)]++;
	times->sum_ns += ns;
}

/* result: bytes read, or -errno. */
static void op_end(struct frames *s, struct fill_op *op, int result)
{
	struct held_file *f = files_at(s->files, op->slot);
	u64 size = held_size(f);
	bool live, failed = false;
	u64 valid, now;
	u32 i;

	if (reads_again(s, op, result))
		return;
	/* A retired file's frames are nobody's to link, and its short reads no errors. */
	live = files_is_live(s->files, f);
	for (i = 0; i < op->nr; i++) {
		valid = op_valid(op, size, i);
		if (result < 0 || (u64)result < ((u64)i << BLOCK_SHIFT) + valid)
			failed = true;
		op_publish(s, op, i, valid, live && !failed);
	}
	if (live && failed)
		service_count(&s->arena->header->nr_errors, 1);
	now = host_now_ns();
	fill_note_time(&s->times[LOOK_TIMES_FILL], now - op->since_ns);
	fill_note_time(&s->times[LOOK_TIMES_MISS], now - op->hinted_ns);
	op->busy = false;
	s->fill.nr_busy--;
	s->fill.nr_far -= op->far;
	s->fill.nr_filling -= op->nr;
	files_fill_ended(s->files, f);
}

static void fill_spend(struct fill *fill, u32 lines)
{
	fill->lines -= lines < fill->lines ? lines : fill->lines;
}

static void op_begin(struct frames *s, struct fill_op *op)
{
	for (u32 i = 0; i < op->nr; i++) {
		cache_fill_begin(s->arena, op->frames[i]);
		op->pieces[i] =
			(struct port_piece){ arena_frame_bytes(s->arena, op->frames[i]),
			                     BLOCK_BYTES };
	}
	op->busy = true;
	op->since_ns = host_now_ns();
	s->fill.nr_busy++;
	s->fill.nr_far += op->far;
	s->fill.nr_filling += op->nr;
	files_fill_begun(files_at(s->files, op->slot));
	fill_spend(&s->fill, reads_begin(s, op) * BLOCK_LINES);
}

static struct fill_op *op_get(struct fill *fill)
{
	u32 i = 0;

	while (fill->ops[i].busy) /* the caller knows that one is not */
		i++;
	return &fill->ops[i];
}

/* The next blocks of range that are wanted, up to FILL_RUN in a row: returns how many,
 * and moves range.next to the first. */
static u32 range_next_run(struct frames *s, struct fill_range *range)
{
	u32 skips = 0, nr = 0;

	while (range->next < range->end && skips++ < SKIPS_PER_STEP &&
	       !block_is_wanted(s, range->id, range->next))
		range->next++;
	fill_spend(&s->fill, skips * SKIP_LINES);
	if (skips > SKIPS_PER_STEP)
		return 0;
	while (nr < FILL_RUN && range->next + nr < range->end &&
	       block_is_wanted(s, range->id, range->next + nr))
		nr++;
	return nr;
}

/* Whether a turn goes on to its next step. */
enum fill_next {
	FILL_ON,
	FILL_SPENT,   /* the next turn goes on */
	FILL_STARVED, /* only a read that comes back, a fence, or an unpin helps */
};

/* Readers ask again. */
static void fill_drop_all(struct fill *fill)
{
	fill->queue.nr = 0;
	fill->far.nr = 0;
}

/* No frame is free, and none can be taken. Reads under way will bring some. If there are
 * none, or all are stuck, the other frames are pinned. Then the service drops the hints: readers
 * have the kernel, and ask again. */
static enum fill_next fill_starve(struct frames *s, struct fill_queue *from,
                                  const struct fill_range *range)
{
	if (!stuck_all(s)) {
		fill_queue_push(from, range);
	} else {
		s->fill.starved_until_ns = host_now_ns() + STARVED_NS;
		fill_drop_all(&s->fill);
	}
	return FILL_STARVED;
}

/* May a far range begin that has waited? */
static bool fill_far_goes_on(const struct fill *fill)
{
	return fill->far.nr > 0 && !fill_is_far_full(fill);
}

/* Is there a range that could begin now? */
static bool fill_goes_on(const struct fill *fill)
{
	return fill->nr_busy < fill->most_busy &&
	       (fill->queue.nr > 0 || fill_far_goes_on(fill));
}

/* The queue whose turn it is: fill_goes_on(). */
static struct fill_queue *fill_from(struct fill *fill)
{
	if (!fill_far_goes_on(fill))
		return &fill->queue;
	fill->far_next = !fill->far_next;
	return fill->far_next || fill->queue.nr == 0 ? &fill->far : &fill->queue;
}

/* One range, one read. */
static enum fill_next fill_step(struct frames *s)
{
	struct fill *fill = &s->fill;
	struct fill_queue *from = fill_from(fill);
	struct fill_range range = fill_queue_pop(from);
	struct held_file *f = files_find(s->files, range.id);
	u32 spare = evict_nr_spare(s);
	enum evict_next next = EVICT_GOT;
	struct fill_op *op;
	u32 nr, got = 0;

	if (!f || !files_is_live(s->files, f) || (range.spare && spare == 0))
		return FILL_ON;
	if (!held_is_local(f) && fill_is_far_full(fill)) {
		fill_queue_add(&fill->far, &range);
		return FILL_ON;
	}
	op = op_get(fill);
	nr = range_next_run(s, &range);
	if (range.spare && nr > spare)
		nr = spare;
	if (nr > 0)
		next = evict_get(s, nr);
	for (; next == EVICT_GOT && got < nr && tier_nr_free(s->tiers) > 0; got++)
		op->frames[got] =
			policy_frame(s->tiers, held_where(f), range.next + got);
	if (next == EVICT_NONE)
		return fill_starve(s, from, &range);
	if (next != EVICT_GOT) {
		fill_queue_put_back(from, &range);
		return next == EVICT_FENCE ? FILL_STARVED : FILL_SPENT;
	}
	if (got > 0) {
		op->id = range.id;
		op->slot = files_slot(s->files, f);
		op->first = range.next;
		op->ticket = range.ticket;
		op->hinted_ns = range.hinted_ns;
		op->nr = got;
		op->ahead = range.ahead;
		op->far = !held_is_local(f);
		range.next += got;
		op_begin(s, op);
	}
	if (range.next < range.end)
		fill_queue_push(from, &range);
	return FILL_ON;
}

bool fill_run(struct frames *s)
{
	struct fill *fill = &s->fill;
	u32 steps = STEPS_PER_TURN;
	enum fill_next next = FILL_ON;

	fill->lines = TURN_LINES;
	if (host_now_ns() < fill->starved_until_ns || fill_is_stuck(s))
		fill_drop_all(fill);
	while (next == FILL_ON && steps-- > 0 && fill->lines > 0 && fill_goes_on(fill))
		next = fill_step(s);
	/* Reads that are stuck hold all places. */
	if (fill->far.nr > 0 && fill_is_far_full(fill) &&
	    stuck_nr(s, true) == fill->nr_far)
		fill->far.nr = 0; /* readers ask again */
	return next != FILL_STARVED && fill_goes_on(fill);
}

int fill_init(struct frames *s)
{
	return reads_init(s, op_end);
}

void fill_fini(struct frames *s)
{
	reads_fini(s);
}

const struct look_times *fill_times(const struct frames *s, u32 kind)
{
	return &s->times[kind];
}

bool fill_has_ring(const struct frames *s)
{
	return s->fill.reads != NULL;
}

bool fill_is_busy(const struct frames *s)
{
	return s->fill.nr_busy > 0;
}

void fill_check(struct frames *s)
{
	if (!s->reclaim.nodes) /* it was begun half-way */
		return;
	CHECK(!fill_is_busy(s), "checked at rest");
	CHECK(tier_nr_free(s->tiers) + host_load_relaxed(&s->arena->header->nr_cached) +
	                      tier_nr_aside(s->tiers) + FRAME_FIRST ==
	              s->arena->nr_frames,
	      "no frame is lost");
	arena_check(s->arena);
	reclaim_check(&s->reclaim);
}
