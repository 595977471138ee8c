/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Machines from files (sim/machine.h), and the DRBH workload (sim/drbh.h): the model
 * exists to say which line each scheme moves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/drbh_main.h"
#include "sim/drbh_verdict.h"
#include "sim/figures/fig_read.h"
#include "sim/keys.h"

static u64 transfers_of(const struct sim_result *r, const char *name)
{
	for (u32 i = 0; i < r->nr_lines; i++)
		if (strcmp(r->lines[i].name, name) == 0)
			return r->lines[i].transfers;
	fail_msg("no line is called %s", name);
	return 0;
}

static void machine_of_each_topology_is_read(void **state)
{
	static const struct {
		const char *name;
		u32 nr_cpus;
	} known[] = { { "8x15", 120 },
		      { "4x24", 96 },
		      { "4x128", 512 },
		      { "2x12", 24 },
		      { "2x64", 128 },
		      { "1x16", 16 },
		      { "1x2", 2 } };
	static struct sim_machine set[MACHINE_MAX_SET];
	struct machine m;

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		assert_int_equal(machine_read(known[i].name, NULL, &m), 0);
		assert_int_equal(machine_nr_cpus(&m), known[i].nr_cpus);
		assert_string_equal(m.timing.name, known[i].name);
		assert_int_equal(strlen(m.hash), 16);
		assert_true(m.timing.load_dirty[0] >= m.timing.load_shared[0]);
		assert_in_range(machine_set(&m, set), 5, MACHINE_MAX_SET);
		for (u32 j = 1; j < machine_set(&m, set); j++)
			assert_memory_not_equal(&set[j], &set[0], sizeof(set[0]));
	}
	assert_int_equal(machine_read("host", NULL, &m), 0);
	assert_int_equal(machine_nr_cpus(&m), sysconf(_SC_NPROCESSORS_ONLN));
}

#define CACHES "private_kib = 1\nprivate_ways = 1\nshared_kib = 1\nshared_ways = 1\n"

static int read_text(const char *topology)
{
	char path[] = "/tmp/lodic-topology-XXXXXX";
	int fd = mkstemp(path);
	struct machine m;
	int err;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, topology, strlen(topology)), strlen(topology));
	close(fd);
	err = machine_read(path, "xeon-ex", &m);
	unlink(path);
	return err;
}

static void machine_of_wrong_file_einval(void **state)
{
	(void)state;
	assert_int_equal(
		read_text("nr_sockets = 1\ncpus_per_socket = 3\ncycle_ps = 400\n" CACHES
	                  "hops = 0\n"),
		0);
	assert_int_equal(read_text("nr_sockets = 1\ncpus_per_socket = 3\n" CACHES
	                           "hops = 0\n"),
	                 -22);
	assert_int_equal(
		read_text("nr_sockets = 2\ncpus_per_socket = 3\ncycle_ps = 400\n" CACHES
	                  "hops = 0 1\nhops = 2 0\n"),
		-22);
	assert_int_equal(read_text("nr_sockets = 9\n"), -22);
	assert_int_equal(read_text("nr_sockets = 1 1\n"), -22);
	assert_int_equal(read_text("nonsense\n"), -22);
	assert_int_equal(read_text("nr_sockets = 8\ncpus_per_socket = 4000000000\n"),
	                 -22);
	assert_int_equal(machine_read("/tmp", NULL, &(struct machine){ 0 }), -22);
	assert_int_equal(machine_read("no such", NULL, &(struct machine){ 0 }), -2);
}

static void drbh(const char *scheme, u32 cpus, u32 threads, struct sim_result *r)
{
	struct drbh setup = { .scheme = count_scheme_find(scheme),
		              .nr_cpus = cpus,
		              .threads_per_process = threads };
	struct machine m;

	assert_non_null(setup.scheme);
	assert_int_equal(machine_read("8x15", NULL, &m), 0);
	assert_int_equal(drbh_run(&m.timing, 1, &setup, r), 0);
}

static bool is_near(double a, double b, double share)
{
	return a > b * (1 - share) && a < b * (1 + share);
}

/* At each end of each band both fits hold: RefCache's rate and vanilla's, on 120 CPUs. */
static void machines_of_the_band_are_fitted(void **state)
{
	static struct sim_machine set[MACHINE_MAX_SET];
	struct machine m;
	u32 nr;

	(void)state;
	assert_int_equal(machine_read("8x15", NULL, &m), 0);
	nr = machine_set(&m, set);
	for (u32 i = 0; i < nr; i++) {
		struct drbh setup = { .scheme = count_scheme_find("refcache"),
			              .nr_cpus = PAPER_CPUS,
			              .threads_per_process = 1 };
		struct sim_result r;

		assert_int_equal(drbh_run(&set[i], 1, &setup, &r), 0);
		assert_true(is_near(r.mops, PAPER_REFCACHE, 0.02));
		setup.scheme = &count_atomic;
		assert_int_equal(drbh_run(&set[i], 1, &setup, &r), 0);
		assert_true(is_near(r.mops, PAPER_VANILLA, 0.05));
	}
}

/* Two threads of a process meet at the address-space lock, besides the pte. */
static void drbh_locks_the_address_space(void **state)
{
	struct drbh setup = { .scheme = count_scheme_find("lodic"),
		              .nr_cpus = 30,
		              .threads_per_process = 2 };
	struct sim_result locked, not_locked, r;
	struct machine m;

	(void)state;
	assert_int_equal(machine_read("8x15", NULL, &m), 0);
	assert_int_equal(drbh_run(&m.timing, 1, &setup, &locked), 0);
	assert_true(transfers_of(&locked, "address-space lock") > locked.ops);
	setup.no_space_lock = true;
	assert_int_equal(drbh_run(&m.timing, 1, &setup, &not_locked), 0);
	assert_true(not_locked.mops > 1.2 * locked.mops);
	/* Schemes without ptes, and one that looks at a table first, take none. */
	setup.no_space_lock = false;
	setup.scheme = count_scheme_find("hybrid");
	assert_int_equal(drbh_run(&m.timing, 1, &setup, &r), 0);
	for (u32 i = 0; i < r.nr_lines; i++)
		assert_string_not_equal(r.lines[i].name, "address-space lock");
}

static void drbh_transfers_tell_schemes_apart(void **state)
{
	struct sim_result r, one;

	(void)state;
	drbh("lodic", 1, 1, &one);
	drbh("lodic", 30, 1, &r);
	assert_true(drbh_transfers_per_op(&r) < 0.01);
	assert_true(r.mops > 27 * one.mops);
	drbh("atomic", 30, 1, &r);
	assert_true(drbh_transfers_per_op(&r) >= 2);
	assert_true(transfers_of(&r, "counter") >= 2 * r.ops);
	assert_true(r.mops < 10 * one.mops);
	drbh("lodic", 30, 15, &r);
	assert_true(drbh_transfers_per_op(&r) >= 2);
}

static void drbh_every_scheme_runs(void **state)
{
	struct sim_result r;

	(void)state;
	for (u32 i = 0; i < count_nr_schemes; i++) {
		drbh(count_schemes[i]->name, 8, 1, &r);
		assert_true(r.ops > 10);
	}
}

/* The figures' reads, on 8x15. */
static struct fig_read_result reading(struct fig_read setup)
{
	struct fig_read_result result;
	struct machine m;

	setup.copy_bytes = 4096;
	assert_int_equal(machine_read("8x15", NULL, &m), 0);
	assert_int_equal(fig_read_run(&m.timing, 1, &setup, &result), 0);
	assert_true(result.nr_failed == 0);
	return result;
}

static double figure_mops(const struct count_scheme *scheme)
{
	struct fig_read setup = { .scheme = scheme, .nr_objects = 1, .nr_users = 30 };

	return reading(setup).mops;
}

/* 120 CPUs on one word make few operations, and each CPU's first one brings its buffer from
 * memory: 64 lines. */
static void reading_of_collapsed_scheme_is_warm(void **state)
{
	struct fig_read setup = { .scheme = &count_atomic,
		                  .nr_objects = 1,
		                  .nr_users = 120 };
	struct sim_result r;

	(void)state;
	drbh("atomic", 120, 1, &r);
	assert_true(is_near(reading(setup).transfers_per_op, drbh_transfers_per_op(&r),
	                    0.03));
}

/* 30 threads in 8 processes of 4: the last one has 2. */
static void reading_of_processes_equals_drbh(void **state)
{
	struct fig_read setup = { .scheme = count_scheme_find("lodic"),
		                  .nr_objects = 1,
		                  .nr_users = 8,
		                  .threads_per_user = 4,
		                  .nr_threads = 30 };
	struct fig_read_result result = reading(setup);
	struct sim_result r;

	(void)state;
	drbh("lodic", 30, 4, &r);
	assert_true(drbh_transfers_per_op(&r) > 2);
	assert_true(is_near(result.transfers_per_op, drbh_transfers_per_op(&r), 0.03));
	assert_true(is_near(result.mops, r.mops, 0.03));
}

static void reading_counts_where_references_end(void **state)
{
	struct fig_read setup = { .scheme = &count_paygo,
		                  .nr_objects = 1,
		                  .nr_users = 30 };
	struct fig_read_result result = reading(setup);

	(void)state;
	assert_true(result.nr_home > 3000);
	assert_true(result.nr_away == 0);
	assert_true(result.transfers_per_op < 0.01);
	/* One in ten; each is two transfers, of the anchor's line there and back. */
	setup.split_per_million = 100000;
	result = reading(setup);
	assert_true(is_near((double)result.nr_away,
	                    (double)(result.nr_home + result.nr_away) / 10, 0.1));
	assert_true(result.transfers_per_op > 0.1);
}

static u64 waited(const struct fig_read_result *result, const char *name)
{
	for (u32 i = 0; i < result->all.nr_lines; i++)
		if (strcmp(result->all.lines[i].name, name) == 0)
			return result->all.lines[i].wait_ns;
	return 0;
}

static void reading_by_word_names_what_it_waits_for(void **state)
{
	struct fig_read setup = { .scheme = &count_atomic,
		                  .nr_objects = 1,
		                  .nr_users = 60,
		                  .by_word = true };
	struct fig_read_result result = reading(setup);

	(void)state;
	assert_true(waited(&result, "counter") > 0);
	assert_true(waited(&result, "other") == 0);
	setup.scheme = count_scheme_find("lodic");
	setup.threads_per_user = 2;
	setup.nr_users = 30;
	result = reading(setup);
	assert_true(waited(&result, "process space") > waited(&result, "counter"));
	assert_true(waited(&result, "other") == 0);
}

/* XFS's lock is one word of a file: two additions a read, and each fetches the line. */
static void reading_under_file_lock_moves_its_line(void **state)
{
	struct fig_read setup = { .scheme = &count_paygo,
		                  .nr_objects = 30,
		                  .nr_users = 30,
		                  .access = FIG_SEQUENTIAL,
		                  .file_lock = true };

	(void)state;
	assert_true(is_near(reading(setup).transfers_per_op, 2, 0.1));
	/* A lock for each file: with as many files as readers they seldom meet. */
	setup.nr_files = 30;
	assert_true(reading(setup).mops > 0);
	assert_true(reading(setup).nr_failed == 0);
}

/* Threads of one process meet in one pte. hybrid counts on its CPUs from then on. */
static void reading_of_hybrid_keeps_rate_with_threads(void **state)
{
	static const u32 threads[] = { 1, 2, 16 };
	struct fig_read_result result[3], plain;
	struct fig_read setup = { .scheme = count_scheme_find("hybrid"),
		                  .nr_objects = 1,
		                  .nr_threads = 120,
		                  .scatter = true };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		setup.threads_per_user = threads[i];
		setup.nr_users = (120 + threads[i] - 1) / threads[i];
		result[i] = reading(setup);
	}
	/* Alone in its process, a thread never fails. One of each pair stays with its pte. */
	assert_true(result[0].nr_entry_home == 0);
	assert_true(result[1].mops > 0.9 * result[0].mops);
	assert_true(result[1].nr_entry_home > result[1].nr_home / 3);
	assert_true(result[2].mops > 0.9 * result[0].mops);
	assert_true(result[2].nr_entry_home > result[2].nr_home * 3 / 4);
	assert_true(result[2].transfers_per_op < 0.1);
	setup.scheme = count_scheme_find("lodic");
	plain = reading(setup);
	assert_true(plain.mops < 0.3 * result[0].mops);
	assert_true(plain.nr_entry_home == 0);
}

static void reading_of_table_counts_in_its_entries(void **state)
{
	struct fig_read setup = { .scheme = count_scheme_find("paygo_fold"),
		                  .nr_objects = 256,
		                  .nr_users = 8,
		                  .access = FIG_UNIFORM,
		                  .table_entries = 64,
		                  .table_eager = true,
		                  .split_per_million = 100000,
		                  .warm_ns = 1000000,
		                  .window_ns = 1000000 };
	struct fig_read_result result = reading(setup);

	(void)state;
	assert_true(is_near((double)(result.nr_entry_home + result.nr_entry_away),
	                    (double)(result.nr_home + result.nr_away) * 64 / 256, 0.1));
	assert_true(is_near((double)result.nr_entry_away,
	                    (double)result.nr_away * 64 / 256, 0.2));
	setup.table_entries = 0; /* 512 */
	result = reading(setup);
	assert_true(result.nr_entry_home == result.nr_home);
	assert_true(result.nr_entry_away == result.nr_away);
	setup.table_eager = false; /* 8 CPUs seldom meet on 256 blocks */
	result = reading(setup);
	assert_true(result.nr_entry_home < result.nr_home / 10);
}

/* After a drain of all CPUs the readers meet on the global word, until all have entries. */
static void reading_of_drained_table_makes_entries_again(void **state)
{
	struct fig_read setup = { .scheme = count_scheme_find("paygo_fold"),
		                  .nr_objects = 1,
		                  .nr_users = 60 };
	struct fig_read_result kept = reading(setup), drained;

	(void)state;
	setup.drain_ns = 20000;
	drained = reading(setup);
	assert_true(kept.transfers_per_op < 0.001);
	assert_true(drained.transfers_per_op > 0.01);
	assert_true(drained.mops < 0.9 * kept.mops);
	assert_true(drained.nr_entry_home > drained.nr_home / 2);
	assert_true(drained.nr_entry_home < drained.nr_home);
}

/* Under Zipf's law the hottest of 256 blocks gets every sixth read. */
static void reading_by_zipf_contends(void **state)
{
	struct fig_read setup = { .scheme = &count_atomic,
		                  .nr_objects = 256,
		                  .nr_users = 120,
		                  .access = FIG_UNIFORM };
	double uniform = reading(setup).mops, zipf, spread;

	(void)state;
	setup.access = FIG_ZIPF;
	zipf = reading(setup).mops;
	assert_true(zipf < uniform / 2);
	setup.access = FIG_ONE;
	assert_true(reading(setup).mops < zipf / 2);
	/* Readers that all begin at the first block meet there. */
	setup.access = FIG_SEQUENTIAL;
	spread = reading(setup).mops;
	setup.from_start = true;
	assert_true(reading(setup).mops < 0.95 * spread);
}

/* Both workloads recognise a scheme by what it is, never by its name or address. */
static void drbh_of_renamed_scheme_equals(void **state)
{
	static const char *const names[] = { "atomic", "frozen",     "lodic",
		                             "hazard", "paygo_fold", "hybrid" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct count_scheme clone = *count_scheme_find(names[i]);
		struct drbh setup = { .scheme = &clone,
			              .nr_cpus = 30,
			              .threads_per_process = 1 };
		struct sim_result r, renamed;
		struct machine m;

		clone.name = i % 2 ? "lodic_mine" : "mine";
		assert_int_equal(machine_read("8x15", NULL, &m), 0);
		drbh(names[i], 30, 1, &r);
		assert_int_equal(drbh_run(&m.timing, 1, &setup, &renamed), 0);
		assert_int_equal(r.ops, renamed.ops);
		assert_int_equal(r.transfers, renamed.transfers);
		assert_true(figure_mops(count_scheme_find(names[i])) ==
		            figure_mops(&clone));
	}
}

static struct drbh_point point(u32 cpus, double mops, u64 counter_transfers)
{
	return (struct drbh_point){
		.setup.nr_cpus = cpus,
		.result = { .ops = 100,
		            .mops = mops,
		            .nr_lines = 2,
		            .lines = { { .name = "frame", .transfers = 1 },
		                       { .name = "counter",
		                         .transfers = counter_transfers } } },
	};
}

static void judge_of_points_tells_three_apart(void **state)
{
	struct drbh_point p[3] = { point(1, 1, 0), point(10, 9, 0), point(100, 60, 0) };
	struct drbh_verdict v = { .line = NULL };

	(void)state;
	assert_false(drbh_judge(p, 1, &v));
	assert_true(drbh_judge(p, 3, &v));
	assert_int_equal(v.judgement, DRBH_SCALES);
	assert_int_equal(v.peak_cpus, 100);
	assert_string_equal(v.line, "frame");
	/* Less than half of 100 times one CPU's, and its own peak. */
	p[2] = point(100, 40, 300);
	assert_true(drbh_judge(p, 3, &v));
	assert_int_equal(v.judgement, DRBH_FALLS_BEHIND);
	assert_true(v.straight_mops == 100);
	/* Just half of its peak is no collapse; less is. The order does not matter. */
	p[2] = point(100, 4.5, 300);
	assert_true(drbh_judge(p, 3, &v));
	assert_int_equal(v.judgement, DRBH_FALLS_BEHIND);
	p[0] = point(100, 4.4, 300);
	p[2] = point(1, 1, 0);
	assert_true(drbh_judge(p, 3, &v));
	assert_int_equal(v.judgement, DRBH_COLLAPSES);
	assert_int_equal(v.peak_cpus, 10);
	assert_int_equal(v.most_cpus, 100);
	assert_string_equal(v.line, "counter");
	assert_true(v.line_transfers == 3);
}

static void judge_of_schemes_finds_the_collapse(void **state)
{
	struct drbh_point p[3] = { 0 };
	static const u32 cpus[] = { 1, 15, 120 };
	struct drbh_verdict v;

	(void)state;
	for (u32 i = 0; i < 3; i++) {
		p[i].setup.nr_cpus = cpus[i];
		drbh("atomic", cpus[i], 1, &p[i].result);
	}
	assert_true(drbh_judge(p, 3, &v));
	assert_int_equal(v.judgement, DRBH_COLLAPSES);
	assert_int_equal(v.peak_cpus, 15);
	assert_string_equal(v.line, "counter");
	for (u32 i = 0; i < 3; i++)
		drbh("lodic", cpus[i], 1, &p[i].result);
	assert_true(drbh_judge(p, 3, &v));
	assert_int_equal(v.judgement, DRBH_SCALES);
}

static int find_data(void **state)
{
	(void)state;
	return keys_look_in(LODIC_MODEL_DIR);
}

int main(void)
{
	const struct CMUnitTest model[] = {
		cmocka_unit_test(machine_of_each_topology_is_read),
		cmocka_unit_test(machine_of_wrong_file_einval),
		cmocka_unit_test(machines_of_the_band_are_fitted),
		cmocka_unit_test(drbh_locks_the_address_space),
		cmocka_unit_test(drbh_transfers_tell_schemes_apart),
		cmocka_unit_test(drbh_every_scheme_runs),
		cmocka_unit_test(reading_of_collapsed_scheme_is_warm),
		cmocka_unit_test(reading_of_processes_equals_drbh),
		cmocka_unit_test(reading_counts_where_references_end),
		cmocka_unit_test(reading_by_word_names_what_it_waits_for),
		cmocka_unit_test(reading_under_file_lock_moves_its_line),
		cmocka_unit_test(reading_of_hybrid_keeps_rate_with_threads),
		cmocka_unit_test(reading_of_table_counts_in_its_entries),
		cmocka_unit_test(reading_of_drained_table_makes_entries_again),
		cmocka_unit_test(reading_by_zipf_contends),
		cmocka_unit_test(drbh_of_renamed_scheme_equals),
		cmocka_unit_test(judge_of_points_tells_three_apart),
		cmocka_unit_test(judge_of_schemes_finds_the_collapse),
	};

	return cmocka_run_group_tests(model, find_data, NULL);
}
