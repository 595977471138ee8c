/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * See fence.h. A fence over all processes waits until each CPU has passed through the kernel, 8
 * to 16 ms. Then its thread tells the main loop by an event, and the next fence begins if
 * somebody has wanted one meanwhile.
 */
#include <errno.h>

#include "lib/service/frame/fence.h"
#include "lib/service/frame/state.h"
#include "lib/service/base/base.h"

/* In a smaller cache the stock would cost more than light pins bring. Our choice. */
#define LIGHT_MIN_FRAMES 16384u

/* false: there will be no more. */
static bool fence_is_asked(struct fence *f)
{
	bool stop;

	port_lock_take(&f->lock);
	while (!f->asked && !f->stop)
		port_condition_wait(&f->told, &f->lock);
	f->asked = false;
	stop = f->stop;
	port_lock_give(&f->lock);
	return !stop;
}

static void fence_thread(void *arg)
{
	struct fence *f = arg;

	while (fence_is_asked(f)) {
		host_store_release(&f->ok, host_fence_global());
		port_event_tell(f->done);
	}
}

static void fence_ask(struct fence *f, bool stop)
{
	port_lock_take(&f->lock);
	f->asked = true;
	f->stop = stop;
	port_condition_tell(&f->told);
	port_lock_give(&f->lock);
}

void fence_fini(struct frames *s)
{
	struct fence *f = &s->fence;

	if (f->running) {
		fence_ask(f, true);
		port_thread_join(&f->thread);
		port_condition_end(&f->told);
		port_lock_end(&f->lock);
		f->running = false;
	}
	service_close(&f->done);
}

/* Starts the thread, and has it make a fence. false: this machine has none, or no thread. */
static bool fence_try_light(struct frames *s)
{
	struct fence *f = &s->fence;

	f->done = port_event();
	if (f->done < 0)
		return false;
	port_lock_init(&f->lock);
	port_condition_init(&f->told);
	f->running = port_thread_start(&f->thread, fence_thread, f) == 0;
	if (f->running) {
		fence_ask(f, false);
		while (!port_event_take(f->done))
			port_wait(f->done, PORT_INPUT, -1);
		if (host_load_acquire(&f->ok))
			return true;
	} else {
		port_condition_end(&f->told);
		port_lock_end(&f->lock);
	}
	fence_fini(s);
	return false;
}

int fence_start(struct frames *s, const char **ret_why)
{
	enum service_barrier wanted = s->tables->barrier;

	s->fence.done = -1;
	s->shape->barrier = ARENA_BARRIER_LOCK;
	if (wanted == SERVICE_BARRIER_LOCK || s->shape->scheme == ARENA_ATOMIC ||
	    s->shape->scheme == ARENA_FROZEN)
		return 0;
	if (wanted == SERVICE_BARRIER_AUTO && (s->shape->scheme == ARENA_HAZARD ||
	                                       s->shape->nr_frames < LIGHT_MIN_FRAMES))
		return 0;
	if (fence_try_light(s)) {
		s->shape->barrier = ARENA_BARRIER_LIGHT;
		return 0;
	}
	if (wanted == SERVICE_BARRIER_AUTO)
		return 0;
	*ret_why =
		"this machine has no fence over all processes (membarrier(2), GLOBAL); "
		"choose --barrier lock";
	return -EOPNOTSUPP;
}

bool fence_is_light(const struct frames *s)
{
	return s->shape->barrier == ARENA_BARRIER_LIGHT;
}

int fence_event(const struct frames *s)
{
	return fence_is_light(s) ? s->fence.done : -1;
}

static void fence_end(struct fence *f, bool ok)
{
	f->over = f->begun;
	if (ok)
		f->good = f->over;
}

static void fence_begin(struct frames *s)
{
	struct fence *f = &s->fence;

	f->begun++;
	if (f->wanted < f->begun)
		f->wanted = f->begun;
	if (fence_is_light(s))
		fence_ask(f, false);
	else
		fence_end(f, batch_fence(s->arena));
}

u64 fence_want(struct frames *s)
{
	struct fence *f = &s->fence;

	/* What the caller has just hidden is not in a fence that is under way (B2). */
	if (f->begun == f->over)
		fence_begin(s);
	else
		f->wanted = f->begun + 1;
	return f->wanted;
}

enum fence_state fence_state(const struct frames *s, u64 number)
{
	const struct fence *f = &s->fence;

	if (number <= f->good)
		return FENCE_OVER;
	return number <= f->over ? FENCE_FAILED : FENCE_WAITS;
}

void fence_reap(struct frames *s)
{
	struct fence *f = &s->fence;

	if (!port_event_take(f->done) || f->begun == f->over)
		return;
	fence_end(f, host_load_acquire(&f->ok));
	if (f->wanted > f->begun)
		fence_begin(s);
}
