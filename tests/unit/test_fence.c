/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The posix host's heavy fence reaches every CPU that runs a thread of the process. That
 * includes a CPU where another thread of the process has just ended. A global expedited
 * membarrier(2) does not reach that one (seen on Linux 6.18; the source of 6.12 is alike).
 *
 * A fence on another CPU is an interrupt there, and Linux counts those.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "host/host.h"

#define NR_ROUNDS 10u  /* in which the other thread was not switched out */
#define NR_TRIES 1000u /* for those */
#define NR_FENCES 200u
#define MAX_LINE 8192

static u32 fence_cpu, thread_cpu;

static struct {
	u64 step; /* of a round: main writes odd ones, the thread answers by the next */
	u64 stop;
} world;

static void go_to_cpu(u32 cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* "CAL:  12  34  Function call interrupts", a column for each CPU that is online, as the
 * first line names them. Returns false where there is no such line. */
static bool nr_calls(u32 cpu, u64 *ret_nr)
{
	FILE *f = fopen("/proc/interrupts", "r");
	char line[MAX_LINE], name[16];
	bool found = false;
	int column = -1, nr_columns = 0;

	if (!f)
		return false;
	snprintf(name, sizeof(name), "CPU%u", cpu);
	if (fgets(line, sizeof(line), f))
		for (char *at = strtok(line, " \n"); at; at = strtok(NULL, " \n")) {
			if (strcmp(at, name) == 0)
				column = nr_columns;
			nr_columns++;
		}
	while (column >= 0 && !found && fgets(line, sizeof(line), f)) {
		char *at = strstr(line, "CAL:");

		if (!at)
			continue;
		at += strlen("CAL:");
		for (int i = 0; i <= column; i++)
			*ret_nr = strtoull(at, &at, 10);
		found = true;
	}
	fclose(f);
	return found;
}

static u64 nr_switches(void)
{
	struct rusage used;

	assert_int_equal(getrusage(RUSAGE_THREAD, &used), 0);
	return (u64)(used.ru_nvcsw + used.ru_nivcsw);
}

/* Runs on its CPU all the time, and answers how often it was switched out. */
static void *spinner(void *arg)
{
	u64 *answer = arg;
	u64 step = 1;

	go_to_cpu(thread_cpu);
	while (!host_load_acquire(&world.stop)) {
		if (host_load_acquire(&world.step) != step)
			continue;
		*answer = nr_switches();
		host_store_release(&world.step, step + 1);
		step += 2;
	}
	return NULL;
}

static void *ends_at_once(void *arg)
{
	(void)arg;
	go_to_cpu(thread_cpu);
	return NULL;
}

static u64 ask(const u64 *answer)
{
	u64 step = host_load_relaxed(&world.step) + 1;

	host_store_release(&world.step, step);
	while (host_load_acquire(&world.step) != step + 1)
		sched_yield();
	return *answer;
}

static void heavy_fence_reaches_a_cpu_where_a_thread_has_ended(void **state)
{
	u64 before, after, answer = 0;
	pthread_t thread, ending;
	u32 rounds = 0;

	(void)state;
	if (fence_cpu == thread_cpu || !nr_calls(thread_cpu, &before)) {
		print_message(
			"this test needs two CPUs and the CAL line of /proc/interrupts\n");
		skip();
	}
	go_to_cpu(fence_cpu);
	assert_int_equal(pthread_create(&thread, NULL, spinner, &answer), 0);
	for (u32 i = 0; i < NR_TRIES && rounds < NR_ROUNDS; i++) {
		u64 switches;

		assert_int_equal(pthread_create(&ending, NULL, ends_at_once, NULL), 0);
		pthread_join(ending, NULL);
		switches = ask(&answer);
		assert_true(nr_calls(thread_cpu, &before));
		for (u32 j = 0; j < NR_FENCES; j++)
			host_fence_heavy();
		assert_true(nr_calls(thread_cpu, &after));
		if (ask(&answer) != switches)
			continue;
		rounds++;
		if (after - before < NR_FENCES)
			fail_msg("%u fences, %llu of them reached CPU %u", NR_FENCES,
			         (unsigned long long)(after - before), thread_cpu);
	}
	host_store_release(&world.stop, 1);
	pthread_join(thread, NULL);
	if (rounds == 0) {
		print_message("the other thread was switched out in every round\n");
		skip();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heavy_fence_reaches_a_cpu_where_a_thread_has_ended),
	};
	cpu_set_t cpus;
	bool first = true;

	if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
		return 1;
	for (u32 cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &cpus))
			continue;
		if (first)
			fence_cpu = cpu;
		thread_cpu = cpu;
		first = false;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
