/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Programs that connect, those that do so and never ask, and those that the service before this one
 * had. Only the main thread comes here.
 *
 * port_accept() takes a descriptor before it looks whether anybody waits. So when descriptors are
 * short its error says nothing about that, and only a try with the spare one does. While nothing
 * helps, the listening socket is not watched, because it would wake the loop without end. The
 * next tick watches it again: what was short may be there then, and nobody would tell.
 */
#include <errno.h>

#include "core/check.h"
#include "lib/port/listen.h"
#include "lib/reason.h"
#include "lib/service/client/domain.h"
#include "lib/service/base/socket.h"
#include "lib/service/base/worker.h"
#include "lib/service/client/accept.h"
#include "lib/service/client/client.h"
#include "lib/service/client/opening.h"
#include "lib/service/client/place.h"
#include "lib/service/client/stat.h"
#include "lib/service/file/files.h"
#include "lib/service/frame/fill.h"
#include "lib/service/hold/hold_move.h"
#include "lib/service/hold/hold_table.h"
#include "lib/service/hold/holds.h"
#include "lib/service/client/state.h"
#include "lib/wire.h"
#include "lib/service/base/base.h"

/* How many connections a turn takes, and messages of programs that it sends away: 10 us each. */
#define ACCEPTS_PER_TURN 64u
/* Of how many connections the loop hears in a turn, at least, if it has much to do. */
#define HEARD_PER_TURN 8u
/* A program that has connected asks at once, and the library waits 2 s for the answer. A stopped
 * program may be later than this: it finds that the service has hung up, and connects again. */
#define UNASKED_NS (10000 * NS_PER_MS)
/* How many such a tick hangs up on: 40 us each. */
#define DROPS_PER_TICK 64u

/* How many the end sends away: all that can wait, twice over. Some are let in to wait meanwhile. */
#define MOST_SENT_AWAY 256u

/* A program may have sent descriptors already, even one that is turned away. Returns how many
 * messages it has sent. */
static u32 accept_close(struct clients *s, int *socket)
{
	u32 nr = client_drain(s, *socket);

	service_close(socket);
	return nr;
}

/* There is no room. A program that has asked already is told so, as nearly all have. The log hears
 * of it at the next tick. */
static u32 accept_turn_away(struct clients *s, int socket)
{
	const struct wire_reply reply = { .error = reason_join(LODIC_REASON_DESCRIPTORS,
		                                               -EMFILE) };
	struct wire_request request;
	struct wire_sender sender; /* it asks senders, as the one that listens does */
	int fds[WIRE_MAX_FDS];
	u32 nr_fds;

	/* What is left unread when the socket closes would come before the answer, as an error. */
	if (wire_receive_all(socket, &request, sizeof(request), fds, &nr_fds,
	                     &sender) != -EAGAIN)
		wire_send(socket, &reply, sizeof(reply), NULL, 0);
	while (nr_fds > 0)
		worker_close(s->base, fds[--nr_fds]);
	s->nr_turned_away++;
	return accept_close(s, &socket);
}

static struct client *accept_make(int socket)
{
	struct client *c = port_alloc(sizeof(*c));

	if (!c)
		return NULL;
	c->socket = socket;
	c->process = c->wake = -1;
	c->newest = c->reap_at = FRAME_NONE;
	c->socket_source = (struct source){ SOURCE_CLIENT, c };
	c->process_source = (struct source){ SOURCE_PROCESS, c };
	return c;
}

/* Returns how many messages it has thrown away. */
static u32 accept_add(struct clients *s, int socket)
{
	struct port_peer peer;
	bool foreign;
	struct client *c = domain_takes_peer(s, socket, &peer, &foreign)
	                           ? accept_make(socket)
	                           : NULL;

	if (!c)
		return accept_close(s, &socket);
	c->pid = peer.pid;
	c->uid = peer.uid;
	c->foreign = foreign;
	if (domain_enter(s, c) != 0) {
		port_free(c);
		return accept_turn_away(s, socket);
	}
	if (port_ask_senders(socket) != 0 ||
	    service_watch(s->base, socket, PORT_INPUT, &c->socket_source) != 0) {
		domain_leave(s, c);
		port_free(c);
		return accept_close(s, &socket);
	}
	c->since_ns = host_now_ns();
	c->serial = ++s->last_serial;
	c->next = s->first;
	s->first = c;
	s->nr_unasked++;
	return 0;
}

int accept_successor(struct clients *s, int socket, const struct client *like)
{
	struct client *c = accept_make(socket);
	int err;

	if (!c)
		return -ENOMEM;
	c->kind = CLIENT_SUCCESSOR;
	c->asked = true; /* it was announced */
	err = service_watch(s->base, socket, PORT_INPUT, &c->socket_source);
	if (err) {
		port_free(c);
		return err;
	}
	c->pid = like->pid;
	c->uid = like->uid;
	c->since_ns = c->heard_ns = host_now_ns();
	c->serial = ++s->last_serial;
	c->next = s->first;
	s->first = c;
	s->successor = c;
	return 0;
}

static int accept_open_spare(void)
{
	return port_event(); /* there may be no /dev/null */
}

/* No descriptor is left: hangs up on the next program by the spare one. So nobody waits for
 * what may never come, and a program that tries again finds what files have let go. 0 or
 * -errno; -EAGAIN: nobody waits. */
static int accept_hang_up(struct clients *s)
{
	int socket, err;

	files_spare_descriptors(s->files);
	holds_spare_descriptors(s->holding);
	if (s->spare < 0)
		return -EMFILE;
	service_close(&s->spare);
	socket = port_accept(socket_listening(s->base));
	err = socket < 0 ? socket : 0;
	if (!err)
		accept_close(s, &socket);
	s->spare = accept_open_spare();
	return err;
}

/* Nobody is let in until the next tick. */
static void accept_pause(struct clients *s)
{
	s->accept_paused = socket_listen_for(s->base, PORT_HANG_UP) == 0;
}

/* Might somebody be turned away in vain, because others have hung up? The loop hears of a few in
 * each turn, of all in their order. Where it always has that much to do, this ends after as many
 * turns as it takes to hear of each connection once. */
static bool accept_waits(struct clients *s, bool heard_all)
{
	if (!heard_all && s->accept_turns++ < s->nr_connections / HEARD_PER_TURN + 1)
		return true;
	s->accept_turns = 0;
	return false;
}

/* The loop hears of those that it lets in at its next turn. Any of them may have hung up already,
 * so nobody is turned away in the same turn. */
void accept_clients(struct clients *s, bool heard_all)
{
	u32 before = s->nr_connections;

	if (domain_is_crowded(s, ACCEPTS_PER_TURN) && accept_waits(s, heard_all))
		return;
	for (u32 left = ACCEPTS_PER_TURN; left > 0; left--) {
		int socket, err;
		u32 nr;

		if (s->nr_connections > before && domain_is_crowded(s, 1))
			return;
		socket = port_accept(socket_listening(s->base));
		err = socket < 0 ? socket : 0;
		nr = err ? 0 : accept_add(s, socket);
		left -= nr < left ? nr : left - 1;
		if (err == -EMFILE || err == -ENFILE) {
			if (s->nr_connections > before || accept_waits(s, heard_all))
				return;
			err = accept_hang_up(s);
			left = 1; /* one a turn: what files let go is for the next */
		}
		if (err == -EAGAIN)
			return;
		if (err && err != -ECONNABORTED && err != -EINTR) {
			accept_pause(s);
			return;
		}
	}
}

/* What the program has sent may wait behind other work of the service's. */
static bool accept_has_asked(const struct client *c)
{
	return port_ready(c->socket, PORT_INPUT) != 0;
}

static void accept_drop_unasked(struct clients *s)
{
	u64 now = host_now_ns();
	u32 left = DROPS_PER_TICK;

	if (s->nr_unasked == 0)
		return;
	for (struct client *c = s->first; c && left > 0; c = c->next) {
		if (c->asked || c->socket < 0 || now - c->since_ns < UNASKED_NS ||
		    accept_has_asked(c))
			continue;
		client_hang_up(s, c);
		left--;
	}
}

void accept_send_away(struct clients *s)
{
	int unheard = socket_unheard(s->base), socket;

	if (unheard < 0)
		return;
	service_close(&s->spare); /* each takes one, and gives it back */
	for (u32 left = MOST_SENT_AWAY; left > 0; left--) {
		socket = port_accept(unheard);
		if (socket >= 0)
			accept_close(s, &socket);
		else if (socket != -ECONNABORTED && socket != -EINTR)
			return;
	}
}

void accept_tick(struct clients *s)
{
	if (s->nr_turned_away > 0)
		service_say(s->base, SERVICE_WARNING, "turned_away",
		            "%u programs found no room: %u connections are there",
		            s->nr_turned_away, s->nr_connections);
	s->nr_turned_away = 0;
	if (s->spare < 0)
		s->spare = accept_open_spare();
	if (s->accept_paused)
		s->accept_paused = socket_listen_for(s->base, PORT_INPUT) != 0;
	accept_drop_unasked(s);
#ifdef LODIC_DEBUG
	accept_check(s);
	place_check(s);
#endif
}

void accept_begin(struct clients *s)
{
	s->spare = accept_open_spare();
}

void accept_end(struct clients *s)
{
	service_close(&s->spare);
}

bool accept_is_paused(const struct clients *s)
{
	return s->accept_paused;
}

bool accept_wants_ticks(const struct clients *s)
{
	return s->accept_paused || s->nr_unasked > 0 || s->nr_turned_away > 0 ||
	       s->spare < 0;
}

/* ---- those of the service before ----
 *
 * Connections stay open. One that only asks notices nothing. A reader's belongs to an arena that
 * is dead now, so nothing can be opened by it any more. It still tells the service that the
 * program is there, until that program looks at its mark, hangs up and attaches anew. So a service
 * that ends without programs does not end because they have nothing to read just then.
 */

/* What waits for the old service's work waits for this one's. */
static void accept_waiting(struct clients *s, struct client *c, struct client *from)
{
	if (from->waits) {
		fill_sync_begin(s->frames, &c->sync);
		c->waits = true;
	}
	hold_move_asker(&from->holds, &c->holds, c);
	if (from->stat_wanted > 0)
		c->stat_wanted = stat_ask(s);
	s->nr_waiting += c->waits + (c->stat_wanted > 0);
}

/* Both or neither: c may be freed next, and the sources are in it. */
static bool accept_watch_again(struct clients *s, struct client *c)
{
	if (service_watch(s->base, c->socket, PORT_INPUT, &c->socket_source) != 0)
		return false;
	if (c->process < 0 ||
	    service_watch(s->base, c->process, PORT_INPUT, &c->process_source) == 0)
		return true;
	service_watch_no_more(s->base, c->socket);
	return false;
}

/* The connection of a client of old; its contexts stay there. Without it the program finds that
 * the service has hung up. NULL: it stays in old, and ends with that. */
static struct client *accept_again(struct clients *old, struct clients *s,
                                   struct client *from)
{
	struct client *c = accept_make(from->socket);

	if (!c)
		return NULL;
	c->process = from->process;
	c->uid = from->uid;
	if (domain_count(s, c) != 0) {
		port_free(c);
		return NULL;
	}
	if (!accept_watch_again(s, c)) {
		domain_leave(s, c);
		port_free(c);
		return NULL;
	}
	from->socket = from->process = -1;
	old->nr_silent++;
	c->pid = from->pid;
	c->foreign = from->foreign;
	c->since_ns = from->since_ns;
	c->serial = from->serial;
	c->asked = from->asked;
	s->nr_unasked += !c->asked;
	c->kind = from->kind;
	c->moved = client_is_reader(c);
	s->nr_clients += c->moved;
	accept_waiting(s, c, from);
	return c;
}

/* In their order: a list of readers goes by it. */
void accept_take_over(struct clients *s, struct clients *old)
{
	struct client **end = &s->first;

	s->spare = old->spare;
	old->spare = -1;
	s->last_serial = old->last_serial;
	client_idle_begin(s);
	for (struct client *from = old->first; from; from = from->next) {
		if (from->socket < 0 || from->gone)
			continue;
		if (from->opening) {
			/* What a worker looks at was for old. The program asks again. */
			opening_forget(from);
			hold_table_forget(&from->holds);
			accept_close(s, &from->socket);
			old->nr_silent++;
			continue;
		}
		*end = accept_again(old, s, from);
		if (*end)
			end = &(*end)->next;
		else
			hold_table_forget(&from->holds);
	}
}

/* ---- what must be true ---- */

static void accept_check_client(const struct client *c)
{
	CHECK(!c->next || c->next->serial < c->serial, "the newest client comes first");
	CHECK(!c->gone || (c->socket < 0 && c->process < 0 && !c->user && !c->opening &&
	                   c->nr_contexts == 0),
	      "a client that has gone has nothing but files");
	CHECK(c->socket >= 0 || (!c->waits && c->stat_wanted == 0),
	      "a silent client waits for nothing");
	holds_check_asker(&c->holds);
}

void accept_check(const struct clients *s)
{
	u32 readers = 0, silent = 0, reaping = 0, waiting = 0, connections = 0, unasked = 0;

	for (const struct client *c = s->first; c; c = c->next) {
		accept_check_client(c);
		readers += client_is_reader(c) && !c->gone;
		silent += c->socket < 0;
		reaping += c->reap_at != FRAME_NONE;
		waiting += c->waits + (c->stat_wanted > 0);
		connections += c->user != NULL;
		unasked += !c->asked && !c->gone;
	}
	CHECK(s->nr_clients == readers, "readers are counted");
	CHECK(s->nr_silent == silent, "silent clients are counted");
	CHECK(s->nr_reaping == reaping, "clients to ask about are counted");
	CHECK(s->nr_waiting == waiting, "requests that wait are counted");
	CHECK(s->nr_connections == connections, "connections are counted");
	CHECK(s->nr_unasked == unasked, "clients that have not asked are counted");
}
