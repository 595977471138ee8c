/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Machines from files (sim/machine.h), and the DRBH workload (sim/drbh.h):
 * which line each scheme moves is what the model is for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/drbh.h"

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
	} known[] = { { "8x15", 120 }, { "4x24", 96 }, { "4x128", 512 }, { "1x2", 2 } };
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
	assert_int_equal(read_text(
				 "nr_sockets = 1\ncpus_per_socket = 3\ncycle_ps = 400\n"
				 "hops = 0\n"),
	                 0);
	assert_int_equal(read_text("nr_sockets = 1\ncpus_per_socket = 3\nhops = 0\n"),
	                 -22);
	assert_int_equal(read_text(
				 "nr_sockets = 2\ncpus_per_socket = 3\ncycle_ps = 400\n"
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
		              .threads_per_process = threads,
		              .base_work = 1000 };
	struct machine m;

	assert_non_null(setup.scheme);
	assert_int_equal(machine_read("8x15", NULL, &m), 0);
	assert_int_equal(drbh_run(&m.timing, 1, &setup, r), 0);
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

int main(void)
{
	const struct CMUnitTest model[] = {
		cmocka_unit_test(machine_of_each_topology_is_read),
		cmocka_unit_test(machine_of_wrong_file_einval),
		cmocka_unit_test(drbh_transfers_tell_schemes_apart),
		cmocka_unit_test(drbh_every_scheme_runs),
	};

	return cmocka_run_group_tests(model, NULL, NULL);
}
