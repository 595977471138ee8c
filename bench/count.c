/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* bench_count: what counting costs, scheme by scheme. What is measured: bench/count.h. */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/count.h"
#include "bench/measure/machine.h"
#include "bench/measure/report.h"
#include "bench/measure/workload.h"
#include "cli/cli.h"

#define DEFAULT_ROUNDS 40
#define MAX_LIST_BYTES 256

enum { KEY_CSV = 256, KEY_CPUS, KEY_SEED, KEY_PROCESSES, KEY_PER_USER };

struct options {
	struct bench_plan plan;
	const char *csv;
	bool json;
};

static const char doc[] =
	"Measure what a ref and an unref cost in each scheme of counting, on one object "
	"and over many, on one CPU and on more. Schemes alternate in one run. The tables "
	"show medians of undisturbed slots, with the rate over atomic's. JSON and CSV "
	"also have null, which counts nothing, and template, which is there to be copied."
	"\v"
	"Examples:\n"
	"  bench_count\n"
	"  bench_count --schemes atomic,lodic --walk hot --cpus 1,2 --rounds 200\n"
	"  bench_count --processes --json --csv count.csv > count.json\n"
	"  bench_count --per-user 2 --walk hot    # threads that share a user's counter\n";

static const struct argp_option option_list[] = {
	{ "json", 'j', NULL, 0, "Print JSON", 0 },
	{ "csv", KEY_CSV, "PATH", 0, "Also write the results to PATH, a line each", 0 },
	{ "rounds", 'r', "N", 0,
	  "Rounds, each with a slot for every scheme (default: 40)", 0 },
	{ "cpus", KEY_CPUS, "LIST", 0,
	  "Numbers of CPUs (default: powers of two, and all)", 0 },
	{ "objects", 'o', "LIST", 0, "Numbers of objects (default: 1,8,64,512,8192)",
	  0 },
	{ "walk", 'w', "LIST", 0, "Some of hot, round, random, query (default: all)",
	  0 },
	{ "schemes", 's', "LIST", 0,
	  "Only these schemes (default: all but the papers' rivals)", 0 },
	{ "processes", KEY_PROCESSES, NULL, 0, "Users are processes, not threads", 0 },
	{ "per-user", KEY_PER_USER, "N", 0, "Threads that are one user (default: 1)",
	  0 },
	{ "seed", KEY_SEED, "N", 0, "Seed of walks and orders (default: 20240731)", 0 },
	{ 0 },
};

static bool take_number(u32 *list, u32 *nr, const char *text, u32 most)
{
	uint64_t n;

	if (cli_parse_number(text, 1, most, &n) != 0 || *nr == BENCH_MAX_LIST)
		return false;
	for (u32 i = 0; i < *nr; i++)
		if (list[i] == n)
			return false;
	list[(*nr)++] = (u32)n;
	return true;
}

static bool take_walk(struct bench_plan *p, const char *text)
{
	for (u32 i = 0; i < FIELD_NR_WALKS; i++)
		if (strcmp(field_walk_name(i), text) == 0)
			return p->walks[i] = true;
	return false;
}

static bool take_scheme(struct bench_plan *p, const char *text)
{
	for (u32 i = 0; i < bench_nr_schemes(); i++)
		if (strcmp(bench_scheme(i)->name, text) == 0)
			return p->schemes[i] = true;
	return false;
}

static u32 nr_cpus_here(void)
{
	int unused[1];
	u32 nr = machine_cpus(unused, 0);

	return nr > SLOTS_MAX_WORKERS ? SLOTS_MAX_WORKERS : nr;
}

static bool take(struct bench_plan *p, int key, const char *piece)
{
	switch (key) {
	case KEY_CPUS: return take_number(p->cpus, &p->nr_cpus, piece, nr_cpus_here());
	case 'o':
		return take_number(p->objects, &p->nr_objects, piece,
		                   FIELD_MAX_OBJECTS);
	case 'w': return take_walk(p, piece);
	default: return take_scheme(p, piece);
	}
}

/* A list replaces the default, or what was given before. */
static void forget(struct bench_plan *p, int key)
{
	switch (key) {
	case KEY_CPUS: p->nr_cpus = 0; break;
	case 'o': p->nr_objects = 0; break;
	case 'w': memset(p->walks, 0, sizeof(p->walks)); break;
	default:
		memset(p->schemes, 0, sizeof(p->schemes));
		p->named = true;
		break;
	}
}

static void parse_list(int key, const char *arg, struct argp_state *state)
{
	struct bench_plan *p = &((struct options *)state->input)->plan;
	char copy[MAX_LIST_BYTES], *rest = copy, *piece;

	if (strlen(arg) >= sizeof(copy)) {
		argp_error(state, "'%.20s...' is too long", arg);
		return;
	}
	strcpy(copy, arg);
	forget(p, key);
	while ((piece = strsep(&rest, ",")))
		if (!take(p, key, piece))
			argp_error(state,
			           "'%s' in '%s' is unknown or stands there twice; "
			           "--help lists what there is",
			           piece, arg);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	uint64_t n;

	switch (key) {
	case 'j': o->json = true; return 0;
	case KEY_CSV: o->csv = arg; return 0;
	case KEY_PROCESSES: o->plan.processes = true; return 0;
	case KEY_CPUS:
	case 'o':
	case 'w':
	case 's': parse_list(key, arg, state); return 0;
	case 'r':
		if (cli_parse_number(arg, 1, SERIES_MAX_ROUNDS, &n) != 0)
			argp_error(state, "'%s' is not 1 to %u rounds", arg,
			           SERIES_MAX_ROUNDS);
		else
			o->plan.rounds = (u32)n;
		return 0;
	case KEY_PER_USER:
		if (cli_parse_number(arg, 1, SLOTS_MAX_WORKERS, &n) != 0)
			argp_error(state, "'%s' is not a number of threads", arg);
		else
			o->plan.per_user = (u32)n;
		return 0;
	case KEY_SEED:
		if (cli_parse_number(arg, 1, UINT32_MAX, &o->plan.seed) != 0)
			argp_error(state, "'%s' is not a seed, 1 ... 2^32 - 1", arg);
		return 0;
	case ARGP_KEY_ARG: argp_error(state, "'%s' is too much", arg); return 0;
	case ARGP_KEY_END:
		if (o->plan.processes && o->plan.per_user > 1)
			argp_error(state,
			           "--per-user needs threads: a process here has one");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static void plan_defaults(struct bench_plan *p)
{
	static const u32 objects[] = { 1, 8, 64, 512, 8192 };
	u32 nr = nr_cpus_here();

	*p = (struct bench_plan){ .rounds = DEFAULT_ROUNDS,
		                  .per_user = 1,
		                  .seed = WORKLOAD_SEED };
	for (u32 n = 1; n < nr; n *= 2)
		p->cpus[p->nr_cpus++] = n;
	p->cpus[p->nr_cpus++] = nr;
	for (u32 i = 0; i < sizeof(objects) / sizeof(objects[0]); i++)
		p->objects[p->nr_objects++] = objects[i];
	for (u32 i = 0; i < FIELD_NR_WALKS; i++)
		p->walks[i] = true;
	for (u32 i = 0; i < bench_nr_schemes(); i++)
		p->schemes[i] = !bench_scheme(i)->is_rival;
}

static int complain_csv(const struct options *o, int error)
{
	cli_error("cannot write %s: %s", o->csv, strerror(-error));
	return CLI_FAILED;
}

static int publish(const struct bench *b, const struct options *o)
{
	int error = 0;

	if (o->json)
		bench_print_json(b, stdout);
	else
		bench_print(b, stdout);
	if (o->csv)
		error = bench_write_csv(b, o->csv);
	return error ? complain_csv(o, error) : CLI_OK;
}

int main(int argc, char **argv)
{
	static const struct argp argp = { option_list, parse, NULL, doc,
		                          NULL,        NULL,  NULL };
	static struct options o;
	static struct bench b;
	int status = CLI_FAILED, error;

	_Static_assert(BENCH_MAX_LIST > 11, "powers of two up to SLOTS_MAX_WORKERS");
	argp_err_exit_status = CLI_USAGE;
	cli_check_output();
	cli_offer_version("bench_count");
	plan_defaults(&o.plan);
	if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
		return CLI_USAGE;
	error = o.csv ? report_check_path(o.csv) : 0;
	if (error)
		return complain_csv(&o, error);
	cli_catch_signals();
	error = bench_run(&b, &o.plan);
	if (!error)
		status = publish(&b, &o);
	else if (error == -EPIPE)
		cli_error("a worker has ended");
	else if (error != -EINTR)
		cli_error("cannot measure: %s", strerror(-error));
	bench_drop(&b);
	return cli_stopped ? CLI_STOPPED : status;
}
