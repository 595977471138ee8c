/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What becomes of each range: room, reading, its end. See holds.h.
 *
 * Nothing tells this file that the file of a range has gone. Each giving looks at the file's proof
 * (HD2), and so does each piece that is read. The tick finds the other ranges.
 */
#include <errno.h>

#include "lib/port.h"
#include "lib/service/base/worker.h"
#include "lib/service/hold/hold_table.h"
#include "lib/service/hold/holds.h"
#include "lib/service/hold/hold_tier.h"
#include "lib/service/hold/state.h"
#include "lib/service/base/base.h"
#include "lib/service/file/files.h"
#include "lib/service/hold/hold_load.h"
#include "lib/service/hold/hold_queue.h"
#include "lib/service/hold/range.h"

/* What a turn and a tick look at, beyond HOLDS_PROBES. Each look is a cache line or two. */
#define LOOKS_PER_TURN 4096u
#define LOOKS_PER_TICK 1024u
/* Ranges that a turn begins to read, or refuses: 30 us each. */
#define BEGINS_PER_TURN 16u
/* Failed ranges that stay for a moment. */
#define FAILED_MOST 1024u
/* To close more takes longer than to tell a worker: the kernel frees 1 MiB in 50 us. */
#define CLOSE_HERE_BYTES ((u64)64 << 10)
/* What it costs to let a range go, in looks of HOLDS_PROBES. */
#define CLOSE_PROBES 4u
/* Ranges that go when descriptors run out. */
#define SPARE 16u

struct hold_closing {
	struct worker_job job;
	struct held_range *range;
	int fd;
};

/* ---- how a range ends ---- */

/* Will its memory be there for others soon? */
static void holds_set_leaving(struct holds *h, struct held_range *r, bool leaving)
{
	h->leaving_bytes += (leaving ? r->bytes : 0) - (r->leaving ? r->bytes : 0);
	r->leaving = leaving;
}

/* It has no memory any more. The error stays for those who have not asked yet. */
static void holds_fail(struct holding *s, struct held_range *r, int error)
{
	struct holds *h = s->holds;

	hold_table_unlink(h, r);
	hold_table_settle(h, r, error);
	hold_queue_move(&h->queues, r, HOLDS_FAILED);
	if (h->queues.lists[HOLDS_FAILED].nr > FAILED_MOST)
		hold_table_free(h, h->queues.lists[HOLDS_FAILED].oldest);
}

/* Nobody has it, and its description is closed. */
static void holds_closed(struct holding *s, struct held_range *r)
{
	struct holds *h = s->holds;

	r->fd = -1;
	holds_set_leaving(h, r, false);
	h->huge_bytes -= r->huge_bytes;
	hold_tier_count(h, r, false);
	hold_end(&r->core);
	if (r->error)
		holds_fail(s, r, r->error);
	else
		hold_table_free(h, r);
}

static void closing_work(struct worker_job *job)
{
	service_close(&((struct hold_closing *)job)->fd);
}

static void closing_done(void *owner, struct worker_job *job)
{
	struct holding *s = owner;
	struct held_range *r = ((struct hold_closing *)job)->range;

	port_free(job);
	holds_closed(s, r);
}

/* Closes r, which is GOING. */
static void holds_close(struct holding *s, struct held_range *r)
{
	struct holds *h = s->holds;
	struct hold_closing *closing = NULL;

	hold_table_note(h, r);
	hold_table_unlink(h, r);
	hold_queue_move(&h->queues, r, HOLDS_CLOSING);
	holds_set_leaving(h, r, true);
	if (r->bytes > CLOSE_HERE_BYTES && worker_any(s->base))
		closing = port_alloc(sizeof(*closing));
	if (closing) {
		worker_job_init(&closing->job, WORKER_ANY, 0, OWNER_HOLDING, closing_work,
		                closing_done);
		closing->range = r;
		closing->fd = r->fd;
		worker_do(s->base, &closing->job); /* it is for no program, so it is accepted */
		return;
	}
	service_close(&r->fd);
	holds_closed(s, r);
}

void holds_outdate(struct holding *s, struct held_range *r)
{
	struct holds *h = s->holds;

	hold_table_unlink(h, r);
	switch (r->queue) {
	case HOLDS_WANTING: holds_fail(s, r, -ESTALE); break;
	case HOLDS_READING:
		if (r->settled)
			break;
		hold_outdate(&r->core);
		hold_table_settle(h, r, -ESTALE);
		holds_set_leaving(h, r, true);
		hold_load_cancel(s, r->load);
		break;
	case HOLDS_SMALL:
	case HOLDS_MAIN:
		hold_outdate(&r->core);
		hold_queue_move(&h->queues, r, HOLDS_PAST);
		break;
	default: break;
	}
}

/* ---- room ---- */

/* May r go? It was read for somebody who is about to ask again. */
static bool holds_is_fresh(const struct held_range *r)
{
	return r->queue != HOLDS_PAST && r->owed > 0 && host_now_ns() < r->until_ns;
}

/* Lets the next range go that nobody has. -EAGAIN: this turn has looked at enough. -ENOSPC: all
 * are in use. */
static int holds_evict(struct holding *s, u32 *probes, u32 *looks)
{
	struct holds *h = s->holds;
	struct held_range *r;

	if (!h->searching)
		hold_queue_search(&h->queues);
	h->searching = true;
	while (*probes > 0) {
		r = hold_queue_next(&h->queues, looks);
		if (!r)
			break;
		--*probes;
		if (holds_is_fresh(r) || hold_tier_moves(h, r) ||
		    !hold_leave(&r->core, hold_table_is_had, r)) {
			hold_table_note(h, r);
			hold_queue_refuse(&h->queues, r);
			continue;
		}
		*probes -= *probes < CLOSE_PROBES ? *probes : CLOSE_PROBES;
		hold_queue_evicted(&h->queues, r);
		holds_close(s, r);
		return 0;
	}
	if (*probes == 0 || *looks == 0)
		return -EAGAIN;
	h->searching = false;
	return -ENOSPC;
}

/* A range that is being read, but for nobody any more. */
static bool holds_cancel_unwanted(struct holding *s)
{
	struct holds *h = s->holds;
	struct held_range *r = h->queues.lists[HOLDS_READING].oldest;

	for (u32 left = HOLDS_PROBES; r && left > 0; r = r->newer, left--) {
		if (r->settled || hold_is_wanted(r))
			continue;
		hold_outdate(&r->core);
		hold_table_settle(h, r, -ECANCELED);
		hold_table_unlink(h, r);
		holds_set_leaving(h, r, true);
		hold_load_cancel(s, r->load);
		return true;
	}
	return false;
}

/* Makes room for r, and takes it. -EAGAIN: the next turn goes on. -EINPROGRESS: there will be
 * room when what leaves has left. -ENOSPC. -ESTALE: its file has changed. -ECANCELED: nobody
 * wants it any more. */
static int holds_take_room(struct holding *s, struct held_range *r, u32 *probes,
                           u32 *looks)
{
	struct holds *h = s->holds;
	const struct held_file *f = files_find(s->files, r->file);
	struct hold_file file;
	int err;

	if (!hold_is_wanted(r))
		return -ECANCELED;
	if (!f)
		return -ESTALE;
	file = hold_table_file(s, f, r->node);
	while (!hold_begin(&r->core, &h->room, &file, r->offset, r->offset + r->bytes,
	                   r->bytes, hold_load_nr_pieces(r->bytes))) {
		if (r->bytes + h->room.used <= h->room.most + h->leaving_bytes)
			return -EINPROGRESS;
		err = holds_evict(s, probes, looks);
		if (err == -ENOSPC &&
		    (holds_cancel_unwanted(s) ||
		     s->budget.make_room(s->budget.of, h->room.used + r->bytes)))
			return -EINPROGRESS;
		if (err)
			return err;
	}
	return 0;
}

/* Nobody will see r, and it has no description. */
static void holds_spoil(struct holding *s, struct held_range *r, int error)
{
	hold_end(&r->core);
	holds_fail(s, r, error);
}

/* Lets some ranges go. The errors are those of holds_evict(). */
static int holds_spare(struct holding *s)
{
	u32 probes = HOLDS_PROBES, looks = LOOKS_PER_TURN, nr = 0;
	int err = 0;

	while (nr < SPARE && (err = holds_evict(s, &probes, &looks)) == 0)
		nr++;
	return nr > 0 ? 0 : err;
}

void holds_spare_descriptors(struct holding *s)
{
	if (!s->holds)
		return;
	s->holds->searching = false;
	holds_spare(s);
}

/* r has room: workers begin to read. -EINPROGRESS: there is no descriptor until what leaves has
 * left. -EAGAIN: the next turn goes on. In both cases r waits for room again. */
static int holds_read(struct holding *s, struct held_range *r)
{
	struct holds *h = s->holds;
	int err;

	hold_queue_move(&h->queues, r, HOLDS_READING);
	hold_table_link(h, r);
	err = hold_load_begin(s, &h->loads, r, files_find(s->files, r->file));
	if (!err) {
		h->searching = false;
		return 0;
	}
	hold_publish(&r->core, false);
	if (err != -ENFILE ||
	    (h->queues.lists[HOLDS_CLOSING].nr == 0 && holds_spare(s) == -ENOSPC)) {
		h->searching = false;
		holds_spoil(s, r, err);
		return 0;
	}
	hold_end(&r->core);
	hold_table_unlink(h, r);
	hold_queue_move(&h->queues, r, HOLDS_WANTING);
	return h->queues.lists[HOLDS_CLOSING].nr > 0 ? -EINPROGRESS : -EAGAIN;
}

/* As far as this turn may go. true: there is more to do at once. */
static bool holds_go_on(struct holding *s)
{
	struct holds *h = s->holds;
	struct held_range *r;
	int err;

	h->room.most = h->queues.most = s->budget.now(s->budget.of);
	for (; (r = h->queues.lists[HOLDS_WANTING].oldest) != NULL; h->begins--) {
		if (h->begins == 0)
			return true;
		err = holds_take_room(s, r, &h->probes, &h->looks);
		if (!err)
			err = holds_read(s, r);
		if (err == -EAGAIN)
			return true;
		if (err == -EINPROGRESS)
			return false;
		if (err)
			holds_fail(s, r, err);
	}
	return false;
}

void holds_want(struct holding *s, struct held_range *r)
{
	hold_queue_move(&s->holds->queues, r, HOLDS_WANTING);
	holds_go_on(s);
}

void holds_loaded(struct holding *s, struct held_range *r, int error)
{
	struct holds *h = s->holds;

	if (r->settled) { /* it was cancelled, or outdated */
		holds_set_leaving(h, r, false);
		error = r->error;
	} else if (error && !hold_vouch(&r->core.file)) {
		/* A writer has cut the file off, for example. That is no error of a disk. */
		error = -ESTALE;
	}
	if (r->fd >= 0) {
		h->huge_bytes += r->huge_bytes;
		hold_tier_count(h, r, true);
	}
	if (hold_publish(&r->core, !error)) {
		s->stat->holds_read++;
		hold_table_settle(h, r, 0);
		hold_queue_insert(&h->queues, r);
		return;
	}
	error = error ? error : -ESTALE;
	s->stat->holds_failed++;
	if (error == -ENFILE)
		holds_spare_descriptors(s); /* for the next try */
	hold_table_settle(h, r, error);
	if (r->fd >= 0)
		holds_close(s, r);
	else
		holds_spoil(s, r, error);
}

bool holds_give_back(struct holding *s)
{
	u32 probes = HOLDS_PROBES, looks = LOOKS_PER_TURN;
	bool any = false;

	if (!s->holds)
		return false;
	/* It goes on where the last call has ended. */
	while (holds_evict(s, &probes, &looks) == 0)
		any = true;
	return any;
}

/* ---- now and then ---- */

static void holds_sweep_one(struct holding *s, struct held_range *r, u32 *probes)
{
	const struct held_file *f = files_find(s->files, r->file);
	bool live = f && files_is_live(s->files, f);

	if (!live)
		holds_outdate(s, r);
	/* It was cancelled, and its file does not answer: nobody should wait for this. */
	if (r->queue == HOLDS_READING && r->settled && r->until_ns < host_now_ns())
		holds_set_leaving(s->holds, r, false);
	if (r->queue != HOLDS_PAST && !(hold_is_ready(r) && r->had))
		return;
	--*probes;
	if (r->queue == HOLDS_PAST && !hold_tier_moves(s->holds, r) &&
	    hold_leave(&r->core, hold_table_is_had, r)) {
		*probes -= *probes < CLOSE_PROBES ? *probes : CLOSE_PROBES;
		s->holds->sweeping = true;
		holds_close(s, r);
		return;
	}
	hold_look(&r->core, hold_table_is_had, r);
	hold_table_note(s->holds, r);
}

/* One piece of the table. Where a range has left, more may: then the next turn goes on. */
static void holds_sweep(struct holding *s)
{
	struct holds *h = s->holds;
	u32 probes = HOLDS_PROBES;
	struct held_range *r;

	h->sweeping = false;
	for (u32 i = 0; i < LOOKS_PER_TICK && i < h->nr_places && probes > 0; i++) {
		r = h->table[h->tick_at++ % h->nr_places];
		if (r)
			holds_sweep_one(s, r, &probes);
	}
}

bool holds_run(struct holding *s)
{
	struct holds *h = s->holds;
	bool busy;

	if (!h)
		return false;
	h->probes = HOLDS_PROBES;
	h->looks = LOOKS_PER_TURN;
	h->begins = BEGINS_PER_TURN;
	if (h->sweeping)
		holds_sweep(s);
	hold_load_turn(s, &h->loads);
	busy = holds_go_on(s);
	busy |= hold_tier_run(s, &h->probes);
	return busy || h->sweeping;
}

void holds_tick(struct holding *s)
{
	struct holds *h = s->holds;
	struct held_range *r;
	u64 now = host_now_ns();

	if (!h)
		return;
	holds_sweep(s);
	hold_tier_look(s, false);
	while ((r = h->queues.lists[HOLDS_FAILED].oldest) != NULL && r->until_ns < now)
		hold_table_free(h, r);
#ifdef LODIC_DEBUG
	holds_check(s);
#endif
}

bool holds_any(const struct holding *s)
{
	return s->holds && s->holds->nr_places > s->holds->nr_free;
}

bool holds_any_wanting(const struct holding *s)
{
	return s->holds && s->holds->queues.lists[HOLDS_WANTING].nr > 0;
}

u64 holds_used(const struct holding *s)
{
	return s->holds ? s->holds->room.used : 0;
}

/* ---- start and end ---- */

int holds_init(struct holding *s)
{
	struct holds *h;

	if (s->sizes->hold_bytes == 0)
		return 0;
	h = port_alloc(sizeof(*h));
	if (!h)
		return -ENOMEM;
	s->holds = h;
	h->page_bytes = port_page_bytes();
	h->room.most = h->queues.most = s->budget.now(s->budget.of);
	h->queues.search = 1;
	h->alive = host_load_acquire(&s->arena->header->alive);
	/* A time in ns: no two services of a socket have a number in common, because each range
	 * takes longer than that. */
	h->last_serial = s->arena->header->generation;
	h->table = port_alloc(HOLD_PLACES * sizeof(*h->table));
	h->free_places = port_alloc(HOLD_PLACES * sizeof(*h->free_places));
	h->chains = port_alloc(HOLD_PLACES * sizeof(*h->chains));
	h->sums = port_alloc(s->shape->nr_files * sizeof(*h->sums));
	return h->table && h->free_places && h->chains && h->sums ? 0 : -ENOMEM;
}

void holds_stop(struct holding *s)
{
	if (!s->holds)
		return;
	s->holds->loads.stopping = true;
	hold_tier_stop(s->holds);
}

void holds_fini(struct holding *s)
{
	struct holds *h = s->holds;

	if (!h)
		return;
	for (u64 i = 0; i < h->nr_places; i++) {
		struct held_range *r = h->table[i];

		if (!r)
			continue;
		if (r->load)
			hold_load_abandon(r->load);
		if (r->queue != HOLDS_CLOSING)
			service_close(&r->fd);
		port_free(r);
	}
	hold_load_forget(&h->loads);
	port_free(h->table);
	port_free(h->free_places);
	port_free(h->chains);
	port_free(h->sums);
	port_free(h);
	s->holds = NULL;
}
