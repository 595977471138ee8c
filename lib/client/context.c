/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See context.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "lib/client/context.h"

/* Adds the seat's counters to the context's own, which outlive it. */
static void context_keep_counts(struct lodic_context *context)
{
	const struct seat *seat = context->seat;

	if (seat->generation == GENERATION_NONE)
		return;
	for (u32 i = 0; i < CONTEXT_NR_COUNTERS; i++)
		context->past[i] += host_load_relaxed(&seat->core.memory->counters[i]);
}

void context_reseat(struct lodic_context *context)
{
	struct lodic *lodic = context->lodic;
	struct seat *old = context->seat;
	struct seat *seat = NULL;
	struct segment *segment;

	if (attach_forked(lodic) || seat_is_good(old) || !retry_due(&context->retry))
		return;
	/* Another thread is busy with it; the caller reads from the kernel meanwhile. */
	if (pthread_mutex_trylock(&lodic->lock) != 0)
		return;
	segment = attach_segment_get(lodic);
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
	if (attach_forked(lodic))
		return -ECHILD;
	context = calloc(1, sizeof(*context));
	if (!context)
		return -ENOMEM;
	context->lodic = lodic;
	context->seat = &no_seat;
	pthread_mutex_lock(&lodic->lock);
	segment = attach_segment_get(lodic);
	if (segment) {
		err = seat_open(context, segment, &context->seat);
		segment_put(segment);
	}
	pthread_mutex_unlock(&lodic->lock);
	if (err == -EUSERS || err == -EMFILE || err == -ENOMEM) {
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
	if (!attach_forked(context->lodic)) {
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
                               struct lodic_context_stat *ret_stat, size_t bytes)
{
	const struct seat *seat = context->seat;
	bool seated = seat->generation != GENERATION_NONE;
	struct lodic_context_stat stat;
	u64 n[CONTEXT_NR_COUNTERS];

	for (u32 i = 0; i < CONTEXT_NR_COUNTERS; i++) {
		n[i] = context->past[i];
		if (seated)
			n[i] += host_load_relaxed(&seat->core.memory->counters[i]);
	}
	stat = (struct lodic_context_stat){
		.hits = n[CONTEXT_HITS],
		.soft_misses = n[CONTEXT_SOFT],
		.misses = n[CONTEXT_MISSES],
		.retries = n[CONTEXT_RETRIES],
		.pins_refused = n[CONTEXT_FULL],
		.pinned = seated ? context_nr_pinned(&seat->core) : 0,
	};
	client_copy_out(ret_stat, bytes, &stat, sizeof(stat));
}
