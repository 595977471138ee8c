/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Which entries of a CPU's table objects get. */
#define _GNU_SOURCE
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/counter/domain.h"
#include "lib/huge.h"

#define NR_OBJECTS 16u

static void ignore_release(struct lodic_counter *counter, void *arg)
{
	(void)counter;
	(void)arg;
}

/* How many entries of CPU 0 have the object's key. */
static u32 nr_entries_of(const struct lodic_domain *d, const struct lodic_counter *c)
{
	u32 nr = 0, i;

	for (i = 0; i < d->nr_entries; i++)
		nr += counter_entry(&d->core, 0, i)->key == (u64)(size_t)c;
	return nr;
}

/* Neither drives the other one out, or each get would go the slow way. */
static void two_objects_of_a_bucket_have_entries(void **state)
{
	const struct lodic_domain_options options = { .entries = 4,
		                                      .release = ignore_release };
	struct lodic_counter objects[NR_OBJECTS] = { { 0 } }, *two[2];
	struct lodic_domain *d;
	cpu_set_t before, first;
	uint64_t token;
	u32 i, nr = 0;

	(void)state;
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	assert_int_equal(lodic_domain_create(&options, &d), 0);
	if (!d->sequences || !counter_thread_sequences() ||
	    sched_setaffinity(0, sizeof(first), &first) != 0) {
		lodic_domain_destroy(d);
		skip();
	}
	for (i = 0; i < NR_OBJECTS && nr < 2; i++)
		if (counter_bucket(&d->core, (u64)(size_t)&objects[i]) == 0)
			two[nr++] = &objects[i];
	assert_int_equal(nr, 2);
	for (i = 0; i < 2; i++) {
		assert_true(lodic_counter_try_get(d, two[i], &token));
		lodic_counter_put(d, two[i], token);
	}
	for (i = 0; i < 2; i++)
		assert_int_equal(nr_entries_of(d, two[i]), 1);
	sched_setaffinity(0, sizeof(before), &before);
	lodic_domain_destroy(d);
}

/* Does the kernel have this flag (proc(5), VmFlags) for the memory at p? */
static bool memory_has_flag(const void *p, const char *flag)
{
	unsigned long at = (unsigned long)p, from, to;
	FILE *file = fopen("/proc/self/smaps", "re");
	bool inside = false, found = false;
	char line[4096];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = from <= at && at < to;
		else if (inside && strncmp(line, "VmFlags:", 8) == 0)
			found = strstr(line, flag) != NULL;
	}
	fclose(file);
	return found;
}

/* Small tables never do: a huge page would be more memory than they have. */
static void tables_ask_for_huge_pages_when_they_fill_one(void **state)
{
	struct lodic_domain_options options = { .entries = 4, .release = ignore_release };
	struct lodic_domain *d;

	(void)state;
	if (access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0)
		skip();
	assert_int_equal(lodic_domain_create(&options, &d), 0);
	assert_true(memory_has_flag(d->core.entries, " nh"));
	lodic_domain_destroy(d);
	options.entries = 1 << 17; /* 4 MiB a CPU */
	assert_int_equal(lodic_domain_create(&options, &d), 0);
	assert_true(memory_has_flag(d->core.entries, " hg"));
	assert_int_equal((u64)(size_t)d->core.entries % HUGE_PAGE_BYTES, 0);
	lodic_domain_destroy(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_objects_of_a_bucket_have_entries),
		cmocka_unit_test(tables_ask_for_huge_pages_when_they_fill_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
