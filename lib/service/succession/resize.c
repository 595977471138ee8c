/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A cache of another size takes over.
 *
 *   MAKES    a worker makes a service beside this one: memory, lease thread
 *   FILES    the files come along (carry.h)
 *   BLOCKS   the blocks do
 *            -- FILES and BLOCKS once more, for what came meanwhile. Fills wait. --
 *   READY    the old arena is marked dead, and the new service has the socket (pass.h)
 *   ENDS     reads into the old frames come back
 *   FREES    a worker ends the old service
 *
 * The old service serves until then. Each piece of work fits into a turn, between its other
 * work; no request waits for longer. What may hang or takes long is a worker's.
 *
 * RS3 the old lease thread answers writers until its arena is marked dead, and after that until
 *     it has given its leases back (L3). If the process is killed, the kernel marks both arenas
 *     (L4).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/port.h"
#include "lib/service/base/worker.h"
#include "lib/service/file/direct.h"
#include "lib/service/file/files.h"
#include "lib/service/file/nameless.h"
#include "lib/service/frame/fill.h"
#include "lib/service/frame/mover.h"
#include "lib/service/frame/reads.h"
#include "lib/service/hold/hold_move.h"
#include "lib/service/succession/make.h"
#include "lib/service/succession/budget.h"
#include "lib/service/succession/pressure.h"
#include "lib/service/memory/memory.h"
#include "lib/service/succession/carry.h"
#include "lib/service/succession/hand.h"
#include "lib/service/succession/pass.h"
#include "lib/service/succession/resize.h"
#include "lib/service/succession/whole.h"
#include "lib/service/file/opens.h"

#define MIB_SHIFT 20
/* How long the program that asks for a resize waits for stuck reads. Our choice. */
#define END_NS (500 * NS_PER_MS)
/* How long the new service has a file open for programs that have not come back. They try once
 * in 2 s, as long as they read. */
#define HANDED_NS (10000 * NS_PER_MS)
#define HANDED_PER_TICK 64u

enum resize_step {
	RESIZE_MAKES,
	RESIZE_FILES,
	RESIZE_BLOCKS,
	RESIZE_READY,
	RESIZE_ENDS,
	RESIZE_FREES
};

struct resize {
	struct worker_job job; /* MAKES, FREES */
	struct service *other; /* the one that is made; from ENDS on the one before */
	u32 step;              /* enum resize_step */
	u64 asked;
	u64 larger; /* bytes, of the two arenas */
	int error;
	u64 since_ns, step_ns; /* the beginning; of this step */
	struct carry carry;
	char why[LOOK_WHY_BYTES];
};

static void resize_step(struct resize *r, enum resize_step step)
{
	r->step = step;
	r->step_ns = host_now_ns();
}

static bool resize_is_late(const struct resize *r, u64 patience_ns)
{
	return host_now_ns() - r->step_ns > patience_ns;
}

/* ---- the end ---- */

static void resize_free(struct service *s)
{
	carry_fini(&s->change.resize->carry);
	port_free(s->change.resize);
	s->change.resize = NULL;
}

static void resize_report(struct service *s, int error, const char *why)
{
	struct look_resize *report = &s->change.resized;

	if (report->state != LOOK_RESIZE_RUNS)
		return;
	report->state = error ? LOOK_RESIZE_FAILED : LOOK_RESIZE_DONE;
	report->error = error;
	report->ns = s->change.resize ? host_now_ns() - s->change.resize->since_ns : 0;
	if (!error)
		return;
	snprintf(report->why, sizeof(report->why), "%s", *why ? why : strerror(-error));
	service_say(&s->base, SERVICE_WARNING, "resize_failed",
	            "the cache keeps its %llu MiB: %s",
	            (unsigned long long)(report->from >> MIB_SHIFT), report->why);
}

static void resize_free_work(struct worker_job *job)
{
	service_shut(((struct resize *)job)->other);
}

static void resize_free_done(void *owner, struct worker_job *job)
{
	struct service *s = owner;
	(void)job;
	resize_report(s, s->change.resize->error, s->change.resize->why);
	resize_free(s);
}

/* A worker ends the other service: its files and memory go. */
static void resize_end_other(struct service *s)
{
	struct resize *r = s->change.resize;

	resize_step(r, RESIZE_FREES);
	direct_forget(&r->other->files);
	nameless_forget(&r->other->files);
	r->other->base.workers = NULL;
	r->other->base.replaced = true;
	worker_job_init(&r->job, WORKER_ANY, 0, OWNER_SERVICE, resize_free_work,
	                resize_free_done);
	worker_do(&s->base, &r->job); /* it is for no program, so it is accepted */
}

/* That is the size for good. */
static void resize_settle(struct service *s, u64 asked)
{
	if (budget_limit(&s->budget) > 0)
		budget_set(&s->budget, asked);
	pressure_configure(&s->pressure, s->options.sizes.cache_bytes);
	if (s->options.events.resized)
		s->options.events.resized(s->options.events.say_arg, asked);
}

/* ---- another service ---- */

static void resize_make_work(struct worker_job *job)
{
	struct resize *r = (struct resize *)job;
	const char *why = NULL;

	r->error = service_fill_arena(r->other, &why);
	if (!r->error)
		return;
	snprintf(r->why, sizeof(r->why), "%s", why ? why : "");
	service_shut(r->other);
}

static void resize_make_done(void *owner, struct worker_job *job)
{
	struct service *s = owner;
	struct resize *r = (struct resize *)job;

	if (r->error) {
		resize_report(s, r->error, r->why);
		resize_free(s);
		return;
	}
	carry_begin(&r->carry, r->other);
	r->other->base.workers = s->base.workers;
	r->other->options.events.say = NULL; /* that a file is held was said before */
	resize_step(r, RESIZE_FILES);
}

int resize_begin(struct service *s, u64 cache_bytes, u64 asked)
{
	const char *why;
	struct resize *r;
	int err;

	if (s->change.resize || !hand_gives_way(s))
		return -EBUSY;
	r = port_alloc(sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->asked = asked;
	r->larger = cache_bytes > s->options.sizes.cache_bytes ? cache_bytes
	                                                 : s->options.sizes.cache_bytes;
	r->since_ns = host_now_ns();
	err = carry_init(&r->carry, s);
	if (!err)
		err = service_make(s, cache_bytes, &r->other, &why);
	worker_job_init(&r->job, WORKER_ANY, 0, OWNER_SERVICE, resize_make_work,
	                resize_make_done);
	if (err) {
		carry_fini(&r->carry);
		port_free(r);
		return err;
	}
	worker_do(&s->base, &r->job); /* it is for no program, so it is accepted */
	s->change.resize = r;
	s->change.resized =
		(struct look_resize){ .number = s->change.resized.number + 1,
		                      .state = LOOK_RESIZE_RUNS,
		                      .from = asked && budget_limit(&s->budget) > 0
		                                      ? budget_limit(&s->budget)
		                                      : s->options.sizes.cache_bytes,
		                      .to = asked ? asked : cache_bytes };
	return 0;
}

bool resize_is_under_way(const struct service *s)
{
	return s->change.resize != NULL;
}

const struct look_resize *resize_last(const struct service *s)
{
	return &s->change.resized;
}

u64 resize_larger(const struct service *s)
{
	return s->change.resize ? s->change.resize->larger : s->options.sizes.cache_bytes;
}

/* ---- turns ---- */

static void resize_ends(struct service *s)
{
	struct service *old = s->change.resize->other;

	reads_turn(&old->frames);
	reads_reap(&old->frames);
	if (!fill_is_busy(&old->frames) && !hold_move_needs(&s->holding, &old->holding))
		resize_end_other(s);
}

bool resize_run(struct service *s)
{
	enum carry_next next = CARRY_WAITS;
	struct resize *r = s->change.resize;
	bool again;

	if (!r)
		return false;
	if (r->step > RESIZE_MAKES && r->step < RESIZE_ENDS)
		files_hear(&r->other->files);
	if (r->step == RESIZE_FILES) {
		next = carry_files(s, &r->carry);
		if (next == CARRY_DONE)
			resize_step(r, RESIZE_BLOCKS);
	} else if (r->step == RESIZE_BLOCKS) {
		again = r->carry.again;
		next = carry_blocks(s, &r->carry);
		if (next == CARRY_DONE)
			resize_step(r, again ? RESIZE_READY : RESIZE_FILES);
		s->change.resized.taken = r->carry.taken;
		s->change.resized.had = r->carry.had;
		/* A second round may have taken blocks once more. */
		if (s->change.resized.had < r->carry.taken)
			s->change.resized.had = r->carry.taken;
	} else if (r->step == RESIZE_ENDS) {
		resize_ends(s);
	}
	return next != CARRY_WAITS;
}

bool resize_stops_fills(const struct service *s)
{
	const struct resize *r = s->change.resize;

	return r && r->carry.again && r->step < RESIZE_ENDS;
}

void resize_drop(struct service *s, u64 from, u64 to, u64 dev, u64 ino)
{
	const struct resize *r = s->change.resize;
	struct look_dropped dropped;

	/* Ends, because each call takes a slot at least. Both services have as many. */
	while (r && r->step > RESIZE_MAKES && r->step < RESIZE_ENDS && from < to &&
	       from < s->memory.shape.nr_files)
		from = files_drop(&r->other->files, from, dev, ino, &dropped);
}

void resize_move(struct service *s, u64 to, u64 dev, u64 ino)
{
	const struct resize *r = s->change.resize;

	if (r && r->step > RESIZE_MAKES && r->step < RESIZE_ENDS)
		mover_request(&r->other->frames, to, dev, ino);
}

void resize_tick(struct service *s)
{
	u32 slot, id, nr;

	/* The program that asked need not wait for a read that is stuck. */
	if (s->change.resize && s->change.resize->step == RESIZE_ENDS &&
	    resize_is_late(s->change.resize, END_NS))
		resize_report(s, 0, "");
	if (s->change.handed.nr == 0 || host_now_ns() < s->change.handed_until_ns)
		return;
	for (u32 i = 0; i < HANDED_PER_TICK; i++) {
		nr = opens_take(&s->change.handed, &slot, &id);
		if (nr == 0)
			return;
		files_close(&s->files, slot, id, nr);
	}
}

/* The id of old's file in the new arena. */
static u32 resize_new_id(const void *arg, u32 id)
{
	const struct service *old = arg;

	return carry_new_id(&old->change.resize->carry, old, id);
}

struct service *resize_next(struct service *s)
{
	struct resize *r = s->change.resize;
	struct service *next;
	int err;

	if (!r || r->step != RESIZE_READY)
		return s;
	next = r->other;
	carry_forget(&r->carry);
	err = pass_prepare(s, next);
	if (err) {
		r->error = err;
		resize_end_other(s);
		return s;
	}
	hold_move_all(&s->holding, &next->holding, resize_new_id, s);
	/* O21: its leases go later, with its lease thread. Hints that came before are not lost. */
	arena_end(s->memory.arena.header);
	fill_take_all(&s->frames);
	fill_take_over(&next->frames, &s->frames, resize_new_id, s);
	pass_all(s, next);
	/* Both rounds have counted, and blocks have left the old arena meanwhile. */
	next->change.resized.taken =
		host_load_relaxed(&next->memory.arena.header->nr_cached);
	if (next->change.resized.had < next->change.resized.taken)
		next->change.resized.had = next->change.resized.taken;
	r->other = s;
	resize_step(r, RESIZE_ENDS);
	next->change.handed_until_ns = host_now_ns() + HANDED_NS;
	service_say(
		&next->base, SERVICE_INFO, "resized",
		"the cache has %llu MiB now (it had %llu); %llu of %llu blocks came "
		"along, in %llu ms",
		(unsigned long long)(next->change.resized.to >> MIB_SHIFT),
		(unsigned long long)(next->change.resized.from >> MIB_SHIFT),
		(unsigned long long)next->change.resized.taken,
		(unsigned long long)next->change.resized.had,
		(unsigned long long)((host_now_ns() - r->since_ns) / NS_PER_MS));
	budget_resized(&next->budget);
	if (r->asked)
		resize_settle(next, r->asked);
	return next;
}

void resize_stop(struct service *s)
{
	struct resize *r = s->change.resize;

	/* Those that make it, or free it, have no such pointer. */
	if (r && r->step != RESIZE_MAKES && r->step != RESIZE_FREES)
		r->other->base.workers = NULL;
}

void resize_fini(struct service *s)
{
	struct resize *r = s->change.resize;

	/* A worker that is still at it cannot be waited for; the process's end ends it. */
	if (!r || r->step == RESIZE_MAKES || r->step == RESIZE_FREES)
		return;
	carry_forget(&r->carry);
	r->other->base.workers = NULL; /* it was made while they ended */
	service_shut(r->other);
	resize_free(s);
}

/* ---- requests ---- */

/* The memory is taken as it is used. That it is there is looked at now. */
int resize_ask(struct service *s, u64 bytes)
{
	u64 had = budget_used(&s->budget), next;
	const char *why = "";
	int err;

	if (budget_limit(&s->budget) == 0)
		return resize_begin(s, bytes, bytes);
	if (s->change.resize || !hand_gives_way(s))
		return -EBUSY;
	next = budget_arena(&s->budget, bytes);
	err = bytes > had ? memory_check_room(bytes - had, &why) : 0;
	if (!err && next != s->options.sizes.cache_bytes)
		return resize_begin(s, next, bytes);
	s->change.resized =
		(struct look_resize){ .number = s->change.resized.number + 1,
		                      .state = LOOK_RESIZE_RUNS,
		                      .from = budget_limit(&s->budget),
		                      .to = bytes };
	if (!err)
		resize_settle(s, bytes);
	resize_report(s, err, why);
	return 0;
}

int resize_request(struct service *s, u64 cache_bytes, u64 block_bytes,
                   struct look_resize *ret)
{
	int err = 0;

	if (cache_bytes > 0)
		err = cache_bytes < SERVICE_MIN_CACHE_BYTES ||
		                      cache_bytes > SERVICE_MAX_CACHE_BYTES
		              ? -EINVAL
		              : resize_ask(s, cache_bytes);
	else if (block_bytes > 0)
		err = budget_ask(&s->budget, block_bytes);
	*ret = s->change.resized;
	if (s->change.resize && ret->state == LOOK_RESIZE_RUNS)
		ret->ns = host_now_ns() - s->change.resize->since_ns;
	return err;
}
