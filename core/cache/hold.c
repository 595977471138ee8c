/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Ranges of files in memory of their own. Rules and calls: core/cache/hold.h. */
#include "core/cache/hold.h"

bool hold_vouch(const struct hold_file *f)
{
	/* The caller took a lock after what it vouches for: O40, O41. alive after live, whose
	 * load is an acquire; each of them alone tells of the end. */
	return file_proof_holds(f->proof, f->id) &&
	       host_load_relaxed(f->alive) == f->alive_value;
}

/* Is h of this file, under this id (HD8)? */
static bool hold_is_of(const struct hold *h, const struct hold_file *f)
{
	return h->file.id == f->id && h->file.node == f->node &&
	       h->file.alive_value == f->alive_value;
}

/* May a request wait for h, or get it? */
static bool hold_is_open(const struct hold *h)
{
	return h->state == HOLD_SHARED || (h->state == HOLD_LOADING && !h->spoilt);
}

/* From here on the host's last look is out of date (HD4). */
static void hold_given(struct hold *h)
{
	h->had = true;
}

enum hold_answer hold_ask(struct hold *first, const struct hold_file *f, u64 from,
                          u64 to, struct hold **ret_hold)
{
	/* HD2, O41. One look serves all holds of f: what it says does not change back (S2). */
	bool stands = hold_vouch(f);
	struct hold *found = NULL, *h;

	for (h = first; h; h = h->next) {
		if (!hold_is_of(h, f))
			continue;
		if (!stands)
			hold_outdate(h);
		if (hold_is_open(h) && h->from <= from && to <= h->to &&
		    (!found || h->state == HOLD_SHARED))
			found = h;
	}
	if (!found)
		return HOLD_NONE;
	*ret_hold = found;
	if (found->state == HOLD_LOADING)
		return HOLD_WAIT;
	hold_given(found);
	return HOLD_GIVE;
}

bool hold_pass_on(struct hold *h)
{
	if (h->state != HOLD_SHARED && h->state != HOLD_PAST)
		return false;
	hold_given(h);
	return true;
}

bool hold_begin(struct hold *h, struct hold_room *room, const struct hold_file *f,
                u64 from, u64 to, u64 bytes, u32 nr_pieces)
{
	DCHECK(h->state == HOLD_FREE, "a hold begins once");
	DCHECK(from < to && nr_pieces > 0, "a range has bytes, and pieces");
	/* most may be below used, when somebody has lowered it. */
	if (room->used > room->most || bytes > room->most - room->used)
		return false;
	room->used += bytes; /* HD5 */
	h->room = room;
	h->file = *f;
	h->from = from;
	h->to = to;
	h->bytes = bytes;
	h->state = HOLD_LOADING;
	h->nr_left = nr_pieces;
	h->nr_reading = 0;
	h->spoilt = false;
	h->had = false;
	return true;
}

bool hold_piece_begin(struct hold *h)
{
	if (h->state != HOLD_LOADING || h->spoilt || h->nr_left == 0)
		return false;
	if (!hold_vouch(&h->file)) {
		h->spoilt = true; /* publish would find it out, but later */
		return false;
	}
	h->nr_left--;
	h->nr_reading++;
	return true;
}

void hold_piece_end(struct hold *h, bool whole)
{
	DCHECK(h->state == HOLD_LOADING && h->nr_reading > 0, "HD9: a piece ends once");
	h->nr_reading--;
	if (!whole)
		h->spoilt = true;
}

bool hold_is_read(const struct hold *h)
{
	if (h->state != HOLD_LOADING)
		return false;
	if (h->nr_reading > 0)
		return false; /* HD9 */
	return h->nr_left == 0 || h->spoilt;
}

bool hold_publish(struct hold *h, bool sealed)
{
	bool good = !h->spoilt;

	good = good && sealed; /* HD3 */
	/* HD1, O40. A hold that was outdated may have lost the words to look at (HD8). */
	good = good && hold_vouch(&h->file);
	h->state = good ? HOLD_SHARED : HOLD_GOING;
	return good;
}

void hold_outdate(struct hold *h)
{
	if (h->state == HOLD_LOADING)
		h->spoilt = true; /* a worker may still write it (HD9) */
	else if (h->state == HOLD_SHARED)
		h->state = HOLD_PAST;
}

bool hold_look(struct hold *h, hold_is_had *is_had, void *ctx)
{
	if (h->had)
		h->had = is_had(ctx);
	return h->had;
}

bool hold_leave(struct hold *h, hold_is_had *is_had, void *ctx)
{
	if (h->state != HOLD_SHARED && h->state != HOLD_PAST)
		return false;
	if (hold_look(h, is_had, ctx))
		return false;
	h->state = HOLD_GOING; /* nothing gives it any more (HD4) */
	return true;
}

void hold_end(struct hold *h)
{
	DCHECK(h->state == HOLD_GOING, "HD9: only what goes ends");
	DCHECK(h->room->used >= h->bytes, "HD5: what ends has counted");
	h->room->used -= h->bytes; /* HD5 */
	h->state = HOLD_FREE;
}

void hold_check(const struct hold *h)
{
	bool seen = h->state == HOLD_SHARED || h->state == HOLD_PAST;

	CHECK(h->state <= HOLD_GOING, "a state");
	CHECK(h->state == HOLD_LOADING || h->nr_reading == 0,
	      "HD9: LOADING while a worker may write it");
	CHECK(seen || h->state == HOLD_FREE || !h->had,
	      "HD6: nobody has what was never published");
	CHECK(h->state == HOLD_FREE || h->bytes <= h->room->used,
	      "HD5: its bytes count");
}
