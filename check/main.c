/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic-check`: looks for schedules that break a rule of lodic's protocols. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check/options.h"

/* Searches of one case: memory models, with movers and without, strategies. */
#define SEARCHES_PER_CASE (CHECK_MEMORIES * 2u * 4u)
/* Three actors that must all meet need more schedules than two. */
#define DEEP_TIMES 10u
#define SHOW_FIRST 1000u /* schedules of the first try to show a mutant */
#define RANDOM_BUDGET 20000u
#define WHOLE "lodic-whole"

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
		printf("%-22s %s (%s, %s, %s%s)\n", m->name, m->breaks, m->scenario,
		       m->scheme, search_memory_word(m->memory),
		       search_movers_word(m->is_moved));
}

static const char *case_name(const struct check_case *c, bool of_scheme)
{
	return of_scheme ? c->scheme : c->scenario;
}

static bool wanted(const struct options *o, const struct check_case *c)
{
	if (o->scenario && strcmp(o->scenario, c->scenario) != 0)
		return false;
	return !o->scheme || strcmp(o->scheme, c->scheme) == 0;
}

static void add(struct search *searches, u32 *nr, const struct options *o,
                const struct check_case *c, enum check_memory memory, bool movers)
{
	u32 nr_strategies = 0, i;

	for (i = 0; i < 4; i++)
		nr_strategies += o->strategies[i];
	for (i = 0; i < 4; i++) {
		if (!o->strategies[i] ||
		    (i == CHECK_EXHAUSTIVE && (movers || memory > CHECK_TSO)))
			continue;
		searches[(*nr)++] = (struct search){
			.c = c,
			.mutant = o->mutant ? o->mutant->number : CHECK_NO_MUTANT,
			.options = {
				.strategy = i,
				.memory = memory,
				.seed = o->seed,
				.nr_schedules = (o->schedules * (c->deep ? DEEP_TIMES : 1) +
				                 nr_strategies - 1) / nr_strategies,
				.preemption_bound = o->bound,
				.movers = movers,
				.flip = o->flip,
				.only = o->only,
				.trace = o->trace,
				.out = options_out(o),
			},
		};
	}
}

/* All that o wants of one case. */
static void add_case(struct search *searches, u32 *nr, const struct options *o,
                     const struct check_case *c)
{
	for (u32 movers = 0; movers < 2; movers++) {
		if (!(movers ? o->movers : o->no_movers))
			continue;
		for (u32 memory = 0; memory < CHECK_MEMORIES; memory++)
			if (o->memories[memory])
				add(searches, nr, o, c, memory, movers);
	}
}

/* A name that is given and that no case has: says so, with those that there are. */
static bool is_unknown(const char *what, const char *name, bool of_scheme)
{
	const char *other;
	u32 i, k;

	for (i = 0; name && i < list.nr; i++)
		if (strcmp(name, case_name(&list.cases[i], of_scheme)) == 0)
			return false;
	if (!name)
		return false;
	fprintf(stderr, "lodic-check: there is no %s '%s'. There are:\n", what, name);
	for (i = 0; i < list.nr; i++) {
		other = case_name(&list.cases[i], of_scheme);
		for (k = 0; strcmp(case_name(&list.cases[k], of_scheme), other) != 0;)
			k++;
		if (k == i)
			fprintf(stderr, "  %s\n", other);
	}
	return true;
}

/* Both names are right, but not together. */
static void print_pairs(const struct options *o)
{
	fprintf(stderr,
	        "lodic-check: scenario '%s' is not for scheme '%s'. It is for:\n",
	        o->scenario, o->scheme);
	for (u32 i = 0; i < list.nr; i++)
		if (strcmp(list.cases[i].scenario, o->scenario) == 0)
			fprintf(stderr, "  %s\n", list.cases[i].scheme);
}

/* Before the first schedule runs; wrong usage prints nothing. */
static void print_seed(const struct options *o)
{
	if (o->json)
		return;
	printf("seed=%llu\n", (unsigned long long)o->seed);
	fflush(stdout);
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
	if (is_unknown("scenario", o->scenario, false) ||
	    is_unknown("scheme", o->scheme, true))
		return EXIT_USAGE;
	for (i = 0; i < list.nr; i++)
		if (wanted(o, &list.cases[i]))
			add_case(s, &nr, o, &list.cases[i]);
	if (nr == 0) {
		print_pairs(o);
		return EXIT_USAGE;
	}
	print_seed(o);
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
				.nr_seeds = o->seeds,
				.options = { .strategy = k,
				             .memory = m->memory,
				             .movers = m->is_moved,
				             .flip = o->flip,
				             .seed = o->seed,
				             .nr_schedules = budget(o, m, k) }
			};
	}
	print_seed(o);
	whole = search_all(s, nr, o->jobs, false);
	survived = report_mutants(o, s, nr);
	return end(whole, survived);
}

/* On a terminal; each of these searches is longer than all before it. */
static void show_progress(u64 schedules, const char *strategy)
{
	if (schedules <= SHOW_FIRST || !isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r\033[Ksearching %llu schedules by %s",
	        (unsigned long long)schedules, strategy);
	fflush(stderr);
}

static void end_progress(void)
{
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
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
	print_seed(o);
	printf("%s: without the rule \"%s\"\n", m->name, m->breaks);
	fflush(stdout);
	check_mutant_now = m->number;
	/* A strategy that misses it must not use up the time of one that does not. */
	for (u64 n = SHOW_FIRST;; n = n * 10 < m->budget ? n * 10 : m->budget) {
		for (u32 k = CHECK_RANDOM; k <= CHECK_PCT4; k++) {
			s.options = (struct check_options){ .strategy = k,
				                            .memory = m->memory,
				                            .movers = m->is_moved,
				                            .flip = o->flip,
				                            .seed = o->seed,
				                            .nr_schedules = n,
				                            .out = options_out(o) };
			show_progress(n, search_strategy_word(k));
			check_run(&s.c->run, &s.options, true, &s.result);
			if (s.result.violations) {
				end_progress();
				search_show(&s);
				return 0;
			}
		}
		if (n >= m->budget)
			break;
	}
	end_progress();
	printf("not found in %llu schedules\n", (unsigned long long)m->budget);
	return 1;
}

static int run(const struct options *o)
{
	if (o->list) {
		print_list();
		return 0;
	}
	if (o->mutants)
		return run_mutants(o);
	if (o->mutant && !o->scenario && !o->scheme && !o->all)
		return show_mutant(o);
	return run_searches(o);
}

/* A result that could not be written is no result. Help and the version end in exit(). */
static void check_output(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return;
	perror("lodic-check: stdout");
	_exit(1);
}

/* `lodic-check --whole ...`: the search over the whole product is a program beside this one. */
static int run_whole(char **argv)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof(WHOLE));
	char *slash;

	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	if (!slash)
		return perror("lodic-check: /proc/self/exe"), 1;
	strcpy(slash + 1, WHOLE);
	argv[1] = argv[0];
	execv(path, argv + 1);
	fprintf(stderr,
	        "lodic-check: --whole needs %s: %s. It is not installed. In a build "
	        "folder `ninja %s` makes it.\n",
	        path, strerror(errno), WHOLE);
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	struct options o;

	if (argc > 1 && strcmp(argv[1], "--whole") == 0)
		return run_whole(argv);
	atexit(check_output);
	options_parse(&o, argc, argv);
	check_list_all(&list);
	return run(&o);
}
