/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic-sim tier`: options, the runs, and the forms of the result. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sim/command.h"
#include "sim/tier/kernel_replay.h"
#include "sim/tier/record.h"
#include "sim/tier/run.h"
#include "sim/tier/tier_main.h"
#include "sim/tier/tier_report.h"
#include "sim/tier/work.h"

#define MAX_SCALE 65536u
#define LEAST_BYTES 4096u
#define MAX_RATIO 1000u
#define MAX_PREFETCH 1024u
#define MAX_REUSE 4096u

enum {
	KEY_WORKLOAD = 256,
	KEY_TRACE,
	KEY_FORMAT,
	KEY_REPLAY,
	KEY_RECORD,
	KEY_POLICY,
	KEY_SEED,
	KEY_REUSE,
	KEY_SCALE,
	KEY_FAST,
	KEY_SLOW,
	KEY_RATIO,
	KEY_PARAMETERS,
	KEY_WORK,
	KEY_PREFETCH,
	KEY_SEGMENT,
	KEY_TREES,
	KEY_KERNEL_SLOW,
	KEY_LAZY,
	KEY_PIECEMEAL,
	KEY_ONE_BY_ONE,
	KEY_MEMORY_ONLY,
	KEY_LOG,
	KEY_LIST,
};

static const struct argp_option options[] = {
	{ "workload", KEY_WORKLOAD, "NAME", 0, "A generator; --list shows them", 0 },
	{ "trace", KEY_TRACE, "FILE", 0, "A trace instead", 0 },
	{ "format", KEY_FORMAT, "NAME", 0,
	  "Of the trace: own, oracle, thesios, service, run (default: by what is in it)",
	  0 },
	{ "replay", KEY_REPLAY, "FILE", 0,
	  "Make the calls that `lodic serve --policy-record' wrote there, or the kernel's "
	  "events of kloc, once more, and compare the decisions",
	  0 },
	{ "policy", KEY_POLICY, "A,B", 0, "Which policies (default: the usual ones)",
	  0 },
	{ "seed", KEY_SEED, "N", 0, "Seed of the generator (default: 1)", 0 },
	{ "reuse", KEY_REUSE, "N", 0,
	  "Controls that close files: how often a frame is read while its file is open "
	  "(default: 8)",
	  0 },
	{ "scale", KEY_SCALE, "N", 0,
	  "Divide the paper's bytes by N (default: 64); of a trace, only the memory's. At 1 "
	  "a policy takes minutes, and up to 12 GB of this machine's memory",
	  0 },
	{ "fast", KEY_FAST, "BYTES", 0,
	  "Fast memory, before scaling (default: the parameter file's)", 0 },
	{ "slow", KEY_SLOW, "BYTES", 0,
	  "Slow memory, before scaling (default: the parameter file's)", 0 },
	{ "ratio", KEY_RATIO, "N", 0,
	  "Fast over slow bandwidth (default: the parameter file's)", 0 },
	{ "parameters", KEY_PARAMETERS, "NAME|FILE", 0,
	  "What memory costs: tier-two (default), tier-optane", 0 },
	{ "work-parameters", KEY_WORK, "NAME|FILE", 0,
	  "Shapes of the workloads (default: tier-work)", 0 },
	{ "prefetch", KEY_PREFETCH, "FRAMES", 0,
	  "Tell the policy of frames so far ahead of a reader in order", 0 },
	{ "segment", KEY_SEGMENT, "BYTES", 0,
	  "A group for each so many bytes of a file, before scaling", 0 },
	{ "trees", KEY_TREES, NULL, 0, "Keep the paper's trees, and charge for them",
	  0 },
	{ "kernel-slow", KEY_KERNEL_SLOW, NULL, 0,
	  "nimble, nimble++: kernel objects begin in slow memory", 0 },
	{ "lazy", KEY_LAZY, NULL, 0,
	  "kloc: what is closed leaves fast memory only in need", 0 },
	{ "piecemeal", KEY_PIECEMEAL, NULL, 0,
	  "kloc: activity promotes what is touched, not the whole group", 0 },
	{ "one-by-one", KEY_ONE_BY_ONE, NULL, 0, "No concurrent moves", 0 },
	{ "memory-only", KEY_MEMORY_ONLY, NULL, 0,
	  "Leave out the time that programs compute", 0 },
	{ "record", KEY_RECORD, "FILE", 0, "Write the events down as a trace", 0 },
	{ "log", KEY_LOG, "FILE", 0, "Write each decision of the last policy down", 0 },
	{ "list", KEY_LIST, NULL, 0, "List workloads and policies", 0 },
	{ "json", 'j', NULL, 0, "Print JSON", 0 },
	{ 0 },
};

struct arguments {
	struct run run;
	const char *parameters, *work, *log, *replay;
	char *policies;
	u64 fast, slow, segment;
	u32 ratio;
	bool json, list;
};

/* Digits, and one of k, m, g for 2^10, 2^20, 2^30. */
static u64 parse_bytes(const char *arg, struct argp_state *state)
{
	static const char units[] = "kmg";
	char digits[32];
	size_t n = strspn(arg, "0123456789");
	const char *unit = strchr(units, arg[n] | 0x20);
	u32 shift = arg[n] && unit ? 10 * (u32)(unit - units + 1) : 0;

	if (n == 0 || n >= sizeof(digits) || (arg[n] && (shift == 0 || arg[n + 1])))
		argp_error(state, "'%s' is not a number of bytes, like 8g or 4096",
		           arg);
	memcpy(digits, arg, n);
	digits[n] = '\0';
	return command_number(digits, "a number of bytes", 1, UINT64_MAX >> 34, state)
	       << shift;
}

static error_t parse_source(int key, char *arg, struct arguments *a,
                            struct argp_state *state)
{
	switch (key) {
	case KEY_WORKLOAD: a->run.workload = arg; return 0;
	case KEY_TRACE: a->run.trace = arg; return 0;
	case KEY_FORMAT:
		if (strcmp(arg, "own") != 0 && strcmp(arg, "oracle") != 0 &&
		    strcmp(arg, "thesios") != 0 && strcmp(arg, "service") != 0 &&
		    strcmp(arg, "run") != 0)
			argp_error(state,
			           "there is no format '%s'; there are own, oracle, "
			           "thesios, service, run",
			           arg);
		a->run.format = arg;
		return 0;
	case KEY_RECORD: a->run.record = arg; return 0;
	case KEY_REPLAY: a->replay = arg; return 0;
	case KEY_SEED:
		a->run.seed = command_number(arg, "a seed", 0, UINT64_MAX, state);
		return 0;
	case KEY_REUSE:
		a->run.reuse = (u32)command_number(arg, "how often a frame is read", 1,
		                                   MAX_REUSE, state);
		return 0;
	case KEY_SCALE:
		a->run.options.scale =
			(u32)command_number(arg, "a scale", 1, MAX_SCALE, state);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is more than tier takes", arg);
		return 0;
	case ARGP_KEY_END:
		if (a->replay && (a->run.workload || a->run.trace))
			argp_error(state, "--replay needs neither --workload nor "
			                  "--trace");
		if (!a->list && !a->replay && !a->run.workload == !a->run.trace)
			argp_error(state, "either --workload NAME or --trace FILE; "
			                  "--list shows the workloads");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case KEY_POLICY: a->policies = arg; return 0;
	case KEY_FAST: a->fast = parse_bytes(arg, state); return 0;
	case KEY_SLOW: a->slow = parse_bytes(arg, state); return 0;
	case KEY_SEGMENT: a->segment = parse_bytes(arg, state); return 0;
	case KEY_RATIO:
		a->ratio = (u32)command_number(arg, "a ratio", 1, MAX_RATIO, state);
		return 0;
	case KEY_PARAMETERS: a->parameters = arg; return 0;
	case KEY_WORK: a->work = arg; return 0;
	case KEY_PREFETCH:
		a->run.options.prefetch = (u32)command_number(arg, "a number of frames",
		                                              0, MAX_PREFETCH, state);
		return 0;
	case KEY_TREES: a->run.options.trees = true; return 0;
	case KEY_KERNEL_SLOW: a->run.options.in_slow = true; return 0;
	case KEY_LAZY: a->run.options.lazy = true; return 0;
	case KEY_PIECEMEAL: a->run.options.piecemeal = true; return 0;
	case KEY_ONE_BY_ONE: a->run.options.one_by_one = true; return 0;
	case KEY_MEMORY_ONLY: a->run.options.memory_only = true; return 0;
	case KEY_LOG: a->log = arg; return 0;
	case KEY_LIST: a->list = true; return 0;
	case 'j': a->json = true; return 0;
	default: return parse_source(key, arg, a, state);
	}
}

static void list_print(void)
{
	char name[RUN_NAME_BYTES];
	u32 i;

	printf("workloads\n");
	for (i = 0; i < work_nr_kinds; i++)
		printf("  %-12s %s%s\n", work_kinds[i]->name,
		       work_kinds[i]->is_control ? "control: " : "",
		       work_kinds[i]->what);
	printf("policies\n ");
	for (i = 0; i < KLOC_NR_POLICIES; i++)
		printf(" %s", run_policy_name(i, false, name));
	printf("\n");
}

static bool is_same_file(const char *a, const char *b)
{
	struct stat x, y;

	return a && b &&
	       (strcmp(a, b) == 0 ||
	        (stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
	         x.st_ino == y.st_ino && S_ISREG(x.st_mode)));
}

/* Would the run write into a file that it needs? 0, or COMMAND_USAGE and has said why. */
static int files_check(const struct arguments *a)
{
	const char *const read[] = { a->run.trace, a->parameters, a->work };
	const char *const written[] = { a->run.record, a->log };
	bool same = is_same_file(a->run.record, a->log);
	u32 i;

	for (i = 0; i < 6; i++)
		same |= is_same_file(written[i / 3], read[i % 3]);
	if (!same)
		return 0;
	fprintf(stderr, "lodic-sim: --record, --log: name a file that is nothing else "
	                "in this run\n");
	return COMMAND_USAGE;
}

/* Which policies to run. 0, or COMMAND_USAGE and has said why. */
static int policies_choose(struct arguments *a, bool nodes, struct tier_report *report)
{
	enum kloc_policy_id usual[RUN_MAX_POLICIES];
	u32 i, nr = run_policies(nodes, usual);
	char *list = a->policies, *name;

	for (i = 0; !list && i < nr; i++)
		report->rows[report->nr++].policy = usual[i];
	while (list && (name = strsep(&list, ","))) {
		enum kloc_policy_id policy = run_policy_named(name, nodes);

		if (policy == KLOC_NR_POLICIES || report->nr == RUN_MAX_POLICIES) {
			fprintf(stderr,
			        policy == KLOC_NR_POLICIES
			                ? "lodic-sim: there is no policy '%s'; --list "
			                  "shows them\n"
			                : "lodic-sim: %s: too many policies\n",
			        name);
			return COMMAND_USAGE;
		}
		report->rows[report->nr++].policy = policy;
	}
	return 0;
}

/* The yardstick, and then the others. What is recorded is the same in each of them. */
static int policies_run(struct arguments *a, struct tier_report *report)
{
	enum kloc_policy_id yardstick = run_yardstick(report->nodes);
	struct engine_result slowest;
	struct run run = a->run;
	u32 i;
	int err;

	command_progress(0, report->nr + 1);
	err = run_policy(&run, yardstick, &slowest);
	report->yardstick_ns = slowest.ns;
	run.record = NULL;
	for (i = 0; i < report->nr && !err; i++) {
		struct tier_row *row = &report->rows[i];

		command_progress(i + 1, report->nr + 1);
		if (a->log && i + 1 == report->nr)
			run.options.log = fopen(a->log, "w");
		if (a->log && i + 1 == report->nr && !run.options.log) {
			command_fail(a->log, -errno);
			err = -EIO;
		} else if (row->policy == yardstick && !run.options.log) {
			row->result = slowest;
		} else {
			err = run_policy(&run, row->policy, &row->result);
		}
	}
	command_progress_end();
	if (run.options.log) {
		int closed = command_csv_close(run.options.log);

		if (closed)
			command_fail(a->log, closed);
		err = err ? err : closed;
	}
	return err;
}

static bool is_of_service(const char *path)
{
	char begin[sizeof(RECORD_MAGIC)] = "";
	FILE *f = fopen(path, "r");
	bool is =
		f && fgets(begin, sizeof(begin), f) && strcmp(begin, RECORD_MAGIC) == 0;

	if (f)
		fclose(f);
	return is;
}

static int replay_kernel(const struct arguments *a)
{
	struct kernel_result result;

	/* It says what is wrong. */
	if (kernel_replay(a->replay, &result) != 0)
		return COMMAND_FAILED;
	if (a->json)
		printf("{\"policy\": \"%s\", \"calls\": %" PRIu64
		       ", \"decisions\": %" PRIu64 ", \"knodes\": %" PRIu64
		       ", \"left_out\": %" PRIu64 "}\n",
		       result.policy, result.nr_inputs, result.nr_decisions,
		       result.nr_knodes, result.nr_left_out);
	else
		printf("%s: %" PRIu64 " calls give the same %" PRIu64
		       " decisions again, of %" PRIu64 " knodes; %" PRIu64
		       " lines of older ones left out\n",
		       result.policy, result.nr_inputs, result.nr_decisions,
		       result.nr_knodes, result.nr_left_out);
	return EXIT_SUCCESS;
}

/* What a running cache decided: does it follow from its calls? */
static int replay(const struct arguments *a)
{
	struct record_result result;

	/* It says what is wrong. */
	if (record_replay(a->replay, &result) != 0)
		return COMMAND_FAILED;
	if (a->json)
		printf("{\"policy\": \"%s\", \"calls\": %" PRIu64
		       ", \"decisions\": %" PRIu64 "}\n",
		       result.policy, result.nr_calls, result.nr_decisions);
	else
		printf("%s: %" PRIu64 " calls give the same %" PRIu64
		       " decisions again\n",
		       result.policy, result.nr_calls, result.nr_decisions);
	return EXIT_SUCCESS;
}

static const char doc[] =
	"Two tiers of memory, and what each policy makes of them: KLOC and its rivals.\v"
	"Throughput is relative to all_slow, in the measured part, after the workload has "
	"filled memory. On tier-optane, tiers are sockets, tasks move from the first to the "
	"second one, and throughput is relative to all_remote.\n"
	"\n"
	"The model counts exactly, and its times are a stated cost model: differences under "
	"20 % mean nothing. doc/tiers.md has the paper's numbers beside it.\n"
	"\n"
	"Examples:\n"
	"  lodic-sim tier --workload rocksdb\n"
	"  lodic-sim tier --workload redis --policy naive,kloc --fast 4g --ratio 4 --json\n";

int tier_main(int argc, char **argv)
{
	static const struct argp argp = { options, parse, NULL, doc, NULL, NULL, NULL };
	static struct tier_report report;
	static struct cost cost;
	struct arguments a = { .run = { .seed = 1, .options.scale = RUN_SCALE } };
	int err;

	if (argp_parse(&argp, argc, argv, 0, NULL, &a) != 0)
		return COMMAND_USAGE;
	if (a.list) {
		list_print();
		return EXIT_SUCCESS;
	}
	if (a.replay)
		return is_of_service(a.replay) ? replay(&a) : replay_kernel(&a);
	if (files_check(&a) != 0)
		return COMMAND_USAGE;
	/* cost_read() has said what is wrong with a file. */
	if (cost_read(a.parameters, a.work, &cost) != 0)
		return COMMAND_USAGE;
	if (a.ratio) {
		cost.machine.read_mb_s[1] = cost.machine.read_mb_s[0] / a.ratio;
		cost.machine.write_mb_s[1] = cost.machine.write_mb_s[0] / a.ratio;
	}
	a.run.options.cost = &cost;
	a.run.options.fast_bytes = a.fast / a.run.options.scale;
	a.run.options.slow_bytes = a.slow / a.run.options.scale;
	a.run.options.segment_bytes = a.segment / a.run.options.scale;
	if ((a.fast && a.run.options.fast_bytes < LEAST_BYTES) ||
	    (a.slow && a.run.options.slow_bytes < LEAST_BYTES) ||
	    (a.segment && a.run.options.segment_bytes < LEAST_BYTES)) {
		fprintf(stderr,
		        "lodic-sim: --fast, --slow, --segment: less than a page is left of it at "
		        "scale %u\n",
		        a.run.options.scale);
		return COMMAND_USAGE;
	}
	report.run = &a.run;
	report.nodes = run_has_nodes(&cost);
	if (policies_choose(&a, report.nodes, &report) != 0)
		return COMMAND_USAGE;
	err = policies_run(&a, &report);
	/* run_policy() has said what is wrong. */
	if (err)
		return err == -ENOENT || err == -EINVAL ? COMMAND_USAGE
		                                        : COMMAND_FAILED;
	if (!a.json)
		tier_report_print(&report);
	else if (tier_report_json(&report) != 0)
		return command_fail("memory", -ENOMEM);
	return EXIT_SUCCESS;
}
