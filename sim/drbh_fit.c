/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * `lodic-sim fit` finds the two parameters that come from the paper's results again. So
 * a reader can check that they were fitted, to what, and that nothing else was.
 *
 *   base_work            to RefCache, which has no contention here: what a read costs besides
 *   same_socket_percent  to vanilla, which has nothing but contention
 *
 * It does so for the machine and for each end of each band (sim/machine.h). A band around a
 * machine that was not fitted again would mostly show that the fit is off there.
 */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/command.h"
#include "sim/drbh.h"
#include "sim/drbh_main.h"

#define BASE_WORK_MOST 20000u
/* A fit to one seed would fit the luck of that seed. */
#define NR_SEEDS 5u

struct fit {
	struct sim_machine machine;
	u64 seed;
	double refcache, vanilla; /* what the fitted machine gives */
};

static u32 nr_runs; /* a search does not know how many it needs */

static int fit_run(const struct fit *f, const char *scheme, double *ret_mops)
{
	struct drbh setup = { .scheme = count_scheme_find(scheme),
		              .nr_cpus = PAPER_CPUS,
		              .threads_per_process = 1 };
	struct sim_result result;
	double sum = 0;
	u64 i;
	int err;

	for (i = 0; i < NR_SEEDS; i++) {
		command_progress(nr_runs++, 0);
		err = drbh_run(&f->machine, f->seed + i, &setup, &result);
		if (err)
			return err;
		sum += result.mops;
	}
	*ret_mops = sum / NR_SEEDS;
	return 0;
}

/* Looks for the value of *parameter, 0 to most, from which on scheme reaches mops, and leaves it
 * there. slower: more of it makes everything slower, and the last value that still reaches mops
 * is the one. Otherwise it is the first. */
static int fit_search(struct fit *f, u32 *parameter, u32 most, bool slower,
                      const char *scheme, double wanted, double *ret_mops)
{
	u32 low = 0, high = most;
	int err = 0;

	while (low < high && !err) { /* At most 15 halvings. */
		double mops = 0;

		*parameter = low + (high - low + (slower ? 1 : 0)) / 2;
		err = fit_run(f, scheme, &mops);
		if (slower && mops >= wanted)
			low = *parameter;
		else if (slower)
			high = *parameter - 1;
		else if (mops >= wanted)
			high = *parameter;
		else
			low = *parameter + 1;
	}
	*parameter = low;
	return err ? err : fit_run(f, scheme, ret_mops);
}

static int fit_both(struct fit *f)
{
	int err = fit_search(f, &f->machine.base_work, BASE_WORK_MOST, true, "refcache",
	                     PAPER_REFCACHE, &f->refcache);

	if (!err)
		err = fit_search(f, &f->machine.same_socket_percent, 100, false,
		                 "atomic", PAPER_VANILLA, &f->vanilla);
	command_progress_end();
	return err;
}

static int fit_ends(const struct machine *m, u64 seed)
{
	u32 nr = 2 * m->nr_bands, i;
	int err = 0;

	for (i = 0; i < nr && !err; i++) {
		struct fit f = { .seed = seed };
		char name[MACHINE_FIT_BYTES];

		if (!machine_at(m, i / 2, i % 2, &f.machine, name))
			continue;
		err = fit_both(&f);
		if (!err)
			printf("%s = %u %u  # refcache %.1f, atomic %.3f Mops/s\n",
			       name, f.machine.base_work, f.machine.same_socket_percent,
			       f.refcache, f.vanilla);
		fflush(stdout);
	}
	return err;
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
		"Find base_work and same_socket_percent of 8x15 from the LODIC paper's RefCache "
		"and vanilla on 120 CPUs, all else being as the parameter file has it. Then "
		"find both for each end of each band. It takes a minute or two.",
		NULL,
		NULL,
		NULL
	};
	struct fit f = { .seed = 1 };
	struct machine machine;
	int err;

	if (argp_parse(&argp, argc, argv, 0, NULL, NULL) != 0)
		return COMMAND_USAGE;
	if (machine_read("8x15", NULL, &machine) != 0)
		return COMMAND_USAGE;
	if (!count_scheme_find("refcache")) {
		fprintf(stderr, "lodic-sim: no scheme 'refcache' in this build\n");
		return COMMAND_FAILED;
	}
	f.machine = machine.timing;
	err = fit_both(&f);
	if (!err) {
		printf("base_work = %u  # refcache %.2f Mops/s, the paper %.2f\n"
		       "same_socket_percent = %u  # atomic %.3f Mops/s, the paper %.3f\n",
		       f.machine.base_work, f.refcache, PAPER_REFCACHE,
		       f.machine.same_socket_percent, f.vanilla, PAPER_VANILLA);
		err = fit_ends(&machine, f.seed);
	}
	return err ? command_fail("fit", err) : EXIT_SUCCESS;
}
