/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See context.h. */
#include <errno.h>

#include "lib/client/context.h"
#include "lib/client/error.h"
#include "lib/port.h"

static void context_sit(struct lodic_context *context, struct seat *seat)
{
	context->seat = seat;
	if (!MISUSE_IS_LOOKED_FOR)
		context->inline_seats[LODIC_INLINE_LAYOUT] = seat;
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

/* The service has answered CONTEXT_OPEN, to whatever thread has looked. */
static void context_answered(void *owner, const struct channel_reply *reply)
{
	struct lodic_context *context = owner;
	struct lodic *lodic = context->lodic;
	struct wire_request request = { .version = WIRE_VERSION,
		                        .op = WIRE_CONTEXT_CLOSE };
	int err;

	context->asking = false;
	context->error = reply->because;
	if (!context->error)
		context->error =
			seat_make(context, lodic->segment, reply, &context->offered);
	if (!context->error) {
		retry_reset(&context->retry);
		return;
	}
	retry_failed(&context->retry);
	if (reply->wire && !reply->wire->error) {
		/* The service has made a context that this process cannot map. */
		request.a = reply->wire->context.place;
		err = attach_ask(lodic, &request, -1, channel_ignore, NULL);
		if (err) /* then it hears that the program has hung up */
			channel_close(&lodic->channel, err);
	}
}

static int
context_ask(struct lodic_context *context,
            int (*ask)(struct lodic *lodic, const struct wire_request *request, int fd,
                       void (*done)(void *owner, const struct channel_reply *reply),
                       void *owner))
{
	const struct wire_request request = { .version = WIRE_VERSION,
		                              .op = WIRE_CONTEXT_OPEN,
		                              .a = context->reads_only };

	return ask(context->lodic, &request, -1, context_answered, context);
}

/* Moves to the seat that is offered, if there is one. lodic.lock is held. */
static void context_move(struct lodic_context *context)
{
	struct seat *old = context->seat;

	if (!context->offered)
		return;
	context_keep_counts(context);
	context_sit(context, context->offered);
	context->offered = NULL;
	if (old != &no_seat) {
		old->older = context->retired;
		context->retired = old;
	}
}

/* lodic.lock is held. */
static void context_sweep(struct lodic_context *context, bool all)
{
	struct seat **at = &context->retired;
	struct seat *seat;

	while ((seat = *at)) {
		if (!all && seat_in_use(seat)) {
			at = &seat->older;
			continue;
		}
		*at = seat->older;
		seat_free(seat);
	}
}

void context_free_retired(struct lodic_context *context)
{
	if (!attach_trylock(context->lodic))
		return;
	context_sweep(context, false);
	attach_unlock(context->lodic);
}

void context_reseat(struct lodic_context *context)
{
	struct lodic *lodic = context->lodic;
	int err;

	if (attach_forked(lodic) || context_is_seated(context) ||
	    !retry_due(&context->retry))
		return;
	/* Another thread is busy with it; the caller reads from the kernel meanwhile. */
	if (!attach_trylock(lodic))
		return;
	err = attach_step(lodic);
	context_move(context);
	context_sweep(context, false);
	/* It may follow the requests of others: they could keep the channel busy for ever. */
	if (err == -EINPROGRESS && lodic->greeted && !context->asking &&
	    channel_has_room(&lodic->channel))
		err = 0;
	if (!err && !context_is_seated(context) && retry_due(&context->retry)) {
		err = context_ask(context, attach_ask);
		context->asking = !err;
		if (!err)
			err = -EINPROGRESS;
	}
	if (err == -EINPROGRESS)
		retry_put_off(&context->retry, host_now_ns() + RETRY_LOOK_NS);
	else if (err)
		retry_put_off(&context->retry, host_load_relaxed(&lodic->retry.at_ns));
	attach_unlock(lodic);
}

int context_reseat_wait(struct lodic_context *context)
{
	/* An answer may be on its way already, to a reader's question. */
	int err = attach_wait(context->lodic);

	context_move(context);
	if (err || context_is_seated(context))
		return 0;
	err = context_ask(context, attach_call);
	if (err)
		return 0;
	context_move(context);
	return context_is_seated(context) ? 0 : context->error;
}

bool context_unseat(struct lodic_context *context)
{
	struct wire_request request = { .version = WIRE_VERSION,
		                        .op = WIRE_CONTEXT_CLOSE };
	int err = attach_step(context->lodic);
	struct seat *seat;

	context_move(context);
	seat = context->seat;
	/* Without a channel the service sees that the program has hung up. */
	if (context_is_seated(context) && (err == 0 || err == -EINPROGRESS)) {
		request.a = seat->place;
		if (!err)
			err = attach_ask(context->lodic, &request, -1, channel_ignore,
			                 NULL);
		if (err && err != -ECONNRESET)
			return false;
	}
	context_keep_counts(context);
	context_sit(context, &no_seat);
	seat_free(seat);
	context_sweep(context, true);
	retry_reset(&context->retry);
	return err != -EINPROGRESS;
}

void context_leave(struct lodic_context *context)
{
	seat_leave(context->seat);
	if (context->offered)
		seat_leave(context->offered);
	for (struct seat *seat = context->retired; seat; seat = seat->older)
		seat_leave(seat);
}

int context_make(struct lodic *lodic, struct lodic_context **ret_context)
{
	struct lodic_context *context = port_alloc(sizeof(*context));

	if (!context)
		return -ENOMEM;
	context->lodic = lodic;
	for (u32 i = 0; i < LODIC_INLINE_LAYOUTS; i++)
		context->inline_seats[i] = &no_seat;
	context_sit(context, &no_seat);
	channel_init(&context->waiting);
	misuse_opened(&context->misuse, lodic->mark);
	attach_get(lodic);
	*ret_context = context;
	return 0;
}

EXPORT int lodic_context_open(struct lodic *lodic, struct lodic_context **ret_context)
{
	struct lodic_context *context;
	int err;

	error_forget();
	if (!lodic || !ret_context)
		return error_because(LODIC_REASON_ARGUMENT);
	if (attach_forked(lodic))
		return error_because(LODIC_REASON_FORKED);
	err = context_make(lodic, &context);
	if (err)
		return err;
	attach_lock(lodic);
	attach_start(lodic);
	err = context_reseat_wait(context);
	attach_unlock(lodic);
	if (err == -ECONNRESET || err == -ETIMEDOUT)
		err = 0; /* the service has just gone, or is stopped: it is away */
	if (err)
		lodic_context_close(context);
	else
		*ret_context = context;
	return error_plain(err);
}

EXPORT void lodic_context_close(struct lodic_context *context)
{
	struct wire_request request = { .version = WIRE_VERSION,
		                        .op = WIRE_CONTEXT_CLOSE };
	struct lodic *lodic;
	u64 generation;

	if (!context)
		return;
	misuse_context_close(&context->misuse);
	lodic = context->lodic;
	if (!attach_forked(lodic)) {
		channel_close(&context->waiting, -ECONNRESET);
		attach_lock(lodic);
		channel_wait(&lodic->channel); /* what is under way may be for it */
		context_move(context);
		context_sweep(context, true);
		generation = context->seat->generation;
		request.a = context->seat->place;
		seat_free(context->seat);
		if (generation != GENERATION_NONE)
			attach_tell(lodic, generation, &request);
		attach_unlock(lodic);
	}
	misuse_closed(&context->misuse, context);
	attach_put(lodic);
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
		.may_pin = seated && seat->core.quota > 0,
	};
	client_copy_out(ret_stat, bytes, &stat, sizeof(stat));
}
