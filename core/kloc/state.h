/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the files of this room share: objects, knodes, tiers, and the lists they are on. All of it
 * is private to one thread, but for the CPUs' lists (knode_list.h). Plain loads and stores.
 *
 * Words
 *   list     where an object is; it is on one list at most, or under way (LIST_MOVING).
 *   work     what a knode's objects wait for: a pass takes them one by one by kloc_next().
 *   pass     the number of a knode's pass. A pass skips an object by giving it that number and
 *            moving it to the end; when the number comes up at the front, the pass is over.
 *   wish     where a policy wants an object, and how much must stay free beside it.
 *
 *                 add              want             kloc_next         kloc_moved
 *   no object --------> its list --------> WANTED --------> MOVING ------------> its list
 *                          |  '-------- a knode's pass -------^  |
 *                          | remove                       remove | (gone)
 *                          v                                     v
 *                      no object <-------------------- kloc_moved()
 *
 * Invariants
 * KL10 A tier's used is the bytes of objects and copies there, of moves that go there, and of
 *      knodes charged there.
 * KL11 An object is on the list that its fields name, once; each list holds nothing else.
 * KL12 A knode's nr_objects is how many objects name it, those gone but moving included; a master
 *      has its segments' besides. Its bytes are those of its objects in each tier; a gone one has
 *      none.
 * KL13 A knode in a work list has the state that this work needs. An unlinked one has no work,
 *      and nobody has it open.
 * KL14 A tier's leaving is the bytes of objects that wait to leave it or are under way from it.
 * KL15 An inode has one knode for each segment, found by its hash; a free knode has none.
 * KL16 A segment names its master, and is in its master's chain; the master is not a segment.
 * KL17 Active knodes are ordered by their last use.
 */
#ifndef LODIC_CORE_KLOC_STATE_H
#define LODIC_CORE_KLOC_STATE_H

#include "core/kloc/kloc.h"
#include "core/kloc/knode_list.h"
#include "core/kloc/tree.h"

struct kloc_link {
	u32 next, prev;
};

enum kloc_list {
	LIST_NONE,
	LIST_KNODE, /* its knode's, by class and tier */
	LIST_LRU,   /* its tier's, active or inactive by F_ACTIVE */
	LIST_FRESH, /* prefetched, and nobody has used it */
	LIST_MOVING,
	LIST_FREE,
	LIST_WANTED, /* + what * KLOC_MAX_TIERS + to: the last one */
};

#define F_REFERENCED 1u
#define F_ACTIVE 2u
#define F_PREFETCHED 4u
#define F_GONE 8u     /* removed while it moves */
#define F_FOREIGN 16u /* autonuma: the last use came from the node in seen */

struct kloc_object {
	u64 key;
	u32 knode;
	u32 bytes;
	struct kloc_link
		link; /* free: next is the next free one; moving: what, and to where */
	u8 kind : 4;
	u8 tier : 4;
	u8 flags;
	u8 nr_moves;
	u8 list;
	u8 copies; /* bits of tiers */
	u8 pass;   /* the pass that skipped it; 0: none */
	u8 why : 4;
	u8 seen : 4; /* autonuma: a node */
	u8 used;     /* the tick of its last use, its lowest bits */
};
_Static_assert(sizeof(struct kloc_object) == 32, "two objects a cache line");

struct knode {
	u64 bytes[KLOC_MAX_TIERS];
	u32 first[KLOC_NR_CLASSES][KLOC_MAX_TIERS];
	struct knode_life life;   /* a segment's own; a master's has the opens */
	struct kloc_link by_age;  /* in ages[state] */
	struct kloc_link by_work; /* in work[work] */
	u32 nr_objects;
	u32 last_cpu;
	u32 master; /* itself, unless it is a segment */
	u32 segment;
	u32 next_segment; /* of its master */
	u32 chain;        /* in its bucket; free: the next free one */
	u8 work;          /* enum kloc_work */
	u8 pass;
	u8 charged; /* the tier that pays for it, or KLOC_NO_TIER */
	bool waits; /* an object was busy: look again at the next tick */
};

struct kloc_tier {
	u64 capacity, limit, used, leaving;
	u64 nr[KLOC_NR_KINDS]; /* objects */
	u32 lru[2]; /* first of inactive, of active; the last one was touched longest ago */
	u32 nr_lru[2];
	bool is_low; /* under pressure until high_permille is free */
};

struct kloc {
	const struct kloc_policy *policy;
	struct kloc_shape shape;
	struct kloc_parameters p;
	struct life_rules rules; /* of p and the policy */
	u8 *cpu_tier;
	struct kloc_object *objects;
	struct knode *knodes;
	u32 *buckets;
	u32 nr_buckets;                /* a power of two */
	struct tree_node *object_tree; /* NULL without trees */
	struct tree_node *knode_tree;
	u32 (*roots)[KLOC_NR_CLASSES];
	u32 kmap_root;
	struct knode_lists lists;
	struct kloc_tier tiers[KLOC_MAX_TIERS];
	u32 free_object, free_knode;
	u32 wanted[KLOC_NR_WHATS][KLOC_MAX_TIERS];
	u32 fresh;
	u32 hand;                    /* replicate: over all objects */
	u32 ages[KLOC_UNLINKED + 1]; /* knodes by state, oldest use first */
	u32 work[NR_WORKS];
	u32 now; /* ticks */
	u32 group_kinds, lru_kinds;
	u64 promote_bytes; /* promotions that wait for room */
	void *oracle;
	struct tree_walks walks;
	struct kloc_stat stat;
};

/* Lists through a link of each element; first is the element in front. */
struct kloc_ring {
	u8 *links;
	u32 stride;
};

#define RING(array, link) \
	((struct kloc_ring){ (u8 *)&(array)[0].link, sizeof((array)[0]) })

static inline struct kloc_link *kloc_link_of(struct kloc_ring r, u32 i)
{
	return (struct kloc_link *)(r.links + (size_t)i * r.stride);
}

/* At the end; with *first = i after it, in front. */
static inline void kloc_ring_add(struct kloc_ring r, u32 *first, u32 i)
{
	struct kloc_link *link = kloc_link_of(r, i), *front;

	if (*first == KLOC_NONE) {
		link->next = link->prev = *first = i;
		return;
	}
	front = kloc_link_of(r, *first);
	link->next = *first;
	link->prev = front->prev;
	kloc_link_of(r, front->prev)->next = i;
	front->prev = i;
}

static inline void kloc_ring_take(struct kloc_ring r, u32 *first, u32 i)
{
	struct kloc_link *link = kloc_link_of(r, i);

	kloc_link_of(r, link->prev)->next = link->next;
	kloc_link_of(r, link->next)->prev = link->prev;
	if (*first == i)
		*first = link->next == i ? KLOC_NONE : link->next;
}

/* The element after i, KLOC_NONE after the last one; of KLOC_NONE the first. */
static inline u32 kloc_ring_next(struct kloc_ring r, u32 first, u32 i)
{
	if (i == KLOC_NONE)
		return first;
	i = kloc_link_of(r, i)->next;
	return i == first ? KLOC_NONE : i;
}

static inline enum kloc_class kloc_object_class(const struct kloc_object *o)
{
	return kloc_class_of((enum kloc_kind)o->kind);
}

static inline bool kloc_is_grouped(const struct kloc *k, const struct kloc_object *o)
{
	return o->knode != KLOC_NONE && k->group_kinds & KLOC_BIT(o->kind);
}

static inline bool kloc_can_move(const struct kloc *k, const struct kloc_object *o)
{
	return k->p.movable & KLOC_BIT(o->kind);
}

/* object.c */
void kloc_log(struct kloc *k, u32 object, enum kloc_what what, enum kloc_why why,
              u32 from, u32 to);
/* Puts an object on the list where it belongs while nothing is wanted of it. */
void kloc_object_settle(struct kloc *k, u32 object);
void kloc_object_unlist(struct kloc *k, u32 object);
void kloc_object_free(struct kloc *k, u32 object);
void kloc_object_tick(struct kloc *k);
/* Must it stay where it is (KL5), so many ticks after its last use? */
bool kloc_object_is_spared(struct kloc *k, u32 object, u32 idle, enum kloc_why why);

/* capacity.c */
u64 kloc_headroom(const struct kloc *k, u32 tier); /* limit less used */
/* What will be free when all that leaves has left. */
u64 kloc_headroom_soon(const struct kloc *k, u32 tier);
u64 kloc_watermark(const struct kloc *k, u32 tier, u32 permille);
/* Is there pressure on the tier, and why? */
bool kloc_is_tight(struct kloc *k, u32 tier, enum kloc_why *ret_why);
/* The tier nearest to tier with so much room; KLOC_NO_TIER: none. */
u32 kloc_nearest(const struct kloc *k, u32 tier, u64 bytes);
/* The first pressure that a policy can do something about. false: nothing was done. */
bool kloc_relieve(struct kloc *k);

/* knode.c */
void kloc_knode_use(struct kloc *k, u32 knode, u32 cpu, bool is_touch);
void kloc_knode_deactivate(struct kloc *k, u32 knode, enum kloc_why why);
/* Puts the knode into the work list that its state and its objects' places ask for. If they ask for
 * none, it leaves the one that it is in. */
void kloc_knode_plan(struct kloc *k, u32 knode);
void kloc_knode_work(struct kloc *k, u32 knode, enum kloc_work work);
/* An object names the knode; or no longer, and that may free it. */
void kloc_knode_take_object(struct kloc *k, u32 knode);
void kloc_knode_drop_object(struct kloc *k, u32 knode);
/* The knode of the piece of the file that a new object is for. */
u32 kloc_knode_for(struct kloc *k, const struct kloc_new *new_object);
void kloc_knode_age(struct kloc *k);
/* As its files' flags have it, where they have something to say. */
enum kloc_state kloc_knode_state(const struct kloc *k, u32 knode);
/* Is the object where its knode's state does not want it? */
bool kloc_knode_misplaces(const struct kloc *k, const struct kloc_object *o);
/* The node of the CPU that used the knode last; KLOC_NO_TIER: none has. */
u32 kloc_knode_home(const struct kloc *k, u32 knode);

/* kmap.c */
u32 kloc_kmap_find(struct kloc *k, u64 inode, u32 segment);
void kloc_kmap_add(struct kloc *k, u32 knode, u64 inode);
void kloc_kmap_remove(struct kloc *k, u32 knode);
/* Counts the paper's walk for a knode that a list did not have. */
void kloc_kmap_walk(struct kloc *k, u32 knode);

/* wanted.c */
/* A policy that has nothing better to do asks this before it wants a move. */
static inline bool kloc_is_idle(const struct kloc_object *o)
{
	return o->list < LIST_MOVING;
}
/* The object shall move, on its own. It must be on no list of wanted ones. */
void kloc_want(struct kloc *k, u32 object, enum kloc_what what, u32 to,
               enum kloc_why why);
/* What nobody took since the last tick goes back. */
void kloc_unwant_all(struct kloc *k);
void kloc_unwant(struct kloc *k, u32 object);

/* lru.c */
void kloc_lru_tick(struct kloc *k);
/* Wants the demotion of the object that was used longest ago, if one is cold. */
bool kloc_lru_relieve(struct kloc *k, u32 tier, enum kloc_why why);

#endif
