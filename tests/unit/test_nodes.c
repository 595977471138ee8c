/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Which nodes a machine has, as its folder says: sockets, memory without CPUs, CPUs without memory,
 * and no such folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "lib/service/memory/nodes.h"
#include "tests/support/cache_fixture.h"

static struct nodes nodes;
static u32 nr_folders;

static void put(const char *folder, const char *name, const char *text)
{
	char path[2 * FIXTURE_PATH_BYTES];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* cpus: of nodes 0, 1 ...; NULL ends them, "": none. */
static void look(const char *has_memory, const char *has_cpu, const char *const *cpus)
{
	char folder[FIXTURE_PATH_BYTES], node[2 * FIXTURE_PATH_BYTES], name[16];

	snprintf(name, sizeof(name), "n%u", nr_folders++);
	fixture_path(folder, name);
	mkdir(folder, 0700);
	put(folder, "has_memory", has_memory);
	put(folder, "has_cpu", has_cpu);
	for (u32 i = 0; cpus[i]; i++) {
		snprintf(node, sizeof(node), "%s/node%u", folder, i);
		mkdir(node, 0700);
		put(node, "cpulist", cpus[i]);
	}
	nodes_look(&nodes, folder);
}

static void look_two_sockets_slow_is_the_other(void **state)
{
	static const char *const cpus[] = { "0-3,8\n", "4-7\n", NULL };

	(void)state;
	look("0-1\n", "0-1\n", cpus);
	assert_int_equal(nodes.fast, 0);
	assert_int_equal(nodes.slow, 1);
	assert_int_equal(nodes.nr_near, 2);
	assert_int_equal(nodes.nr_cpus, 9);
	assert_int_equal(nodes_of_cpu(&nodes, 3), 0);
	assert_int_equal(nodes_of_cpu(&nodes, 4), 1);
	assert_int_equal(nodes_of_cpu(&nodes, 8), 0);
	/* What a program may say. */
	assert_int_equal(nodes_of_cpu(&nodes, ~(u64)0), 0);
}

static void look_memory_without_cpus_is_slow(void **state)
{
	static const char *const cpus[] = { "0\n", "1\n", "\n", NULL };

	(void)state;
	look("0-2\n", "0-1\n", cpus);
	assert_int_equal(nodes.fast, 0);
	assert_int_equal(nodes.slow, 2);
	assert_int_equal(nodes.nr_near, 2);
	assert_int_equal(nodes_of_cpu(&nodes, 1), 1);
}

static void look_cpus_without_memory_are_near_the_fast_one(void **state)
{
	static const char *const cpus[] = { "0-1\n", "2-3\n", NULL };

	(void)state;
	look("1\n", "0-1\n", cpus);
	assert_int_equal(nodes.fast, 1);
	assert_int_equal(nodes.slow, -1);
	assert_int_equal(nodes.nr_near, 1);
	assert_int_equal(nodes.nr_cpus, 4);
	assert_int_equal(nodes_of_cpu(&nodes, 0), 1);
	assert_int_equal(nodes_of_cpu(&nodes, 3), 1);
}

static void look_no_folder_or_no_sense_one_node(void **state)
{
	static const char *const none[] = { NULL };

	(void)state;
	for (u32 i = 0; i < 3; i++) {
		if (i == 0)
			nodes_look(&nodes, "/no/such/folder");
		else
			look(i == 1 ? "x\n" : "", "0\n", none);
		assert_int_equal(nodes.fast, -1);
		assert_int_equal(nodes.slow, -1);
		assert_int_equal(nodes.nr_near, 0);
		assert_int_equal(nodes.nr_cpus, 1);
		assert_int_equal(nodes_of_cpu(&nodes, 5), 0);
	}
}

int main(int argc, char **argv)
{
	const struct fixture_option options[] = { { 0 } };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(look_two_sockets_slow_is_the_other),
		cmocka_unit_test(look_memory_without_cpus_is_slow),
		cmocka_unit_test(look_cpus_without_memory_are_near_the_fast_one),
		cmocka_unit_test(look_no_folder_or_no_sense_one_node),
	};

	fixture_begin(argc, argv, options);
	return cmocka_run_group_tests_name("nodes", tests, NULL, NULL);
}
