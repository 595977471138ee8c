/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a policy is: a structure of a few functions over the mechanism in this room. A NULL function
 * means that the policy does nothing there.
 */
#ifndef LODIC_CORE_KLOC_POLICY_H
#define LODIC_CORE_KLOC_POLICY_H

#include "core/kloc/state.h"

struct kloc_wish {
	u32 tier;
	enum kloc_why why;
	u64 spare; /* bytes that must stay free there, or the object goes elsewhere */
};

struct kloc_policy {
	const char *name;
	bool groups;       /* objects of parameters.kinds hang on their knodes */
	bool is_unbounded; /* its tier 0 has no limit: a bound, not a policy */
	bool has_nodes;    /* tiers are nodes, none is faster */
	enum kloc_mover mover;
	u32 lru_kinds;     /* bits: kinds that the LRU lists hold, unless grouped */
	u32 promote_kinds; /* bits: of these, what a scan of slow memory promotes */

	struct kloc_wish (*place)(struct kloc *k, const struct kloc_object *o, u32 cpu);
	/* Before the use is noted in the object. */
	void (*touched)(struct kloc *k, u32 object, u32 cpu);
	/* It was put on an LRU list; it was taken off one. */
	void (*listed)(struct kloc *k, u32 object);
	void (*unlisted)(struct kloc *k, u32 object);
	void (*tick)(struct kloc *k);
	/* Makes something leave the tier: work or a wanted move. false: nothing can. */
	bool (*relieve)(struct kloc *k, u32 tier, enum kloc_why why);
	void (*defaults)(struct kloc_parameters *p);
	int (*init)(struct kloc *k);
	void (*fini)(struct kloc *k);
	void (*check)(const struct kloc *k);
};

#define KLOC_POLICY(id, policy) extern const struct kloc_policy policy;
#include "core/kloc/policy_list.h"
#undef KLOC_POLICY

/* policy_kloc.c: placement by the state of the knode. */
struct kloc_wish kloc_place_by_state(struct kloc *k, const struct kloc_object *o,
                                     u32 cpu);
/* policy_numa.c: placement at the CPU's node; a page follows its second use in a row. */
struct kloc_wish kloc_place_local(struct kloc *k, const struct kloc_object *o, u32 cpu);
void kloc_touched_foreign(struct kloc *k, u32 object, u32 cpu);

#endif
