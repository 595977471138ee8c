/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * See nameless.h. A held file keeps its disk space when it is deleted, and its mount cannot be
 * unmounted. So the service looks at what it holds:
 *
 *   no name left, and no program has it open       it goes
 *   no name left, and no program has read it       it goes: a program that does read it passes
 *   since the sweep came round                     it again
 *   on another mount than / or the program's own,  it goes
 *   and closed for SERVICE_DEFAULT_KEEP_AWAY_MS
 *
 * A worker looks at the names (port_names()): that asks no server, but for 9p. So there are two
 * lanes. Files that may not answer never keep local ones waiting.
 *
 * The worker has numbers of descriptors. The main thread may close one meanwhile, and another
 * file may get it. So the worker also says which file it has seen there.
 */
#include "lib/port/inode.h"
#include "lib/service/base/worker.h"
#include "lib/service/file/files.h"
#include "lib/service/file/lease.h"
#include "lib/service/file/nameless.h"
#include "lib/service/file/state.h"
#include "lib/service/file/held.h"

/* A tick looks at so many slots in memory: a line each, and a file's lease is two system calls. */
#define SLOTS_PER_TICK (TURN_LINES / 4)
#define LEAVE_PER_TICK 64u
/* A worker looks at so many files after each tick: 0.3 ms. With 4096 files it comes round in
 * 0.8 s, or in 8 s while no program is there; with 2^20 files in 200 s. */
#define LOOKS_PER_TICK 512u
/* How many go in a turn. Our choice: each takes 13 us, or 50 where half a MiB of pages goes. */
#define GO_PER_TURN 32u
/* How long the sweep hurries after such a file was seen. Our choice: longer than it takes to come
 * round. */
#define HURRY_NS (10000 * NS_PER_MS)
/* Nobody can read, so the sweep stands. Our choice: programs come back within 2 s after a
 * resize, as long as they read. */
#define COME_BACK_NS (5000 * NS_PER_MS)

struct name_look {
	u32 slot, id;
	int fd;
	bool gone; /* the worker's, as the two that follow */
	u64 dev, ino;
};

struct nameless_job {
	struct worker_job job;
	struct files *owner; /* NULL: nobody waits for it */
	u32 lane, nr;
	struct name_look looks[LOOKS_PER_TICK];
};

static void looks_work(struct worker_job *job)
{
	struct nameless_job *l = (struct nameless_job *)job;

	for (u32 i = 0; i < l->nr; i++) {
		struct name_look *look = &l->looks[i];
		struct port_names names = { 0 };

		look->gone = port_names(look->fd, &names) == 0 && names.known &&
		             names.nr == 0;
		look->dev = names.dev;
		look->ino = names.ino;
	}
}

/* A program has it open. Has it read it since the sweep came round? */
static bool nameless_is_read(struct files *s, struct held_file *f)
{
	u64 now = host_now_ns();

	if (f->gone_round == 0 || f->gone_hits != f->hits || f->nr_in_flight > 0) {
		f->gone_round = s->sweep_round;
		f->gone_hits = f->hits;
		f->gone_since_ns = now;
		return true;
	}
	if (s->arena->nr_contexts == 0)
		return now - f->gone_since_ns < COME_BACK_NS;
	/* A whole round lies between two numbers that differ by two. */
	return s->sweep_round - f->gone_round < 2;
}

static void looks_done(void *base, struct worker_job *job);

/* For the next files of a lane that a worker looks at. NULL: it is busy with others. */
static struct nameless_job *looks_make(struct files *s, u32 lane)
{
	struct nameless_job *l = s->nameless.jobs[lane] || !worker_any(s->base)
	                                 ? NULL
	                                 : port_alloc(sizeof(*l));

	if (!l)
		return NULL;
	worker_job_init(&l->job, WORKER_LOOKS, 0, OWNER_BASE, looks_work, looks_done);
	l->owner = s;
	l->lane = lane;
	l->nr = 0;
	return l;
}

static void looks_add(const struct files *s, struct nameless_job *l, u32 slot)
{
	const struct held_file *f = &s->slots[slot];

	if (f->state == FILE_HELD && f->local == (l->lane == 0))
		l->looks[l->nr++] =
			(struct name_look){ .slot = slot, .id = f->id, .fd = f->fd };
}

static void looks_send(struct files *s, struct nameless_job *l)
{
	if (l->nr > 0 && worker_any(s->base) && worker_do(s->base, &l->job) == 0)
		s->nameless.jobs[l->lane] = l;
	else
		port_free(l);
}

/* Lets a worker look at the next files of a lane. */
static void looks_begin(struct files *s, u32 lane)
{
	u32 *at = &s->nameless.at[lane];
	struct nameless_job *l = s->nr_held > 0 ? looks_make(s, lane) : NULL;

	s->nameless.due[lane] = !l;
	if (!l)
		return;
	for (u32 i = 0;
	     i < SLOTS_PER_TICK && i < s->shape->nr_files && l->nr < LOOKS_PER_TICK;
	     i++)
		looks_add(s, l, (*at)++ % s->shape->nr_files);
	looks_send(s, l);
}

static void look_at_touched(void *ctx, u32 slot)
{
	struct files *s = ctx;

	looks_add(s, s->nameless.heard, slot);
}

/* Only local files have watches. While a worker is busy with others, these wait. */
void nameless_hear(struct files *s)
{
	struct nameless_job *l = looks_make(s, 0);

	if (!l)
		return;
	s->nameless.heard = l;
	/* They may all have gone already: then the next ones, or none would come back to this. */
	while (l->nr == 0 && lease_each_touched(s, LOOKS_PER_TICK, look_at_touched) > 0)
		;
	looks_send(s, l);
}

/* true: the file goes. */
static bool look_judge(struct files *s, const struct name_look *look)
{
	struct held_file *f = &s->slots[look->slot];

	if (f->state != FILE_HELD || f->id != look->id || f->dev != look->dev ||
	    f->ino != look->ino)
		return false;
	if (!look->gone) {
		f->gone_round = 0;
		return false;
	}
	if (f->nr_opens > 0)
		s->nameless.hurries_until_ns = host_now_ns() + HURRY_NS;
	if (f->nr_opens > 0 && nameless_is_read(s, f))
		return false;
	files_let_go(s, look->slot);
	return true;
}

/* Judges as many as a turn may. A worker looks at the rest once more: any of them may be another
 * file by then. */
static void looks_done(void *base, struct worker_job *job)
{
	struct nameless_job *l = (struct nameless_job *)job;
	struct files *s = l->owner;
	u32 lane = l->lane, nr = l->nr, at = 0, left = GO_PER_TURN;

	(void)base;
	if (!s) {
		port_free(l);
		return;
	}
	for (; at < nr && left > 0; at++)
		left -= look_judge(s, &l->looks[at]);
	s->nameless.jobs[lane] = NULL;
	l->nr = 0;
	for (; at < nr; at++) /* it writes no further than it has read */
		looks_add(s, l, l->looks[at].slot);
	looks_send(s, l);
	if (s->nameless.due[lane])
		looks_begin(s, lane);
	nameless_hear(s);
}

/* Idle files of other mounts. With options.keeping.keep_ms all files are alike (files_tick()). */
static void leave_mounts(struct files *s)
{
	u64 now = host_now_ns();
	u32 left = LEAVE_PER_TICK;

	if (s->keeping->keep_ms)
		return;
	for (u32 i = 0; i < SLOTS_PER_TICK && i < s->shape->nr_files && left > 0; i++) {
		u32 slot = s->nameless.away_at++ % s->shape->nr_files;
		const struct held_file *f = &s->slots[slot];

		if (f->state != FILE_HELD || !f->away || f->kept || f->nr_opens > 0 ||
		    f->nr_in_flight > 0 ||
		    (now - f->idle_since_ns) / NS_PER_MS < SERVICE_DEFAULT_KEEP_AWAY_MS)
			continue;
		files_let_go(s, slot);
		left--;
	}
}

void nameless_tick(struct files *s)
{
	leave_mounts(s);
	for (u32 lane = 0; lane < 2; lane++)
		looks_begin(s, lane);
}

bool nameless_hurries(const struct files *s)
{
	return host_now_ns() < s->nameless.hurries_until_ns;
}

void nameless_forget(struct files *s)
{
	for (u32 lane = 0; lane < 2; lane++) {
		if (s->nameless.jobs[lane])
			s->nameless.jobs[lane]->owner = NULL;
		s->nameless.jobs[lane] = NULL;
	}
}
