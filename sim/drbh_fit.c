/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * `lodic-sim fit` finds the two parameters that come from the paper's results again. So
 * a reader can check that they were fitted, to what, and that nothing else was.
 *
 *   base_work        to RefCache, which has no contention here: what a read costs besides
 *   queued_percent   to vanilla, which has nothing but contention
 */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/command.h"
#include "sim/drbh.h"
#include "sim/drbh_main.h"

#define BASE_WORK_MOST 20000u
#define QUEUED_MOST 400u
/* A fit to one seed would fit the luck of that seed. */
#define NR_SEEDS 5u

struct fit {
	struct machine machine;
	u64 seed;
};

static int fit_run(const struct fit *f, const char *scheme, double *ret_mops)
{
	struct drbh setup = { .scheme = count_scheme_find(scheme),
		              .nr_cpus = PAPER_CPUS,
		              .threads_per_process = 1,
		              .base_work = f->machine.base_work };
	struct sim_result result;
	double sum = 0;
	u64 i;
	int err;

	for (i = 0; i < NR_SEEDS; i++) {
		err = drbh_run(&f->machine.timing, f->seed + i, &setup, &result);
		if (err)
			return err;
		sum += result.mops;
	}
	*ret_mops = sum / NR_SEEDS;
	return 0;
}

/* Finds the largest value of *parameter, at least 1, at which scheme still reaches
 * mops, and leaves it there. More of either parameter makes everything slower. */
static int fit_search(struct fit *f, u32 *parameter, u32 most, const char *scheme,
                      double wanted, double *ret_mops)
{
	u32 low = 1, high = most;
	int err = 0;

	while (low < high && !err) { /* At most 15 halvings. */
		double mops = 0;

		*parameter = low + (high - low + 1) / 2;
		err = fit_run(f, scheme, &mops);
		if (mops >= wanted)
			low = *parameter;
		else
			high = *parameter - 1;
	}
	*parameter = low;
	return err ? err : fit_run(f, scheme, ret_mops);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	argp_error(state, "'%s' is more than fit takes", arg);
	return 0;
}

int fit_main(int argc, char **argv)
{
	static const struct argp argp = {
		NULL,
		parse,
		NULL,
		"Find base_work and queued_percent of 8x15 from the LODIC paper's RefCache "
		"and vanilla on 120 CPUs, all else being as the parameter file has it.",
		NULL,
		NULL,
		NULL
	};
	struct fit f = { .seed = 1 };
	double refcache = 0, vanilla = 0;
	int err;

	if (argp_parse(&argp, argc, argv, 0, NULL, NULL) != 0)
		return COMMAND_USAGE;
	if (machine_read("8x15", NULL, &f.machine) != 0)
		return COMMAND_USAGE;
	if (!count_scheme_find("refcache")) {
		fprintf(stderr, "lodic-sim: no scheme 'refcache' in this build\n");
		return COMMAND_FAILED;
	}
	err = fit_search(&f, &f.machine.base_work, BASE_WORK_MOST, "refcache",
	                 PAPER_REFCACHE, &refcache);
	if (!err)
		err = fit_search(&f, &f.machine.timing.queued_percent, QUEUED_MOST,
		                 "atomic", PAPER_VANILLA, &vanilla);
	if (err) {
		return command_fail("fit", err);
	}
	printf("base_work = %u  # refcache %.2f Mops/s, the paper %.2f\n"
	       "queued_percent = %u  # atomic %.3f Mops/s, the paper %.3f\n",
	       f.machine.base_work, refcache, PAPER_REFCACHE,
	       f.machine.timing.queued_percent, vanilla, PAPER_VANILLA);
	return EXIT_SUCCESS;
}
