/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See hand.h. */
#include <errno.h>

#include "lib/port/inode.h"
#include "lib/port/listen.h"
#include "lib/service/base/socket.h"
#include "lib/service/client/accept.h"
#include "lib/service/file/files.h"
#include "lib/service/memory/memory.h"
#include "lib/service/frame/evict.h"
#include "lib/service/succession/hand.h"
#include "lib/service/tier/tier.h"
#include "lib/service/succession/whole.h"
#include "lib/service/base/base.h"
#include "lib/service/client/client.h"
#include "lib/service/client/connection.h"
#include "lib/service/file/held.h"
#include "lib/service/file/past.h"

/* ---- the channel ---- */

/* Has it said nothing for too long? What waits in the socket is not heard yet, and counts: HANDED
 * may be there. */
static bool hand_is_silent(const struct service *s, const struct client *c)
{
	u64 ms = s->options.place.successor_ms ? s->options.place.successor_ms
	                                 : SERVICE_SUCCESSOR_MS;

	return host_now_ns() - c->heard_ns > ms * NS_PER_MS &&
	       port_ready(c->socket, PORT_INPUT) == 0;
}

/* The successor loses its place, unless one that has the socket has said HANDED by now. What it
 * says later meets a reset. Else it would wait for an answer, and serve when none comes in time. */
static void hand_part(struct service *s, struct client *c)
{
	if (!c->had_place) {
		client_hang_up(&s->clients, c);
		return;
	}
	port_stop_receiving(c->socket);
	client_ready(&s->clients, c); /* it hears the end of the channel next, and hangs up */
}

/* HO7: one that has the socket and cannot be told keeps its place. */
static void hand_dismiss(struct service *s)
{
	struct client *c = client_successor(&s->clients);

	hand_part(s, c);
	if (client_successor(&s->clients) != c && !s->base.succeeded)
		service_say(&s->base, SERVICE_WARNING, "successor_lost",
		            "process %d wanted to take over, and says nothing more", c->pid);
}

static int hand_make_channel(struct service *s, const struct client *c, int *ret_theirs)
{
	int ends[2], err = port_channel(ends);

	if (err)
		return err;
	err = port_ask_senders(ends[0]);
	if (!err)
		err = accept_successor(&s->clients, ends[0], c);
	if (err) {
		service_close(&ends[0]);
		service_close(&ends[1]);
		return err;
	}
	*ret_theirs = ends[1];
	return 0;
}

int hand_begin(struct service *s, struct client *c, struct exchange *x)
{
	int theirs = -1, err;

	if (x->nr_fds != 1 || !socket_is_lock(&s->base, x->fds[0])) /* AU4 */
		return -EACCES;
	if (client_successor(&s->clients) && !hand_is_wanted(s))
		hand_dismiss(s);
	if (service_is_stopping(&s->base))
		return -ECONNREFUSED; /* nobody is there to follow */
	if (s->change.resize || client_successor(&s->clients))
		return -EBUSY;
	err = hand_make_channel(s, c, &theirs);
	if (!err)
		x->close_after = x->out[x->nr_out++] = theirs;
	return err;
}

bool hand_is_wanted(const struct service *s)
{
	const struct client *c = client_successor(&s->clients);

	return c && !hand_is_silent(s, c);
}

bool hand_gives_way(struct service *s)
{
	const struct client *c = client_successor(&s->clients);

	if (c && c->had_place && hand_is_silent(s, c))
		hand_dismiss(s);
	c = client_successor(&s->clients);
	/* It may have been heard just now, and serve. */
	return !service_is_stopping(&s->base) && (!c || !c->had_place);
}

/* ---- what it asks ---- */

static int hand_arena(struct service *s, struct exchange *x)
{
	client_tell_arena(&s->clients, &x->reply);
	x->out[x->nr_out++] = s->memory.control.reader_fd;
	x->out[x->nr_out++] = s->memory.data.reader_fd;
	x->out[x->nr_out++] = s->memory.shared.reader_fd;
	return 0;
}

/* AU5. The path leads to what the descriptor has, also where a name has gone. */
static int hand_file_fd(const struct held_file *f, struct exchange *x)
{
	int fd = port_reopen_name(held_fd(f));

	if (fd < 0)
		return fd;
	x->close_after = x->out[x->nr_out++] = fd;
	return 0;
}

static int hand_file(struct service *s, struct exchange *x)
{
	struct wire_reply *reply = &x->reply;
	u64 slot = x->request.a;
	const struct held_file *f =
		slot < s->memory.shape.nr_files ? held_at(&s->files, (u32)slot) : NULL;
	struct file_facts facts;
	struct file_past past;
	int err;

	if (s->change.resize)
		return -EBUSY;
	if (!f)
		return -ENOENT;
	err = hand_file_fd(f, x);
	if (err)
		return err;
	facts = held_facts(f);
	past = past_of(f);
	reply->hand_file.id = facts.id;
	reply->hand_file.size = facts.size;
	reply->hand_file.hits = past.hits;
	reply->hand_file.kept = past.kept;
	reply->hand_file.opens = past.nr_opens;
	reply->hand_file.idle_since_ns = past.idle_since_ns;
	reply->hand_file.local = facts.local;
	reply->hand_file.tier = past.tier;
	reply->hand_file.tier_said = past.tier_said;
	return 0;
}

static u32 hand_tier(const struct service *s, u32 frame)
{
	if (!s->tiers.two)
		return 0;
	return tier_of(&s->tiers, frame) == TIER_FAST ? WIRE_FRAME_FAST
	                                              : WIRE_FRAME_SLOW;
}

/* The page's part of the nodes is 6144 cache lines: less than TURN_LINES. */
static int hand_frames(struct service *s, struct exchange *x)
{
	struct wire_page *page;
	u64 cursor = x->request.a, end = s->memory.shape.nr_frames;
	u64 nr = 0;
	int err = client_make_page(x);

	if (err)
		return err;
	page = x->page;
	for (; cursor < end && nr < sizeof(page->records); cursor++, nr++) {
		enum reclaim_queue queue = evict_queue(&s->frames, (u32)cursor);
		u32 visits = evict_visits(&s->frames, (u32)cursor) |
		             hand_tier(s, (u32)cursor);

		page->records[nr] = queue == RECLAIM_MAIN    ? WIRE_FRAME_MAIN | visits
		                    : queue == RECLAIM_SMALL ? WIRE_FRAME_SMALL | visits
		                                             : 0;
	}
	page->reply.page.bytes = page->reply.page.nr = nr;
	page->reply.page.next = cursor < end ? cursor : LOOK_END;
	return 0;
}

static int hand_end(struct service *s, struct client *c)
{
	if (!c->had_place)
		return -EINVAL;
	s->base.succeeded = true; /* HO4 */
	client_successor_serves(&s->clients);
	socket_unlisten(&s->base);
	s->base.stopping = true; /* HO5; L3 */
	service_say(&s->base, SERVICE_INFO, "handed_over", "process %d has taken over",
	            c->pid);
	return 0;
}

int hand_stop(struct service *s)
{
	struct client *c = client_successor(&s->clients);

	if (c && !s->base.succeeded)
		hand_part(s, c);
	if (c && !s->base.succeeded && client_successor(&s->clients) == c) {
		s->base.succeeded = true; /* HO4: for it, or for the next one that comes */
		service_say(&s->base, SERVICE_INFO, "handed_over",
		            "process %d cannot be told of the end, and may go on", c->pid);
	}
	return s->base.succeeded ? -EBUSY : 0;
}

static int hand_over(struct service *s, struct client *c, struct exchange *x)
{
	if (s->change.resize)
		return -EBUSY;
	c->had_place = true;
	x->reply.hand_over.lent = s->base.lent;
	x->out[x->nr_out++] = s->base.listening;
	x->out[x->nr_out++] = s->base.lock;
	return 0;
}

int hand_carry_out(struct service *s, struct client *c, struct exchange *x)
{
	/* Another one has its place. */
	if (client_successor(&s->clients) != c)
		return -EBUSY;
	c->heard_ns = host_now_ns();
	switch (x->request.op) {
	case WIRE_HAND_ARENA: return hand_arena(s, x);
	case WIRE_HAND_FILE: return hand_file(s, x);
	case WIRE_HAND_FRAMES: return hand_frames(s, x);
	case WIRE_HAND_STAY: return 0;
	case WIRE_HAND_OVER: return hand_over(s, c, x);
	default: return hand_end(s, c);
	}
}
