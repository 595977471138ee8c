/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Asserts the invariants KL10 to KL17, which stand in state.h. */
#include "core/kloc/policy.h"

static bool is_live(const struct kloc_object *o)
{
	return o->list != LIST_FREE && !(o->flags & F_GONE);
}

/* The bytes that an object takes in a tier, with its copies and its move. */
static u64 bytes_in(const struct kloc_object *o, u32 tier)
{
	u64 times = 0;

	if (o->list == LIST_FREE)
		return 0;
	times += o->tier == tier;
	times += o->copies >> tier & 1;
	if (o->list == LIST_MOVING && o->link.prev == tier &&
	    (o->link.next != KLOC_DROP || o->flags & F_GONE))
		times++;
	return times * o->bytes;
}

static bool is_leaving(const struct kloc_object *o)
{
	u32 what = o->link.next;

	if (o->list >= LIST_WANTED)
		what = ((u32)o->list - LIST_WANTED) / KLOC_MAX_TIERS;
	else if (o->list != LIST_MOVING)
		return false;
	return what == KLOC_DEMOTE || what == KLOC_PROMOTE || what == KLOC_FOLLOW;
}

static void check_tier(const struct kloc *k, u32 tier)
{
	const struct kloc_tier *t = &k->tiers[tier];
	u64 used = 0, leaving = 0, nr[KLOC_NR_KINDS] = { 0 };
	u32 i;

	for (i = 0; i < k->shape.nr_objects; i++) {
		const struct kloc_object *o = &k->objects[i];

		used += bytes_in(o, tier);
		if (o->tier == tier && is_leaving(o))
			leaving += o->bytes;
		nr[o->kind] += o->tier == tier && is_live(o);
	}
	for (i = 0; i < KLOC_NR_KINDS; i++)
		CHECK(t->nr[i] == nr[i], "KL10: nr by kind");
	for (i = 0; i < k->shape.nr_knodes; i++)
		if (k->knodes[i].life.state != KLOC_FREE &&
		    k->knodes[i].charged == tier)
			used += sizeof(struct knode) + sizeof(struct knode_name);
	CHECK(t->used == used, "KL10: used is what is there");
	CHECK(t->leaving == leaving, "KL14: leaving is what leaves");
	CHECK(t->used <= t->limit || t->limit < t->capacity || k->policy->is_unbounded,
	      "KL2: no more than the limit");
}

/* Follows a list, asserts that it holds the right objects, and returns how many. */
static u32 check_list(const struct kloc *k, u32 first, u32 list, u32 tier)
{
	struct kloc_ring r = RING(k->objects, link);
	u32 i, nr = 0;

	for (i = first; i != KLOC_NONE; i = kloc_ring_next(r, first, i)) {
		CHECK(kloc_link_of(r, kloc_link_of(r, i)->next)->prev == i,
		      "KL11: links agree");
		CHECK(k->objects[i].list == list, "KL11: an object is where it says");
		CHECK(tier == KLOC_NO_TIER || k->objects[i].tier == tier,
		      "KL11: in a list of its tier");
		CHECK(++nr <= k->shape.nr_objects, "KL11: a list ends");
	}
	return nr;
}

/* Each list that there is; together they hold as many as say so. */
static void check_lists(const struct kloc *k)
{
	u32 listed = check_list(k, k->fresh, LIST_FRESH, KLOC_NO_TIER), said = 0;
	u32 i, what, tier, class_, active;

	for (tier = 0; tier < KLOC_MAX_TIERS; tier++) {
		for (active = 0; active < 2; active++) {
			u32 nr = check_list(k, k->tiers[tier].lru[active], LIST_LRU,
			                    tier);

			CHECK(nr == k->tiers[tier].nr_lru[active], "KL11: nr_lru");
			listed += nr;
		}
		for (what = 0; what < KLOC_NR_WHATS; what++)
			listed += check_list(k, k->wanted[what][tier],
			                     LIST_WANTED + what * KLOC_MAX_TIERS + tier,
			                     KLOC_NO_TIER);
		for (i = 0; i < k->shape.nr_knodes; i++)
			for (class_ = 0; class_ < KLOC_NR_CLASSES &&
			                 k->knodes[i].life.state != KLOC_FREE;
			     class_++)
				listed +=
					check_list(k, k->knodes[i].first[class_][tier],
				                   LIST_KNODE, tier);
	}
	for (i = 0; i < k->shape.nr_objects; i++) {
		u32 list = k->objects[i].list;

		said += list != LIST_FREE && list != LIST_MOVING && list != LIST_NONE;
	}
	CHECK(listed == said, "KL11: all that are listed are on a list");
}

static void check_knode_objects(const struct kloc *k)
{
	u32 i, knode, nr;

	for (knode = 0; knode < k->shape.nr_knodes; knode++) {
		const struct knode *n = &k->knodes[knode];
		u64 bytes[KLOC_MAX_TIERS] = { 0 };

		if (n->life.state == KLOC_FREE)
			continue;
		for (i = nr = 0; i < k->shape.nr_objects; i++) {
			const struct kloc_object *o = &k->objects[i];

			if (o->list == LIST_FREE || o->knode == KLOC_NONE)
				continue;
			CHECK(k->knodes[o->knode].life.state != KLOC_FREE,
			      "KL3: an object's knode lives");
			nr += o->knode == knode || k->knodes[o->knode].master == knode;
			if (o->knode == knode && is_live(o))
				bytes[o->tier] += o->bytes;
		}
		CHECK(nr == n->nr_objects, "KL12: nr_objects");
		for (i = 0; i < KLOC_MAX_TIERS; i++)
			CHECK(bytes[i] == n->bytes[i], "KL12: bytes by tier");
	}
}

static void check_knode(const struct kloc *k, u32 knode)
{
	const struct knode *n = &k->knodes[knode];
	const struct knode *master = &k->knodes[n->master];
	enum kloc_state state = kloc_knode_state(k, knode);
	u32 i, nr;

	CHECK(n->work != WORK_DEMOTE || state == KLOC_INACTIVE, "KL13: inactive");
	CHECK(n->work != WORK_PROMOTE || state == KLOC_ACTIVE, "KL13: active");
	CHECK(n->work != WORK_FOLLOW || n->life.state == KLOC_ACTIVE, "KL13: follows");
	CHECK(n->life.state != KLOC_UNLINKED || n->work == WORK_NONE, "KL13: unlinked");
	CHECK(n->life.state != KLOC_UNLINKED || !n->life.nr_opens, "KL13: ended");
	CHECK(n->life.state != KLOC_ACTIVE || master->life.nr_opens > 0, "KL13: open");
	CHECK(master->master == n->master && master->life.state != KLOC_FREE,
	      "KL16: a master is none's segment");
	for (i = n->master, nr = 0; i != knode; i = k->knodes[i].next_segment)
		CHECK(i != KLOC_NONE && ++nr <= k->shape.nr_knodes, "KL16: its chain");
}

static void check_kmap(const struct kloc *k)
{
	u32 bucket, knode, nr = 0, live = 0, masters = 0;

	for (bucket = 0; bucket < k->nr_buckets; bucket++)
		for (knode = k->buckets[bucket]; knode != KLOC_NONE;
		     knode = k->knodes[knode].chain) {
			CHECK(k->knodes[knode].life.state == KLOC_INACTIVE ||
			              k->knodes[knode].life.state == KLOC_ACTIVE,
			      "KL15: only files that are there");
			CHECK(++nr <= k->shape.nr_knodes, "KL15: a chain ends");
		}
	for (knode = 0; knode < k->shape.nr_knodes; knode++) {
		bool is_there = k->knodes[knode].life.state == KLOC_INACTIVE ||
		                k->knodes[knode].life.state == KLOC_ACTIVE;

		live += is_there;
		masters += is_there && k->knodes[knode].master == knode;
	}
	CHECK(nr == live, "KL15: each file's knode is found");
	if (k->knode_tree)
		CHECK(tree_check(k->knode_tree, k->kmap_root) == masters,
		      "KL15: the kmap's tree has each file");
}

static void check_trees(const struct kloc *k)
{
	u32 knode, class_, i, nr = 0, live = 0;

	for (knode = 0; knode < k->shape.nr_knodes; knode++)
		for (class_ = 0; class_ < KLOC_NR_CLASSES &&
		                 k->knodes[knode].life.state != KLOC_FREE;
		     class_++)
			nr += tree_check(k->object_tree, k->roots[knode][class_]);
	for (i = 0; i < k->shape.nr_objects; i++)
		live += is_live(&k->objects[i]) && kloc_is_grouped(k, &k->objects[i]);
	CHECK(nr == live, "KL12: trees hold the objects of all knodes");
}

static void check_ages(const struct kloc *k)
{
	struct kloc_ring r = RING(k->knodes, by_age);
	u32 state, i, before, nr = 0, live = 0;

	for (state = KLOC_INACTIVE; state <= KLOC_UNLINKED; state++) {
		before = KLOC_NONE;
		for (i = k->ages[state]; i != KLOC_NONE;
		     i = kloc_ring_next(r, k->ages[state], i)) {
			CHECK(k->knodes[i].life.state == state,
			      "KL17: a list for each state");
			CHECK(state != KLOC_ACTIVE || before == KLOC_NONE ||
			              k->knodes[before].life.last_use <=
			                      k->knodes[i].life.last_use,
			      "KL17: the coldest first");
			before = i;
			nr++;
		}
	}
	for (i = 0; i < k->shape.nr_knodes; i++)
		live += k->knodes[i].life.state != KLOC_FREE;
	CHECK(nr == live && nr == k->stat.nr_knodes, "KL17: each knode is in one");
}

void kloc_check(const struct kloc *k)
{
	u32 i, nr = 0, moving = 0;

	for (i = 0; i < k->shape.nr_tiers; i++)
		check_tier(k, i);
	check_lists(k);
	check_knode_objects(k);
	for (i = 0; i < k->shape.nr_knodes; i++)
		if (k->knodes[i].life.state != KLOC_FREE)
			check_knode(k, i);
	check_kmap(k);
	check_ages(k);
	if (k->object_tree)
		check_trees(k);
	for (i = 0; i < k->shape.nr_objects; i++) {
		nr += is_live(&k->objects[i]);
		moving += k->objects[i].list == LIST_MOVING;
	}
	CHECK(nr == k->stat.nr_objects, "KL11: nr_objects");
	CHECK(moving == k->stat.in_flight, "KL3: in_flight");
	if (k->policy->check)
		k->policy->check(k);
}
