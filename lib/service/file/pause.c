/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See pause.h. */
#include <errno.h>

#include "lib/port.h"
#include "lib/service/file/pause.h"
#include "lib/service/file/state.h"

#define WAYS 4u
#define NR_SETS (PAUSE_FILES / WAYS)

struct paused {
	u64 dev, ino;
	u64 until_ns; /* 0: the place is free */
	u64 step_ns;  /* how long the last pause was to be */
};

struct pauses {
	struct paused sets[NR_SETS][WAYS];
};

static struct paused *pause_set(const struct pauses *p, u64 dev, u64 ino)
{
	u64 hash = block_hash(ino ^ block_hash(dev));

	return ((struct pauses *)p)->sets[(hash >> 32) % NR_SETS];
}

static struct paused *pause_find(const struct pauses *p, u64 dev, u64 ino)
{
	struct paused *set = pause_set(p, dev, ino);

	for (u32 i = 0; i < WAYS; i++)
		if (set[i].until_ns > 0 && set[i].dev == dev && set[i].ino == ino)
			return &set[i];
	return NULL;
}

/* The place of the one whose pause ends first, or has ended. */
static struct paused *pause_place(const struct pauses *p, u64 dev, u64 ino)
{
	struct paused *set = pause_set(p, dev, ino), *first = set;

	for (u32 i = 1; i < WAYS; i++)
		if (set[i].until_ns < first->until_ns)
			first = &set[i];
	return first;
}

void pause_begin_at(struct pauses *p, u64 first_ns, u64 dev, u64 ino, u64 now_ns)
{
	struct paused *f = pause_find(p, dev, ino);
	u64 step_ns = first_ns;

	if (f && now_ns < f->until_ns + f->step_ns) {
		step_ns = 2 * f->step_ns;
		if (step_ns > PAUSE_MOST * first_ns)
			step_ns = PAUSE_MOST * first_ns;
	}
	if (!f)
		f = pause_place(p, dev, ino);
	*f = (struct paused){ dev, ino, now_ns + step_ns, step_ns };
}

u64 pause_left_at(const struct pauses *p, u64 dev, u64 ino, u64 now_ns)
{
	const struct paused *f = pause_find(p, dev, ino);

	return f && f->until_ns > now_ns ? f->until_ns - now_ns : 0;
}

void pause_begin(struct files *s, u64 dev, u64 ino)
{
	if (s->keeping->lease_pause_ms > 0)
		pause_begin_at(s->pauses, s->keeping->lease_pause_ms * NS_PER_MS, dev,
		               ino, host_now_ns());
}

u64 pause_left_ns(const struct files *s, u64 dev, u64 ino)
{
	return s->keeping->lease_pause_ms > 0
	               ? pause_left_at(s->pauses, dev, ino, host_now_ns())
	               : 0;
}

struct pauses *pause_make(void)
{
	return port_alloc(sizeof(struct pauses));
}

int pause_init(struct files *s)
{
	s->pauses = pause_make();
	return s->pauses ? 0 : -ENOMEM;
}

void pause_fini(struct files *s)
{
	port_free(s->pauses);
	s->pauses = NULL;
}
