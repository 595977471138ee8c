/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* bench_whole's results for people and for machines. Contract: bench/whole.h. */
#include <errno.h>
#include <string.h>

#include "bench/whole.h"
#include "bench/measure/report.h"
#include "bench/measure/table.h"

#define UNITS \
	"first_us, last_us: until the first byte was there, and until a byte of each page was " \
	"read, by the slowest process; random_ns: a copy of 64 bytes from a random place " \
	"afterwards; again_us: the first byte of the same hold once more, in one process; " \
	"memory_bytes: growth of the PSS of all processes and the service; " \
	"page_cache_bytes: of the file, afterwards; medians of rounds"
#define MIB ((double)(1 << 20))
#define MEMORY_ONCE 1.05
#define WARM_AGAIN_US 100.0
#define RANDOM_OVER_MMAP 0.95
#define RANDOM_HUGE_OVER_MMAP 1.1
/* From here on a hold is said to lie in huge pages. */
#define HUGE_PERCENT 75u
/* A smaller file needs few entries of the processor's table of pages. */
#define HUGE_LEAST_BYTES ((u64)1 << 30)
/* Smaller ones are copies of the process's own. */
#define SHARED_LEAST_BYTES ((u64)1 << 20)

static const char *const way_names[] = { "pread", "mmap", "populate", "own", "hold" };
static const char *const start_names[] = { "cold", "warm" };

const char *whole_way_name(enum whole_way way)
{
	return way_names[way];
}

static double median(const struct series *s)
{
	struct series_spread spread = series_spread(s);

	return spread.known ? spread.median : 0;
}

static void put(struct table *t, const char *format, const struct series *s,
                double unit)
{
	struct series_spread spread = series_spread(s);

	if (spread.known)
		table_cell(t, format, spread.median / unit);
	else
		table_cell(t, "-");
}

static const struct whole_cell *cell_of(const struct whole_bench *b, u32 size,
                                        u32 crowd, enum whole_start start,
                                        enum whole_way way)
{
	return &b->cells[size][crowd][start][way];
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void put_row(const struct whole_cell *c, const char *name, struct table *t)
{
	table_row(t);
	table_cell(t, "%s", name);
	put(t, "%.1f", &c->first_us, 1);
	put(t, "%.2f", &c->last_us, 1e3);
	put(t, "%.1f", &c->random_ns, 1);
	put(t, "%.1f", &c->again_us, 1);
	put(t, "%.1f", &c->memory, MIB);
	put(t, "%.1f", &c->page_cache, MIB);
}
#pragma GCC diagnostic pop

static void print_size(const struct whole_bench *b, u32 size, u32 crowd, FILE *to)
{
	struct table t = { 0 };
	char name[32];

	fprintf(to, "\n%.2f MiB, %u process%s\n", (double)b->plan.sizes[size] / MIB,
	        whole_crowd(crowd), crowd ? "es" : "");
	table_row(&t);
	table_cell(&t, " ");
	table_cell(&t, "first us");
	table_cell(&t, "last ms");
	table_cell(&t, "random ns");
	table_cell(&t, "again us");
	table_cell(&t, "memory MiB");
	table_cell(&t, "page cache MiB");
	for (u32 start = 0; start < WHOLE_NR_STARTS; start++) {
		for (u32 way = 0; way < WHOLE_NR_WAYS; way++) {
			snprintf(name, sizeof(name), "%s, %s", start_names[start],
			         way_names[way]);
			put_row(cell_of(b, size, crowd, start, way), name, &t);
		}
	}
	table_print(&t, to);
}

void whole_print(const struct whole_bench *b, FILE *to)
{
	struct machine machine;

	machine_find(&machine);
	fprintf(to,
	        "%s, %u CPUs, %s; %u rounds in %.1f s; seed %llu\n"
	        "the service read %llu ranges; %llu %% of the largest hold lay in huge "
	        "pages\n",
	        machine.cpu, machine.nr_cpus, machine.kernel, b->plan.rounds,
	        (double)b->duration_ns / 1e9, (unsigned long long)b->plan.seed,
	        (unsigned long long)b->holds_read, (unsigned long long)b->huge_percent);
	for (u32 size = 0; size < b->plan.nr_sizes; size++)
		for (u32 crowd = 0; crowd < WHOLE_NR_CROWDS; crowd++)
			print_size(b, size, crowd, to);
	fputs("\nfirst: until the first byte was there; last: until a byte of each page was "
	      "read; random: a copy\nof 64 bytes afterwards; again: the first byte of the same "
	      "hold once more; memory: growth of\nthe PSS of all processes and the service "
	      "together; page cache: of the file, afterwards. It\nis in the memory of mmap and "
	      "populate as well.\n",
	      to);
}

struct goal {
	char what[80];
	double value, bound;
	bool at_least, known, met;
};
#define MAX_GOALS (3u * WHOLE_MAX_SIZES)

static void add_goal(struct goal *g, const char *what, u64 bytes,
                     struct series_spread value, double bound, bool at_least)
{
	*g = (struct goal){ .value = value.median,
		            .bound = bound,
		            .at_least = at_least,
		            .known = value.known,
		            .met = true };
	snprintf(g->what, sizeof(g->what), "%.0f MiB: %s", (double)bytes / MIB, what);
	if (g->known)
		g->met = at_least ? g->value >= bound : g->value <= bound;
}

static u32 find_goals(const struct whole_bench *b, struct goal *goals)
{
	bool huge = b->huge_percent >= HUGE_PERCENT;
	u32 nr = 0, four = WHOLE_NR_CROWDS - 1;

	for (u32 size = 0; size < b->plan.nr_sizes; size++) {
		u64 bytes = b->plan.sizes[size];
		const struct whole_cell *many =
			cell_of(b, size, four, WHOLE_WARM, WHOLE_HOLD);
		const struct whole_cell *one =
			cell_of(b, size, 0, WHOLE_WARM, WHOLE_HOLD);
		const struct whole_cell *map =
			cell_of(b, size, 0, WHOLE_WARM, WHOLE_MMAP);
		struct series_spread memory = series_spread(&many->memory);
		bool last = size + 1 == b->plan.nr_sizes;

		if (bytes < SHARED_LEAST_BYTES)
			continue;
		memory.median /= (double)bytes;
		if (last)
			add_goal(&goals[nr++], "memory of 4 processes over the file's",
			         bytes, memory, MEMORY_ONCE, false);
		add_goal(&goals[nr++], "first byte of a second hold, us", bytes,
		         series_spread(&one->again_us), WARM_AGAIN_US, false);
		add_goal(&goals[nr++], "random copies from a hold over mmap", bytes,
		         series_ratio(&map->random_ns, &one->random_ns),
		         huge && bytes >= HUGE_LEAST_BYTES ? RANDOM_HUGE_OVER_MMAP
		                                           : RANDOM_OVER_MMAP,
		         true);
	}
	return nr;
}

u32 whole_goals(const struct whole_bench *b, FILE *to)
{
	struct goal goals[MAX_GOALS];
	u32 nr = find_goals(b, goals), nr_missed = 0;

	for (u32 i = 0; i < nr; i++) {
		const struct goal *g = &goals[i];

		nr_missed += !g->met;
		if (to && g->known)
			fprintf(to, "%-56s %7.2f  %s %.2f  %s\n", g->what, g->value,
			        g->at_least ? "at least" : "at most", g->bound,
			        g->met ? "ok" : "missed");
	}
	return nr_missed;
}

static json_t *cell_json(const struct whole_bench *b, u32 size, u32 crowd, u32 start,
                         u32 way)
{
	const struct whole_cell *c = cell_of(b, size, crowd, start, way);
	json_t *o = json_object();

	json_object_set_new(o, "bytes", json_integer((json_int_t)b->plan.sizes[size]));
	json_object_set_new(o, "processes", json_integer(whole_crowd(crowd)));
	json_object_set_new(o, "start", json_string(start_names[start]));
	json_object_set_new(o, "way", json_string(way_names[way]));
	json_object_set_new(o, "first_us", json_real(median(&c->first_us)));
	json_object_set_new(o, "last_us", json_real(median(&c->last_us)));
	json_object_set_new(o, "random_ns", json_real(median(&c->random_ns)));
	if (way == WHOLE_HOLD && crowd == 0)
		json_object_set_new(o, "again_us", json_real(median(&c->again_us)));
	json_object_set_new(o, "memory_bytes",
	                    json_integer((json_int_t)median(&c->memory)));
	json_object_set_new(o, "page_cache_bytes",
	                    json_integer((json_int_t)median(&c->page_cache)));
	return o;
}

static json_t *goals_json(const struct whole_bench *b)
{
	struct goal goals[MAX_GOALS];
	u32 nr = find_goals(b, goals);
	json_t *list = json_array();

	for (u32 i = 0; i < nr; i++) {
		const struct goal *g = &goals[i];
		json_t *o = json_object();

		json_object_set_new(o, "what", json_string(g->what));
		json_object_set_new(o, "value",
		                    g->known ? json_real(g->value)
		                             : json_string("not measured"));
		json_object_set_new(o, g->at_least ? "at_least" : "at_most",
		                    json_real(g->bound));
		json_object_set_new(o, "met", json_boolean(g->met));
		json_array_append_new(list, o);
	}
	return list;
}

static void describe(const struct whole_bench *b, char *ret)
{
	snprintf(ret, REPORT_PARAMETERS_BYTES,
	         "rounds=%u cold_rounds=%u window_ms=%llu huge_pages=%s",
	         b->plan.rounds, b->plan.cold_rounds,
	         (unsigned long long)b->plan.window_ns / 1000000,
	         b->plan.huge_pages ? b->plan.huge_pages : "auto");
}

void whole_print_json(const struct whole_bench *b, FILE *to)
{
	json_t *o = json_object(), *results = json_array();
	char parameters[REPORT_PARAMETERS_BYTES];
	struct machine machine;
	struct report_run run = { &machine, parameters, b->plan.seed };

	machine_find(&machine);
	describe(b, parameters);
	for (u32 size = 0; size < b->plan.nr_sizes; size++)
		for (u32 crowd = 0; crowd < WHOLE_NR_CROWDS; crowd++)
			for (u32 start = 0; start < WHOLE_NR_STARTS; start++)
				for (u32 way = 0; way < WHOLE_NR_WAYS; way++)
					json_array_append_new(results,
					                      cell_json(b, size, crowd,
					                                start, way));
	report_run_json(o, &run);
	json_object_set_new(o, "seconds", json_real((double)b->duration_ns / 1e9));
	json_object_set_new(o, "units", json_string(UNITS));
	json_object_set_new(o, "holds_read", json_integer((json_int_t)b->holds_read));
	json_object_set_new(o, "huge_percent",
	                    json_integer((json_int_t)b->huge_percent));
	json_object_set_new(o, "results", results);
	json_object_set_new(o, "goals", goals_json(b));
	report_print_json(o, to);
	json_decref(o);
}

static void csv_spread(const struct series *s, FILE *f)
{
	struct series_spread spread = series_spread(s);

	if (spread.known)
		fprintf(f, ",%.6g,%.6g,%.6g", spread.median, spread.low, spread.high);
	else
		fputs(",,,", f);
}

int whole_write_csv(const struct whole_bench *b, const char *path)
{
	FILE *f = fopen(path, "we");
	char parameters[REPORT_PARAMETERS_BYTES];
	struct machine machine;
	struct report_run run = { &machine, parameters, b->plan.seed };
	u32 nr = b->plan.nr_sizes * WHOLE_NR_CROWDS * WHOLE_NR_STARTS * WHOLE_NR_WAYS;
	int error;

	if (!f)
		return -errno;
	machine_find(&machine);
	describe(b, parameters);
	fprintf(f, "# %s, %u CPUs, %s\n", machine.cpu, machine.nr_cpus, machine.kernel);
	fputs("bytes,processes,start,way,first_us,first_us_q1,first_us_q3,last_us,last_us_q1,"
	      "last_us_q3,random_ns,random_ns_q1,random_ns_q3,again_us,again_us_q1,again_us_q3,"
	      "memory_bytes,memory_bytes_q1,"
	      "memory_bytes_q3,page_cache_bytes,page_cache_bytes_q1,page_cache_bytes_q3"
	      "," REPORT_RUN_COLUMNS "\n",
	      f);
	for (u32 i = 0; i < nr; i++) {
		u32 way = i % WHOLE_NR_WAYS,
		    start = i / WHOLE_NR_WAYS % WHOLE_NR_STARTS;
		u32 crowd = i / WHOLE_NR_WAYS / WHOLE_NR_STARTS % WHOLE_NR_CROWDS;
		u32 size = i / WHOLE_NR_WAYS / WHOLE_NR_STARTS / WHOLE_NR_CROWDS;
		const struct whole_cell *c = cell_of(b, size, crowd, start, way);

		fprintf(f, "%llu,%u,%s,%s", (unsigned long long)b->plan.sizes[size],
		        whole_crowd(crowd), start_names[start], way_names[way]);
		csv_spread(&c->first_us, f);
		csv_spread(&c->last_us, f);
		csv_spread(&c->random_ns, f);
		csv_spread(&c->again_us, f);
		csv_spread(&c->memory, f);
		csv_spread(&c->page_cache, f);
		report_end_row(&run, f);
	}
	error = ferror(f) ? -EIO : 0;
	if (fclose(f) != 0 && !error)
		error = -errno;
	return error;
}
