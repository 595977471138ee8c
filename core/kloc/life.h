/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A knode's life: what an open, a close, a use, an unlink or a tick makes of it. It says what the
 * knode's state asks of its objects, and which of them has moved too often.
 * Source: KLOCs s.4.2.2, KLOCs s.4.4 and KLOCs s.4.5 (ASPLOS'21). Departures: ADR-0030.
 *
 * This text is shared: core/kloc decides by it, and so does Linux. It knows no lists, no tiers and
 * no objects. The includer finds knodes, orders them, counts bytes and moves them.
 *
 *        map              open; or a use, while it is open       unlink, nobody has it open
 *   FREE ----> INACTIVE ---------------------------> ACTIVE      any of the two ----> UNLINKED
 *    ^            ^     <---------------------------   |                                |
 *    |            |     last close; or no use for      |     (unlink while open: at the |
 *    |            |     age_limit ticks                |      last close)               |
 *    '------------+------------------------------------+--------------------------------'
 *                 the includer has forgotten it
 *
 * Rules
 * KL40 Only a file that somebody has open is active.
 * KL41 An ended file has no work, whatever it had before.
 * KL42 What a counter retains moves down for the sake of a limit alone.
 *
 * The caller must not let two calls about one file run at the same time. A call that only reads may
 * run beside them where an old answer does no harm. No call sleeps, loops or waits.
 *
 * The includer must define u8, u32, u64 and bool before this text.
 */
#ifndef LODIC_CORE_KLOC_LIFE_H
#define LODIC_CORE_KLOC_LIFE_H

enum kloc_state { KLOC_FREE, KLOC_INACTIVE, KLOC_ACTIVE, KLOC_UNLINKED };

/* What a file is told when it gets its knode; path globs of an administrator say so. */
#define KLOC_MAP_FAST 1u      /* its objects are always as those of an active knode */
#define KLOC_MAP_SLOW 2u      /* always as those of an inactive one */
#define KLOC_MAP_REPLICATE 4u /* it never changes: a node may have a copy (replicate) */

enum kloc_why {
	KLOC_BY_POLICY, /* where the policy puts all of them */
	KLOC_BY_STATE,  /* its knode is active; inactive */
	KLOC_BY_AGE,  /* its knode has not been used for long; the LRU's list says so */
	KLOC_BY_USE,  /* it, or its knode, was used */
	KLOC_BY_NEED, /* the tier has too little room */
	KLOC_BY_LIMIT,    /* kloc_memsize() */
	KLOC_BY_FUTURE,   /* the oracle */
	KLOC_FULL,        /* the tier that it should be in has no room */
	KLOC_BY_COUNTER,  /* KL5 */
	KLOC_BY_PREFETCH, /* it was prefetched, and nobody has used it */
	KLOC_WAS_BUSY,    /* the caller could not move it */
	KLOC_NR_WHYS
};

/* What moves the objects of a group. */
enum kloc_mover {
	MOVER_NONE,
	MOVER_STATE, /* active: to fast memory; inactive: to slow memory */
	MOVER_CPU,   /* active: to the node of the CPU that used the knode last */
};

enum kloc_work {
	WORK_NONE,
	WORK_DEMOTE,  /* what is in fast memory leaves it */
	WORK_PROMOTE, /* what is elsewhere comes to fast memory */
	WORK_FOLLOW,  /* what is elsewhere comes to the CPU's node */
	WORK_WAIT,    /* something was busy: look again at the next tick */
	NR_WORKS
};

/* Ours, all of them (ADR-0030). The paper leaves the age to the LRU and has an 8-bit counter. */
#define LIFE_AGE_LIMIT 16u
#define LIFE_PING_PONG 8u /* four there-and-backs */
#define LIFE_FORGIVE 64u  /* four times the age */

struct life_rules {
	u32 age_limit; /* ticks without a use until an open knode is inactive; 0: never */
	u32 ping_pong; /* moves until the counter retains; 1 to 255 */
	u32 forgive;   /* ticks without a use until it begins anew; 0: never */
	u8 mover;      /* enum kloc_mover */
	bool eager;    /* a last close demotes at once (KLOCs s.4.5); else need does */
	bool promote_whole; /* activity promotes all that the knode has */
};

/* Zero but for flags and last_use, then life_begin(). */
struct knode_life {
	u32 nr_opens; /* of a file; a part of one has none of its own */
	u32 last_use; /* tick */
	u32 tried;    /* one more than the tick in which need last took it; 0: never */
	u8 state;     /* enum kloc_state */
	u8 flags;     /* KLOC_MAP_... */
	u8 why;       /* enum kloc_why: it is inactive */
	bool is_doomed; /* unlinked while open */
};

/* What a call has made of a life. */
enum life_change {
	LIFE_SAME,
	LIFE_ACTIVATED,
	LIFE_DEACTIVATED,
	LIFE_CLOSED, /* nobody has it open: the caller must call life_deactivate() */
	LIFE_ENDED   /* the file is gone: the caller must call life_end() */
};

static inline void life_begin(struct knode_life *l)
{
	l->state = KLOC_INACTIVE;
}

/* The state as the file's flags have it, where they have something to say. */
static inline enum kloc_state life_state(const struct knode_life *l)
{
	if (l->state == KLOC_UNLINKED)
		return KLOC_UNLINKED;
	if (l->flags & KLOC_MAP_FAST)
		return KLOC_ACTIVE;
	return l->flags & KLOC_MAP_SLOW ? KLOC_INACTIVE : (enum kloc_state)l->state;
}

/* Somebody uses it, now. is_open: its file is (KL40). SAME or ACTIVATED. */
static inline enum life_change life_use(struct knode_life *l, bool is_open, u32 now)
{
	l->last_use = now;
	if (l->state != KLOC_INACTIVE || !is_open)
		return LIFE_SAME;
	l->state = KLOC_ACTIVE;
	l->why = KLOC_BY_STATE;
	return LIFE_ACTIVATED;
}

/* Opens nest. An open is a use: the caller must call life_use() as well. */
static inline void life_open(struct knode_life *l)
{
	l->nr_opens++;
}

/* A CPU noted a use so many ticks ago. Is it news? Then life_use() must follow. */
static inline bool life_is_news(const struct knode_life *l, u32 now, u32 age)
{
	return now >= age && l->last_use < now - age;
}

/* It becomes inactive, or why it is so changes. SAME or DEACTIVATED. */
static inline enum life_change life_deactivate(struct knode_life *l, enum kloc_why why)
{
	l->why = (u8)why;
	if (l->state != KLOC_ACTIVE)
		return LIFE_SAME;
	l->state = KLOC_INACTIVE;
	return LIFE_DEACTIVATED;
}

/* An open ends. SAME, CLOSED or ENDED. */
static inline enum life_change life_close(struct knode_life *l)
{
	l->nr_opens--;
	if (l->nr_opens > 0)
		return LIFE_SAME;
	if (l->is_doomed)
		return LIFE_ENDED;
	return l->state == KLOC_UNLINKED ? LIFE_SAME : LIFE_CLOSED;
}

/* The file was deleted, or its inode leaves memory. SAME: it lives until its last close. */
static inline enum life_change life_unlink(struct knode_life *l)
{
	if (l->nr_opens == 0)
		return LIFE_ENDED;
	l->is_doomed = true;
	return LIFE_SAME;
}

static inline void life_end(struct knode_life *l)
{
	l->state = KLOC_UNLINKED;
}

/* Is it active, and has nobody used it for too long? Then life_deactivate(KLOC_BY_AGE). */
static inline bool life_is_old(const struct knode_life *l, const struct life_rules *r,
                               u32 now)
{
	return l->state == KLOC_ACTIVE && r->age_limit &&
	       now - l->last_use > r->age_limit;
}

/*
 * May the knode give room in fast memory, where it has some? An active one that was used in this
 * tick or the last one gives it to a limit alone. A caller looks for the oldest.
 */
static inline bool life_may_give(const struct knode_life *l, enum kloc_why why, u32 now)
{
	return l->state != KLOC_ACTIVE || why == KLOC_BY_LIMIT ||
	       now - l->last_use >= 2;
}

/* Is it taken, for that? At most once a tick, and a file that is always fast never. */
static inline bool life_take(struct knode_life *l, u32 now)
{
	if (l->tried == now + 1 || l->flags & KLOC_MAP_FAST)
		return false;
	l->tried = now + 1;
	return true;
}

/*
 * What the knode's state asks of its objects. at_home and elsewhere are their bytes, or pages. Home
 * is fast memory; for MOVER_CPU it is the node of the CPU, and without one both are 0. Work in
 * progress ends when this has another answer (KL41).
 */
static inline enum kloc_work life_work(const struct knode_life *l,
                                       const struct life_rules *r, u64 at_home,
                                       u64 elsewhere)
{
	if (l->state == KLOC_UNLINKED || l->state == KLOC_FREE)
		return WORK_NONE;
	if (r->mover == MOVER_CPU)
		return l->state == KLOC_ACTIVE && elsewhere ? WORK_FOLLOW : WORK_NONE;
	if (r->mover != MOVER_STATE)
		return WORK_NONE;
	if (life_state(l) == KLOC_ACTIVE)
		return r->promote_whole && elsewhere ? WORK_PROMOTE : WORK_NONE;
	if (!at_home)
		return WORK_NONE;
	return r->eager || l->why == KLOC_BY_NEED || l->why == KLOC_BY_LIMIT
	               ? WORK_DEMOTE
	               : WORK_NONE;
}

/* Why the objects move, then. */
static inline enum kloc_why life_why(const struct knode_life *l, enum kloc_work work)
{
	if (work == WORK_DEMOTE)
		return (enum kloc_why)l->why;
	return work == WORK_FOLLOW ? KLOC_BY_USE : KLOC_BY_STATE;
}

/*
 * Shall a new object be in fast memory? NULL: nobody knows yet whose it is. It has just come, so it
 * is hot. true also asks the caller to leave programs the last of fast memory (KLOCs s.4.2.2).
 */
static inline bool life_place(const struct knode_life *l, enum kloc_why *ret_why)
{
	*ret_why = l ? KLOC_BY_STATE : KLOC_BY_USE;
	return !l || life_state(l) == KLOC_ACTIVE;
}

/*
 * The ping-pong counter (KLOCs s.4.5: 8 bits a page). It is an object's, or a knode's where objects
 * have no room for one. It retains what has moved often: that stays in fast memory.
 */
static inline bool life_is_retained(u8 nr_moves, const struct life_rules *r)
{
	return nr_moves >= r->ping_pong;
}

/* One more move, of what is retained or not. true: it is so from now on. */
static inline bool life_moved(u8 *nr_moves, const struct life_rules *r)
{
	if (*nr_moves == 255)
		return false;
	return ++*nr_moves == r->ping_pong;
}

enum life_stay {
	LIFE_GOES,
	LIFE_STAYS,   /* the counter retains it */
	LIFE_FORGIVEN /* it goes: the counter has begun anew */
};

/* Something shall move down, so many ticks after its last use. May it (KL42)? */
static inline enum life_stay life_stay(u8 *nr_moves, const struct life_rules *r,
                                       u32 idle, enum kloc_why why)
{
	if (!life_is_retained(*nr_moves, r) || why == KLOC_BY_LIMIT)
		return LIFE_GOES;
	if (!r->forgive || idle <= r->forgive)
		return LIFE_STAYS;
	*nr_moves = 0;
	return LIFE_FORGIVEN;
}

/* What a look at the marks of an object makes of it, where objects go by an LRU and not by file. */
enum lru_change {
	LRU_SAME,
	LRU_ACTIVATE,
	LRU_DEACTIVATE,
	LRU_PROMOTE,
	LRU_DEMOTE
};

/*
 * is_used: since the last look. Two looks in a row that find it used promote what is in slow
 * memory. Two that do not find it so demote it, where fast memory lacks room.
 */
static inline enum lru_change life_look(bool is_slow, bool is_active, bool is_used,
                                        bool lacks_room)
{
	if (!is_used && is_active)
		return LRU_DEACTIVATE;
	if (!is_used)
		return lacks_room && !is_slow ? LRU_DEMOTE : LRU_SAME;
	if (!is_active)
		return LRU_ACTIVATE;
	return is_slow ? LRU_PROMOTE : LRU_SAME;
}

#endif
