/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * On what a read waits. PAYGO s.6.2.3, Fig. 9, has the CPUs' time by function. Here a read's
 * time is split by the words for whose lines it waits. These are the counter, the ptes, the
 * lookup, the frame, the data and the inode's lock. Counting that hits takes as long as the read
 * takes longer than one that does not count. The rest is work.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/figures/fig_read.h"

#define BLOCK_COPY_BYTES 4096u
#define SMALL_COPY_BYTES 64u
#define MAPS_ABOVE 4u
#define IDLE_SHARERS 4u
/* Fewer than PAYGO's files have, so that a short warm-up goes over all of them. */
#define MANY_FILES 10u
#define MANY_BLOCKS (MANY_FILES * 32u)
#define MANY_WARM_NS 500000u

/* Words that reads wait for, as fig_read.c names them, and what goes on without waiting. */
static const char *const words[] = {
	"counter", "process space",  "lookup",     "frame",
	"data",    "buffer",         "inode lock", "address-space lock",
	"other",   "counting, hits", "the rest"
};
#define MAX_POINTS 6u
#define NR_WORDS (sizeof(words) / sizeof(*words))
#define NR_WAITS (NR_WORDS - 2)

struct breakdown_point {
	const char *scheme;
	u32 nr_cpus;
	bool many, file_lock;
};

/* Times of one read: ret_words, its waits for each word; ret_left, all else. */
static int breakdown_read(const struct sim_machine *machine, u64 seed,
                          const struct breakdown_point *point, const char *scheme,
                          double *ret_words, double *ret_left)
{
	struct fig_read setup = {
		.scheme = count_scheme_find(scheme),
		.nr_objects = point->many ? MANY_BLOCKS : 1,
		.nr_files = point->many ? MANY_FILES : 1,
		.access = point->many ? FIG_UNIFORM : FIG_ONE,
		.copy_bytes = point->many ? SMALL_COPY_BYTES : BLOCK_COPY_BYTES,
		.warm_ns = point->many ? MANY_WARM_NS : 0,
		.nr_users = point->nr_cpus,
		.nr_idle_users = IDLE_SHARERS,
		.nr_maps_above = MAPS_ABOVE,
		.file_lock = point->file_lock,
		.by_word = true,
	};
	struct fig_read_result result;
	int err = fig_read_run(machine, seed, &setup, &result);
	size_t i;
	u32 l;

	if (err)
		return err;
	if (result.all.ops == 0)
		return -ETIME;
	*ret_left = 1000 * point->nr_cpus / result.mops;
	for (i = 0; i < NR_WAITS; i++) {
		ret_words[i] = 0;
		for (l = 0; l < result.all.nr_lines; l++)
			if (strcmp(result.all.lines[l].name, words[i]) == 0)
				ret_words[i] = (double)result.all.lines[l].wait_ns /
				               (double)result.all.ops;
		*ret_left -= ret_words[i];
	}
	return 0;
}

static int breakdown_measure(struct fig_run *run, const struct sim_machine *machine,
                             u64 seed, void *arg, double *ret_values)
{
	const struct breakdown_point *point = arg;
	double unused[NR_WAITS], counts, work;
	int err = breakdown_read(machine, seed, point, point->scheme, ret_values,
	                         &counts);

	(void)run;
	if (!err)
		err = breakdown_read(machine, seed, point, "null", unused, &work);
	if (err)
		return err;
	/* Readers that wait for a contended line do not run at a constant pace. */
	ret_values[NR_WAITS] = counts > work ? counts - work : 0;
	ret_values[NR_WAITS + 1] = counts > work ? work : counts;
	return 0;
}

/* One word over all numbers of CPUs. No rows, if no read ever waited for it. */
static int breakdown_add(struct fig_run *run, const char *panel, u32 word,
                         const u32 *cpus, u32 nr_points,
                         const struct fig_band bands[][NR_WORDS])
{
	bool is_met = false;
	u32 i;
	int err = 0;

	for (i = 0; i < nr_points; i++)
		is_met |= bands[i][word].value > 0;
	for (i = 0; i < nr_points && is_met && !err; i++)
		err = fig_add(run, panel, words[word], cpus[i], "ns", FIG_PREDICTED,
		              &bands[i][word], FIG_NO_PAPER);
	return err;
}

static int run_breakdown_of(struct fig_run *run, const u32 *cpus, u32 nr_points,
                            struct breakdown_point point)
{
	struct fig_band bands[MAX_POINTS][NR_WORDS];
	char panel[FIG_NAME_BYTES];
	u32 i;
	int err = 0;

	snprintf(panel, sizeof(panel), "%s%s: %s",
	         point.many ? "64 bytes of ten files" : "one block",
	         point.file_lock ? ", XFS" : "", point.scheme);
	for (i = 0; i < nr_points && !err; i++) {
		point.nr_cpus = cpus[i];
		err = fig_measure(run, breakdown_measure, &point, NR_WORDS, bands[i]);
	}
	for (i = 0; i < NR_WORDS && !err; i++)
		err = breakdown_add(run, panel, i, cpus, nr_points, bands);
	return err;
}

static int run_breakdown_over(struct fig_run *run, const u32 *cpus,
                              const struct breakdown_point *points, size_t nr)
{
	size_t i;
	int err = 0;

	for (i = 0; i < nr && !err; i++)
		if (count_scheme_find(points[i].scheme))
			err = run_breakdown_of(run, cpus,
			                       run->options->quick ? 2 : MAX_POINTS,
			                       points[i]);
	return err;
}

static int run_breakdown(struct fig_run *run)
{
	static const u32 cpus[] = { 1, 4, 15, 30, 60, 120 };
	static const struct breakdown_point points[] = {
		{ "atomic", 0, false, false },   { "snzi", 0, false, false },
		{ "refcache", 0, false, false }, { "paygo", 0, false, false },
		{ "lodic", 0, false, false },    { "lodic_file", 0, false, false },
		{ "lodic", 0, false, true },
	};

	return run_breakdown_over(run, cpus, points, sizeof(points) / sizeof(*points));
}

static int run_breakdown_paygo(struct fig_run *run)
{
	static const u32 cpus[] = { 1, 4, 12, 24, 48, 96 };
	static const struct breakdown_point points[] = {
		{ "atomic", 0, false, false },  { "snzi", 0, false, false },
		{ "paygo", 0, false, false },   { "paygo", 0, false, true },
		{ "atomic", 0, true, false },   { "snzi", 0, true, false },
		{ "refcache", 0, true, false }, { "paygo", 0, true, false },
		{ "paygo", 0, true, true },
	};

	return run_breakdown_over(run, cpus, points, sizeof(points) / sizeof(*points));
}

#define BREAKDOWN_MODELLED \
	"reads as in LODIC Fig. 14: the time that a read waits for lines, by the word " \
	"that lies on them; counting, hits: what else a read takes longer than one with " \
	"null, which does not count. Ticks of RefCache count as its counter"
#define BREAKDOWN_LEFT_OUT "functions, as the paper's profile has them"

const struct fig fig_breakdown = {
	.name = "breakdown",
	.paper = "LODIC Fig. 14, by word",
	.title = "On which words a read waits",
	.x = "CPUs, a process of one thread on each",
	.modelled = BREAKDOWN_MODELLED,
	.left_out = BREAKDOWN_LEFT_OUT,
	.topology = "8x15",
	.simulated = true,
	.one_machine = true,
	.run = run_breakdown,
};

const struct fig fig_breakdown_paygo = {
	.name = "breakdown-paygo",
	.paper = "PAYGO Fig. 8, Fig. 9",
	.title = "On which words a read waits, on PAYGO's machine",
	.x = "CPUs, a process of one thread on each",
	.modelled = BREAKDOWN_MODELLED ", and random reads of 64 bytes from ten files",
	.left_out =
		BREAKDOWN_LEFT_OUT "; files larger than caches: they have 32 blocks",
	.topology = "4x24",
	.simulated = true,
	.one_machine = true,
	.run = run_breakdown_paygo,
};
