/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Clients: which programs are there, what they ask, and what the service takes back when
 * they die. Only the main thread comes here.
 *
 *   connected --HELLO--> greeted --hang-up, or its process is dead--> silent
 *   silent --its last context leaves, or it has none--> gone
 *
 * A hang-up does not prove that a program reads no more: it may close all its descriptors and
 * go on. Nor does a dead process: another may share its memory. A living process proves
 * nothing either: it may have called exec(). So the service asks the kernel who has a
 * context's memory (place.h). It asks when a client becomes silent, and at each tick. Until
 * nobody has the memory the context stays on the walk list, and its pins count. The service
 * never takes one back on a time-out: a stopped process wakes up and reads what it has pinned.
 *
 * The service checks what a client sends. A client can harm its own reads, no others. In a group
 * it can keep as many frames as its contexts were counted for, and no more (memory_charge()).
 */
#include <errno.h>
#include <string.h>

#include "lib/port/listen.h"
#include "lib/port/set.h"
#include "lib/reason.h"
#include "lib/service/client/domain.h"
#include "lib/service/base/socket.h"
#include "lib/service/base/worker.h"
#include "lib/service/client/answer.h"
#include "lib/service/client/authority.h"
#include "lib/service/client/client.h"
#include "lib/service/client/hold_request.h"
#include "lib/service/client/list.h"
#include "lib/service/client/opening.h"
#include "lib/service/client/place.h"
#include "lib/service/client/stat.h"
#include "lib/service/file/files.h"
#include "lib/service/frame/fill.h"
#include "lib/service/frame/mover.h"
#include "lib/service/hold/hold_table.h"
#include "lib/service/hold/hold_tier.h"
#include "lib/service/frame/evict.h"
#include "lib/service/client/state.h"
#include "lib/service/memory/pages.h"
#include "lib/wire.h"
#include "lib/service/base/base.h"
#include "lib/service/client/connection.h"
#include "lib/service/file/opens.h"

/* How many requests of one client the main loop takes before it looks at the others. */
#define REQUESTS_PER_TURN 16u
/* How many files it closes in a turn for clients that have hung up. A file whose last name is
 * gone also loses its lease and its descriptor, by three system calls. */
#define CLOSES_PER_TURN 64u
/* How many contexts it asks about in a turn. To take one back gives the kernel its memory: 30 us
 * with a table of 256 KiB. */
#define ASKS_PER_TURN 8u
/* The same where a new context waits for it, and all are still in use: 1 ms. */
#define ASKS_AT_ONCE 256u
/* How often a receive may fail before what is unread is left to the kernel. Our choice: a reset is
 * one, and a lack of memory may be a few. */
#define DRAIN_ERRORS 8u

/* Closes at most so many of a client's files; returns how many more it could. */
static u32 client_close_files(struct clients *s, struct client *c, u32 most)
{
	u32 slot, id, nr;

	while (most > 0 && (nr = opens_take(&c->opens, &slot, &id)) > 0) {
		files_close(s->files, slot, id, nr);
		most--;
	}
	return most;
}

bool client_close_hung_up(struct clients *s)
{
	u32 left = CLOSES_PER_TURN;

	if (s->nr_silent == 0)
		return false;
	for (struct client *c = s->first; c && left > 0; c = c->next)
		if (c->socket < 0)
			left = client_close_files(s, c, left);
	return left == 0;
}

bool client_any(const struct clients *s)
{
	return s->nr_clients > 0;
}

u64 client_idle_since(const struct clients *s)
{
	return s->idle_since_ns;
}

void client_idle_begin(struct clients *s)
{
	s->idle_since_ns = host_now_ns();
}

struct client *client_successor(const struct clients *s)
{
	return s->successor;
}

void client_successor_serves(struct clients *s)
{
	s->successor = NULL;
}

static void client_bury(struct clients *s, struct client *c)
{
	service_close(&c->process);
	c->gone = true;
	s->nr_unasked -= !c->asked;
	domain_leave(s, c);
	if (c->kind == CLIENT_SUCCESSOR)
		client_idle_begin(s);
	if (!client_is_reader(c))
		return;
	service_say(s->base, SERVICE_DEBUG, "detached", "process %d has left", c->pid);
	if (--s->nr_clients == 0)
		client_idle_begin(s);
}

/* Asks about all contexts of a silent client, from now on. */
static void client_reap_begin(struct clients *s, struct client *c)
{
	s->nr_reaping += c->reap_at == FRAME_NONE && c->newest != FRAME_NONE;
	c->reap_at = c->newest;
}

/* Asks about the next context of the client. */
static void client_reap_next(struct clients *s, struct client *c)
{
	u32 place = c->reap_at;

	c->reap_at = s->seats[place].older;
	s->nr_reaping -= c->reap_at == FRAME_NONE;
	if (!place_may_leave(s, place))
		return;
	place_leave(s, place);
	s->stat->reaped++;
	if (c->nr_contexts == 0)
		client_bury(s, c);
}

bool client_reap(struct clients *s)
{
	u32 left = ASKS_PER_TURN;

	if (s->nr_reaping == 0)
		return false;
	for (struct client *c = s->first; c && left > 0; c = c->next)
		for (; c->reap_at != FRAME_NONE && left > 0; left--)
			client_reap_next(s, c);
	return s->nr_reaping > 0;
}

/* No context is left that may pin. A program that has just called exec() may be the one that
 * asks, and its old contexts are over. */
static void client_reap_at_once(struct clients *s)
{
	u32 left = ASKS_AT_ONCE;

	client_tick(s);
	for (struct client *c = s->first; c; c = c->next)
		for (; c->reap_at != FRAME_NONE && left > 0 && place_is_late(s); left--)
			client_reap_next(s, c);
}

u32 client_drain(struct clients *s, int socket)
{
	struct wire_request request;
	struct port_message m = { .bytes = &request,
		                  .room = sizeof(request),
		                  .most_fds = WIRE_MAX_FDS,
		                  .ask_who = true };
	bool more = port_stop_receiving(socket) == 0; /* nothing else comes */
	u32 errors = 0, nr = 0;

	while (more) {
		if (port_receive(socket, &m) != 0) {
			/* A reset is told before what is unread, and then no more. */
			more = ++errors < DRAIN_ERRORS;
			continue;
		}
		/* An empty message has a sender, and the end has none. */
		more = m.said || m.got > 0 || m.nr_fds > 0;
		nr += more;
		while (m.nr_fds > 0)
			worker_close(s->base, m.fds[--m.nr_fds]);
	}
	return nr;
}

/* HO6, HO7: it finds this answer before the end of the channel. That holds however late it wakes
 * up, even if this service has ended by then. Without it a hang-up looks like this service's death,
 * and the successor would serve. false: it has the socket, and could not be told. */
static bool client_dismiss(struct clients *s, const struct client *c)
{
	const struct wire_reply farewell = {
		.error = service_is_stopping(s->base) ? -ESHUTDOWN : -ECANCELED
	};
	int err = wire_send(c->socket, &farewell, sizeof(farewell), NULL, 0);

	if (err && err != -ECONNRESET && c->had_place)
		return false;
	s->successor = NULL; /* HO3 */
	return true;
}

void client_hang_up(struct clients *s, struct client *c)
{
	if (s->successor == c && !client_dismiss(s, c))
		return; /* its socket is ready until it is told, so the next turn tries again */
	s->nr_silent += c->socket >= 0;
	client_drain(s, c->socket);
	service_close(&c->socket);
	opening_forget(c);
	s->nr_waiting -= c->waits + (c->stat_wanted > 0);
	c->waits = false;
	c->stat_wanted = 0;
	hold_table_forget(&c->holds);
	client_reap_begin(s, c);
	if (c->nr_contexts == 0)
		client_bury(s, c);
}

void client_process_died(struct clients *s, struct client *c)
{
	if (c->gone)
		return;
	service_close(&c->process);
	client_hang_up(s, c);
}

void client_tick(struct clients *s)
{
	if (s->nr_silent == 0)
		return;
	for (struct client *c = s->first; c; c = c->next)
		if (c->socket < 0 && c->reap_at == FRAME_NONE)
			client_reap_begin(s, c);
}

/* Apart from client_bury(), because events of this round may still name the client. */
void client_free_gone(struct clients *s)
{
	struct client **at = &s->first;

	if (s->nr_silent == 0)
		return;
	while (*at) {
		struct client *c = *at;

		if (!c->gone || c->opens.nr > 0) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		s->nr_silent--;
		opens_fini(&c->opens);
		/* The program may have it still, and then closing is not enough. */
		if (c->wake >= 0)
			service_watch_no_more(s->base, c->wake);
		service_close(&c->wake);
		port_free(c);
	}
}

void client_free_all(struct clients *s)
{
	client_successor_serves(s); /* HO6 */
	for (u32 place = 0; place < ARENA_MAX_CONTEXTS; place++)
		if (s->seats[place].client)
			place_leave(s, place);
	for (struct client *c = s->first; c; c = c->next) {
		if (!c->gone)
			client_hang_up(s, c);
		client_close_files(s, c, UINT32_MAX);
	}
	client_free_gone(s);
}

static int client_make_wake(struct clients *s, struct client *c)
{
	int wake, err;

	if (!s->sharing->for_group)
		return 0;
	wake = port_event();
	if (wake < 0)
		return wake;
	err = service_watch_as(s->base, wake, PORT_NEW_INPUT, SOURCE_WAKE);
	if (err)
		port_close(wake);
	else
		c->wake = wake;
	return err;
}

void client_tell_arena(const struct clients *s, struct wire_reply *reply)
{
	reply->hello.control_bytes = s->control->bytes;
	reply->hello.data_bytes = s->arena->header->data_bytes;
	reply->hello.shared_bytes = s->shared->bytes;
	reply->hello.alive = host_load_acquire(&s->arena->header->alive);
	reply->hello.generation = s->arena->header->generation;
}

static int client_op_hello(struct clients *s, struct client *c, struct exchange *x)
{
	int err;

	if (x->nr_fds > 0)
		return -EINVAL;
	err = client_make_wake(s, c);
	if (err)
		return err;
	c->process = port_peer_process(c->socket);
	if (c->process >= 0 &&
	    service_watch(s->base, c->process, PORT_INPUT, &c->process_source) != 0)
		service_close(&c->process);
	c->kind = CLIENT_READER;
	s->nr_clients++;
	service_say(s->base, SERVICE_DEBUG, "attached", "process %d is a reader now",
	            c->pid);
	client_tell_arena(s, &x->reply);
	x->out[x->nr_out++] = s->control->reader_fd;
	x->out[x->nr_out++] = s->data->reader_fd;
	x->out[x->nr_out++] = c->wake >= 0 ? c->wake : service_wake_fd(s->base);
	x->out[x->nr_out++] = s->shared->reader_fd;
	return 0;
}

static int client_op_context_open(struct clients *s, struct client *c,
                                  struct exchange *x)
{
	bool reads_only = x->request.a != 0;
	struct place_offer offer;
	int err;

	if (!reads_only && place_is_late(s))
		client_reap_at_once(s);
	err = place_open(s, c, reads_only, &offer);
	if (err)
		return err;
	x->reply.context.place = offer.place;
	x->reply.context.quota = offer.quota;
	x->reply.context.bytes = offer.bytes;
	x->close_after = x->out[x->nr_out++] = offer.fd;
	return 0;
}

static int client_op_context_close(struct clients *s, struct client *c,
                                   struct exchange *x)
{
	u64 place = x->request.a;

	if (place >= ARENA_MAX_CONTEXTS || s->seats[place].client != c)
		return -EINVAL;
	place_leave(s, (u32)place);
	return 0;
}

static int client_op_file_close(struct clients *s, struct client *c, struct exchange *x)
{
	u64 slot = x->request.a, id = x->request.b;

	if (!opens_remove(&c->opens, slot, id))
		return -EINVAL;
	files_close(s->files, (u32)slot, (u32)id, 1);
	return 0;
}

static int client_op_sync(struct clients *s, struct client *c, struct exchange *x)
{
	fill_sync_begin(s->frames, &c->sync);
	s->nr_waiting += !c->waits;
	c->waits = true;
	x->later = true;
	return 0;
}

static int client_op_stat(struct clients *s, struct client *c, struct exchange *x)
{
	s->nr_waiting += c->stat_wanted == 0;
	c->stat_wanted = stat_ask(s);
	x->later = true;
	return 0;
}

int client_make_page(struct exchange *x)
{
	x->page = port_alloc(sizeof(*x->page));
	if (!x->page)
		return -ENOMEM;
	return 0;
}

static int client_answer_page(struct clients *s, struct exchange *x,
                              void (*list)(const struct clients *s, u64 cursor,
                                           struct wire_page *page))
{
	int err = client_make_page(x);

	if (!err)
		list(s, x->request.a, x->page);
	return err;
}

static int client_op_drop(struct clients *s, struct exchange *x)
{
	x->reply.drop.next = files_drop(s->files, x->request.a, x->request.b,
	                                x->request.c, &x->reply.drop.dropped);
	x->reply.drop.dropped.busy +=
		x->reply.drop.dropped.pinned > 0 && evict_is_busy(s->frames);
	s->above.resize_drop(s->above.of, x->request.a, x->reply.drop.next,
	                     x->request.b, x->request.c);
	return 0;
}

static int client_op_resize(struct clients *s, struct exchange *x)
{
	return s->above.resize_request(s->above.of, x->request.a, x->request.b,
	                               &x->reply.resize);
}

static int client_op_hold(struct clients *s, struct client *c, struct exchange *x)
{
	int err = hold_request(s, c, &x->request, &x->reply, &x->close_after);

	if (x->close_after >= 0)
		x->out[x->nr_out++] = x->close_after;
	x->later = err == -EINPROGRESS && x->request.op == WIRE_HOLD_WAIT;
	return err;
}

static int client_op_move(struct clients *s, struct exchange *x)
{
	int err = mover_request(s->frames, x->request.a, x->request.b, x->request.c);

	s->above.resize_move(s->above.of, x->request.a, x->request.b, x->request.c);
	hold_tier_look(s->holding, true);
	return err;
}

static int client_carry_out_reader(struct clients *s, struct client *c,
                                   struct exchange *x)
{
	if (c->moved && x->request.op != WIRE_HOLD_FD)
		return -ECONNRESET; /* it will find that mark, and come again */
	switch (x->request.op) {
	case WIRE_CONTEXT_OPEN: return client_op_context_open(s, c, x);
	case WIRE_CONTEXT_CLOSE: return client_op_context_close(s, c, x);
	case WIRE_FILE_OPEN: return opening_begin(s, c, x);
	case WIRE_FILE_CLOSE: return client_op_file_close(s, c, x);
	default: return client_op_hold(s, c, x);
	}
}

/* A request that is allowed. */
static int client_carry_out(struct clients *s, struct client *c, struct exchange *x)
{
	switch (x->request.op) {
	case WIRE_HELLO: return client_op_hello(s, c, x);
	case WIRE_SYNC: return client_op_sync(s, c, x);
	case WIRE_KEEP: return files_keep(s->files, x->request.a, x->request.b);
	case WIRE_STOP: service_stop(s->base); return s->above.hand_stop(s->above.of);
	case WIRE_STAT: return client_op_stat(s, c, x);
	case WIRE_FILES: return client_answer_page(s, x, list_files);
	case WIRE_READERS: return client_answer_page(s, x, list_readers);
	case WIRE_CONTEXTS: return client_answer_page(s, x, list_contexts);
	case WIRE_HOLDS: return client_answer_page(s, x, list_holds);
	case WIRE_TIMES: return client_answer_page(s, x, list_times);
	case WIRE_TIERS: return client_answer_page(s, x, list_tiers);
	case WIRE_MOVE: return client_op_move(s, x);
	case WIRE_HOLD_WAIT: return client_op_hold(s, c, x);
	case WIRE_DROP: return client_op_drop(s, x);
	case WIRE_RESIZE: return client_op_resize(s, x);
	case WIRE_SUCCEED: return s->above.hand_begin(s->above.of, c, x);
	case WIRE_HAND_ARENA:
	case WIRE_HAND_FILE:
	case WIRE_HAND_FRAMES:
	case WIRE_HAND_STAY:
	case WIRE_HAND_OVER:
	case WIRE_HANDED: return s->above.hand_carry_out(s->above.of, c, x);
	default: return client_carry_out_reader(s, c, x);
	}
}

static int client_reply(const struct client *c, struct exchange *x)
{
	int err;

	x->reply.nr_fds = x->nr_out;
	if (x->page)
		err = wire_send(c->socket, x->page,
		                sizeof(x->reply) + x->page->reply.page.bytes, NULL, 0);
	else
		err = wire_send(c->socket, &x->reply, sizeof(x->reply), x->out,
		                x->nr_out);
	port_free(x->page);
	return err;
}

/* Serves one request. false: the client has gone, or there is none. */
static bool client_serve_one(struct clients *s, struct client *c)
{
	struct exchange x = { .close_after = -1 };
	int err = wire_receive_all(c->socket, &x.request, sizeof(x.request), x.fds,
	                           &x.nr_fds, &x.sender);
	bool hangs_up = false;

	if (err == -EAGAIN)
		return false;
	if (err && err != -EPROTO && err != -EMFILE) {
		client_hang_up(s, c);
		return false;
	}
	s->nr_unasked -= !c->asked;
	c->asked = true;
	/* A request of another length is of another version. One whose descriptor is lost was for
	 * a file, and the service has room for no more of those. */
	if (!err && x.request.version != WIRE_VERSION)
		err = -EPROTO;
	if (!err) {
		err = authority_judge(c, x.request.op, &x.sender);
		hangs_up = err == -ECONNRESET;
		if (!err)
			err = client_carry_out(s, c, &x);
	} else if (err == -EMFILE) {
		err = reason_encode(LODIC_REASON_DESCRIPTORS);
	}
	x.reply.error = answer_error(s, err);
	for (u32 i = 0; i < x.nr_fds; i++)
		if (x.fds[i] >= 0)
			worker_close(s->base, x.fds[i]);
	err = x.later ? 0 : client_reply(c, &x);
	service_close(&x.close_after);
	if (err || hangs_up) /* also when it does not read its replies */
		client_hang_up(s, c);
	return !err && !hangs_up;
}

void client_ready(struct clients *s, struct client *c)
{
	u32 turn = 0;

	if (c->opening && c->socket >= 0)
		client_hang_up(s, c); /* nothing else is told now */
	while (turn++ < REQUESTS_PER_TURN && c->socket >= 0 && !c->opening &&
	       client_serve_one(s, c))
		;
}
