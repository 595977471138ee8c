/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What readers want: from their rings into the queue of ranges. Only the main thread comes here.
 *
 *   missed   a reader has missed them. While the free frames have room for all, the service
 *            takes the blocks around as well; in a full cache it takes what pays (ADR-0021)
 *   asked    a program has asked for them: they come in whatever goes for them
 *   kept     the ring had no room, and the reader has merged them (H7 in hint.h)
 *   ahead    nobody has missed them yet. But the file's misses came in order, and the next
 *            ones will be there
 *
 * What was kept, and what lies ahead, comes in while frames are free, and pushes nothing out.
 * A full cache that read ahead would lose blocks in use for blocks that nobody may come by.
 *
 * While the queue has no room for what a turn may take, hints stay where they are. Rings become
 * full then, and readers keep what they miss. So nothing is forgotten on the way.
 */
#include "core/cache/cache.h"
#include "lib/service/file/files.h"
#include "lib/service/frame/evict.h"
#include "lib/service/frame/fill.h"
#include "lib/service/frame/fill_hints.h"
#include "lib/service/frame/state.h"
#include "lib/service/file/held.h"
#include "lib/service/frame/admission.h"
#include "lib/service/tier/tier.h"

/* Hints that a turn takes, a multiple of what a ring holds: 0.2 ms. */
#define HINTS_PER_TURN (8 * HINT_MAX)
/* Each makes two ranges at most, and the last ring may have kept some besides. */
#define RANGES_PER_TURN (2 * (HINTS_PER_TURN + HINT_MAX + HINT_KEPT))
_Static_assert(RANGES_PER_TURN <= FILL_QUEUE, "a turn's ranges have room");
/* So many blocks are missed in order before the service reads ahead. It reads as many ahead, up
 * to 8 MiB and a quarter of the free frames. Our choice: a reader that the kernel serves goes
 * through 8 MiB in 4 ms, two naps of the service. */
#define AHEAD_LEAST FILL_RUN
#define AHEAD_MOST ((u64)2048)
#define AHEAD_PART 4u

u32 fill_frame(const struct frames *s, u64 block)
{
	u64 word;

	if (!translation_find(&s->arena->translation, block, &word) ||
	    host_load_relaxed(&s->arena->frames[translation_frame(word)].block) !=
	            block)
		return FRAME_NONE;
	return translation_frame(word);
}

bool fill_has(const struct frames *s, u64 block)
{
	return fill_frame(s, block) != FRAME_NONE;
}

bool fill_is_under_way(const struct frames *s, u32 id, u64 index)
{
	u32 left = s->fill.nr_busy;

	for (const struct fill_op *op = s->fill.ops; left > 0; op++) {
		if (!op->busy)
			continue;
		if (op->id == id && index - op->first < op->nr)
			return true;
		left--;
	}
	return false;
}

static struct fill_range *queue_at(struct fill_queue *queue, u32 i)
{
	return &queue->ranges[(queue->head + i) % FILL_QUEUE];
}

void fill_queue_push(struct fill_queue *queue, const struct fill_range *range)
{
	*queue_at(queue, queue->nr++) = *range;
}

void fill_queue_put_back(struct fill_queue *queue, const struct fill_range *range)
{
	queue->head = (queue->head + FILL_QUEUE - 1) % FILL_QUEUE;
	queue->nr++;
	*queue_at(queue, 0) = *range;
}

struct fill_range fill_queue_pop(struct fill_queue *queue)
{
	struct fill_range range = *queue_at(queue, 0);

	queue->head = (queue->head + 1) % FILL_QUEUE;
	queue->nr--;
	return range;
}

/* A reader that goes through a file block by block: its hints become one read. */
static bool queue_extend(struct fill_queue *queue, const struct fill_range *range)
{
	struct fill_range *last;

	if (queue->nr == 0)
		return false;
	last = queue_at(queue, queue->nr - 1);
	if (last->id != range->id || last->end != range->next ||
	    range->end - last->next > FILL_RUN || last->spare || range->spare)
		return false;
	last->end = range->end; /* the older ticket stays: its blocks are not done */
	return true;
}

void fill_queue_add(struct fill_queue *queue, const struct fill_range *range)
{
	if (queue->nr < FILL_QUEUE && !queue_extend(queue, range))
		fill_queue_push(queue, range);
}

static void queue_add(struct fill *fill, struct fill_range *range)
{
	range->ticket = ++fill->ticket;
	fill_queue_add(&fill->queue, range);
}

/* Do the free frames have room for all that is not cached of all held files? Then whatever of it
 * comes in pushes nothing out. Each of many files may have room alone: a database's tables. Then
 * the blocks around would fill the cache before those that readers want. */
static bool fill_has_room(const struct frames *s)
{
	/* The stock counts here. It is small, and without it a cache as large as the files would
	 * warm up block by block. */
	return files_nr_uncached(s->files) <=
	       tier_nr_free(s->tiers) + s->fill.nr_filling;
}

/* To the blocks around, as the kernel does for mmap(2): one read brings all of them. */
static void range_widen(struct fill_range *range, u64 nr)
{
	range->next -= range->next % FILL_RUN;
	range->end += FILL_RUN - 1 - (range->end + FILL_RUN - 1) % FILL_RUN;
	if (range->end > nr)
		range->end = nr;
}

/* The misses of a file are in order while each begins behind the last, and not beyond what was
 * read ahead. One reader that goes through the file is seen so. Several that are far from each
 * other are not, and they have what they miss. */
static void fill_look_ahead(struct frames *s, struct held_file *f,
                            const struct fill_range *missed)
{
	struct file_order *o = held_order(f);
	struct fill_range range = *missed;
	u64 nr = evict_nr_spare(s) / AHEAD_PART;
	u64 end = held_nr_blocks(f);

	if (missed->next < o->at || missed->next > o->ahead + FILL_RUN || o->at == 0)
		*o = (struct file_order){ .at = missed->next };
	o->run += missed->end - o->at; /* what lay between was served */
	o->at = missed->end;
	o->ahead = o->ahead > o->at ? o->ahead : o->at;
	if (nr > AHEAD_MOST)
		nr = AHEAD_MOST;
	if (nr > o->run)
		nr = o->run;
	/* When half of what was read ahead is behind, the next part follows. */
	if (o->run < AHEAD_LEAST || o->ahead - o->at > nr / 2)
		return;
	range.next = o->ahead;
	/* Whole runs: a miss brings what is missing of one, and a hit would bring nothing. */
	range.end = o->at + nr - (o->at + nr) % FILL_RUN;
	if (o->at + nr >= end)
		range.end = end;
	if (range.next >= range.end)
		return;
	o->ahead = range.end;
	range.spare = range.ahead = true;
	queue_add(&s->fill, &range);
}

/* May the range come in? A hint of one block asks for that to stay, if it is there. */
static bool fill_wants(struct frames *s, const struct fill_range *range, u64 blocks)
{
	u64 block = block_id(range->id, (u32)range->next);
	u32 frame;

	if (range->spare)
		return evict_nr_spare(s) > 0 && (!range->ahead || fill_has_room(s));
	if (!(blocks & HINT_ASKED) && evict_nr_spare(s) == 0 &&
	    !admission_wants(&s->fill.admission, &s->reclaim, s->fill.now_ns))
		return false;
	if ((blocks & ~HINT_BITS) != 1)
		return true;
	frame = fill_frame(s, block);
	if (frame != FRAME_NONE)
		evict_rescue(s, frame);
	return frame == FRAME_NONE && !fill_is_under_way(s, range->id, range->next);
}

/* kept: it was not in the ring. */
static void fill_take_hint(struct frames *s, u64 block, u64 blocks, bool kept)
{
	struct held_file *f = files_find(s->files, block_file(block));
	bool asked = blocks & HINT_ASKED;
	struct fill_range range = { .id = block_file(block),
		                    .hinted_ns = s->fill.now_ns,
		                    .next = block_index(block),
		                    .spare = kept && !asked,
		                    .ahead = kept && blocks & HINT_GAPS };
	struct fill_range missed;
	u64 nr = blocks & ~HINT_BITS, end = f ? held_nr_blocks(f) : 0;
	u64 room;

	if (range.next >= end || nr == 0)
		return;
	room = end - range.next;
	if (room > s->arena->nr_frames)
		room = s->arena->nr_frames; /* more would only push itself out */
	range.end = range.next + (nr < room ? nr : room);
	if (!fill_wants(s, &range, blocks))
		return;
	missed = range;
	if (!asked && !kept && fill_has_room(s))
		range_widen(&range, end);
	queue_add(&s->fill, &range);
	if (!asked && !range.ahead)
		fill_look_ahead(s, f, &missed);
}

/* Takes up to `most` hints from the context at place, and all that it keeps: how many. */
static u32 fill_take_from(struct frames *s, u32 place, u32 most)
{
	u64 ranges[HINT_KEPT][2], block, blocks;
	u32 taken, nr;

	for (taken = 0; taken < most && arena_hint(s->arena, place, &block, &blocks);
	     taken++)
		fill_take_hint(s, block, blocks, false);
	nr = arena_kept(s->arena, place, ranges);
	for (u32 i = 0; i < nr; i++)
		fill_take_hint(s, ranges[i][0], ranges[i][1], true);
	return taken + nr;
}

void fill_take_last(struct frames *s, u32 place)
{
	fill_take_from(s, place, HINT_MAX);
}

void fill_take_all(struct frames *s)
{
	for (u32 i = 0; i < s->arena->nr_contexts && s->fill.queue.nr < FILL_QUEUE; i++)
		if (arena_posted(s->arena, i))
			fill_take_from(s, i, HINT_MAX);
}

void fill_want(struct frames *s, u32 id, u64 block, u64 nr)
{
	if (nr > 0 && nr < UINT32_MAX && block < UINT32_MAX - nr)
		fill_take_hint(s, block_id(id, (u32)block), nr, false);
}

void fill_take_hints(struct frames *s)
{
	struct fill *fill = &s->fill;
	u32 nr = s->arena->nr_contexts;
	u32 left = HINTS_PER_TURN, taken;

	fill->now_ns = host_now_ns();
	if (fill->queue.nr + RANGES_PER_TURN > FILL_QUEUE) {
		fill->hinted_ns =
			fill->now_ns; /* the service looks again after a nap */
		return;
	}
	if (nr != fill->round_contexts || nr == 0) {
		fill->round_contexts = nr;
		fill->round_asked = 0;
		fill->nr_rounds += nr == 0; /* all of them were asked */
	}
	/* HINTS_PER_TURN is a multiple of HINT_MAX: each ring is emptied. */
	for (u32 i = 0; i < nr && left >= HINT_MAX; i++) {
		/* Another context is the first in each round. */
		u32 place = (fill->round_asked + (u32)(fill->nr_rounds % nr)) % nr;

		taken = arena_posted(s->arena, place)
		                ? fill_take_from(s, place, HINT_MAX)
		                : 0;
		left -= taken < left ? taken : left;
		if (++fill->round_asked == nr) {
			fill->round_asked = 0;
			fill->nr_rounds++;
		}
	}
	if (left < HINTS_PER_TURN)
		fill->hinted_ns = fill->now_ns;
}

bool fill_heard_within(const struct frames *s, u64 ns)
{
	return s->fill.now_ns - s->fill.hinted_ns < ns;
}

static void queue_take_over(struct fill *fill, struct fill_queue *queue,
                            const struct fill_queue *old,
                            u32 (*new_id)(const void *arg, u32 id), const void *arg)
{
	for (u32 i = 0; i < old->nr; i++) {
		struct fill_range range = old->ranges[(old->head + i) % FILL_QUEUE];

		range.id = new_id(arg, range.id);
		range.ticket = ++fill->ticket;
		if (range.id != FILE_NONE)
			fill_queue_push(queue, &range);
	}
}

void fill_take_over(struct frames *s, const struct frames *old,
                    u32 (*new_id)(const void *arg, u32 id), const void *arg)
{
	memcpy(s->times, old->times, sizeof(s->times));
	queue_take_over(&s->fill, &s->fill.queue, &old->fill.queue, new_id, arg);
	queue_take_over(&s->fill, &s->fill.far, &old->fill.far, new_id, arg);
}
