/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * References that end on another CPU than they began on. One figure says how long a
 * reference lasts and how often it is so split (LODIC s.3, Fig. 4). The other says what
 * a split costs each scheme (PAYGO s.6.2.3, the anchoring overhead).
 *
 * A task does not move here. It leaves its token to a task on another CPU, which returns
 * it there; for the counters' lines that is the same. A move costs nothing here, and a
 * microsecond or more in a kernel.
 */
#include <stdio.h>

#include "sim/figures/fig_read.h"

#define BLOCK_COPY_BYTES 4096u
#define MAPS_ABOVE 4u
#define NR_CPUS 96u
/* LODIC s.3: 0.14 us, and 5 of a million split. */
#define PAPER_HELD_NS 140.0
#define PAPER_SPLIT 5e-6
/* PAYGO s.6.2.3: fewer than 10 000 moves in 60 s, on 36 CPUs. */
#define PAPER_MOVES_PER_S (10000.0 / 60)
#define PAPER_MOVES_CPUS 36.0

struct anchor_point {
	const struct count_scheme *scheme;
	u32 nr_cpus, split_per_million;
};

static int anchor_measure(struct fig_run *run, const struct sim_machine *machine,
                          u64 seed, void *arg, double *ret_values)
{
	const struct anchor_point *point = arg;
	struct fig_read setup = {
		.scheme = point->scheme,
		.nr_objects = 1,
		.nr_users = point->nr_cpus,
		.copy_bytes = BLOCK_COPY_BYTES,
		.nr_maps_above = MAPS_ABOVE,
		.split_per_million = point->split_per_million,
	};
	struct fig_read_result result;
	int err = fig_read_run(machine, seed, &setup, &result);

	(void)run;
	ret_values[0] = result.mops;
	ret_values[1] = result.held_ns;
	return err;
}

static int run_anchor(struct fig_run *run)
{
	static const u32 splits[] = { 0, 100, 1000, 10000, 100000, 500000 };
	u32 step = run->options->quick ? 4 : 1;
	struct fig_band bands[2];
	size_t s, i;
	int err = 0;

	for (s = 0; s < FIG_NR_COMPARED; s++)
		for (i = 0; i < 6 && !err; i += step) {
			struct anchor_point point = {
				count_scheme_find(fig_compared[s]), NR_CPUS, splits[i]
			};

			if (!point.scheme)
				continue;
			err = fig_measure(run, anchor_measure, &point, 2, bands);
			if (!err)
				err = fig_add(run, "96 CPUs, one block",
				              fig_compared[s], splits[i], "Mops/s",
				              FIG_PREDICTED, &bands[0], FIG_NO_PAPER);
		}
	return err;
}

static int run_held(struct fig_run *run)
{
	static const u32 cpus[] = { 1, 30, 120 };
	struct fig_band bands[2];
	u32 scheme, i;
	int err = 0;

	for (scheme = 0; scheme < count_nr_schemes; scheme++)
		for (i = 0; i < 3 && !err; i++) {
			struct anchor_point point = { count_schemes[scheme], cpus[i],
				                      0 };
			const char *name = point.scheme->name;

			if (point.scheme->is_rival)
				continue;
			err = fig_measure(run, anchor_measure, &point, 2, bands);
			/* This very number chose the time of a copy. */
			if (!err)
				err = fig_add(run, "from ref to unref", name, cpus[i],
				              "ns", i ? FIG_PREDICTED : FIG_FITTED,
				              &bands[1],
				              i || point.scheme != &count_atomic
				                      ? FIG_NO_PAPER
				                      : PAPER_HELD_NS);
		}
	/* How often would a task have to move, for the paper's share of splits, if
	 * moves fell on references by chance? And how many moves does PAYGO's
	 * experiment give? */
	if (!err)
		err = fig_add_value(run, "moves of a task in a second",
		                    "for 5 splits in a million", 0, "1/s",
		                    FIG_ARITHMETIC,
		                    PAPER_SPLIT / (PAPER_HELD_NS * 1e-9), FIG_NO_PAPER);
	if (!err)
		err = fig_add_value(run, "moves of a task in a second",
		                    "PAYGO's run, of each CPU", 0, "1/s",
		                    FIG_ARITHMETIC,
		                    PAPER_MOVES_PER_S / PAPER_MOVES_CPUS, FIG_NO_PAPER);
	return err;
}

const struct fig fig_anchor = {
	.name = "anchor",
	.paper = "PAYGO s.6.2.3 (anchoring overhead)",
	.title = "References that end on another CPU",
	.x = "of a million references, how many end on another CPU",
	.modelled = "the unref by another CPU, on whatever word the scheme then uses",
	.left_out = "the move itself, which costs more than any of this; how often a "
		    "scheduler moves tasks in the middle of a reference",
	.topology = "4x24",
	.simulated = true,
	.run = run_anchor,
};

const struct fig fig_held = {
	.name = "held",
	.paper = "LODIC Fig. 4, the page's bar",
	.title = "How long a page's reference lasts",
	.x = "CPUs that read the block at once",
	.modelled =
		"from a ref's return to the unref's call, with a copy of 4 KiB between; "
		"the copy's time is fitted to the paper's 0.14 us",
	.left_out =
		"the four other kernel objects of Fig. 4; the scheduler. The share of split "
		"references is arithmetic: holding time times moves",
	.topology = "8x15",
	.simulated = true,
	.run = run_held,
};
