/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* bench_micro's rounds, options and results. What is measured: bench/micro.h. */
#include <argp.h>
#include <errno.h>
#include <string.h>

#include "bench/field.h"
#include "bench/measure/report.h"
#include "bench/measure/shared.h"
#include "bench/measure/table.h"
#include "bench/measure/workload.h"
#include "bench/micro.h"
#include "cli/cli.h"
#include "cli/series.h"

#define DEFAULT_ROUNDS 60
#define MAX_STEPS 32u
#define UNITS \
	"ns: one step on one CPU, of ping_pong one way; spread: interquartile range of " \
	"ns; mops: 10^6 steps a second, all CPUs; medians of undisturbed slots; ratio: " \
	"median of the rounds' ratios of the two steps' ns; gains: the same of the mops " \
	"of 2 CPUs and of 1"

struct micro_cell {
	struct series mops;
	struct series_spread spread;
	u32 nr_tried, nr_slots;
};

struct micro {
	u32 rounds;
	bool json;
	u64 seed;
	u32 nr_cpus; /* that we use */
	int cpus[MICRO_MOST_CPUS];
	struct slots slots;
	struct micro_ground *ground;
	struct field *field;
	struct micro_cell cells[MAX_STEPS][MICRO_MOST_CPUS]; /* [step][cpus - 1] */
	u64 nr_ops; /* the ground's words must add up to so many */
};

/* Pairs of steps: the results say what the first costs over what the second does. */
static const struct {
	const char *over, *under;
} questions[] = {
	{ "rseq", "spinlock" },
	{ "rseq", "percpu_cas" },
	{ "percpu_cas", "spinlock" },
};
#define NR_QUESTIONS (sizeof(questions) / sizeof(questions[0]))

/* Steps that share nothing: the results say how many times one CPU's rate two CPUs give. */
static const char *const gains[] = { "multiply", "add", "copy" };
#define NR_GAINS (sizeof(gains) / sizeof(gains[0]))

enum { KEY_SEED = 256 };

static const char doc[] =
	"Measure the steps that counting is made of. These are adding and "
	"compare-and-swap on one word, handing a word over, a pin of lodic, and ways to "
	"update a word of one's own CPU. Measure also what each promise of a cached read costs."
	"\v"
	"Examples:\n"
	"  bench_micro\n"
	"  bench_micro --rounds 200 --json > micro.json\n";

static const struct argp_option option_list[] = {
	{ "json", 'j', NULL, 0, "Print JSON", 0 },
	{ "rounds", 'r', "N", 0,
	  "Rounds, each with a slot for every step (default: 60)", 0 },
	{ "seed", KEY_SEED, "N", 0, "Seed of the orders (default: 20240731)", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct micro *m = state->input;
	uint64_t n;

	switch (key) {
	case 'j': m->json = true; return 0;
	case 'r':
		if (cli_parse_number(arg, 1, SERIES_MAX_ROUNDS, &n) != 0)
			argp_error(state, "'%s' is not 1 to %u rounds", arg,
			           SERIES_MAX_ROUNDS);
		else
			m->rounds = (u32)n;
		return 0;
	case KEY_SEED:
		if (cli_parse_number(arg, 1, UINT32_MAX, &m->seed) != 0)
			argp_error(state, "'%s' is not a seed, 1 ... 2^32 - 1", arg);
		return 0;
	case ARGP_KEY_ARG: argp_error(state, "'%s' is too much", arg); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static int ground_open(struct micro_ground **ret)
{
	struct micro_ground *g = shared_alloc(sizeof(*g), COUNT_LINE_BYTES);

	if (!g)
		return -ENOMEM;
	g->nr_cpus = host_nr_cpus();
	g->own = shared_alloc((u64)g->nr_cpus * COUNT_LINE_BYTES, COUNT_LINE_BYTES);
	*ret = g;
	return g->own ? 0 : -ENOMEM;
}

static int micro_open(struct micro *m)
{
	struct field_ground *field_ground = NULL;
	u32 nr = machine_cpus(m->cpus, MICRO_MOST_CPUS);
	int error;

	m->nr_cpus = nr > MICRO_MOST_CPUS ? MICRO_MOST_CPUS : nr;
	error = shared_open();
	if (!error)
		error = slots_open(&m->slots, m->cpus, m->nr_cpus, false);
	if (!error)
		error = ground_open(&m->ground);
	if (!error)
		error = field_ground_open(&field_ground, 1, m->nr_cpus, 1, m->cpus,
		                          m->seed);
	if (!error)
		error = field_open(&m->field, &count_owned, field_ground, &m->slots);
	for (u32 i = 0; i < micro_nr_steps; i++)
		for (u32 n = 0; n < m->nr_cpus && !error; n++)
			error = series_open(&m->cells[i][n].mops, m->rounds);
	return error;
}

static void micro_close(struct micro *m)
{
	slots_close(&m->slots);
	if (m->field)
		field_close(m->field);
	for (u32 i = 0; i < micro_nr_steps; i++)
		for (u32 n = 0; n < MICRO_MOST_CPUS; n++)
			series_close(&m->cells[i][n].mops);
}

static int run_slot(struct micro *m, u32 step, u32 cpus, u32 round)
{
	struct slots_work work = { .run = micro_steps[step].run, .arg = m->ground };
	struct micro_cell *cell = &m->cells[step][cpus - 1];
	struct slots_result result;
	int error;

	if (work.run)
		error = slots_measure(&m->slots, cpus, &work, &result);
	else
		error = field_measure(m->field, FIELD_HOT, 0, &m->slots, cpus, &result);
	if (error)
		return error;
	cell->nr_tried += result.nr_tried;
	cell->nr_slots += result.counts;
	if (result.counts)
		cell->mops.at[round] = result.mops;
	if (work.run && micro_steps[step].counts)
		m->nr_ops += result.nr_ops;
	return 0;
}

static bool step_usable(u32 step)
{
	return !micro_steps[step].usable || micro_steps[step].usable();
}

/* Runs every step on every number of CPUs, in an order drawn anew. */
static int run_round(struct micro *m, u32 round, u64 *random)
{
	u32 order[MAX_STEPS * MICRO_MOST_CPUS], nr = 0;
	int error = 0;

	for (u32 i = 0; i < micro_nr_steps; i++)
		for (u32 n = micro_steps[i].least_cpus;
		     n <= m->nr_cpus && step_usable(i); n++)
			order[nr++] = i * MICRO_MOST_CPUS + n - 1;
	for (u32 i = nr - 1; i > 0; i--) {
		u32 j = (u32)(workload_random(random) % (i + 1)), t = order[i];

		order[i] = order[j];
		order[j] = t;
	}
	for (u32 i = 0; i < nr && !error; i++)
		error = cli_stopped ? -EINTR
		                    : run_slot(m, order[i] / MICRO_MOST_CPUS,
		                               order[i] % MICRO_MOST_CPUS + 1, round);
	return error;
}

static int micro_run(struct micro *m)
{
	u64 random = m->seed;
	int error = 0;

	for (u32 round = 0; round < m->rounds && !error; round++) {
		error = run_round(m, round, &random);
		cli_progress("measuring", 100 * round / m->rounds);
	}
	cli_progress("", 101);
	if (error)
		return error;
	field_check(m->field);
	for (u32 i = 0; i < micro_nr_steps; i++)
		for (u32 n = 0; n < m->nr_cpus; n++)
			m->cells[i][n].spread = series_spread(&m->cells[i][n].mops);
	return 0;
}

/* Turns a rate into the time of one step. A word that is handed over is on one CPU only. */
static double step_ns(const struct micro_step *step, u32 cpus, double mops)
{
	return (step->one_way ? 1 : cpus) * 1e3 / mops;
}

static const struct series *series_of(const struct micro *m, const char *name, u32 cpus)
{
	for (u32 i = 0; i < micro_nr_steps; i++)
		if (strcmp(micro_steps[i].name, name) == 0)
			return &m->cells[i][cpus - 1].mops;
	return NULL;
}

/* The ratio of two costs is the ratio of the rates, the other way round. */
static struct series_spread answer(const struct micro *m, u32 question, u32 cpus)
{
	return series_ratio(series_of(m, questions[question].under, cpus),
	                    series_of(m, questions[question].over, cpus));
}

static struct series_spread gain(const struct micro *m, u32 which)
{
	if (m->nr_cpus < 2)
		return (struct series_spread){ 0 };
	return series_ratio(series_of(m, gains[which], 2),
	                    series_of(m, gains[which], 1));
}

static json_t *cell_json(const struct micro *m, u32 step, u32 cpus)
{
	const struct micro_cell *c = &m->cells[step][cpus - 1];
	const struct micro_step *s = &micro_steps[step];
	json_t *o = json_object();

	json_object_set_new(o, "name", json_string(s->name));
	json_object_set_new(o, "promise", json_boolean(s->promise));
	json_object_set_new(o, "cpus", json_integer(cpus));
	if (c->spread.known) {
		json_object_set_new(o, "ns",
		                    json_real(step_ns(s, cpus, c->spread.median)));
		json_object_set_new(o, "spread",
		                    json_real(step_ns(s, cpus, c->spread.low) -
		                              step_ns(s, cpus, c->spread.high)));
		json_object_set_new(o, "mops", json_real(c->spread.median));
	} else {
		json_object_set_new(o, "ns", json_null());
		json_object_set_new(o, "spread", json_null());
		json_object_set_new(o, "mops", json_null());
	}
	json_object_set_new(o, "slots", json_integer(c->nr_slots));
	json_object_set_new(o, "slots_tried", json_integer(c->nr_tried));
	json_object_set_new(o, "what", json_string(s->what));
	return o;
}

static json_t *answers_json(const struct micro *m)
{
	json_t *list = json_array();

	for (u32 i = 0; i < NR_QUESTIONS; i++) {
		for (u32 cpus = 1; cpus <= m->nr_cpus; cpus++) {
			struct series_spread s = answer(m, i, cpus);
			json_t *o = json_object();

			json_object_set_new(o, "name", json_string(questions[i].over));
			json_object_set_new(o, "over", json_string(questions[i].under));
			json_object_set_new(o, "cpus", json_integer(cpus));
			json_object_set_new(o, "ratio",
			                    s.known ? json_real(s.median)
			                            : json_null());
			json_object_set_new(o, "spread",
			                    s.known ? json_real(s.high - s.low)
			                            : json_null());
			json_array_append_new(list, o);
		}
	}
	return list;
}

static json_t *gains_json(const struct micro *m)
{
	json_t *list = json_array();

	for (u32 i = 0; i < NR_GAINS; i++) {
		struct series_spread s = gain(m, i);
		json_t *o = json_object();

		json_object_set_new(o, "name", json_string(gains[i]));
		json_object_set_new(o, "ratio",
		                    s.known ? json_real(s.median) : json_null());
		json_object_set_new(o, "spread",
		                    s.known ? json_real(s.high - s.low) : json_null());
		json_array_append_new(list, o);
	}
	return list;
}

static void print_json(const struct micro *m, const struct machine *machine)
{
	json_t *o = json_object(), *results = json_array();
	char parameters[REPORT_PARAMETERS_BYTES];
	struct report_run run = { machine, parameters, m->seed };

	snprintf(parameters, sizeof(parameters), "rounds=%u cpus=%u", m->rounds,
	         m->nr_cpus);
	for (u32 i = 0; i < micro_nr_steps; i++)
		for (u32 n = micro_steps[i].least_cpus; n <= m->nr_cpus; n++)
			json_array_append_new(results, cell_json(m, i, n));
	report_run_json(o, &run);
	json_object_set_new(o, "rounds", json_integer(m->rounds));
	json_object_set_new(o, "units", json_string(UNITS));
	json_object_set_new(o, "results", results);
	json_object_set_new(o, "ratios", answers_json(m));
	json_object_set_new(o, "gains", gains_json(m));
	report_print_json(o, stdout);
	json_decref(o);
}

static void print_row(const struct micro *m, u32 step, struct table *t)
{
	const struct micro_step *s = &micro_steps[step];

	table_row(t);
	table_cell(t, "%s", s->name);
	for (u32 n = 1; n <= m->nr_cpus; n++) {
		const struct micro_cell *c = &m->cells[step][n - 1];

		if (n < s->least_cpus)
			table_cell(t, " ");
		else if (!c->spread.known)
			table_cell(t, "n/m");
		else
			table_cell(t, "%.1f", step_ns(s, n, c->spread.median));
	}
}

static void print_table(const struct micro *m, const struct machine *machine)
{
	struct table t = { 0 };

	printf("%s, %u CPUs, %s; %u rounds; seed %llu\n\nns of one step on one CPU\n",
	       machine->cpu, machine->nr_cpus, machine->kernel, m->rounds,
	       (unsigned long long)m->seed);
	table_row(&t);
	table_cell(&t, " ");
	for (u32 n = 1; n <= m->nr_cpus; n++)
		table_cell(&t, "%u CPU%s", n, n == 1 ? "" : "s");
	for (u32 i = 0; i < micro_nr_steps; i++)
		print_row(m, i, &t);
	table_print(&t, stdout);
	putchar('\n');
	for (u32 i = 0; i < micro_nr_steps; i++)
		printf("%-14s %s\n", micro_steps[i].name, micro_steps[i].what);
	putchar('\n');
	for (u32 i = 0; i < NR_QUESTIONS; i++) {
		for (u32 cpus = 1; cpus <= m->nr_cpus; cpus++) {
			struct series_spread s = answer(m, i, cpus);

			if (s.known)
				printf("%s costs %.2f of %s, %u CPU%s\n",
				       questions[i].over, s.median, questions[i].under,
				       cpus, cpus == 1 ? "" : "s");
		}
	}
	for (u32 i = 0; i < NR_GAINS; i++) {
		struct series_spread s = gain(m, i);

		if (s.known)
			printf("2 CPUs do %.2f times as many steps of %s as 1\n",
			       s.median, gains[i]);
	}
}

static int publish(const struct micro *m)
{
	u64 sum = micro_ground_sum(m->ground);
	struct machine machine;

	if (sum != m->nr_ops) {
		cli_error("%llu steps were done, but the words add up to %llu",
		          (unsigned long long)m->nr_ops, (unsigned long long)sum);
		return CLI_FAILED;
	}
	machine_find(&machine);
	if (m->json)
		print_json(m, &machine);
	else
		print_table(m, &machine);
	return CLI_OK;
}

int main(int argc, char **argv)
{
	static const struct argp argp = { option_list, parse, NULL, doc,
		                          NULL,        NULL,  NULL };
	static struct micro m = { .rounds = DEFAULT_ROUNDS, .seed = WORKLOAD_SEED };
	int status = CLI_FAILED, error;

	argp_err_exit_status = CLI_USAGE;
	cli_check_output();
	cli_offer_version("bench_micro");
	if (argp_parse(&argp, argc, argv, 0, NULL, &m) != 0)
		return CLI_USAGE;
	cli_catch_signals();
	error = micro_open(&m);
	if (!error)
		error = micro_run(&m);
	if (!error)
		status = publish(&m);
	else if (error != -EINTR)
		cli_error("cannot measure: %s", strerror(-error));
	micro_close(&m);
	return cli_stopped ? CLI_STOPPED : status;
}
