/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See held.h. */
#include <stdio.h>

#include "lib/service/file/held.h"
#include "lib/service/file/proof.h"
#include "lib/service/file/state.h"
#include "lib/service/tier/policy.h"

struct held_file *held_at(const struct files *s, u32 slot)
{
	struct held_file *f = &s->slots[slot];

	return f->state == FILE_HELD ? f : NULL;
}

struct file_facts held_facts(const struct held_file *f)
{
	return (struct file_facts){ .id = f->id,
		                    .local = f->local,
		                    .dev = f->dev,
		                    .ino = f->ino,
		                    .size = f->size };
}

u32 held_id(const struct held_file *f)
{
	return f->id;
}

u64 held_size(const struct held_file *f)
{
	return f->size;
}

u64 held_nr_blocks(const struct held_file *f)
{
	return (f->size + BLOCK_BYTES - 1) >> BLOCK_SHIFT;
}

bool held_is_local(const struct held_file *f)
{
	return f->local;
}

u32 held_nr_frames(const struct held_file *f)
{
	return f->nr_frames;
}

int held_fd(const struct held_file *f)
{
	return f->fd;
}

const struct tier_file *held_where(const struct held_file *f)
{
	return &f->where;
}

void held_set_tier(struct held_file *f, u32 tier)
{
	f->where.tier = tier;
	f->where.tier_said = TIER_SAID_BY_USER;
}

struct file_order *held_order(struct held_file *f)
{
	return &f->order;
}

void held_look(const struct files *s, const struct held_file *f, struct look_file *ret)
{
	ret->state = LOOK_HELD;
	ret->dev = f->dev;
	ret->ino = f->ino;
	ret->size = f->size;
	ret->cached = f->nr_frames;
	ret->opens = f->nr_opens;
	ret->hits = f->hits;
	ret->direct = f->direct;
	ret->fast = f->nr_fast;
	ret->tier = f->where.tier;
	ret->knode = policy_knode(s->tiers, &f->where);
	snprintf(ret->proof, sizeof(ret->proof), "%s", proof_name(f->proof));
}
