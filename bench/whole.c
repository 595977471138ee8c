/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* bench_whole: whole files as one range of memory. What is measured: bench/whole.h. */
#include <argp.h>
#include <errno.h>
#include <string.h>

#include "bench/whole.h"
#include "bench/measure/report.h"
#include "bench/measure/workload.h"
#include "cli/cli.h"
#include "cli/leftover.h"

#define DEFAULT_ROUNDS 7
#define DEFAULT_COLD_ROUNDS 3
#define DEFAULT_WINDOW_MS 30
#define MAX_WINDOW_MS 10000
#define LEAST_BYTES ((u64)64 << 10)
#define MOST_BYTES ((u64)16 << 30)
#define NS_PER_MS 1000000u

enum {
	KEY_CSV = 256,
	KEY_LODIC,
	KEY_WORKDIR,
	KEY_SEED,
	KEY_GOALS,
	KEY_WINDOW,
	KEY_HUGE,
	KEY_COLD_ROUNDS
};

struct options {
	struct whole_plan plan;
	const char *csv, *lodic, *workdir;
	bool json, goals;
};

static const char doc[] =
	"Measure how a program gets a whole file as one range of memory: by pread, mmap, "
	"MAP_POPULATE, a read into memory of its own, and lodic_hold(). 1, 2 and 4 processes "
	"do it at once, from a cold and from a warm start."
	"\v"
	"The file lies in --workdir, which should be on a disk: on tmpfs no cold start shows.\n"
	"\n"
	"Examples:\n"
	"  bench_whole --goals\n"
	"  bench_whole --size 1M --size 1G --json > whole.json\n";

static const struct argp_option option_list[] = {
	{ "json", 'j', NULL, 0, "Print JSON", 0 },
	{ "csv", KEY_CSV, "PATH", 0, "Also write the results to PATH, a line each", 0 },
	{ "goals", KEY_GOALS, NULL, 0,
	  "Print what is promised, with its figure. If one is missed the status is 1",
	  0 },
	{ "size", 'z', "SIZE", 0,
	  "The file's size; it may be given again (default: 64K, 1M, 16M, 256M, 2G)",
	  0 },
	{ "rounds", 'r', "N", 0, "Rounds, each with every way (default: 7)", 0 },
	{ "cold-rounds", KEY_COLD_ROUNDS, "N", 0,
	  "In so many of them each way also begins cold (default: 3)", 0 },
	{ "window-ms", KEY_WINDOW, "N", 0,
	  "Milliseconds of random copies (default: 30)", 0 },
	{ "huge-pages", KEY_HUGE, "auto|off", 0, "The service's setting", 0 },
	{ "workdir", KEY_WORKDIR, "DIR", 0,
	  "Make the file in DIR (default: the folder build, where there is one, and else "
	  "TMPDIR)",
	  0 },
	{ "lodic", KEY_LODIC, "PATH", 0,
	  "The program that serves (default: lodic in the folder above)", 0 },
	{ "seed", KEY_SEED, "N", 0, "Seed of places and orders (default: 20240731)",
	  0 },
	{ 0 },
};

static u64 take_number(const char *text, u64 least, u64 most, struct argp_state *state)
{
	uint64_t n = least;

	if (cli_parse_number(text, least, most, &n) != 0)
		argp_error(state, "'%s' is not a number from %llu to %llu", text,
		           (unsigned long long)least, (unsigned long long)most);
	return n;
}

static void take_size(struct whole_plan *p, const char *text, struct argp_state *state)
{
	uint64_t n;

	if (cli_parse_bytes(text, &n) != 0 || n < LEAST_BYTES || n > MOST_BYTES ||
	    n % LODIC_BLOCK_BYTES != 0)
		argp_error(state, "'%s' is not a size from 64K to 16G, in blocks of 4K",
		           text);
	else if (p->nr_sizes == WHOLE_MAX_SIZES)
		argp_error(state, "there are at most %u sizes", WHOLE_MAX_SIZES);
	else
		p->sizes[p->nr_sizes++] = n;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'j': o->json = true; return 0;
	case KEY_GOALS: o->goals = true; return 0;
	case KEY_CSV: o->csv = arg; return 0;
	case KEY_LODIC: o->lodic = arg; return 0;
	case KEY_WORKDIR: o->workdir = arg; return 0;
	case 'z': take_size(&o->plan, arg, state); return 0;
	case 'r':
		o->plan.rounds = (u32)take_number(arg, 1, SERIES_MAX_ROUNDS, state);
		return 0;
	case KEY_COLD_ROUNDS:
		o->plan.cold_rounds =
			(u32)take_number(arg, 1, SERIES_MAX_ROUNDS, state);
		return 0;
	case KEY_WINDOW:
		o->plan.window_ns =
			take_number(arg, 1, MAX_WINDOW_MS, state) * NS_PER_MS;
		return 0;
	case KEY_HUGE:
		if (strcmp(arg, "auto") != 0 && strcmp(arg, "off") != 0)
			argp_error(state, "huge pages are 'auto' or 'off'");
		o->plan.huge_pages = arg;
		return 0;
	case KEY_SEED: o->plan.seed = take_number(arg, 1, UINT32_MAX, state); return 0;
	case ARGP_KEY_ARG: argp_error(state, "'%s' is too much", arg); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static void choose_sizes(struct whole_plan *p)
{
	static const u64 sizes[] = { (u64)64 << 10, (u64)1 << 20, (u64)16 << 20,
		                     (u64)256 << 20, (u64)2 << 30 };

	if (p->nr_sizes > 0)
		return;
	p->nr_sizes = sizeof(sizes) / sizeof(sizes[0]);
	memcpy(p->sizes, sizes, sizeof(sizes));
}

static int publish(const struct options *o, const struct whole_bench *b)
{
	int status = CLI_OK, error;

	if (b->nr_wrong > 0) {
		cli_error("%llu wrong words were read",
		          (unsigned long long)b->nr_wrong);
		status = CLI_FAILED;
	}
	if (o->json)
		whole_print_json(b, stdout);
	else
		whole_print(b, stdout);
	if (o->goals) {
		if (!o->json)
			putchar('\n');
		if (whole_goals(b, o->json ? NULL : stdout) > 0)
			status = CLI_FAILED;
	}
	error = o->csv ? whole_write_csv(b, o->csv) : 0;
	if (error) {
		cli_error("cannot write %s: %s", o->csv, strerror(-error));
		status = CLI_FAILED;
	}
	return status;
}

int main(int argc, char **argv)
{
	static const struct argp argp = { option_list, parse, NULL, doc,
		                          NULL,        NULL,  NULL };
	static struct options o = {
		.plan = { .rounds = DEFAULT_ROUNDS,
		          .cold_rounds = DEFAULT_COLD_ROUNDS,
		          .window_ns = (u64)DEFAULT_WINDOW_MS * NS_PER_MS,
		          .seed = WORKLOAD_SEED },
	};
	static struct whole_bench b;
	int status = CLI_FAILED, error;

	argp_err_exit_status = CLI_USAGE;
	cli_check_output();
	cli_offer_version("bench_whole");
	if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
		return CLI_USAGE;
	choose_sizes(&o.plan);
	cli_catch_signals();
	rig_serve_by(o.lodic, "..");
	error = whole_bench_run(&b, &o.plan, o.workdir ? o.workdir : leftover_folder());
	if (!error)
		status = publish(&o, &b);
	else if (!cli_stopped)
		cli_error("%s", b.why);
	whole_bench_drop(&b);
	leftover_sweep();
	return cli_stopped ? CLI_STOPPED : status;
}
