/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Knodes: their life, who is active, and what their state asks of their objects. The states are in
 * kloc.h, the lists and invariants in state.h.
 */
#include "core/kloc/policy.h"

static struct kloc_ring by_age(const struct kloc *k)
{
	return RING(k->knodes, by_age);
}

static struct kloc_ring by_work(const struct kloc *k)
{
	return RING(k->knodes, by_work);
}

static struct knode *master_of(const struct kloc *k, u32 knode)
{
	return &k->knodes[k->knodes[knode].master];
}

enum kloc_state kloc_knode_state(const struct kloc *k, u32 knode)
{
	return life_state(&k->knodes[knode].life);
}

u32 kloc_knode_home(const struct kloc *k, u32 knode)
{
	u32 cpu = k->knodes[knode].last_cpu;

	return cpu == KLOC_NONE ? KLOC_NO_TIER : k->cpu_tier[cpu];
}

/* Takes the knode out of its work list, and puts it into that of work, for a pass of its own. */
void kloc_knode_work(struct kloc *k, u32 knode, enum kloc_work work)
{
	struct knode *n = &k->knodes[knode];

	if (n->work != WORK_NONE)
		kloc_ring_take(by_work(k), &k->work[n->work], knode);
	n->work = (u8)work;
	n->waits = false;
	if (work == WORK_NONE)
		return;
	kloc_ring_add(by_work(k), &k->work[work], knode);
	n->pass = n->pass == 255 ? 1 : n->pass + 1;
}

/* What the knode's state asks for. */
static enum kloc_work work_of(const struct kloc *k, u32 knode)
{
	const struct knode *n = &k->knodes[knode];
	u32 home = k->rules.mover == MOVER_CPU ? kloc_knode_home(k, knode) : KLOC_FAST;
	u64 elsewhere = 0;
	u32 tier;

	if (home == KLOC_NO_TIER)
		return WORK_NONE;
	for (tier = 0; tier < KLOC_MAX_TIERS; tier++)
		elsewhere += tier == home ? 0 : n->bytes[tier];
	return life_work(&n->life, &k->rules, n->bytes[home], elsewhere);
}

void kloc_knode_plan(struct kloc *k, u32 knode)
{
	kloc_knode_work(k, knode, work_of(k, knode));
}

bool kloc_knode_misplaces(const struct kloc *k, const struct kloc_object *o)
{
	if (!kloc_is_grouped(k, o) || !kloc_can_move(k, o))
		return false;
	switch (work_of(k, o->knode)) {
	case WORK_DEMOTE: return o->tier == KLOC_FAST;
	case WORK_PROMOTE:
		return o->tier != KLOC_FAST &&
		       (kloc_object_class(o) == KLOC_LARGE || k->p.promote_small);
	case WORK_FOLLOW: return o->tier != kloc_knode_home(k, o->knode);
	default: return false;
	}
}

/* The knode's life has changed, or it was used: it is the last one of its state now. */
static void list_by_age(struct kloc *k, u32 knode, u32 was)
{
	u32 state = k->knodes[knode].life.state;

	if (was != KLOC_FREE)
		kloc_ring_take(by_age(k), &k->ages[was], knode);
	if (state != KLOC_FREE)
		kloc_ring_add(by_age(k), &k->ages[state], knode);
}

void kloc_knode_deactivate(struct kloc *k, u32 knode, enum kloc_why why)
{
	struct knode *n = &k->knodes[knode];
	u32 was = n->life.state;

	if (life_deactivate(&n->life, why) == LIFE_SAME)
		return;
	list_by_age(k, knode, was);
	if (why != KLOC_BY_STATE)
		k->stat.aged++;
	kloc_knode_plan(k, knode);
}

/* Notes the use in cpu's list; a miss costs the paper's walk. */
static void list_use(struct kloc *k, u32 knode, u32 cpu)
{
	enum knode_found found =
		knode_list_use(&k->lists, cpu, knode_list_token(&k->lists, knode));

	if (found == KNODE_HIT) {
		k->stat.list_hits++;
		return;
	}
	k->stat.list_misses++;
	k->stat.list_stale += found == KNODE_STALE;
	kloc_kmap_walk(k, knode);
}

/* Ages are in order, because this comes last (KL17). */
static void refresh(struct kloc *k, u32 knode)
{
	struct knode *n = &k->knodes[knode];
	bool is_open = master_of(k, knode)->life.nr_opens > 0;
	u32 was = n->life.state;
	bool is_new = life_use(&n->life, is_open, k->now) == LIFE_ACTIVATED;

	list_by_age(k, knode, was);
	if (!is_new)
		return;
	k->stat.activated++;
	kloc_knode_plan(k, knode);
}

static void use_one(struct kloc *k, u32 knode, u32 cpu, bool is_touch)
{
	struct knode *n = &k->knodes[knode];
	u32 home = kloc_knode_home(k, knode);

	/* An interrupt adds objects on any CPU: only a user's CPU is where the file is used. */
	if (is_touch || n->last_cpu == KLOC_NONE)
		n->last_cpu = cpu;
	refresh(k, knode);
	if (k->policy->mover == MOVER_CPU && kloc_knode_home(k, knode) != home)
		kloc_knode_plan(k, knode);
}

void kloc_knode_use(struct kloc *k, u32 knode, u32 cpu, bool is_touch)
{
	const struct knode *n = &k->knodes[knode];

	CHECK(knode < k->shape.nr_knodes && n->life.state != KLOC_FREE &&
	              cpu < k->shape.nr_cpus,
	      "a knode in use, and a CPU");
	/* Its generation has been raised: an entry made now would seem alive (KL21). */
	if (n->life.state == KLOC_UNLINKED)
		return;
	list_use(k, knode, cpu);
	use_one(k, knode, cpu, is_touch);
	if (n->master != knode)
		use_one(k, n->master, cpu, is_touch);
}

/* Charges a knode to its tier, or to the next one (KLOCs s.4.2.2: always to fast memory). */
static bool charge(struct kloc *k, struct knode *n)
{
	u64 bytes = sizeof(struct knode) + sizeof(struct knode_name);
	u32 tier = k->p.knode_tier;

	n->charged = KLOC_NO_TIER;
	if (tier == KLOC_NO_TIER || !k->policy->groups)
		return true;
	if (kloc_headroom(k, tier) < bytes)
		tier = kloc_nearest(k, tier, bytes);
	if (tier == KLOC_NO_TIER)
		return false;
	n->charged = (u8)tier;
	k->tiers[tier].used += bytes;
	return true;
}

/* KLOC_NONE: no knode is free, or no room for one. master KLOC_NONE: it is one. */
static u32 make(struct kloc *k, u64 inode, u32 flags, u32 master, u32 segment)
{
	u32 knode = k->free_knode, next, class_, tier;
	struct knode *n = &k->knodes[knode];
	u8 pass;

	if (knode == KLOC_NONE)
		return KLOC_NONE;
	next = n->chain;
	pass = n->pass;
	*n = (struct knode){ .life = { .last_use = k->now, .flags = (u8)flags },
		             .last_cpu = KLOC_NONE,
		             .segment = segment,
		             .next_segment = KLOC_NONE,
		             .pass = pass,
		             .chain = next };
	for (class_ = 0; class_ < KLOC_NR_CLASSES; class_++)
		for (tier = 0; tier < KLOC_MAX_TIERS; tier++)
			n->first[class_][tier] = KLOC_NONE;
	n->master = master == KLOC_NONE ? knode : master;
	if (!charge(k, n))
		return KLOC_NONE;
	k->free_knode = next;
	if (k->roots)
		k->roots[knode][0] = k->roots[knode][1] = TREE_NONE;
	kloc_kmap_add(k, knode, inode);
	life_begin(&n->life);
	list_by_age(k, knode, KLOC_FREE);
	if (master != KLOC_NONE) {
		n->next_segment = k->knodes[master].next_segment;
		k->knodes[master].next_segment = knode;
	}
	if (++k->stat.nr_knodes > k->stat.peak_knodes)
		k->stat.peak_knodes = k->stat.nr_knodes;
	return knode;
}

int kloc_map(struct kloc *k, u64 inode, u32 flags, u32 *ret_knode)
{
	u32 knode = kloc_kmap_find(k, inode, 0);

	CHECK(inode != 0, "kloc_map: an inode");
	if (knode == KLOC_NONE)
		knode = make(k, inode, flags, KLOC_NONE, 0);
	if (knode == KLOC_NONE)
		return -ENOSPC;
	*ret_knode = knode;
	return 0;
}

u32 kloc_knode_for(struct kloc *k, const struct kloc_new *new_object)
{
	u32 knode = new_object->knode, segment, found;
	u64 inode;

	if (knode == KLOC_NONE || !k->p.segment_bytes || new_object->kind > KLOC_HOLD)
		return knode;
	segment = (u32)(new_object->key / k->p.segment_bytes);
	if (!segment)
		return knode;
	inode = k->lists.names[knode].inode;
	found = kloc_kmap_find(k, inode, segment);
	if (found == KLOC_NONE)
		found = make(k, inode, k->knodes[knode].life.flags, knode, segment);
	return found == KLOC_NONE ? knode : found;
}

void kloc_knode_take_object(struct kloc *k, u32 knode)
{
	k->knodes[knode].nr_objects++;
	if (k->knodes[knode].master != knode)
		master_of(k, knode)->nr_objects++;
}

static void free_one(struct kloc *k, u32 knode)
{
	struct knode *n = &k->knodes[knode];
	u32 was = n->life.state;

	kloc_knode_work(k, knode, WORK_NONE);
	n->life.state = KLOC_FREE;
	list_by_age(k, knode, was);
	if (n->charged != KLOC_NO_TIER)
		k->tiers[n->charged].used -=
			sizeof(struct knode) + sizeof(struct knode_name);
	n->chain = k->free_knode;
	k->free_knode = knode;
	k->stat.nr_knodes--;
}

static void free_if_empty(struct kloc *k, u32 knode)
{
	struct knode *n = &k->knodes[knode];
	u32 next;

	if (n->life.state != KLOC_UNLINKED || n->nr_objects > 0)
		return;
	for (; knode != KLOC_NONE; knode = next) {
		next = k->knodes[knode].next_segment;
		free_one(k, knode);
	}
}

void kloc_knode_drop_object(struct kloc *k, u32 knode)
{
	u32 master = k->knodes[knode].master;

	k->knodes[knode].nr_objects--;
	if (master != knode)
		k->knodes[master].nr_objects--;
	free_if_empty(k, master);
}

void kloc_open(struct kloc *k, u32 knode, u32 cpu)
{
	struct knode *n = &k->knodes[knode];

	CHECK(n->life.state != KLOC_UNLINKED && n->master == knode,
	      "kloc_open: a file's knode");
	life_open(&n->life);
	kloc_knode_use(k, knode, cpu, true);
}

/* The file is gone: nothing of it may be found, or move, any more. */
static void unlink_all(struct kloc *k, u32 master)
{
	u32 knode, was;

	for (knode = master; knode != KLOC_NONE;
	     knode = k->knodes[knode].next_segment) {
		kloc_knode_work(k, knode, WORK_NONE);
		kloc_kmap_remove(k, knode);
		was = k->knodes[knode].life.state;
		life_end(&k->knodes[knode].life);
		list_by_age(k, knode, was);
	}
	k->stat.unlinked++;
	free_if_empty(k, master);
}

void kloc_close(struct kloc *k, u32 knode, u32 cpu)
{
	struct knode *n = &k->knodes[knode];

	CHECK(n->life.nr_opens > 0, "kloc_close: an open knode");
	list_use(k, knode, cpu);
	switch (life_close(&n->life)) {
	case LIFE_ENDED: unlink_all(k, knode); return;
	case LIFE_CLOSED: break;
	default: free_if_empty(k, knode); return;
	}
	k->stat.closed++;
	for (; knode != KLOC_NONE; knode = k->knodes[knode].next_segment)
		kloc_knode_deactivate(k, knode, KLOC_BY_STATE);
}

void kloc_unlink(struct kloc *k, u32 knode, u32 cpu)
{
	struct knode *n = &k->knodes[knode];

	CHECK(n->life.state != KLOC_FREE && n->life.state != KLOC_UNLINKED &&
	              n->master == knode,
	      "kloc_unlink: a file's knode");
	list_use(k, knode, cpu);
	if (life_unlink(&n->life) == LIFE_ENDED)
		unlink_all(k, knode);
}

/* What CPUs noted by themselves. A use that the manager saw already changes nothing, and one whose
 * store came late counts now (KL24). */
static void collect(struct kloc *k)
{
	u32 cpu, i, age, knode;

	for (cpu = 0; cpu < k->shape.nr_cpus; cpu++)
		for (i = 0; i < k->lists.length; i++) {
			knode = knode_list_collect(&k->lists, cpu, i, &age);
			if (knode == KLOC_NONE ||
			    !life_is_news(&k->knodes[knode].life, k->now, age))
				continue;
			k->knodes[knode].last_cpu = cpu;
			refresh(k, knode);
		}
}

void kloc_knode_age(struct kloc *k)
{
	u32 knode;

	collect(k);
	k->now++;
	knode_list_tick(&k->lists);
	while ((knode = k->ages[KLOC_ACTIVE]) != KLOC_NONE &&
	       life_is_old(&k->knodes[knode].life, &k->rules, k->now))
		kloc_knode_deactivate(k, knode, KLOC_BY_AGE);
	while ((knode = k->work[WORK_WAIT]) != KLOC_NONE)
		kloc_knode_plan(k, knode);
	/* A file too large for the room that there is must not keep others waiting. */
	if (k->promote_bytes && k->work[WORK_PROMOTE] != KLOC_NONE)
		k->work[WORK_PROMOTE] =
			kloc_ring_next(by_work(k), KLOC_NONE, k->work[WORK_PROMOTE]);
	k->promote_bytes = 0;
}

void kloc_task_moved(struct kloc *k, u32 from_cpu, u32 to_cpu)
{
	u32 i, age, knode;

	for (i = 0; i < k->lists.length; i++) {
		knode = knode_list_collect(&k->lists, from_cpu, i, &age);
		if (knode == KLOC_NONE || k->knodes[knode].last_cpu != from_cpu)
			continue;
		k->knodes[knode].last_cpu = to_cpu;
		if (k->policy->mover == MOVER_CPU)
			kloc_knode_plan(k, knode);
	}
}

u32 kloc_next_object(const struct kloc *k, u32 knode, enum kloc_class class_,
                     u32 object)
{
	u32 tier = 0, next;

	if (object != KLOC_NONE) {
		knode = k->objects[object].knode;
		tier = k->objects[object].tier;
		next = kloc_ring_next(RING(k->objects, link),
		                      k->knodes[knode].first[class_][tier], object);
		if (next != KLOC_NONE)
			return next;
		tier++;
	}
	for (; knode != KLOC_NONE; knode = k->knodes[knode].next_segment, tier = 0)
		for (; tier < k->shape.nr_tiers; tier++)
			if (k->knodes[knode].first[class_][tier] != KLOC_NONE)
				return k->knodes[knode].first[class_][tier];
	return KLOC_NONE;
}

u32 kloc_next_coldest(const struct kloc *k, u32 knode)
{
	return kloc_ring_next(by_age(k), k->ages[KLOC_ACTIVE], knode);
}

u32 kloc_last_cpu(const struct kloc *k, u32 knode)
{
	return k->knodes[knode].last_cpu;
}

bool kloc_next_knode(const struct kloc *k, u32 *knode, struct kloc_knode_stat *ret)
{
	u32 i = *knode == KLOC_NONE ? 0 : *knode + 1, one, tier;
	const struct knode *n;

	while (i < k->shape.nr_knodes &&
	       (k->knodes[i].life.state == KLOC_FREE || k->knodes[i].master != i))
		i++;
	if (i == k->shape.nr_knodes)
		return false;
	n = &k->knodes[i];
	*ret = (struct kloc_knode_stat){ .inode = k->lists.names[i].inode,
		                         .nr_objects = n->nr_objects,
		                         .nr_opens = n->life.nr_opens,
		                         .state = n->life.state,
		                         .why = n->life.why,
		                         .age = k->now - n->life.last_use,
		                         .flags = n->life.flags };
	for (one = i; one != KLOC_NONE; one = k->knodes[one].next_segment) {
		ret->nr_segments++;
		for (tier = 0; tier < KLOC_MAX_TIERS; tier++)
			ret->bytes[tier] += k->knodes[one].bytes[tier];
	}
	*knode = i;
	return true;
}
