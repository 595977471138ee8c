/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the figures of the KLOC paper share: sim/figures/fig_tier.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/command.h"
#include "sim/figures/fig_tier.h"

#define NR_SEEDS 3u

const char *const fig_tier_workloads[FIG_TIER_NR_WORKLOADS] = { "rocksdb", "redis",
	                                                        "filebench",
	                                                        "cassandra", "spark" };

const struct fig_tier_series fig_tier_series[FIG_TIER_NR_SERIES] = {
	{ "all_slow", KLOC_POLICY_ALL_SLOW, false, false, false },
	{ "naive", KLOC_POLICY_NAIVE, false, false, false },
	{ "nimble", KLOC_POLICY_NIMBLE, false, false, false },
	{ "nimble, kernel slow", KLOC_POLICY_NIMBLE, false, false, true },
	{ "nimble++", KLOC_POLICY_NIMBLE_PP, false, false, false },
	{ "kloc_nomigration", KLOC_POLICY_NO_MIGRATION, false, false, false },
	{ "kloc", KLOC_POLICY_KLOC, false, false, false },
	{ "kloc, in need", KLOC_POLICY_KLOC, true, true, false },
	{ "oracle", KLOC_POLICY_ORACLE, false, false, false },
	{ "all_fast", KLOC_POLICY_ALL_FAST, false, false, false },
};

const struct fig_tier_series *fig_tier_named(const char *name)
{
	u32 i;

	for (i = 0; i < FIG_TIER_NR_SERIES; i++)
		if (strcmp(fig_tier_series[i].name, name) == 0)
			return &fig_tier_series[i];
	return NULL;
}

struct variant {
	struct cost cost;
	u64 seed;
};

/* Parameters of the machine that decide; those of workloads begin with the workload's name. The
 * others would only double the time. */
static bool is_banded(const struct cost_band *band, const char *workload)
{
	static const char *const names[] = { "read_mb_s", "interference_percent",
		                             "move_batch_ns", "scan_percent",
		                             "tick_us" };
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(band->name, names[i]) == 0)
			return true;
	return strncmp(band->name, workload, strlen(workload)) == 0;
}

static int costs_read(struct fig_run *run, const struct fig_tier_setup *setup,
                      struct cost *ret_cost)
{
	const char *machine = setup->machine;
	int err;

	if (run->options->parameters && !machine)
		machine = run->options->parameters;
	err = cost_read(machine, NULL, ret_cost);
	if (err)
		return err;
	run->parameters = machine ? machine : "tier-two";
	snprintf(run->hash, sizeof(run->hash), "%s", ret_cost->hash);
	return 0;
}

static u32 variants_make(struct fig_run *run, const struct fig_tier_setup *setup,
                         bool few, const struct cost *cost, struct variant *variants)
{
	u32 nr = 0, i;

	for (i = 0; i < NR_SEEDS; i++)
		variants[nr++] = (struct variant){ *cost, run->seed + i };
	if (run->options->no_band)
		return 1;
	for (i = 0; i < cost->nr_bands && nr + 2 <= FIG_TIER_MAX_VARIANTS && !few;
	     i++) {
		const struct cost_band *band = &cost->bands[i];

		if (!is_banded(band, setup->workload))
			continue;
		variants[nr++] =
			(struct variant){ cost_with(cost, band, false), run->seed };
		variants[nr++] =
			(struct variant){ cost_with(cost, band, true), run->seed };
	}
	return nr;
}

/* ---- runs ---- */

/* All that a run depends on. Its bytes are compared, so what is between its fields is 0. */
struct made_key {
	struct cost_machine machine;
	struct cost_work work;
	struct fig_tier_setup setup;
	char workload[FIG_NAME_BYTES];
	u64 seed;
	u32 scale, policy;
	bool lazy, piecemeal, in_slow;
};

/* The runs of this figure. Some are asked for again: a policy is compared with several others, and
 * one end of a band may be what another row begins with. */
struct made {
	struct made_key key;
	struct engine_result result;
	struct made *next;
};
static struct made *all_made;

static void made_key(const struct fig_tier_setup *setup,
                     const struct fig_tier_series *series, const struct cost *cost,
                     u64 seed, u32 scale, struct made_key *ret_key)
{
	memset(ret_key, 0, sizeof(*ret_key));
	ret_key->machine = cost->machine;
	ret_key->work = cost->work;
	ret_key->setup.fast_bytes = setup->fast_bytes;
	ret_key->setup.kinds = setup->kinds;
	ret_key->setup.prefetch = setup->prefetch;
	ret_key->setup.reuse = setup->reuse;
	ret_key->setup.trees = setup->trees;
	snprintf(ret_key->workload, sizeof(ret_key->workload), "%s", setup->workload);
	ret_key->seed = seed;
	ret_key->scale = scale;
	ret_key->policy = series->policy;
	ret_key->lazy = series->lazy;
	ret_key->piecemeal = series->piecemeal;
	ret_key->in_slow = series->in_slow;
}

static const struct made *made_find(const struct made_key *key)
{
	const struct made *made = all_made;

	while (made && memcmp(&made->key, key, sizeof(*key)) != 0)
		made = made->next;
	return made;
}

/* Without memory it is only made again. */
static void made_keep(const struct made_key *key, const struct engine_result *result)
{
	struct made *made = malloc(sizeof(*made));

	if (!made)
		return;
	made->key = *key;
	made->result = *result;
	made->next = all_made;
	all_made = made;
}

static int cost_run(const struct fig_tier_setup *setup,
                    const struct fig_tier_series *series, const struct cost *cost,
                    u64 seed, u32 scale, struct engine_result *ret_result)
{
	struct run one = { .workload = setup->workload,
		           .seed = seed,
		           .reuse = setup->reuse,
		           .options = { .cost = cost,
		                        .scale = scale,
		                        .fast_bytes = setup->fast_bytes / scale,
		                        .kinds = setup->kinds,
		                        .prefetch = setup->prefetch,
		                        .trees = setup->trees,
		                        .in_slow = series->in_slow,
		                        .lazy = series->lazy,
		                        .piecemeal = series->piecemeal } };
	struct made_key key;
	const struct made *made;
	int err;

	made_key(setup, series, cost, seed, scale, &key);
	made = made_find(&key);
	if (made) {
		*ret_result = made->result;
		return 0;
	}
	err = run_policy(&one, series->policy, ret_result);
	if (!err)
		made_keep(&key, ret_result);
	return err;
}

static int variant_run(struct fig_run *run, const struct fig_tier_setup *setup,
                       const struct fig_tier_series *series, struct variant *variant,
                       struct engine_result *ret_result)
{
	u32 scale = run->options->quick ? FIG_TIER_QUICK_SCALE
	            : setup->scale      ? setup->scale
	                                : FIG_TIER_SCALE;
	struct cost cost = variant->cost;

	if (setup->interference)
		cost.machine.interference_percent = setup->interference;
	if (setup->ratio) {
		cost.machine.read_mb_s[1] = cost.machine.read_mb_s[0] / setup->ratio;
		cost.machine.write_mb_s[1] = cost.machine.write_mb_s[0] / setup->ratio;
	}
	command_progress(run->nr_measured++, 0);
	return cost_run(setup, series, &cost, variant->seed, scale, ret_result);
}

int fig_tier_run(struct fig_run *run, const struct fig_tier_setup *setup,
                 const struct fig_tier_series *series, struct engine_result *ret_result)
{
	static struct variant variant;
	int err = costs_read(run, setup, &variant.cost);

	variant.seed = run->seed;
	if (run->nr_machines == 0)
		run->nr_machines = 1;
	return err ? err : variant_run(run, setup, series, &variant, ret_result);
}

static void band_widen(struct fig_band *band, bool first, double value)
{
	if (first)
		*band = (struct fig_band){ value, value, value };
	if (value < band->low)
		band->low = value;
	if (value > band->high)
		band->high = value;
}

int fig_tier_measure(struct fig_run *run, const struct fig_tier_setup *setup,
                     const struct fig_tier_series *series, u32 nr, bool few,
                     struct fig_band *ret_bands)
{
	static struct variant variants[FIG_TIER_MAX_VARIANTS];
	static struct engine_result result;
	struct cost cost;
	u32 nr_variants, v, i;
	double yardstick = 0;
	int err = costs_read(run, setup, &cost);

	if (err)
		return err;
	nr_variants = variants_make(run, setup, few, &cost, variants);
	if (nr_variants > run->nr_machines)
		run->nr_machines = nr_variants;
	for (v = 0; v < nr_variants; v++) {
		for (i = 0; i < nr; i++) {
			err = variant_run(run, setup, &series[i], &variants[v],
			                  &result);
			if (err)
				return err;
			if (i == 0)
				yardstick = result.ns;
			band_widen(&ret_bands[i], v == 0, yardstick / result.ns);
		}
	}
	return 0;
}
