/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What is to happen, first things first. The engine spends much of its time here. Its most
 * frequent step is to take the first event and then to add one that comes of it. So a
 * taken event leaves a hole at the top, and the next event that is added falls into it. If
 * another one is taken first, the last one of all falls in.
 *
 * Events of one moment keep the order in which they were added. So the order of all is
 * given, and the shape of the heap decides nothing.
 */
#ifndef LODIC_HOST_SIM_EVENTS_H
#define LODIC_HOST_SIM_EVENTS_H

#include "host/host.h"

enum event_kind {
	EVENT_CPU,  /* id: the CPU goes on */
	EVENT_LINE, /* id: a line can serve the next in its queue */
	EVENT_WAKE, /* id: a task has slept enough */
	EVENT_TICK, /* id: timer * SIM_MAX_CPUS + CPU */
	EVENT_WARM, /* the window begins */
	EVENT_STOP,
};

struct event {
	u64 at;
	u64 order; /* sequence number */
	u32 id;
	u32 kind;
};

/* Later than all moments. A caller may add a little to it: it does not wrap. */
#define EVENTS_NONE (~(u64)0 / 2)

struct events {
	struct event *all; /* a heap; with a hole, all[0] is the event taken last */
	size_t used, room;
	u64 order;
	u64 first_at; /* when the first is due that is no hole; EVENTS_NONE: there is none */
	bool hole;
};

/* Compared as one number: no branch that a processor would have to guess. */
static inline bool event_before(const struct event *a, const struct event *b)
{
	unsigned __int128 left = (unsigned __int128)a->at << 64 | a->order;
	unsigned __int128 right = (unsigned __int128)b->at << 64 | b->order;

	return left < right;
}

static inline void events_clear(struct events *events)
{
	events->used = 0;
	events->order = 0;
	events->first_at = EVENTS_NONE;
	events->hole = false;
}

/* Puts e where the hole at the top is. */
static inline void events_fill(struct events *events, struct event e)
{
	struct event *all = events->all;
	size_t used = events->used, i = 0, child;

	while ((child = 2 * i + 1) < used) {
		if (child + 1 < used)
			child += event_before(&all[child + 1], &all[child]);
		if (!event_before(&all[child], &e))
			break;
		all[i] = all[child];
		i = child;
	}
	all[i] = e;
	events->hole = false;
}

/* events->room is larger than events->used. */
static inline void events_add(struct events *events, u64 at, u32 kind, u32 id)
{
	struct event e = { at, events->order++, id, kind };
	struct event *all = events->all;
	size_t i;

	if (at < events->first_at)
		events->first_at = at;
	if (events->hole) {
		events_fill(events, e);
		return;
	}
	i = events->used++;
	while (i > 0 && event_before(&e, &all[(i - 1) / 2])) {
		all[i] = all[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	all[i] = e;
}

/* There is one. */
static inline struct event events_take(struct events *events)
{
	struct event *all = events->all;
	size_t used;

	if (events->hole) {
		events->used--;
		events_fill(events, all[events->used]);
	}
	events->hole = true;
	used = events->used;
	events->first_at = used > 1 ? all[1].at : EVENTS_NONE;
	if (used > 2 && all[2].at < events->first_at)
		events->first_at = all[2].at;
	return all[0];
}

#endif
