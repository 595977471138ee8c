/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See hold_table.h. */
#include <errno.h>
#include <string.h>

#include "core/block.h"
#include "lib/port.h"
#include "lib/service/hold/hold_table.h"
#include "lib/service/memory/memory.h"
#include "lib/service/hold/state.h"
#include "lib/service/file/files.h"
#include "lib/service/file/held.h"
#include "lib/service/hold/hold_queue.h"
#include "lib/service/hold/range.h"

/* How long a range that was just read waits for those who wanted it, and a failed one for those
 * who have not asked yet. */
#define FRESH_NS (1000 * NS_PER_MS)

/* ---- the kernel, and core's rules ---- */

bool hold_table_is_had(void *ctx)
{
	const struct held_range *r = ctx;

	return memory_ask_own(r->fd) != MEMORY_UNUSED;
}

struct holds *hold_table(const struct holding *s)
{
	return s->holds;
}

u64 hold_table_most(const struct holding *s)
{
	return s->budget.at_most(s->budget.of);
}

struct hold_file hold_table_file(const struct holding *s, const struct held_file *f,
                                 u32 node)
{
	const u64 *alive = &s->arena->header->alive;

	return (struct hold_file){ .proof = &s->arena->files[files_slot(s->files, f)],
		                   .alive = alive,
		                   .alive_value = s->holds->alive,
		                   .id = held_id(f),
		                   .node = node };
}

void hold_table_note(struct holds *h, struct held_range *r)
{
	h->used_bytes += (r->core.had ? r->bytes : 0) - (r->had ? r->bytes : 0);
	r->had = r->core.had;
	if (!r->had)
		r->nr_pids = r->more = 0;
}

/* ---- the table ---- */

struct held_range *hold_table_new(struct holds *h)
{
	struct held_range *r;
	u64 place;

	if (h->nr_free == 0 && h->nr_places == HOLD_PLACES)
		return NULL;
	r = port_alloc(sizeof(*r));
	if (!r)
		return NULL;
	place = h->nr_free > 0 ? h->free_places[--h->nr_free] : h->nr_places++;
	h->table[place] = r;
	r->number = ++h->last_serial * HOLD_PLACES + place;
	r->fd = -1;
	r->queue = HOLDS_NR_QUEUES;
	r->since_ns = host_now_ns();
	return r;
}

void hold_table_free(struct holds *h, struct held_range *r)
{
	u32 place = (u32)(r->number % HOLD_PLACES);

	hold_queue_remove(&h->queues, r);
	h->table[place] = NULL;
	h->free_places[h->nr_free++] = place;
	port_free(r);
}

struct held_range *hold_table_find(const struct holding *s, u64 number)
{
	struct holds *h = s->holds;
	struct held_range *r = h ? h->table[number % HOLD_PLACES] : NULL;

	return r && r->number == number ? r : NULL;
}

/*
 * A range of class c has 2^c bytes at least, and fewer than twice as many. The file is cut into
 * pieces of 2^c bytes, and the chain is chosen by the piece in which the range begins. What lies
 * around a byte begins in that byte's piece, or in one of the two before it.
 */
static u32 hold_table_class(u64 bytes)
{
	return HOLD_CLASSES - 1 - (u32)__builtin_clzll(bytes);
}

static struct hold **hold_table_chain(struct holds *h, u32 slot, u32 class, u64 piece)
{
	u64 file = block_hash((u64)slot * HOLD_CLASSES + class);

	return &h->chains[block_hash(file ^ piece) % HOLD_PLACES];
}

enum hold_answer hold_table_ask(struct holds *h, const struct hold_file *file, u32 slot,
                                u64 from, u64 to, struct hold **ret_hold)
{
	enum hold_answer best = HOLD_NONE, answer;
	struct hold *found;

	for (u32 class = hold_table_class(to - from); class < HOLD_CLASSES; class ++) {
		u64 piece = from >> class;

		if (h->nr_of_class[class] == 0)
			continue;
		for (u64 i = 0; i <= 2 && i <= piece; i++) {
			answer = hold_ask(*hold_table_chain(h, slot, class, piece - i),
			                  file, from, to, &found);
			if (answer == HOLD_NONE || answer == best)
				continue;
			*ret_hold = found;
			best = answer;
			if (best == HOLD_GIVE)
				return best;
		}
	}
	return best;
}

static void hold_table_add_bytes(struct holds *h, const struct held_range *r)
{
	struct hold_sum *sum = &h->sums[r->slot];

	if (sum->id != r->file)
		*sum = (struct hold_sum){ .id = r->file };
	sum->bytes += r->bytes;
}

void hold_table_link(struct holds *h, struct held_range *r)
{
	u32 class = hold_table_class(r->bytes);
	struct hold **head = hold_table_chain(h, r->slot, class, r->offset >> class);

	h->nr_of_class[class]++;
	hold_table_add_bytes(h, r);
	r->core.next = *head;
	r->at = head;
	if (*head)
		hold_table_range(*head)->at = &r->core.next;
	*head = &r->core;
}

void hold_table_unlink(struct holds *h, struct held_range *r)
{
	struct hold_sum *sum = &h->sums[r->slot];

	if (!r->at)
		return;
	h->nr_of_class[hold_table_class(r->bytes)]--;
	sum->bytes -= sum->id == r->file ? r->bytes : 0;
	*r->at = r->core.next;
	if (r->core.next)
		hold_table_range(r->core.next)->at = r->at;
	r->at = NULL;
}

/* ---- who waits ---- */

static void hold_table_leave_asker(struct held_range *r)
{
	if (!r->asker)
		return;
	*r->asker_at = r->asker_next;
	if (r->asker_next)
		r->asker_next->asker_at = r->asker_at;
	r->asker->nr--;
	r->asker = NULL;
}

void hold_table_join_asker(struct held_range *r, struct hold_asker *asker)
{
	r->asker = asker;
	r->asker_next = asker->first;
	r->asker_at = &asker->first;
	if (r->asker_next)
		r->asker_next->asker_at = &r->asker_next;
	asker->first = r;
	asker->nr++;
}

static void hold_table_unlink_waiter(struct hold_waiter *w)
{
	if (!w->at)
		return;
	*w->at = w->next;
	if (w->next)
		w->next->at = w->at;
	w->at = NULL;
}

static void hold_table_link_waiter(struct hold_waiter **head, struct hold_waiter *w)
{
	w->next = *head;
	w->at = head;
	if (w->next)
		w->next->at = &w->next;
	*head = w;
}

/* All who wait for r get their answer. */
void hold_table_settle(struct holds *h, struct held_range *r, int error)
{
	bool asked = r->asker != NULL;
	struct hold_waiter *w;

	if (r->settled)
		return;
	r->settled = true;
	r->error = error;
	hold_table_leave_asker(r);
	for (r->owed = 0; (w = r->waiters) != NULL; r->owed++) {
		hold_table_unlink_waiter(w);
		w->range = NULL;
		w->error = error;
		hold_table_link_waiter(&h->answers, w);
	}
	/* The client for which it was read may not have begun to wait. */
	r->owed += asked && r->owed == 0;
	r->until_ns = host_now_ns() + FRESH_NS;
}

int hold_table_wait(struct holding *s, u64 number, struct hold_waiter *w)
{
	struct held_range *r = hold_table_find(s, number);

	if (w->at)
		return -EBUSY;
	if (!r)
		return 0;
	/* A range that was cancelled, because nobody waited: the client asks for it anew. */
	if (r->settled)
		return r->error == -ECANCELED ? 0 : r->error;
	w->range = r;
	hold_table_link_waiter(&r->waiters, w);
	return -EINPROGRESS;
}

struct hold_waiter *hold_table_settled(struct holding *s)
{
	struct hold_waiter *w = s->holds ? s->holds->answers : NULL;

	if (w)
		hold_table_unlink_waiter(w);
	return w;
}

void hold_table_forget(struct hold_asker *asker)
{
	struct held_range *r = asker->waiter.range;

	hold_table_unlink_waiter(&asker->waiter);
	asker->waiter.range = NULL;
	/* The program that had it read has waited, too: nobody wants it any more. */
	if (r && !r->waiters)
		hold_table_leave_asker(r);
	while (asker->first)
		hold_table_leave_asker(asker->first);
}

/* ---- who has it ---- */

void hold_table_charge(struct holds *h, struct held_range *r, int pid)
{
	u32 i = 0;

	hold_table_note(h, r);
	while (i < r->nr_pids && r->pids[i] != (u32)pid)
		i++;
	if (i < r->nr_pids)
		return;
	if (r->nr_pids < LOOK_HOLD_PIDS)
		r->pids[r->nr_pids++] = (u32)pid;
	else
		r->more++;
}

/* ---- what others see ---- */

u64 hold_table_nr_places(const struct holding *s)
{
	return s->holds ? s->holds->nr_places : 0;
}

static enum look_hold_state hold_table_look_state(const struct held_range *r)
{
	switch (r->queue) {
	case HOLDS_READING: return LOOK_HOLD_LOADING;
	case HOLDS_SMALL:
	case HOLDS_MAIN: return LOOK_HOLD_SHARED;
	default: return LOOK_HOLD_PAST;
	}
}

bool hold_table_look(const struct holding *s, u64 place, struct look_hold *ret)
{
	const struct held_range *r = s->holds->table[place];

	if (!r || r->queue == HOLDS_WANTING || r->queue == HOLDS_FAILED)
		return false;
	*ret = (struct look_hold){ .state = hold_table_look_state(r),
		                   .number = r->number,
		                   .dev = r->dev,
		                   .ino = r->ino,
		                   .offset = r->offset,
		                   .length = r->length,
		                   .memory = r->bytes,
		                   .huge_bytes = r->huge_bytes,
		                   .age_ns = host_now_ns() - r->since_ns,
		                   .had = r->had,
		                   .nr_pids = r->nr_pids,
		                   .more = r->more };
	memcpy(ret->pids, r->pids, sizeof(ret->pids));
	return true;
}

u64 hold_table_bytes_of(const struct holding *s, const struct held_file *f)
{
	const struct hold_sum *sum;

	if (!s->holds)
		return 0;
	sum = &s->holds->sums[files_slot(s->files, f)];
	return sum->id == held_id(f) ? sum->bytes : 0;
}

void hold_table_stat(const struct holding *s, struct lodic_stat *stat)
{
	const struct holds *h = s->holds;

	if (!h)
		return;
	stat->holds = h->nr_places - h->nr_free - h->queues.lists[HOLDS_WANTING].nr -
	              h->queues.lists[HOLDS_FAILED].nr;
	stat->hold_limit = s->budget.at_most(s->budget.of);
	stat->hold_bytes = h->room.used;
	stat->hold_used_bytes = h->used_bytes;
	stat->hold_huge_bytes = h->huge_bytes;
}
