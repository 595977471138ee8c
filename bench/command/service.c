/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * `lodic bench service`: what the service's own work costs, in a cache and with contexts as many
 * as the user wants. The service runs in this process (lib/service/trial.h), which times each
 * turn of its main loop. A reader in a process of its own uses it (service_reader.c).
 */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/command/bench.h"
#include "bench/command/service.h"
#include "bench/measure/corpus.h"
#include "cli/cli.h"
#include "cli/leftover.h"
#include "lib/settings.h"

#define DEFAULT_MEMORY ((uint64_t)1 << 30)
#define DEFAULT_CONTEXTS 1024u
#define DEFAULT_FILES 50000u
#define DEFAULT_MS 3000u
#define DEFAULT_PINNING 64u
#define DEFAULT_PINS 16u
#define MAX_CONTEXTS 1024u
#define MAX_FILES 10000000u
#define MAX_PINS 64u
/* Room in the cache for each context: what it may pin, with some to spare. */
#define LEAST_QUOTA 32u
#define MOST_QUOTA 4096u
#define FILL_BYTES ((uint64_t)64 << 20)
#define STOCK_STEP 4096u
#define MOST_FENCES 200u

static const char doc[] =
	"Measure what the service's own work costs: to evict, fill and reap, to open files, and "
	"each turn of its main loop. The service runs in this process, and a reader in another "
	"one uses it."
	"\v"
	"The times are CPU time of the service's main thread: of a turn, or for `open' of all "
	"its threads for an open and a close. By the clock are `open_wall', which is "
	"what the program waits for, and `barrier', which is how long the heavy fence takes. "
	"For `evict' no context has pins, and for `evict_pinned' some have. Evicted frames get "
	"new blocks without a read, outside of the time.\n"
	"\n"
	"Examples:\n"
	"  lodic bench service\n"
	"  lodic bench service --memory 8G --files 1000000 --json\n"
	"  lodic bench service --barrier lock --pinning 1024\n";

enum { KEY_BARRIER = 256, KEY_PINNING, KEY_PINS, KEY_WORKDIR };

static const struct argp_option option_list[] = {
	{ "json", 'j', NULL, 0, "Print JSON and not a table", 0 },
	{ "memory", 'm', "SIZE", 0,
	  "Give the cache so much memory, as 256M or 4G (default: 1G)", 0 },
	{ "contexts", 'c', "N", 0, "Open N contexts, 1 to 1024 (default: 1024)", 0 },
	{ "files", 'f', "N", 0, "Open N files, one after the other (default: 50000)",
	  0 },
	{ "seconds", 's', "N", 0,
	  "Evict for N seconds, and again with pins; fill for N (default: 3)", 0 },
	{ "barrier", KEY_BARRIER, "light|lock|auto", 0,
	  "What orders pins against the service, as `lodic serve' has it (default: auto)",
	  0 },
	{ "pinning", KEY_PINNING, "N", 0,
	  "N contexts hold pins for evict_pinned (default: 64, or all)", 0 },
	{ "pins", KEY_PINS, "N", 0, "Each of them pins N blocks, 1 to 64 (default: 16)",
	  0 },
	{ "workdir", KEY_WORKDIR, "DIR", 0,
	  "Put the files there. The default is the folder build, where there is one, and "
	  "else TMPDIR",
	  0 },
	{ 0 },
};

static void parse_count(const char *arg, uint64_t most, const char *what,
                        struct argp_state *state, uint64_t *ret)
{
	if (cli_parse_number(arg, 1, most, ret) != 0)
		argp_error(state, "'%s' is not a number of %s from 1 to %" PRIu64, arg,
		           what, most);
}

static void parse_barrier(struct service_bench *b, const char *arg,
                          struct argp_state *state)
{
	uint32_t i = SERVICE_BARRIER_AUTO;

	while (settings_barrier_name(i) && strcmp(arg, settings_barrier_name(i)) != 0)
		i++;
	if (!settings_barrier_name(i))
		argp_error(state, "'%s' is none of light, lock, auto", arg);
	b->barrier = i;
}

/* The first contexts that may pin take all that the others leave: see place.c. */
static uint64_t bench_quota(const struct service_bench *b)
{
	uint64_t quota = b->memory / LODIC_BLOCK_BYTES / 4 * 3 / b->nr_contexts;

	return quota < MOST_QUOTA ? quota : MOST_QUOTA;
}

static void parse_end(struct service_bench *b, struct argp_state *state)
{
	uint64_t least = (b->nr_contexts * LEAST_QUOTA / 3 + 1) * 4 * LODIC_BLOCK_BYTES;

	if (b->nr_pinning > b->nr_contexts)
		b->nr_pinning = b->nr_contexts;
	if (b->memory < least)
		argp_error(state,
		           "%" PRIu64 " contexts need a --memory of at least %" PRIu64
		           "M",
		           b->nr_contexts, (least >> 20) + 1);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct service_bench *b = state->input;

	switch (key) {
	case 'j': b->json = true; return 0;
	case 'm':
		if (cli_parse_bytes(arg, &b->memory) != 0 || b->memory == 0 ||
		    b->memory > SERVICE_MAX_CACHE_BYTES)
			argp_error(state, "'%s' is not a size; write it as 256M or 4G",
			           arg);
		return 0;
	case 'c':
		parse_count(arg, MAX_CONTEXTS, "contexts", state, &b->nr_contexts);
		return 0;
	case 'f': parse_count(arg, MAX_FILES, "files", state, &b->nr_files); return 0;
	case 's':
		if (cli_parse_seconds_ms(arg, &b->ms) != 0 || b->ms == 0)
			argp_error(state, "'%s' is not a number of seconds", arg);
		return 0;
	case KEY_BARRIER: parse_barrier(b, arg, state); return 0;
	case KEY_PINNING:
		parse_count(arg, MAX_CONTEXTS, "contexts", state, &b->nr_pinning);
		return 0;
	case KEY_PINS: parse_count(arg, MAX_PINS, "pins", state, &b->nr_pins); return 0;
	case KEY_WORKDIR: b->workdir = arg; return 0;
	case ARGP_KEY_END: parse_end(b, state); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

__attribute__((format(printf, 3, 4))) static int
bench_fail(struct service_bench *b, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(b->why, sizeof(b->why), format, args);
	va_end(args);
	return error;
}

/* ---- the service's turns, and the reader's orders ---- */

/* One turn, for the row of all turns. Returns its CPU time. */
static uint64_t bench_turn(struct service_bench *b)
{
	uint64_t ns = service_trial_turn(b->trial);

	b->results[ROW_TURN].nr++;
	times_add(&b->results[ROW_TURN].times, ns);
	return ns;
}

static uint64_t bench_admitted(const struct service_bench *b)
{
	struct lodic_stat stat;

	service_trial_stat(b->trial, &stat);
	return stat.admitted;
}

/* Gives the reader an order, and lets the service turn until it answers. fill: NULL, or the row
 * for turns in which blocks came in. */
static int bench_ask(struct service_bench *b, const struct service_reader_order *order,
                     const char *phase, uint64_t most, struct service_result *fill,
                     struct service_reader_answer *ret)
{
	uint64_t admitted = fill ? bench_admitted(b) : 0, now, ns;
	ssize_t n;

	if (send(b->channel, order, sizeof(*order), MSG_NOSIGNAL) < 0)
		return bench_fail(b, -EPIPE, "the reader has died");
	while ((n = recv(b->channel, ret, sizeof(*ret), MSG_DONTWAIT)) < 0 &&
	       (errno == EAGAIN || errno == EINTR)) {
		if (cli_stopped)
			return -EINTR;
		ns = bench_turn(b);
		if (fill && (now = bench_admitted(b)) > admitted) {
			fill->nr += now - admitted;
			times_add(&fill->times, ns);
			admitted = now;
		}
		if (most)
			cli_progress(phase,
			             (unsigned int)(100 * b->shared->done / most));
	}
	if (n != sizeof(*ret))
		return bench_fail(b, -EPIPE, "the reader has died");
	if (ret->error)
		return bench_fail(b, ret->error, "%s: %s", phase,
		                  lodic_strerror(ret->error));
	return 0;
}

/* The same for an order whose answer has no more to tell. */
static int bench_order(struct service_bench *b, enum service_reader_ask kind,
                       uint64_t a, const char *phase, uint64_t most)
{
	const struct service_reader_order order = { .kind = kind, .a = a };
	struct service_reader_answer answer;

	return bench_ask(b, &order, phase, most, NULL, &answer);
}

/* ---- what is measured ---- */

static int measure_evict(struct service_bench *b, enum service_row row,
                         const char *phase)
{
	struct service_result *r = &b->results[row];
	uint64_t began = cli_now_ns(), end = began + b->ms * 1000000, now;
	struct service_trial_evicted got;

	while ((now = cli_now_ns()) < end || r->nr == 0) {
		if (cli_stopped)
			return -EINTR;
		if (now > end + 100 * b->ms * 1000000)
			return bench_fail(b, -EBUSY, "nothing can be evicted");
		service_trial_evict(b->trial, &got);
		r->nr += got.frames;
		times_add(&r->times, got.ns);
		if (now < end)
			cli_progress(phase, (unsigned int)(100 * (now - began) /
			                                   (end - began)));
	}
	r->wall_ns = now - began;
	return 0;
}

/* The pins are on blocks that have come lately, and are in the way of eviction soon. */
static int measure_evict_pinned(struct service_bench *b)
{
	struct service_reader_order order = { .kind = ASK_PIN,
		                              .a = b->nr_pinning,
		                              .b = b->nr_pins };
	struct service_reader_answer answer;
	int error;

	order.c = service_trial_newest(b->trial, b->frames / 32 + 1, &order.d);
	error = bench_ask(b, &order, "pinning", 0, NULL, &answer);
	b->pinned = answer.n;
	if (!error)
		error = measure_evict(b, ROW_EVICT_PINNED, "evicting with pins");
	return error ? error : bench_order(b, ASK_UNPIN, 0, "unpinning", 0);
}

static int measure_barrier(struct service_bench *b)
{
	struct service_result *r = &b->results[ROW_BARRIER];
	uint64_t end = cli_now_ns() + b->ms * 1000000;

	while (r->nr == 0 || (r->nr < MOST_FENCES && cli_now_ns() < end)) {
		if (cli_stopped)
			return -EINTR;
		r->nr++;
		times_add(&r->times, service_trial_fence(b->trial));
	}
	return 0;
}

/* The cache is full, so each block that comes in pushes one out. */
static int measure_fill(struct service_bench *b)
{
	const struct service_reader_order order = { .kind = ASK_FILL };
	struct service_result *r = &b->results[ROW_FILL];
	uint64_t began = cli_now_ns(), end = began + b->ms * 1000000;
	uint64_t bytes = b->memory / 8 / LODIC_BLOCK_BYTES * LODIC_BLOCK_BYTES;
	struct service_reader_answer answer;
	int error = 0;

	bytes = bytes < FILL_BYTES ? bytes : FILL_BYTES;
	while (!error && (r->nr == 0 || cli_now_ns() < end)) {
		error = bench_order(b, ASK_MAKE, bytes, "making a file", 0);
		if (!error)
			error = bench_ask(b, &order, "filling", 0, r, &answer);
		r->wall_ns += error ? 0 : answer.ns;
		if (cli_now_ns() < end)
			cli_progress("filling",
			             (unsigned int)(100 * (cli_now_ns() - began) /
			                            (end - began)));
	}
	return error;
}

static int measure_opens(struct service_bench *b)
{
	const struct service_reader_order hold = { .kind = ASK_HOLD, .a = b->nr_files };
	struct service_reader_answer answer;
	int error = bench_order(b, ASK_FILES, b->nr_files, "making files", b->nr_files);

	if (!error)
		error = bench_order(b, ASK_OPEN, b->nr_files, "opening files",
		                    b->nr_files);
	if (error)
		return error;
	b->results[ROW_OPEN].times = b->shared->open_cpu;
	b->results[ROW_OPEN_WALL].times = b->shared->open_wall;
	b->results[ROW_OPEN].nr = b->results[ROW_OPEN_WALL].nr = b->nr_files;
	error = bench_ask(b, &hold, "holding files", b->nr_files, NULL, &answer);
	b->held = answer.n;
	b->refused = answer.refused;
	return error;
}

/* The reader dies at once, with all of its contexts. */
static int measure_reap(struct service_bench *b)
{
	struct service_result *r = &b->results[ROW_REAP];
	struct lodic_stat stat;
	uint64_t ns;

	kill(b->reader, SIGKILL);
	waitpid(b->reader, NULL, 0);
	b->reader = 0;
	while (r->nr < b->nr_contexts) {
		if (cli_stopped)
			return -EINTR;
		ns = bench_turn(b);
		service_trial_stat(b->trial, &stat);
		if (stat.reaped > r->nr)
			times_add(&r->times, ns);
		r->nr = stat.reaped;
	}
	return 0;
}

/* ---- set up, and taken down ---- */

static int start_reader(struct service_bench *b)
{
	int ends[2];

	b->shared = mmap(NULL, sizeof(*b->shared), PROT_READ | PROT_WRITE,
	                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (b->shared == MAP_FAILED ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return bench_fail(b, -errno, "cannot start a reader: %s",
		                  strerror(errno));
	b->reader = fork();
	if (b->reader == 0) {
		const struct service_reader_setup setup = { b->socket, b->folder,
			                                    ends[1], b->shared };

		close(ends[0]);
		bench_service_reader_run(&setup);
	}
	close(ends[1]);
	b->channel = ends[0];
	if (b->reader < 0)
		return bench_fail(b, -errno, "cannot start a reader: %s",
		                  strerror(errno));
	return 0;
}

static int make_folders(struct service_bench *b)
{
	const char *root = b->workdir ? b->workdir : leftover_folder();
	int error = own_cache_folder_make(b->sockets, sizeof(b->sockets));

	if (error)
		return bench_fail(
			b, error,
			"cannot make a folder for a socket in TMPDIR or /tmp");
	snprintf(b->socket, sizeof(b->socket), "%s/service", b->sockets);
	snprintf(b->folder, sizeof(b->folder), "%s/lodic-files-XXXXXX", root);
	error = leftover_name(b->folder);
	if (!error && mkdir(b->folder, 0700) != 0)
		error = -errno;
	return error ? bench_fail(
			       b, error,
			       "cannot make a folder in %.100s: %s; name another one "
			       "with --workdir",
			       root, strerror(-error))
	             : 0;
}

static int start_service(struct service_bench *b)
{
	struct service_options options = {
		.place.socket = b->socket,
		.sizes.cache_bytes = b->memory,
		.tables.barrier = b->barrier,
		.tables.quota = (uint32_t)bench_quota(b),
	};
	struct rlimit limit = { 0 };
	struct lodic_stat stat;
	const char *why = NULL;
	int error;

	getrlimit(RLIMIT_NOFILE, &limit);
	b->limit = limit.rlim_max;
	options.keeping.nr_files = b->limit < 1u << 20 ? (uint32_t)b->limit : 1u << 20;
	error = service_trial_open(&options, &b->trial, &why);
	if (error)
		return bench_fail(b, error, "%s", why ? why : strerror(-error));
	error = service_trial_wake(b->trial, b->channel);
	if (error)
		return error;
	service_trial_stat(b->trial, &stat);
	b->frames = stat.frames;
	b->light = stat.light_pins;
	return 0;
}

/* Fills the cache with blocks of the reader's hole. */
static int stock(struct service_bench *b, uint64_t ino)
{
	uint64_t left = b->frames;

	if (service_trial_use(b->trial, ino) != 0)
		return bench_fail(b, -ENOENT, "the reader's file is not held");
	while (left > 0) {
		if (cli_stopped)
			return -EINTR;
		left = service_trial_stock(b->trial, STOCK_STEP);
		cli_progress("filling the cache",
		             (unsigned int)(100 * (b->frames - left) / b->frames));
	}
	return 0;
}

static int run(struct service_bench *b)
{
	const struct service_reader_order attach = { .kind = ASK_ATTACH,
		                                     .a = b->nr_contexts };
	struct service_reader_answer answer;
	int error = make_folders(b);

	/* Before the service has threads. */
	if (!error)
		error = start_reader(b);
	cli_progress("making the cache", 0);
	if (!error)
		error = start_service(b);
	if (!error)
		error = bench_ask(b, &attach, "opening contexts", b->nr_contexts, NULL,
		                  &answer);
	if (!error)
		error = stock(b, answer.n);
	if (!error)
		error = measure_evict(b, ROW_EVICT, "evicting");
	if (!error)
		error = measure_evict_pinned(b);
	if (!error)
		error = measure_barrier(b);
	if (!error)
		error = measure_fill(b);
	if (!error)
		error = measure_opens(b);
	if (!error)
		error = measure_reap(b);
	return error;
}

/* Here with progress; leftover_sweep() does what is left, also after a SIGKILL. */
static void remove_files(const struct service_bench *b)
{
	char path[SERVICE_READER_PATH_BYTES];

	for (uint64_t i = 0; i < b->nr_files && !cli_stopped; i++) {
		bench_service_reader_path(path, b->folder, i);
		if (unlink(path) != 0)
			break;
		cli_progress("removing files", (unsigned int)(100 * i / b->nr_files));
	}
}

static void stop(struct service_bench *b)
{
	if (b->reader > 0) {
		kill(b->reader, SIGKILL);
		waitpid(b->reader, NULL, 0);
	}
	if (b->trial)
		service_trial_close(b->trial);
	if (b->folder[0])
		remove_files(b);
	cli_progress("", 101);
	leftover_sweep();
}

int command_bench_service(int argc, char **argv)
{
	static const struct argp argp = { option_list, parse, NULL, doc,
		                          NULL,        NULL,  NULL };
	static struct service_bench b = {
		.memory = DEFAULT_MEMORY,
		.nr_contexts = DEFAULT_CONTEXTS,
		.nr_files = DEFAULT_FILES,
		.ms = DEFAULT_MS,
		.nr_pinning = DEFAULT_PINNING,
		.nr_pins = DEFAULT_PINS,
		.channel = -1,
	};
	int error;

	if (argp_parse(&argp, argc, argv, 0, NULL, &b) != 0)
		return CLI_USAGE;
	cli_catch_signals();
	error = run(&b);
	stop(&b);
	if (cli_stopped)
		return CLI_STOPPED;
	if (error) {
		cli_error("%s", b.why[0] ? b.why : strerror(-error));
		return CLI_FAILED;
	}
	if (b.json)
		bench_service_report_json(&b);
	else
		bench_service_report_table(&b);
	return CLI_OK;
}
