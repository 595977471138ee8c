/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The benchmarks' reader processes. Contract: bench/measure/reader.h. */
#define _GNU_SOURCE
#include "bench/measure/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/cli.h"
#include "host/host.h"

/* How often a reader looks at the clock: a hundredth of a slot, and far more than the look
 * itself costs. */
#define BATCH_NS 20000
#define BATCH_FIRST 8
#define BATCH_MOST (UINT64_C(1) << 16)
/* A report wakes the parent, perhaps on the CPU of a reader that is still at work. So all
 * readers hold their reports back until every window is over. */
#define HOLD_BACK_NS (4 * BATCH_NS)
#define VERIFY_PIECE_BYTES ((size_t)1 << 20)
#define LINE_BYTES 64

struct reader {
	const struct reader_setup *setup;
	struct method_ground ground;
	uint8_t *expected; /* VERIFY_PIECE_BYTES */
	uint8_t *got;
	int cpu;
};

__attribute__((format(printf, 3, 4))) static void
reader_report_error(struct reader_report *r, int error, const char *format, ...)
{
	va_list args;

	r->error = error;
	va_start(args, format);
	vsnprintf(r->why, sizeof(r->why), format, args);
	va_end(args);
}

static void reader_attach(struct reader *me, struct reader_report *r)
{
	const struct reader_setup *setup = me->setup;
	struct method_ground *g = &me->ground;
	void *p;

	g->fd = open(setup->path, O_RDONLY | O_CLOEXEC);
	if (g->fd < 0) {
		reader_report_error(r, -errno, "cannot open %s", setup->path);
		return;
	}
	p = mmap(NULL, setup->file_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, g->fd,
	         0);
	if (p == MAP_FAILED) {
		reader_report_error(r, -errno, "cannot map the file");
		return;
	}
	g->mapped_bytes = p;
	for (int i = 0; i < NR_CACHES; i++) {
		int error;

		if (!setup->sockets[i])
			continue;
		error = own_cache_take_seat(&g->seats[i], setup->sockets[i], g->fd);
		if (!error)
			error = lodic_file_cached(g->seats[i].file);
		if (error) {
			reader_report_error(r, error, "cannot use the %s cache",
			                    method_cache_name((enum method_cache)i));
			return;
		}
	}
}

static uint64_t reader_nr_different(const uint8_t *a, const uint8_t *b, size_t n)
{
	uint64_t nr = 0;

	if (memcmp(a, b, n) == 0)
		return 0;
	for (size_t i = 0; i < n; i++)
		nr += a[i] != b[i];
	return nr;
}

/* Compares through pins, block by block. */
static void reader_verify_pins(struct reader *me, const struct own_cache_seat *seat,
                               uint64_t offset, size_t n, struct reader_report *r,
                               uint64_t *ret_pinned)
{
	for (size_t at = 0; at < n; at += LODIC_BLOCK_BYTES) {
		size_t want = n - at < LODIC_BLOCK_BYTES ? n - at : LODIC_BLOCK_BYTES;
		struct lodic_pin pin;

		if (lodic_pin(seat->context, seat->file, (off_t)(offset + at), &pin) !=
		    0) {
			r->nr_fallbacks++;
			continue;
		}
		if (pin.bytes < want)
			r->nr_wrong_bytes += want - pin.bytes;
		else
			r->nr_wrong_bytes +=
				reader_nr_different(pin.data, me->expected + at, want);
		lodic_unpin(seat->context, &pin);
		*ret_pinned += want;
	}
}

static void reader_verify_piece(struct reader *me, uint64_t offset, size_t n,
                                struct reader_report *r)
{
	for (int i = 0; i < NR_CACHES; i++) {
		const struct own_cache_seat *seat = &me->ground.seats[i];
		uint64_t pinned = 0;
		ssize_t got;

		if (!seat->lodic)
			continue;
		got = lodic_read(seat->context, seat->file, me->got, n, (off_t)offset);
		if (got != (ssize_t)n) {
			reader_report_error(r, got < 0 ? (int)got : -EIO,
			                    "lodic_read at %llu gave %zd of %zu bytes",
			                    (unsigned long long)offset, got, n);
			return;
		}
		r->nr_wrong_bytes += reader_nr_different(me->got, me->expected, n);
		reader_verify_pins(me, seat, offset, n, r, &pinned);
		r->all_bytes += n + pinned;
		if (i != LODIC_LODIC)
			continue;
		r->read_bytes += n;
		r->pinned_bytes += pinned;
	}
}

static void reader_add_cache_stat(const struct own_cache_seat *seat,
                                  struct lodic_context_stat *sum)
{
	struct lodic_context_stat s;

	if (!seat->lodic)
		return;
	lodic_context_stat(seat->context, &s, sizeof(s));
	sum->hits += s.hits;
	sum->misses += s.misses;
}

static void reader_verify(struct reader *me, const struct reader_order *o,
                          struct reader_report *r)
{
	const struct own_cache_seat *seat = &me->ground.seats[LODIC_LODIC];
	struct lodic_context_stat before = { 0 }, after = { 0 };
	uint64_t end = o->verify_offset + o->verify_bytes;

	reader_add_cache_stat(seat, &before);
	for (uint64_t at = o->verify_offset; at < end && !r->error;
	     at += VERIFY_PIECE_BYTES) {
		size_t n =
			end - at < VERIFY_PIECE_BYTES ? end - at : VERIFY_PIECE_BYTES;

		if (pread(me->ground.fd, me->expected, n, (off_t)at) != (ssize_t)n) {
			reader_report_error(r, -EIO, "cannot read %s", me->setup->path);
			return;
		}
		r->nr_wrong_bytes += reader_nr_different(me->setup->private_bytes + at,
		                                         me->expected, n);
		reader_verify_piece(me, at, n, r);
	}
	reader_add_cache_stat(seat, &after);
	r->hits = after.hits - before.hits;
	r->misses = after.misses - before.misses;
}

static void reader_stay_on(struct reader *me, int cpu)
{
	cpu_set_t set;

	if (cpu == me->cpu)
		return;
	me->cpu = cpu;
	CPU_ZERO(&set);
	if (cpu >= 0)
		CPU_SET(cpu, &set);
	else
		for (int i = 0; i < CPU_SETSIZE; i++)
			CPU_SET(i, &set); /* the kernel keeps those that we may use */
	/* If the kernel refuses, it may move the reader in a slot. That slot does not
	 * count. */
	sched_setaffinity(0, sizeof(set), &set);
}

/* Reads until end_ns; returns the number of reads. Adapts *batch, so that a batch lasts
 * about BATCH_NS. */
static uint64_t reader_read_until(struct reader *me, const struct reader_order *o,
                                  struct method_steps *s, uint64_t *batch,
                                  uint64_t end_ns, uint64_t *ret_last_ns)
{
	uint64_t nr = 0, now = cli_now_ns(), before;

	while (now < end_ns) {
		method_run(o->method, &me->ground, s, *batch);
		s->position += *batch;
		nr += *batch;
		before = now;
		now = cli_now_ns();
		if (now - before < BATCH_NS / 2 && *batch < BATCH_MOST)
			*batch *= 2;
	}
	*ret_last_ns = now;
	return nr;
}

static bool reader_was_switched(const struct rusage *a, const struct rusage *b)
{
	return a->ru_nvcsw != b->ru_nvcsw || a->ru_nivcsw != b->ru_nivcsw;
}

/* Does the buffer hold what the file has where the last read was? */
static void reader_check_last(struct reader *me, const struct method_steps *s,
                              struct reader_report *r)
{
	struct method_steps last = *s;
	uint64_t offset;

	last.position--;
	offset = method_offset(&last, 0);
	r->nr_wrong_bytes = reader_nr_different(
		me->ground.buffer, me->setup->private_bytes + offset, s->bytes);
}

static void reader_wait_until(uint64_t at_ns, bool spin)
{
	while (spin && cli_now_ns() < at_ns)
		host_relax();
}

static void reader_slot(struct reader *me, const struct reader_order *o,
                        struct reader_report *r)
{
	struct method_steps steps = {
		.units = me->setup->workload->units[o->access],
		.position = o->position,
		.bytes = o->bytes,
	};
	int cache = method_cache(o->method);
	const struct own_cache_seat *seat = &me->ground.seats[cache < 0 ? 0 : cache];
	struct lodic_context_stat stat_before = { 0 }, stat_after = { 0 };
	uint64_t batch = BATCH_FIRST, end_ns = o->start_ns + o->warm_ns + o->window_ns;
	struct rusage before, after;
	uint64_t nr_warm;

	me->ground.nr_fallbacks = me->ground.nr_failed = 0;
	reader_stay_on(me, o->cpu);
	reader_wait_until(o->start_ns, o->spin);
	if (!o->spin) /* a reader that starts late still gets its whole window */
		end_ns = cli_now_ns() + o->warm_ns + o->window_ns;
	if (cache >= 0)
		reader_add_cache_stat(seat, &stat_before);
	nr_warm = reader_read_until(me, o, &steps, &batch, end_ns - o->window_ns,
	                            &r->begin_ns);
	getrusage(RUSAGE_THREAD, &before);
	r->begin_ns = cli_now_ns();
	r->nr_ops = reader_read_until(me, o, &steps, &batch, end_ns, &r->end_ns);
	getrusage(RUSAGE_THREAD, &after);
	reader_wait_until(end_ns + HOLD_BACK_NS, o->spin);
	r->preempted = reader_was_switched(&before, &after);
	r->nr_all_ops = nr_warm + r->nr_ops;
	if (r->nr_all_ops > 0) /* 0: the reader woke too late to read */
		reader_check_last(me, &steps, r);
	if (cache >= 0)
		reader_add_cache_stat(seat, &stat_after);
	r->hits = stat_after.hits - stat_before.hits;
	r->misses = stat_after.misses - stat_before.misses;
	r->nr_fallbacks = me->ground.nr_fallbacks;
	if (me->ground.nr_failed)
		reader_report_error(r, -EIO, "%s: %llu reads failed",
		                    method_name(o->method),
		                    (unsigned long long)me->ground.nr_failed);
}

static bool reader_prepare(struct reader *me)
{
	struct method_ground *g = &me->ground;

	g->private_bytes = me->setup->private_bytes;
	g->buffer = aligned_alloc(LODIC_BLOCK_BYTES, LODIC_BLOCK_BYTES);
	g->word = aligned_alloc(LINE_BYTES, LINE_BYTES);
	me->expected = aligned_alloc(LODIC_BLOCK_BYTES, VERIFY_PIECE_BYTES);
	me->got = aligned_alloc(LODIC_BLOCK_BYTES, VERIFY_PIECE_BYTES);
	if (!g->buffer || !g->word || !me->expected || !me->got)
		return false;
	*g->word = 0;
	return true;
}

void reader_run(const struct reader_setup *setup, int channel)
{
	struct reader me = { .setup = setup, .cpu = -1 };
	struct reader_order order;

	/* Ctrl-C reaches the whole group. The parent ends the readers in order. */
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGTERM, SIG_DFL);
	if (!reader_prepare(&me))
		_exit(CLI_FAILED);
	while (recv(channel, &order, sizeof(order), 0) == (ssize_t)sizeof(order)) {
		struct reader_report report = { 0 };

		if (order.op == READER_ATTACH)
			reader_attach(&me, &report);
		else if (order.op == READER_VERIFY)
			reader_verify(&me, &order, &report);
		else
			reader_slot(&me, &order, &report);
		if (send(channel, &report, sizeof(report), MSG_NOSIGNAL) < 0)
			break;
	}
	/* Leave contexts and attachments open, so that the service must clean up, too. */
	_exit(CLI_OK);
}
