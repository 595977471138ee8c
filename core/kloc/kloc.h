/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * KLOC: what belongs to one file is placed, and moves between tiers of memory, together.
 * Source: KLOCs, ASPLOS'21. Departures: ADR-0030.
 *
 * A file (or socket) has a knode. Its objects hang on the knode: frames and holds (large), table
 * chunks, journal records, pending I/O and the like (small). Pages of programs (KLOC_APP) are
 * objects of no knode. This room decides where an object goes, and which one moves. Its caller
 * owns the bytes, moves them, and says how that ended.
 *
 * life.h has the states of a knode, and what each asks for. A knode that has ended is free again
 * when its last object is removed and its last move has ended.
 *
 * Contract
 * KL1 Objects of active knodes are placed in fast memory while that has room, and others in slow
 *     memory (KLOCs s.4.2.2). Objects of an unlinked knode never move (KLOCs s.3.2).
 * KL2 used <= limit of each tier, but for what kloc_memsize() has lowered and for all-fast. A move
 *     has its room in both tiers from kloc_next() to kloc_moved().
 * KL3 An object is in at most one move. A removed object's number is used again only after its
 *     move has ended, and so is the number of its knode.
 * KL4 All decisions follow from the calls and their order alone: not from addresses, clocks or
 *     random numbers. The same calls give the same log.
 * KL5 An object that has moved ping_pong times stays in fast memory (KLOCs s.4.5). A limit outranks
 *     it, and it begins anew after forgive ticks without a use. The oracle does as it likes.
 * KL6 A stale entry of a CPU's list is never served (knode_list.h, KL20 to KL24).
 *
 * One thread at a time may call this room: a service's main thread, a simulator, a kernel under a
 * lock. Only the CPUs' lists have a second side (knode_list.h). No call sleeps. Tier 0 is the
 * fast one of two tiers and 1 the slow one; for the NUMA policies a tier is a node.
 *
 * A policy is a structure in a file policy_<name>.c (policy.h) and its line in policy_list.h.
 */
#ifndef LODIC_CORE_KLOC_KLOC_H
#define LODIC_CORE_KLOC_KLOC_H

#include "core/check.h"
#include "core/errno.h"
#include "core/kloc/life.h"

#define KLOC_NONE 0xffffffffu
#define KLOC_MAX_TIERS 4u
#define KLOC_NO_TIER KLOC_MAX_TIERS
#define KLOC_NEVER (~(u64)0)

enum { KLOC_FAST, KLOC_SLOW };

enum kloc_kind {
	KLOC_APP,      /* memory of programs; in no knode */
	KLOC_FRAME,    /* page cache */
	KLOC_HOLD,     /* a hold of core/cache/hold.h */
	KLOC_JOURNAL,  /* journal records and buffers */
	KLOC_BLOCK_IO, /* block requests under way */
	KLOC_SOCKET,   /* socket buffers: headers and data */
	KLOC_SLAB,     /* inode, dentry, extent */
	KLOC_TABLE,    /* chunks of the file's index */
	KLOC_RMAP,     /* nodes of the reverse mapping */
	KLOC_NR_KINDS
};
#define KLOC_BIT(kind) (1u << (kind))
#define KLOC_ALL_KINDS (KLOC_BIT(KLOC_NR_KINDS) - 1)

/* The two indexes of a knode (KLOCs s.4.2.3: rbtree-cache and rbtree-slab). */
enum kloc_class { KLOC_LARGE, KLOC_SMALL, KLOC_NR_CLASSES };

static inline enum kloc_class kloc_class_of(enum kloc_kind kind)
{
	return kind <= KLOC_HOLD ? KLOC_LARGE : KLOC_SMALL;
}

/* In the order of policy_list.h. */
enum kloc_policy_id {
#define KLOC_POLICY(id, policy) id,
#include "core/kloc/policy_list.h"
#undef KLOC_POLICY
	KLOC_NR_POLICIES
};

/* Where kernel objects go under nimble and nimblepp: the paper says both (ADR-0030). */
enum kloc_kernel_place { KLOC_KERNEL_FAST, KLOC_KERNEL_SLOW };

/* kloc_parameters_default() fills it for a policy; a caller changes what it wants. */
struct kloc_parameters {
	u64 segment_bytes; /* a knode for each so many bytes; 0: one a file (KLOCs s.4.4) */
	u32 kinds; /* bits: kinds in the groups; others stay in tier 0 (KLOCs s.7.3) */
	u32 movable;   /* bits: kinds whose bytes the caller can move */
	u32 age_limit; /* ticks without a use until an open knode is inactive; 0: never */
	u32 ping_pong;    /* KL5; 1 to 255 */
	u32 forgive;      /* KL5: ticks without a use, at most 254; 0: never */
	u32 low_permille; /* of a limit: less free than this is pressure, */
	u32 high_permille; /* which lasts until so much is free; promotions leave it free */
	u32 scan; /* objects of the LRU lists that a tick looks at, for each tier */
	u32 prefetch_age; /* ticks until a prefetched object that nobody used is cold */
	u32 max_in_flight; /* moves between kloc_next() and kloc_moved(): concurrent copies */
	u32 copy_threads; /* threads a copy: for the caller, who charges them */
	u32 kernel_place; /* enum kloc_kernel_place */
	u32 knode_tier;   /* where knodes are charged: 0, 1; KLOC_NO_TIER: nowhere */
	bool eager; /* a last close demotes at once (KLOCs s.4.5); else need does */
	bool promote_whole; /* activity promotes the knode, not only the object touched */
	bool promote_small; /* activity promotes small objects, too */
	bool promote_file;  /* tpp: frames are promoted as pages of programs are */
	bool trees; /* keep the paper's red-black trees as well, and count their visits */
};

enum kloc_what {
	KLOC_PLACE,
	KLOC_DEMOTE,  /* from tier 0 */
	KLOC_PROMOTE, /* to tier 0 */
	KLOC_FOLLOW,  /* to the node of the CPU that uses it */
	KLOC_COPY,    /* one more copy of an immutable object; the first one stays */
	KLOC_DROP,    /* a copy goes; there is nothing to copy */
	KLOC_KEEP,    /* something that would have moved stays */
	KLOC_NR_WHATS
};

struct kloc_decision {
	u64 number; /* from 1 */
	u64 inode;  /* 0: of no knode */
	u64 key;
	u32 object, knode;
	u32 what; /* enum kloc_what */
	u32 why;  /* enum kloc_why */
	u32 kind;
	u32 from, to; /* KLOC_NO_TIER: none */
};

/* All are called from inside a call, and must not call back. Any may be NULL. */
struct kloc_ops {
	void *arg;
	/* Each decision, in order: placements as made, moves as handed out, what stays. */
	void (*log)(void *arg, const struct kloc_decision *d);
	/* For the oracle: when the object is used next, in units that only grow; KLOC_NEVER. */
	u64 (*next_use)(void *arg, u32 object, u64 key);
};

struct kloc_shape {
	/* Bytes; the limit at first. (Or pages: the unit is the caller's, but knodes are charged
	 * in bytes.) */
	u64 capacity[KLOC_MAX_TIERS];
	u32 nr_tiers;   /* 2 to KLOC_MAX_TIERS */
	u32 nr_objects; /* at most; moves under way included */
	u32 nr_knodes;  /* at most KNODE_LIST_MAX_KNODES; segments included */
	u32 nr_cpus;
	u32 list_length;    /* entries of a CPU's list of knodes */
	const u8 *cpu_tier; /* the node of each CPU, copied; NULL: all 0 */
	enum kloc_policy_id policy;
	struct kloc_parameters parameters;
	struct kloc_ops ops;
};

struct kloc;

/* The policy with that name: "naive", "nimble", "nimble++", "kloc" ...; KLOC_NR_POLICIES when
 * there is none. */
enum kloc_policy_id kloc_policy_named(const char *name);
const char *kloc_policy_name(enum kloc_policy_id policy);
enum kloc_mover kloc_policy_mover(enum kloc_policy_id policy);
const char *kloc_kind_name(enum kloc_kind kind);
const char *kloc_what_name(enum kloc_what what);
const char *kloc_why_name(enum kloc_why why);

void kloc_parameters_default(enum kloc_policy_id policy, struct kloc_parameters *ret);

/* -EINVAL: the shape has no sense. -ENOMEM: no memory. */
int kloc_init(const struct kloc_shape *shape, struct kloc **ret_kloc);
void kloc_fini(struct kloc *k);

/* The knode of an inode; a new one is inactive. inode is not 0; flags are KLOC_MAP_... of life.h.
 * A caller keeps the knode beside its inode, and needs kloc_find() only where it has nothing but
 * the inode.
 * -ENOSPC: no knode is free, or no room for one in its tier. */
int kloc_map(struct kloc *k, u64 inode, u32 flags, u32 *ret_knode);
/* Looks in cpu's list, then in the kmap. KLOC_NONE: the inode has no knode. */
u32 kloc_find(struct kloc *k, u64 inode, u32 cpu);

/* Opens nest. A service's own descriptor is not an open: only the opens of its clients are. */
void kloc_open(struct kloc *k, u32 knode, u32 cpu);
void kloc_close(struct kloc *k, u32 knode, u32 cpu);
/* The file was deleted, or its inode leaves memory. The caller removes its objects, before or
 * afterwards, and may not name the knode again after that, but to close it. */
void kloc_unlink(struct kloc *k, u32 knode, u32 cpu);

struct kloc_new {
	u64 key; /* the caller's. Of a frame or hold: its first byte in the file (segments) */
	u32 knode; /* KLOC_NONE: of a program, or nobody knows yet whose it is */
	u32 kind;
	u32 bytes; /* > 0 */
	u32 cpu;
	bool prefetch; /* nobody has asked for it yet */
};

/* Places one object: the caller must then put its bytes into *ret_tier. It is a use of the
 * knode. -ENOSPC: no tier has room, or no object is free; nothing has changed. */
int kloc_add(struct kloc *k, const struct kloc_new *new_object, u32 *ret_object,
             u32 *ret_tier);
/* Where the policy would place such an object of the knode now, if there were room. It asks, and
 * changes nothing. *ret_follows: such objects follow when the answer changes. */
u32 kloc_wished(struct kloc *k, u32 knode, enum kloc_kind kind, u32 cpu,
                bool *ret_follows);
/* The knode of an object added without one (packets: KLOCs s.4.2.3). */
void kloc_adopt(struct kloc *k, u32 object, u32 knode, u32 cpu);
/* The object is freed, and its copies with it. If it is in a move, the caller must still end that
 * by kloc_moved(). */
void kloc_remove(struct kloc *k, u32 object);

/* A use of the object. It returns the tier that serves it: a copy in cpu's own node, if there is
 * one, otherwise the object's tier. */
u32 kloc_touch(struct kloc *k, u32 object, u32 cpu);
/* The caller's readahead is about to ask for it: promote it ahead of its use, if its knode is
 * active. true: it is wanted in fast memory. */
bool kloc_prefetch(struct kloc *k, u32 object, u32 cpu);
/* What a CPU ran has gone on to another one: the knodes it used last follow (kloc-numa). */
void kloc_task_moved(struct kloc *k, u32 from_cpu, u32 to_cpu);

/* Time passes: ages, LRU scans, retries. The caller decides how often. */
void kloc_tick(struct kloc *k);

struct kloc_move {
	u32 object;
	u32 what; /* DEMOTE, PROMOTE, FOLLOW, COPY or DROP */
	u32 why;
	u32 from, to; /* of DROP: the copy is in from */
};

enum kloc_result {
	KLOC_MOVED,
	KLOC_BUSY, /* pinned, held, dirty: a tick tries again where that is still wanted */
	KLOC_NO_ROOM /* the caller found no memory there after all */
};

/* The next move that is wanted. false: there is none now, or max_in_flight are under way. The
 * caller must end each by kloc_moved(), in any order, at any time later. */
bool kloc_next(struct kloc *k, struct kloc_move *ret_move);
void kloc_moved(struct kloc *k, u32 object, enum kloc_result result);

/* The most that a tier may hold (sys_kloc_memsize()); more than its capacity is its capacity.
 * What is too much moves away by kloc_next(), as far as the policy moves such objects. Nothing
 * moves up out of the slowest tier: there a limit is for what comes. -EINVAL: no such tier. */
int kloc_memsize(struct kloc *k, u32 tier, u64 bytes);

/* The paper's iterators (KLOCs table 2). */
/* The next object of a knode's class after object; KLOC_NONE begins and ends. Objects that wait for
 * a move of their own, or are under way, are left out. */
u32 kloc_next_object(const struct kloc *k, u32 knode, enum kloc_class class_,
                     u32 object);
/* The active knode that was used longest ago, and those after it; KLOC_NONE begins and ends. */
u32 kloc_next_coldest(const struct kloc *k, u32 knode);
/* The CPU that used the knode last; KLOC_NONE: none has. */
u32 kloc_last_cpu(const struct kloc *k, u32 knode);

struct kloc_object_stat {
	u64 key;
	u32 knode, kind, bytes;
	u32 tier;
	u32 copies; /* bits: tiers with a copy besides */
	u32 nr_moves;
	bool is_moving;
};
void kloc_object_stat(const struct kloc *k, u32 object, struct kloc_object_stat *ret);

struct kloc_knode_stat {
	u64 inode;
	u64 bytes[KLOC_MAX_TIERS]; /* of its objects, its segments' included */
	u32 nr_objects;
	u32 nr_opens;
	u32 nr_segments;
	u32 state; /* enum kloc_state */
	u32 why;   /* enum kloc_why: why it is inactive */
	u32 age;   /* ticks since its last use */
	u32 flags; /* KLOC_MAP_... */
};
/* KLOC_NONE begins; false: there is no further knode in use. */
bool kloc_next_knode(const struct kloc *k, u32 *knode, struct kloc_knode_stat *ret);

struct kloc_tier_stat {
	u64 capacity, limit, used; /* bytes */
	u64 objects[KLOC_NR_KINDS];
};
void kloc_tier_stat(const struct kloc *k, u32 tier, struct kloc_tier_stat *ret);

struct kloc_stat {
	u64 placed[KLOC_NR_KINDS][KLOC_MAX_TIERS];
	u64 moved[KLOC_NR_KINDS][KLOC_NR_WHATS]; /* ended as KLOC_MOVED */
	u64 moved_bytes[KLOC_NR_WHATS];
	u64 placed_full;   /* not where the policy wanted them: no room */
	u64 busy, no_room; /* moves that ended so */
	u64 abandoned;     /* moves whose object was removed meanwhile */
	u64 retained;      /* objects that reached ping_pong moves */
	u64 kept;          /* times that KL5 kept one in fast memory */
	u64 forgiven;      /* retained objects that began anew */
	u64 activated, closed, aged, unlinked; /* knodes, by what changed their state */
	u64 list_hits, list_misses; /* uses that found the knode in the CPU's list */
	u64 list_stale;             /* entries refused by their generation */
	u64 tree_walks,
		tree_visits; /* of the kmap and of knodes' trees; 0 without trees */
	u64 scanned;         /* objects that LRU scans looked at */
	u64 prefetched, prefetch_used, prefetch_cold;
	u64 nr_knodes, nr_objects; /* now */
	u64 peak_knodes, peak_objects;
	u64 in_flight; /* now */
	u64 decisions;
};
void kloc_stat(const struct kloc *k, struct kloc_stat *ret);

/* What grouping adds, by sizeof: for each knode, object and entry of a CPU's list, with this
 * shape's index (KLOCs table 6). */
struct kloc_cost {
	u32 knode_bytes;
	u32 object_bytes;
	u32 link_bytes; /* of object_bytes: the index alone, which the paper's 8 bytes are */
	u32 entry_bytes;
	u64 now_bytes;  /* for what is in use now */
	u64 peak_bytes; /* for the most that ever was */
};
void kloc_cost(const struct kloc *k, struct kloc_cost *ret);
const struct kloc_parameters *kloc_parameters_of(const struct kloc *k);

/* Asserts all invariants by name. Cost: all objects, knodes and lists. */
void kloc_check(const struct kloc *k);

#endif
