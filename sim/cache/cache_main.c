/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic-sim cache`: options, and the points to run. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cache/cache_main.h"
#include "sim/cache/report.h"
#include "sim/command.h"

#define MAX_LIST 32u
#define MAX_WAYS 16u
#define MOST_BLOCKS 65536u
#define DEFAULT_BLOCKS 512u
#define DEFAULT_BATCH 32u

enum {
	KEY_SEED = 256,
	KEY_TOPOLOGY,
	KEY_PARAMETERS,
	KEY_BAND,
	KEY_SCHEMES,
	KEY_CPUS,
	KEY_WHAT,
	KEY_BLOCKS,
	KEY_WORK,
	KEY_BATCH,
};

struct options {
	const char *topology, *parameters;
	u64 seed;
	const struct cache_way *ways[MAX_WAYS];
	u32 nr_ways;
	u32 cpus[MAX_LIST];
	u32 nr_cpus;
	bool whats[CACHE_NR_WHATS];
	u32 blocks, work, batch;
	bool chosen; /* what, by --what */
	bool json, band, has_work;
};

static const struct argp_option option_list[] = {
	{ "schemes", KEY_SCHEMES, "A,B", 0,
	  "lodic, lodic-lock, hazard, percpu, paygo, frozen, atomic, private (default: all)",
	  0 },
	{ "what", KEY_WHAT, "A,B", 0, "read, pin, pair, evict (default: all)", 0 },
	{ "cpus", KEY_CPUS, "N,M", 0,
	  "How many CPUs (default: a few numbers up to the machine's)", 0 },
	{ "blocks", KEY_BLOCKS, "N", 0,
	  "Cached blocks (default: 512); 1: only the runs of one hot block", 0 },
	{ "work", KEY_WORK, "CYCLES", 0,
	  "What is computed with a pinned block (default: as long as a copy of it takes)",
	  0 },
	{ "batch", KEY_BATCH, "N", 0,
	  "Frames that the service evicts with one heavy fence (default: 32)", 0 },
	{ "topology", KEY_TOPOLOGY, "NAME|FILE", 0,
	  "The machine: 8x15 (default), 4x24, 4x128, 2x64, 1x16, 1x2, host", 0 },
	{ "parameters", KEY_PARAMETERS, "NAME|FILE", 0,
	  "What things cost (default: the topology's)", 0 },
	{ "band", KEY_BAND, NULL, 0,
	  "low and high over the whole sensitivity set, which takes minutes", 0 },
	{ "seed", KEY_SEED, "N", 0, "Seed of all runs (default: 1)", 0 },
	{ "json", 'j', NULL, 0, "Print JSON", 0 },
	{ 0 },
};

static void parse_schemes(struct options *o, char *list, struct argp_state *state)
{
	char *name;

	o->nr_ways = 0;
	while ((name = strsep(&list, ","))) {
		const struct cache_way *way = cache_way_find(name);

		if (!way)
			argp_error(state, "there is no scheme '%s'", name);
		if (o->nr_ways == MAX_WAYS)
			argp_error(state, "too many schemes");
		o->ways[o->nr_ways++] = way;
	}
}

static void parse_cpus(struct options *o, char *list, struct argp_state *state)
{
	char *number;

	o->nr_cpus = 0;
	while ((number = strsep(&list, ","))) {
		if (o->nr_cpus == MAX_LIST)
			argp_error(state, "too many numbers of CPUs");
		o->cpus[o->nr_cpus++] = (u32)command_number(number, "a number of CPUs",
		                                            1, SIM_MAX_CPUS, state);
	}
}

static void parse_what(struct options *o, char *list, struct argp_state *state)
{
	char *name;
	u32 i;

	o->chosen = true;
	while ((name = strsep(&list, ","))) {
		for (i = 0; i < CACHE_NR_WHATS; i++)
			if (strcmp(cache_what_name(i), name) == 0)
				break;
		if (i == CACHE_NR_WHATS)
			argp_error(state, "'%s' is not read, pin, pair or evict", name);
		else
			o->whats[i] = true;
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case KEY_SCHEMES: parse_schemes(o, arg, state); return 0;
	case KEY_CPUS: parse_cpus(o, arg, state); return 0;
	case KEY_WHAT: parse_what(o, arg, state); return 0;
	case KEY_BLOCKS:
		o->blocks = (u32)command_number(arg, "a number of blocks", 1,
		                                MOST_BLOCKS, state);
		return 0;
	case KEY_WORK:
		o->work = (u32)command_number(arg, "a number of cycles", 0, 1000000,
		                              state);
		o->has_work = true;
		return 0;
	case KEY_BATCH:
		o->batch = (u32)command_number(arg, "a number of frames", 1,
		                               CACHE_MOST_BATCH, state);
		return 0;
	case KEY_TOPOLOGY: o->topology = arg; return 0;
	case KEY_PARAMETERS: o->parameters = arg; return 0;
	case KEY_BAND: o->band = true; return 0;
	case KEY_SEED:
		o->seed = command_number(arg, "a seed", 0, UINT64_MAX, state);
		return 0;
	case 'j': o->json = true; return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is more than cache takes", arg);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static void options_default(struct options *o, const struct machine *m)
{
	static const u32 usual[] = { 1, 15, 30, 60, 120, 256 };
	u32 i, nr = machine_nr_cpus(m);

	for (i = 0; o->nr_ways == 0 && i < cache_nr_ways; i++)
		o->ways[i] = cache_ways[i];
	if (o->nr_ways == 0)
		o->nr_ways = cache_nr_ways;
	for (i = 0; !o->chosen && i < CACHE_NR_WHATS; i++)
		o->whats[i] = true;
	if (!o->has_work)
		o->work = (u32)BLOCK_BYTES / m->timing.copy_bytes_per_cycle;
	if (o->nr_cpus > 0)
		return;
	for (i = 0; i < sizeof(usual) / sizeof(*usual) && usual[i] < nr; i++)
		o->cpus[o->nr_cpus++] = usual[i];
	o->cpus[o->nr_cpus++] = nr;
}

/* Keeps the machine as it is, and those that decide contended lines another way. */
static u32 set_keep_few(struct sim_machine *set, u32 nr)
{
	u32 kept = 1, i;

	for (i = 1; i < nr; i++)
		if (set[i].hold_ns != set[0].hold_ns ||
		    set[i].same_socket_percent != set[0].same_socket_percent)
			set[kept++] = set[i];
	return kept;
}

/* Adds a point for each way and number of CPUs. Returns how many there are now. */
static u32 points_add(const struct options *o, u32 machine_cpus, enum cache_what what,
                      u32 blocks, struct cache_point *points, u32 nr)
{
	bool evicts = what == CACHE_EVICT;
	u32 way, i;

	for (way = 0; way < o->nr_ways; way++)
		for (i = 0; i < o->nr_cpus; i++) {
			struct cache_point *p = &points[nr++];

			p->cpus = o->cpus[i];
			p->setup = (struct cache_setup){
				.way = o->ways[way],
				.what = what,
				.nr_readers = o->cpus[i],
				.nr_blocks = blocks,
				.work = o->work,
				.batch = evicts ? o->batch : 0,
			};
			if (evicts && o->cpus[i] == machine_cpus)
				p->setup.nr_readers--;
		}
	return nr;
}

/* All that was asked for. points has room. */
static u32 points_make(const struct options *o, u32 machine_cpus,
                       struct cache_point *points)
{
	u32 nr = 0;
	enum cache_what what;

	for (what = 0; what < CACHE_NR_WHATS; what++) {
		if (!o->whats[what])
			continue;
		if (what != CACHE_EVICT)
			nr = points_add(o, machine_cpus, what, 1, points, nr);
		if (what != CACHE_PAIR && o->blocks > 1)
			nr = points_add(o, machine_cpus, what, o->blocks, points, nr);
	}
	return nr;
}

static int points_run(const struct options *o, const struct machine *m,
                      struct cache_report *report, struct cache_point *points)
{
	static struct sim_machine set[MACHINE_MAX_SET];
	u32 nr = machine_set(m, set), i;
	int err = 0;

	if (!o->band)
		nr = set_keep_few(set, nr);
	report->nr_machines = nr;
	for (i = 0; i < report->nr && !err; i++) {
		/* A band of evictions would take most of the time. */
		bool banded = o->band || points[i].setup.what != CACHE_EVICT;

		command_progress(i, report->nr);
		err = cache_measure(set, banded ? nr : 1, o->seed, &points[i]);
	}
	command_progress_end();
	return err;
}

static const char doc[] =
	"liblodic's cache on many CPUs: reads, pins and evictions, and what other ways of "
	"counting pins would make of them in the same cache.\v"
	"The text is core/cache, as it ships. Every scheme stands in the same cache: the "
	"translation and the checks are liblodic's, and only the count differs.\n"
	"\n"
	"read copies 4 KiB: lodic without a count, the others with one around the copy. pin "
	"computes with the block before it unpins; pair has nothing between the two. evict "
	"lets a service on the machine's last CPU evict and fill, 250,000 frames a second at "
	"most, and costs the readers what lost % says. If they want that CPU too, there is "
	"one reader fewer.\n"
	"\n"
	"The schemes count so:\n"
	"  lodic       plain stores in the context's own pte; a heavy fence a batch\n"
	"  lodic-lock  the same by an exchange, without such a fence\n"
	"  hazard      a line of slots of the context's own, scanned once a batch\n"
	"  percpu      a word of the CPU's own for each frame\n"
	"  paygo       the CPU's own table, as in lodic/counter.h\n"
	"  frozen      one word for each frame, by fetch-and-add\n"
	"  atomic      the same by compare-and-swap\n"
	"  private     a word at which nobody looks: nothing can cost less\n"
	"\n"
	"low and high are over the machines that treat contended lines another way; with "
	"--band, over the whole sensitivity set. Evictions have a band only then. transfers "
	"are cache lines that an operation moves.\n"
	"\n"
	"Examples:\n"
	"  lodic-sim cache\n"
	"  lodic-sim cache --topology 4x128 --what pin --schemes lodic,atomic,private\n"
	"  lodic-sim cache --what evict --cpus 1,30,120 --schemes lodic,hazard --json\n";

static int options_check(const struct options *o, const struct machine *m)
{
	u32 i, most = machine_nr_cpus(m);

	for (i = 0; i < o->nr_cpus; i++)
		if (o->cpus[i] > most) {
			fprintf(stderr, "lodic-sim: %s has %u CPUs, not %u\n",
			        m->timing.name, most, o->cpus[i]);
			return COMMAND_USAGE;
		}
	if (o->whats[CACHE_EVICT] && most < 2) {
		fprintf(stderr,
		        "lodic-sim: evict takes a CPU for the service and one more\n");
		return COMMAND_USAGE;
	}
	return EXIT_SUCCESS;
}

int cache_main(int argc, char **argv)
{
	static const struct argp argp = { option_list, parse, NULL, doc,
		                          NULL,        NULL,  NULL };
	struct options o = { .topology = "8x15",
		             .seed = 1,
		             .blocks = DEFAULT_BLOCKS,
		             .batch = DEFAULT_BATCH };
	struct cache_report report = { 0 };
	struct cache_point *points;
	struct machine m;
	int err;

	if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
		return COMMAND_USAGE;
	/* machine_read() has said what is wrong with a file. */
	if (machine_read(o.topology, o.parameters, &m) != 0)
		return COMMAND_USAGE;
	options_default(&o, &m);
	if (options_check(&o, &m) != 0)
		return COMMAND_USAGE;
	points = calloc(2 * CACHE_NR_WHATS * MAX_WAYS * MAX_LIST, sizeof(*points));
	if (!points)
		return command_fail("memory", -ENOMEM);
	report.machine = &m;
	report.seed = o.seed;
	report.work = o.work;
	report.points = points;
	report.nr = points_make(&o, machine_nr_cpus(&m), points);
	err = points_run(&o, &m, &report, points);
	if (!err && !o.json)
		cache_report_print(&report);
	else if (!err)
		err = cache_report_json(&report);
	free(points);
	return err ? command_fail("cache", err) : EXIT_SUCCESS;
}
