/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic-whole`: the search over schedules of the whole product. */
#include "check/whole/search.h"

#define EXIT_INTERRUPTED 130

static void print_list(void)
{
	puts("scenario");
	for (u32 i = 0; i < nr_scenarios; i++)
		puts(scenarios[i].name);
	puts("\nfault");
	for (u32 i = 0; i < NR_FAULTS; i++)
		puts(fault_names[i]);
}

int main(int argc, char **argv)
{
	struct options o;
	static struct tally all;
	bool is_whole;
	u32 nr_empty = 0;

	options_parse(&o, argc, argv);
	if (o.list) {
		print_list();
		return 0;
	}
	if (!o.json) {
		printf("seed=%llu\n", (unsigned long long)o.seed);
		fflush(stdout);
	}
	image_find();
	messages_begin();
	is_whole = search_run(&o, &all);
	report_tally(&o, &all, is_whole);
	if (o.coverage) {
		nr_empty = coverage_print(&all, o.json ? stderr : stdout);
		nr_empty += messages_print(&all, o.json ? stderr : stdout);
	}
	if (fflush(stdout) != 0 || ferror(stdout)) {
		perror("lodic-whole: stdout");
		return 1;
	}
	if (all.failed)
		return 1;
	return !is_whole ? EXIT_INTERRUPTED : nr_empty > 0;
}
