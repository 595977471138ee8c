/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Moves: what leaves a tier goes first, then what comes to one. A caller takes them one by one,
 * and an object is in one move at most (KL3).
 */
#include "core/kloc/policy.h"

static bool leaves(u32 what)
{
	return what == KLOC_DEMOTE || what == KLOC_PROMOTE || what == KLOC_FOLLOW;
}

void kloc_want(struct kloc *k, u32 object, enum kloc_what what, u32 to,
               enum kloc_why why)
{
	struct kloc_object *o = &k->objects[object];

	kloc_object_unlist(k, object);
	o->list = (u8)(LIST_WANTED + what * KLOC_MAX_TIERS + to);
	o->why = why & 15;
	kloc_ring_add(RING(k->objects, link), &k->wanted[what][to], object);
	if (leaves(what))
		k->tiers[o->tier].leaving += o->bytes;
}

/* From WANTED to no list. */
static void unwant(struct kloc *k, u32 object)
{
	struct kloc_object *o = &k->objects[object];
	u32 what = ((u32)o->list - LIST_WANTED) / KLOC_MAX_TIERS;

	kloc_object_unlist(k, object);
	if (leaves(what))
		k->tiers[o->tier].leaving -= o->bytes;
}

void kloc_unwant(struct kloc *k, u32 object)
{
	unwant(k, object);
	kloc_object_settle(k, object);
}

void kloc_unwant_all(struct kloc *k)
{
	u32 what, to;

	for (what = 0; what < KLOC_NR_WHATS; what++)
		for (to = 0; to < KLOC_MAX_TIERS; to++)
			while (k->wanted[what][to] != KLOC_NONE)
				kloc_unwant(k, k->wanted[what][to]);
}

/* Does it still make sense, now that its turn has come? */
static bool is_still_wanted(const struct kloc *k, const struct kloc_object *o, u32 what)
{
	if (o->knode == KLOC_NONE || !kloc_is_grouped(k, o))
		return true;
	if (k->knodes[o->knode].life.state == KLOC_UNLINKED)
		return false;
	return what != KLOC_PROMOTE || k->policy->mover != MOVER_STATE ||
	       kloc_knode_state(k, o->knode) == KLOC_ACTIVE;
}

/* The object is on no list now. */
static void hand_out(struct kloc *k, u32 object, struct kloc_move m,
                     struct kloc_move *ret_move)
{
	struct kloc_object *o = &k->objects[object];

	m.object = object;
	o->list = LIST_MOVING;
	o->link.next = m.what;
	o->link.prev = m.to;
	o->why = m.why & 15;
	if (leaves(m.what))
		k->tiers[o->tier].leaving += o->bytes;
	if (m.what == KLOC_DROP)
		o->link.prev = m.from;
	else
		k->tiers[m.to].used += o->bytes; /* KL2 */
	k->stat.in_flight++;
	kloc_log(k, object, (enum kloc_what)m.what, (enum kloc_why)m.why, m.from, m.to);
	*ret_move = m;
}

/* Is there room for the object's bytes? What only makes things faster leaves some free. */
static bool has_room(struct kloc *k, const struct kloc_object *o, u32 what, u32 to)
{
	u64 spare = 0;

	if (what == KLOC_DROP)
		return true;
	if (what == KLOC_PROMOTE || what == KLOC_COPY)
		spare = kloc_watermark(k, to, k->p.high_permille);
	return kloc_headroom(k, to) >= o->bytes + spare;
}

/* The first object that a policy wants to move there. */
static bool take_wanted(struct kloc *k, u32 what, u32 to, struct kloc_move *ret_move)
{
	while (k->wanted[what][to] != KLOC_NONE) {
		u32 object = k->wanted[what][to];
		struct kloc_object *o = &k->objects[object];
		struct kloc_move m = {
			.what = what, .why = o->why, .from = o->tier, .to = to
		};

		if (!is_still_wanted(k, o, what) || (leaves(what) && o->tier == to)) {
			kloc_unwant(k, object);
			continue;
		}
		if (!has_room(k, o, what, to)) {
			if (what == KLOC_PROMOTE) {
				k->promote_bytes = o->bytes;
				return false;
			}
			kloc_log(k, object, KLOC_KEEP, KLOC_FULL, o->tier, to);
			kloc_unwant(k, object);
			continue;
		}
		if (what == KLOC_DROP)
			m.from = to;
		unwant(k, object);
		hand_out(k, object, m, ret_move);
		return true;
	}
	return false;
}

/* The next object of the knode's pass in one of its lists; KLOC_NONE: the list is done. */
static u32 next_in_list(struct kloc *k, struct knode *n, u32 *first)
{
	struct kloc_ring r = RING(k->objects, link);
	u32 idle = k->now - n->life.last_use;

	while (*first != KLOC_NONE) {
		struct kloc_object *o = &k->objects[*first];

		if (o->pass == n->pass)
			return KLOC_NONE;
		if (kloc_can_move(k, o) &&
		    (n->work == WORK_PROMOTE ||
		     !kloc_object_is_spared(k, *first, idle,
		                            (enum kloc_why)n->life.why)))
			return *first;
		o->pass = n->pass;
		*first = kloc_ring_next(r, KLOC_NONE, *first);
	}
	return KLOC_NONE;
}

static u32 next_of_knode(struct kloc *k, u32 knode)
{
	struct knode *n = &k->knodes[knode];
	u32 home = n->work == WORK_FOLLOW ? kloc_knode_home(k, knode) : KLOC_FAST;
	u32 class_, tier, object;

	for (class_ = 0; class_ < KLOC_NR_CLASSES; class_++) {
		if (n->work == WORK_PROMOTE && class_ == KLOC_SMALL &&
		    !k->p.promote_small)
			continue;
		for (tier = 0; tier < k->shape.nr_tiers; tier++) {
			if ((tier == home) != (n->work == WORK_DEMOTE))
				continue;
			object = next_in_list(k, n, &n->first[class_][tier]);
			if (object != KLOC_NONE)
				return object;
		}
	}
	return KLOC_NONE;
}

/* The next object of the knodes that wait for this work: a pass each, one after the other. */
static bool take_work(struct kloc *k, enum kloc_work work, struct kloc_move *ret_move)
{
	static const u8 what_of[NR_WORKS] = { [WORK_DEMOTE] = KLOC_DEMOTE,
		                              [WORK_PROMOTE] = KLOC_PROMOTE,
		                              [WORK_FOLLOW] = KLOC_FOLLOW };

	while (k->work[work] != KLOC_NONE) {
		u32 knode = k->work[work], object = next_of_knode(k, knode);
		struct knode *n = &k->knodes[knode];
		struct kloc_move m = { .what = what_of[work],
			               .why = life_why(&n->life, work) };
		struct kloc_object *o;

		if (object == KLOC_NONE) {
			kloc_knode_work(k, knode, n->waits ? WORK_WAIT : WORK_NONE);
			continue;
		}
		o = &k->objects[object];
		m.from = o->tier;
		m.to = work == WORK_PROMOTE  ? KLOC_FAST
		       : work == WORK_FOLLOW ? kloc_knode_home(k, knode)
		                             : kloc_nearest(k, o->tier, o->bytes);
		if (m.to == KLOC_NO_TIER || !has_room(k, o, m.what, m.to)) {
			if (work == WORK_PROMOTE) {
				k->promote_bytes = o->bytes;
				return false;
			}
			kloc_log(k, object, KLOC_KEEP, KLOC_FULL, o->tier, m.to);
			kloc_knode_work(k, knode, WORK_WAIT);
			continue;
		}
		kloc_object_unlist(k, object);
		hand_out(k, object, m, ret_move);
		return true;
	}
	return false;
}

static bool take_wanted_anywhere(struct kloc *k, u32 what, struct kloc_move *ret_move)
{
	u32 to;

	for (to = 0; to < k->shape.nr_tiers; to++)
		if (take_wanted(k, what, to, ret_move))
			return true;
	return false;
}

static bool take_leaving(struct kloc *k, struct kloc_move *ret_move)
{
	return take_wanted_anywhere(k, KLOC_DROP, ret_move) ||
	       take_wanted_anywhere(k, KLOC_DEMOTE, ret_move) ||
	       take_work(k, WORK_DEMOTE, ret_move);
}

static bool take_coming(struct kloc *k, struct kloc_move *ret_move)
{
	return take_wanted_anywhere(k, KLOC_FOLLOW, ret_move) ||
	       take_work(k, WORK_FOLLOW, ret_move) ||
	       take_wanted_anywhere(k, KLOC_PROMOTE, ret_move) ||
	       take_work(k, WORK_PROMOTE, ret_move) ||
	       take_wanted_anywhere(k, KLOC_COPY, ret_move);
}

bool kloc_next(struct kloc *k, struct kloc_move *ret_move)
{
	bool was_blocked;

	if (k->stat.in_flight >= k->p.max_in_flight)
		return false;
	/* A turn that goes on has found a knode or an object that can give room. A policy takes
	 * each of them once a tick. */
	for (;;) {
		if (take_leaving(k, ret_move))
			return true;
		if (kloc_relieve(k))
			continue;
		was_blocked = k->promote_bytes > 0;
		if (take_coming(k, ret_move)) {
			k->promote_bytes = 0;
			return true;
		}
		if (was_blocked || !k->promote_bytes)
			return false;
	}
}

/* The bytes have come: the object is where it went. */
static void arrive(struct kloc *k, u32 object, u32 what, u32 to)
{
	struct kloc_object *o = &k->objects[object];
	u32 from = o->tier;

	k->stat.moved[o->kind][what]++;
	k->stat.moved_bytes[what] += o->bytes;
	if (what == KLOC_COPY) {
		o->copies |= (u8)(1u << to);
		return;
	}
	if (what == KLOC_DROP) {
		o->copies &= (u8) ~(1u << to);
		k->tiers[to].used -= o->bytes;
		return;
	}
	k->tiers[from].used -= o->bytes;
	if (o->knode != KLOC_NONE) {
		k->knodes[o->knode].bytes[from] -= o->bytes;
		k->knodes[o->knode].bytes[to] += o->bytes;
	}
	k->tiers[from].nr[o->kind]--;
	k->tiers[to].nr[o->kind]++;
	o->tier = to & 15;
	o->flags &= (u8)~F_ACTIVE;
	k->stat.retained += life_moved(&o->nr_moves, &k->rules);
}

/* Nothing has changed but that somebody tried. */
static void come_back(struct kloc *k, u32 object, u32 what, u32 to,
                      enum kloc_result result)
{
	struct kloc_object *o = &k->objects[object];

	if (what != KLOC_DROP)
		k->tiers[to].used -= o->bytes;
	k->stat.busy += result == KLOC_BUSY;
	k->stat.no_room += result == KLOC_NO_ROOM;
	kloc_log(k, object, KLOC_KEEP, result == KLOC_BUSY ? KLOC_WAS_BUSY : KLOC_FULL,
	         o->tier, to);
}

/* It was removed while it moved: both of its places are free now. */
static void end_gone(struct kloc *k, u32 object, u32 to)
{
	struct kloc_object *o = &k->objects[object];
	u32 knode = o->knode;

	k->stat.abandoned++;
	k->tiers[to].used -= o->bytes; /* of DROP: the copy's */
	k->tiers[o->tier].used -= o->bytes;
	kloc_object_free(k, object);
	if (knode != KLOC_NONE)
		kloc_knode_drop_object(k, knode);
}

/* A knode that has this object where its state does not want it gets another pass. */
static void look_again(struct kloc *k, const struct kloc_object *o, bool is_back)
{
	struct knode *n = o->knode == KLOC_NONE ? NULL : &k->knodes[o->knode];

	if (!n || !kloc_knode_misplaces(k, o) || o->why == KLOC_BY_PREFETCH ||
	    (life_is_retained(o->nr_moves, &k->rules) &&
	     kloc_knode_state(k, o->knode) != KLOC_ACTIVE))
		return;
	if (is_back && n->work != WORK_NONE)
		n->waits = true;
	else if (is_back)
		kloc_knode_work(k, o->knode, WORK_WAIT);
	else if (n->work == WORK_NONE)
		kloc_knode_plan(k, o->knode);
}

void kloc_moved(struct kloc *k, u32 object, enum kloc_result result)
{
	struct kloc_object *o = &k->objects[object];
	u32 what = o->link.next, to = o->link.prev;
	bool is_back = result != KLOC_MOVED;

	CHECK(o->list == LIST_MOVING, "KL3: a move ends once");
	k->stat.in_flight--;
	if (leaves(what))
		k->tiers[o->tier].leaving -= o->bytes;
	if (o->flags & F_GONE) {
		end_gone(k, object, to);
		return;
	}
	if (is_back)
		come_back(k, object, what, to, result);
	else
		arrive(k, object, what, to);
	kloc_object_settle(k, object);
	if (is_back && o->list == LIST_KNODE)
		o->pass = k->knodes[o->knode].pass;
	else if (is_back)
		o->pass =
			(u8)(k->now % 255 + 1); /* the LRU's: not again in this tick */
	look_again(k, o, is_back);
}
