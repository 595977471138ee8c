/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Frames on their way out. Rules: core/cache/batch.h, and K1 to K7 in core/cache/arena.h. */
#include "core/cache/batch.h"

void batch_init(struct batch *b, u32 number)
{
	b->number = number;
	b->state = BATCH_OPEN;
	b->nr = b->at = 0;
	b->list.nr = 0;
}

bool batch_add(struct arena *a, struct batch *b, const struct walk_list *list,
               u32 frame)
{
	CHECK(b->state == BATCH_OPEN && !batch_is_full(b),
	      "B2: added to an open batch");
	if (list && walk_query(a, list, frame))
		return false;
	frame_hide(&a->frames[frame], b->number);
	b->frames[b->nr++] = frame;
	return true;
}

void batch_close(const struct arena *a, struct batch *b)
{
	(void)a; /* a batch's calls all have it */
	CHECK(b->state == BATCH_OPEN, "B2: closed once");
	b->state = BATCH_CLOSED;
}

void batch_fenced(struct arena *a, struct batch *b)
{
	CHECK(b->state == BATCH_CLOSED, "B2: closed, then fenced");
	b->state = BATCH_WALKED;
	b->at = 0;
	walk_list(a, &b->list); /* B3 */
}

/* B1: has frame stayed in the batch? */
static bool batch_has(const struct arena *a, const struct batch *b, u32 frame)
{
	return frame_is_hidden(&a->frames[frame], b->number);
}

enum batch_end batch_look(struct arena *a, struct batch *b, u32 *ret_frame)
{
	u32 frame;

	CHECK(b->state == BATCH_WALKED, "B2: fenced, then walked");
	if (b->at == b->nr) {
		b->state = BATCH_OPEN;
		b->nr = 0;
		return BATCH_DONE;
	}
	frame = *ret_frame = b->frames[b->at++];
	if (!batch_has(a, b, frame))
		return BATCH_RESCUED;
	if (!walk_query(a, &b->list, frame))
		return BATCH_TAKEN;
	frame_show(&a->frames[frame]);
	return BATCH_REFUSED;
}

enum batch_end batch_next(struct arena *a, struct batch *b, u32 *ret_frame)
{
	enum batch_end end = batch_look(a, b, ret_frame);

	if (end != BATCH_TAKEN)
		return end;
	arena_clear(a, *ret_frame);
	return BATCH_TAKEN;
}

void batch_rescue(struct arena *a, u32 frame)
{
	if (batch_is_hidden(a, frame))
		frame_show(&a->frames[frame]);
}

bool batch_fence(const struct arena *a)
{
	if (a->header->barrier == ARENA_BARRIER_LIGHT)
		return host_fence_global(); /* O5 */
	host_fence_full();                  /* O5 */
	return true;
}

bool batch_take_one(struct arena *a, struct batch *b, u32 frame)
{
	u32 next;
	bool taken;

	walk_list(a, &b->list);
	if (!batch_add(a, b, &b->list, frame))
		return false;
	batch_close(a, b);
	if (!batch_fence(a))
		host_fail("there is no fence for all processes", __FILE__, __LINE__);
	batch_fenced(a, b);
	taken = batch_next(a, b, &next) == BATCH_TAKEN;
	batch_next(a, b, &next); /* open again */
	return taken;
}
