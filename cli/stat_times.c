/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: cli/stat_times.h. */
#include "cli/stat_times.h"

#include <string.h>

#define NS_PER_S 1e9
#define NS_PER_US 1000u
#define LAST (LOOK_TIME_BUCKETS - 1)

static const struct {
	const char *name, *meaning;
} kinds[LOOK_NR_TIMES] = {
	[LOOK_TIMES_FILL] = { "fill", "reads of files into the cache" },
	[LOOK_TIMES_MISS] = { "miss",
	                      "from the hint of a reader to its blocks in the cache" },
};

static int times_take(void *ctx, const void *record)
{
	struct look_times *times = ctx;
	struct look_times r;

	memcpy(&r, record, sizeof(r));
	if (r.kind < LOOK_NR_TIMES)
		times[r.kind] = r;
	return 0;
}

int stat_times_ask(struct look *look, struct look_times ret_times[LOOK_NR_TIMES])
{
	memset(ret_times, 0, LOOK_NR_TIMES * sizeof(*ret_times));
	return look_list(look, LOOK_TIMES, times_take, ret_times);
}

static uint64_t times_nr(const struct look_times *t)
{
	uint64_t nr = 0;

	for (unsigned int i = 0; i < LOOK_TIME_BUCKETS; i++)
		nr += t->nr[i];
	return nr;
}

/* The bucket that has the last of so many percent: none of these took longer than it says. */
static unsigned int times_bucket(const struct look_times *t, unsigned int percent)
{
	uint64_t nr = times_nr(t), below = 0;
	uint64_t wanted =
		nr - nr / 100 * (100 - percent) - nr % 100 * (100 - percent) / 100;
	unsigned int i = 0;

	while (i < LAST && (below += t->nr[i]) < wanted)
		i++;
	return i;
}

/* The last bucket has no bound. */
static void times_print_bound(unsigned int bucket)
{
	if (bucket == LAST)
		printf("more than %u us", 1u << (LAST - 1));
	else
		printf("%u us", 1u << bucket);
}

void stat_times_print(const struct look_times times[LOOK_NR_TIMES])
{
	for (unsigned int kind = 0; kind < LOOK_NR_TIMES; kind++) {
		const struct look_times *t = &times[kind];
		uint64_t nr = times_nr(t);

		if (nr == 0)
			continue;
		printf("%s: %llu, mean %llu us, half within ", kinds[kind].name,
		       (unsigned long long)nr,
		       (unsigned long long)(t->sum_ns / nr / NS_PER_US));
		times_print_bound(times_bucket(t, 50));
		printf(", 99 %% within ");
		times_print_bound(times_bucket(t, 99));
		printf(" (%s)\n", kinds[kind].meaning);
	}
}

static json_t *times_json(const struct look_times *t)
{
	static const unsigned int percents[] = { 50, 90, 99 };
	json_t *o = json_object(), *buckets = json_array();
	uint64_t nr = times_nr(t);
	char name[16];

	json_object_set_new(o, "count", json_integer((json_int_t)nr));
	json_object_set_new(o, "sum_ns", json_integer((json_int_t)t->sum_ns));
	for (size_t i = 0; i < sizeof(percents) / sizeof(*percents); i++) {
		unsigned int bucket = times_bucket(t, percents[i]);

		snprintf(name, sizeof(name), "p%u_us", percents[i]);
		json_object_set_new(o, name,
		                    nr == 0 || bucket == LAST
		                            ? json_null()
		                            : json_integer((json_int_t)1 << bucket));
	}
	for (unsigned int i = 0; i < LOOK_TIME_BUCKETS; i++)
		json_array_append_new(buckets, json_integer((json_int_t)t->nr[i]));
	json_object_set_new(o, "buckets", buckets);
	return o;
}

void stat_times_json(json_t *o, const struct look_times times[LOOK_NR_TIMES])
{
	char name[32];

	for (unsigned int kind = 0; kind < LOOK_NR_TIMES; kind++) {
		snprintf(name, sizeof(name), "%s_times", kinds[kind].name);
		json_object_set_new(o, name, times_json(&times[kind]));
	}
}

/* The buckets of a histogram count what is in those below them, too. */
static void times_expose(FILE *to, const char *name, const char *help,
                         const struct look_times *t)
{
	uint64_t nr = 0;

	fprintf(to, "# HELP lodic_%s_seconds %s\n# TYPE lodic_%s_seconds histogram\n",
	        name, help, name);
	for (unsigned int i = 0; i < LAST; i++) {
		nr += t->nr[i];
		fprintf(to, "lodic_%s_seconds_bucket{le=\"%.6f\"} %llu\n", name,
		        (double)(1u << i) / 1e6, (unsigned long long)nr);
	}
	nr += t->nr[LAST];
	fprintf(to, "lodic_%s_seconds_bucket{le=\"+Inf\"} %llu\n", name,
	        (unsigned long long)nr);
	fprintf(to, "lodic_%s_seconds_sum %.9f\nlodic_%s_seconds_count %llu\n", name,
	        (double)t->sum_ns / NS_PER_S, name, (unsigned long long)nr);
}

void stat_times_expose(FILE *to, const struct look_times times[LOOK_NR_TIMES])
{
	for (unsigned int kind = 0; kind < LOOK_NR_TIMES; kind++)
		times_expose(to, kinds[kind].name, kinds[kind].meaning, &times[kind]);
}
