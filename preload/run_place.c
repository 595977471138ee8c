/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Mappings whose memory the shim changes under the program (ADR-0028). A place is a piece of the
 * program's address space. It has the kernel's mapping of a file, and gets the file's hold when
 * that has been read. Or it has the hold of a file that somebody writes to, and gets the kernel's
 * mapping back. A program that maps its files once asks for nothing a second time. So the shim
 * goes on asking for it.
 *
 *              the service vouches for a hold
 *   WAITING -----------------------------------> private: forgotten, the program's for good
 *      ^                                         promised: LENT
 *      |        it vouches no more                  |
 *      +--------------------------------------------+
 *
 * One mmap(MAP_FIXED) does either step. The kernel makes it as a whole: a thread that reads there
 * meanwhile finds the old mapping or the new one, and no hole. All that can refuse the call is
 * looked at before the old mapping goes. The shim has no thread of its own: the program's own calls
 * that come by the shim do the steps (run_enters()).
 *
 * PLACE_AS_IT_WAS Before a step the shim looks at /proc/self/maps. The whole place must show the
 *    mapping that the shim has noted: file, offset, rights and kind. If somebody has changed it
 *    past the shim, the shim forgets the place. Only a bare system call of another thread between
 *    this look and the step goes unseen. Without /proc there is no place.
 * PLACE_FORGOTTEN_FIRST The shim forgets a part of a place before libc's munmap(), mremap(),
 *    mprotect(), madvise() or mlock() changes it, or another mapping takes it. A part that stays
 *    mapped and has its hold goes back to the kernel first.
 * PLACE_NEVER_WRITTEN A mapping that the program may write to is never such a place, because its
 *    own pages would be lost. mprotect() ends a place, so this holds for all of its time.
 * PLACE_VOUCHED A hold comes only while the service vouches for it. The shim looks just before,
 *    and once more when the hold is there. If that look is good, no writer had opened the file
 *    before it (HD1), and both mappings had the same bytes. If not, the place goes back at once.
 *    Until then a thread may see an old byte after a new one.
 * PLACE_GOES_BACK A promised place that has its hold goes back when the service does not vouch for
 *    it any more. The shim looks when a call that locks a file is over, and in other calls once in
 *    PLACE_WATCH_NS or more. A service ends the proof before a writer's open() returns. So after
 *    a lock that keeps writers out, the program sees all that they have written. For that the place
 *    needs the descriptor that was mapped. If the program has closed it, the hold stays. While the
 *    program has no descriptor free, the place cannot go back.
 *
 * A forked child has its parent's places that wait, if it has the descriptor as well. It does not
 * watch those that have their hold.
 */
#define _GNU_SOURCE
#include "preload/run_place.h"

#include <errno.h>

#include "lib/client/error.h"
#include "lib/port/guest.h"
#include "preload/run_calls.h"
#include "preload/run_files.h"
#include "preload/run_report.h"

/* How often those that have their hold are looked at: so that the looks take a thousandth of the
 * time, or so. */
#define PLACE_WATCH_NS UINT64_C(1000000)
#define PLACE_WATCH_EACH_NS UINT64_C(20000)
/* So soon an answer is looked for. */
#define PLACE_SOON_NS UINT64_C(100000)
/* How long a place waits before it asks again: each time twice as long. While the service reads,
 * a question costs it a message; otherwise there is a reason that may last. Our choice. */
#define PLACE_FIRST_NS UINT64_C(2000000)
#define PLACE_READ_NS UINT64_C(250000000)
#define PLACE_LAST_NS UINT64_C(60000000000)
/* The same after a writer has come. Each return reads the whole file once more. */
#define PLACE_BACK_NS UINT64_C(1000000000)
#define PLACE_LAST_BACK_NS UINT64_C(1024000000000)
/* So many steps one call of the program's does, and leaves the others to the next. For each the
 * shim may have to read the list of the program's mappings. That takes milliseconds if it has
 * thousands. Our choice. */
#define PLACE_STEPS 16u

/* ---- what is there ---- */

/* The mapping at this address. -ENOENT: there is none, or the kernel does not say. -EMFILE: no
 * descriptor is free to ask by, or no memory. The lock is held. */
static int shown_find(u64 at, struct port_mapped *ret)
{
	int err = port_mapped_at(at, shim.places.shown, sizeof(shim.places.shown), ret);

	return err == -ENFILE || err == -ENOMEM ? -EMFILE : err;
}

/* Is all of the place this mapping? Its file is not looked at. */
static bool shown_fits(const struct port_mapped *v, const struct place *p)
{
	return v->end - p->at >= p->bytes && v->reads_only &&
	       v->shared == (p->kind == PORT_SHARED) &&
	       v->offset + (p->at - v->begin) == p->offset;
}

/* 0: it is as it was. -ENOENT: it is not. -EMFILE: nobody can tell now. */
static int place_look(const struct place *p)
{
	struct port_mapped v;
	int err = shown_find(p->at, &v);

	if (!err &&
	    (!shown_fits(&v, p) || v.dev != p->shown_dev || v.ino != p->shown_ino))
		err = -ENOENT;
	return err;
}

/* ---- the table ---- */

static u64 pages_up(u64 n)
{
	u64 page = port_page_bytes();

	return (n + page - 1) / page * page;
}

static void place_bound(const struct place *p)
{
	bool alone = host_fetch_add(&shim.run.nr_places, 1) == 0;

	if (alone || p->at < host_load_relaxed(&shim.places.lowest))
		host_store_relaxed(&shim.places.lowest, p->at);
	if (alone || p->at + p->bytes > host_load_relaxed(&shim.places.highest))
		host_store_relaxed(&shim.places.highest, p->at + p->bytes);
	host_store_relaxed(&shim.places.look_at_ns, 0);
}

bool run_places_full(void)
{
	return host_load_relaxed(&shim.run.nr_places) >= PLACES;
}

/* Fills a free place like this one. false: there is none. */
static bool place_add(const struct place *like)
{
	for (u32 i = 0; i < PLACES; i++) {
		struct place *p = &shim.places.list[i];

		if (p->bytes)
			continue;
		if (i >= shim.places.top)
			shim.places.top = i + 1;
		*p = *like;
		if (p->name)
			host_fetch_add(&shim.run.state->files[p->file].nr_fds, 1);
		place_bound(p);
		return true;
	}
	return false;
}

static void place_forget(struct run_state *s, struct place *p)
{
	if (p->name)
		run_file_unnamed(s, &s->files[p->file]);
	p->bytes = 0;
	host_fetch_add(&shim.run.nr_places, -(u64)1);
}

/* Keeps what lies outside [begin, end). */
static void place_cut(struct run_state *s, struct place *p, u64 begin, u64 end)
{
	struct place before = *p, after = *p;

	/* It is never 0 between: another thread would not say what it unmaps. */
	host_fetch_add(&shim.run.nr_places, 1);
	place_forget(s, p);
	if (begin > before.at) {
		before.bytes = begin - before.at;
		place_add(&before);
	}
	if (end < after.at + after.bytes) {
		after.bytes -= end - after.at;
		after.offset += end - after.at;
		after.at = end;
		place_add(&after);
	}
	host_fetch_add(&shim.run.nr_places, -(u64)1);
}

/* ---- steps ---- */

/* The descriptor that was mapped, if it still leads to the file; else -1. */
static int place_fd(const struct place *p, struct port_file *ret)
{
	return run_fits(p->fd, ret) == RUN_SERVED && ret->dev == p->dev &&
	                       ret->ino == p->ino
	               ? p->fd
	               : -1;
}

static void place_counts(struct place *p, enum run_why why)
{
	if (p->counted)
		run_note_moved(&(struct run_noted){ .fd = p->fd,
		                                    .known = true,
		                                    .dev = p->dev,
		                                    .ino = p->ino,
		                                    .bytes = p->bytes,
		                                    .why = why,
		                                    .map = true,
		                                    .moved = true,
		                                    .was = p->why });
	p->why = why;
}

/* Puts what fd leads to in the place. */
static bool place_put(const struct place *p, int fd)
{
	void *at;

	return port_map((void *)p->at, p->bytes, PORT_READ, p->kind | PORT_FIXED, fd,
	                p->offset, &at) == 0;
}

/* false: it is no place any more, or does not go back yet. */
static bool place_goes_back(struct run_state *s, struct place *p)
{
	struct port_mapped v;
	struct port_file is;
	int fd = place_fd(p, &is);
	int err = fd < 0 ? -ENOENT : place_look(p);

	if (err == -EMFILE)
		return false;
	if (err || !place_put(p, fd)) {
		place_forget(s, p);
		return false;
	}
	p->lent = false;
	p->back_ns = p->back_ns ? p->back_ns * 2 : PLACE_BACK_NS;
	if (p->back_ns > PLACE_LAST_BACK_NS)
		p->back_ns = PLACE_LAST_BACK_NS;
	p->pause_ns = p->back_ns;
	p->again_ns = host_now_ns() + p->pause_ns;
	place_counts(p, RUN_GIVEN_BACK);
	if (shown_find(p->at, &v) != 0) {
		place_forget(s, p);
		return false;
	}
	p->shown_dev = v.dev;
	p->shown_ino = v.ino;
	return true;
}

static bool place_is_vouched(struct run_state *s, const struct place *p)
{
	const struct lent_file *f = &s->files[p->file].lent;

	return s->lodic && f->name == p->name && lent_vouches(s->lodic, f, p->id);
}

/* Finds the file of a place that a child has inherited. */
static bool place_join(struct run_state *s, struct place *p)
{
	struct port_file is;
	u64 slot;

	if (p->name)
		return s->files[p->file].lent.name == p->name;
	if (place_fd(p, &is) < 0)
		return false;
	slot = run_look(s, p->fd);
	if ((slot & FDS_KIND) != FDS_FILE)
		return false;
	p->file = fds_index(slot);
	p->name = s->files[p->file].lent.name;
	host_fetch_add(&s->files[p->file].nr_fds, 1);
	return s->files[p->file].lent.dev == p->dev &&
	       s->files[p->file].lent.ino == p->ino;
}

/* The hold has come, which is that of the file now: PLACE_VOUCHED. */
static void place_takes(struct run_state *s, struct place *p, int fd,
                        const struct port_file *memory)
{
	int err = place_look(p);

	p->id = s->files[p->file].lent.id;
	p->again_ns = host_now_ns() + PLACE_FIRST_NS;
	if (err == -EMFILE || !place_is_vouched(s, p))
		return;
	if (err || !place_put(p, fd)) {
		place_forget(s, p);
		return;
	}
	p->shown_dev = memory->dev;
	p->shown_ino = memory->ino;
	p->lent = true;
	host_fence_acquire(); /* partner: file_proof_end() */
	if (!place_is_vouched(s, p)) {
		place_goes_back(s, p);
		return;
	}
	place_counts(p, RUN_SERVED);
	if (p->kind == PORT_PRIVATE)
		place_forget(s, p);
}

struct place_try {
	struct run_state *s;
	struct place *place;
};

/* All places of the file that wait get it. */
static void places_take(void *ctx, int fd)
{
	const struct place_try *t = ctx;
	u64 name = t->place->name;
	struct port_file memory;
	u32 steps = 0;

	if (port_look(fd, &memory) != 0)
		return;
	for (u32 i = 0; i < shim.places.top && steps < PLACE_STEPS; i++)
		if (shim.places.list[i].bytes && !shim.places.list[i].lent &&
		    shim.places.list[i].name == name) {
			place_takes(t->s, &shim.places.list[i], fd, &memory);
			steps++;
		}
}

/* Asks for the hold of a place that waits. true: an answer is on its way. */
static bool place_asks(struct run_state *s, struct place *p, u64 now)
{
	struct place_try t = { s, p };
	struct lent_take take = {
		.take = places_take, .ctx = &t, .turn = &p->turn, .yields = true
	};
	struct lodic *lodic = run_attach(s);
	struct port_file is;
	struct run_file *f;
	int fd, err;

	if (!lodic || !place_join(s, p) ||
	    host_load_relaxed(&s->files[p->file].locked)) {
		place_forget(s, p);
		return false;
	}
	f = &s->files[p->file];
	fd = place_fd(p, &is);
	take.bytes = fd < 0 ? f->lent.size : is.bytes;
	/* Without a descriptor nobody could claim the file anew. */
	if (p->offset + p->bytes > pages_up(take.bytes) ||
	    (fd < 0 && !lent_vouches(lodic, &f->lent, f->lent.id))) {
		place_forget(s, p);
		return false;
	}
	err = reason_error(lent_hold(lodic, &f->lent, fd, &take));
	run_is_alone(s);
	if (err == -EINPROGRESS) {
		p->again_ns = now + PLACE_SOON_NS;
		return true;
	}
	host_store_relaxed(&s->unanswered, err == -ENOTCONN);
	if (err == 0)
		return false;
	p->pause_ns = p->pause_ns ? p->pause_ns * 2 : PLACE_FIRST_NS;
	if (err == -EALREADY && p->pause_ns > PLACE_READ_NS)
		p->pause_ns = PLACE_READ_NS;
	if (p->pause_ns > PLACE_LAST_NS)
		p->pause_ns = PLACE_LAST_NS;
	p->again_ns = now + p->pause_ns;
	return false;
}

static bool place_is_of(const struct place *p, u64 slot)
{
	return (slot & FDS_KIND) == FDS_FILE && fds_index(slot) == p->file &&
	       fds_generation(slot) == p->name;
}

/* Of a place that has its hold. */
static void place_watch(struct run_state *s, struct place *p)
{
	struct port_file is;

	/* fcntl(F_SETFL) empties the slot as well. */
	if (!place_is_of(p, host_load_relaxed(&s->fds.slots[p->fd])) &&
	    (place_fd(p, &is) < 0 || !place_is_of(p, run_look(s, p->fd))))
		place_forget(s, p); /* its descriptor is closed */
	else if (!place_is_vouched(s, p))
		place_goes_back(s, p);
}

/* The service answers one question at a time. The lock is held. */
static void places_look(struct run_state *s, u64 now)
{
	u64 watch = PLACE_WATCH_NS +
	            host_load_relaxed(&shim.run.nr_places) * PLACE_WATCH_EACH_NS;
	u64 next = now + PLACE_LAST_NS, due;
	bool asked = false;
	u32 steps = 0;

	for (u32 n = 0; n < shim.places.top; n++) {
		u32 i = (shim.places.first + n) % shim.places.top;
		struct place *p = &shim.places.list[i];

		if (p->bytes && p->lent && steps == PLACE_STEPS) {
			next = 0;
		} else if (p->bytes && p->lent) {
			place_watch(s, p);
			steps += !p->bytes || !p->lent;
		} else if (p->bytes && !asked && now >= p->again_ns) {
			asked = place_asks(s, p, now);
			if (asked)
				shim.places.first = i;
		}
		due = p->lent ? now + watch : p->again_ns;
		if (p->bytes && due < next)
			next = due;
	}
	host_store_relaxed(&shim.places.look_at_ns, next);
}

void run_places_look(void)
{
	struct run_state *s = shim.run.state;
	struct fds_hold hold;
	u64 now;

	if (!s || host_load_relaxed(&s->off) || !calls_begin(s))
		return;
	now = host_now_ns();
	if (now >= host_load_relaxed(&shim.places.look_at_ns) &&
	    run_lock(s, &hold, false)) {
		places_look(s, now);
		run_unlock(s, &hold);
	}
	calls_end(s);
}

void run_places_locked(void)
{
	struct run_state *s = shim.run.state;
	struct fds_hold hold;

	if (!s || host_load_relaxed(&s->off) || !run_lock(s, &hold, true))
		return;
	for (u32 i = 0; i < shim.places.top; i++)
		if (shim.places.list[i].bytes && shim.places.list[i].lent)
			place_watch(s, &shim.places.list[i]);
	run_unlock(s, &hold);
}

void run_places_part(u64 at, u64 bytes, bool stays)
{
	struct run_state *s = shim.run.state;
	struct fds_hold hold;
	u64 end = at + pages_up(bytes);

	if (!s || end <= host_load_relaxed(&shim.places.lowest) ||
	    at >= host_load_relaxed(&shim.places.highest) ||
	    host_load_relaxed(&s->off) || !run_lock(s, &hold, true))
		return;
	for (u32 i = 0; i < shim.places.top; i++) {
		struct place *p = &shim.places.list[i];

		if (!p->bytes || at >= p->at + p->bytes || end <= p->at)
			continue;
		/* Nothing that has its hold may go unwatched for want of a place. */
		if (!p->lent || (!stays && !run_places_full()) || place_goes_back(s, p))
			place_cut(s, p, at, end);
	}
	run_unlock(s, &hold);
}

void run_places_return(struct run_state *s)
{
	for (u32 i = 0; i < shim.places.top; i++)
		if (shim.places.list[i].bytes && shim.places.list[i].lent)
			place_goes_back(s, &shim.places.list[i]);
}

void run_places_end(struct run_state *s)
{
	run_places_return(s);
	for (u32 i = 0; i < shim.places.top; i++)
		if (shim.places.list[i].bytes)
			place_forget(s, &shim.places.list[i]);
}

void run_places_forked(void)
{
	host_store_relaxed(&shim.run.nr_places, 0);
	for (u32 i = 0; i < shim.places.top; i++) {
		struct place *p = &shim.places.list[i];

		p->name = 0;
		p->turn = 0;
		p->counted = false;
		p->again_ns = 0;
		if (p->lent)
			p->bytes = 0;
		if (p->bytes)
			place_bound(p);
	}
}

/* ---- new places ---- */

static void place_begin(struct place *p, const struct run_mapping *m, void *at,
                        struct run_file *f)
{
	*p = (struct place){ .at = (u64)at,
		             .bytes = pages_up(m->bytes),
		             .offset = (u64)m->offset,
		             .dev = f->lent.dev,
		             .ino = f->lent.ino,
		             .name = f->lent.name,
		             .file = (u64)(f - shim.run.state->files),
		             .counted = true,
		             .fd = m->fd,
		             .kind = m->kind };
}

void run_place_lent(const struct run_mapping *m, void *at, struct run_file *f,
                    const struct port_file *memory)
{
	struct place p;

	place_begin(&p, m, at, f);
	p.shown_dev = memory->dev;
	p.shown_ino = memory->ino;
	p.id = f->lent.id;
	p.lent = true;
	p.why = RUN_SERVED;
	place_add(&p);
}

/* The lock is held. */
static void place_waits(struct run_state *s, const struct run_mapping *m, void *at,
                        enum run_why why)
{
	u64 slot = run_look(s, m->fd);
	struct port_mapped v;
	struct place p;

	if ((slot & FDS_KIND) != FDS_FILE || run_places_full() ||
	    fds_address_space_limited())
		return;
	place_begin(&p, m, at, run_file_of(slot));
	p.why = why;
	if (shown_find(p.at, &v) != 0 || !shown_fits(&v, &p))
		return;
	p.shown_dev = v.dev;
	p.shown_ino = v.ino;
	place_add(&p);
}

void run_place_waits(const struct run_mapping *m, void *at, enum run_why why)
{
	struct run_state *s = shim.run.state;
	struct fds_hold hold;

	/* Other reasons last. */
	if ((why != RUN_NOT_CACHED && why != RUN_AWAY && why != RUN_ASKED &&
	     why != RUN_NO_ROOM) ||
	    m->protection != PORT_READ || !s || !run_lock(s, &hold, true))
		return;
	place_waits(s, m, at, why);
	run_unlock(s, &hold);
}
