/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/kloc_rig.h"

#define HASH_PRIME 0x100000001b3ull
#define MOST_MOVES 100000u /* more are a drain that never ends */

static void log_decision(void *arg, const struct kloc_decision *d)
{
	struct kloc_rig *r = arg;
	const u64 words[] = { d->number, d->inode, d->key,  d->object, d->knode,
		              d->what,   d->why,   d->kind, d->from,   d->to };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		r->hash = (r->hash ^ words[i]) * HASH_PRIME;
	r->nr[d->what][d->why]++;
	r->last = *d;
}

static u64 ask_next_use(void *arg, u32 object, u64 key)
{
	struct kloc_rig *r = arg;

	return r->next_use ? r->next_use(object, key) : KLOC_NEVER;
}

struct kloc_shape kloc_rig_shape(enum kloc_policy_id policy, u64 fast, u64 slow)
{
	static const u8 cpu_tier[] = { 0, 0, 1, 1 };
	struct kloc_shape s = { .capacity = { fast, slow },
		                .nr_tiers = 2,
		                .nr_objects = 64,
		                .nr_knodes = 16,
		                .nr_cpus = 4,
		                .list_length = 4,
		                .cpu_tier = cpu_tier,
		                .policy = policy };

	kloc_parameters_default(policy, &s.parameters);
	/* Tests count in bytes of their own. */
	s.parameters.knode_tier = KLOC_NO_TIER;
	s.parameters.low_permille = s.parameters.high_permille = 0;
	return s;
}

void kloc_rig_start(struct kloc_rig *r, const struct kloc_shape *shape)
{
	struct kloc_shape s = *shape;

	memset(r, 0, sizeof(*r));
	s.ops = (struct kloc_ops){ .arg = r,
		                   .log = log_decision,
		                   .next_use = ask_next_use };
	assert_int_equal(kloc_init(&s, &r->k), 0);
}

void kloc_rig_stop(struct kloc_rig *r)
{
	kloc_check(r->k);
	kloc_fini(r->k);
}

u32 kloc_rig_file(struct kloc_rig *r, u64 inode)
{
	u32 knode;

	assert_int_equal(kloc_map(r->k, inode, 0, &knode), 0);
	kloc_open(r->k, knode, 0);
	return knode;
}

u32 kloc_rig_add(struct kloc_rig *r, u32 knode, enum kloc_kind kind, u32 bytes)
{
	struct kloc_new n = { .knode = knode, .kind = kind, .bytes = bytes };
	u32 object, tier;

	assert_int_equal(kloc_add(r->k, &n, &object, &tier), 0);
	assert_int_equal(kloc_rig_tier(r, object), tier);
	return object;
}

u32 kloc_rig_tier(const struct kloc_rig *r, u32 object)
{
	struct kloc_object_stat stat;

	kloc_object_stat(r->k, object, &stat);
	return stat.tier;
}

u32 kloc_rig_drain(struct kloc_rig *r)
{
	struct kloc_move m;
	u32 nr = 0;

	while (kloc_next(r->k, &m)) {
		kloc_moved(r->k, m.object, KLOC_MOVED);
		kloc_check(r->k);
		assert_true(++nr < MOST_MOVES);
	}
	return nr;
}

enum kloc_state kloc_rig_state(const struct kloc_rig *r, u32 knode)
{
	struct kloc_knode_stat stat;
	u32 at = KLOC_NONE;

	while (kloc_next_knode(r->k, &at, &stat))
		if (at == knode)
			return (enum kloc_state)stat.state;
	return KLOC_FREE;
}
