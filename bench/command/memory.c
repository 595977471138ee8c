/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * `lodic bench memory`: what the cache's tables cost per frame, per context and per block
 * that a context has mapped. It opens real contexts and uses them.
 *
 * It counts the blocks that a context maps from outside. A pin names the entry that holds
 * it, so as many entries are in use as there were different names. That is exact while the
 * cache evicts nothing, so the file must fit into the cache.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/command/bench.h"
#include "bench/measure/report.h"
#include "bench/measure/rig.h"
#include "bench/measure/stand.h"
#include "bench/measure/table.h"
#include "cli/cli.h"

#define DEFAULT_CACHE_BYTES ((uint64_t)256 << 20)
/* Pins, and as many reads, of each context: twice as many as its table has places. */
#define STEPS 32768u
#define MAX_CONTEXTS 120u
#define NR_POINTS 3
/* An open hash with more places than a context has entries; a power of two. */
#define TOKEN_PLACES 65536u
#define PAGE_BYTES 4096u
#define FILL_BYTES ((size_t)16 << 20)

static const unsigned int points[NR_POINTS] = { 1, 16, MAX_CONTEXTS };

struct point {
	unsigned int nr_contexts;
	unsigned int nr_pinning;          /* contexts that got at least one pin */
	uint64_t mapped, pinned_distinct; /* sums over the contexts */
	uint64_t resident_bytes;          /* of all contexts; 0: unknown */
	struct lodic_stat stat;
};

struct memory {
	struct stand stand;
	uint64_t cache_bytes;
	bool json;
	struct own_cache cache;
	char folder[OWN_CACHE_FOLDER_BYTES];
	struct workload workload;
	uint64_t *seen;                /* a bit per block of the file */
	uint64_t tokens[TOKEN_PLACES]; /* token + 1; 0: free */
	struct lodic_context *contexts[MAX_CONTEXTS];
	unsigned int nr_contexts;
	uint64_t mapped_by[MAX_CONTEXTS], distinct_of[MAX_CONTEXTS];
	struct point points[NR_POINTS];
};

static const char doc[] =
	"Print how many bytes the cache's tables take for each frame, for each context and "
	"for each block that a context has mapped. The command opens 1, 16 and 120 contexts, "
	"which read and pin blocks of a file (zipf 0.98)."
	"\v"
	"Examples:\n"
	"  lodic bench memory\n"
	"  lodic bench memory --memory 1G --json\n";

static const struct argp_option option_list[] = {
	{ "json", 'j', NULL, 0, "Print JSON and not a table", 0 },
	{ "memory", 'm', "SIZE", 0,
	  "Give the cache so much memory, as 256M or 4G (default: 256M)", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct memory *m = state->input;

	switch (key) {
	case 'j': m->json = m->stand.quiet = true; return 0;
	case 'm':
		if (cli_parse_bytes(arg, &m->cache_bytes) != 0 || m->cache_bytes == 0)
			argp_error(state, "'%s' is not a size; write it as 256M or 4G",
			           arg);
		return 0;
	case ARGP_KEY_INIT: state->child_inputs[0] = &m->stand; return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static uint64_t step_block(const struct memory *m, unsigned int context, uint64_t step)
{
	uint64_t at = context * (uint64_t)STEPS + step;

	return m->workload.units[ACCESS_ZIPF][at & (WORKLOAD_STEPS - 1)] /
	       (LODIC_BLOCK_BYTES / WORKLOAD_UNIT_BYTES);
}

static bool first_block(struct memory *m, uint64_t block)
{
	uint64_t bit = UINT64_C(1) << (block % 64);
	bool first = !(m->seen[block / 64] & bit);

	m->seen[block / 64] |= bit;
	return first;
}

static bool first_token(struct memory *m, uint64_t token)
{
	uint64_t state = token;
	uint64_t at = workload_random(&state) % TOKEN_PLACES;

	for (unsigned int i = 0; i < TOKEN_PLACES; i++) {
		uint64_t *place = &m->tokens[(at + i) % TOKEN_PLACES];

		if (*place == token + 1)
			return false;
		if (*place == 0) {
			*place = token + 1;
			return true;
		}
	}
	return false;
}

static void forget(struct memory *m)
{
	memset(m->seen, 0, (m->workload.nr_blocks / 64 + 1) * sizeof(*m->seen));
	memset(m->tokens, 0, sizeof(m->tokens));
}

/* Pins a block and reads it, at each step. */
static int use_context(struct memory *m, unsigned int context)
{
	struct lodic_context *c = m->contexts[context];
	char buffer[WORKLOAD_UNIT_BYTES];

	forget(m);
	for (unsigned int i = 0; i < STEPS; i++) {
		uint64_t block = step_block(m, context, i);
		off_t offset = (off_t)block * LODIC_BLOCK_BYTES;
		struct lodic_pin pin;

		if (lodic_pin(c, m->cache.seat.file, offset, &pin) == 0) {
			m->mapped_by[context] += first_token(m, (uintptr_t)pin.word);
			m->distinct_of[context] += first_block(m, block);
			lodic_unpin(c, &pin);
		}
		if (lodic_read(c, m->cache.seat.file, buffer, sizeof(buffer), offset) <
		    0)
			return -EIO;
	}
	return 0;
}

/* Resident bytes of this process's mappings that have the size of a context. If there are
 * as many as contexts are open, they are those; else 0. */
static uint64_t resident_contexts(uint64_t context_bytes, unsigned int nr)
{
	uint64_t kib =
		(context_bytes + PAGE_BYTES - 1) / PAGE_BYTES * (PAGE_BYTES / 1024);
	FILE *f = fopen("/proc/self/smaps", "re");
	unsigned long long size = 0, rss = 0, sum = 0;
	unsigned int found = 0;
	bool shared = false;
	char line[512];

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		if (strstr(line, "memfd:"))
			shared = true;
		if (sscanf(line, "Size: %llu", &size) == 1)
			continue;
		if (sscanf(line, "Rss: %llu", &rss) != 1)
			continue;
		if (shared && size == kib) {
			sum += rss;
			found++;
		}
		shared = false;
	}
	fclose(f);
	return found == nr ? (uint64_t)sum * 1024 : 0;
}

static int measure_point(struct memory *m, struct point *p, unsigned int nr_contexts)
{
	int error;

	p->nr_contexts = nr_contexts;
	while (m->nr_contexts < nr_contexts) {
		error = lodic_context_open(m->cache.seat.lodic,
		                           &m->contexts[m->nr_contexts]);
		if (error)
			return error;
		m->nr_contexts++;
		error = use_context(m, m->nr_contexts - 1);
		if (error)
			return error;
		cli_progress("using contexts", 100 * m->nr_contexts / MAX_CONTEXTS);
		if (cli_stopped)
			return -EINTR;
	}
	for (unsigned int i = 0; i < nr_contexts; i++) {
		p->nr_pinning += m->mapped_by[i] > 0;
		p->mapped += m->mapped_by[i];
		p->pinned_distinct += m->distinct_of[i];
	}
	error = lodic_stat(m->cache.seat.lodic, &p->stat, sizeof(p->stat));
	/* The seat that keeps the file in the cache has a context, too. */
	p->resident_bytes = resident_contexts(p->stat.context_bytes, nr_contexts + 1);
	return error;
}

static int start(struct memory *m)
{
	int error = own_cache_folder_make(m->folder, sizeof(m->folder));
	int fd = open(m->stand.corpus.path, O_RDONLY | O_CLOEXEC);

	if (!error && fd < 0)
		error = -errno;
	if (!error)
		error = own_cache_start(&m->cache, m->folder, NULL, m->cache_bytes, 1,
		                        m->stand.huge_pages, fd);
	if (fd >= 0)
		close(fd);
	return error;
}

static void stop(struct memory *m)
{
	while (m->nr_contexts > 0)
		lodic_context_close(m->contexts[--m->nr_contexts]);
	own_cache_stop(&m->cache);
}

/* Brings the file into the cache, piece by piece. */
static int fill_cache(struct memory *m)
{
	struct own_cache_seat *seat = &m->cache.seat;
	uint64_t bytes = m->stand.corpus.bytes;

	for (uint64_t at = 0; at < bytes; at += FILL_BYTES) {
		int error = lodic_prefetch(seat->context, seat->file, (off_t)at,
		                           FILL_BYTES, LODIC_WAIT);

		if (error || cli_stopped)
			return error ? error : -EINTR;
		cli_progress("filling the cache", (unsigned int)(100 * at / bytes));
	}
	return 0;
}

static int fill(struct memory *m)
{
	int error = workload_make(&m->workload, m->stand.corpus.bytes, m->stand.seed);

	if (error)
		return error;
	m->seen = calloc(m->workload.nr_blocks / 64 + 1, sizeof(*m->seen));
	if (!m->seen)
		return -ENOMEM;
	return fill_cache(m);
}

static double per(uint64_t bytes, uint64_t nr)
{
	return nr ? (double)bytes / (double)nr : 0;
}

/* The bytes of a context without its entries, a word each. */
static uint64_t fixed_bytes(const struct lodic_stat *s)
{
	return s->context_bytes - (uint64_t)s->entries * 8;
}

static uint64_t context_bytes(const struct point *p)
{
	return p->stat.context_bytes * p->nr_contexts;
}

static void print_table(const struct memory *m)
{
	const struct lodic_stat *s = &m->points[0].stat;
	struct table t = { 0 };

	printf("\nshared by all: (%llu bytes of tables + %llu of counters) / %llu frames = "
	       "%.1f bytes a frame of %d\n",
	       (unsigned long long)s->control_bytes, (unsigned long long)s->count_bytes,
	       (unsigned long long)s->frames,
	       per(s->control_bytes + s->count_bytes, s->frames), LODIC_BLOCK_BYTES);
	printf("a context that may pin: %llu + 8 x %llu entries = %llu bytes\n\n",
	       (unsigned long long)fixed_bytes(s), (unsigned long long)s->entries,
	       (unsigned long long)s->context_bytes);
	table_row(&t);
	table_cell(&t, "contexts");
	table_cell(&t, "bytes/frame");
	table_cell(&t, "bytes/context");
	table_cell(&t, "resident");
	table_cell(&t, "pinning");
	table_cell(&t, "blocks");
	table_cell(&t, "mapped");
	table_cell(&t, "bytes/mapped block");
	for (int i = 0; i < NR_POINTS; i++) {
		const struct point *p = &m->points[i];

		table_row(&t);
		table_cell(&t, "%u", p->nr_contexts);
		table_cell(&t, "%.1f",
		           per(p->stat.control_bytes + p->stat.count_bytes +
		                       context_bytes(p),
		               p->stat.frames));
		table_cell(&t, "%llu", (unsigned long long)p->stat.context_bytes);
		if (p->resident_bytes)
			table_cell(&t, "%.0f",
			           per(p->resident_bytes, p->nr_contexts + 1));
		else
			table_cell(&t, "unknown");
		table_cell(&t, "%u", p->nr_pinning);
		table_cell(&t, "%.0f", per(p->pinned_distinct, p->nr_pinning));
		table_cell(&t, "%.0f", per(p->mapped, p->nr_pinning));
		table_cell(&t, "%.1f", per(context_bytes(p), p->mapped));
	}
	table_print(&t, stdout);
	puts("bytes/frame: all tables, with the contexts', over the frames; resident: bytes "
	     "of a context that are\nin memory (smaps); pinning: contexts that could pin; "
	     "blocks: that such a context pinned; mapped: its\nentries in use.");
}

static json_t *point_json(const struct point *p)
{
	uint64_t tables = p->stat.control_bytes + p->stat.count_bytes;
	json_t *o = json_object();

	json_object_set_new(o, "contexts", json_integer(p->nr_contexts));
	json_object_set_new(o, "frames", json_integer((json_int_t)p->stat.frames));
	json_object_set_new(o, "entries", json_integer((json_int_t)p->stat.entries));
	json_object_set_new(o, "bytes_per_frame_shared",
	                    json_real(per(tables, p->stat.frames)));
	json_object_set_new(o, "bytes_per_frame",
	                    json_real(per(tables + context_bytes(p), p->stat.frames)));
	json_object_set_new(o, "bytes_per_context",
	                    json_integer((json_int_t)p->stat.context_bytes));
	json_object_set_new(o, "resident_bytes_per_context",
	                    p->resident_bytes ? json_real(per(p->resident_bytes,
	                                                      p->nr_contexts + 1))
	                                      : json_null());
	json_object_set_new(o, "contexts_pinning", json_integer(p->nr_pinning));
	json_object_set_new(o, "mapped_blocks", json_integer((json_int_t)p->mapped));
	json_object_set_new(o, "pinned_blocks",
	                    json_integer((json_int_t)p->pinned_distinct));
	json_object_set_new(o, "bytes_per_mapped_block",
	                    json_real(per(context_bytes(p), p->mapped)));
	return o;
}

static void print_json(const struct memory *m)
{
	json_t *o = json_object(), *results = json_array();
	char parameters[REPORT_PARAMETERS_BYTES];
	struct machine machine;
	const struct report_run about = { &machine, parameters, m->stand.seed };

	machine_find(&machine);
	for (int i = 0; i < NR_POINTS; i++)
		json_array_append_new(results, point_json(&m->points[i]));
	snprintf(parameters, sizeof(parameters), "file_bytes=%llu memory=%llu steps=%u",
	         (unsigned long long)m->stand.corpus.bytes,
	         (unsigned long long)m->cache_bytes, STEPS);
	report_run_json(o, &about);
	json_object_set_new(o, "cache_bytes", json_integer((json_int_t)m->cache_bytes));
	json_object_set_new(
		o, "formula",
		json_string("bytes_per_context = fixed + 8 * entries + frames; "
	                    "bytes_per_mapped_block = contexts * bytes_per_context / "
	                    "mapped_blocks"));
	json_object_set_new(o, "results", results);
	report_print_json(o, stdout);
	json_decref(o);
}

static int run(struct memory *m)
{
	int error = start(m);

	if (error) {
		stop(m);
		error = stand_copy_file(&m->stand, error);
		if (!error)
			error = start(m);
	}
	if (!error)
		error = fill(m);
	for (int i = 0; i < NR_POINTS && !error; i++)
		error = measure_point(m, &m->points[i], points[i]);
	cli_progress("", 101);
	if (error)
		return stand_complain(&m->stand, error);
	if (m->json)
		print_json(m);
	else
		print_table(m);
	return CLI_OK;
}

int command_bench_memory(int argc, char **argv)
{
	static const struct argp_child children[] = { { &stand_argp, 0, NULL, 0 },
		                                      { 0 } };
	static const struct argp argp = { option_list, parse, NULL, doc,
		                          children,    NULL,  NULL };
	static struct memory m = {
		.cache_bytes = DEFAULT_CACHE_BYTES,
		.stand = { .seed = WORKLOAD_SEED },
	};
	int status;

	if (argp_parse(&argp, argc, argv, 0, NULL, &m) != 0)
		return CLI_USAGE;
	cli_catch_signals();
	status = stand_choose_file(&m.stand);
	if (status == CLI_OK)
		status = run(&m);
	stop(&m);
	workload_drop(&m.workload);
	free(m.seen);
	stand_close(&m.stand);
	return cli_stopped ? CLI_STOPPED : status;
}
