/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See budget.h. */
#include "core/block.h"
#include "core/cache/arena.h"
#include "lib/cgroup.h"
#include "lib/look.h"
#include "lib/service/base/base.h"
#include "lib/service/succession/budget.h"
#include "lib/service/succession/pressure.h"
#include "lib/service/succession/hand.h"
#include "lib/service/succession/resize.h"
#include "lib/service/memory/memory.h"
#include "lib/service/hold/holds.h"

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

void budget_begin(struct budget *b)
{
	struct service_sizes *sizes = b->sizes;
	struct cgroup room;

	b->bytes = sizes->fast_bytes ? 0 : sizes->budget_bytes;
	if (b->bytes == 0 || sizes->cache_bytes)
		return;
	cgroup_look_all(&room);
	sizes->cache_bytes = budget_start(b->bytes, sizes->hold_bytes, &room);
}

/* ---- what holds may have ---- */

u64 budget_limit(const struct budget *b)
{
	return b->bytes;
}

void budget_set(struct budget *b, u64 bytes)
{
	b->bytes = bytes;
}

u64 budget_for_holds(const struct budget *b)
{
	u64 cache_bytes = resize_larger(b->of);

	if (b->bytes == 0)
		return b->sizes->hold_bytes;
	return budget_min(b->sizes->hold_bytes,
	                  b->bytes > cache_bytes ? b->bytes - cache_bytes : 0);
}

u64 budget_for_holds_at_most(const struct budget *b)
{
	if (b->bytes == 0)
		return b->sizes->hold_bytes;
	return budget_min(b->sizes->hold_bytes, b->bytes - budget_least(b->bytes));
}

u64 budget_used(const struct budget *b)
{
	return b->sizes->cache_bytes + holds_used(b->holding);
}

/* The last resize, which began for it. */
static bool budget_has_failed(const struct budget *b)
{
	const struct look_resize *last = resize_last(b->of);

	return b->asked > 0 && b->asked == last->number &&
	       last->state == LOOK_RESIZE_FAILED;
}

bool budget_make_room(struct budget *b, u64 hold_bytes)
{
	u64 next;

	if (b->bytes == 0 || hold_bytes > budget_for_holds_at_most(b))
		return false;
	if (resize_is_under_way(b->of) && resize_last(b->of)->state == LOOK_RESIZE_RUNS)
		return true;
	if (budget_has_failed(b)) { /* each try that has failed refuses one hold */
		b->asked = 0;
		return false;
	}
	next = budget_smaller(b->bytes, b->sizes->cache_bytes, hold_bytes);
	if (next == 0 || resize_begin(b->of, next, 0) != 0)
		return false;
	b->asked = resize_last(b->of)->number;
	b->next_ns = host_now_ns() + PAUSE_HOLD_NS;
	return true;
}

/* ---- what the arena may have ---- */

u64 budget_arena(const struct budget *b, u64 bytes)
{
	u64 used = holds_used(b->holding), least = budget_least(bytes), most, want;
	struct cgroup room;

	cgroup_look_all(&room);
	most = bytes > used + least ? bytes - used : least;
	want = budget_start(bytes, b->sizes->hold_bytes, &room);
	if (want < b->sizes->cache_bytes)
		want = b->sizes->cache_bytes;
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

int budget_ask(struct budget *b, u64 block_bytes)
{
	u64 had = b->sizes->cache_bytes, used = budget_used(b), next;
	struct cgroup room;
	int err;

	if (block_bytes <= had || b->bytes <= used || pressure_is_tight(b->pressure))
		return 0;
	cgroup_look_all(&room);
	next = budget_min(block_bytes, b->bytes - used + had);
	next = budget_whole_blocks(budget_fits(&room, had, next));
	if (next <= had)
		return 0;
	err = resize_begin(b->of, next, 0);
	if (!err)
		b->asked = resize_last(b->of)->number;
	return err;
}

void budget_follow(struct budget *b, u64 cache_bytes)
{
	struct service_sizes *sizes = b->sizes;
	struct cgroup room;

	if (b->bytes == 0 || cache_bytes <= sizes->cache_bytes)
		return;
	cgroup_look_all(&room);
	cache_bytes = budget_min(budget_min(cache_bytes, b->bytes),
	                         room.left / FOLLOW_ROOM_PART);
	if (cache_bytes > sizes->cache_bytes)
		sizes->cache_bytes = budget_whole_blocks(cache_bytes);
}

void budget_resized(struct budget *b)
{
	if (b->asked == resize_last(b->of)->number)
		pressure_configure(b->pressure, b->sizes->cache_bytes);
}

static void budget_grow(struct budget *b, u64 now)
{
	u64 had = b->sizes->cache_bytes;
	u64 next = budget_larger(b->bytes, had, holds_used(b->holding));
	struct cgroup room;

	b->next_ns = now + PAUSE_NS;
	if (next == 0) {
		if (had < b->bytes / BUDGET_BLOCKS_PART)
			holds_give_back(b->holding);
		return;
	}
	if (budget_has_failed(b)) {
		b->asked = 0;
		b->next_ns = now + PAUSE_FAILED_NS;
		return;
	}
	cgroup_look_all(&room);
	if (!pressure_fits(&room, had, &next) || resize_begin(b->of, next, 0) != 0)
		return;
	b->asked = resize_last(b->of)->number;
	b->next_ns = 0;
}

void budget_tick(struct budget *b)
{
	u64 evicted, now = host_now_ns();

	/* A successor is told to come again while a resize runs. */
	if (b->bytes == 0 || resize_is_under_way(b->of) || hand_is_wanted(b->of))
		return;
	if (budget_used(b) > b->bytes) /* a user has made it smaller */
		holds_give_back(b->holding);
	if (now < b->next_ns)
		return;
	evicted = host_load_relaxed(&b->arena->header->nr_evicted);
	if (evicted == b->evicted || holds_any_wanting(b->holding))
		return;
	b->evicted = evicted;
	if (!pressure_lasts(b->pressure))
		budget_grow(b, now);
}

void budget_take_over(struct budget *b, const struct budget *old)
{
	b->bytes = old->bytes;
	b->evicted = old->evicted;
	b->next_ns = old->next_ns;
	b->asked = old->asked;
}
