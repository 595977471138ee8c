/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The part of counting in two programs. They are RocksDB on 100 processes, and a web
 * server on up to 50 (LODIC s.5.1, Fig. 7 and 8; LODIC s.1, Fig. 1). Neither program is
 * modelled. A request is some work of its own and one read of a block that all processes
 * want. The paper does not say how much work, so work is an axis here. The result is
 * what counting can do to a program with requests of that size.
 */
#include <stdio.h>

#include "sim/figures/fig_read.h"

#define MAPS_ABOVE 4u
#define NR_ROCKSDB 100u
#define NR_WEB 50u
/* A page of the database; index.html has 612 bytes. */
#define COPY_ROCKSDB 4096u
#define COPY_WEB 612u

static const char *const schemes[] = { "null",     "atomic", "frozen",
	                               "refcache", "paygo",  "lodic" };
#define NR_SCHEMES (sizeof(schemes) / sizeof(*schemes))

struct request {
	u32 nr_processes, copy_bytes;
	double work_us;
};

/* Throughput of each scheme, in requests. The window has room for a hundred requests
 * each. */
static int request_measure(struct fig_run *run, const struct sim_machine *machine,
                           u64 seed, void *arg, double *ret_values)
{
	const struct request *request = arg;
	double cycles = request->work_us * 1e6 / machine->cycle_ps;
	size_t i;
	int err = 0;

	(void)run;
	for (i = 0; i < NR_SCHEMES && !err; i++) {
		struct fig_read setup = {
			.scheme = count_scheme_find(schemes[i]),
			.nr_objects = 1,
			.nr_users = request->nr_processes,
			.copy_bytes = request->copy_bytes,
			.request_work = (u32)cycles,
			.nr_maps_above = MAPS_ABOVE,
			.warm_ns = 50000 + (u64)(request->work_us * 10e3),
			.window_ns = 100000 + (u64)(request->work_us * 60e3),
		};
		struct fig_read_result result = { 0 };

		if (setup.scheme)
			err = fig_read_run(machine, seed, &setup, &result);
		ret_values[i] = result.mops;
	}
	return err;
}

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

static int ratio_measure(struct fig_run *run, const struct sim_machine *machine,
                         u64 seed, void *arg, double *ret_values)
{
	double mops[NR_SCHEMES];
	size_t i;
	int err = request_measure(run, machine, seed, arg, mops);

	for (i = 0; i < NR_SCHEMES; i++)
		ret_values[i] = ratio(mops[i], mops[1]);
	return err;
}

static int run_ratios(struct fig_run *run, const char *panel, u32 nr_processes,
                      u32 copy_bytes, double paper)
{
	static const double works_us[] = { 1, 2, 4, 8, 16, 32, 64 };
	u32 step = run->options->quick ? 3 : 1;
	struct fig_band bands[NR_SCHEMES];
	size_t i, s;
	int err = 0;

	for (i = 0; i < sizeof(works_us) / sizeof(*works_us) && !err; i += step) {
		struct request request = { nr_processes, copy_bytes, works_us[i] };

		err = fig_measure(run, ratio_measure, &request, NR_SCHEMES, bands);
		for (s = 0; s < NR_SCHEMES && !err; s++) {
			if (s == 1 || !count_scheme_find(schemes[s]))
				continue;
			err = fig_add(run, panel, schemes[s], works_us[i], "ratio",
			              FIG_CONSEQUENCE, &bands[s],
			              s == NR_SCHEMES - 1 ? paper : FIG_NO_PAPER);
		}
	}
	return err;
}

static int run_applications(struct fig_run *run)
{
	static const u32 processes[] = { 1, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50 };
	u32 step = run->options->quick ? 5 : 1;
	struct fig_band bands[NR_SCHEMES];
	size_t i, s;
	int err = run_ratios(run, "100 processes, over atomic", NR_ROCKSDB,
	                     COPY_ROCKSDB, 1.23);

	if (!err)
		err = run_ratios(run, "50 processes, over atomic", NR_WEB, COPY_WEB,
		                 2.23);
	for (i = 0; i < sizeof(processes) / sizeof(*processes) && !err; i += step) {
		struct request request = { processes[i], COPY_WEB, 6 };

		err = fig_measure(run, request_measure, &request, NR_SCHEMES, bands);
		for (s = 0; s < NR_SCHEMES && !err; s++)
			if (count_scheme_find(schemes[s]))
				err = fig_add(run, "requests of 6 us", schemes[s],
				              processes[i], "Mops/s", FIG_CONSEQUENCE,
				              &bands[s], FIG_NO_PAPER);
	}
	return err;
}

const struct fig fig_applications = {
	.name = "applications",
	.paper = "LODIC Fig. 7, Fig. 8, Fig. 1",
	.title = "What counting can do to programs that read one block per request",
	.x = "us of a request's own work | us of a request's own work | processes",
	.modelled =
		"requests of a fixed amount of work, each with one read of the same block; "
		"throughput over that of atomic. The paper's ratios: 1.23 (RocksDB), 2.23 "
		"(NGINX; 2.5 in another place)",
	.left_out =
		"RocksDB, NGINX, the network, sockets and their counts. The paper does not "
		"say how long a request is: where the curve crosses its ratio is a "
		"consequence, not a prediction",
	.topology = "8x15",
	.simulated = true,
	.run = run_applications,
};
