/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See seat.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/client/mapping.h"
#include "lib/client/seat.h"

struct seat no_seat = { .generation = GENERATION_NONE };

static int seat_map(struct seat *seat, const struct wire_reply *reply, int fd)
{
	struct segment *s = seat->segment;
	void *p;

	if (reply->context.bytes !=
	    arena_context_bytes(s->arena.nr_frames, s->arena.nr_entries))
		return -EPROTO;
	p = mapping_share(fd, reply->context.bytes, PROT_READ | PROT_WRITE);
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

int seat_open(struct lodic_context *context, struct segment *segment,
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

bool seat_is_good(const struct seat *seat)
{
	return seat->segment && segment_alive(seat->segment);
}

bool seat_in_use(const struct seat *seat)
{
	return seat != &no_seat &&
	       (seat->core.counts || context_nr_pinned(&seat->core) > 0);
}

void seat_hint(struct seat *seat, u64 block, u64 nr)
{
	u64 one = 1;

	if (hint_post(&seat->core.memory->ring, &seat->segment->arena.header->sleeping,
	              block, nr) &&
	    write(seat->segment->wake, &one, sizeof(one)) < 0)
		return; /* a full eventfd has woken it already */
}
