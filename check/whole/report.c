/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What a search found, for people and for machines. */
#include <jansson.h>

#include "check/whole/search.h"

static void print_counts(const struct tally *all, bool is_whole)
{
	printf("%s%llu schedules, %llu steps: %llu reads, %llu pins, %llu services, "
	       "%llu of them full lives; hash %016llx: %s\n",
	       is_whole ? "" : "stopped: ", (unsigned long long)all->nr_schedules,
	       (unsigned long long)all->nr_steps, (unsigned long long)all->nr_reads,
	       (unsigned long long)all->nr_pins, (unsigned long long)all->nr_services,
	       (unsigned long long)all->nr_lives, (unsigned long long)all->hash,
	       all->failed ? "VIOLATED" : "no violation");
}

static void print_json(const struct tally *all, bool is_whole)
{
	json_t *row = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:b}", "schedules",
	                        (json_int_t)all->nr_schedules, "steps",
	                        (json_int_t)all->nr_steps, "reads",
	                        (json_int_t)all->nr_reads, "pins",
	                        (json_int_t)all->nr_pins, "services",
	                        (json_int_t)all->nr_services, "lives",
	                        (json_int_t)all->nr_lives, "stopped", (int)!is_whole,
	                        "violated", (int)all->failed);
	json_t *faults = json_object();
	char hash[20];

	snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)all->hash);
	json_object_set_new(row, "hash", json_string(hash));
	for (u32 i = 0; i < NR_FAULTS; i++)
		json_object_set_new(faults, fault_names[i],
		                    json_integer((json_int_t)all->nr_faults[i]));
	json_object_set_new(row, "faults", faults);
	if (all->failed) {
		json_object_set_new(row, "scenario", json_string(all->scenario));
		json_object_set_new(row, "seed", json_integer((json_int_t)all->seed));
		json_object_set_new(row, "what", json_string(all->what));
	}
	json_dumpf(row, stdout, JSON_INDENT(1));
	putchar('\n');
	json_decref(row);
}

void report_tally(const struct options *o, const struct tally *all, bool is_whole)
{
	if (o->json) {
		print_json(all, is_whole);
		return;
	}
	print_counts(all, is_whole);
	if (!all->failed)
		return;
	printf("\n%s, seed %llu: %s\nAgain:\n  lodic-check --whole --seed %llu --schedules 1",
	       all->scenario, (unsigned long long)all->seed, all->what,
	       (unsigned long long)all->seed);
	options_print(o, stdout);
	puts(" --trace");
}
