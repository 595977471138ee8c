/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* bench_peers: rounds, options and results. What is measured: bench/peers.h. */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/measure/corpus.h"
#include "bench/measure/report.h"
#include "bench/measure/rig.h"
#include "bench/measure/shared.h"
#include "bench/measure/slots.h"
#include "bench/measure/table.h"
#include "bench/measure/workload.h"
#include "bench/peers.h"
#include "cli/cli.h"
#include "cli/leftover.h"
#include "cli/series.h"
#include "host/random.h"

#define DEFAULT_ROUNDS 60
#define MOST_THREADS 2u
#define CACHE_BYTES ((uint64_t)128 << 20)
#define HOT_BLOCK 7
#define WITHIN (16 * PEERS_BYTES)
#define UNITS \
	"ns: find, copy 64 bytes and release, on one thread; mops: 10^6 of them a second, all " \
	"threads, median of undisturbed slots; spread: interquartile range of ns; ratio: " \
	"median of the rounds' ratios of lodic_pin's rate to this one's"

enum way { WAY_COPY, WAY_PIN, WAY_READ, WAY_CLOCK, WAY_LRU, NR_WAYS };
static const char *const way_names[NR_WAYS] = { "copy", "lodic_pin", "lodic_read",
	                                        "rocksdb_clock", "rocksdb_lru" };
static const char *const way_says[NR_WAYS] = {
	"the copy alone: what is left when nothing is found or held",
	"lodic_pin(), copy, lodic_unpin()",
	"lodic_read(), which copies",
	"HyperClockCache: Lookup(), copy, Release()",
	"LRUCache: Lookup(), copy, Release()",
};

/* A thread's own line. */
struct peer_thread {
	struct lodic_context *context;
	u64 sum; /* of all that it has copied */
	u64 pad[6];
};

struct peer_cell {
	struct series mops;
	struct series_spread spread;
	u32 nr_tried, nr_slots;
};

struct peers {
	u32 rounds, nr_threads;
	bool json;
	const char *csv, *lodic;
	u64 seed;
	int cpus[MOST_THREADS];
	struct slots slots;
	struct corpus corpus;
	struct own_cache cache;
	struct peer_thread *threads;
	struct peers_rocksdb *clock, *lru;
	u64 words[PEERS_WORDS] __attribute__((aligned(64))); /* what all of them give */
	u64 word_sum;
	u64 nr_ops; /* of which each has added word_sum to a thread's sum */
	struct peer_cell cells[NR_WAYS][MOST_THREADS];
};

enum { KEY_CSV = 256, KEY_LODIC, KEY_SEED };

static const char doc[] =
	"Measure a hot entry of a cache: find it, copy 64 bytes, release it. RocksDB's "
	"LRUCache and HyperClockCache stand beside liblodic, on 1 and 2 threads of one "
	"process. RocksDB's caches belong to that process; lodic's is shared by all."
	"\v"
	"Examples:\n"
	"  bench_peers\n"
	"  bench_peers --rounds 200 --json --csv peers.csv > peers.json\n";

static const struct argp_option option_list[] = {
	{ "json", 'j', NULL, 0, "Print JSON", 0 },
	{ "csv", KEY_CSV, "PATH", 0, "Also write the results to PATH, a line each", 0 },
	{ "rounds", 'r', "N", 0, "Rounds, each with a slot for every way (default: 60)",
	  0 },
	{ "lodic", KEY_LODIC, "PATH", 0,
	  "The program that serves (default: lodic in the folder above)", 0 },
	{ "seed", KEY_SEED, "N", 0, "Seed of the orders (default: 20240731)", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct peers *p = state->input;
	uint64_t n;

	switch (key) {
	case 'j': p->json = true; return 0;
	case KEY_CSV: p->csv = arg; return 0;
	case KEY_LODIC: p->lodic = arg; return 0;
	case 'r':
		if (cli_parse_number(arg, 1, SERIES_MAX_ROUNDS, &n) != 0)
			argp_error(state, "'%s' is not 1 to %u rounds", arg,
			           SERIES_MAX_ROUNDS);
		else
			p->rounds = (u32)n;
		return 0;
	case KEY_SEED:
		if (cli_parse_number(arg, 1, UINT32_MAX, &p->seed) != 0)
			argp_error(state, "'%s' is not a seed, 1 ... 2^32 - 1", arg);
		return 0;
	case ARGP_KEY_ARG: argp_error(state, "'%s' is too much", arg); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static off_t hot_offset(void)
{
	return HOT_BLOCK * LODIC_BLOCK_BYTES + WITHIN;
}

/* The loops, as struct slots_work wants them. */

static u64 run_copy(void *arg, u32 thread, u64 position, u64 nr)
{
	const struct peers *p = arg;
	u64 sum = 0;

	(void)position;
	for (u64 i = 0; i < nr; i++)
		sum += peers_take(p->words);
	p->threads[thread].sum += sum;
	return 0;
}

static u64 run_pin(void *arg, u32 thread, u64 position, u64 nr)
{
	const struct peers *p = arg;
	struct lodic_context *context = p->threads[thread].context;
	struct lodic_file *file = p->cache.seat.file;
	u64 sum = 0, nr_failed = 0;
	struct lodic_pin pin;

	(void)position;
	for (u64 i = 0; i < nr; i++) {
		if (lodic_pin(context, file, hot_offset(), &pin) != 0) {
			nr_failed++;
			continue;
		}
		sum += peers_take(pin.data);
		lodic_unpin(context, &pin);
	}
	p->threads[thread].sum += sum;
	return nr_failed;
}

static u64 run_read(void *arg, u32 thread, u64 position, u64 nr)
{
	const struct peers *p = arg;
	struct lodic_context *context = p->threads[thread].context;
	struct lodic_file *file = p->cache.seat.file;
	u64 words[PEERS_WORDS] __attribute__((aligned(64)));
	u64 sum = 0, nr_failed = 0;

	(void)position;
	for (u64 i = 0; i < nr; i++) {
		if (lodic_read(context, file, words, PEERS_BYTES, hot_offset()) !=
		    (ssize_t)PEERS_BYTES) {
			nr_failed++;
			continue;
		}
		for (u32 k = 0; k < PEERS_WORDS; k++)
			sum += words[k];
	}
	p->threads[thread].sum += sum;
	return nr_failed;
}

static u64 run_clock(void *arg, u32 thread, u64 position, u64 nr)
{
	const struct peers *p = arg;

	(void)position;
	return peers_rocksdb_run(p->clock, nr, &p->threads[thread].sum);
}

static u64 run_lru(void *arg, u32 thread, u64 position, u64 nr)
{
	const struct peers *p = arg;

	(void)position;
	return peers_rocksdb_run(p->lru, nr, &p->threads[thread].sum);
}

static u64 (*const way_runs[NR_WAYS])(void *, u32, u64, u64) = { run_copy, run_pin,
	                                                         run_read, run_clock,
	                                                         run_lru };

static u64 open_context(void *arg, u32 thread, u64 position, u64 nr)
{
	struct peers *p = arg;

	(void)position;
	(void)nr;
	return lodic_context_open(p->cache.seat.lodic, &p->threads[thread].context) !=
	       0;
}

static u64 close_context(void *arg, u32 thread, u64 position, u64 nr)
{
	struct peers *p = arg;

	(void)position;
	(void)nr;
	if (p->threads[thread].context)
		lodic_context_close(p->threads[thread].context);
	p->threads[thread].context = NULL;
	return 0;
}

static int call(struct peers *p, u64 (*run)(void *, u32, u64, u64))
{
	struct slots_work work = { .run = run, .arg = p };
	u64 nr_failed;
	int error = slots_call(&p->slots, p->nr_threads, &work, &nr_failed);

	return error ? error : nr_failed ? -ENOMEM : 0;
}

/* A cache with the file in it, and a context for each thread. */
static int open_lodic(struct peers *p)
{
	static char folder[OWN_CACHE_FOLDER_BYTES];
	int error = corpus_make(&p->corpus, leftover_folder()), fd;

	if (!error)
		error = own_cache_folder_make(folder, sizeof(folder));
	if (error)
		return error;
	fd = open(p->corpus.path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	error = own_cache_start(&p->cache, folder, NULL, CACHE_BYTES, p->nr_threads,
	                        NULL, fd);
	if (!error &&
	    pread(fd, p->words, PEERS_BYTES, hot_offset()) != (ssize_t)PEERS_BYTES)
		error = -EIO;
	close(fd);
	if (!error)
		error = lodic_prefetch(p->cache.seat.context, p->cache.seat.file, 0, 0,
		                       LODIC_WAIT);
	for (u32 i = 0; i < PEERS_WORDS; i++)
		p->word_sum += p->words[i];
	return error ? error : call(p, open_context);
}

static int peers_open(struct peers *p)
{
	u32 nr = machine_cpus(p->cpus, MOST_THREADS);
	int error = shared_open();

	p->nr_threads = nr > MOST_THREADS ? MOST_THREADS : nr;
	if (!error)
		error = slots_open(&p->slots, p->cpus, p->nr_threads, false);
	if (error)
		return error;
	p->threads = shared_alloc(MOST_THREADS * sizeof(*p->threads), 64);
	if (!p->threads)
		return -ENOMEM;
	error = open_lodic(p);
	if (error)
		return error;
	p->clock = peers_rocksdb_open(true, p->words);
	p->lru = peers_rocksdb_open(false, p->words);
	for (u32 way = 0; way < NR_WAYS; way++)
		for (u32 n = 0; n < p->nr_threads && !error; n++)
			error = series_open(&p->cells[way][n].mops, p->rounds);
	return p->clock && p->lru ? error : -ENOMEM;
}

static void peers_close(struct peers *p)
{
	if (p->slots.nr_workers > 0 && p->threads)
		call(p, close_context);
	slots_close(&p->slots);
	peers_rocksdb_close(p->clock);
	peers_rocksdb_close(p->lru);
	own_cache_stop(&p->cache);
	corpus_drop(&p->corpus);
	for (u32 way = 0; way < NR_WAYS; way++)
		for (u32 n = 0; n < MOST_THREADS; n++)
			series_close(&p->cells[way][n].mops);
	leftover_sweep();
}

static int run_slot(struct peers *p, u32 way, u32 threads, u32 round)
{
	struct slots_work work = { .run = way_runs[way],
		                   .arg = p,
		                   .sleeps = way == WAY_LRU };
	struct peer_cell *cell = &p->cells[way][threads - 1];
	struct slots_result result;
	int error = slots_measure(&p->slots, threads, &work, &result);

	if (error)
		return error;
	cell->nr_tried += result.nr_tried;
	cell->nr_slots += result.counts;
	if (result.counts)
		cell->mops.at[round] = result.mops;
	p->nr_ops += result.nr_ops;
	return result.nr_failed ? -ENODATA : 0;
}

/* Runs every way on every number of threads, in an order drawn anew. */
static int run_round(struct peers *p, u32 round, u64 *random)
{
	u32 order[NR_WAYS * MOST_THREADS], nr = 0;
	int error = 0;

	for (u32 i = 0; i < NR_WAYS * p->nr_threads; i++) {
		u32 j = (u32)(random_next(random) % (i + 1));

		order[nr++] = order[j];
		order[j] = i;
	}
	for (u32 i = 0; i < nr && !error; i++)
		error = cli_stopped ? -EINTR
		                    : run_slot(p, order[i] % NR_WAYS,
		                               order[i] / NR_WAYS + 1, round);
	return error;
}

static int peers_run(struct peers *p)
{
	u64 random = p->seed;
	int error = 0;

	for (u32 round = 0; round < p->rounds && !error; round++) {
		error = run_round(p, round, &random);
		cli_progress("measuring", 100 * round / p->rounds);
	}
	cli_progress("", 101);
	for (u32 way = 0; way < NR_WAYS; way++)
		for (u32 n = 0; n < p->nr_threads; n++)
			p->cells[way][n].spread = series_spread(&p->cells[way][n].mops);
	return error;
}

static double way_ns(u32 threads, double mops)
{
	return 1e3 * threads / mops;
}

static struct series_spread over(const struct peers *p, u32 way, u32 threads)
{
	return series_ratio(&p->cells[WAY_PIN][threads - 1].mops,
	                    &p->cells[way][threads - 1].mops);
}

static void describe(const struct peers *p, char *ret)
{
	snprintf(ret, REPORT_PARAMETERS_BYTES, "rounds=%u rocksdb=%s", p->rounds,
	         peers_rocksdb_version());
}

static json_t *real_or_null(bool known, double v)
{
	return known ? json_real(v) : json_null();
}

static json_t *cell_json(const struct peers *p, u32 way, u32 threads)
{
	const struct peer_cell *c = &p->cells[way][threads - 1];
	const struct series_spread *s = &c->spread;
	struct series_spread ratio = over(p, way, threads);
	json_t *o = json_object();

	json_object_set_new(o, "way", json_string(way_names[way]));
	json_object_set_new(o, "threads", json_integer(threads));
	json_object_set_new(o, "ns",
	                    real_or_null(s->known, way_ns(threads, s->median)));
	json_object_set_new(o, "spread",
	                    real_or_null(s->known, way_ns(threads, s->low) -
	                                                   way_ns(threads, s->high)));
	json_object_set_new(o, "mops", real_or_null(s->known, s->median));
	json_object_set_new(o, "ratio", real_or_null(ratio.known, ratio.median));
	json_object_set_new(o, "ratio_spread",
	                    real_or_null(ratio.known, ratio.high - ratio.low));
	json_object_set_new(o, "slots", json_integer(c->nr_slots));
	json_object_set_new(o, "slots_tried", json_integer(c->nr_tried));
	return o;
}

static void print_json(const struct peers *p, const struct report_run *run)
{
	json_t *o = json_object(), *results = json_array();

	for (u32 way = 0; way < NR_WAYS; way++)
		for (u32 n = 1; n <= p->nr_threads; n++)
			json_array_append_new(results, cell_json(p, way, n));
	report_run_json(o, run);
	json_object_set_new(o, "units", json_string(UNITS));
	json_object_set_new(o, "results", results);
	report_print_json(o, stdout);
	json_decref(o);
}

static void put_spread(const struct series_spread *s, FILE *f)
{
	if (s->known)
		fprintf(f, ",%.4g,%.4g,%.4g", s->median, s->low, s->high);
	else
		fputs(",,,", f);
}

static int write_csv(const struct peers *p, const struct report_run *run)
{
	FILE *f = fopen(p->csv, "we");
	int error;

	if (!f)
		return -errno;
	fprintf(f, "# %s, %u CPUs, %s\n", run->machine->cpu, run->machine->nr_cpus,
	        run->machine->kernel);
	fputs("way,threads,mops,mops_q1,mops_q3,ratio,ratio_q1,ratio_q3,slots,"
	      "slots_tried," REPORT_RUN_COLUMNS "\n",
	      f);
	for (u32 way = 0; way < NR_WAYS; way++) {
		for (u32 n = 1; n <= p->nr_threads; n++) {
			const struct peer_cell *c = &p->cells[way][n - 1];
			struct series_spread ratio = over(p, way, n);

			fprintf(f, "%s,%u", way_names[way], n);
			put_spread(&c->spread, f);
			put_spread(&ratio, f);
			fprintf(f, ",%u,%u", c->nr_slots, c->nr_tried);
			report_end_row(run, f);
		}
	}
	error = ferror(f) ? -EIO : 0;
	if (fclose(f) != 0 && !error)
		error = -errno;
	return error;
}

static void put_cell(const struct peers *p, u32 way, u32 threads, struct table *t)
{
	const struct series_spread *s = &p->cells[way][threads - 1].spread;
	struct series_spread ratio = over(p, way, threads);

	if (!s->known) {
		for (u32 i = 0; i < 3; i++)
			table_cell(t, "n/m");
		return;
	}
	table_cell(t, "%.1f", way_ns(threads, s->median));
	table_cell(t, "%.1f", way_ns(threads, s->low) - way_ns(threads, s->high));
	if (ratio.known)
		table_cell(t, "%.2f", ratio.median);
	else
		table_cell(t, "-");
}

static void print_table(const struct peers *p, const struct machine *machine)
{
	struct table t = { 0 };

	printf("%s, %u CPUs, %s; RocksDB %s; %u rounds; seed %llu\n\n"
	       "a hot entry: ns to find it, copy 64 bytes and release it, on each thread\n",
	       machine->cpu, machine->nr_cpus, machine->kernel, peers_rocksdb_version(),
	       p->rounds, (unsigned long long)p->seed);
	table_row(&t);
	table_cell(&t, " ");
	for (u32 n = 1; n <= p->nr_threads; n++) {
		table_cell(&t, "%u thread%s", n, n == 1 ? "" : "s");
		table_cell(&t, "spread");
		table_cell(&t, "lodic_pin/this");
	}
	for (u32 way = 0; way < NR_WAYS; way++) {
		table_row(&t);
		table_cell(&t, "%s", way_names[way]);
		for (u32 n = 1; n <= p->nr_threads; n++)
			put_cell(p, way, n, &t);
	}
	table_print(&t, stdout);
	putchar('\n');
	for (u32 way = 0; way < NR_WAYS; way++)
		printf("%-14s %s\n", way_names[way], way_says[way]);
}

static int publish(const struct peers *p)
{
	char parameters[REPORT_PARAMETERS_BYTES];
	struct machine machine;
	struct report_run run = { &machine, parameters, p->seed };
	u64 sum = 0;
	int error;

	for (u32 i = 0; i < MOST_THREADS; i++)
		sum += p->threads[i].sum;
	if (sum != p->nr_ops * p->word_sum) {
		cli_error("the bytes of %llu copies do not add up",
		          (unsigned long long)p->nr_ops);
		return CLI_FAILED;
	}
	machine_find(&machine);
	describe(p, parameters);
	if (p->json)
		print_json(p, &run);
	else
		print_table(p, &machine);
	error = p->csv ? write_csv(p, &run) : 0;
	if (error)
		cli_error("cannot write %s: %s", p->csv, strerror(-error));
	return error ? CLI_FAILED : CLI_OK;
}

int main(int argc, char **argv)
{
	static const struct argp argp = { option_list, parse, NULL, doc,
		                          NULL,        NULL,  NULL };
	static struct peers p = { .rounds = DEFAULT_ROUNDS, .seed = WORKLOAD_SEED };
	int status = CLI_FAILED, error;

	argp_err_exit_status = CLI_USAGE;
	cli_check_output();
	cli_offer_version("bench_peers");
	if (argp_parse(&argp, argc, argv, 0, NULL, &p) != 0)
		return CLI_USAGE;
	cli_catch_signals();
	rig_serve_by(p.lodic, "..");
	error = peers_open(&p);
	if (!error)
		error = peers_run(&p);
	if (!error)
		status = publish(&p);
	else if (!cli_stopped)
		cli_error("cannot measure: %s", lodic_strerror(error));
	peers_close(&p);
	return cli_stopped ? CLI_STOPPED : status;
}
