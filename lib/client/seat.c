/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See seat.h. */
#include <errno.h>

#include "lib/client/mapping.h"
#include "lib/client/seat.h"
#include "lib/port.h"

struct seat no_seat = { .generation = GENERATION_NONE };

static int seat_map(struct seat *seat, const struct channel_reply *reply)
{
	struct segment *s = seat->segment;
	const struct wire_reply *wire = reply->wire;
	int err;

	if (reply->nr_fds != 1 || wire->context.place >= ARENA_MAX_CONTEXTS ||
	    wire->context.quota > s->arena.nr_entries ||
	    wire->context.bytes !=
	            arena_context_bytes(s->arena.nr_entries, (u32)wire->context.quota))
		return -EPROTO;
	err = mapping_share(reply->fds[0], wire->context.bytes, PORT_READ | PORT_WRITE,
	                    &seat->memory);
	if (err)
		return err;
	seat->memory_bytes = wire->context.bytes;
	seat->place = wire->context.place;
	context_init(&seat->core, &s->arena, seat->memory, s->alive_value,
	             (u32)wire->context.quota);
	seat->generation = s->generation;
	if (s->arena.scheme == ARENA_SCANNED)
		seat->pin_generation = s->generation;
	return 0;
}

/* Away from its page's start, where shared memory and users' buffers begin too. A load
 * waits for a store just before it whose address has the same low 12 bits. That took a
 * fifth of a pin's time. */
#define SEAT_AT 1536u

static struct seat *seat_alloc(void)
{
	u8 *page = mapping_alloc_wiped(SEAT_AT + sizeof(struct seat));

	return page ? (struct seat *)(page + SEAT_AT) : NULL;
}

static void seat_dealloc(struct seat *seat)
{
	mapping_free_wiped((u8 *)seat - SEAT_AT, SEAT_AT + sizeof(struct seat));
}

int seat_make(struct lodic_context *context, struct segment *segment,
              const struct channel_reply *reply, struct seat **ret_seat)
{
	struct seat *seat = seat_alloc();
	int err;

	if (!seat)
		return -ENOMEM;
	seat->segment = segment;
	seat->context = context;
	err = seat_map(seat, reply);
	if (err) {
		seat_dealloc(seat);
		return err;
	}
	segment->users++;
	*ret_seat = seat;
	return 0;
}

void seat_free(struct seat *seat)
{
	if (seat == &no_seat || !seat->segment) /* none, or wiped by a fork */
		return;
	port_unmap(seat->memory, seat->memory_bytes);
	segment_put(seat->segment);
	seat_dealloc(seat);
}

void seat_leave(struct seat *seat)
{
	if (seat == &no_seat || !seat->segment || seat->left)
		return;
	segment_leave(seat->segment); /* first: LV1 */
	mapping_zero(seat->memory, seat->memory_bytes, PORT_READ | PORT_WRITE);
	seat->left = true;
	/* The same service may come again, with its memory elsewhere. Its claims are not for this
	 * seat, which does not keep that memory mapped. Partner: the acquire of D12. */
	host_store_relaxed(&seat->generation, GENERATION_NONE);
	host_store_relaxed(&seat->pin_generation, GENERATION_NONE);
}

bool seat_in_use(const struct seat *seat)
{
	return seat != &no_seat &&
	       (seat->core.counts || context_nr_pinned(&seat->core) > 0);
}

void seat_hint(struct seat *seat, u64 block, u64 nr)
{
	const struct arena *a = &seat->segment->arena;

	if (hint_post(&seat->core.memory->ring, &seat->core.memory->kept,
	              &a->posted[seat->place], &a->header->sleeping, block, nr))
		port_event_tell(seat->segment->wake);
}
