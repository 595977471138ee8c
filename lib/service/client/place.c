/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See place.h. Only the main thread comes here. */
#include <errno.h>

#include "core/cache/cache.h"
#include "core/check.h"
#include "lib/service/client/domain.h"
#include "lib/service/client/place.h"
#include "lib/service/frame/fill.h"
#include "lib/service/memory/memory.h"
#include "lib/service/client/state.h"
#include "lib/service/base/base.h"
#include "lib/service/client/connection.h"

/* How many frames the next context may pin. No context may pin the last quarter of the
 * frames, so that the cache goes on serving. A context that comes late can only read. The
 * first may pin in any case, in the smallest cache too. */
static u64 place_next_quota(const struct clients *s)
{
	u64 most = (u64)s->shape->nr_frames / 4 * 3;
	u64 charge = (u64)s->nr_pinning * memory_charge(s->memory);

	return charge == 0 || charge + memory_charge(s->memory) <= most ? memory_quota(s->memory)
	                                                                : 0;
}

bool place_is_late(const struct clients *s)
{
	return place_next_quota(s) == 0;
}

static void place_tell(void *ctx, u32 place)
{
	struct place_offer *offer = ctx;

	offer->place = place;
}

/* The places of a client are a list, so that taking them back costs what they are many. */
static void place_link(struct clients *s, u32 place, struct client *c)
{
	struct seat_owner *seat = &s->seats[place];

	seat->newer = FRAME_NONE;
	seat->older = c->newest;
	if (c->newest != FRAME_NONE)
		s->seats[c->newest].newer = place;
	c->newest = place;
	c->nr_contexts++;
}

static void place_unlink(struct clients *s, u32 place)
{
	struct seat_owner *seat = &s->seats[place];
	struct client *c = seat->client;

	if (c->newest == place)
		c->newest = seat->older;
	else
		s->seats[seat->newer].older = seat->older;
	if (seat->older != FRAME_NONE)
		s->seats[seat->older].newer = seat->newer;
	c->nr_contexts--;
}

static void place_free(struct seat_owner *seat)
{
	port_unmap(seat->memory, seat->bytes);
	service_close(&seat->fd);
}

/* The memory of a context that may pin so many frames. */
static int place_make(struct clients *s, struct seat_owner *seat, u64 quota,
                      int *ret_reader_fd)
{
	seat->quota = quota;
	seat->bytes = arena_context_bytes(s->shape->nr_entries, (u32)quota);
	return memory_make_context(s->memory, seat->bytes, &seat->memory, &seat->fd,
	                           ret_reader_fd);
}

int place_open(struct clients *s, struct client *client, bool reads_only,
               struct place_offer *ret_offer)
{
	struct seat_owner seat = { .client = client };
	struct context_table table;
	struct place_offer offer;
	u64 quota = reads_only ? 0 : place_next_quota(s);
	int err;

	if (domain_has_contexts(s, client))
		return -EUSERS;
	if (memory_charge(s->memory) > domain_pins_left(s, client))
		quota = 0;
	err = place_make(s, &seat, quota, &offer.fd);
	/* If nothing can say when a context is over its pins would be taken back too early. */
	if (!err && quota > 0 && seat.fd < 0 && client->process < 0) {
		place_free(&seat);
		port_close(offer.fd);
		err = place_make(s, &seat, 0, &offer.fd);
	}
	if (err)
		return err == -EMFILE || err == -ENFILE ? -EMFILE : -ENOMEM;
	arena_context_table(&table, seat.memory);
	if (seat.quota == 0)
		table.entries = NULL; /* K4 */
	/* K2: before the reply. */
	if (cache_join(s->arena, &table, place_tell, &offer) == FRAME_NONE) {
		place_free(&seat);
		port_close(offer.fd);
		return -EUSERS;
	}
	offer.quota = seat.quota;
	offer.bytes = seat.bytes;
	s->seats[offer.place] = seat;
	s->nr_pinning += seat.quota > 0;
	place_link(s, offer.place, client);
	service_count(&s->arena->header->nr_contexts, 1);
	*ret_offer = offer;
	return 0;
}

void place_leave(struct clients *s, u32 place)
{
	struct seat_owner *seat = &s->seats[place];
	const struct context_memory *m = seat->memory;

	fill_take_last(s->frames, place);
	for (u32 i = 0; i < CONTEXT_NR_COUNTERS; i++)
		s->past_counters[i] += host_load_relaxed(&m->counters[i]);
	arena_leave(s->arena, place);
	s->nr_pinning -= seat->quota > 0;
	place_unlink(s, place);
	place_free(seat);
	*seat = (struct seat_owner){ .fd = -1 };
	service_count(&s->arena->header->nr_contexts, -(u64)1);
}

bool place_may_leave(const struct clients *s, u32 place)
{
	const struct seat_owner *seat = &s->seats[place];

	if (seat->fd >= 0)
		return cache_may_leave(memory_ask(seat->fd) != MEMORY_UNUSED);
	return cache_may_leave(seat->client->process >= 0);
}

static void place_check_client(const struct clients *s, const struct client *c)
{
	bool reaps = c->reap_at == FRAME_NONE;
	u32 nr = 0, newer = FRAME_NONE;

	for (u32 at = c->newest; at != FRAME_NONE; at = s->seats[at].older) {
		CHECK(s->seats[at].client == c && s->seats[at].newer == newer,
		      "a client has its places");
		reaps |= at == c->reap_at;
		newer = at;
		nr++;
	}
	CHECK(nr == c->nr_contexts, "a client counts its contexts");
	CHECK(reaps, "a client is asked about its own places");
}

void place_check(const struct clients *s)
{
	u32 nr_listed = 0, nr = 0, nr_pinning = 0;

	for (const struct client *c = s->first; c; c = c->next) {
		place_check_client(s, c);
		nr_listed += c->nr_contexts;
	}
	for (u32 i = 0; i < ARENA_MAX_CONTEXTS; i++) {
		nr += s->seats[i].client != NULL;
		nr_pinning += s->seats[i].client && s->seats[i].quota > 0;
	}
	CHECK(nr == nr_listed, "each place has a client");
	CHECK(nr_pinning == s->nr_pinning, "contexts that may pin are counted");
	CHECK(host_load_relaxed(&s->arena->header->nr_contexts) == nr,
	      "contexts are counted");
}
