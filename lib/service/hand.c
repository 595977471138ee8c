/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See hand.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>

#include "lib/service/files.h"
#include "lib/service/hand.h"
#include "lib/service/socket.h"
#include "lib/service/tier.h"

int hand_file(struct service *s, u64 slot, struct wire_reply *reply, int *fds,
              u32 *ret_nr)
{
	const struct held_file *f;

	if (s->resize)
		return -EBUSY;
	if (slot >= s->shape.nr_files || s->files[slot].state != FILE_HELD)
		return -ENOENT;
	f = &s->files[slot];
	reply->hand_file.id = f->id;
	reply->hand_file.size = f->size;
	reply->hand_file.hits = f->hits;
	reply->hand_file.opens = f->nr_opens;
	reply->hand_file.idle_since_ns = f->idle_since_ns;
	reply->hand_file.local = f->local;
	reply->hand_file.tier = f->tier;
	reply->hand_file.tier_said = f->tier_said;
	fds[(*ret_nr)++] = f->fd;
	if (MUTANT(HAND_LEASE_MOVES)) /* not HO2 */
		fcntl(f->fd, F_SETLEASE, F_UNLCK);
	return 0;
}

static u32 hand_tier(const struct service *s, u32 frame)
{
	if (!s->tiers.two)
		return 0;
	return tier_of(s, frame) == TIER_FAST ? WIRE_FRAME_FAST : WIRE_FRAME_SLOW;
}

/* The page's part of the nodes is 6144 cache lines: less than TURN_LINES. */
void hand_frames(const struct service *s, u64 cursor, struct wire_page *page)
{
	u64 end = s->shape.nr_frames;
	u64 nr = 0;

	for (; cursor < end && nr < sizeof(page->records); cursor++, nr++) {
		u32 queue = s->reclaim.nodes[cursor].queue;
		u32 visits = s->reclaim.nodes[cursor].freq +
		             host_load_byte(&s->arena.visits[cursor]);

		visits = visits < FRAME_VISITS_MAX ? visits : FRAME_VISITS_MAX;
		visits |= hand_tier(s, (u32)cursor);
		page->records[nr] = queue == RECLAIM_MAIN    ? WIRE_FRAME_MAIN | visits
		                    : queue == RECLAIM_SMALL ? WIRE_FRAME_SMALL | visits
		                                             : 0;
	}
	page->reply.page.bytes = page->reply.page.nr = nr;
	page->reply.page.next = cursor < end ? cursor : LOOK_END;
}

int hand_over(struct service *s, struct client *c, struct wire_reply *reply, int *fds,
              u32 *ret_nr)
{
	if (s->resize || (s->successor && s->successor != c))
		return -EBUSY;
	s->successor = c;
	reply->hand_over.lent = s->lent;
	fds[(*ret_nr)++] = s->listening;
	fds[(*ret_nr)++] = s->lock;
	if (MUTANT(HAND_ENDS_EARLY)) /* not HO5 */
		return hand_end(s, c);
	return 0;
}

int hand_end(struct service *s, struct client *c)
{
	if (s->successor != c)
		return -EINVAL;
	s->succeeded = true; /* HO4 */
	socket_unlisten(s);
	s->stopping = true; /* HO5; L3 */
	service_say(s, SERVICE_INFO, "handed_over", "process %d has taken over",
	            c->pid);
	return 0;
}
