/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Frames out of the cache. Core says how a frame is taken (core/cache/batch.h) and which
 * (core/cache/reclaim.h); this file drives the two.
 *
 *            reclaim_evict()            close            the fence
 *   cached ------------------> open batch -----> away ------------> walked --> free_frames
 *     ^                            |               |                  |
 *     +--- refused, or rescued ----+---------------+------------------+
 *
 * Light pins want a fence over all processes, which takes 8 ms or so (fence.c). Meanwhile fills
 * live from the stock of free frames, and the next batch fills up. The stock is as large as fills
 * have lately needed. Frames in a batch are still read, so only the free ones cost hits.
 *
 * With locked pins the fence is there at once. Then there is no stock: a fill's frames are
 * evicted when it asks, all with one fence. Under atomic and frozen a frame is taken alone.
 */
#include <errno.h>

#include "lib/service/file/files.h"
#include "lib/service/frame/evict.h"
#include "lib/service/frame/fence.h"
#include "lib/service/frame/stuck.h"
#include "lib/service/frame/sweep.h"
#include "lib/service/tier/policy.h"
#include "lib/service/frame/state.h"
#include "lib/service/base/base.h"
#include "lib/service/tier/tier.h"

/* What a frame touches besides the arena when it goes: the lists of its file. */
#define UNLINK_LINES 8u
/* All frames are pinned, and finding that out has cost a look at each of them. */
#define NONE_NS (10 * NS_PER_MS)
/* The stock: of the cache at least and at most, and in frames. At most two batches. */
#define STOCK_LEAST_PART 256u
#define STOCK_MOST_PART 16u
#define STOCK_MOST (2 * BATCH_FRAMES)
/* How fast the stock shrinks when no fill has waited: half of the rest in 1 s of ticks. */
#define STOCK_SHRINK 16u

_Static_assert(RECLAIM_NEAR == ARENA_LINE_FRAMES, "near: in one line of visits");

static bool evict_is_light(const struct frames *s)
{
	return s->shape->barrier == ARENA_BARRIER_LIGHT;
}

/* A policy moves blocks of a full cache, too, and a move needs a free frame. */
static bool evict_keeps_stock(const struct frames *s)
{
	return evict_is_light(s) || tier_has_policy(s->tiers);
}

int evict_init(struct frames *s)
{
	struct evict *e = &s->evict;
	u32 nr = s->shape->nr_frames;
	u32 most = nr / STOCK_MOST_PART + 1; /* without any, no frame would ever go */
	int err = reclaim_init(&s->reclaim, nr);

	if (err)
		return -ENOMEM;
	batch_init(&e->batches[0], 1);
	batch_init(&e->batches[1], 2);
	e->open = &e->batches[0];
	e->stock_most = most < STOCK_MOST ? most : STOCK_MOST;
	e->stock_least = s->shape->nr_frames / STOCK_LEAST_PART + 1;
	e->stock = e->stock_least =
		e->stock_least < e->stock_most ? e->stock_least : e->stock_most;
	return 0;
}

void evict_fini(struct frames *s)
{
	if (s->reclaim.nodes)
		reclaim_fini(&s->reclaim);
}

/* ---- frames ---- */

u32 evict_nr_spare(const struct frames *s)
{
	u32 kept = evict_keeps_stock(s) ? s->evict.stock : 0;

	return tier_nr_free(s->tiers) > kept ? tier_nr_free(s->tiers) - kept : 0;
}

static u64 evict_block(const struct frames *s, u32 frame)
{
	return host_load_relaxed(&s->arena->frames[frame].block);
}

/* frame, which held block, is nobody's now. */
static void evict_taken(struct frames *s, u32 frame, u64 block)
{
	if (files_find(s->files, block_file(block)))
		service_count(&s->arena->header->nr_evicted, 1);
	files_unlink_frame(s->files, frame, block);
	service_count(&s->arena->header->nr_cached, -(u64)1);
	policy_free(s->tiers, frame);
}

/* Under atomic and frozen: a frame is taken at once, or not. */
static bool evict_take_word(struct frames *s, u32 frame)
{
	u64 block = evict_block(s, frame);

	if (!arena_take(s->arena, frame))
		return false;
	evict_taken(s, frame, block);
	return true;
}

static void victim_visits(void *ctx, u32 first, u32 nr, u8 *ret_visits)
{
	sweep_collect(ctx, first, nr, ret_visits);
}

static bool victim_take(void *ctx, u32 frame)
{
	struct frames *s = ctx;
	struct evict *e = &s->evict;
	bool taken = s->arena->counts ? evict_take_word(s, frame)
	                              : batch_add(s->arena, e->open, &e->list, frame);

	if (!taken)
		service_count(&s->arena->header->nr_refused, 1);
	return taken;
}

/* Back into the queues: GHOST has a victim's name, so it goes to MAIN. */
static void evict_requeue(struct frames *s, u32 frame)
{
	reclaim_insert(&s->reclaim, frame, evict_block(s, frame));
}

bool evict_is_busy(const struct frames *s)
{
	return s->evict.away || s->evict.open->nr > 0;
}

static u32 evict_nr_hidden(const struct evict *e)
{
	return e->open->nr + (e->away ? e->away->nr : 0);
}

/* Frames that are free, or on their way. */
static u32 evict_nr_coming(const struct frames *s)
{
	return tier_nr_free(s->tiers) + tier_nr_aside(s->tiers) +
	       evict_nr_hidden(&s->evict);
}

/* Has eviction hidden frame? What is hidden for a move stays in the queues, and nobody rescues
 * it: it is shown again soon, here or in another tier. */
static bool evict_has(const struct frames *s, u32 frame)
{
	const struct frame *f = &s->arena->frames[frame];

	return host_load_relaxed(&f->state) == FRAME_CACHED &&
	       (frame_is_hidden(f, s->evict.batches[0].number) ||
	        frame_is_hidden(f, s->evict.batches[1].number));
}

enum reclaim_queue evict_queue(const struct frames *s, u32 frame)
{
	return (enum reclaim_queue)s->reclaim.nodes[frame].queue;
}

u32 evict_visits(const struct frames *s, u32 frame)
{
	u32 visits =
		s->reclaim.nodes[frame].freq + host_load_byte(&s->arena->visits[frame]);

	return visits < FRAME_VISITS_MAX ? visits : FRAME_VISITS_MAX;
}

/* Half of the victims must go, even if readers ask for all. Readers ask for all frames of a small
 * cache before one fence is over. Then nothing new would ever come in. */
void evict_rescue(struct frames *s, u32 frame)
{
	struct evict *e = &s->evict;

	if (!evict_has(s, frame) || 2 * e->nr_rescued >= evict_nr_hidden(e) ||
	    !files_find(s->files, block_file(evict_block(s, frame))))
		return;
	e->nr_rescued++;
	batch_rescue(s->arena, frame);
	evict_requeue(s, frame);
}

/* ---- turns ---- */

static void evict_spend(struct evict *e, u32 lines)
{
	e->lines -= lines < e->lines ? lines : e->lines;
}

static u32 evict_walk_lines(const struct frames *s, const struct walk_list *list)
{
	return walk_lines(s->arena, list) + BATCH_TAKE_LINES + UNLINK_LINES + 1 +
	       SWEEP_FRAME_LINES;
}

/* A new turn may touch TURN_LINES. With hazard slots and hundreds of contexts one look alone
 * may need more; each turn has room for two. */
static void evict_begin_turn(struct frames *s)
{
	struct evict *e = &s->evict;
	u32 take = s->arena->counts ? BATCH_TAKE_LINES + UNLINK_LINES
	                            : walk_lines(s->arena, &e->list) + 2;
	u32 least;

	e->ops = (struct reclaim_ops){
		.visits = victim_visits,
		.take = victim_take,
		.ctx = s,
		.visits_lines = 1,
		.frame_lines = SWEEP_FRAME_LINES,
		.take_lines = take,
	};
	least = 2 * reclaim_look_lines(&e->ops);
	e->lines = least > TURN_LINES ? least : TURN_LINES;
}

/* Hides up to nr victims for the open batch; or takes them, where a word counts. */
static enum evict_next evict_hide(struct frames *s, u32 nr)
{
	struct evict *e = &s->evict;

	if (host_now_ns() < e->none_until_ns)
		return EVICT_NONE;
	while (nr > 0 && !batch_is_full(e->open)) {
		u32 frame = reclaim_evict(&s->reclaim, &e->ops, &e->lines);

		if (frame == RECLAIM_MORE)
			return EVICT_SPENT;
		if (frame == RECLAIM_NONE && evict_nr_coming(s) > 0)
			return EVICT_GOT; /* all others are on their way, or free */
		if (frame == RECLAIM_NONE) {
			/* A read under way brings another frame sooner. */
			if (stuck_all(s))
				e->none_until_ns = host_now_ns() + NONE_NS;
			return EVICT_NONE;
		}
		nr--;
	}
	return EVICT_GOT;
}

/* What a reader has come by since is worth keeping. */
static void evict_rescue_visited(struct frames *s, u32 frame)
{
	u8 visits = 0;

	if (!evict_has(s, frame))
		return;
	sweep_collect(s, frame, 1, &visits);
	if (visits)
		evict_rescue(s, frame);
}

/* Ends the stay of the frames in the batch that is away. true: of all. */
static bool evict_walk(struct frames *s)
{
	struct evict *e = &s->evict;
	struct batch *b = e->away;
	u32 lines = evict_walk_lines(s, &b->list);
	u64 block = BLOCK_NONE;
	u32 frame;

	/* At least one a turn, however many pin. */
	do {
		if (b->at < b->nr) {
			frame = b->frames[b->at];
			if (evict_is_light(s))
				evict_rescue_visited(s, frame);
			block = evict_block(s, frame);
		}
		switch (batch_next(s->arena, b, &frame)) {
		case BATCH_TAKEN: evict_taken(s, frame, block); break;
		case BATCH_REFUSED:
			service_count(&s->arena->header->nr_refused, 1);
			evict_requeue(s, frame);
			break;
		case BATCH_RESCUED: break;
		case BATCH_DONE:
			e->away = NULL;
			e->nr_rescued = 0;
			return true;
		}
		evict_spend(e, lines);
	} while (e->lines >= lines);
	return false;
}

/* The fence of the batch that is away fails. It was there when the service started. Nothing is
 * taken without it. */
static void evict_show_away(struct frames *s)
{
	struct evict *e = &s->evict;

	if (!e->said)
		service_say(s->base, SERVICE_ERROR, "fence_failed",
		            "the fence over all processes fails: nothing is evicted");
	e->said = true;
	for (u32 i = 0; i < e->away->nr; i++) {
		if (!evict_has(s, e->away->frames[i]))
			continue;
		batch_rescue(s->arena, e->away->frames[i]);
		evict_requeue(s, e->away->frames[i]);
	}
	e->none_until_ns = host_now_ns() + NONE_NS;
}

void evict_fenced(struct frames *s)
{
	struct evict *e = &s->evict;
	enum fence_state state;

	if (!e->waits)
		return;
	state = fence_state(s, e->fence);
	if (state == FENCE_WAITS)
		return;
	e->waits = false;
	if (state == FENCE_FAILED)
		evict_show_away(s);
	batch_fenced(s->arena, e->away);
	evict_spend(e, s->arena->nr_contexts);
	e->list = e->away->list;
}

/* Sends the open batch away, unless it is empty or another one is. */
static void evict_send(struct frames *s)
{
	struct evict *e = &s->evict;

	if (e->away || e->open->nr == 0)
		return;
	batch_close(s->arena, e->open);
	e->away = e->open;
	e->open = &e->batches[e->away == &e->batches[0]];
	e->waits = true;
	e->fence = fence_want(s);
	evict_fenced(s);
}

/* Takes an orphan, now or by way of a batch. It may be on its way already, or pinned. */
static void evict_orphan(struct frames *s, u32 frame)
{
	struct evict *e = &s->evict;

	if (s->arena->counts ? evict_take_word(s, frame)
	                     : !batch_is_hidden(s->arena, frame) &&
	                               batch_add(s->arena, e->open, &e->list, frame))
		reclaim_remove(&s->reclaim, frame);
}

/* true: there are more to look at now. */
static bool evict_orphans(struct frames *s)
{
	struct evict *e = &s->evict;
	u32 lines = evict_walk_lines(s, &e->list);
	u32 frame;

	while (e->lines >= lines && !batch_is_full(e->open)) {
		frame = files_next_orphan(s->files);
		if (frame == FRAME_NONE)
			return false;
		evict_orphan(s, frame);
		evict_spend(e, lines);
	}
	return files_any_orphan(s->files) && e->lines < lines;
}

bool evict_run(struct frames *s)
{
	struct evict *e = &s->evict;
	enum evict_next next = EVICT_GOT;
	bool busy;
	u32 coming;

	evict_begin_turn(s);
	if (e->away && !e->waits && !evict_walk(s))
		return true;
	busy = evict_orphans(s);
	coming = evict_nr_coming(s);
	if (evict_keeps_stock(s) && coming < e->stock)
		next = evict_hide(s, e->stock - coming);
	evict_send(s);
	return busy || next == EVICT_SPENT || (e->away && !e->waits);
}

void evict_tick(struct frames *s)
{
	struct evict *e = &s->evict;

	if (!e->starved)
		e->stock -= (e->stock - e->stock_least) / STOCK_SHRINK;
	e->starved = false;
}

/* The fence is there at once: nr victims with one fence, and their walk. */
static enum evict_next evict_now(struct frames *s, u32 nr)
{
	struct evict *e = &s->evict;
	enum evict_next next = EVICT_SPENT;

	if (e->away && !evict_walk(s))
		return tier_nr_free(s->tiers) > 0 ? EVICT_GOT : EVICT_SPENT;
	if (tier_nr_free(s->tiers) < nr)
		next = evict_hide(s, nr - tier_nr_free(s->tiers));
	evict_send(s);
	if (e->away)
		evict_walk(s);
	if (tier_nr_free(s->tiers) > 0)
		return EVICT_GOT;
	/* A victim may have been pinned between the look and the hide. */
	return next == EVICT_GOT ? EVICT_SPENT : next;
}

enum evict_next evict_get(struct frames *s, u32 nr)
{
	struct evict *e = &s->evict;

	if (tier_nr_free(s->tiers) >= nr)
		return EVICT_GOT;
	if (!evict_is_light(s))
		return evict_now(s, nr);
	if (tier_nr_free(s->tiers) > 0)
		return EVICT_GOT;
	e->starved = true;
	e->stock = 2 * e->stock < e->stock_most ? 2 * e->stock : e->stock_most;
	if (evict_nr_coming(s) > 0 || !stuck_all(s))
		return EVICT_FENCE;
	return host_now_ns() < e->none_until_ns ? EVICT_NONE : EVICT_SPENT;
}
