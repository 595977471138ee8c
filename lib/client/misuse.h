/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A debug build (LODIC_DEBUG) looks for misuse by its program, says what it has found, and
 * stops. It finds two threads at once in one context, a copied or moved pin, and use after
 * close. It finds a hold that is released twice or used afterwards. A release build has none
 * of this.
 *
 * A context that is handed from one thread to another is no misuse. So a flag tells that a
 * call is under way, and not whose. Objects that are closed keep their place for a while, so
 * that the next one does not take it and look alive.
 */
#ifndef LODIC_LIB_CLIENT_MISUSE_H
#define LODIC_LIB_CLIENT_MISUSE_H

#include "core/check.h"
#include "lib/client/client.h"

#ifdef LODIC_DEBUG

#define MISUSE_IS_LOOKED_FOR 1

/* Part of each context, file and hold. */
struct misuse {
	u64 open; /* MISUSE_OPEN until it is closed */
	u64 busy; /* contexts: 1 while a call is under way; atomic */
	/* 0 in a forked child, where another thread's busy would stay for ever. */
	const u64 *mark;
	/* Contexts: the structs that lodic_pin() has filled and that are not given back. */
	const struct lodic_pin **pins;
	u64 nr_pins, max_pins;
	bool blind; /* there was no memory for one: they are not looked at any more */
};

#define MISUSE_OPEN 0x6c6f64696373756full

void misuse_opened(struct misuse *m, const u64 *mark);
/* Takes the place of port_free(object), of which m is a part. */
void misuse_closed(struct misuse *m, void *object);
void misuse_context_enter(struct misuse *m);
void misuse_context_leave(struct misuse *m);
void misuse_context_close(const struct misuse *m);
void misuse_pinned(struct misuse *m, const struct lodic_pin *pin);
void misuse_unpin(struct misuse *m, const struct lodic_pin *pin);
static inline void misuse_file(const struct misuse *m)
{
	CHECK(m->open == MISUSE_OPEN, "a file is used after lodic_close()");
}
static inline void misuse_hold(const struct misuse *m)
{
	CHECK(m->open == MISUSE_OPEN, "a hold is used after lodic_release()");
}
static inline void misuse_hold_release(const struct misuse *m)
{
	CHECK(m->open == MISUSE_OPEN, "a hold is released twice");
}

#else

#define MISUSE_IS_LOOKED_FOR 0

#include "lib/port.h"

struct misuse {
};

static inline void misuse_opened(struct misuse *m, const u64 *mark)
{
	(void)m;
	(void)mark;
}

static inline void misuse_closed(struct misuse *m, void *object)
{
	(void)m;
	port_free(object);
}

static inline void misuse_context_enter(struct misuse *m)
{
	(void)m;
}

static inline void misuse_context_leave(struct misuse *m)
{
	(void)m;
}

static inline void misuse_context_close(const struct misuse *m)
{
	(void)m;
}

static inline void misuse_pinned(struct misuse *m, const struct lodic_pin *pin)
{
	(void)m;
	(void)pin;
}

static inline void misuse_unpin(struct misuse *m, const struct lodic_pin *pin)
{
	(void)m;
	(void)pin;
}

static inline void misuse_file(const struct misuse *m)
{
	(void)m;
}

static inline void misuse_hold(const struct misuse *m)
{
	(void)m;
}

static inline void misuse_hold_release(const struct misuse *m)
{
	(void)m;
}

#endif
#endif
