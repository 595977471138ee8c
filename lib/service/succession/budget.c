/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See budget.h. */
#include "core/block.h"
#include "lib/cgroup.h"
#include "lib/service/hold/hold_table.h"
#include "lib/service/succession/budget.h"
#include "lib/service/succession/pressure.h"
#include "lib/service/succession/hand.h"
#include "lib/service/succession/resize.h"
#include "lib/service/succession/whole.h"
#include "lib/service/memory/memory.h"
#include "lib/service/hold/holds.h"
#include "lib/service/hold/range.h"

/* Our choice: a start leaves three quarters of what is free now to programs. */
#define START_ROOM_PART 4u
/* A successor has as large an arena as the service before it, which is there as well. */
#define FOLLOW_ROOM_PART 2u
/* After a larger arena was refused: for want of memory now, or by the kernel. */
#define PAUSE_NS ((u64)1000 * NS_PER_MS)
/* After a hold has made it smaller: the next hold may soon come. */
#define PAUSE_HOLD_NS ((u64)2000 * NS_PER_MS)
#define PAUSE_FAILED_NS ((u64)30000 * NS_PER_MS)

static u64 budget_whole_blocks(u64 bytes)
{
	bytes -= bytes % BLOCK_BYTES;
	return bytes > SERVICE_MIN_CACHE_BYTES ? bytes : SERVICE_MIN_CACHE_BYTES;
}

static u64 budget_min(u64 a, u64 b)
{
	return a < b ? a : b;
}

u64 budget_least(u64 bytes)
{
	return budget_whole_blocks(
		budget_min(bytes / BUDGET_LEAST_PART, BUDGET_START_BYTES));
}

u64 budget_start(u64 bytes, u64 hold_bytes, const struct cgroup *room)
{
	u64 most = bytes - budget_least(bytes);
	u64 part = hold_bytes == SERVICE_HOLDS_ANY ? bytes / BUDGET_BLOCKS_PART
	                                           : budget_min(hold_bytes, most);
	u64 start = bytes - part, kept = room->limit / MEMORY_TIGHT_PART;

	/* A larger arena needs its memory beside the old one. So one that shall have more than
	 * half of all memory would never grow to its size. */
	if (bytes <= room->limit / 2 || room->left < kept || start > room->left - kept)
		start = budget_min(budget_min(start, BUDGET_START_BYTES),
		                   room->left / START_ROOM_PART);
	return budget_whole_blocks(start);
}

u64 budget_smaller(u64 bytes, u64 cache_bytes, u64 hold_bytes)
{
	u64 least = budget_least(bytes);
	u64 next;

	if (hold_bytes > bytes - least)
		return 0;
	/* In steps of a quarter at least: the next hold needs none. */
	next = budget_min(bytes - hold_bytes, cache_bytes / 4 * 3);
	next = budget_whole_blocks(next > least ? next : least);
	return next < cache_bytes ? next : 0;
}

u64 budget_larger(u64 bytes, u64 cache_bytes, u64 hold_bytes)
{
	u64 next;

	if (hold_bytes >= bytes)
		return 0;
	next = budget_whole_blocks(budget_min(bytes - hold_bytes, 2 * cache_bytes));
	/* Readers come anew after each, so that it must be worth it. */
	return next > cache_bytes / 3 * 4 ? next : 0;
}

void budget_begin(struct service *s)
{
	struct service_options *o = &s->base.options;
	struct cgroup room;

	s->budget.bytes = o->fast_bytes ? 0 : o->budget_bytes;
	if (s->budget.bytes == 0 || o->cache_bytes)
		return;
	cgroup_look_all(&room);
	o->cache_bytes = budget_start(s->budget.bytes, o->hold_bytes, &room);
}

/* ---- what holds may have ---- */

static u64 budget_holds_used(const struct service *s)
{
	return s->holding.holds ? s->holding.holds->room.used : 0;
}

u64 budget_limit(const struct service *s)
{
	return s->budget.bytes;
}

u64 budget_for_holds(const struct service *s)
{
	u64 cache_bytes = resize_larger(s);

	if (s->budget.bytes == 0)
		return s->base.options.hold_bytes;
	return budget_min(s->base.options.hold_bytes,
	                  s->budget.bytes > cache_bytes ? s->budget.bytes - cache_bytes
	                                                : 0);
}

u64 budget_for_holds_at_most(const struct service *s)
{
	if (s->budget.bytes == 0)
		return s->base.options.hold_bytes;
	return budget_min(s->base.options.hold_bytes,
	                  s->budget.bytes - budget_least(s->budget.bytes));
}

u64 budget_used(const struct service *s)
{
	return s->base.options.cache_bytes + budget_holds_used(s);
}

bool budget_make_room(struct service *s, u64 hold_bytes)
{
	struct budget *b = &s->budget;
	u64 next;

	if (b->bytes == 0 || hold_bytes > budget_for_holds_at_most(s))
		return false;
	if (s->change.resize && s->change.resized.state == LOOK_RESIZE_RUNS)
		return true;
	/* Each try that has failed refuses one hold. */
	if (b->asked > 0 && b->asked == s->change.resized.number &&
	    s->change.resized.state == LOOK_RESIZE_FAILED) {
		b->asked = 0;
		return false;
	}
	next = budget_smaller(b->bytes, s->base.options.cache_bytes, hold_bytes);
	if (next == 0 || resize_begin(s, next, 0) != 0)
		return false;
	b->asked = s->change.resized.number;
	b->next_ns = host_now_ns() + PAUSE_HOLD_NS;
	return true;
}

/* ---- what the arena may have ---- */

u64 budget_arena(const struct service *s, u64 bytes)
{
	u64 used = budget_holds_used(s), least = budget_least(bytes), most, want;
	struct cgroup room;

	cgroup_look_all(&room);
	most = bytes > used + least ? bytes - used : least;
	want = budget_start(bytes, s->base.options.hold_bytes, &room);
	if (want < s->base.options.cache_bytes)
		want = s->base.options.cache_bytes;
	return budget_whole_blocks(budget_min(want, most));
}

/* What is free now, less what memory_is_tight() wants, twice. */
static u64 budget_fits(const struct cgroup *room, u64 had, u64 next)
{
	u64 kept = room->limit / MEMORY_TIGHT_PART * 2;

	if (room->limit == UINT64_MAX)
		return next;
	next = budget_min(next, room->left);
	return budget_min(next, room->left + had > kept ? room->left + had - kept : 0);
}

int budget_ask(struct service *s, u64 block_bytes)
{
	u64 had = s->base.options.cache_bytes, used = budget_used(s), next;
	struct budget *b = &s->budget;
	struct cgroup room;
	int err;

	if (block_bytes <= had || b->bytes <= used || s->pressure.tight)
		return 0;
	cgroup_look_all(&room);
	next = budget_min(block_bytes, b->bytes - used + had);
	next = budget_whole_blocks(budget_fits(&room, had, next));
	if (next <= had)
		return 0;
	err = resize_begin(s, next, 0);
	if (!err)
		b->asked = s->change.resized.number;
	return err;
}

void budget_follow(struct service *s, u64 cache_bytes)
{
	struct service_options *o = &s->base.options;
	struct cgroup room;

	if (s->budget.bytes == 0 || cache_bytes <= o->cache_bytes)
		return;
	cgroup_look_all(&room);
	cache_bytes = budget_min(budget_min(cache_bytes, s->budget.bytes),
	                         room.left / FOLLOW_ROOM_PART);
	if (cache_bytes > o->cache_bytes)
		o->cache_bytes = budget_whole_blocks(cache_bytes);
}

void budget_resized(struct service *s)
{
	if (s->budget.asked == s->change.resized.number)
		pressure_configure(s, s->base.options.cache_bytes);
}

/* Memory is short, or was a moment ago: then the arena grows back to what it had (pressure.h). */
static bool budget_must_wait(const struct service *s)
{
	const struct pressure *p = &s->pressure;

	return p->tight || s->base.options.cache_bytes < p->configured ||
	       ((s->base.options.pressure || s->base.options.watch_groups) &&
	        p->calm_ns == 0);
}

static void budget_grow(struct service *s, u64 now)
{
	struct budget *b = &s->budget;
	u64 had = s->base.options.cache_bytes;
	u64 next = budget_larger(b->bytes, had, budget_holds_used(s));
	struct cgroup room;

	b->next_ns = now + PAUSE_NS;
	if (next == 0) {
		if (had < b->bytes / BUDGET_BLOCKS_PART)
			holds_give_back(&s->holding);
		return;
	}
	if (b->asked == s->change.resized.number &&
	    s->change.resized.state == LOOK_RESIZE_FAILED) {
		b->asked = 0;
		b->next_ns = now + PAUSE_FAILED_NS;
		return;
	}
	cgroup_look_all(&room);
	if (!pressure_fits(&room, had, &next) || resize_begin(s, next, 0) != 0)
		return;
	b->asked = s->change.resized.number;
	b->next_ns = 0;
}

void budget_tick(struct service *s)
{
	struct budget *b = &s->budget;
	u64 evicted, now = host_now_ns();

	/* A successor is told to come again while a resize runs. */
	if (b->bytes == 0 || s->change.resize || hand_is_wanted(s))
		return;
	if (budget_used(s) > b->bytes) /* a user has made it smaller */
		holds_give_back(&s->holding);
	if (now < b->next_ns)
		return;
	evicted = host_load_relaxed(&s->memory.arena.header->nr_evicted);
	if (evicted == b->evicted ||
	    (s->holding.holds && s->holding.holds->queues.lists[HOLDS_WANTING].nr > 0))
		return;
	b->evicted = evicted;
	if (!budget_must_wait(s))
		budget_grow(s, now);
}
