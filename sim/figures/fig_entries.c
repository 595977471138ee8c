/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How many entries a CPU's table needs, where an entry owns a reference (scheme paygo_fold,
 * which is what the kernel series has). The paper's PAYGO uses an entry again as soon as its
 * count is 0. An entry that owns a reference stays until nobody has hit it for some time. So
 * a table can be full of entries that nobody holds, and what finds no room counts in the
 * global word. The size of the table decides how far that goes, and how many bytes of files
 * the entries keep in memory.
 *
 * The files are those of PAYGO Fig. 10, read at random. A table fills within a second or
 * more, which no window can wait for. So in the rows "N entries, filled" a reader makes an
 * entry at its first reference. In the rows "at a failed cas" readers make entries as the
 * kernel does, for the few milliseconds of a run.
 */
#include <stdio.h>

#include "sim/figures/fig_read.h"

#define NR_THREADS 96u
#define BLOCKS_PER_MIB 256u
#define SMALL_COPY_BYTES 64u
#define BLOCK_COPY_BYTES 4096u
#define WARM_NS 4000000u
/* Of the warm time, for each entry of a table: so that a CPU meets more blocks than its table
 * has entries. */
#define FILL_NS 2000u
#define WINDOW_NS 500000u
/* Longer than a run, as the kernel's second is: no entry is idle for so long. */
#define TICK_NS 10000000u
#define MAX_CPUS 120u /* of the papers' machines */

static const struct entries_series {
	const char *name, *scheme;
	u32 entries;
	bool eager;
	bool small; /* also in the panels of 64-byte reads */
} entries_series[] = {
	{ "atomic", "atomic", 0, false, true },
	{ "paygo", "paygo", 0, false, true },
	{ "64 entries, filled", "paygo_fold", 64, true, true },
	{ "512 entries, filled", "paygo_fold", 512, true, true },
	{ "4096 entries, filled", "paygo_fold", 4096, true, true },
	{ "64 entries, at a failed cas", "paygo_fold", 64, false, false },
	{ "512 entries, at a failed cas", "paygo_fold", 512, false, false },
};
#define NR_SERIES (sizeof(entries_series) / sizeof(*entries_series))

static const struct entries_panel {
	const char *reads, *counted;
	enum fig_access access;
	u32 copy_bytes;
} entries_panels[] = {
	{ "64 bytes of any block", "counted in an entry, 64 bytes of any block",
	  FIG_UNIFORM, SMALL_COPY_BYTES },
	{ "4 KiB by Zipf's law", "counted in an entry, 4 KiB by Zipf's law", FIG_ZIPF,
	  BLOCK_COPY_BYTES },
};
#define NR_PANELS (sizeof(entries_panels) / sizeof(*entries_panels))

enum { VALUE_MOPS, VALUE_COUNTED, NR_VALUES };

struct entries_point {
	const struct entries_series *series;
	const struct entries_panel *panel;
	const struct count_scheme *scheme;
	u32 mib;
};

static int entries_measure(struct fig_run *run, const struct sim_machine *machine,
                           u64 seed, void *arg, double *ret_values)
{
	const struct entries_point *point = arg;
	u64 warm_ns = (u64)point->series->entries * FILL_NS;
	bool quick = run->options->quick;
	struct fig_read setup = {
		.scheme = point->scheme,
		.nr_objects = point->mib * BLOCKS_PER_MIB,
		.nr_users = NR_THREADS,
		.access = point->panel->access,
		.copy_bytes = point->panel->copy_bytes,
		.table_entries = point->series->entries,
		.table_eager = point->series->eager,
		.tick_ns = TICK_NS,
		.caches =
			point->panel->copy_bytes < BLOCK_COPY_BYTES, /* else too long */
		.warm_ns = quick               ? WARM_NS / 10
		           : warm_ns > WARM_NS ? warm_ns
		                               : WARM_NS,
		.window_ns = quick ? WINDOW_NS / 5 : WINDOW_NS,
	};
	struct fig_read_result result;
	int err = fig_read_run(machine, seed, &setup, &result);
	u64 nr = result.nr_home + result.nr_away;

	if (err)
		return err;
	ret_values[VALUE_MOPS] = result.mops;
	ret_values[VALUE_COUNTED] =
		nr ? 100.0 * (double)(result.nr_entry_home + result.nr_entry_away) /
				(double)nr
		   : 0;
	return 0;
}

static int entries_add(struct fig_run *run, struct entries_point *point)
{
	struct fig_band bands[NR_VALUES];
	int err = fig_measure(run, entries_measure, point, NR_VALUES, bands);

	if (!err)
		err = fig_add(run, point->panel->reads, point->series->name, point->mib,
		              "Mops/s", FIG_PREDICTED, &bands[VALUE_MOPS],
		              FIG_NO_PAPER);
	if (!err && point->series->entries)
		err = fig_add(run, point->panel->counted, point->series->name,
		              point->mib, "percent", FIG_PREDICTED,
		              &bands[VALUE_COUNTED], FIG_NO_PAPER);
	return err;
}

/* What all entries keep in memory at most, if each of them keeps another block. */
static int entries_add_held(struct fig_run *run, const struct entries_series *series)
{
	double bytes = (double)MAX_CPUS * series->entries * BLOCK_COPY_BYTES;

	if (!series->eager)
		return 0;
	return fig_add_value(run, "files kept in memory at most, blocks of 4 KiB",
	                     series->name, MAX_CPUS, "MB", FIG_ARITHMETIC, bytes / 1e6,
	                     FIG_NO_PAPER);
}

static int run_entries(struct fig_run *run)
{
	static const u32 sizes_mib[] = { 1, 4, 16, 64 };
	u32 nr_sizes = run->options->quick ? 2 : 4;
	size_t p, s;
	u32 i;
	int err = 0;

	for (p = 0; p < NR_PANELS; p++)
		for (s = 0; s < NR_SERIES; s++)
			for (i = 0; i < nr_sizes && !err; i++) {
				struct entries_point point = {
					&entries_series[s], &entries_panels[p],
					count_scheme_find(entries_series[s].scheme),
					sizes_mib[i]
				};

				if (!point.scheme || (p == 0 && !point.series->small))
					continue;
				err = entries_add(run, &point);
			}
	for (s = 0; s < NR_SERIES && !err; s++)
		err = entries_add_held(run, &entries_series[s]);
	return err;
}

const struct fig fig_entries = {
	.name = "entries",
	.paper = "PAYGO Fig. 10, as a kernel can have it",
	.title = "How many entries a CPU's table needs when each owns a reference",
	.x = "MiB of the file that 96 threads read at random; in the last panel CPUs",
	.modelled =
		"the tables of paygo_fold with 64, 512 and 4096 entries a CPU in buckets of "
		"four; filled ones, and ones that fill where a cas fails; blocks alike, or "
		"by Zipf's law with exponent 0.98. Reads of 64 bytes have caches of the "
		"machine's size",
	.left_out =
		"caches for reads of 4 KiB: such a file is larger than they are. Entries "
		"that go after a second. A read of 64 bytes "
		"holds its block here for 5 ns, so short a time that a cas hardly ever "
		"fails: so those panels have filled tables only",
	.topology = "4x24",
	.simulated = true,
	.one_machine = true,
	.run = run_entries,
};
