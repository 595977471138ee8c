/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A reader process: its gets, each way. Contract: bench/kv.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "bench/kv.h"
#include "cli/cli.h"

/* A look at the clock costs as much as a tenth of a get. */
#define GETS_A_LOOK 32u
/* Pieces of a record: it is shorter than a block. */
#define MAX_PIECES 2u

/* One reader process has one; its parent has an unused one. */
static struct {
	const struct kv_store *store;
	int fd;
	const u8 *mapped;
	struct own_cache_seat seat;
	u64 buffer[KV_RECORD_WORDS];
	struct kv_tally tally;
} me = { .fd = -1 };

void kv_reader_prepare(const struct kv_store *store)
{
	me.store = store;
}

/* Four sums at once, as a compiler does not by itself here. */
typedef u64 four_words __attribute__((vector_size(32), aligned(8)));

/* The sum of n bytes, a multiple of 8. */
static inline u64 sum_of(const void *bytes, size_t n)
{
	const four_words *fours = bytes;
	four_words sums = { 0 };
	const u64 *rest;
	u64 sum;

	for (; n >= sizeof(*fours); n -= sizeof(*fours))
		sums += *fours++;
	sum = sums[0] + sums[1] + sums[2] + sums[3];
	for (rest = (const u64 *)fours; n > 0; n -= sizeof(*rest))
		sum += *rest++;
	return sum;
}

static inline u64 get_pread(off_t at)
{
	ssize_t n = pread(me.fd, me.buffer, KV_RECORD_BYTES, at);

	if (n != KV_RECORD_BYTES)
		me.tally.nr_failed++;
	return sum_of(me.buffer, KV_RECORD_BYTES);
}

static inline u64 get_read(off_t at)
{
	ssize_t n = lodic_read(me.seat.context, me.seat.file, me.buffer,
	                       KV_RECORD_BYTES, at);

	if (n != KV_RECORD_BYTES)
		me.tally.nr_failed++;
	return sum_of(me.buffer, KV_RECORD_BYTES);
}

/* A block that is not cached has been asked for. To look for it again would be in vain. */
static u64 get_copy(off_t at, int error)
{
	u64 blocks = ((u64)at + KV_RECORD_BYTES - 1) / LODIC_BLOCK_BYTES -
	             (u64)at / LODIC_BLOCK_BYTES + 1;

	if (error != -EAGAIN) {
		me.tally.copies[blocks > 1 ? KV_BORDER : KV_REFUSED]++;
		return get_read(at);
	}
	me.tally.copies[KV_UNCACHED]++;
	me.tally.nr_kernel += blocks;
	return get_pread(at);
}

static inline u64 get_pin(off_t at)
{
	struct lodic_pin pins[MAX_PIECES];
	int nr = lodic_pinv(me.seat.context, me.seat.file, at, KV_RECORD_BYTES, pins,
	                    MAX_PIECES);
	u64 sum = 0;

	if (nr < 0)
		return get_copy(at, nr);
	for (int i = 0; i < nr; i++) {
		sum += sum_of(pins[i].data, pins[i].bytes);
		lodic_unpin(me.seat.context, &pins[i]);
	}
	return sum;
}

static inline __attribute__((always_inline)) u64 get(enum kv_method method, u64 key)
{
	off_t at = (off_t)(key * KV_RECORD_BYTES);

	switch (method) {
	case KV_PREAD: return get_pread(at);
	case KV_MMAP: return sum_of(me.mapped + at, KV_RECORD_BYTES);
	case KV_READ: return get_read(at);
	default: return get_pin(at);
	}
}

static inline __attribute__((always_inline)) void
get_many(const struct kv_order *o, enum kv_method method, u64 *position)
{
	const u32 *keys = me.store->keys[o->draw];
	u64 end_ns = cli_now_ns() + o->window_ns, nr = 0, wrong = 0;

	do {
		for (u32 i = 0; i < GETS_A_LOOK; i++, nr++) {
			u64 key = keys[(*position)++ % KV_NR_KEYS];

			wrong += get(method, key) != kv_record_sum(key);
		}
	} while (nr < o->most_gets && cli_now_ns() < end_ns);
	me.tally.nr_gets = nr;
	me.tally.nr_wrong = wrong;
}

static u64 cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (u64)t.tv_sec * 1000000000 + (u64)t.tv_nsec;
}

static void reader_get(struct kv_order *o, u32 reader)
{
	struct lodic_context_stat before = { 0 }, after = { 0 };
	u64 position = o->position[reader], begin_ns;

	me.tally = (struct kv_tally){ 0 };
	lodic_context_stat(me.seat.context, &before, sizeof(before));
	begin_ns = cpu_ns();
	switch (o->method) {
	case KV_PREAD: get_many(o, KV_PREAD, &position); break;
	case KV_MMAP: get_many(o, KV_MMAP, &position); break;
	case KV_READ: get_many(o, KV_READ, &position); break;
	default: get_many(o, KV_PIN, &position); break;
	}
	me.tally.cpu_ns = cpu_ns() - begin_ns;
	lodic_context_stat(me.seat.context, &after, sizeof(after));
	/* A pin that finds nothing counts a miss as well, and reads nothing. */
	if (o->method == KV_READ)
		me.tally.nr_kernel = after.misses - before.misses;
	o->tallies[reader] = me.tally;
	o->position[reader] = position;
}

static int reader_open(void)
{
	void *p;

	me.fd = open(me.store->path, O_RDONLY | O_CLOEXEC);
	if (me.fd < 0)
		return -errno;
	p = mmap(NULL, me.store->bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, me.fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	me.mapped = p;
	return 0;
}

static int reader_attach(const struct kv_order *o)
{
	int error = me.mapped ? 0 : reader_open();

	if (!error)
		error = own_cache_take_seat(&me.seat, o->socket, me.fd);
	return error ? error : lodic_file_cached(me.seat.file);
}

u64 kv_reader_run(void *arg, u32 reader, u64 position, u64 nr)
{
	struct kv_order *o = arg;

	(void)position;
	(void)nr;
	switch (o->op) {
	case KV_ATTACH: o->errors[reader] = reader_attach(o); break;
	case KV_GET: reader_get(o, reader); break;
	case KV_LEAVE: own_cache_leave_seat(&me.seat); break;
	}
	return o->op == KV_ATTACH && o->errors[reader] != 0;
}
