/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the searches found, for people and for machines. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "check/options.h"

static bool failed(const struct search *s)
{
	return s->state == SEARCH_RUNNING || s->result.violations > 0;
}

static const char *verdict(const struct search *s)
{
	if (s->state != SEARCH_DONE)
		return "CRASHED";
	if (s->result.violations)
		return "VIOLATED";
	if (s->options.strategy == CHECK_EXHAUSTIVE)
		return s->result.complete ? "complete" : "not complete";
	return "";
}

static json_t *search_json(const struct search *s)
{
	json_t *row =
		json_pack("{s:s, s:s, s:s, s:b, s:s, s:I, s:I, s:I, s:I}", "scenario",
	                  s->c->scenario, "scheme", s->c->scheme, "memory",
	                  search_memory_word(s->options.memory), "movers",
	                  (int)s->options.movers, "strategy",
	                  search_strategy_word(s->options.strategy), "schedules",
	                  (json_int_t)s->result.schedules, "steps",
	                  (json_int_t)s->result.steps, "violations",
	                  (json_int_t)failed(s), "seed", (json_int_t)s->options.seed);

	if (s->options.strategy == CHECK_EXHAUSTIVE) {
		json_object_set_new(row, "bound",
		                    json_integer(s->options.preemption_bound));
		json_object_set_new(row, "complete", json_boolean(s->result.complete));
	}
	if (s->result.violations)
		json_object_set_new(row, "what", json_string(s->result.what));
	return row;
}

/* stopped: searches that were not done, and have no row. */
static void print_json(json_t *rows, u32 stopped)
{
	json_t *whole = json_pack("{s:o, s:I}", "results", rows, "stopped",
	                          (json_int_t)stopped);

	json_dumpf(whole, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
	putchar('\n');
	fflush(stdout); /* an interleaving, which comes next, may take long */
	json_decref(whole);
}

u32 report_searches(const struct options *o, const struct search *s, u32 nr)
{
	json_t *rows = o->json ? json_array() : NULL;
	u64 schedules = 0, steps = 0;
	u32 bad = 0, stopped = 0, i;

	if (!o->json)
		printf("%-17s %-12s %-4s %-6s %-10s %12s %14s\n", "scenario", "scheme",
		       "mem", "movers", "strategy", "schedules", "steps");
	for (i = 0; i < nr; i++) {
		if (s[i].state == SEARCH_STOPPED) { /* it has found out nothing */
			stopped++;
			continue;
		}
		bad += failed(&s[i]);
		schedules += s[i].result.schedules;
		steps += s[i].result.steps;
		if (o->json)
			json_array_append_new(rows, search_json(&s[i]));
		else
			printf("%-17s %-12s %-4s %-6s %-10s %12llu %14llu %s\n",
			       s[i].c->scenario, s[i].c->scheme,
			       search_memory_word(s[i].options.memory),
			       s[i].options.movers ? "yes" : "no",
			       search_strategy_word(s[i].options.strategy),
			       (unsigned long long)s[i].result.schedules,
			       (unsigned long long)s[i].result.steps, verdict(&s[i]));
	}
	if (o->json)
		print_json(rows, stopped);
	else if (stopped == 0)
		printf("%u searches, %llu schedules, %llu steps: %u violations\n", nr,
		       (unsigned long long)schedules, (unsigned long long)steps, bad);
	else
		printf("stopped: %u of %u searches came to their end, with %llu schedules, "
		       "%llu steps and %u violations. The other %u say nothing.\n",
		       nr - stopped, nr, (unsigned long long)schedules,
		       (unsigned long long)steps, bad, stopped);
	return bad;
}

/* s holds the searches of one mutant after the other, one for each strategy. */
static bool found_by_one(const struct search *s, u32 nr)
{
	bool found = false;

	for (u32 i = 0; i < nr; i++)
		found = found || s[i].nr_found > 0;
	return found;
}

/* Not found, and not for want of looking. */
static bool has_survived(const struct search *s, u32 nr)
{
	bool stopped = false;

	for (u32 i = 0; i < nr; i++)
		stopped = stopped || s[i].state == SEARCH_STOPPED;
	return !stopped && !found_by_one(s, nr);
}

static u32 same_mutant(const struct search *s, u32 nr)
{
	u32 n = 1;

	while (n < nr && s[n].mutant == s[0].mutant)
		n++;
	return n;
}

static void print_mutant(const struct search *s, u32 nr)
{
	const struct check_mutant *m = check_mutant_find(s->mutant);
	char cell[40];

	printf("%-22s %-17s %-11s %-4s %-6s", m->name, m->scenario, m->scheme,
	       search_memory_word(m->memory), m->is_moved ? "yes" : "no");
	for (u32 i = 0; i < nr; i++) {
		if (s[i].state != SEARCH_DONE)
			snprintf(cell, sizeof(cell), "%s",
			         s[i].state == SEARCH_STOPPED ? "stopped" : "CRASHED");
		else if (s[i].nr_found == 0)
			snprintf(cell, sizeof(cell), "0/%u", s[i].nr_tried);
		else
			snprintf(cell, sizeof(cell), "%llu/%llu %u/%u",
			         (unsigned long long)s[i].median,
			         (unsigned long long)s[i].max, s[i].nr_found,
			         s[i].nr_tried);
		printf(" %22s", cell);
	}
	printf("%s\n", has_survived(s, nr) ? "  SURVIVED" : "");
}

static json_t *mutant_json(const struct search *s)
{
	const struct check_mutant *m = check_mutant_find(s->mutant);

	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:s, s:i, s:i, s:I, s:I, s:I}",
	                 "mutant", m->name, "breaks", m->breaks, "scenario",
	                 m->scenario, "scheme", m->scheme, "memory",
	                 search_memory_word(m->memory), "movers", (int)m->is_moved,
	                 "strategy", search_strategy_word(s->options.strategy), "found",
	                 (int)s->nr_found, "seeds", (int)s->nr_tried, "median",
	                 (json_int_t)s->median, "max", (json_int_t)s->max, "schedules",
	                 (json_int_t)s->result.schedules);
}

u32 report_mutants(const struct options *o, const struct search *s, u32 nr)
{
	json_t *rows = o->json ? json_array() : NULL;
	u32 found = 0, survived = 0, nr_mutants = 0, left, stopped = 0, n, i;

	if (!o->json)
		printf("Schedules to detection, median/most, and found/tried seeds\n"
		       "%-22s %-17s %-11s %-4s %-6s %22s %22s %22s\n",
		       "mutant", "scenario", "scheme", "mem", "movers", "random",
		       "pct3", "pct4");
	for (i = 0; i < nr; i += n) {
		n = same_mutant(&s[i], nr - i);
		nr_mutants++;
		found += found_by_one(&s[i], n);
		survived += has_survived(&s[i], n);
		if (!o->json)
			print_mutant(&s[i], n);
		for (u32 k = 0; o->json && k < n; k++) {
			if (s[i + k].state == SEARCH_STOPPED)
				stopped++;
			else
				json_array_append_new(rows, mutant_json(&s[i + k]));
		}
	}
	if (o->json)
		print_json(rows, stopped);
	else
		printf("%u mutants: %u found, %u survived", nr_mutants, found,
		       survived);
	left = nr_mutants - found - survived;
	if (!o->json && left > 0)
		printf(", %u not searched to the end", left);
	if (!o->json)
		putchar('\n');
	return survived;
}
