/* SPDX-License-Identifier: GPL-2.0 */
/* KLOC: what its files in mm/ share. See Documentation/mm/kloc.rst. */
#ifndef _MM_KLOC_H
#define _MM_KLOC_H

#include <linux/kloc.h>
#include <linux/nodemask.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>

#include "kloc_host.h"
#include "kloc_life.h"

/* Where a knode stands with the thread that moves its pages. */
enum kloc_queue {
	KLOC_IDLE,	/* nothing is to be moved */
	KLOC_READY,	/* its pass has not begun */
	KLOC_RUNNING,	/* its pass is under way */
	KLOC_WAITING	/* something was busy: ready again at the next tick */
};

/**
 * struct knode - what the kernel knows of a file beside its page cache
 * @life: how often it is open, when it was used, its state.
 * @mapping: the file's. It may go when the RCU read lock is dropped: see kloc_pin().
 * @lock: of all but @mapping, @id and @rcu. It is a leaf but for the kmap's own lock.
 * @id: its place in the kmap; no other knode has it until 2^32 were made. 0: it is gone.
 * @nid: the node whose thread moves its pages, where it was opened last.
 * @queue: enum kloc_queue.
 * @work: enum kloc_work, what the pass does.
 * @pass: grows with each plan. A pass whose number is old must end.
 * @nr_moves: the ping-pong counter.
 * @nr_tries: passes in a row that left something behind.
 * @is_slow: a demotion has left nothing, and the knode was not active since.
 * @told: the tick in which a placement was traced.
 * @rcu: it was removed, and is freed after a grace period. A reader that found it before may read
 *	@life without the lock, and finds what means nothing. @id tells those that take the lock.
 */
struct knode {
	union {
		struct knode_life life;
		struct rcu_head rcu;
	};
	struct address_space *mapping;
	spinlock_t lock; /* a leaf */
	u32 id;
	s16 nid;
	u8 queue;
	u8 work;
	u16 pass;
	u8 nr_moves;
	u8 nr_tries;
	bool is_slow;
	u32 told;
};

/* What the tracepoints call what comes in and what is decided. */
enum kloc_input {
	KLOC_IN_NEW,
	KLOC_IN_OPEN,
	KLOC_IN_CLOSE,
	KLOC_IN_USE,
	KLOC_IN_UNLINK,
	KLOC_IN_MOVED,
	KLOC_IN_TICK,
	KLOC_IN_END
};

enum kloc_decision {
	KLOC_DO_ACTIVATE,
	KLOC_DO_DEACTIVATE,
	KLOC_DO_DEMOTE,
	KLOC_DO_PROMOTE,
	KLOC_DO_PLACE,
	KLOC_DO_KEEP,
	KLOC_DO_RETAIN,
	KLOC_DO_FORGIVE,
	KLOC_DO_END
};

/* Marks of the kmap; XA_MARK_0 is the allocator's. */
#define KLOC_MARK_ACTIVE	XA_MARK_1
#define KLOC_MARK_WORK		XA_MARK_2

extern struct xarray kloc_map;

/* Names in this order in kloc_stat_names: /sys/kernel/mm/kloc/stat. */
enum kloc_stat {
	KLOC_KNODES,		/* there are, as the three below */
	KLOC_NR_ACTIVE,
	KLOC_NR_UNLINKED,
	KLOC_OPENS,
	KLOC_CLOSES,
	KLOC_AGED,
	KLOC_SPARED,
	KLOC_SHRUNK,
	KLOC_DEMOTED,
	KLOC_PROMOTED,
	KLOC_BUSY,
	KLOC_NO_TARGET,
	KLOC_NO_ROOM,
	KLOC_PASSES,
	KLOC_CANCELLED,
	KLOC_KEPT,
	KLOC_RETAINED,
	KLOC_FORGIVEN,
	KLOC_LIST_HITS,
	KLOC_LIST_MISSES,
	KLOC_LIST_STALE,
	KLOC_PLACED_FAST,
	KLOC_PLACED_SLOW,
	KLOC_NO_MEMORY,
	NR_KLOC_STATS
};

struct kloc_stats {
	long n[NR_KLOC_STATS];
};

DECLARE_PER_CPU(struct kloc_stats, kloc_stats);

static inline void kloc_count(enum kloc_stat what, long n)
{
	this_cpu_add(kloc_stats.n[what], n);
}

/**
 * struct kloc_policy - what is done at all
 * @name: in /sys/kernel/mm/kloc/policy.
 * @places: pages of active knodes are placed.
 * @mover: what moves the pages of a group.
 */
struct kloc_policy {
	const char *name;
	bool places;
	enum kloc_mover mover;
};

extern const struct kloc_policy kloc_policies[];
extern const unsigned int kloc_nr_policies;

/**
 * struct kloc_settings - what /sys/kernel/mm/kloc sets, under kloc_mutex
 * @policy: which.
 * @rules: what the policy and the other settings make of the knodes' lives.
 * @tick_ms: the length of a tick.
 * @rate_mb: MiB that a thread may move in a second; 0: any number.
 *
 * Readers take no lock. One that sees an old value acts as if it had come earlier.
 */
struct kloc_settings {
	const struct kloc_policy *policy;
	struct life_rules rules;
	unsigned int tick_ms;
	unsigned int rate_mb;
};

extern struct kloc_settings kloc_set;
extern struct mutex kloc_mutex;
extern u32 kloc_now;

static inline u32 kloc_tick_now(void)
{
	return READ_ONCE(kloc_now);
}

/* kloc.c */
struct knode *knode_lock(struct address_space *mapping);
struct knode *knode_lock_id(u32 id);
void knode_unlock(struct knode *k);
void knode_changed(struct knode *k, enum life_change change);
void knode_input(struct knode *k, enum kloc_input input, unsigned long n, u32 now);
void knode_decided(struct knode *k, enum kloc_decision what, u32 why);
void kloc_use(struct knode *k);
void kloc_collect(void);
struct inode *kloc_pin(u32 id);
void kloc_unpin(struct inode *inode);

/* Nothing moves yet. */
static inline void kloc_plan(struct knode *k)
{
}

static inline void kloc_forget(struct knode *k)
{
}

static inline void kloc_retry(void)
{
}

static inline int kloc_wait_quiet(void)
{
	return 0;
}

static inline int kloc_threads_make(void)
{
	return 0;
}

/* kloc_tick.c */
void kloc_tick(void);
void kloc_start(void);
void kloc_stop(void);

/* kloc_place.c */
bool kloc_is_fast(int nid);
int kloc_fast_node(int nid);
int kloc_next_node(int nid);
bool kloc_has_share(int nid);
unsigned long kloc_over(int nid);
extern unsigned long kloc_limit[MAX_NUMNODES];

/* kloc_sysfs.c */
int kloc_enable(bool on);
long kloc_stat_sum(enum kloc_stat what);
void kloc_rules_changed(void);

#endif /* _MM_KLOC_H */
