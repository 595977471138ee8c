/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the cache gives back when memory is short. The kernel's pressure stall information (PSI)
 * tells it of the machine, or of a control group. What a group's limit leaves tells it before the
 * kernel kills. Warm holds go first, because their memory goes back at once. Then the cache is
 * handed over smaller (resize.h), step by step. When there has been no pressure for long it grows
 * back, step by step, to what the user has configured.
 */
/* Both call it, and it calls both: the other half is resize.h, and the other half is budget.h. */
#ifndef LODIC_LIB_SERVICE_SUCCESSION_PRESSURE_H
#define LODIC_LIB_SERVICE_SUCCESSION_PRESSURE_H

#include <stdbool.h>

#include "host/host.h"

struct base;
struct budget;
struct cgroup;
struct holding;
struct service;
struct service_sizes;

/* The share of the last 10 s in which some task waited for memory, in hundredths of a percent.
 * Our choice: a machine whose page cache works reads 0, and one that pages its programs reads
 * tens of percent. Between the two nothing happens. */
#define PRESSURE_HIGH 1000u
#define PRESSURE_LOW 100u
/* A resize takes both memories for a moment. So it is made seldom, and after it the average has
 * time to fall. */
#define PRESSURE_PAUSE_NS ((u64)30 * 1000000000)
#define PRESSURE_CALM_NS ((u64)300 * 1000000000)
/* The least that pressure leaves of what was configured. */
#define PRESSURE_LEAST_PART 8u

/* After a step because a control group is tight: programs have had time to leave the old memory. */
#define PRESSURE_TIGHT_PAUSE_NS ((u64)5 * 1000000000)

struct pressure {
	const struct base *base;
	const struct service_sizes *sizes;
	struct holding *holding;
	const struct budget *budget;
	struct service *of; /* to be handed over smaller, or larger */

	u64 configured; /* bytes of the cache, as the user wants it */
	u64 next_ns;    /* when to look again */
	u64 resized_ns; /* the last one because of pressure; 0: none yet */
	u64 calm_ns;    /* since when it is low; 0: it is not */
	bool tight;     /* a control group is */
	bool said;      /* that the file cannot be read */
	bool said_room; /* that there is no room for a smaller cache */
};

enum pressure_step {
	PRESSURE_NOTHING,
	PRESSURE_HOLDS, /* warm holds go; if there are none, PRESSURE_CACHE may be next */
	PRESSURE_CACHE /* another size: *ret_bytes */
};

/* What to do at now_ns, if the cache has bytes. warm: there may be holds that nobody has. */
enum pressure_step pressure_decide(struct pressure *p, u64 now_ns, u32 some, u64 bytes,
                                   bool warm, u64 *ret_bytes);
/* Both caches are there for a moment. So a smaller one gets half of what is left at most. A larger
 * one is made only if twice the part that makes a group tight is left afterwards. false: the cache
 * must stay. */
bool pressure_fits(const struct cgroup *room, u64 bytes, u64 *next);
/* Reads a text like "some avg10=1.23 avg60=...": 123. false: there is no such number. */
bool pressure_parse(const char *text, u32 *ret_some);

/* The user wants the cache to have so many bytes. */
void pressure_configure(struct pressure *p, u64 bytes);
/* Is memory short, or was it a moment ago? Then the arena grows back to what it had, and no
 * further. */
bool pressure_lasts(const struct pressure *p);
/* Is a control group tight, as of the last look? */
bool pressure_is_tight(const struct pressure *p);
/* Takes over all that old, of another arena, knows. */
void pressure_take_over(struct pressure *p, const struct pressure *old);
/* The main loop calls it now and then: it looks once a second. */
void pressure_tick(struct pressure *p);

#endif
