/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * `lodic bench tier`: how many blocks a second move from tier to tier, with readers and without,
 * and how long the readers' reads and pins take meanwhile. A service in a child of this process
 * has a file cached, which is a hole; readers are other children. Each row has a service of its
 * own: the way of moving is its option.
 */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/command/bench.h"
#include "bench/measure/corpus.h"
#include "bench/measure/machine.h"
#include "bench/measure/report.h"
#include "bench/measure/rig.h"
#include "bench/measure/table.h"
#include "bench/measure/times.h"
#include "cli/cli.h"
#include "cli/leftover.h"
#include "host/random.h"
#include "lib/look.h"
#include "lib/service/service.h"
#include "lib/settings.h"
#include "lodic/lodic.h"

#define DEFAULT_SIZE ((uint64_t)1 << 30)
#define MAX_READERS 64u
#define DEFAULT_MS 3000u
#define NS_PER_MS UINT64_C(1000000)
#define POLL_NS 500000
#define START_MS 30000u
#define PATH_BYTES 4200

static const char doc[] =
	"Measure how fast blocks move between two tiers of memory, and what readers notice. "
	"Without two nodes of memory both tiers are parts of the same one: the work is the same, "
	"and no tier is slower."
	"\v"
	"`en-masse' is how the service moves: thousands of blocks after one fence. `one-by-one' "
	"waits for a fence for each block. The rows without `readers' have none. Times are of a "
	"read of a whole block by lodic_read(), at random places of the file.\n"
	"\n"
	"Examples:\n"
	"  lodic bench tier\n"
	"  lodic bench tier --size 256M --readers 4 --barrier lock --json\n";

enum { KEY_BARRIER = 256, KEY_SIZE, KEY_WORKDIR };

static const struct argp_option option_list[] = {
	{ "json", 'j', NULL, 0, "Print JSON and not a table", 0 },
	{ "size", KEY_SIZE, "SIZE", 0, "Move a file of this size (default: 1G)", 0 },
	{ "readers", 'r', "N", 0, "N processes read, 1 to 64 (default: 1)", 0 },
	{ "seconds", 's', "N", 0, "Move for N seconds in each row (default: 3)", 0 },
	{ "barrier", KEY_BARRIER, "light|lock|auto", 0,
	  "What orders pins against the service (default: auto)", 0 },
	{ "workdir", KEY_WORKDIR, "DIR", 0, "Put the file there", 0 },
	{ 0 },
};

enum tier_row { ROW_QUIET, ROW_MASS, ROW_MASS_READ, ROW_ONE, ROW_ONE_READ, NR_ROWS };

static const struct {
	const char *name;
	bool moves, one, reads;
} rows[NR_ROWS] = {
	[ROW_QUIET] = { "no moves, readers", false, false, true },
	[ROW_MASS] = { "en-masse", true, false, false },
	[ROW_MASS_READ] = { "en-masse, readers", true, false, true },
	[ROW_ONE] = { "one-by-one", true, true, false },
	[ROW_ONE_READ] = { "one-by-one, readers", true, true, true },
};

/* All processes have it. */
struct tier_shared {
	volatile uint64_t stop; /* the parent writes */
	struct {
		volatile uint64_t ready;
		uint64_t reads, failed;
		struct times times;
	} readers[MAX_READERS];
};

struct tier_result {
	uint64_t moved, refused, ns;
	uint64_t reads, p50_ns, p99_ns, p999_ns, max_ns;
};

struct tier_bench {
	uint64_t size, nr_readers, ms;
	uint32_t barrier;
	const char *workdir;
	bool json;
	char sockets[OWN_CACHE_FOLDER_BYTES], socket[OWN_CACHE_SOCKET_BYTES];
	char folder[PATH_BYTES], path[PATH_BYTES + 8];
	struct tier_shared *shared;
	pid_t service, readers[MAX_READERS];
	bool light;
	struct tier_result results[NR_ROWS];
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct tier_bench *b = state->input;
	uint32_t i = SERVICE_BARRIER_AUTO;

	switch (key) {
	case 'j': b->json = true; return 0;
	case 'r':
		if (cli_parse_number(arg, 1, MAX_READERS, &b->nr_readers) != 0)
			argp_error(state, "'%s' is not a number from 1 to %u", arg,
			           MAX_READERS);
		return 0;
	case 's':
		if (cli_parse_seconds_ms(arg, &b->ms) != 0 || b->ms == 0)
			argp_error(state, "'%s' is not a number of seconds", arg);
		return 0;
	case KEY_SIZE:
		if (cli_parse_bytes(arg, &b->size) != 0 || b->size < (1u << 20) ||
		    b->size > SERVICE_MAX_CACHE_BYTES / 4)
			argp_error(state, "'%s' is not a size from 1M on", arg);
		b->size -= b->size % LODIC_BLOCK_BYTES;
		return 0;
	case KEY_BARRIER:
		while (settings_barrier_name(i) &&
		       strcmp(arg, settings_barrier_name(i)) != 0)
			i++;
		if (!settings_barrier_name(i))
			argp_error(state, "'%s' is none of light, lock, auto", arg);
		b->barrier = i;
		return 0;
	case KEY_WORKDIR: b->workdir = arg; return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* ---- readers ---- */

static int attach(const struct tier_bench *b, struct lodic **ret_lodic,
                  struct lodic_context **ret_context, struct lodic_file **ret_file)
{
	struct lodic_options options = { .bytes = sizeof(options),
		                         .socket = b->socket,
		                         .service = "" };
	int fd = open(b->path, O_RDONLY | O_CLOEXEC);
	int err = fd < 0 ? -errno : lodic_attach(&options, ret_lodic);

	if (!err)
		err = lodic_context_open(*ret_lodic, ret_context);
	if (!err)
		err = lodic_open(*ret_lodic, fd, ret_file);
	if (!err)
		err = lodic_file_cached(*ret_file);
	if (fd >= 0)
		close(fd);
	return err;
}

static _Noreturn void reader_process(const struct tier_bench *b, uint64_t number)
{
	struct lodic_context *context;
	struct lodic_file *file;
	struct lodic *lodic;
	uint64_t random = number + 1, began, now;
	static char buffer[LODIC_BLOCK_BYTES];
	ssize_t n;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (attach(b, &lodic, &context, &file) != 0)
		_exit(1);
	b->shared->readers[number].ready = 1;
	now = cli_now_ns();
	while (!b->shared->stop) {
		uint64_t block = random_next(&random) % (b->size / LODIC_BLOCK_BYTES);

		began = now;
		n = lodic_read(context, file, buffer, sizeof(buffer),
		               (off_t)(block * LODIC_BLOCK_BYTES));
		now = cli_now_ns();
		times_add(&b->shared->readers[number].times, now - began);
		b->shared->readers[number].reads++;
		b->shared->readers[number].failed += n != sizeof(buffer);
	}
	_exit(0);
}

/* ---- the service ---- */

static void sleep_a_little(void)
{
	const struct timespec pause = { .tv_nsec = POLL_NS };

	nanosleep(&pause, NULL);
}

static _Noreturn void service_process(const struct tier_bench *b, bool one)
{
	const struct service_options options = {
		.place.socket = b->socket,
		/* Each tier has room for the file, and some. */
		.sizes.cache_bytes = b->size / 4 * 9,
		.sizes.fast_bytes = b->size / 8 * 9,
		.tables.barrier = b->barrier,
		.keeping.nr_files = 16,
		.tables.move_batch = one,
	};
	const char *why = NULL;
	int err;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	err = service_run(&options, NULL, NULL, &why);
	if (err)
		cli_error("%s", why ? why : strerror(-err));
	_exit(err ? 1 : 0);
}

static int start_service(struct tier_bench *b, bool one, struct look **ret_look)
{
	uint64_t end = cli_now_ns() + START_MS * NS_PER_MS;
	int pid, err;

	b->service = fork();
	if (b->service == 0)
		service_process(b, one);
	if (b->service < 0)
		return -errno;
	while ((err = look_open(b->socket, ret_look, &pid)) != 0) {
		if (cli_stopped || cli_now_ns() > end)
			return err;
		if (waitpid(b->service, NULL, WNOHANG) == b->service) {
			b->service = 0;
			return -ECHILD;
		}
		sleep_a_little();
	}
	return 0;
}

static void stop_all(struct tier_bench *b)
{
	b->shared->stop = 1;
	for (uint64_t i = 0; i < b->nr_readers; i++)
		if (b->readers[i] > 0)
			waitpid(b->readers[i], NULL, 0);
	memset(b->readers, 0, sizeof(b->readers));
	if (b->service > 0) {
		kill(b->service, SIGTERM);
		waitpid(b->service, NULL, 0);
	}
	b->service = 0;
}

/* ---- a row ---- */

struct tier_sum {
	uint64_t moved, refused;
	bool busy;
};

static int add_tier(void *ctx, const void *record)
{
	const struct look_tier *r = record;
	struct tier_sum *sum = ctx;

	sum->moved += r->moved;
	sum->refused += r->refused;
	sum->busy |= r->busy;
	return 0;
}

/* Moves the file to and fro until the time is over. */
static int move_for(struct tier_bench *b, struct look *look, struct tier_result *r)
{
	uint64_t began = cli_now_ns(), end = began + b->ms * NS_PER_MS;
	enum look_tier_kind to = LOOK_TIER_SLOW;
	struct tier_sum sum;
	struct stat st;
	int err = stat(b->path, &st) != 0 ? -errno : 0;

	do {
		sum = (struct tier_sum){ 0 };
		if (!err)
			err = look_list(look, LOOK_TIERS, add_tier, &sum);
		if (!err && !sum.busy) {
			err = look_move(look, st.st_dev, st.st_ino, to);
			to = to == LOOK_TIER_SLOW ? LOOK_TIER_FAST : LOOK_TIER_SLOW;
		}
		sleep_a_little();
	} while (!err && !cli_stopped && cli_now_ns() < end);
	r->ns = cli_now_ns() - began;
	r->moved = sum.moved;
	r->refused = sum.refused;
	return err;
}

static void wait_for(struct tier_bench *b)
{
	uint64_t end = cli_now_ns() + b->ms * NS_PER_MS;

	while (!cli_stopped && cli_now_ns() < end)
		sleep_a_little();
}

static int start_readers(struct tier_bench *b)
{
	memset((void *)b->shared, 0, sizeof(*b->shared));
	for (uint64_t i = 0; i < b->nr_readers; i++) {
		b->readers[i] = fork();
		if (b->readers[i] == 0)
			reader_process(b, i);
		if (b->readers[i] < 0)
			return -errno;
	}
	for (uint64_t i = 0; i < b->nr_readers; i++)
		while (!b->shared->readers[i].ready) {
			if (cli_stopped || waitpid(b->readers[i], NULL, WNOHANG) != 0)
				return -EPIPE;
			sleep_a_little();
		}
	return 0;
}

static int sum_readers(struct tier_bench *b, struct tier_result *r)
{
	static struct times all;
	uint64_t failed = 0;

	memset(&all, 0, sizeof(all));
	for (uint64_t i = 0; i < b->nr_readers; i++) {
		const struct times *t = &b->shared->readers[i].times;

		failed += b->shared->readers[i].failed;
		all.nr += t->nr;
		all.max_ns = t->max_ns > all.max_ns ? t->max_ns : all.max_ns;
		for (uint32_t k = 0; k < TIMES_PLACES; k++)
			all.places[k] += t->places[k];
	}
	r->reads = all.nr;
	r->p50_ns = times_part_ns(&all, 0.5);
	r->p99_ns = times_part_ns(&all, 0.99);
	r->p999_ns = times_part_ns(&all, 0.999);
	r->max_ns = all.max_ns;
	return failed ? -EIO : 0;
}

static int run_row(struct tier_bench *b, enum tier_row row)
{
	struct tier_result *r = &b->results[row];
	struct lodic_context *context;
	struct lodic_file *file;
	struct look *look = NULL;
	struct lodic_stat stat;
	struct lodic *lodic;
	int err;

	memset((void *)b->shared, 0, sizeof(*b->shared));
	err = start_service(b, rows[row].one, &look);
	if (!err)
		err = attach(b, &lodic, &context, &file);
	if (!err)
		err = lodic_prefetch(context, file, 0, 0, LODIC_WAIT);
	if (!err)
		err = look_stat(look, &stat);
	b->light = !err && stat.light_pins;
	if (!err && rows[row].reads)
		err = start_readers(b);
	if (!err && rows[row].moves)
		err = move_for(b, look, r);
	else if (!err)
		wait_for(b);
	look_close(look);
	stop_all(b);
	if (!err && rows[row].reads)
		err = sum_readers(b, r);
	return err;
}

static int run(struct tier_bench *b)
{
	int err = own_cache_folder_make(b->sockets, sizeof(b->sockets)), fd;

	if (err)
		return err;
	snprintf(b->socket, sizeof(b->socket), "%s/service", b->sockets);
	snprintf(b->folder, sizeof(b->folder), "%s/lodic-tier-XXXXXX",
	         b->workdir ? b->workdir : leftover_folder());
	err = leftover_name(b->folder);
	if (!err && mkdir(b->folder, 0700) != 0)
		err = -errno;
	if (err)
		return err;
	snprintf(b->path, sizeof(b->path), "%s/file", b->folder);
	fd = open(b->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)b->size) != 0)
		return -errno;
	close(fd);
	b->shared = mmap(NULL, sizeof(*b->shared), PROT_READ | PROT_WRITE,
	                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (b->shared == MAP_FAILED)
		return -errno;
	for (int row = 0; row < NR_ROWS && !err && !cli_stopped; row++) {
		cli_progress(rows[row].name, (unsigned int)(100 * row / NR_ROWS));
		err = run_row(b, (enum tier_row)row);
	}
	cli_progress("", 101);
	return err;
}

/* ---- what is printed ---- */

static double per_second(uint64_t nr, uint64_t ns)
{
	return ns ? (double)nr * 1e9 / (double)ns : 0;
}

static void print_json(const struct tier_bench *b)
{
	json_t *o = json_object(), *results = json_array();
	char parameters[REPORT_PARAMETERS_BYTES];
	struct machine machine;
	const struct report_run about = { &machine, parameters, 1 };

	machine_find(&machine);
	snprintf(parameters, sizeof(parameters),
	         "size=%" PRIu64 " readers=%" PRIu64 " ms=%" PRIu64, b->size,
	         b->nr_readers, b->ms);
	report_run_json(o, &about);
	json_object_set_new(o, "barrier", json_string(b->light ? "light" : "lock"));
	for (int i = 0; i < NR_ROWS; i++) {
		const struct tier_result *r = &b->results[i];
		json_t *row = json_object();

		json_object_set_new(row, "what", json_string(rows[i].name));
		json_object_set_new(row, "frames_per_second",
		                    json_real(per_second(r->moved, r->ns)));
		json_object_set_new(row, "moved", json_integer((json_int_t)r->moved));
		json_object_set_new(row, "refused",
		                    json_integer((json_int_t)r->refused));
		json_object_set_new(row, "reads", json_integer((json_int_t)r->reads));
		json_object_set_new(row, "p50_us", json_real((double)r->p50_ns / 1e3));
		json_object_set_new(row, "p99_us", json_real((double)r->p99_ns / 1e3));
		json_object_set_new(row, "p999_us",
		                    json_real((double)r->p999_ns / 1e3));
		json_object_set_new(row, "max_us", json_real((double)r->max_ns / 1e3));
		json_array_append_new(results, row);
	}
	json_object_set_new(o, "results", results);
	report_print_json(o, stdout);
	json_decref(o);
}

/* Without readers there is none. */
static void table_time(struct table *t, const struct tier_result *r, uint64_t ns)
{
	if (r->reads > 0)
		table_cell(t, "%.2f", (double)ns / 1e3);
	else
		table_cell(t, "-");
}

static void print_table(const struct tier_bench *b)
{
	struct table t = { 0 };

	printf("a file of %" PRIu64 " MiB; readers: %" PRIu64 "; %s pins\n\n",
	       b->size >> 20, b->nr_readers, b->light ? "light" : "locked");
	table_row(&t);
	table_cell(&t, "what");
	table_cell(&t, "frames/s");
	table_cell(&t, "refused");
	table_cell(&t, "reads");
	table_cell(&t, "p50 us");
	table_cell(&t, "p99 us");
	table_cell(&t, "p99.9 us");
	table_cell(&t, "max us");
	for (int i = 0; i < NR_ROWS; i++) {
		const struct tier_result *r = &b->results[i];

		table_row(&t);
		table_cell(&t, "%s", rows[i].name);
		table_cell(&t, "%.0f", per_second(r->moved, r->ns));
		table_cell(&t, "%" PRIu64, r->refused);
		table_cell(&t, "%" PRIu64, r->reads);
		table_time(&t, r, r->p50_ns);
		table_time(&t, r, r->p99_ns);
		table_time(&t, r, r->p999_ns);
		table_time(&t, r, r->max_ns);
	}
	table_print(&t, stdout);
}

int command_bench_tier(int argc, char **argv)
{
	static const struct argp argp = { option_list, parse, NULL, doc,
		                          NULL,        NULL,  NULL };
	static struct tier_bench b = {
		.size = DEFAULT_SIZE,
		.nr_readers = 1,
		.ms = DEFAULT_MS,
	};
	int err;

	if (argp_parse(&argp, argc, argv, 0, NULL, &b) != 0)
		return CLI_USAGE;
	cli_catch_signals();
	err = run(&b);
	if (b.shared)
		stop_all(&b);
	leftover_sweep();
	if (cli_stopped)
		return CLI_STOPPED;
	if (err) {
		cli_error("the measurement failed: %s", lodic_strerror(err));
		return CLI_FAILED;
	}
	if (b.json)
		print_json(&b);
	else
		print_table(&b);
	return CLI_OK;
}
