/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See pass.h. */
#include <string.h>

#include "lib/port.h"
#include "lib/service/client/accept.h"
#include "lib/service/client/client.h"
#include "lib/service/base/worker.h"
#include "lib/service/client/stat.h"
#include "lib/service/file/files.h"
#include "lib/service/succession/pass.h"
#include "lib/service/succession/whole.h"
#include "lib/service/base/base.h"
#include "lib/service/tier/tier.h"

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
	stat_take_over(&s->clients, &old->clients);
}

static void pass_process(struct service *old, struct service *s)
{
	u64 cache_bytes = s->options.sizes.cache_bytes;

	s->options = old->options;
	s->options.sizes.cache_bytes = cache_bytes;
	strcpy(s->base.lock_path, old->base.lock_path);
	strcpy(s->base.socket_path, old->base.socket_path);
	s->base.lock = old->base.lock;
	s->base.listening = old->base.listening;
	s->base.lent = old->base.lent;
	s->signals = old->signals;
	old->base.lock = old->base.listening = old->signals = -1;
	s->base.started_ns = old->base.started_ns;
	files_take_over(&s->files, &old->files);
	s->change.resize = old->change.resize;
	s->change.resized = old->change.resized;
	pressure_take_over(&s->pressure, &old->pressure);
	budget_take_over(&s->budget, &old->budget);
	reread_take_over(&s->reread, &old->reread);
	old->change.resize = NULL;
	s->base.stopping = old->base.stopping;
	s->next_tick_ns = old->next_tick_ns;
}

int pass_watch(struct service *s, const struct service *owner)
{
	int err = service_watch_as(&s->base, owner->signals, PORT_INPUT, SOURCE_SIGNAL);

	if (!err)
		err = service_watch_as(&s->base, worker_event(&owner->base), PORT_INPUT,
		                       SOURCE_WORKER);
	return err;
}

int pass_prepare(const struct service *old, struct service *s)
{
	/* Both loops hear of them from here on, but only one has turns. */
	int err = service_watch_as(&s->base, old->base.listening, PORT_INPUT,
	                           SOURCE_LISTEN);

	return err ? err : pass_watch(s, old);
}

void pass_all(struct service *old, struct service *s)
{
	struct client *successor = client_successor(&old->clients);

	if (successor) /* it knows of an arena that is dead from here on */
		client_hang_up(&old->clients, successor);
	pass_numbers(old, s);
	pass_process(old, s);
	accept_take_over(&s->clients, &old->clients);
}
