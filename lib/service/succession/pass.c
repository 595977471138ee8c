/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What passes from a service to the one that takes its place.
 *
 * Connections stay open. One that only asks notices nothing. A reader's belongs to an arena that
 * is dead now, so nothing can be opened by it any more. It still tells the service that the
 * program is there, until that program looks at its mark, hangs up and attaches anew. So a service
 * that ends without programs does not end because they have nothing to read just then.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "lib/service/client/domain.h"
#include "lib/service/base/worker.h"
#include "lib/service/client/opening.h"
#include "lib/service/client/stat.h"
#include "lib/service/frame/fill.h"
#include "lib/service/hold/hold_move.h"
#include "lib/service/hold/hold_table.h"
#include "lib/service/succession/pass.h"
#include "lib/service/succession/whole.h"
#include "lib/service/base/base.h"
#include "lib/service/client/connection.h"
#include "lib/service/tier/tier.h"

/* What waits for the old service's work waits for this one's. */
static void pass_waiting(struct service *s, struct client *c, struct client *from)
{
	if (from->waits) {
		fill_sync_begin(&s->frames, &c->sync);
		c->waits = true;
	}
	hold_move_asker(&from->holds, &c->holds, c);
	if (from->stat_wanted > 0)
		c->stat_wanted = stat_ask(&s->clients);
	s->clients.nr_waiting += c->waits + (c->stat_wanted > 0);
}

/* The connection of a client of old; its contexts stay there. Without it the program finds that
 * the service has hung up. NULL: it stays in old, and ends with that. */
static struct client *pass_client(struct service *old, struct service *s,
                                  struct client *from)
{
	struct client *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->socket = from->socket;
	c->process = from->process;
	c->newest = c->reap_at = FRAME_NONE;
	c->socket_source = (struct source){ SOURCE_CLIENT, c };
	c->process_source = (struct source){ SOURCE_PROCESS, c };
	c->uid = from->uid;
	if (domain_count(&s->clients, c) != 0) {
		free(c);
		return NULL;
	}
	if (service_watch(&s->base, c->socket, EPOLLIN, &c->socket_source) != 0 ||
	    (c->process >= 0 &&
	     service_watch(&s->base, c->process, EPOLLIN, &c->process_source) != 0)) {
		domain_leave(&s->clients, c);
		free(c);
		return NULL;
	}
	from->socket = from->process = -1;
	old->clients.nr_silent++;
	c->pid = from->pid;
	c->foreign = from->foreign;
	c->wake = -1;
	c->since_ns = from->since_ns;
	c->serial = from->serial;
	c->asked = from->asked;
	s->clients.nr_unasked += !c->asked;
	c->kind = from->kind;
	c->moved = client_is_reader(c);
	s->clients.nr_clients += c->moved;
	pass_waiting(s, c, from);
	return c;
}

/* In their order: a list of readers goes by it. */
static void pass_clients(struct service *old, struct service *s)
{
	struct client **end = &s->clients.first;

	for (struct client *from = old->clients.first; from; from = from->next) {
		if (from->socket < 0 || from->gone)
			continue;
		if (from->opening) {
			/* What a worker looks at was for old. The program asks again. */
			opening_forget(from);
			hold_table_forget(&from->holds);
			service_close(&from->socket);
			old->clients.nr_silent++;
			continue;
		}
		*end = pass_client(old, s, from);
		if (*end)
			end = &(*end)->next;
		else
			hold_table_forget(&from->holds);
	}
}

/* Numbers since the start go on. What the new arena was filled with does not count. */
static void pass_numbers(struct service *old, struct service *s)
{
	const struct arena_header *from = old->memory.arena.header;
	struct arena_header *to = s->memory.arena.header;
	u64 huge_bytes;

	host_store_relaxed(&to->nr_admitted, host_load_relaxed(&from->nr_admitted));
	host_store_relaxed(&to->nr_evicted, host_load_relaxed(&from->nr_evicted));
	host_store_relaxed(&to->nr_refused, host_load_relaxed(&from->nr_refused));
	host_store_relaxed(&to->nr_errors, host_load_relaxed(&from->nr_errors));
	huge_bytes = s->base.stat.huge_bytes;
	s->base.stat = old->base.stat;
	s->base.stat.huge_bytes = huge_bytes;
	for (u32 i = 0; i < NR_TIERS; i++) {
		s->tiers.of[i].begun = old->tiers.of[i].begun;
		s->tiers.of[i].moved = old->tiers.of[i].moved;
		s->tiers.of[i].refused = old->tiers.of[i].refused;
		s->tiers.of[i].no_room = old->tiers.of[i].no_room;
		s->tiers.of[i].asked = old->tiers.of[i].asked;
		s->tiers.of[i].missed = old->tiers.of[i].missed;
	}
	for (u32 i = 0; i < CONTEXT_NR_COUNTERS; i++)
		s->clients.past_counters[i] = stat_counter(&old->clients, i);
}

static void pass_process(struct service *old, struct service *s)
{
	u64 cache_bytes = s->base.options.cache_bytes;
	struct refused_list *refused = s->files.refused;
	struct pauses *pauses = s->files.pauses;

	s->base.options = old->base.options;
	s->base.options.cache_bytes = cache_bytes;
	strcpy(s->base.lock_path, old->base.lock_path);
	strcpy(s->base.socket_path, old->base.socket_path);
	s->base.lock = old->base.lock;
	s->base.listening = old->base.listening;
	s->base.lent = old->base.lent;
	s->clients.spare = old->clients.spare;
	s->signals = old->signals;
	old->base.lock = old->base.listening = old->clients.spare = old->signals = -1;
	s->base.started_ns = old->base.started_ns;
	s->clients.last_serial = old->clients.last_serial;
	s->files.refused = old->files.refused;
	old->files.refused = refused;
	s->files.pauses = old->files.pauses;
	old->files.pauses = pauses;
	s->change.resize = old->change.resize;
	s->change.resized = old->change.resized;
	s->change.rereads = old->change.rereads;
	s->change.rereads_again = old->change.rereads_again;
	s->change.reread_bytes = old->change.reread_bytes;
	s->pressure = old->pressure;
	s->budget = old->budget;
	memcpy(s->frames.times, old->frames.times, sizeof(s->frames.times));
	old->change.resize = NULL;
	s->base.stopping = old->base.stopping;
	s->next_tick_ns = old->next_tick_ns;
	s->clients.idle_since_ns = host_now_ns();
}

int pass_watch(struct service *s, const struct service *owner)
{
	int err = service_watch(&s->base, owner->signals, EPOLLIN,
	                        &s->base.sources[SOURCE_SIGNAL]);

	if (!err)
		err = service_watch(&s->base, worker_event(&owner->base), EPOLLIN,
		                    &s->base.sources[SOURCE_WORKER]);
	return err;
}

int pass_prepare(const struct service *old, struct service *s)
{
	/* Both loops hear of them from here on, but only one has turns. */
	int err = service_watch(&s->base, old->base.listening, EPOLLIN,
	                        &s->base.sources[SOURCE_LISTEN]);

	return err ? err : pass_watch(s, old);
}

void pass_all(struct service *old, struct service *s)
{
	pass_numbers(old, s);
	pass_process(old, s);
	pass_clients(old, s);
}
