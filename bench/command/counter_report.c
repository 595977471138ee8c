/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What `lodic bench counter` prints: tables, goals, JSON. Contract: bench/command/counter.h. */
#include <jansson.h>
#include <string.h>

#include "bench/command/counter.h"
#include "bench/measure/machine.h"
#include "bench/measure/report.h"
#include "bench/measure/table.h"

/* The project's promises (doc/counter.md). */
#define MOST_OVER_BARE 1.6
#define MOST_TWO_OVER_ONE 1.10
#define MOST_OBJECTS 1.20
#define LEAST_FETCH_ADD 4.0
#define LEAST_CAS 5.0
#define LEAST_CONTENTION 5.0
#define MANY_OBJECTS 512u

/* What a get and a put take, of one thread. 0: not known. */
static double cell_ns(const struct bench_cell *c)
{
	return c && c->spread.known && c->spread.median > 0
	               ? c->threads * 1e3 / c->spread.median
	               : 0;
}

static double ns_of(const struct bench_counter *b, u32 way, u32 threads, u32 objects)
{
	return cell_ns(bench_counter_cell(b, way, threads, objects));
}

struct goal {
	const char *name;
	double value, bound;
	bool at_most, known, applies;
};

static double over(double a, double b)
{
	return b > 0 ? a / b : 0;
}

static void goal(struct goal *goals, u32 *nr, const char *name, double value,
                 bool at_most, double bound, bool applies)
{
	goals[(*nr)++] = (struct goal){ .name = name,
		                        .value = value,
		                        .bound = bound,
		                        .at_most = at_most,
		                        .known = value > 0,
		                        .applies = applies };
}

#define NR_GOALS 9u

static u32 goals_of(const struct bench_counter *b, struct goal *g)
{
	double alone = ns_of(b, WAY_FETCH_ADD, 1, 1),
	       both = ns_of(b, WAY_FETCH_ADD, 2, 1);
	bool contended = over(both, alone) >= LEAST_CONTENTION;
	double paygo2 = ns_of(b, WAY_PAYGO, 2, 1);
	u32 nr = 0;

	goal(g, &nr, "paygo over bare, 1 thread",
	     over(ns_of(b, WAY_PAYGO, 1, 1), ns_of(b, WAY_BARE, 1, 1)), true,
	     MOST_OVER_BARE, true);
	goal(g, &nr, "paygo over bare, 2 threads",
	     over(paygo2, ns_of(b, WAY_BARE, 2, 1)), true, MOST_OVER_BARE, true);
	goal(g, &nr, "paygo over bare_apart, 1 thread",
	     over(ns_of(b, WAY_PAYGO, 1, 1), ns_of(b, WAY_BARE_APART, 1, 1)), true,
	     MOST_OVER_BARE, true);
	goal(g, &nr, "paygo over bare_apart, 2 threads",
	     over(paygo2, ns_of(b, WAY_BARE_APART, 2, 1)), true, MOST_OVER_BARE, true);
	goal(g, &nr, "paygo, 2 threads over 1", over(paygo2, ns_of(b, WAY_PAYGO, 1, 1)),
	     true, MOST_TWO_OVER_ONE, true);
	goal(g, &nr, "paygo, 512 objects over 1, beside private",
	     over(over(ns_of(b, WAY_PAYGO, 1, MANY_OBJECTS), ns_of(b, WAY_PAYGO, 1, 1)),
	          over(ns_of(b, WAY_PRIVATE, 1, MANY_OBJECTS),
	               ns_of(b, WAY_PRIVATE, 1, 1))),
	     true, MOST_OBJECTS, true);
	goal(g, &nr, "fetch_add, 2 threads over 1", over(both, alone), false,
	     LEAST_CONTENTION, contended);
	goal(g, &nr, "fetch_add over paygo, 2 threads", over(both, paygo2), false,
	     LEAST_FETCH_ADD, contended);
	goal(g, &nr, "cas over paygo, 2 threads", over(ns_of(b, WAY_CAS, 2, 1), paygo2),
	     false, LEAST_CAS, contended);
	return nr;
}

static const char *verdict(const struct goal *g)
{
	if (!g->known)
		return "not measured";
	if (!g->applies)
		return "not contended here";
	return (g->at_most ? g->value <= g->bound : g->value >= g->bound) ? "met"
	                                                                  : "missed";
}

static const char *path(const struct bench_counter *b)
{
	return b->stat.thread_sequences ? "restartable sequences" : "atomics";
}

static void print_cells(const struct bench_counter *b, u32 threads, FILE *to)
{
	static struct table t;
	u32 w, o;

	memset(&t, 0, sizeof(t));
	table_row(&t);
	table_cell(&t, "%u thread%s", threads, threads > 1 ? "s" : "");
	for (o = 0; o < b->nr_objects; o++)
		table_cell(&t, "%u object%s", b->objects[o],
		           b->objects[o] > 1 ? "s" : "");
	for (w = 0; w < BENCH_COUNTER_WAYS; w++) {
		table_row(&t);
		table_cell(&t, "%s", bench_ways[w].name);
		for (o = 0; o < b->nr_objects; o++) {
			double ns = ns_of(b, w, threads, b->objects[o]);

			if (ns > 0)
				table_cell(&t, "%.2f", ns);
			else
				table_cell(&t, "-");
		}
	}
	table_print(&t, to);
	fprintf(to, "\n");
}

/* On a busy machine there may be no slot that counts. */
static void print_hold(const struct bench_hold *h, FILE *to)
{
	fprintf(to, "  %5u held: ", h->hold);
	if (h->spread.known)
		fprintf(to, "%6.2f ns a pair", h->spread.median);
	else
		fputs("not measured", to);
	fprintf(to, "; %3.0f %% of new ones count in the word\n", 100 * h->in_word);
}

void bench_counter_print(const struct bench_counter *b, FILE *to)
{
	struct goal goals[NR_GOALS];
	u32 nr = goals_of(b, goals), i;

	fprintf(to,
	        "A get and a put, in ns of one thread; medians of %u rounds. "
	        "lodic/counter.h uses %s here.\n\n",
	        b->rounds, path(b));
	for (i = 0; i < b->nr_threads; i++)
		print_cells(b, b->threads[i], to);
	for (i = 0; i < BENCH_COUNTER_WAYS; i++)
		fprintf(to, "  %-12s %s\n", bench_ways[i].name, bench_ways[i].what);
	fprintf(to, "\nLong-lived references of one CPU; its table has %u entries:\n",
	        b->stat.entries);
	for (i = 0; i < b->nr_holds; i++)
		print_hold(&b->holds[i], to);
	fprintf(to,
	        "\nA domain: %.1f us to make, %llu bytes a CPU, %llu an object; a kill: %.1f "
	        "us\n",
	        b->create_us, (unsigned long long)b->stat.cpu_bytes,
	        (unsigned long long)b->stat.object_bytes, b->kill_us);
	if (b->crowd)
		fprintf(to,
		        "%u threads at once: %.3f %% of %llu puts on another CPU than the "
		        "get\n",
		        b->crowded.threads,
		        100.0 * (double)b->crowded.away / (double)b->crowded.puts,
		        (unsigned long long)b->crowded.puts);
	fprintf(to, "\n");
	for (i = 0; i < nr; i++) {
		fprintf(to, "  %-44s ", goals[i].name);
		if (goals[i].known)
			fprintf(to, "%6.2f", goals[i].value);
		else
			fprintf(to, "%6s", "-");
		fprintf(to, "  (%s %.2f)  %s\n", goals[i].at_most ? "at most" : "at least",
		        goals[i].bound, verdict(&goals[i]));
	}
}

/* null: not measured */
static json_t *measured(double v)
{
	return v > 0 ? json_real(v) : json_null();
}

static json_t *goals_json(const struct bench_counter *b)
{
	struct goal goals[NR_GOALS];
	u32 nr = goals_of(b, goals), i;
	json_t *list = json_array();

	for (i = 0; i < nr; i++)
		json_array_append_new(
			list, json_pack("{s:s, s:o, s:f, s:b, s:s}", "name",
		                        goals[i].name, "value",
		                        measured(goals[i].value), "bound",
		                        goals[i].bound, "at_most", goals[i].at_most,
		                        "verdict", verdict(&goals[i])));
	return list;
}

static json_t *row_json(const char *scheme, u32 threads, u32 objects, u32 hold,
                        double mops, double ns, double ratio)
{
	return json_pack("{s:s, s:i, s:i, s:i, s:o, s:o, s:o}", "scheme", scheme,
	                 "threads", (int)threads, "objects", (int)objects, "hold",
	                 (int)hold, "mops", measured(mops), "ns", measured(ns), "ratio",
	                 measured(ratio));
}

void bench_counter_print_json(const struct bench_counter *b, FILE *to)
{
	struct machine machine;
	const struct report_run r = { &machine, "threads pinned", b->seed };
	json_t *o = json_object(), *results = json_array(), *row;
	u32 i;

	machine_find(&machine);
	for (i = 0; i < b->nr_cells; i++) {
		const struct bench_cell *c = &b->cells[i];

		row = row_json(bench_ways[c->way].name, c->threads, c->objects, 0,
		               c->spread.median, cell_ns(c), c->ratio.median);
		json_object_set_new(row, "low", json_real(c->spread.low));
		json_object_set_new(row, "high", json_real(c->spread.high));
		json_object_set_new(row, "slots", json_integer(c->nr_slots));
		json_array_append_new(results, row);
	}
	for (i = 0; i < b->nr_holds; i++) {
		const struct bench_hold *h = &b->holds[i];

		row = row_json("paygo", 1, BENCH_COUNTER_OBJECTS, h->hold,
		               h->spread.median > 0 ? 1e3 / h->spread.median : 0,
		               h->spread.median, 0);
		json_object_set_new(row, "in_word", json_real(h->in_word));
		json_array_append_new(results, row);
	}
	json_object_set_new(o, "benchmark", json_string("counter"));
	report_run_json(o, &r);
	json_object_set_new(o, "path", json_string(path(b)));
	json_object_set_new(o, "rounds", json_integer(b->rounds));
	json_object_set_new(o, "results", results);
	json_object_set_new(o, "create_us", json_real(b->create_us));
	json_object_set_new(o, "kill_us", json_real(b->kill_us));
	json_object_set_new(o, "cpu_bytes",
	                    json_integer((json_int_t)b->stat.cpu_bytes));
	json_object_set_new(o, "object_bytes",
	                    json_integer((json_int_t)b->stat.object_bytes));
	if (b->crowd)
		json_object_set_new(o, "crowd",
		                    json_pack("{s:i, s:I, s:I}", "threads",
		                              (int)b->crowded.threads, "puts",
		                              (json_int_t)b->crowded.puts, "away",
		                              (json_int_t)b->crowded.away));
	json_object_set_new(o, "goals", goals_json(b));
	report_print_json(o, to);
	json_decref(o);
}
