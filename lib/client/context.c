/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contexts: one thread's seat in the current segment, and moving to the next one. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/client/client.h"

/* Where contexts sit when there is no service. Its generation matches no claim. */
struct seat no_seat = { .generation = GENERATION_NONE };

static int seat_map(struct seat *seat, const struct wire_reply *reply, int fd)
{
	struct segment *s = seat->segment;
	void *p;

	if (reply->context.bytes !=
	    arena_context_bytes(s->arena.nr_frames, s->arena.nr_entries))
		return -EPROTO;
	p = map_shared(fd, reply->context.bytes, PROT_READ | PROT_WRITE);
	if (!p)
		return -EPROTO;
	seat->memory = p;
	seat->memory_bytes = reply->context.bytes;
	seat->place = reply->context.place;
	context_init(&seat->core, &s->arena, p, s->alive_value,
	             reply->context.quota > 0);
	seat->generation = s->generation;
	if (s->arena.scheme == ARENA_SCANNED)
		seat->pin_generation = s->generation;
	return 0;
}

/* Away from its page's start, where shared memory and users' buffers begin too: a load whose
 * address has the same low 12 bits as a store just before it waits for that store, and
 * that took a fifth of a pin's time. */
#define SEAT_AT 1536u

static struct seat *seat_alloc(void)
{
	u8 *page = wiped_alloc(SEAT_AT + sizeof(struct seat));

	return page ? (struct seat *)(page + SEAT_AT) : NULL;
}

static void seat_dealloc(struct seat *seat)
{
	wiped_free((u8 *)seat - SEAT_AT, SEAT_AT + sizeof(struct seat));
}

/* A seat in segment, whose user it becomes. lodic.lock is held. */
static int seat_open(struct lodic_context *context, struct segment *segment,
                     struct seat **ret_seat)
{
	struct wire_request request = { .version = WIRE_VERSION,
		                        .op = WIRE_CONTEXT_OPEN };
	struct wire_reply reply;
	struct seat *seat;
	int fds[WIRE_MAX_FDS];
	u32 nr_fds = 0;
	int err;

	seat = seat_alloc();
	if (!seat)
		return -ENOMEM;
	seat->segment = segment;
	seat->context = context;
	err = segment_request(segment, &request, -1, REQUEST_TIMEOUT_MS, &reply, fds,
	                      &nr_fds);
	if (!err)
		err = nr_fds == 1 ? seat_map(seat, &reply, fds[0]) : -EPROTO;
	for (u32 i = 0; i < nr_fds; i++)
		close(fds[i]);
	if (err) {
		seat_dealloc(seat);
		return err;
	}
	segment->users++;
	*ret_seat = seat;
	return 0;
}

static void seat_free(struct seat *seat)
{
	struct wire_request request = { .version = WIRE_VERSION,
		                        .op = WIRE_CONTEXT_CLOSE,
		                        .a = seat->place };
	struct wire_reply reply;

	munmap(seat->memory, seat->memory_bytes);
	if (segment_alive(seat->segment))
		segment_request(seat->segment, &request, -1, REQUEST_TIMEOUT_MS, &reply,
		                NULL, NULL);
	segment_put(seat->segment);
	seat_dealloc(seat);
}

void seat_drop(struct seat *seat)
{
	struct segment *segment = seat->segment;

	if (seat == &no_seat || !segment) /* none, or wiped by a fork */
		return;
	seat_free(seat);
}

/* Adds the seat's counters to the context's own, which outlive it. */
static void context_keep_counts(struct lodic_context *context)
{
	const struct seat *seat = context->seat;

	if (seat->generation == GENERATION_NONE)
		return;
	for (u32 i = 0; i < CONTEXT_NR_COUNTERS; i++)
		context->past[i] += host_load_relaxed(&seat->core.memory->counters[i]);
}

static bool seat_is_good(const struct seat *seat)
{
	return seat->segment && segment_alive(seat->segment);
}

/* Shared words do not tell: keep such a seat until its context is closed. */
bool seat_in_use(const struct seat *seat)
{
	return seat != &no_seat &&
	       (seat->core.counts || context_nr_pinned(&seat->core) > 0);
}

void context_reseat(struct lodic_context *context)
{
	struct lodic *lodic = context->lodic;
	struct seat *old = context->seat;
	struct seat *seat = NULL;
	struct segment *segment;

	if (lodic_forked(lodic) || seat_is_good(old) || !retry_due(&context->retry))
		return;
	/* Somebody else is busy with it: read from the kernel meanwhile. */
	if (pthread_mutex_trylock(&lodic->lock) != 0)
		return;
	segment = segment_get(lodic);
	if (segment) {
		seat_open(context, segment, &seat);
		segment_put(segment);
	}
	if (seat) {
		context_keep_counts(context);
		context->seat = seat;
		retry_reset(&context->retry);
		if (seat_in_use(old)) {
			old->older = context->retired;
			context->retired = old; /* the last lodic_unpin() drops it */
		} else {
			seat_drop(old);
		}
	}
	pthread_mutex_unlock(&lodic->lock);
}

EXPORT int lodic_context_open(struct lodic *lodic, struct lodic_context **ret_context)
{
	struct lodic_context *context;
	struct segment *segment;
	int err = 0;

	if (!lodic || !ret_context)
		return -EINVAL;
	if (lodic_forked(lodic))
		return -ECHILD;
	context = calloc(1, sizeof(*context));
	if (!context)
		return -ENOMEM;
	context->lodic = lodic;
	context->seat = &no_seat;
	pthread_mutex_lock(&lodic->lock);
	segment = segment_get(lodic);
	if (segment) {
		err = seat_open(context, segment, &context->seat);
		segment_put(segment);
	}
	pthread_mutex_unlock(&lodic->lock);
	if (err == -EMFILE || err == -ENOMEM) {
		free(context);
		return err;
	}
	*ret_context = context;
	return 0;
}

EXPORT void lodic_context_close(struct lodic_context *context)
{
	struct seat *seat, *older;

	if (!context)
		return;
	if (!lodic_forked(context->lodic)) {
		pthread_mutex_lock(&context->lodic->lock);
		seat_drop(context->seat);
		for (seat = context->retired; seat; seat = older) {
			older = seat->older;
			seat_drop(seat);
		}
		pthread_mutex_unlock(&context->lodic->lock);
	}
	free(context);
}

EXPORT void lodic_context_stat(const struct lodic_context *context,
                               struct lodic_context_stat *ret_stat)
{
	const struct seat *seat = context->seat;
	bool seated = seat->generation != GENERATION_NONE;
	u64 n[CONTEXT_NR_COUNTERS];

	for (u32 i = 0; i < CONTEXT_NR_COUNTERS; i++) {
		n[i] = context->past[i];
		if (seated)
			n[i] += host_load_relaxed(&seat->core.memory->counters[i]);
	}
	*ret_stat = (struct lodic_context_stat){
		.hits = n[CONTEXT_HITS],
		.soft_misses = n[CONTEXT_SOFT],
		.misses = n[CONTEXT_MISSES],
		.retries = n[CONTEXT_RETRIES],
		.refused = n[CONTEXT_FULL],
		.pinned = seated ? context_nr_pinned(&seat->core) : 0,
	};
}
