/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What must be true of all ranges between two calls. Each sum in struct holds is counted anew from
 * the ranges, and each list is walked.
 */
#include "core/check.h"
#include "lib/service/file/files.h"
#include "lib/service/hold/hold_table.h"
#include "lib/service/hold/holds.h"
#include "lib/service/hold/state.h"
#include "lib/service/hold/range.h"

/* As the ranges say it. */
struct hold_counted {
	u64 unused, used, had, huge, leaving, summed;
	struct hold_tier_sum tiers[NR_TIERS];
	u32 of_class[HOLD_CLASSES];
};

static void hold_check_queue(const struct hold_queues *q, u32 queue)
{
	const struct hold_list *l = &q->lists[queue];
	const struct held_range *before = NULL;
	u32 nr = 0, nr_refused = 0;
	u64 bytes = 0;

	for (const struct held_range *r = l->oldest; r; r = r->newer) {
		CHECK(r->queue == queue && r->older == before, "a queue is linked both ways");
		nr++;
		bytes += r->bytes;
		nr_refused += r->refused_in == q->search;
		before = r;
	}
	CHECK(l->newest == before, "a queue ends with its newest range");
	CHECK(l->nr == nr && l->bytes == bytes, "a queue counts its ranges");
	CHECK(l->nr_refused == nr_refused, "a queue counts those that a search refused");
}

/* Has it a state that its queue allows? */
static bool hold_check_state(const struct held_range *r)
{
	bool has = r->fd >= 0;

	switch (r->queue) {
	case HOLDS_WANTING: return r->core.state == HOLD_FREE && !has && !r->settled;
	case HOLDS_READING: return r->core.state == HOLD_LOADING && !has && r->load;
	case HOLDS_SMALL:
	case HOLDS_MAIN:
		return (r->core.state == HOLD_SHARED || r->core.state == HOLD_PAST) && has;
	case HOLDS_PAST: return r->core.state == HOLD_PAST && has && !r->at;
	case HOLDS_CLOSING: return r->core.state == HOLD_GOING && has && !r->at;
	case HOLDS_FAILED:
		return r->core.state == HOLD_FREE && !has && !r->at && r->settled;
	default: return false;
	}
}

static void hold_check_range(const struct held_range *r)
{
	CHECK(hold_check_state(r), "a range has the state of its queue");
	CHECK(!r->had || r->core.had, "what somebody has was given");
	CHECK(!r->leaving || r->queue == HOLDS_READING || r->queue == HOLDS_CLOSING,
	      "memory leaves once");
	CHECK(!r->settled || !hold_is_wanted(r), "who waits for a settled range has its answer");
	CHECK(!r->asker || *r->asker_at == r, "an asker has its ranges");
	CHECK(!r->waiters || (r->waiters->range == r && r->waiters->at == &r->waiters),
	      "a range has those who wait for it");
	CHECK(!r->at || *r->at == &r->core, "a chain has its ranges");
	if (r->core.state != HOLD_FREE)
		hold_check(&r->core);
}

static void hold_count(const struct holding *s, const struct held_range *r,
                       struct hold_counted *n)
{
	const struct holds *h = s->holds;

	n->used += r->core.state != HOLD_FREE ? r->bytes : 0;
	n->had += r->had ? r->bytes : 0;
	n->leaving += r->leaving ? r->bytes : 0;
	if (r->fd >= 0) {
		n->huge += r->huge_bytes;
		n->tiers[r->tier].nr++;
		n->tiers[r->tier].bytes += r->bytes;
	}
	if (!r->at)
		return;
	CHECK(h->sums[r->slot].id == r->file || !files_find(s->files, r->file),
	      "a file's ranges are summed");
	n->of_class[HOLD_CLASSES - 1 - (u32)__builtin_clzll(r->bytes)]++;
	n->summed += h->sums[r->slot].id == r->file ? r->bytes : 0;
}

static void hold_check_sums(const struct holding *s, const struct hold_counted *n)
{
	const struct holds *h = s->holds;
	u64 summed = 0, named = 0;

	CHECK(h->nr_free == n->unused, "free places are counted");
	CHECK(h->room.used == n->used, "HD5: memory counts until it is the kernel's again");
	CHECK(h->used_bytes == n->had, "memory that somebody has is counted");
	CHECK(h->huge_bytes == n->huge, "huge pages are counted");
	CHECK(h->leaving_bytes == n->leaving, "memory that leaves is counted");
	for (u32 i = 0; i < NR_TIERS; i++)
		CHECK(h->tiers[i].nr == n->tiers[i].nr &&
		              h->tiers[i].bytes == n->tiers[i].bytes,
		      "a tier counts its ranges");
	for (u32 i = 0; i < HOLD_CLASSES; i++)
		CHECK(h->nr_of_class[i] == n->of_class[i], "a class counts its ranges");
	for (u32 i = 0; i < s->shape->nr_files; i++)
		summed += h->sums[i].bytes;
	CHECK(summed == n->summed, "a file counts its ranges");
	for (u32 i = 0; i < HOLD_NAMES; i++)
		named += h->queues.ghost[i].bytes;
	CHECK(h->queues.ghost_bytes == named, "GHOST counts its names");
}

void holds_check_asker(const struct hold_asker *asker)
{
	u32 nr = 0;

	for (const struct held_range *r = asker->first; r; r = r->asker_next) {
		CHECK(r->asker == asker, "a range knows its asker");
		nr++;
	}
	CHECK(nr == asker->nr, "an asker counts its ranges");
}

void holds_check(const struct holding *s)
{
	const struct holds *h = s->holds;
	struct hold_counted n = { 0 };
	u64 nr_queued = 0;

	for (u64 i = 0; i < h->nr_places; i++) {
		const struct held_range *r = h->table[i];

		n.unused += !r;
		if (!r)
			continue;
		CHECK(r->number % HOLD_PLACES == i, "a range's number says its place");
		hold_check_range(r);
		hold_count(s, r, &n);
	}
	hold_check_sums(s, &n);
	for (u64 i = 0; i < h->nr_free; i++)
		CHECK(!h->table[h->free_places[i]], "a free place is free");
	for (u32 i = 0; i < HOLDS_NR_QUEUES; i++) {
		hold_check_queue(&h->queues, i);
		nr_queued += h->queues.lists[i].nr;
	}
	CHECK(nr_queued + n.unused == h->nr_places, "each range stands in a queue");
	CHECK(h->queues.lists[HOLDS_READING].nr > 0 ||
	              (h->loads.nr_pieces == 0 && h->loads.nr_far == 0 &&
	               h->loads.to_come == 0 && h->loads.noted == 0),
	      "nothing is read for no range");
}
