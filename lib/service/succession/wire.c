/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See wire.h. */
#include "lib/port.h"
#include "lib/service/succession/budget.h"
#include "lib/service/succession/whole.h"
#include "lib/service/succession/wire.h"
#include "lib/service/succession/hand.h"
#include "lib/service/succession/resize.h"
#include "lib/service/tier/tier.h"
#include "lib/service/memory/nodes.h"

static u64 wire_memory_limit(const struct service *s)
{
	return budget_limit(&s->budget);
}

/* What chooses the arena's size. */
static void wire_sizes(struct service *s)
{
	s->pressure.base = &s->base;
	s->pressure.holding = &s->holding;
	s->pressure.budget = &s->budget;
	s->pressure.of = s;
	s->budget.arena = &s->memory.arena;
	s->budget.holding = &s->holding;
	s->budget.pressure = &s->pressure;
	s->budget.of = s;
	s->reread.base = &s->base;
	s->reread.of = s;
}

static void wire_base(struct service *s)
{
	s->base.owners[OWNER_BASE] = &s->base;
	s->base.owners[OWNER_HOLDING] = &s->holding;
	s->base.owners[OWNER_CLIENTS] = &s->clients;
	s->base.owners[OWNER_REREAD] = &s->reread;
	s->base.owners[OWNER_SERVICE] = s;
}

/* What a user asks for: to each room its parts. */
static void wire_options(struct service *s)
{
	struct service_options *o = &s->options;

	s->base.place = &o->place;
	s->base.sharing = s->memory.sharing = s->files.sharing = s->clients.sharing = &o->sharing;
	s->base.events = s->reread.events = &o->events;
	s->memory.tables = s->tiers.tables = s->frames.tables = s->holding.tables = &o->tables;
	s->budget.sizes = &o->sizes;
	s->pressure.sizes = s->tiers.sizes = s->holding.sizes = &o->sizes;
	s->tiers.placing = s->holding.placing = &o->placing;
	s->files.keeping = &o->keeping;
	s->clients.options = o;
}

void service_wire(struct service *s)
{
	wire_options(s);
	wire_base(s);
	s->memory.base = &s->base;
	s->memory.stat = &s->base.stat;
	s->memory.tiers = &s->tiers;
	s->memory.bind = tier_bind;
	s->memory.say = tier_say;
	s->tiers.base = &s->base;
	s->tiers.shape = &s->memory.shape;
	s->tiers.nodes = &s->memory.nodes;
	s->files.base = &s->base;
	s->files.stat = &s->base.stat;
	s->files.arena = &s->memory.arena;
	s->files.shape = &s->memory.shape;
	s->files.tiers = &s->tiers;
	s->frames.base = &s->base;
	s->frames.stat = &s->base.stat;
	s->frames.arena = &s->memory.arena;
	s->frames.shape = &s->memory.shape;
	s->frames.tiers = &s->tiers;
	s->frames.files = &s->files;
	s->holding.base = &s->base;
	s->holding.stat = &s->base.stat;
	s->holding.arena = &s->memory.arena;
	s->holding.shape = &s->memory.shape;
	s->holding.nodes = &s->memory.nodes;
	s->holding.tiers = &s->tiers;
	s->holding.files = &s->files;
	s->clients.base = &s->base;
	s->clients.stat = &s->base.stat;
	s->clients.memory = &s->memory;
	s->clients.arena = &s->memory.arena;
	s->clients.shape = &s->memory.shape;
	s->clients.control = &s->memory.control;
	s->clients.data = &s->memory.data;
	s->clients.shared = &s->memory.shared;
	s->clients.tiers = &s->tiers;
	s->clients.files = &s->files;
	s->clients.frames = &s->frames;
	s->clients.holding = &s->holding;
	s->clients.above = (struct clients_above){
		s,           hand_begin,  hand_carry_out, hand_stop, resize_request,
		resize_drop, resize_move, wire_memory_limit,
	};
	s->holding.budget =
		(struct hold_budget){ &s->budget, budget_for_holds,
		                      budget_for_holds_at_most, budget_make_room };
	wire_sizes(s);
}

struct service *service_alloc(const struct service_options *options)
{
	struct service *s = port_alloc(sizeof(*s));

	if (!s)
		return NULL;
	s->options = *options;
	service_wire(s);
	nodes_look(&s->memory.nodes, options->placing.nodes);
	s->base.lock = s->base.listening = s->base.unheard = s->clients.spare =
		s->base.epoll = s->base.wake = s->signals = -1;
	s->memory.control.fd = s->memory.control.reader_fd = s->memory.data.fd =
		s->memory.data.reader_fd = -1;
	s->memory.shared.fd = s->memory.shared.reader_fd = -1;
	s->frames.fence.done = -1;
	s->base.started_ns = host_now_ns();
	s->files.sweep_round = 1;
	return s;
}
