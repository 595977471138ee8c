/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Objects: where a new one is placed, what a use of it does, and how it ends. */
#include "core/kloc/policy.h"

static const struct kloc_ring no_ring;

void kloc_log(struct kloc *k, u32 object, enum kloc_what what, enum kloc_why why,
              u32 from, u32 to)
{
	const struct kloc_object *o = &k->objects[object];
	struct kloc_decision d = { .key = o->key,
		                   .object = object,
		                   .knode = KLOC_NONE,
		                   .what = what,
		                   .why = why,
		                   .kind = o->kind,
		                   .from = from,
		                   .to = to };

	d.number = ++k->stat.decisions;
	if (!k->shape.ops.log)
		return;
	if (o->knode != KLOC_NONE) {
		d.inode = k->lists.names[o->knode].inode;
		d.knode = k->knodes[o->knode].master;
	}
	k->shape.ops.log(k->shape.ops.arg, &d);
}

/* The list that the object's fields name (KL11). */
static u32 *list_head(struct kloc *k, const struct kloc_object *o)
{
	u32 wanted = (u32)o->list - LIST_WANTED;

	switch (o->list) {
	case LIST_KNODE:
		return &k->knodes[o->knode].first[kloc_object_class(o)][o->tier];
	case LIST_LRU: return &k->tiers[o->tier].lru[!!(o->flags & F_ACTIVE)];
	case LIST_FRESH: return &k->fresh;
	case LIST_NONE:
	case LIST_MOVING:
	case LIST_FREE: return NULL;
	default: return &k->wanted[wanted / KLOC_MAX_TIERS][wanted % KLOC_MAX_TIERS];
	}
}

void kloc_object_unlist(struct kloc *k, u32 object)
{
	struct kloc_object *o = &k->objects[object];
	u32 *first = list_head(k, o);
	struct kloc_ring r = first ? RING(k->objects, link) : no_ring;

	if (first)
		kloc_ring_take(r, first, object);
	if (o->list == LIST_LRU) {
		k->tiers[o->tier].nr_lru[!!(o->flags & F_ACTIVE)]--;
		if (k->policy->unlisted)
			k->policy->unlisted(k, object);
	}
	o->list = LIST_NONE;
}

void kloc_object_settle(struct kloc *k, u32 object)
{
	struct kloc_object *o = &k->objects[object];
	u32 *first;

	if (kloc_is_grouped(k, o))
		o->list = o->flags & F_PREFETCHED && k->policy->mover == MOVER_STATE
		                  ? LIST_FRESH
		                  : LIST_KNODE;
	else
		o->list = k->lru_kinds & KLOC_BIT(o->kind) ? LIST_LRU : LIST_NONE;
	first = list_head(k, o);
	if (first)
		kloc_ring_add(RING(k->objects, link), first, object);
	if (o->list != LIST_LRU)
		return;
	k->tiers[o->tier].nr_lru[!!(o->flags & F_ACTIVE)]++;
	if (k->policy->listed)
		k->policy->listed(k, object);
}

static void index_add(struct kloc *k, u32 object)
{
	const struct kloc_object *o = &k->objects[object];

	if (k->object_tree && kloc_is_grouped(k, o))
		tree_insert(k->object_tree, &k->roots[o->knode][kloc_object_class(o)],
		            object, o->key, &k->walks);
}

static void index_remove(struct kloc *k, u32 object)
{
	const struct kloc_object *o = &k->objects[object];

	if (k->object_tree && kloc_is_grouped(k, o))
		tree_remove(k->object_tree, &k->roots[o->knode][kloc_object_class(o)],
		            object, &k->walks);
}

/* Kinds outside the groups stay in fast memory (KLOCs s.7.3). */
static struct kloc_wish wish_of(struct kloc *k, const struct kloc_object *o, u32 cpu)
{
	if (o->kind == KLOC_APP || !k->policy->groups || k->policy->has_nodes ||
	    k->p.kinds & KLOC_BIT(o->kind))
		return k->policy->place(k, o, cpu);
	return (struct kloc_wish){ .tier = KLOC_FAST, .why = KLOC_BY_POLICY };
}

u32 kloc_wished(struct kloc *k, u32 knode, enum kloc_kind kind, u32 cpu,
                bool *ret_follows)
{
	const struct kloc_object o = { .knode = knode, .bytes = 1, .kind = kind & 15 };

	*ret_follows = k->policy->mover != MOVER_NONE && kloc_is_grouped(k, &o);
	return wish_of(k, &o, cpu).tier;
}

/* The tier of a new object. */
static u32 choose_tier(struct kloc *k, const struct kloc_object *o, u32 cpu,
                       enum kloc_why *ret_why)
{
	struct kloc_wish wish = wish_of(k, o, cpu);
	u32 tier;

	*ret_why = wish.why;
	if (kloc_headroom(k, wish.tier) >= o->bytes + wish.spare)
		return wish.tier;
	*ret_why = KLOC_FULL;
	tier = kloc_nearest(k, wish.tier, o->bytes);
	if (tier == KLOC_NO_TIER && kloc_headroom(k, wish.tier) >= o->bytes)
		return wish.tier;
	return tier;
}

int kloc_add(struct kloc *k, const struct kloc_new *new_object, u32 *ret_object,
             u32 *ret_tier)
{
	u32 object = k->free_object, knode, tier;
	struct kloc_object *o;
	struct kloc_link link;
	enum kloc_why why;

	CHECK(new_object->kind < KLOC_NR_KINDS && new_object->bytes > 0 &&
	              new_object->cpu < k->shape.nr_cpus,
	      "kloc_add: what it is given");
	if (object == KLOC_NONE)
		return -ENOSPC;
	knode = kloc_knode_for(k, new_object);
	if (knode != KLOC_NONE)
		kloc_knode_use(k, knode, new_object->cpu, false);
	o = &k->objects[object];
	link = o->link;
	*o = (struct kloc_object){ .key = new_object->key,
		                   .knode = knode,
		                   .bytes = new_object->bytes,
		                   .link = link,
		                   .kind = new_object->kind & 15,
		                   .list = LIST_FREE,
		                   .used = (u8)k->now };
	tier = choose_tier(k, o, new_object->cpu, &why);
	if (tier == KLOC_NO_TIER)
		return -ENOSPC;
	k->free_object = link.next;
	o->tier = tier & 15;
	if (new_object->prefetch) {
		o->flags = F_PREFETCHED;
		k->stat.prefetched++;
	}
	k->tiers[tier].used += o->bytes;
	k->tiers[tier].nr[o->kind]++;
	if (knode != KLOC_NONE) {
		kloc_knode_take_object(k, knode);
		k->knodes[knode].bytes[tier] += o->bytes;
	}
	index_add(k, object);
	kloc_object_settle(k, object);
	k->stat.placed[o->kind][tier]++;
	k->stat.placed_full += why == KLOC_FULL;
	if (++k->stat.nr_objects > k->stat.peak_objects)
		k->stat.peak_objects = k->stat.nr_objects;
	kloc_log(k, object, KLOC_PLACE, why, KLOC_NO_TIER, tier);
	*ret_object = object;
	*ret_tier = tier;
	return 0;
}

void kloc_adopt(struct kloc *k, u32 object, u32 knode, u32 cpu)
{
	struct kloc_object *o = &k->objects[object];
	struct kloc_new as = { .key = o->key, .knode = knode, .kind = o->kind };
	bool is_listed = kloc_is_idle(o);

	CHECK(o->knode == KLOC_NONE && o->list != LIST_FREE && !(o->flags & F_GONE),
	      "kloc_adopt: an object without a knode");
	knode = kloc_knode_for(k, &as);
	kloc_knode_use(k, knode, cpu, false);
	if (is_listed)
		kloc_object_unlist(k, object);
	o->knode = knode;
	o->pass = 0;
	kloc_knode_take_object(k, knode);
	k->knodes[knode].bytes[o->tier] += o->bytes;
	index_add(k, object);
	if (is_listed)
		kloc_object_settle(k, object);
}

void kloc_object_free(struct kloc *k, u32 object)
{
	struct kloc_object *o = &k->objects[object];

	o->list = LIST_FREE;
	o->link.next = k->free_object;
	k->free_object = object;
}

void kloc_remove(struct kloc *k, u32 object)
{
	struct kloc_object *o = &k->objects[object];
	u32 knode = o->knode, tier;
	bool is_moving;

	is_moving = o->list == LIST_MOVING;
	CHECK(o->list != LIST_FREE && !(o->flags & F_GONE), "kloc_remove: an object");
	index_remove(k, object);
	k->stat.nr_objects--;
	k->tiers[o->tier].nr[o->kind]--;
	if (knode != KLOC_NONE)
		k->knodes[knode].bytes[o->tier] -= o->bytes;
	for (tier = 0; tier < k->shape.nr_tiers; tier++)
		if (o->copies >> tier & 1 &&
		    !(is_moving && o->link.next == KLOC_DROP && o->link.prev == tier))
			k->tiers[tier].used -= o->bytes;
	o->copies = 0;
	if (is_moving) {
		/* Its mover still writes to a place that is counted for it (KL3). */
		o->flags |= F_GONE;
		return;
	}
	if (o->list >= LIST_WANTED)
		kloc_unwant(k, object);
	kloc_object_unlist(k, object);
	k->tiers[o->tier].used -= o->bytes;
	kloc_object_free(k, object);
	if (knode != KLOC_NONE)
		kloc_knode_drop_object(k, knode);
}

static void end_prefetch(struct kloc *k, u32 object)
{
	struct kloc_object *o = &k->objects[object];
	bool is_fresh = o->list == LIST_FRESH;

	if (is_fresh)
		kloc_object_unlist(k, object);
	o->flags &= (u8)~F_PREFETCHED;
	if (is_fresh)
		kloc_object_settle(k, object);
}

u32 kloc_touch(struct kloc *k, u32 object, u32 cpu)
{
	struct kloc_object *o = &k->objects[object];
	u32 node = k->cpu_tier[cpu];

	CHECK(o->list != LIST_FREE && !(o->flags & F_GONE), "kloc_touch: an object");
	if (o->flags & F_PREFETCHED) {
		end_prefetch(k, object);
		k->stat.prefetch_used++;
	}
	if (o->knode != KLOC_NONE)
		kloc_knode_use(k, o->knode, cpu, true);
	if (k->policy->touched)
		k->policy->touched(k, object, cpu);
	o->flags |= F_REFERENCED;
	o->used = (u8)k->now;
	return o->copies >> node & 1 ? node : o->tier;
}

bool kloc_prefetch(struct kloc *k, u32 object, u32 cpu)
{
	struct kloc_object *o = &k->objects[object];

	(void)cpu;
	if (o->tier == KLOC_FAST || k->policy->mover != MOVER_STATE ||
	    !kloc_is_grouped(k, o) || !kloc_can_move(k, o) ||
	    kloc_knode_state(k, o->knode) != KLOC_ACTIVE)
		return o->tier == KLOC_FAST;
	if (kloc_is_idle(o))
		kloc_want(k, object, KLOC_PROMOTE, KLOC_FAST, KLOC_BY_USE);
	return true;
}

/* Prefetched objects that nobody asked for are cold, sooner than their knode (KLOCs s.4.4). */
void kloc_object_tick(struct kloc *k)
{
	while (k->fresh != KLOC_NONE) {
		u32 object = k->fresh, to;
		struct kloc_object *o = &k->objects[object];

		if ((u8)(k->now - o->used) <= k->p.prefetch_age)
			return;
		end_prefetch(k, object);
		k->stat.prefetch_cold++;
		to = kloc_nearest(k, KLOC_FAST, o->bytes);
		if (o->tier == KLOC_FAST && kloc_can_move(k, o) && to != KLOC_NO_TIER &&
		    !life_is_retained(o->nr_moves, &k->rules) &&
		    k->knodes[o->knode].life.state != KLOC_UNLINKED)
			kloc_want(k, object, KLOC_DEMOTE, to, KLOC_BY_PREFETCH);
	}
}

bool kloc_object_is_spared(struct kloc *k, u32 object, u32 idle, enum kloc_why why)
{
	struct kloc_object *o = &k->objects[object];

	enum life_stay stay = life_stay(&o->nr_moves, &k->rules, idle, why);

	k->stat.forgiven += stay == LIFE_FORGIVEN;
	if (stay != LIFE_STAYS)
		return false;
	k->stat.kept++;
	kloc_log(k, object, KLOC_KEEP, KLOC_BY_COUNTER, o->tier, o->tier);
	return true;
}

void kloc_object_stat(const struct kloc *k, u32 object, struct kloc_object_stat *ret)
{
	const struct kloc_object *o = &k->objects[object];

	*ret = (struct kloc_object_stat){ .key = o->key,
		                          .kind = o->kind,
		                          .bytes = o->bytes,
		                          .tier = o->tier,
		                          .copies = o->copies,
		                          .nr_moves = o->nr_moves,
		                          .is_moving = o->list == LIST_MOVING };
	ret->knode = o->knode == KLOC_NONE ? KLOC_NONE : k->knodes[o->knode].master;
}
