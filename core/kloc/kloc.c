/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The room as a whole: what it begins with, its names, its numbers. The contract is in kloc.h. */
#include "core/kloc/policy.h"

static const struct kloc_policy *const policies[] = {
#define KLOC_POLICY(id, policy) [id] = &policy,
#include "core/kloc/policy_list.h"
#undef KLOC_POLICY
};

static const char *const kind_names[] = { "app",     "frame",    "hold",
	                                  "journal", "block-io", "socket",
	                                  "slab",    "table",    "rmap" };
static const char *const what_names[] = { "place", "demote", "promote", "follow",
	                                  "copy",  "drop",   "keep" };
static const char *const why_names[] = { "policy",  "state",    "age",    "use",
	                                 "need",    "limit",    "future", "full",
	                                 "counter", "prefetch", "busy" };

_Static_assert(sizeof(kind_names) / sizeof(char *) == KLOC_NR_KINDS, "a name each");
_Static_assert(sizeof(what_names) / sizeof(char *) == KLOC_NR_WHATS, "a name each");
_Static_assert(sizeof(why_names) / sizeof(char *) == KLOC_NR_WHYS, "a name each");

const char *kloc_kind_name(enum kloc_kind kind)
{
	return kind_names[kind];
}

const char *kloc_what_name(enum kloc_what what)
{
	return what_names[what];
}

const char *kloc_why_name(enum kloc_why why)
{
	return why_names[why];
}

const char *kloc_policy_name(enum kloc_policy_id policy)
{
	return policies[policy]->name;
}

enum kloc_mover kloc_policy_mover(enum kloc_policy_id policy)
{
	return policies[policy]->mover;
}

enum kloc_policy_id kloc_policy_named(const char *name)
{
	u32 i, at;

	for (i = 0; i < KLOC_NR_POLICIES; i++) {
		const char *other = policies[i]->name;

		for (at = 0; name[at] && name[at] == other[at]; at++)
			;
		if (name[at] == other[at])
			break;
	}
	return (enum kloc_policy_id)i;
}

void kloc_parameters_default(enum kloc_policy_id policy, struct kloc_parameters *ret)
{
	*ret = (struct kloc_parameters){
		.kinds = KLOC_ALL_KINDS & ~KLOC_BIT(KLOC_APP),
		.movable = KLOC_ALL_KINDS,
		.age_limit = LIFE_AGE_LIMIT,
		.forgive = LIFE_FORGIVE,
		.ping_pong = LIFE_PING_PONG,
		.low_permille = 20,  /* ours; Linux has 1 to 40 */
		.high_permille = 40, /* ours: twice that */
		.scan = 4096,        /* ours: 8 ms, at 2 s a million (KLOCs s.3.3) */
		.prefetch_age = 4,
		.max_in_flight = 32,
		.copy_threads = 4,
		.kernel_place = KLOC_KERNEL_FAST,
		.knode_tier = KLOC_FAST,
		.eager = true,
		.promote_whole = true,
	};
	if (policies[policy]->defaults)
		policies[policy]->defaults(ret);
}

static bool has_sense(const struct kloc_shape *s)
{
	const struct kloc_parameters *p = &s->parameters;
	u32 i;

	for (i = 0; s->cpu_tier && i < s->nr_cpus; i++)
		if (s->cpu_tier[i] >= s->nr_tiers)
			return false;
	return s->nr_tiers >= 2 && s->nr_tiers <= KLOC_MAX_TIERS && s->nr_objects > 0 &&
	       s->nr_objects < KLOC_NONE && s->nr_knodes > 0 &&
	       s->nr_knodes <= KNODE_LIST_MAX_KNODES && s->nr_cpus > 0 &&
	       s->list_length > 0 && s->list_length <= KNODE_LIST_MAX_LENGTH &&
	       s->policy < KLOC_NR_POLICIES && p->ping_pong > 0 &&
	       p->ping_pong <= 255 && p->low_permille <= p->high_permille &&
	       p->high_permille <= 1000 && p->max_in_flight > 0 &&
	       p->prefetch_age < 255 && p->forgive < 255 &&
	       (p->knode_tier < s->nr_tiers || p->knode_tier == KLOC_NO_TIER);
}

static bool make_arrays(struct kloc *k)
{
	const struct kloc_shape *s = &k->shape;

	k->cpu_tier = host_alloc(s->nr_cpus, 64);
	k->objects = host_alloc(s->nr_objects * sizeof(*k->objects), 64);
	k->knodes = host_alloc(s->nr_knodes * sizeof(*k->knodes), 64);
	k->buckets = host_alloc(k->nr_buckets * sizeof(*k->buckets), 64);
	if (k->p.trees) {
		k->object_tree =
			host_alloc(s->nr_objects * sizeof(*k->object_tree), 64);
		k->knode_tree = host_alloc(s->nr_knodes * sizeof(*k->knode_tree), 64);
		k->roots = host_alloc(s->nr_knodes * sizeof(*k->roots), 64);
		if (!k->object_tree || !k->knode_tree || !k->roots)
			return false;
	}
	return k->cpu_tier && k->objects && k->knodes && k->buckets &&
	       knode_list_init(&k->lists, s->nr_knodes, s->nr_cpus, s->list_length);
}

static void begin_lists(struct kloc *k)
{
	u32 i, tier;

	for (i = 0; i < k->nr_buckets; i++)
		k->buckets[i] = KLOC_NONE;
	for (i = 0; i < k->shape.nr_objects; i++) {
		k->objects[i].list = LIST_FREE;
		k->objects[i].link.next =
			i + 1 < k->shape.nr_objects ? i + 1 : KLOC_NONE;
	}
	for (i = 0; i < k->shape.nr_knodes; i++)
		k->knodes[i].chain = i + 1 < k->shape.nr_knodes ? i + 1 : KLOC_NONE;
	for (i = 0; i < KLOC_NR_WHATS; i++)
		for (tier = 0; tier < KLOC_MAX_TIERS; tier++)
			k->wanted[i][tier] = KLOC_NONE;
	for (i = 0; i <= KLOC_UNLINKED; i++)
		k->ages[i] = KLOC_NONE;
	for (i = 0; i < NR_WORKS; i++)
		k->work[i] = KLOC_NONE;
	for (tier = 0; tier < KLOC_MAX_TIERS; tier++)
		k->tiers[tier] =
			(struct kloc_tier){ .capacity = k->shape.capacity[tier],
			                    .limit = k->shape.capacity[tier],
			                    .lru = { KLOC_NONE, KLOC_NONE } };
	for (i = 0; k->shape.cpu_tier && i < k->shape.nr_cpus; i++)
		k->cpu_tier[i] = k->shape.cpu_tier[i];
	k->fresh = k->kmap_root = KLOC_NONE;
	k->free_object = k->free_knode = 0;
}

int kloc_init(const struct kloc_shape *shape, struct kloc **ret_kloc)
{
	struct kloc *k;
	u32 movable = shape->parameters.movable;
	int err = 0;

	if (!has_sense(shape))
		return -EINVAL;
	k = host_alloc(sizeof(*k), 64);
	if (!k)
		return -ENOMEM;
	k->shape = *shape;
	k->p = shape->parameters;
	k->policy = policies[shape->policy];
	if (k->policy->groups)
		k->group_kinds = k->p.kinds & ~KLOC_BIT(KLOC_APP);
	k->rules = (struct life_rules){ .age_limit = k->p.age_limit,
		                        .ping_pong = k->p.ping_pong,
		                        .forgive = k->p.forgive,
		                        .mover = (u8)k->policy->mover,
		                        .eager = k->p.eager,
		                        .promote_whole = k->p.promote_whole };
	k->lru_kinds = k->policy->lru_kinds & movable;
	for (k->nr_buckets = 1; k->nr_buckets < shape->nr_knodes;)
		k->nr_buckets *= 2;
	if (!make_arrays(k)) {
		kloc_fini(k);
		return -ENOMEM;
	}
	begin_lists(k);
	if (k->policy->init)
		err = k->policy->init(k);
	if (err) {
		kloc_fini(k);
		return err;
	}
	*ret_kloc = k;
	return 0;
}

static void free_array(void *array, size_t bytes)
{
	if (array)
		host_free(array, bytes);
}

void kloc_fini(struct kloc *k)
{
	const struct kloc_shape *s = &k->shape;

	if (k->policy->fini)
		k->policy->fini(k);
	knode_list_fini(&k->lists);
	free_array(k->cpu_tier, s->nr_cpus);
	free_array(k->objects, s->nr_objects * sizeof(*k->objects));
	free_array(k->knodes, s->nr_knodes * sizeof(*k->knodes));
	free_array(k->buckets, k->nr_buckets * sizeof(*k->buckets));
	free_array(k->object_tree, s->nr_objects * sizeof(*k->object_tree));
	free_array(k->knode_tree, s->nr_knodes * sizeof(*k->knode_tree));
	free_array(k->roots, s->nr_knodes * sizeof(*k->roots));
	host_free(k, sizeof(*k));
}

void kloc_tick(struct kloc *k)
{
	kloc_unwant_all(k);
	kloc_knode_age(k);
	kloc_object_tick(k);
	if (k->policy->tick)
		k->policy->tick(k);
}

void kloc_stat(const struct kloc *k, struct kloc_stat *ret)
{
	*ret = k->stat;
	ret->tree_walks = k->walks.walks;
	ret->tree_visits = k->walks.visits;
}

void kloc_cost(const struct kloc *k, struct kloc_cost *ret)
{
	u64 lists = (u64)k->lists.nr_cpus * k->lists.stride * sizeof(u64);
	u64 buckets = (u64)k->nr_buckets * sizeof(*k->buckets);

	*ret = (struct kloc_cost){ .knode_bytes = sizeof(struct knode) +
		                                  sizeof(struct knode_name),
		                   .object_bytes = sizeof(struct kloc_object),
		                   .link_bytes = sizeof(struct kloc_link),
		                   .entry_bytes = sizeof(u64) };
	if (k->p.trees) {
		ret->knode_bytes += sizeof(*k->knode_tree) + sizeof(*k->roots);
		ret->object_bytes += sizeof(*k->object_tree);
		ret->link_bytes = sizeof(*k->object_tree);
	}
	ret->now_bytes = k->stat.nr_knodes * ret->knode_bytes +
	                 k->stat.nr_objects * ret->object_bytes + lists + buckets;
	ret->peak_bytes = k->stat.peak_knodes * ret->knode_bytes +
	                  k->stat.peak_objects * ret->object_bytes + lists + buckets;
}

const struct kloc_parameters *kloc_parameters_of(const struct kloc *k)
{
	return &k->p;
}
