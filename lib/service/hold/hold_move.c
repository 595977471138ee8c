/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See hold_move.h. */
#include "lib/service/hold/hold_move.h"
#include "lib/service/hold/hold_table.h"
#include "lib/service/hold/state.h"
#include "lib/service/file/files.h"
#include "lib/service/file/held.h"
#include "lib/service/hold/hold_load.h"
#include "lib/service/hold/holds.h"
#include "lib/service/hold/range.h"

/* From now on r is a range of s's file. false: it cannot be. */
static bool hold_move_file(const struct holding *old, struct holding *s,
                           struct held_range *r, u32 id)
{
	const struct held_file *f = files_find(old->files, r->file);
	const struct held_file *n = files_find(s->files, id);

	if (!f || !n || held_size(n) != held_size(f) || !files_is_live(old->files, f))
		return false;
	r->file = id;
	r->slot = files_slot(s->files, n);
	r->core.file = hold_table_file(s, n, r->node);
	return true;
}

static bool hold_move_wants(const struct held_range *r)
{
	return hold_is_ready(r) || r->queue == HOLDS_READING || r->queue == HOLDS_WANTING;
}

void hold_move_all(struct holding *old, struct holding *s,
                   u32 (*new_id)(const void *arg, u32 id), const void *arg)
{
	struct holds *h = old->holds;

	old->holds = s->holds;
	s->holds = h;
	if (!h)
		return;
	h->alive = host_load_acquire(&s->arena->header->alive);
	/* First all are unlinked. A number of the new arena may have been another file's in the old
	 * one, and a sum of bytes is of one number. Nobody looks for a range meanwhile. */
	for (u64 i = 0; i < h->nr_places; i++) {
		struct held_range *r = h->table[i];

		if (r && hold_move_wants(r)) {
			r->moves = r->at != NULL;
			hold_table_unlink(h, r);
		}
	}
	for (u64 i = 0; i < h->nr_places; i++) {
		struct held_range *r = h->table[i];

		if (!r || !hold_move_wants(r))
			continue;
		if (!hold_move_file(old, s, r, new_id(arg, r->file)))
			holds_outdate(s, r);
		else if (r->moves)
			hold_table_link(h, r);
	}
}

void hold_move_asker(struct hold_asker *from, struct hold_asker *to,
                     struct client *client)
{
	struct hold_waiter *w = &to->waiter;

	*to = *from;
	*from = (struct hold_asker){ 0 };
	w->client = client;
	if (to->first)
		to->first->asker_at = &to->first;
	for (struct held_range *r = to->first; r; r = r->asker_next)
		r->asker = to;
	if (!w->at)
		return;
	*w->at = w;
	if (w->next)
		w->next->at = &w->next;
}

bool hold_move_needs(const struct holding *s, const struct holding *old)
{
	const struct held_range *r =
		s->holds ? s->holds->queues.lists[HOLDS_READING].oldest : NULL;

	/* Few are read at once: HOLDS_EACH for a program. */
	for (; r; r = r->newer)
		if (r->load && hold_load_is_of(r->load, old))
			return true;
	return false;
}
