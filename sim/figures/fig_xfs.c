/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * All CPUs read one block of a file on XFS. XFS takes the inode's rw-semaphore for reading
 * around each buffered read (xfs_ilock(), PAYGO s.6.2.3). So a read adds twice to one word of
 * the file, besides what a scheme counts. No scheme of counting takes that away (LODIC s.5.2.3,
 * Fig. 14 (d); PAYGO s.6.2.1).
 */
#include <string.h>

#include "sim/figures/fig_read.h"

#define BLOCK_COPY_BYTES 4096u
#define MAPS_ABOVE 4u
#define IDLE_SHARERS 4u
#define PAPER_CPUS 120u
#define PAPER_RATIO 2 /* "as much as 2x" (LODIC s.5.2.3) */
#define VALUES_EACH 3u

static const char *const xfs_schemes[] = { "atomic", "refcache", "paygo", "lodic",
	                                   "null" };
#define NR_SCHEMES (sizeof(xfs_schemes) / sizeof(*xfs_schemes))

static int xfs_measure(struct fig_run *run, const struct sim_machine *machine, u64 seed,
                       void *arg, double *ret_values)
{
	u32 nr_cpus = *(const u32 *)arg;
	size_t i;
	int err = 0;

	(void)run;
	for (i = 0; i < NR_SCHEMES && !err; i++) {
		struct fig_read setup = {
			.scheme = count_scheme_find(xfs_schemes[i]),
			.nr_objects = 1,
			.nr_users = nr_cpus,
			.nr_idle_users = IDLE_SHARERS,
			.copy_bytes = BLOCK_COPY_BYTES,
			.nr_maps_above = MAPS_ABOVE,
			.file_lock = true,
		};
		struct fig_read_result result;
		double *v = &ret_values[i * VALUES_EACH];

		err = fig_read_run(machine, seed, &setup, &result);
		v[0] = result.mops;
		v[1] = result.mops / ret_values[0];
		v[2] = result.transfers_per_op;
	}
	return err;
}

static int xfs_add(struct fig_run *run, u32 nr_cpus, const struct fig_band *bands)
{
	size_t i;
	int err = 0;

	for (i = 0; i < NR_SCHEMES && !err; i++) {
		const struct fig_band *b = &bands[i * VALUES_EACH];
		const char *name = xfs_schemes[i];
		bool in_paper = nr_cpus == PAPER_CPUS && strcmp(name, "lodic") == 0;

		err = fig_add(run, "one block, all CPUs, XFS", name, nr_cpus, "Mops/s",
		              FIG_PREDICTED, &b[0], FIG_NO_PAPER);
		if (!err)
			err = fig_add(run, "ratio to atomic", name, nr_cpus, "ratio",
			              FIG_EXPLAINED, &b[1],
			              in_paper ? PAPER_RATIO : FIG_NO_PAPER);
		if (!err)
			err = fig_add(run, "line transfers of an operation", name,
			              nr_cpus, "transfers", FIG_PREDICTED, &b[2],
			              FIG_NO_PAPER);
	}
	return err;
}

static int run_xfs(struct fig_run *run)
{
	static const u32 cpus[] = { 1, 4, 15, 30, 60, 120 };
	struct fig_band bands[NR_SCHEMES * VALUES_EACH];
	u32 step = run->options->quick ? 5 : 1;
	u32 i;
	int err = 0;

	for (i = 0; i < 6 && !err; i += step) {
		u32 nr_cpus = cpus[i];

		err = fig_measure(run, xfs_measure, &nr_cpus, NR_SCHEMES * VALUES_EACH,
		                  bands);
		if (!err)
			err = xfs_add(run, nr_cpus, bands);
	}
	return err;
}

const struct fig fig_xfs = {
	.name = "xfs",
	.paper = "LODIC Fig. 14 (d)",
	.title = "All CPUs read one 4 KiB block of a file on XFS",
	.x = "CPUs, a process of one thread on each",
	.modelled =
		"as LODIC Fig. 14, and the inode's rw-semaphore, taken for reading around "
		"each read: an addition to one word of the file before, and one after",
	.left_out =
		"all else of XFS; that the semaphore and other words of the inode may share "
		"a line",
	.topology = "8x15",
	.simulated = true,
	.few_machines = true,
	.run = run_xfs,
};
