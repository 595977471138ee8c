/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* bench_kv: a key-value reader beside pread and mmap. What is measured: bench/kv.h. */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/kv.h"
#include "bench/measure/corpus.h"
#include "bench/measure/report.h"
#include "bench/measure/workload.h"
#include "cli/cli.h"
#include "cli/leftover.h"

#define DEFAULT_ROUNDS 15
#define DEFAULT_COLD_ROUNDS 3
#define DEFAULT_READERS 4
#define DEFAULT_SLOT_MS 100
#define DEFAULT_WARM_MS 3000
#define DEFAULT_FILE_BYTES ((u64)300 << 20)
#define LEAST_FILE_BYTES ((u64)1 << 20)
#define MOST_FILE_BYTES ((u64)4 << 30)
#define MAX_SLOT_MS 10000
/* A reader of a cold cache comes by a block so often that a slow warm-up shows. */
#define COLD_GETS_A_RECORD 2u
#define NS_PER_MS 1000000u

enum {
	KEY_CSV = 256,
	KEY_LODIC,
	KEY_WORKDIR,
	KEY_SEED,
	KEY_GOALS,
	KEY_SLOT,
	KEY_WARM,
	KEY_COLD_ROUNDS
};

struct options {
	struct kv_plan plan;
	const char *csv, *lodic, *workdir;
	bool json, goals, chosen;
};

static const char doc[] =
	"Measure a key-value reader: processes get records of 1000 bytes from a file, and "
	"verify every byte. They get by pread, by mmap, by lodic_read() and in place by "
	"pins, in short slots that alternate. The result is gets in a second of CPU time of "
	"the readers and the service together."
	"\v"
	"Settings:\n"
	"  roomy  the file lies in the cache\n"
	"  tight  the cache has a fifth of the file\n"
	"  cold   the cache is as large as the file, and empty at first\n"
	"\n"
	"The file lies in --workdir. The service reads from there, and the page cache has the "
	"file for pread and mmap: on tmpfs no disk shows at all.\n"
	"\n"
	"Examples:\n"
	"  bench_kv --goals\n"
	"  bench_kv --setting tight --rounds 50 --json > kv.json\n";

static const struct argp_option option_list[] = {
	{ "json", 'j', NULL, 0, "Print JSON", 0 },
	{ "csv", KEY_CSV, "PATH", 0, "Also write the results to PATH, a line each", 0 },
	{ "goals", KEY_GOALS, NULL, 0,
	  "Print what is promised, with its figure. If one is missed the status is 1",
	  0 },
	{ "setting", 's', "NAME", 0, "Only this one; it may be given again", 0 },
	{ "rounds", 'r', "N", 0, "Rounds, each with a slot for every way (default: 15)",
	  0 },
	{ "cold-rounds", KEY_COLD_ROUNDS, "N", 0, "The same of cold (default: 3)", 0 },
	{ "processes", 'p', "N", 0, "Readers (default: 4)", 0 },
	{ "slot-ms", KEY_SLOT, "N", 0, "Milliseconds of a slot (default: 100)", 0 },
	{ "warm-ms", KEY_WARM, "N", 0,
	  "In tight, read so long before the first slot (default: 3000)", 0 },
	{ "size", 'z', "SIZE", 0, "The file's size (default: 300M)", 0 },
	{ "workdir", KEY_WORKDIR, "DIR", 0,
	  "Make the file in DIR (default: the folder build, where there is one, and else "
	  "TMPDIR)",
	  0 },
	{ "lodic", KEY_LODIC, "PATH", 0,
	  "The program that serves (default: lodic in the folder above)", 0 },
	{ "seed", KEY_SEED, "N", 0, "Seed of keys and orders (default: 20240731)", 0 },
	{ 0 },
};

static void take_setting(struct options *o, const char *name, struct argp_state *state)
{
	u32 i = 0;

	while (i < KV_NR_SETTINGS && strcmp(kv_setting_name(i), name) != 0)
		i++;
	if (i == KV_NR_SETTINGS)
		argp_error(state, "there is no setting '%s'", name);
	if (!o->chosen)
		memset(o->plan.settings, 0, sizeof(o->plan.settings));
	o->chosen = true;
	o->plan.settings[i] = true;
}

static u64 take_number(const char *text, u64 least, u64 most, struct argp_state *state)
{
	uint64_t n = least;

	if (cli_parse_number(text, least, most, &n) != 0)
		argp_error(state, "'%s' is not a number from %llu to %llu", text,
		           (unsigned long long)least, (unsigned long long)most);
	return n;
}

static void take_size(struct options *o, const char *text, struct argp_state *state)
{
	uint64_t n;

	if (cli_parse_bytes(text, &n) != 0 || n < LEAST_FILE_BYTES ||
	    n > MOST_FILE_BYTES)
		argp_error(state, "'%s' is not a size from 1M to 4G", text);
	else
		o->plan.file_bytes = n;
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
	case 's': take_setting(o, arg, state); return 0;
	case 'z': take_size(o, arg, state); return 0;
	case 'r':
		o->plan.rounds = (u32)take_number(arg, 1, SERIES_MAX_ROUNDS, state);
		return 0;
	case KEY_COLD_ROUNDS:
		o->plan.cold_rounds =
			(u32)take_number(arg, 1, SERIES_MAX_ROUNDS, state);
		return 0;
	case 'p':
		o->plan.nr_readers = (u32)take_number(arg, 1, KV_MAX_READERS, state);
		return 0;
	case KEY_SLOT:
		o->plan.slot_ns = take_number(arg, 1, MAX_SLOT_MS, state) * NS_PER_MS;
		return 0;
	case KEY_WARM:
		o->plan.warm_ns = take_number(arg, 0, MAX_SLOT_MS, state) * NS_PER_MS;
		return 0;
	case KEY_SEED: o->plan.seed = take_number(arg, 1, UINT32_MAX, state); return 0;
	case ARGP_KEY_ARG: argp_error(state, "'%s' is too much", arg); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static int count_wrong(const struct kv *kv)
{
	u64 nr_wrong = 0, nr_failed = 0, nr_gets = 0;

	for (u32 s = 0; s < KV_NR_SETTINGS; s++) {
		for (u32 d = 0; d < KV_NR_DRAWS; d++) {
			for (u32 m = 0; m < KV_NR_METHODS; m++) {
				const struct kv_tally *t = &kv->cells[s][d][m].sum;

				nr_wrong += t->nr_wrong;
				nr_failed += t->nr_failed;
				nr_gets += t->nr_gets;
			}
		}
	}
	if (nr_wrong || nr_failed)
		cli_error("of %llu gets %llu failed, and %llu gave wrong bytes",
		          (unsigned long long)nr_gets, (unsigned long long)nr_failed,
		          (unsigned long long)nr_wrong);
	return nr_wrong || nr_failed ? CLI_FAILED : CLI_OK;
}

static int publish(const struct options *o, const struct kv *kv)
{
	int status = count_wrong(kv), error;

	if (o->json)
		kv_print_json(kv, stdout);
	else
		kv_print(kv, stdout);
	if (o->goals) {
		if (!o->json)
			putchar('\n');
		if (kv_goals(kv, o->json ? NULL : stdout) > 0)
			status = CLI_FAILED;
	}
	error = o->csv ? kv_write_csv(kv, o->csv) : 0;
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
		.plan = { .settings = { true, true, true },
		          .nr_readers = DEFAULT_READERS,
		          .rounds = DEFAULT_ROUNDS,
		          .cold_rounds = DEFAULT_COLD_ROUNDS,
		          .slot_ns = (u64)DEFAULT_SLOT_MS * NS_PER_MS,
		          .warm_ns = (u64)DEFAULT_WARM_MS * NS_PER_MS,
		          .file_bytes = DEFAULT_FILE_BYTES,
		          .seed = WORKLOAD_SEED },
	};
	static struct kv kv;
	int status = CLI_FAILED, error;

	argp_err_exit_status = CLI_USAGE;
	cli_check_output();
	cli_offer_version("bench_kv");
	if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
		return CLI_USAGE;
	o.plan.cold_gets = COLD_GETS_A_RECORD * (o.plan.file_bytes / KV_RECORD_BYTES);
	cli_catch_signals();
	rig_serve_by(o.lodic, "..");
	error = kv_run(&kv, &o.plan, o.workdir ? o.workdir : leftover_folder());
	if (!error)
		status = publish(&o, &kv);
	else if (!cli_stopped)
		cli_error("%s", kv.why);
	kv_drop(&kv);
	leftover_sweep();
	return cli_stopped ? CLI_STOPPED : status;
}
