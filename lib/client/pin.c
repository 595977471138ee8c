/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Pinning and prefetching. */
#include <errno.h>
#include <limits.h>

#include "lib/client/error.h"
#include "lib/client/file.h"
#include "lib/port.h"

#define BUSY_PAUSE_NS 5000000

static inline void pin_fill(struct lodic_pin *pin, const struct seat *seat, u32 frame,
                            u64 *word, u32 within, u64 left)
{
	pin->data = seat->core.data + ((u64)frame << BLOCK_SHIFT) + within;
	pin->bytes = left < BLOCK_BYTES - within ? left : BLOCK_BYTES - within;
	pin->word = word;
}

/* All that lodic_pin() does, for any scheme and any entry of the table. */
static __attribute__((noinline)) int pin_slow(struct lodic_context *context,
                                              struct lodic_file *file, off_t offset,
                                              struct lodic_pin *ret_pin)
{
	const struct claim *claim;
	struct cache_file core;
	struct seat *seat;
	u64 *word;
	u64 first, size, block;
	u32 frame;
	int err;

	if (offset < 0)
		return file_fails(file, context, -EINVAL);
	claim = file_tie(context, file);
	if (!claim)
		return file_fails(file, context, file_uncached(file, offset));
	first = claim_first(claim);
	size = claim_size(claim);
	core = claim_core(claim, first);
	if ((u64)offset >= size)
		return file_fails(file, context, -ENODATA);
	seat = context->seat;
	block = first + ((u64)offset >> BLOCK_SHIFT);
	err = cache_pin(&seat->core, &core, block, &frame, &word);
	if (err == -EAGAIN)
		seat_hint(seat, block, 1); /* asks the service for it */
	if (err)
		return file_fails(file, context, err);
	context_bump(&seat->core, CONTEXT_HITS);
	pin_fill(ret_pin, seat, frame, word, (u32)offset % BLOCK_BYTES,
	         size - (u64)offset);
	return 0;
}

/* The fast path, once for LODIC and once for the rivals. It calls nothing and uses seat and
 * claim alone, as read_block() does. A negative offset is a huge one here. */
static inline __attribute__((always_inline)) int
pin_home(struct seat *seat, const struct claim *claim, off_t offset,
         struct lodic_pin *ret_pin, bool rival)
{
	u64 block = claim_first(claim) + ((u64)offset >> BLOCK_SHIFT);
	struct cache_file core;
	u64 *word, size;
	u32 frame;

	if (unlikely((u64)offset >= claim_size(claim) ||
	             !cache_pin_counted(&seat->core, block, rival, &frame, &word)))
		return pin_slow(seat->context, claim->file, offset, ret_pin);
	/* Late, and size once more: no register has them during the pin. Another size than before
	 * is that of a later id, and nobody vouches for block's (CL2). */
	size = claim_size(claim);
	core = claim_core(claim, block);
	if (unlikely(!cache_pin_vouched(&seat->core, &core, rival, word)))
		return pin_slow(seat->context, claim->file, offset, ret_pin);
	context_bump(&seat->core, CONTEXT_HITS);
	pin_fill(ret_pin, seat, frame, word, (u32)offset % BLOCK_BYTES,
	         size - (u64)offset);
	return 0;
}

static __attribute__((noinline)) int pin_rival(struct lodic_context *context,
                                               struct lodic_file *file, off_t offset,
                                               struct lodic_pin *ret_pin)
{
	struct seat *seat = context->seat;
	const struct claim *claim = file_claim(file);

	if (unlikely(claim->generation != seat->generation))
		return pin_slow(context, file, offset, ret_pin);
	return pin_home(seat, claim, offset, ret_pin, true);
}

static inline __attribute__((always_inline)) int pin_one(struct lodic_context *context,
                                                         struct lodic_file *file,
                                                         off_t offset,
                                                         struct lodic_pin *ret_pin)
{
	struct seat *seat = context->seat;
	const struct claim *claim = file_claim(file);
	int err;

	misuse_context_enter(&context->misuse);
	misuse_file(&file->misuse);
	if (unlikely(claim->generation != seat->pin_generation))
		err = pin_rival(context, file, offset, ret_pin);
	else
		err = pin_home(seat, claim, offset, ret_pin, false);
	if (MISUSE_IS_LOOKED_FOR && !err)
		misuse_pinned(&context->misuse, ret_pin);
	misuse_context_leave(&context->misuse);
	return err;
}

EXPORT int lodic_pin(struct lodic_context *context, struct lodic_file *file,
                     off_t offset, struct lodic_pin *ret_pin)
{
	return pin_one(context, file, offset, ret_pin);
}

/* Is word one of those that a pin of this seat is counted in? */
static bool seat_counts(const struct seat *seat, const u64 *word)
{
	const struct arena *a = &seat->segment->arena;

	return (word >= seat->core.entries &&
	        word < seat->core.entries + a->nr_entries) ||
	       (a->counts && word >= a->counts &&
	        word < a->counts + (u64)a->nr_frames * COUNT_STRIDE);
}

static __attribute__((noinline)) void unpin_slow(struct lodic_context *context,
                                                 struct lodic_pin *pin)
{
	struct seat *seat = context->seat;
	struct seat *retired = context->retired;

	if (!pin->word || (seat != &no_seat && seat->generation == GENERATION_NONE))
		return; /* given back already, or a forked child */
	if (seat != &no_seat && seat_counts(seat, pin->word)) {
		cache_unpin(&seat->core, pin->word);
	} else {
		while (retired && !seat_counts(retired, pin->word))
			retired = retired->older;
		if (!retired)
			return; /* not a pin of this context */
		cache_unpin(&retired->core, pin->word);
		if (!seat_in_use(retired))
			context_free_retired(context);
	}
	pin->word = NULL;
}

EXPORT void lodic_unpin(struct lodic_context *context, struct lodic_pin *pin)
{
	struct seat *seat = context->seat;

	misuse_context_enter(&context->misuse);
	misuse_unpin(&context->misuse, pin);
	/* A fork wipes the seat, and with it its generations. */
	if (unlikely(!pin->word || context->retired)) {
		unpin_slow(context, pin);
	} else if (likely(seat->pin_generation != GENERATION_NONE)) {
		context_unpin_scanned(&seat->core, pin->word);
		pin->word = NULL;
	} else if (seat->generation != GENERATION_NONE) {
		context_unpin_word(&seat->core, pin->word);
		pin->word = NULL;
	}
	misuse_context_leave(&context->misuse);
}

EXPORT int lodic_pinv(struct lodic_context *context, struct lodic_file *file,
                      off_t offset, uint64_t bytes, struct lodic_pin *ret_pins,
                      unsigned int max_pins)
{
	unsigned int nr = 0;
	int err = 0;

	if (offset < 0 || bytes == 0 || max_pins == 0 || max_pins > INT_MAX)
		return file_fails(file, context, -EINVAL);
	while (nr < max_pins) {
		struct lodic_pin *pin = &ret_pins[nr];

		err = pin_one(context, file, offset, pin);
		if (err)
			break;
		nr++;
		if (pin->bytes >= bytes) {
			pin->bytes = bytes;
			break;
		}
		bytes -= pin->bytes;
		offset += (off_t)pin->bytes;
	}
	if (!err || (err == -ENODATA && nr > 0))
		return (int)nr;
	while (nr > 0)
		lodic_unpin(context, &ret_pins[--nr]);
	return err;
}

static void prefetch_answered(void *owner, const struct channel_reply *reply)
{
	*(int *)owner = reply->because;
}

/* A wait under way, and what the service has answered. */
struct prefetch_wait {
	struct lodic_context *context;
	int answer;
};

/* A cancelled thread leaves its question behind, and the answer would be the next one's. */
static void prefetch_cancelled(void *arg)
{
	const struct prefetch_wait *w = arg;
	struct lodic_context *context = w->context;

	channel_close(&context->waiting, -ECANCELED);
	misuse_context_leave(&context->misuse);
}

/* Asks by the context's own connection, and makes it first where there is none. -EAGAIN: the
 * service has many others to let in. */
static int prefetch_ask(struct lodic_context *context, int *ret_answer)
{
	static const struct wire_request request = { .version = WIRE_VERSION,
		                                     .op = WIRE_SYNC };
	const struct segment *segment = context->seat->segment;
	struct channel *c = &context->waiting;
	int err;

	if (context->waiting_generation != segment->generation)
		channel_close(c, -ECONNRESET); /* it leads to an earlier service */
	context->waiting_generation = segment->generation;
	/* The service may have hung up since the last wait; then ask() closes it. */
	if (c->socket >= 0 && channel_ask(c, &request, -1, DEADLINE_NEVER,
	                                  prefetch_answered, ret_answer) == 0)
		return 0;
	channel_close(c, -ECONNRESET);
	err = channel_connect(c, context->lodic->start.socket_path,
	                      context->lodic->start.trusted);
	return err ? err
	           : channel_ask(c, &request, -1, DEADLINE_NEVER, prefetch_answered,
	                         ret_answer);
}

static void prefetch_pause(void *arg)
{
	(void)arg;
	port_sleep(BUSY_PAUSE_NS);
}

static void prefetch_sleep(void *arg)
{
	const struct prefetch_wait *w = arg;

	channel_wait(&w->context->waiting);
}

/* Waits until the service has done what it could for every hint posted before. The wait has
 * a connection of its own and holds no lock, because it may take long. The thread can be cancelled
 * while it waits, and not while it connects: connect(2) would end it, and leave the socket. */
static int prefetch_wait(struct lodic_context *context)
{
	struct prefetch_wait w = { context, -ECONNRESET };
	const struct segment *segment = context->seat->segment;
	int state = port_cancel_off();
	int err;

	/* Ends when the service lets it in, or dies. It waits for the service in any case. */
	while ((err = prefetch_ask(context, &w.answer)) == -EAGAIN && segment_alive(segment))
		port_cancellable(state, prefetch_pause, prefetch_cancelled, &w);
	if (!err) {
		port_cancellable(state, prefetch_sleep, prefetch_cancelled, &w);
		err = segment_alive(segment) ? w.answer : -ECONNRESET;
	}
	port_cancel_as(state);
	return err == -ECONNREFUSED || err == -ENOENT || err == -EAGAIN ? -ECONNRESET : err;
}

static int prefetch(struct lodic_context *context, struct lodic_file *file,
                    off_t offset, uint64_t n, unsigned int flags)
{
	const struct claim *claim;
	struct seat *seat;
	u64 first, size, end;
	int err;

	if (offset < 0 || flags & ~(unsigned int)LODIC_WAIT)
		return file_fails(file, context, -EINVAL);
	claim = file_tie_wait(context, file);
	if (!claim)
		return file_fails(file, context, -ESTALE);
	seat = context->seat;
	first = claim_first(claim);
	size = claim_size(claim);
	if ((u64)offset >= size)
		return 0;
	if (flags & LODIC_WAIT && hint_full(&seat->core.memory->ring)) {
		err = prefetch_wait(context);
		if (err)
			return err;
	}
	end = n == 0 || n > size - (u64)offset ? size : (u64)offset + n;
	seat_hint(seat, first + ((u64)offset >> BLOCK_SHIFT),
	          HINT_ASKED | (((end - 1) >> BLOCK_SHIFT) -
	                        ((u64)offset >> BLOCK_SHIFT) + 1));
	return flags & LODIC_WAIT ? prefetch_wait(context) : 0;
}

EXPORT int lodic_prefetch(struct lodic_context *context, struct lodic_file *file,
                          off_t offset, uint64_t n, unsigned int flags)
{
	int err;

	misuse_context_enter(&context->misuse);
	misuse_file(&file->misuse);
	error_forget();
	err = error_plain(prefetch(context, file, offset, n, flags));
	misuse_context_leave(&context->misuse);
	return err;
}
