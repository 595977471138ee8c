/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What counting costs in memory, reckoned in two ways. One is the papers' arithmetic
 * (LODIC s.5.2.1, Fig. 9; LODIC s.2.2, Fig. 2). The other is count_cost() of this tree's
 * schemes.
 */
#include <errno.h>

#include "sim/figures/fig_read.h"

/* LODIC s.5.2.1. */
#define PAPER_CPUS 120u
#define PAPER_MEMORY_BYTES 780e9
#define PAPER_FRAMES (PAPER_MEMORY_BYTES / 4000) /* "195 M": it divides by 4000 */
#define PAPER_FRAME_META_BYTES 16.0
#define PAPER_REFCACHE_HASH_BYTES (64 * 1024.0)
#define PAPER_PAYGO_HASH_BYTES (256 * 1024.0)
#define TABLE_PAGE_BYTES 4096.0
#define TABLE_PAGE_REACH (512 * 4096.0)
/* LODIC s.2.2, and Fig. 2's caption. */
#define SLOPPY_PAGES 67e6
#define SLOPPY_DENTRIES 220e6
#define SLOPPY_DST_ENTRIES 32e3
#define SLOPPY_CPUS 128.0
#define SLOPPY_COUNT_BYTES 8.0 /* ours: 60 GB would be 7 */

#define MB 1e6
#define SAMPLE_OBJECTS 512u

/* Page tables that map so much of a file, in all processes. */
static double lodic_bytes(double file_bytes, double nr_processes)
{
	double pages = (u64)((file_bytes + TABLE_PAGE_REACH - 1) / TABLE_PAGE_REACH);

	return nr_processes * pages * TABLE_PAGE_BYTES;
}

static int memory_paper(struct fig_run *run)
{
	static const struct {
		double bytes, paper_mb;
	} files[] = { { 4096, 0.48 }, { 100 * MB, 24 }, { 1000 * MB, 240 } };
	const char *panel = "as the paper reckons, 780 GB and 120 CPUs";
	double meta = PAPER_FRAMES * PAPER_FRAME_META_BYTES;
	size_t i;
	int err = 0;

	for (i = 0; i < 3 && !err; i++) {
		double x = files[i].bytes / MB;

		err = fig_add_value(run, panel, "LODIC, 120 processes", x, "MB",
		                    FIG_ARITHMETIC,
		                    lodic_bytes(files[i].bytes, PAPER_CPUS) / MB,
		                    files[i].paper_mb);
		if (!err)
			err = fig_add_value(
				run, panel, "RefCache", x, "MB", FIG_ARITHMETIC,
				(meta + PAPER_CPUS * PAPER_REFCACHE_HASH_BYTES) / MB,
				3120);
		if (!err)
			err = fig_add_value(
				run, panel, "PAYGO", x, "MB", FIG_ARITHMETIC,
				(meta + PAPER_CPUS * PAPER_PAYGO_HASH_BYTES) / MB,
				3300);
	}
	if (!err)
		err = fig_add_value(
			run, "sloppy, 67 M pages and 128 CPUs", "sloppy", SLOPPY_CPUS,
			"MB", FIG_ARITHMETIC,
			SLOPPY_PAGES * SLOPPY_CPUS * SLOPPY_COUNT_BYTES / MB, 60000);
	return err;
}

/* LODIC Fig. 2 has a count of each object on each CPU. Beside it stands what the other schemes
 * of Table 1 would take for the same pages. */
static int memory_by_cpus(struct fig_run *run, double nr_cpus)
{
	double mapped = lodic_bytes(1000 * MB, nr_cpus);
	double meta = SLOPPY_PAGES * PAPER_FRAME_META_BYTES;
	const struct {
		const char *panel, *series;
		double bytes;
	} rows[] = {
		{ "sloppy, by kind of object", "struct page",
		  SLOPPY_PAGES * nr_cpus * SLOPPY_COUNT_BYTES },
		{ "sloppy, by kind of object", "dentry",
		  SLOPPY_DENTRIES * nr_cpus * SLOPPY_COUNT_BYTES },
		{ "sloppy, by kind of object", "dst_entry",
		  SLOPPY_DST_ENTRIES * nr_cpus * SLOPPY_COUNT_BYTES },
		{ "67 M pages, by CPUs", "sloppy",
		  SLOPPY_PAGES * nr_cpus * SLOPPY_COUNT_BYTES },
		{ "67 M pages, by CPUs", "RefCache",
		  meta + nr_cpus * PAPER_REFCACHE_HASH_BYTES },
		{ "67 M pages, by CPUs", "PAYGO",
		  meta + nr_cpus * PAPER_PAYGO_HASH_BYTES },
		{ "67 M pages, by CPUs", "LODIC, 1 GB mapped on each", mapped },
	};
	size_t i;
	int err = 0;

	for (i = 0; i < sizeof(rows) / sizeof(*rows) && !err; i++)
		err = fig_add_value(run, rows[i].panel, rows[i].series, nr_cpus, "MB",
		                    FIG_ARITHMETIC, rows[i].bytes / MB, FIG_NO_PAPER);
	return err;
}

/* All memory of a scheme over nr objects, for the machine's CPUs and as many users. */
static int memory_total(const struct sim_machine *machine, u64 seed,
                        const struct count_scheme *scheme, u32 nr, double *ret_bytes)
{
	u32 nr_cpus = machine->nr_sockets * machine->cpus_per_socket;
	struct fig_world world;
	struct count_cost cost;
	int err;

	sim_begin(machine, seed);
	err = fig_world_make(&world, scheme, nr, 1, nr_cpus, 64);
	if (err)
		return err;
	count_cost(&world.count, &cost);
	*ret_bytes = (double)cost.object_bytes * nr + (double)cost.cpu_bytes * nr_cpus +
	             (double)cost.user_bytes * nr_cpus;
	return 0;
}

/* It takes two sizes, because a scheme may book an object's memory anywhere: sloppy's
 * counts of a CPU grow with the objects. */
int fig_memory_of(const struct sim_machine *machine, u64 seed,
                  const struct count_scheme *scheme, double *ret_per_object,
                  double *ret_fixed)
{
	double small, large;
	int err = memory_total(machine, seed, scheme, SAMPLE_OBJECTS, &small);

	if (!err)
		err = memory_total(machine, seed, scheme, 2 * SAMPLE_OBJECTS, &large);
	if (err)
		return err;
	*ret_per_object = (large - small) / SAMPLE_OBJECTS;
	*ret_fixed = small - *ret_per_object * SAMPLE_OBJECTS;
	return 0;
}

static int memory_scheme(struct fig_run *run, const struct count_scheme *scheme)
{
	double per_object, fixed;
	int err = fig_memory_of(&run->machines[0], run->seed, scheme, &per_object,
	                        &fixed);

	if (!err)
		err = fig_add_value(run, "as built here, of one object", scheme->name,
		                    0, "bytes", FIG_ARITHMETIC, per_object,
		                    FIG_NO_PAPER);
	if (!err)
		err = fig_add_value(run, "as built here, of no object", scheme->name, 0,
		                    "bytes", FIG_ARITHMETIC, fixed, FIG_NO_PAPER);
	if (!err)
		err = fig_add_value(run, "as built here, 195 M frames", scheme->name, 0,
		                    "MB", FIG_ARITHMETIC,
		                    (fixed + per_object * PAPER_FRAMES) / MB,
		                    FIG_NO_PAPER);
	return err;
}

static int run_memory(struct fig_run *run)
{
	int err = memory_paper(run);
	u32 i;

	for (i = 1; i <= (u32)SLOPPY_CPUS && !err; i *= 2)
		err = memory_by_cpus(run, i);
	for (i = 0; i < count_nr_schemes && !err; i++)
		if (!count_schemes[i]->is_rival)
			err = memory_scheme(run, count_schemes[i]);
	return err;
}

const struct fig fig_memory = {
	.name = "memory",
	.paper = "LODIC Fig. 9, Fig. 2",
	.title = "Memory for counting",
	.x = "MB of the file that are mapped | CPUs | CPUs | CPUs",
	.modelled =
		"arithmetic on the paper's sizes; count_cost() of each scheme of this "
		"tree for 120 CPUs and 120 users, a cache line for every word that is "
		"shared",
	.left_out =
		"the allocator; LODIC's ptes, which are there for the mapping anyway and "
		"which count_cost() does not book; that a kernel would keep 8 bytes of an "
		"object where this tree keeps a line",
	.topology = "8x15",
	.run = run_memory,
};
