/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Policies whose tiers are nodes (KLOCs s.4.5, s.6.2). autonuma places at the CPU's node. A page of
 * a program that another node uses in two ticks, twice in a row, moves there; nothing else does.
 * kloc-numa also lets the objects of an active knode follow the CPU that used the file last.
 * replicate (ours, ADR-0030) gives a node a copy of what never changes.
 */
#include "core/kloc/policy.h"

#define HAND_LOOKS 256u
#define FILE_KINDS (KLOC_BIT(KLOC_FRAME) | KLOC_BIT(KLOC_HOLD))

struct kloc_wish kloc_place_local(struct kloc *k, const struct kloc_object *o, u32 cpu)
{
	(void)o;
	return (struct kloc_wish){ k->cpu_tier[cpu], KLOC_BY_POLICY, 0 };
}

/* A file's objects go where the file is used, whatever CPU an interrupt comes to. */
static struct kloc_wish place_home(struct kloc *k, const struct kloc_object *o, u32 cpu)
{
	u32 home = kloc_is_grouped(k, o) ? kloc_knode_home(k, o->knode) : KLOC_NO_TIER;

	if (home == KLOC_NO_TIER)
		return kloc_place_local(k, o, cpu);
	return (struct kloc_wish){ home, KLOC_BY_USE, 0 };
}

void kloc_touched_foreign(struct kloc *k, u32 object, u32 cpu)
{
	struct kloc_object *o = &k->objects[object];
	u32 node = k->cpu_tier[cpu];

	if (o->kind != KLOC_APP || (o->flags & F_REFERENCED && o->used == (u8)k->now))
		return;
	if (node == o->tier) {
		o->flags &= (u8)~F_FOREIGN;
		return;
	}
	if (o->flags & F_FOREIGN && o->seen == node && kloc_is_idle(o) &&
	    kloc_can_move(k, o)) {
		o->flags &= (u8)~F_FOREIGN;
		if (life_is_retained(o->nr_moves, &k->rules))
			k->stat.kept++;
		else
			kloc_want(k, object, KLOC_FOLLOW, node, KLOC_BY_USE);
		return;
	}
	o->flags |= F_FOREIGN;
	o->seen = node & 15;
}

/* Each CPU's list is looked through for files whose objects are remote (KLOCs s.4.5). */
static void tick_numa(struct kloc *k)
{
	u32 cpu, i, age, knode;

	for (cpu = 0; cpu < k->shape.nr_cpus; cpu++)
		for (i = 0; i < k->lists.length; i++) {
			knode = knode_list_collect(&k->lists, cpu, i, &age);
			if (knode != KLOC_NONE && k->knodes[knode].last_cpu == cpu &&
			    k->knodes[knode].work == WORK_NONE)
				kloc_knode_plan(k, knode);
		}
}

/* The second use from a node that has no copy. */
static void touched_replicate(struct kloc *k, u32 object, u32 cpu)
{
	struct kloc_object *o = &k->objects[object];
	u32 node = k->cpu_tier[cpu];

	if (o->knode == KLOC_NONE ||
	    !(k->knodes[o->knode].life.flags & KLOC_MAP_REPLICATE) ||
	    !(FILE_KINDS & KLOC_BIT(o->kind))) {
		kloc_touched_foreign(k, object, cpu);
		return;
	}
	if (node == o->tier || o->copies >> node & 1 || !kloc_is_idle(o) ||
	    !kloc_can_move(k, o))
		return;
	if (o->flags & F_FOREIGN)
		kloc_want(k, object, KLOC_COPY, node, KLOC_BY_USE);
	o->flags |= F_FOREIGN;
}

/* Copies go first: their bytes are elsewhere as well. */
static bool relieve_replicate(struct kloc *k, u32 tier, enum kloc_why why)
{
	u32 looks;

	for (looks = 0; looks < HAND_LOOKS; looks++) {
		struct kloc_object *o = &k->objects[k->hand];
		u32 object = k->hand;

		k->hand = (k->hand + 1) % k->shape.nr_objects;
		if (!(o->copies >> tier & 1) || !kloc_is_idle(o))
			continue;
		o->flags &= (u8)~F_FOREIGN;
		kloc_want(k, object, KLOC_DROP, tier, why);
		return true;
	}
	return why == KLOC_BY_LIMIT && kloc_lru_relieve(k, tier, why);
}

static void defaults_nodes(struct kloc_parameters *p)
{
	p->low_permille = p->high_permille = 0;
	p->knode_tier = KLOC_NO_TIER;
}

static void defaults_kloc_numa(struct kloc_parameters *p)
{
	p->low_permille = p->high_permille = 0;
}

static void defaults_replicate(struct kloc_parameters *p)
{
	p->knode_tier = KLOC_NO_TIER;
}

const struct kloc_policy kloc_autonuma = { .name = "autonuma",
	                                   .has_nodes = true,
	                                   .lru_kinds = KLOC_BIT(KLOC_APP),
	                                   .place = kloc_place_local,
	                                   .touched = kloc_touched_foreign,
	                                   .relieve = kloc_lru_relieve,
	                                   .defaults = defaults_nodes };
const struct kloc_policy kloc_kloc_numa = { .name = "kloc-numa",
	                                    .has_nodes = true,
	                                    .groups = true,
	                                    .mover = MOVER_CPU,
	                                    .lru_kinds = KLOC_BIT(KLOC_APP),
	                                    .place = place_home,
	                                    .touched = kloc_touched_foreign,
	                                    .tick = tick_numa,
	                                    .relieve = kloc_lru_relieve,
	                                    .defaults = defaults_kloc_numa };
const struct kloc_policy kloc_replicate = { .name = "replicate",
	                                    .has_nodes = true,
	                                    .lru_kinds = KLOC_BIT(KLOC_APP),
	                                    .place = kloc_place_local,
	                                    .touched = touched_replicate,
	                                    .relieve = relieve_replicate,
	                                    .defaults = defaults_replicate };
