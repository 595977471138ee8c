/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Many blocks instead of one. Per-CPU hashes fill up, and collisions take the place of
 * contention (PAYGO s.2, Fig. 2; PAYGO s.6, Fig. 8, 9 and 10). PAYGO can use an entry
 * again as soon as its count is back at 0. RefCache cannot before the entry's epoch
 * ends.
 *
 * The files are smaller than the papers' wherever a larger file would only add blocks
 * that no thread meets twice in the window. What matters is the number of blocks against
 * the entries of a hash.
 */
#include <stdio.h>

#include "sim/figures/fig_read.h"

#define NR_THREADS 96u
#define BLOCKS_PER_MIB 256u
#define SMALL_COPY_BYTES 64u
#define BLOCK_COPY_BYTES 4096u
/* Long enough that every thread has gone through more blocks than a hash has entries. */
#define WARM_NS 2500000u
#define WINDOW_NS 500000u
#define EPOCH_NS 10000000u /* RefCache's */

struct many {
	const struct count_scheme *scheme;
	u32 nr_threads, nr_files, blocks_per_file, copy_bytes;
	enum fig_access access;
};

static int many_measure(struct fig_run *run, const struct sim_machine *machine,
                        u64 seed, void *arg, double *ret_values)
{
	const struct many *many = arg;
	struct fig_read setup = {
		.scheme = many->scheme,
		.nr_objects = many->nr_files * many->blocks_per_file,
		.nr_files = many->nr_files,
		.nr_users = many->nr_threads,
		.access = many->access,
		.copy_bytes = many->copy_bytes,
		.tick_ns = EPOCH_NS,
		.caches = true,
		.warm_ns = run->options->quick ? WARM_NS / 10 : WARM_NS,
		.window_ns = run->options->quick ? WINDOW_NS / 5 : WINDOW_NS,
	};
	struct fig_read_result result;
	int err = fig_read_run(machine, seed, &setup, &result);

	ret_values[0] = result.mops;
	ret_values[1] = result.transfers_per_op;
	return err;
}

static int many_add(struct fig_run *run, const char *panel, struct many *many, double x)
{
	struct fig_band bands[2];
	int err;

	if (!many->scheme)
		return 0;
	err = fig_measure(run, many_measure, many, 2, bands);
	if (!err)
		err = fig_add(run, panel, many->scheme->name, x, "Mops/s",
		              FIG_PREDICTED, &bands[0], FIG_NO_PAPER);
	return err;
}

static int run_spectrum_of(struct fig_run *run, const char *panel, u32 copy_bytes,
                           const char *const *schemes, size_t nr_schemes)
{
	static const u32 sizes_mib[] = { 1, 4, 16, 32, 64 };
	u32 nr_sizes = run->options->quick ? 2 : 5;
	size_t s, i;
	int err = 0;

	for (s = 0; s < nr_schemes; s++)
		for (i = 0; i < nr_sizes && !err; i++) {
			struct many many = {
				.scheme = count_scheme_find(schemes[s]),
				.nr_threads = NR_THREADS,
				.nr_files = 1,
				.blocks_per_file = sizes_mib[i] * BLOCKS_PER_MIB,
				.copy_bytes = copy_bytes,
				.access = FIG_SEQUENTIAL,
			};

			err = many_add(run, panel, &many, sizes_mib[i]);
		}
	return err;
}

static int run_spectrum(struct fig_run *run)
{
	static const char *const all[] = { "atomic", "refcache", "refcache_sv6",
		                           "paygo" };
	static const char *const refcache[] = { "refcache", "refcache_sv6" };
	int err = run_spectrum_of(run, "reads of 64 bytes", SMALL_COPY_BYTES, all, 4);

	if (!err)
		err = run_spectrum_of(run, "reads of 4 KiB", BLOCK_COPY_BYTES, refcache,
		                      2);
	return err;
}

static int run_weak(struct fig_run *run)
{
	static const char *const schemes[] = { "atomic",   "snzi",         "snzi_sv6",
		                               "refcache", "refcache_sv6", "paygo" };
	static const u32 threads[] = { 1, 24, 96 };
	static const u32 files[] = { 1, 3, 8 };
	u32 step = run->options->quick ? 2 : 1;
	size_t s, i;
	int err = 0;

	for (s = 0; s < sizeof(schemes) / sizeof(*schemes); s++) {
		struct many many = {
			.scheme = count_scheme_find(schemes[s]),
			.copy_bytes = SMALL_COPY_BYTES,
			.access = FIG_UNIFORM,
		};

		for (i = 0; i < 3 && !err; i += step) {
			many.nr_threads = threads[i];
			many.nr_files = 10;
			many.blocks_per_file = 1638; /* 10 files, 64 MiB */
			err = many_add(run, "random reads from ten files, by threads",
			               &many, threads[i]);
		}
		for (i = 0; i < 3 && !err; i += step) {
			many.nr_threads = NR_THREADS;
			many.nr_files = files[i];
			many.blocks_per_file = 2048; /* 8 MiB */
			err = many_add(run, "random reads by 96 threads, by files",
			               &many, files[i]);
		}
	}
	return err;
}

const struct fig fig_spectrum = {
	.name = "spectrum",
	.paper = "PAYGO Fig. 2, Fig. 10",
	.title = "From one hot file to many blocks: collisions in per-CPU hashes",
	.x = "MiB of the file that 96 threads read in sequence",
	.modelled =
		"hashes of the schemes' own size, epochs of 10 ms, evictions through the "
		"object's shared word; caches of the machine's size.",
	.left_out =
		"the window is shorter than an epoch and begins with empty hashes. "
		"refcache drops a slot whose difference is 0 without touching the object; "
		"refcache_sv6 takes the object's lock, as the papers' RefCache does",
	.topology = "4x24",
	.simulated = true,
	.one_machine = true,
	.run = run_spectrum,
};

const struct fig fig_weak = {
	.name = "weak",
	.paper = "PAYGO Fig. 8, Fig. 9",
	.title = "Random reads of many blocks",
	.x = "threads | files",
	.modelled =
		"64-byte reads of random blocks: ten files by threads (Fig. 8), 96 threads "
		"by files (Fig. 9's throughput)",
	.left_out =
		"the papers' file sizes (10 x 128 MiB and n x 32 MiB; here 10 x 6.4 MiB "
		"and n x 8 MiB); XFS and its lock; Fig. 9's profile of the CPU",
	.topology = "4x24",
	.simulated = true,
	.one_machine = true,
	.run = run_weak,
};
