/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The counting contract: what every scheme offers, whatever it counts in.
 *
 * Objects are numbered from 0; for liblodic they are frames. Users hold references. They
 * are threads, or processes with several threads, and any number of threads may call for
 * one user. A reference keeps an object from being frozen. To refill or move an object,
 * the caller must freeze it first.
 *
 *            thaw                     ref (token)
 *   FROZEN --------> LIVE, nobody <---------------> LIVE, referenced
 *     ^                |              unref
 *     +---- freeze ----+
 *
 * Contract
 * N1 Every object begins FROZEN.
 * N2 Freeze succeeds only when nobody holds a reference, and until thaw nobody gets one.
 *    What holders did with the object happens before freeze returns true.
 * N3 A user that gets a reference sees everything done to the object before its last thaw.
 * N4 A query must not say "nobody" while some reference is held all through the call. It
 *    may say so when one holder comes and another goes: it looks at counters one by one. If
 *    the scheme has a table, it may take an entry that nobody uses for a user.
 * N5 Sum is the number of references not yet returned, when nothing moves.
 *
 * One caller at a time may freeze or thaw an object. All other operations may run at once,
 * on any number of CPUs. No operation sleeps.
 *
 * A new scheme is a file count_<name>.c with its struct count_scheme, and its line in
 * core/count/count_list.h (doc/add-a-scheme.md). A scheme's state is private to one process
 * or kernel, so it may hold pointers.
 */
#ifndef LODIC_CORE_COUNT_COUNT_H
#define LODIC_CORE_COUNT_COUNT_H

#include "core/errno.h"
#include "core/frame.h"

/* A counter that is shared has a cache line of its own. */
#define COUNT_LINE_WORDS 8u
#define COUNT_LINE_BYTES 64u

struct count;
struct paygo_table;

/* Memory that counting takes, as the scheme's source lays it out: so many bytes for each
 * object, each CPU (host_nr_cpus()) and each user. Page tables are not in it: they would be
 * there without counting. Nor are the few words that a scheme has once. Tables and figures
 * must ask this, and must never decide by a scheme's name.
 *
 * Some schemes without ptes cost COUNT_LINE_BYTES an object and nothing else. They count as
 * Linux does, in the object itself. Their state must be an array of nr_objects lines. */
struct count_cost {
	u64 object_bytes;
	u64 cpu_bytes;
	u64 user_bytes;
};

/* One reference not yet returned. A caller keeps a list of them, as an oracle for checks. */
struct count_held {
	u64 token;
	u32 object;
	u32 user;
};

struct count_scheme {
	const char *name;
	bool counts; /* false: null, which never knows and so never freezes */
	/* Counts in the ptes of process spaces: the calls of core/owned/count_owned.h take it. */
	bool has_ptes;
	/* A scheme that this tree has better, as the papers ran it (ADR-0034). It is for the
	 * checker and the timing model, and for figures that compare rivals. Native
	 * measurements and other tables leave it out, unless somebody names it. */
	bool is_rival;

	int (*init)(struct count *c);
	void (*fini)(struct count *c);
	bool (*ref)(struct count *c, u32 object, u32 user, u64 *ret_token);
	void (*unref)(struct count *c, u32 object, u32 user, u64 token);
	bool (*query)(struct count *c, u32 object);
	bool (*freeze)(struct count *c, u32 object);
	void (*thaw)(struct count *c, u32 object);
	u64 (*sum)(struct count *c, u32 object);
	void (*cost)(const struct count *c, struct count_cost *ret_cost);
	void (*check)(struct count *c, const struct count_held *held, u32 nr_held);

	/* NULL where the scheme has no need of them. */
	int (*share)(struct count *c, u32 user, u32 object);
	void (*unshare)(struct count *c, u32 user, u32 object);
	void (*tick)(struct count *c, u32 cpu);
	/* Counts in entries of its CPU's table that own a reference, with preemption off. So
	 * it is for kernels and models: the posix host pays a lock for each section. */
	struct paygo_table *(*table)(struct count *c);
};

#define COUNT_SCHEME(scheme) extern const struct count_scheme scheme;
#include "core/count/count_list.h"
#undef COUNT_SCHEME

/* All schemes. */
extern const struct count_scheme *const count_schemes[];
extern const u32 count_nr_schemes;

/* Do tables for people have it? Not the scheme that does not count, nor the example that is
 * there to be copied. Files have all schemes. */
bool count_scheme_is_shown(const struct count_scheme *scheme);

/* The scheme of that name; NULL when there is none. */
const struct count_scheme *count_scheme_find(const char *name);

/* One scheme's state over nr_objects objects and nr_users users. */
struct count {
	const struct count_scheme *scheme;
	const struct frame *frames; /* the objects' names */
	void *state;                /* the scheme's own */
	u32 nr_objects;
	u32 nr_users;
};

/* count_init() makes the state; every object is frozen (N1). frames has nr_objects frames,
 * where a scheme reads an object's name (lodic); for other schemes it may be NULL.
 * -EINVAL: no objects, no users, or frames missing. -ENOMEM: no memory. */
int count_init(struct count *c, const struct count_scheme *scheme,
               const struct frame *frames, u32 nr_objects, u32 nr_users);

/* Frees the state. No user may hold a reference or be in a call. */
void count_fini(struct count *c);

/* count_ref() takes a reference for user. The caller must pass ret_token to count_unref(),
 * with the same object and user. false: the object is frozen or somebody is trying to
 * freeze it. Or its name has changed meanwhile (lodic), or the user has no room (hazard).
 * The caller must then look the block up again. The reference holds the object, not its
 * name. So the caller must check that it is still the block's frame, as after any lookup
 * without a lock. */
static inline bool count_ref(struct count *c, u32 object, u32 user, u64 *ret_token)
{
	return c->scheme->ref(c, object, user, ret_token);
}

/* Returns a reference. Cannot fail. */
static inline void count_unref(struct count *c, u32 object, u32 user, u64 token)
{
	c->scheme->unref(c, object, user, token);
}

/* Is anyone using object (N4)? It may stop at the first sign. To act on the answer, the
 * caller must freeze. */
static inline bool count_query(struct count *c, u32 object)
{
	return c->scheme->query(c, object);
}

/* N2. false: somebody holds a reference, or did a moment ago, and nothing has changed. */
static inline bool count_freeze(struct count *c, u32 object)
{
	return c->scheme->freeze(c, object);
}

/* N3. The object must be frozen. */
static inline void count_thaw(struct count *c, u32 object)
{
	c->scheme->thaw(c, object);
}

/* count_share() says that user is going to use object, as a page fault does. Only after it
 * does lodic count in a user's own memory. The object must be live and have its name. It
 * returns 0 where a scheme has no use for it. -EAGAIN: the object is frozen, or being
 * frozen. -ENOMEM: no memory. count_unshare() takes it back, as munmap does;
 * references stay valid. */
static inline int count_share(struct count *c, u32 user, u32 object)
{
	return c->scheme->share ? c->scheme->share(c, user, object) : 0;
}

static inline void count_unshare(struct count *c, u32 user, u32 object)
{
	if (c->scheme->unshare)
		c->scheme->unshare(c, user, object);
}

/* A timer tick for cpu: what a scheme does once an epoch (refcache). Each cpu may have one
 * caller at a time. An epoch ends when each of the host_nr_cpus() CPUs has had its tick. A
 * tick is safe from anywhere, but only a caller that runs on cpu, and stays there, can
 * settle what lies there. From elsewhere it counts only when nothing lies there, as on a
 * CPU that no reader runs on. Without ticks for every CPU such a scheme stays safe, but no
 * freeze succeeds. A caller freezes, ticks and freezes again. At rest, a freeze succeeds
 * after three epochs at the latest. */
static inline void count_tick(struct count *c, u32 cpu)
{
	if (c->scheme->tick)
		c->scheme->tick(c, cpu);
}

/* N5: for tests and statistics. */
static inline u64 count_sum(struct count *c, u32 object)
{
	return c->scheme->sum(c, object);
}

static inline void count_cost(const struct count *c, struct count_cost *ret_cost)
{
	c->scheme->cost(c, ret_cost);
}

/* Asserts the scheme's invariants. held must list all references that are held, and nothing
 * may move meanwhile. Cost: O(objects * nr_held). */
void count_check(struct count *c, const struct count_held *held, u32 nr_held);

/* How many of held are on object. */
u32 count_held_on(const struct count_held *held, u32 nr_held, u32 object);

#endif
