/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See trial.h. */
#include <errno.h>

#include "core/cache/cache.h"
#include "host/random.h"
#include "lib/port/signal.h"
#include "lib/port/thread.h"
#include "lib/service/loop/run.h"
#include "lib/service/client/stat.h"
#include "lib/service/file/files.h"
#include "lib/service/frame/evict.h"
#include "lib/service/frame/fence.h"
#include "lib/service/frame/fill.h"
#include "lib/service/tier/tier.h"
#include "lib/service/trial.h"
#include "lib/service/succession/make.h"
#include "lib/service/succession/whole.h"
#include "lib/service/base/base.h"
#include "lib/service/file/held.h"

/* What the fills of one turn can ask for. */
#define TAKE_STEPS FILL_OPS
#define FENCE_WAIT_MS 100
/* Readers come by one of so many blocks before it is looked at for eviction. */
#define VISIT_PART 4u

struct service_trial {
	struct service *s;
	u32 slot; /* of the file that frames get blocks of */
	u32 id;
	u64 next; /* its block that comes next */
	u64 random;
	u32 frames[TAKE_STEPS * FILL_RUN];
};

int service_trial_open(const struct service_options *options,
                       struct service_trial **ret_trial, const char **ret_why)
{
	struct service_trial *t = port_alloc(sizeof(*t));
	struct port_signals_before signals;
	int err;

	if (!t)
		return -ENOMEM;
	t->random = 1;
	port_signals_block(&signals);
	err = service_open(options, &t->s, ret_why);
	port_signals_as(&signals);
	if (err) {
		port_free(t);
		return err;
	}
	*ret_trial = t;
	return 0;
}

void service_trial_close(struct service_trial *t)
{
	service_shut(t->s);
	port_free(t);
}

int service_trial_wake(struct service_trial *t, int fd)
{
	/* The loop does nothing for this source. */
	return service_watch_as(&t->s->base, fd, PORT_INPUT, SOURCE_WAKE);
}

u64 service_trial_turn(struct service_trial *t)
{
	u64 began = port_thread_cpu_ns();

	service_turn(t->s);
	return port_thread_cpu_ns() - began;
}

void service_trial_stat(const struct service_trial *t, struct lodic_stat *ret_stat)
{
	stat_collect(&t->s->clients, ret_stat);
}

int service_trial_use(struct service_trial *t, uint64_t ino)
{
	struct service *s = t->s;

	for (u32 slot = 0; slot < s->memory.shape.nr_files; slot++) {
		const struct held_file *f = held_at(&s->files, slot);

		if (!f || held_facts(f).ino != ino)
			continue;
		t->slot = slot;
		t->id = held_id(f);
		t->next = 0;
		return 0;
	}
	return -ENOENT;
}

/* Gives frame, which is nobody's, the file's next block. */
static void trial_publish(struct service_trial *t, u32 frame)
{
	struct service *s = t->s;
	u64 block = block_id(t->id, (u32)t->next++);

	cache_fill_begin(&s->memory.arena, frame);
	fill_publish(&s->frames, t->slot, frame, block, true);
}

u32 service_trial_stock(struct service_trial *t, u32 nr)
{
	const struct tiers *free_frames = &t->s->tiers;

	for (; nr > 0 && free_frames->nr_free > 0; nr--)
		trial_publish(t,
		              tier_pop_nth(&t->s->tiers, (u32)(random_next(&t->random) %
		                                               free_frames->nr_free)));
	return free_frames->nr_free;
}

/* As readers do. */
static void trial_visit(struct service_trial *t, u32 frame)
{
	if (random_next(&t->random) % VISIT_PART == 0)
		host_store_byte(&t->s->memory.arena.visits[frame], 1);
}

/* true: a fence is over. */
static bool trial_wait(const struct service *s, int patience_ms)
{
	return port_wait(fence_event(&s->frames), PORT_INPUT, patience_ms) == 1;
}

void service_trial_evict(struct service_trial *t, struct service_trial_evicted *ret)
{
	struct service *s = t->s;
	enum evict_next next = EVICT_GOT;
	u64 began = port_thread_cpu_ns();
	bool busy = evict_run(&s->frames);
	u32 nr = 0;

	for (u32 step = 0; step < TAKE_STEPS; step++) {
		next = evict_get(&s->frames, FILL_RUN);
		if (next != EVICT_GOT)
			break;
		for (u32 i = 0; i < FILL_RUN && s->tiers.nr_free > 0; i++)
			t->frames[nr++] = tier_pop(&s->tiers, TIER_FAST);
	}
	ret->ns = port_thread_cpu_ns() - began;
	ret->frames = nr;
	for (u32 i = 0; i < nr; i++) {
		trial_publish(t, t->frames[i]);
		trial_visit(t, t->frames[i]);
	}
	if (fence_event(&s->frames) < 0 ||
	    !trial_wait(s, busy || next != EVICT_FENCE ? 0 : FENCE_WAIT_MS))
		return;
	began = port_thread_cpu_ns();
	fence_reap(&s->frames);
	evict_fenced(&s->frames);
	ret->ns += port_thread_cpu_ns() - began;
}

u64 service_trial_newest(const struct service_trial *t, u64 nr, u64 *ret_end)
{
	*ret_end = t->next;
	return t->next > nr ? t->next - nr : 0;
}

u64 service_trial_fence(const struct service_trial *t)
{
	u64 began = host_now_ns();

	batch_fence(&t->s->memory.arena);
	return host_now_ns() - began;
}
