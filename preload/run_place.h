/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Mappings whose memory the shim changes later. Rules: run_place.c. Each function keeps errno. */
#ifndef LODIC_PRELOAD_RUN_PLACE_H
#define LODIC_PRELOAD_RUN_PLACE_H

#include "preload/run_state.h"

void run_places_look(void);
/* A call of the program's has come by the shim, which may do a step for them. Keeps errno. It costs
 * one load while there are none. */
static inline void run_enters(void)
{
	if (host_load_relaxed(&shim.run.nr_places))
		run_places_look();
}

void run_places_locked(void);
void run_places_part(u64 at, u64 bytes, bool stays);

/* The program has locked or unlocked a file. */
static inline void run_places_lock(void)
{
	if (unlikely(host_load_relaxed(&shim.run.nr_places)))
		run_places_locked();
}

/* The program is about to change what is mapped there. stays: the memory remains. */
static inline void run_places_change(const void *at, u64 bytes, bool stays)
{
	if (unlikely(host_load_relaxed(&shim.run.nr_places)))
		run_places_part((u64)at, bytes, stays);
}

/* The program has got the kernel's mapping at at. It may get the hold there, if why may pass. */
void run_place_waits(const struct run_mapping *m, void *at, enum run_why why);
/* The program has got the hold of a file that somebody may write to. The lock is held. */
void run_place_lent(const struct run_mapping *m, void *at, struct run_file *f,
                    const struct port_file *memory);
/* Is there no room for another one? */
bool run_places_full(void);
/* The shim leaves its service: what that vouched for goes back. The lock is held. */
void run_places_return(struct run_state *s);
/* The shim steps aside: the same, and there are no places any more. The lock is held. */
void run_places_end(struct run_state *s);
/* In a forked child. */
void run_places_forked(void);

#endif
