/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic-check`: looks for schedules that break a rule of lodic's protocols. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/options.h"

/* Searches of one case: two memory models, four strategies. */
#define SEARCHES_PER_CASE (2u * 4u)
/* Three actors that must all meet need more schedules than two. */
#define DEEP_TIMES 10u
#define SHOW_FIRST 1000u /* schedules of the first try to show a mutant */
#define RANDOM_BUDGET 20000u

static struct check_list list;

static void print_list(void)
{
	const struct check_mutant *m;
	u32 i;

	puts("scenario          scheme");
	for (i = 0; i < list.nr; i++)
		printf("%-17s %s%s\n", list.cases[i].scenario, list.cases[i].scheme,
		       list.cases[i].deep ? "  (deep: 10 times the schedules)" : "");
	puts("\nmutant                 breaks");
	for (i = 0; (m = check_mutant_at(i)); i++)
		printf("%-22s %s (%s, %s, %s)\n", m->name, m->breaks, m->scenario,
		       m->scheme, memory_word(m->memory));
}

static bool wanted(const struct options *o, const struct check_case *c)
{
	if (o->scenario && strcmp(o->scenario, c->scenario) != 0)
		return false;
	return !o->scheme || strcmp(o->scheme, c->scheme) == 0;
}

static void add(struct search *searches, u32 *nr, const struct options *o,
                const struct check_case *c, enum check_memory memory)
{
	u32 nr_strategies = 0, i;

	for (i = 0; i < 4; i++)
		nr_strategies += o->strategies[i];
	for (i = 0; i < 4; i++) {
		if (!o->strategies[i])
			continue;
		searches[(*nr)++] = (struct search){
			.c = c,
			.mutant = o->mutant ? o->mutant->number : MUTANT_NONE,
			.options = {
				.strategy = i,
				.memory = memory,
				.seed = o->seed,
				.nr_schedules = (o->schedules * (c->deep ? DEEP_TIMES : 1) +
				                 nr_strategies - 1) / nr_strategies,
				.preemption_bound = o->bound,
				.only = o->only,
				.trace = o->trace,
			},
		};
	}
}

static int end(bool whole, u32 bad)
{
	if (!whole && bad == 0)
		return EXIT_INTERRUPTED;
	return bad > 0;
}

static int run_searches(const struct options *o)
{
	struct search *s = search_alloc(list.nr * SEARCHES_PER_CASE);
	u32 nr = 0, bad, i;
	bool whole;

	if (!s)
		return perror("lodic-check"), 1;
	for (i = 0; i < list.nr; i++) {
		if (!wanted(o, &list.cases[i]))
			continue;
		if (o->sc)
			add(s, &nr, o, &list.cases[i], CHECK_SC);
		if (o->tso)
			add(s, &nr, o, &list.cases[i], CHECK_TSO);
	}
	if (nr == 0) {
		fprintf(stderr,
		        "lodic-check: no such scenario for such a scheme; --list "
		        "names them\n");
		return EXIT_USAGE;
	}
	whole = search_all(s, nr, o->jobs, false);
	bad = report_searches(o, s, nr);
	for (i = 0; i < nr; i++) {
		if (s[i].state != SEARCH_DONE || !s[i].result.violations)
			continue;
		search_show(&s[i]); /* one is enough to begin with */
		break;
	}
	return end(whole, bad);
}

/* Random schedules seldom meet three conditions at once: no use in waiting for them. */
static u64 budget(const struct options *o, const struct check_mutant *m,
                  enum check_strategy strategy)
{
	u64 n = o->schedules_given && o->schedules < m->budget ? o->schedules
	                                                       : m->budget;

	return strategy == CHECK_RANDOM && n > RANDOM_BUDGET ? RANDOM_BUDGET : n;
}

/* Every mutant where its table says; with one, only that and its interleaving. */
static int run_mutants(const struct options *o)
{
	struct search *s;
	const struct check_mutant *m;
	u32 nr = 0, survived, i, k;
	bool whole;

	for (i = 0; check_mutant_at(i);)
		i++;
	s = search_alloc(i * SEARCHES_PER_CASE);
	if (!s)
		return perror("lodic-check"), 1;
	for (i = 0; (m = check_mutant_at(i)); i++) {
		const struct check_case *c =
			check_list_find(&list, m->scenario, m->scheme);

		if (!c) {
			fprintf(stderr,
			        "lodic-check: mutant %s: there is no scenario %s "
			        "for %s\n",
			        m->name, m->scenario, m->scheme);
			return 1;
		}
		for (k = CHECK_RANDOM; k <= CHECK_PCT4; k++)
			s[nr++] = (struct search){
				.c = c,
				.mutant = m->number,
				.nr_seeds = o->seeds > 1 ? o->seeds : 2,
				.options = { .strategy = k,
				             .memory = m->memory,
				             .seed = o->seed,
				             .nr_schedules = budget(o, m, k) }
			};
	}
	whole = search_all(s, nr, o->jobs, false);
	survived = report_mutants(o, s, nr);
	return end(whole, survived);
}

/* Looks for what the mutant breaks, and shows the first schedule that does. */
static int show_mutant(const struct options *o)
{
	const struct check_mutant *m = o->mutant;
	struct search s = { .c = check_list_find(&list, m->scenario, m->scheme),
		            .mutant = m->number };

	if (!s.c) {
		fprintf(stderr, "lodic-check: there is no scenario %s for %s\n",
		        m->scenario, m->scheme);
		return 1;
	}
	printf("%s: without the rule \"%s\"\n", m->name, m->breaks);
	fflush(stdout);
	check_mutant_now = m->number;
	/* A strategy that misses it must not use up the time of one that does not. */
	for (u64 n = SHOW_FIRST;; n = n * 10 < m->budget ? n * 10 : m->budget) {
		for (u32 k = CHECK_RANDOM; k <= CHECK_PCT4; k++) {
			s.options = (struct check_options){ .strategy = k,
				                            .memory = m->memory,
				                            .seed = o->seed,
				                            .nr_schedules = n };
			check_run(&s.c->run, &s.options, true, &s.result);
			if (s.result.violations) {
				search_show(&s);
				return 0;
			}
		}
		if (n >= m->budget)
			break;
	}
	printf("not found in %llu schedules\n", (unsigned long long)m->budget);
	return 1;
}

int main(int argc, char **argv)
{
	struct options o;

	options_parse(&o, argc, argv);
	check_list_all(&list);
	if (o.list) {
		print_list();
		return 0;
	}
	if (!o.json) {
		printf("seed=%llu\n", (unsigned long long)o.seed);
		fflush(stdout);
	}
	if (o.mutants)
		return run_mutants(&o);
	if (o.mutant && !o.scenario && !o.all)
		return show_mutant(&o);
	return run_searches(&o);
}
