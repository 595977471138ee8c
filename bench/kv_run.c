/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* bench_kv's settings, slots and figures. Contract: bench/kv.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/kv.h"
#include "bench/measure/shared.h"
#include "cli/cli.h"
#include "host/random.h"

#define MIB ((u64)1 << 20)
#define NS_PER_MS 1000000u
/* The roomy cache of a file of 300 MiB has 512 MiB. */
#define ROOMY_NUMERATOR 512u
#define ROOMY_DENOMINATOR 300u
#define TIGHT_PART 5u
/* The service rests when its CPU time stands still for so long. It is asked no longer than
 * REST_MOST_MS: it has work of its own every 100 ms. */
#define REST_MS 4u
#define REST_MOST_MS 100u
/* A cold slot ends by its number of gets. */
#define COLD_WINDOW_NS ((u64)20000 * NS_PER_MS)

__attribute__((format(printf, 3, 4))) static int fail(struct kv *kv, int error,
                                                      const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(kv->why, sizeof(kv->why), format, args);
	va_end(args);
	return error;
}

static int order_all(struct kv *kv, enum kv_op op)
{
	struct slots_work work = { .run = kv_reader_run, .arg = kv->order };
	u64 nr_failed;
	int error;

	kv->order->op = op;
	error = slots_call(&kv->readers, kv->plan.nr_readers, &work, &nr_failed);
	if (error)
		return fail(kv, error, "a reader has died, or does not answer");
	for (u32 i = 0; i < kv->plan.nr_readers && nr_failed > 0; i++)
		if (kv->order->errors[i])
			return fail(kv, kv->order->errors[i], "reader %u: %s", i,
			            lodic_strerror(kv->order->errors[i]));
	return 0;
}

/* All threads of the service, user and system; 0: it is gone. */
static u64 service_cpu_ns(const struct kv *kv)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid((pid_t)kv->cache.service_pid, &clock) != 0 ||
	    clock_gettime(clock, &t) != 0)
		return 0;
	return (u64)t.tv_sec * 1000000000 + (u64)t.tv_nsec;
}

/* Waits until the service has done what the readers have asked for. */
static void let_rest(const struct kv *kv)
{
	const struct timespec pause = { .tv_nsec = NS_PER_MS };
	u64 last = service_cpu_ns(kv), now;
	u32 still = 0;

	for (u32 ms = 0; ms < REST_MOST_MS && still < REST_MS; ms++) {
		nanosleep(&pause, NULL);
		now = service_cpu_ns(kv);
		still = now == last ? still + 1 : 0;
		last = now;
	}
}

static int cache_open(struct kv *kv, enum kv_setting setting)
{
	u64 bytes = kv->store.bytes;
	int error, fd = open(kv->store.path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return fail(kv, -errno, "cannot open the file");
	if (setting == KV_ROOMY)
		bytes = bytes / ROOMY_DENOMINATOR * ROOMY_NUMERATOR;
	else if (setting == KV_TIGHT)
		bytes /= TIGHT_PART;
	error = own_cache_start(&kv->cache, kv->folder, NULL, bytes,
	                        kv->plan.nr_readers, NULL, fd);
	close(fd);
	if (error)
		return fail(kv, error, "cannot use a cache: %s", lodic_strerror(error));
	if (setting == KV_ROOMY)
		error = lodic_prefetch(kv->cache.seat.context, kv->cache.seat.file, 0,
		                       0, LODIC_WAIT);
	if (error)
		return fail(kv, error, "cannot prefetch: %s", lodic_strerror(error));
	for (u32 draw = 0; draw < KV_NR_DRAWS; draw++)
		for (u32 method = 0; method < KV_NR_METHODS; method++)
			kv->cells[setting][draw][method].cache_bytes = bytes;
	strcpy(kv->order->socket, kv->cache.socket);
	return order_all(kv, KV_ATTACH);
}

static void cache_close(struct kv *kv)
{
	if (kv->readers.nr_workers > 0)
		order_all(kv, KV_LEAVE);
	own_cache_stop(&kv->cache);
}

static void add_tally(struct kv_tally *sum, const struct kv_tally *t)
{
	sum->nr_gets += t->nr_gets;
	sum->nr_wrong += t->nr_wrong;
	sum->nr_failed += t->nr_failed;
	sum->cpu_ns += t->cpu_ns;
	sum->nr_kernel += t->nr_kernel;
	for (u32 i = 0; i < KV_NR_COPIES; i++)
		sum->copies[i] += t->copies[i];
}

struct slot {
	enum kv_setting setting;
	enum kv_draw draw;
	enum kv_method method;
	u64 window_ns, most_gets;
};

/* Lets the readers get. ret_cpu_ns is theirs and the service's; ret_service_ns its part. */
static int run_slot(struct kv *kv, const struct slot *slot, struct kv_tally *ret,
                    u64 *ret_service_ns)
{
	u64 before = service_cpu_ns(kv);
	int error;

	kv->order->method = slot->method;
	kv->order->draw = slot->draw;
	kv->order->window_ns = slot->window_ns;
	kv->order->most_gets = slot->most_gets;
	error = order_all(kv, KV_GET);
	if (error)
		return error;
	*ret_service_ns = 0;
	if (slot->method >= KV_READ) {
		let_rest(kv);
		*ret_service_ns = service_cpu_ns(kv) - before;
	}
	*ret = (struct kv_tally){ 0 };
	for (u32 i = 0; i < kv->plan.nr_readers; i++)
		add_tally(ret, &kv->order->tallies[i]);
	return cli_stopped ? fail(kv, -EINTR, "stopped") : 0;
}

static void keep_slot(struct kv *kv, const struct slot *slot, u32 round,
                      const struct kv_tally *t, u64 service_ns)
{
	struct kv_cell *c = &kv->cells[slot->setting][slot->draw][slot->method];
	double cpu = (double)(t->cpu_ns + service_ns);

	add_tally(&c->sum, t);
	c->rate.at[round] = 1e9 * (double)t->nr_gets / cpu;
	c->service_share.at[round] = (double)service_ns / cpu;
}

/* Runs each method's slot of this round, in an order drawn anew. */
static int run_round(struct kv *kv, enum kv_setting setting, enum kv_draw draw,
                     u32 round, u64 *random)
{
	enum kv_method order[KV_NR_METHODS];
	int error = 0;

	for (u32 i = 0; i < KV_NR_METHODS; i++) {
		u32 j = (u32)(random_next(random) % (i + 1));

		order[i] = order[j];
		order[j] = (enum kv_method)i;
	}
	for (u32 i = 0; i < KV_NR_METHODS && !error; i++) {
		struct slot slot = { setting, draw, order[i], kv->plan.slot_ns,
			             UINT64_MAX };
		struct kv_tally tally;
		u64 service_ns;

		error = run_slot(kv, &slot, &tally, &service_ns);
		if (!error)
			keep_slot(kv, &slot, round, &tally, service_ns);
	}
	return error;
}

/* The service has seen so much of this distribution that what is cached changes little. */
static int warm_up(struct kv *kv, enum kv_draw draw)
{
	int error = 0;

	for (u32 method = KV_READ; method <= KV_PIN && !error; method++) {
		struct slot slot = { KV_TIGHT, draw, method, kv->plan.warm_ns / 2,
			             UINT64_MAX };
		struct kv_tally tally;
		u64 service_ns;

		error = run_slot(kv, &slot, &tally, &service_ns);
	}
	return error;
}

static int run_warm(struct kv *kv, enum kv_setting setting, enum kv_draw draw,
                    u64 *random)
{
	int error = cache_open(kv, setting);

	if (!error && setting == KV_TIGHT)
		error = warm_up(kv, draw);
	for (u32 round = 0; round < kv->plan.rounds && !error; round++) {
		error = run_round(kv, setting, draw, round, random);
		cli_progress(kv_setting_name(setting), 100 * round / kv->plan.rounds);
	}
	cache_close(kv);
	return error;
}

/* The number of blocks in which the readers' records of this slot lie. */
static u64 count_touched(struct kv *kv, enum kv_draw draw, const u64 *from)
{
	const u32 *keys = kv->store.keys[draw];
	u64 nr = 0;

	memset(kv->touched, 0, kv->store.nr_blocks);
	for (u32 i = 0; i < kv->plan.nr_readers; i++) {
		for (u64 p = from[i]; p < kv->order->position[i]; p++) {
			u64 at = (u64)keys[p % KV_NR_KEYS] * KV_RECORD_BYTES;

			kv->touched[at / LODIC_BLOCK_BYTES] = 1;
			kv->touched[(at + KV_RECORD_BYTES - 1) / LODIC_BLOCK_BYTES] = 1;
		}
	}
	for (u64 i = 0; i < kv->store.nr_blocks; i++)
		nr += kv->touched[i];
	return nr;
}

static int run_cold_slot(struct kv *kv, enum kv_draw draw, enum kv_method method,
                         u32 round)
{
	struct slot slot = { KV_COLD, draw, method, COLD_WINDOW_NS,
		             kv->plan.cold_gets };
	struct kv_cell *c = &kv->cells[KV_COLD][draw][method];
	u64 from[KV_MAX_READERS], service_ns;
	struct lodic_stat stat = { 0 };
	struct kv_tally tally;
	int error = cache_open(kv, KV_COLD);

	memcpy(from, kv->order->position, sizeof(from));
	if (!error)
		error = run_slot(kv, &slot, &tally, &service_ns);
	if (!error && lodic_stat(kv->cache.seat.lodic, &stat, sizeof(stat)) != 0)
		error = fail(kv, -EPIPE, "the service does not answer");
	if (!error) {
		double touched = (double)count_touched(kv, draw, from);

		keep_slot(kv, &slot, round, &tally, service_ns);
		c->kernel_reads.at[round] = (double)tally.nr_kernel / touched;
		c->cached.at[round] = (double)stat.cached / touched;
	}
	cache_close(kv);
	return error;
}

static int run_cold(struct kv *kv, enum kv_draw draw)
{
	int error = 0;

	for (u32 round = 0; round < kv->plan.cold_rounds && !error; round++) {
		for (u32 method = KV_READ; method <= KV_PIN && !error; method++)
			error = run_cold_slot(kv, draw, method, round);
		cli_progress(kv_setting_name(KV_COLD),
		             100 * round / kv->plan.cold_rounds);
	}
	return error;
}

static int open_cells(struct kv *kv)
{
	int error = 0;

	for (u32 s = 0; s < KV_NR_SETTINGS; s++) {
		u32 rounds = s == KV_COLD ? kv->plan.cold_rounds : kv->plan.rounds;

		for (u32 d = 0; d < KV_NR_DRAWS; d++) {
			for (u32 m = 0; m < KV_NR_METHODS && !error; m++) {
				struct kv_cell *c = &kv->cells[s][d][m];

				error = series_open(&c->rate, rounds);
				if (!error)
					error = series_open(&c->service_share, rounds);
				if (!error)
					error = series_open(&c->kernel_reads, rounds);
				if (!error)
					error = series_open(&c->cached, rounds);
			}
		}
	}
	return error;
}

static int kv_open(struct kv *kv, const char *folder)
{
	int anywhere[KV_MAX_READERS], error = shared_open();

	if (!error)
		kv->order = shared_alloc(sizeof(*kv->order), 64);
	if (error || !kv->order)
		return fail(kv, -ENOMEM, "there is no memory");
	error = kv_store_make(&kv->store, folder, kv->plan.file_bytes, kv->plan.seed);
	if (error)
		return fail(kv, error, "cannot write a file into %.100s: %s", folder,
		            strerror(-error));
	kv->touched = malloc(kv->store.nr_blocks);
	if (open_cells(kv) != 0 || !kv->touched)
		return fail(kv, -ENOMEM, "there is no memory");
	for (u32 i = 0; i < KV_MAX_READERS; i++) {
		anywhere[i] = -1;
		kv->order->position[i] = i * (KV_NR_KEYS / KV_MAX_READERS);
	}
	/* Readers are forked before anybody attaches. */
	kv_reader_prepare(&kv->store);
	error = slots_open(&kv->readers, anywhere, kv->plan.nr_readers, true);
	if (error)
		return fail(kv, error, "cannot start readers: %s", strerror(-error));
	error = own_cache_folder_make(kv->folder, sizeof(kv->folder));
	return error ? fail(kv, error, "cannot make a folder for sockets") : 0;
}

int kv_run(struct kv *kv, const struct kv_plan *plan, const char *folder)
{
	u64 begin_ns = cli_now_ns(), random = plan->seed;
	int error;

	kv->plan = *plan;
	error = kv_open(kv, folder);
	for (u32 s = 0; s < KV_NR_SETTINGS; s++)
		for (u32 d = 0; d < KV_NR_DRAWS && !error && plan->settings[s]; d++)
			error = s == KV_COLD ? run_cold(kv, d)
			                     : run_warm(kv, s, d, &random);
	cli_progress("", 101);
	kv->duration_ns = cli_now_ns() - begin_ns;
	kv->warmth = error ? 0 : kv_store_warmth(&kv->store);
	return error;
}

void kv_drop(struct kv *kv)
{
	slots_close(&kv->readers);
	own_cache_stop(&kv->cache);
	for (u32 s = 0; s < KV_NR_SETTINGS; s++) {
		for (u32 d = 0; d < KV_NR_DRAWS; d++) {
			for (u32 m = 0; m < KV_NR_METHODS; m++) {
				struct kv_cell *c = &kv->cells[s][d][m];

				series_close(&c->rate);
				series_close(&c->service_share);
				series_close(&c->kernel_reads);
				series_close(&c->cached);
			}
		}
	}
	free(kv->touched);
	kv_store_drop(&kv->store);
}
