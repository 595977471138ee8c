/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One scheme's counters over some objects, live and shared by all users, and the walks
 * over them that are measured. A walk is a sequence, made once from the seed. It is the same
 * for every scheme, so no scheme has kinder accesses than another.
 */
#ifndef LODIC_BENCH_FIELD_H
#define LODIC_BENCH_FIELD_H

#include "bench/measure/slots.h"
#include "core/owned/count_owned.h"

/* Far more than the caches hold. A process space has room for twice as many. */
#define FIELD_MAX_OBJECTS 65536u
/* lodic counts in a process's own memory only what at least so many share. With fewer
 * readers, the other users hold their mappings and are idle. */
#define FIELD_LEAST_USERS COUNT_OWNED_SHARE_MIN

enum field_walk { FIELD_HOT, FIELD_ROUND, FIELD_RANDOM, FIELD_QUERY, FIELD_NR_WALKS };

/* "hot", ... */
const char *field_walk_name(enum field_walk walk);

/* What the fields of all schemes have in common, for one number of objects. */
struct field_ground {
	const struct frame *frames;
	u32 nr_objects;
	u32 *steps[FIELD_NR_WALKS];
	u64 mask; /* of a place in steps */
	u32 nr_workers;
	u32 per_user; /* workers that are one user */
	const int *cpus;
};

struct field {
	const struct field_ground *ground;
	struct count count;
	u64 taken_bytes; /* what users took when they shared included */
};

/* cpus[i]: where worker i stays; it must be known before the workers start. ret is in
 * shared memory. -ENOMEM. */
int field_ground_open(struct field_ground **ret, u32 nr_objects, u32 nr_workers,
                      u32 per_user, const int *cpus, u64 seed);

/* Makes every object live. Each user's first worker shares every object for its user. ret
 * is in shared memory. -EPIPE: a worker has died. Otherwise -errno of the scheme. */
int field_open(struct field **ret, const struct count_scheme *scheme,
               const struct field_ground *ground, struct slots *slots);
void field_close(struct field *f);

/* Measures a ref and an unref per step, or a query. A step that the scheme refuses has
 * failed, and so has a query that sees somebody where nobody is. */
int field_measure(struct field *f, enum field_walk walk, u64 position,
                  struct slots *slots, u32 nr_workers, struct slots_result *ret);

/* Asserts that nothing was lost and that the scheme counts. Nothing may move meanwhile. */
void field_check(struct field *f);

#endif
