/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See hold_queue.h. core/cache/reclaim.h says why S3-FIFO. There are few ranges, of very different
 * sizes, and each giving is seen. So this is a list of pointers, and nothing is collected. */
#include "lib/service/hold/hold_queue.h"

#include "core/block.h"
#include "lib/service/hold/range.h"

/* SMALL's part of the bytes, as for frames. */
#define SMALL_PART 10u

static u64 hold_queue_name(const struct held_range *r)
{
	return block_hash(r->file ^ block_hash(r->offset ^ block_hash(r->length)));
}

void hold_queue_remove(struct hold_queues *q, struct held_range *r)
{
	struct hold_list *l = &q->lists[r->queue];

	*(r->older ? &r->older->newer : &l->oldest) = r->newer;
	*(r->newer ? &r->newer->older : &l->newest) = r->older;
	l->nr--;
	l->bytes -= r->bytes;
	l->nr_refused -= r->refused_in == q->search;
	r->refused_in = 0;
	r->queue = HOLDS_NR_QUEUES;
}

static void hold_queue_push(struct hold_queues *q, struct held_range *r, u32 queue)
{
	struct hold_list *l = &q->lists[queue];

	r->queue = queue;
	r->older = l->newest;
	r->newer = NULL;
	*(l->newest ? &l->newest->newer : &l->oldest) = r;
	l->newest = r;
	l->nr++;
	l->bytes += r->bytes;
}

void hold_queue_move(struct hold_queues *q, struct held_range *r, u32 queue)
{
	if (r->queue != HOLDS_NR_QUEUES)
		hold_queue_remove(q, r);
	hold_queue_push(q, r, queue);
}

/* ---- GHOST ---- */

static bool hold_queue_recall(struct hold_queues *q, u64 name)
{
	for (u32 i = 0; i < HOLD_NAMES; i++) {
		if (q->ghost[i].bytes == 0 || q->ghost[i].name != name)
			continue;
		q->ghost_bytes -= q->ghost[i].bytes;
		q->ghost[i].bytes = 0;
		return true;
	}
	return false;
}

static void hold_queue_remember(struct hold_queues *q, u64 name, u64 bytes)
{
	u32 at = q->ghost_at++ % HOLD_NAMES;

	q->ghost_bytes += bytes - q->ghost[at].bytes;
	q->ghost[at].name = name;
	q->ghost[at].bytes = bytes;
	/* GHOST names as many bytes as MAIN may have; the oldest go. */
	for (u32 i = 1;
	     i < HOLD_NAMES && q->ghost_bytes > q->most - q->most / SMALL_PART; i++) {
		at = (q->ghost_at + i - 1) % HOLD_NAMES;
		q->ghost_bytes -= q->ghost[at].bytes;
		q->ghost[at].bytes = 0;
	}
}

/* ---- SMALL and MAIN ---- */

void hold_queue_insert(struct hold_queues *q, struct held_range *r)
{
	u64 small = q->lists[HOLDS_SMALL].bytes + r->bytes;
	bool full = !q->evicted && small > q->most / SMALL_PART;

	r->visits = 0;
	/* Until the first eviction MAIN takes what SMALL has no room for. */
	hold_queue_move(q, r,
	                hold_queue_recall(q, hold_queue_name(r)) || full ? HOLDS_MAIN
	                                                                 : HOLDS_SMALL);
}

void hold_queue_search(struct hold_queues *q)
{
	q->search++;
	for (u32 i = 0; i < HOLDS_NR_QUEUES; i++)
		q->lists[i].nr_refused = 0;
}

static bool hold_queue_has_more(const struct hold_queues *q, u32 queue)
{
	return q->lists[queue].nr > q->lists[queue].nr_refused;
}

/* The queue that gives the next; HOLDS_NR_QUEUES: all are refused. */
static u32 hold_queue_hand(const struct hold_queues *q)
{
	bool small = hold_queue_has_more(q, HOLDS_SMALL);
	bool main = hold_queue_has_more(q, HOLDS_MAIN);

	if (hold_queue_has_more(q, HOLDS_PAST))
		return HOLDS_PAST;
	if (small && (!main || q->lists[HOLDS_SMALL].bytes > q->most / SMALL_PART))
		return HOLDS_SMALL;
	return main ? HOLDS_MAIN : HOLDS_NR_QUEUES;
}

/* The oldest of the queue goes to the new end, and stays refused if it was. */
static void hold_queue_rotate(struct hold_queues *q, struct held_range *r)
{
	u64 refused_in = r->refused_in;

	hold_queue_move(q, r, r->queue);
	r->refused_in = refused_in;
	q->lists[r->queue].nr_refused += refused_in == q->search;
}

struct held_range *hold_queue_next(struct hold_queues *q, u32 *looks)
{
	u32 queue;

	while (*looks > 0 && (queue = hold_queue_hand(q)) != HOLDS_NR_QUEUES) {
		struct held_range *r = q->lists[queue].oldest;

		--*looks;
		if (r->refused_in == q->search) {
			hold_queue_rotate(q, r);
		} else if (queue == HOLDS_PAST || r->visits == 0) {
			return r;
		} else if (queue == HOLDS_SMALL) {
			r->visits = 0;
			hold_queue_move(q, r, HOLDS_MAIN);
		} else {
			r->visits--;
			hold_queue_move(q, r, HOLDS_MAIN);
		}
	}
	return NULL;
}

void hold_queue_refuse(struct hold_queues *q, struct held_range *r)
{
	hold_queue_move(q, r, r->queue);
	r->refused_in = q->search;
	q->lists[r->queue].nr_refused++;
}

void hold_queue_evicted(struct hold_queues *q, const struct held_range *r)
{
	q->evicted = true;
	if (r->queue == HOLDS_SMALL)
		hold_queue_remember(q, hold_queue_name(r), r->bytes);
}
