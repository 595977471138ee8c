/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic bench counter`: options, rounds, holds and crowds. */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "bench/command/bench.h"
#include "bench/command/counter.h"
#include "bench/measure/machine.h"
#include "bench/measure/shared.h"
#include "bench/measure/workload.h"
#include "cli/cli.h"
#include "host/random.h"

#define DEFAULT_ROUNDS 40
#define CROWD_PUTS 200u
#define CROWD_WORK 200u /* looks between a get and its put */
#define CROWD_MOST 100000u
#define CROWD_STACK (64u << 10)
#define REPEATS 200u /* of creates and kills */

enum { KEY_SEED = 256, KEY_CROWD };

static const char doc[] =
	"Measure what a get and a put of a program's own object cost by lodic/counter.h, and by "
	"other ways to count. All ways alternate in one run of about half a minute."
	"\v"
	"Examples:\n"
	"  lodic bench counter\n"
	"  lodic bench counter --json > counter.json\n"
	"  lodic bench counter --objects 1 --threads 1,2 --rounds 200\n"
	"  lodic bench counter --crowd 2000\n";

static const struct argp_option option_list[] = {
	{ "json", 'j', NULL, 0, "Print JSON and not tables", 0 },
	{ "rounds", 'r', "N", 0,
	  "Run N rounds; each gives every way one slot (default: 40)", 0 },
	{ "objects", 'o', "LIST", 0,
	  "Count so many objects in turn: powers of two (default: 1,4,16,64,256,512)",
	  0 },
	{ "threads", 't', "LIST", 0, "So many threads (default: 1,2, as CPUs allow)",
	  0 },
	{ "crowd", KEY_CROWD, "N", 0,
	  "Let N threads run at once, too, and say how many puts were on another CPU than the get "
	  "(default: 0: no crowd)",
	  0 },
	{ "seed", KEY_SEED, "N", 0, "Seed of the orders (default: 20240731)", 0 },
	{ 0 },
};

static bool parse_list(const char *text, uint64_t most, bool powers, u32 *list, u32 *nr)
{
	char copy[128], *rest = copy, *piece;
	uint64_t n;

	if (strlen(text) >= sizeof(copy))
		return false;
	strcpy(copy, text);
	*nr = 0;
	while ((piece = strsep(&rest, ","))) {
		if (*nr == BENCH_COUNTER_LIST ||
		    cli_parse_number(piece, 1, most, &n) != 0 ||
		    (powers && (n & (n - 1))))
			return false;
		list[(*nr)++] = (u32)n;
	}
	return true;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct bench_counter *b = state->input;
	uint64_t n;

	switch (key) {
	case 'j': b->json = true; return 0;
	case 'r':
		if (cli_parse_number(arg, 1, SERIES_MAX_ROUNDS, &n) != 0)
			argp_error(state, "'%s' is not 1 to %u rounds", arg,
			           SERIES_MAX_ROUNDS);
		else
			b->rounds = (u32)n;
		return 0;
	case 'o':
		if (!parse_list(arg, BENCH_COUNTER_OBJECTS, true, b->objects,
		                &b->nr_objects))
			argp_error(state,
			           "'%s' is not a list of powers of two up to %u", arg,
			           BENCH_COUNTER_OBJECTS);
		return 0;
	case 't':
		if (!parse_list(arg, BENCH_COUNTER_CPUS, false, b->threads,
		                &b->nr_threads))
			argp_error(state, "'%s' is not a list of numbers of threads",
			           arg);
		return 0;
	case KEY_CROWD:
		if (cli_parse_number(arg, 1, CROWD_MOST, &n) != 0)
			argp_error(state, "'%s' is not 1 to %u threads", arg,
			           CROWD_MOST);
		else
			b->crowd = (u32)n;
		return 0;
	case KEY_SEED:
		if (cli_parse_number(arg, 1, UINT32_MAX, &b->seed) != 0)
			argp_error(state, "'%s' is not a seed, 1 ... 2^32 - 1", arg);
		return 0;
	case ARGP_KEY_ARG: argp_error(state, "'%s' is too much", arg); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* ---- the ground ---- */

static void released(struct lodic_counter *counter, void *arg)
{
	(void)counter;
	(void)arg;
}

static int make_domain(enum lodic_counter_scheme scheme, struct lodic_domain **ret)
{
	const struct lodic_domain_options o = { .scheme = scheme,
		                                .entries = BENCH_COUNTER_ENTRIES,
		                                .release = released };

	return lodic_domain_create(&o, ret);
}

static int ground_open(struct bench_ground *g, u32 nr_cpus)
{
	int error = make_domain(LODIC_COUNTER_PAYGO, &g->paygo);

	if (!error)
		error = make_domain(LODIC_COUNTER_PERCPU, &g->percpu);
	if (!error)
		error = make_domain(LODIC_COUNTER_ATOMIC, &g->atomic);
	g->objects = shared_alloc(BENCH_COUNTER_OBJECTS * sizeof(*g->objects), 64);
	g->held = shared_alloc(BENCH_COUNTER_HOLDS * sizeof(*g->held), 64);
	g->own = shared_alloc((u64)nr_cpus * BENCH_COUNTER_OBJECTS * 64, 64);
	g->tokens = calloc(BENCH_COUNTER_HOLDS, sizeof(*g->tokens));
	if (!error && (!g->objects || !g->held || !g->own || !g->tokens))
		error = -ENOMEM;
	return error;
}

static void ground_close(struct bench_ground *g)
{
	lodic_domain_destroy(g->paygo);
	lodic_domain_destroy(g->percpu);
	lodic_domain_destroy(g->atomic);
	free(g->tokens);
}

/* ---- cells ---- */

const struct bench_cell *bench_counter_cell(const struct bench_counter *b, u32 way,
                                            u32 threads, u32 objects)
{
	for (u32 i = 0; i < b->nr_cells; i++) {
		const struct bench_cell *c = &b->cells[i];

		if (c->way == way && c->threads == threads && c->objects == objects)
			return c;
	}
	return NULL;
}

static int make_cells(struct bench_counter *b)
{
	int error = 0;

	b->cells = calloc(b->nr_threads * b->nr_objects * BENCH_COUNTER_WAYS,
	                  sizeof(*b->cells));
	if (!b->cells)
		return -ENOMEM;
	for (u32 t = 0; t < b->nr_threads; t++)
		for (u32 o = 0; o < b->nr_objects; o++)
			for (u32 w = 0; w < BENCH_COUNTER_WAYS && !error; w++) {
				struct bench_cell *c = &b->cells[b->nr_cells];

				if (bench_ways[w].works && !bench_ways[w].works())
					continue;
				*c = (struct bench_cell){ .way = w,
					                  .threads = b->threads[t],
					                  .objects = b->objects[o] };
				error = series_open(&c->mops, b->rounds);
				b->nr_cells += !error;
			}
	return error;
}

static int measure_cell(struct bench_counter *b, struct bench_cell *c, u32 round,
                        struct bench_ground *g, struct slots *slots, u64 position)
{
	const struct slots_work work = { .run = bench_ways[c->way].run,
		                         .arg = g,
		                         .position = position };
	struct slots_result r;
	int error;

	(void)b;
	g->nr_objects = c->objects;
	g->mask = c->objects - 1;
	error = slots_measure(slots, c->threads, &work, &r);
	if (error)
		return error;
	c->nr_tried += r.nr_tried;
	c->nr_slots += r.counts;
	c->mops.at[round] = r.counts ? r.mops : 0;
	return r.nr_failed ? -EIO : 0;
}

static int run_round(struct bench_counter *b, u32 round, struct bench_ground *g,
                     struct slots *slots, u64 *random)
{
	u32 order[BENCH_COUNTER_LIST * BENCH_COUNTER_LIST * BENCH_COUNTER_WAYS], i;
	int error = 0;

	for (i = 0; i < b->nr_cells; i++)
		order[i] = i;
	for (i = b->nr_cells; i > 1; i--) {
		u32 other = (u32)(random_next(random) % i), was = order[i - 1];

		order[i - 1] = order[other];
		order[other] = was;
	}
	for (i = 0; i < b->nr_cells && !error && !cli_stopped; i++)
		error = measure_cell(b, &b->cells[order[i]], round, g, slots,
		                     random_next(random) & 0xffff);
	return error;
}

/* ---- long-lived references (PAYGO s.3.5) ---- */

static u64 hold_begin(void *arg, u32 worker, u64 position, u64 nr)
{
	struct bench_ground *g = arg;
	u64 nr_failed = 0;
	uint64_t token;

	(void)worker, (void)position, (void)nr;
	for (u32 i = 0; i < g->hold; i++)
		nr_failed += !lodic_counter_try_get(g->paygo, &g->held[i].counter,
		                                    &g->tokens[i]);
	g->nr_in_word = 0;
	for (u32 i = 0; i < BENCH_COUNTER_OBJECTS; i++) {
		nr_failed += !lodic_counter_try_get(g->paygo, &g->objects[i].counter,
		                                    &token);
		g->nr_in_word += token == 0; /* that of the object's word */
		lodic_counter_put(g->paygo, &g->objects[i].counter, token);
	}
	return nr_failed;
}

static u64 hold_end(void *arg, u32 worker, u64 position, u64 nr)
{
	struct bench_ground *g = arg;

	(void)worker, (void)position, (void)nr;
	for (u32 i = 0; i < g->hold; i++)
		lodic_counter_put(g->paygo, &g->held[i].counter, g->tokens[i]);
	return 0;
}

static int measure_hold(struct bench_hold *h, u32 round, struct bench_ground *g,
                        struct slots *slots)
{
	struct slots_work work = { .run = hold_begin, .arg = g };
	struct slots_result r;
	u64 nr_failed;
	int error;

	g->hold = h->hold;
	g->nr_objects = BENCH_COUNTER_OBJECTS;
	g->mask = BENCH_COUNTER_OBJECTS - 1;
	error = slots_call(slots, 1, &work, &nr_failed);
	if (error || nr_failed)
		return error ? error : -EIO;
	h->in_word = (double)g->nr_in_word / BENCH_COUNTER_OBJECTS;
	work.run = bench_ways[WAY_PAYGO].run;
	error = slots_measure(slots, 1, &work, &r);
	if (!error)
		h->ns.at[round] = r.counts ? 1e3 / r.mops : 0;
	work.run = hold_end;
	return error ? error : slots_call(slots, 1, &work, &nr_failed);
}

static int make_holds(struct bench_counter *b)
{
	static const u32 parts[] = { 0, 1, 2, 4, 8, 16 }; /* quarters of a table */
	int error = 0;

	for (u32 i = 0; i < sizeof(parts) / sizeof(parts[0]) && !error; i++) {
		b->holds[i].hold = parts[i] * BENCH_COUNTER_ENTRIES / 4;
		error = series_open(&b->holds[i].ns, b->rounds);
		b->nr_holds += !error;
	}
	return error;
}

/* ---- a crowd (PAYGO s.6.2.3) ---- */

struct crowd {
	struct lodic_domain *domain;
	struct bench_object *object;
	uint64_t go, away, puts; /* by host_* */
};

static void *crowd_main(void *arg)
{
	struct crowd *c = arg;
	uint64_t away = 0, puts = 0, token;

	while (!host_load_acquire(&c->go))
		sched_yield();
	for (u32 i = 0; i < CROWD_PUTS; i++) {
		if (!lodic_counter_try_get(c->domain, &c->object->counter, &token))
			continue;
		for (volatile u32 k = 0; k < CROWD_WORK; k++)
			;
		if (i % 16 == 0)
			sched_yield();
		away += (int)(token & 0xffff) != sched_getcpu();
		puts++;
		lodic_counter_put(c->domain, &c->object->counter, token);
	}
	host_fetch_add(&c->away, away);
	host_fetch_add(&c->puts, puts);
	return NULL;
}

static int run_crowd(struct bench_counter *b, struct bench_ground *g)
{
	pthread_t *threads = calloc(b->crowd, sizeof(*threads));
	struct crowd c = { .domain = g->paygo, .object = &g->objects[0] };
	pthread_attr_t attr;
	u32 nr = 0;

	if (!threads)
		return -ENOMEM;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, CROWD_STACK);
	while (nr < b->crowd &&
	       pthread_create(&threads[nr], &attr, crowd_main, &c) == 0)
		nr++;
	host_store_release(&c.go, 1);
	for (u32 i = 0; i < nr; i++)
		pthread_join(threads[i], NULL);
	pthread_attr_destroy(&attr);
	free(threads);
	b->crowded = (struct bench_crowd){ nr, c.puts, c.away };
	return nr == b->crowd ? 0 : -EAGAIN;
}

/* ---- all ---- */

static int measure_rare(struct bench_counter *b, struct bench_ground *g)
{
	struct lodic_domain *d;
	u64 begin = cli_now_ns();
	uint64_t token;
	int error = 0;

	for (u32 i = 0; i < REPEATS && !error; i++) {
		error = make_domain(LODIC_COUNTER_PAYGO, &d);
		if (!error)
			lodic_domain_destroy(d);
	}
	b->create_us = (double)(cli_now_ns() - begin) / 1e3 / REPEATS;
	begin = cli_now_ns();
	for (u32 i = 0; i < REPEATS && !error; i++) {
		if (lodic_counter_try_get(g->paygo, &g->held[i].counter, &token))
			lodic_counter_put(g->paygo, &g->held[i].counter, token);
		error = lodic_counter_kill(g->paygo, &g->held[i].counter);
	}
	b->kill_us = (double)(cli_now_ns() - begin) / 1e3 / REPEATS;
	for (u32 i = 0; i < REPEATS; i++)
		lodic_counter_init(&g->held[i].counter);
	return error;
}

static void sum_up(struct bench_counter *b)
{
	for (u32 i = 0; i < b->nr_cells; i++) {
		struct bench_cell *c = &b->cells[i];
		const struct bench_cell *y =
			bench_counter_cell(b, WAY_FETCH_ADD, c->threads, c->objects);

		c->spread = series_spread(&c->mops);
		c->ratio = series_ratio(&c->mops, &y->mops);
	}
	for (u32 i = 0; i < b->nr_holds; i++)
		b->holds[i].spread = series_spread(&b->holds[i].ns);
}

static int run(struct bench_counter *b)
{
	int cpus[BENCH_COUNTER_CPUS];
	u32 nr_cpus = machine_cpus(cpus, BENCH_COUNTER_CPUS), most = 0, i;
	struct bench_ground g = { 0 };
	struct slots slots = { 0 };
	u64 random = b->seed;
	int error;

	for (i = 0; i < b->nr_threads; i++)
		most = b->threads[i] > most ? b->threads[i] : most;
	if (b->nr_threads == 0)
		for (most = 1; most <= 2 && most <= nr_cpus; most++)
			b->threads[b->nr_threads++] = most;
	most = most > nr_cpus ? nr_cpus : most;
	for (i = 0; i < b->nr_threads; i++)
		if (b->threads[i] > nr_cpus)
			return -EPERM;
	error = shared_open();
	if (!error)
		error = ground_open(&g, BENCH_COUNTER_CPUS);
	if (!error)
		lodic_domain_stat(g.paygo, &b->stat);
	if (!error)
		error = make_cells(b);
	if (!error)
		error = make_holds(b);
	if (!error)
		error = slots_open(&slots, cpus, most, false);
	for (u32 round = 0; round < b->rounds && !error && !cli_stopped; round++) {
		cli_progress("counter", round * 100 / b->rounds);
		error = run_round(b, round, &g, &slots, &random);
		for (i = 0; i < b->nr_holds && !error; i++)
			error = measure_hold(&b->holds[i], round, &g, &slots);
	}
	cli_progress("counter", 101);
	slots_close(&slots);
	if (!error)
		error = measure_rare(b, &g);
	if (!error && b->crowd && !cli_stopped)
		error = run_crowd(b, &g);
	sum_up(b);
	ground_close(&g);
	return error;
}

int command_bench_counter(int argc, char **argv)
{
	static const struct argp argp = { option_list, parse, NULL, doc,
		                          NULL,        NULL,  NULL };
	static struct bench_counter b = { .rounds = DEFAULT_ROUNDS,
		                          .seed = WORKLOAD_SEED,
		                          .objects = { 1, 4, 16, 64, 256, 512 },
		                          .nr_objects = 6 };
	int error;

	if (argp_parse(&argp, argc, argv, 0, NULL, &b) != 0)
		return CLI_USAGE;
	cli_catch_signals();
	error = run(&b);
	if (cli_stopped)
		return CLI_STOPPED;
	if (error == -EPERM)
		cli_error("there are fewer CPUs here than threads were asked for");
	else if (error)
		cli_error("cannot measure: %s", strerror(-error));
	else if (b.json)
		bench_counter_print_json(&b, stdout);
	else
		bench_counter_print(&b, stdout);
	return error ? CLI_FAILED : CLI_OK;
}
