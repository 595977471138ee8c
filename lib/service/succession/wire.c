/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See wire.h. */
#include "lib/service/succession/budget.h"
#include "lib/service/succession/whole.h"
#include "lib/service/succession/wire.h"
#include "lib/service/succession/hand.h"
#include "lib/service/succession/resize.h"
#include "lib/service/tier/tier.h"

void service_wire(struct service *s)
{
	s->base.owners[OWNER_BASE] = &s->base;
	s->base.owners[OWNER_HOLDING] = &s->holding;
	s->base.owners[OWNER_CLIENTS] = &s->clients;
	s->base.owners[OWNER_SERVICE] = s;
	s->memory.base = &s->base;
	s->memory.options = &s->base.options;
	s->memory.stat = &s->base.stat;
	s->memory.tiers = &s->tiers;
	s->memory.bind = tier_bind;
	s->memory.say = tier_say;
	s->tiers.base = &s->base;
	s->tiers.options = &s->base.options;
	s->tiers.shape = &s->memory.shape;
	s->tiers.nodes = &s->memory.nodes;
	s->files.base = &s->base;
	s->files.options = &s->base.options;
	s->files.stat = &s->base.stat;
	s->files.arena = &s->memory.arena;
	s->files.shape = &s->memory.shape;
	s->files.tiers = &s->tiers;
	s->frames.base = &s->base;
	s->frames.options = &s->base.options;
	s->frames.stat = &s->base.stat;
	s->frames.arena = &s->memory.arena;
	s->frames.shape = &s->memory.shape;
	s->frames.tiers = &s->tiers;
	s->frames.files = &s->files;
	s->holding.base = &s->base;
	s->holding.options = &s->base.options;
	s->holding.stat = &s->base.stat;
	s->holding.arena = &s->memory.arena;
	s->holding.shape = &s->memory.shape;
	s->holding.nodes = &s->memory.nodes;
	s->holding.tiers = &s->tiers;
	s->holding.files = &s->files;
	s->clients.base = &s->base;
	s->clients.options = &s->base.options;
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
		s,           hand_begin,  hand_carry_out, resize_request,
		resize_drop, resize_move, budget_limit,
	};
	s->holding.budget =
		(struct hold_budget){ s, budget_for_holds, budget_for_holds_at_most,
		                      budget_make_room };
}
