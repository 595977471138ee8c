/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * core/kloc under random calls, each policy in turn, against a model that knows no lists: an array
 * of objects and one of files. The model predicts where objects are, how full tiers are, who is
 * open, and which moves may be asked for. LODIC_SEED=n sets the seed.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/random.h"
#include "tests/support/kloc_rig.h"

#define NR_FILES 12u
#define NR_OBJECTS 64u
#define NR_STEPS 20000u
#define CHECK_EVERY 8u
#define FAST 2000u
#define SLOW 4000u

struct model_object {
	bool there, moving, gone;
	u32 file; /* NR_FILES: none */
	u32 kind, bytes, tier, copies, nr_moves;
	struct kloc_move move;
};

struct model_file {
	u64 inode;
	u32 knode; /* KLOC_NONE: no file */
	u32 opens, nr_objects, flags;
	bool unlinked;
};

struct model {
	struct kloc_rig rig;
	struct kloc_shape shape;
	u64 random;
	u64 limit[KLOC_MAX_TIERS];
	struct model_object objects[NR_OBJECTS];
	struct model_file files[NR_FILES];
	u32 nr_moving;
	bool was_limited; /* a limit was lowered: used may be above it */
};

static u32 choose(struct model *m, u32 n)
{
	return (u32)(random_next(&m->random) % n);
}

static u64 seed_of_run(void)
{
	const char *text = getenv("LODIC_SEED");

	return text ? strtoull(text, NULL, 0) : 1;
}

static struct model_file *any_file(struct model *m)
{
	return &m->files[choose(m, NR_FILES)];
}

static bool is_gone(const struct model_file *f)
{
	return f->knode == KLOC_NONE || (f->unlinked && !f->opens);
}

/* An object that is there; NULL: this time there is none. */
static struct model_object *any_object(struct model *m)
{
	struct model_object *o = &m->objects[choose(m, NR_OBJECTS)];

	return o->there && !o->gone ? o : NULL;
}

static void step_open(struct model *m)
{
	static const u32 flags[] = {
		0, 0, 0, KLOC_MAP_FAST, KLOC_MAP_SLOW, KLOC_MAP_REPLICATE
	};
	struct model_file *f = any_file(m);

	if (f->knode == KLOC_NONE) {
		f->flags = flags[choose(m, 6)];
		f->inode = (u64)(f - m->files) + 1; /* again and again the same */
		if (kloc_map(m->rig.k, f->inode, f->flags, &f->knode) != 0) {
			f->knode = KLOC_NONE;
			return;
		}
		f->opens = f->nr_objects = 0;
		f->unlinked = false;
	}
	if (is_gone(f) || f->opens == 3)
		return;
	kloc_open(m->rig.k, f->knode, choose(m, 4));
	f->opens++;
}

static void forget_empty(struct model_file *f)
{
	if (f->knode != KLOC_NONE && is_gone(f) && !f->nr_objects)
		f->knode = KLOC_NONE;
}

static void step_close(struct model *m)
{
	struct model_file *f = any_file(m);

	if (f->knode == KLOC_NONE || !f->opens)
		return;
	kloc_close(m->rig.k, f->knode, choose(m, 4));
	f->opens--;
	forget_empty(f);
}

static void step_unlink(struct model *m)
{
	struct model_file *f = any_file(m);

	if (f->knode == KLOC_NONE || f->unlinked || choose(m, 4))
		return;
	kloc_unlink(m->rig.k, f->knode, choose(m, 4));
	f->unlinked = true;
	forget_empty(f);
}

static void step_add(struct model *m)
{
	u32 file = choose(m, NR_FILES + 3);
	struct model_file *f = file < NR_FILES ? &m->files[file] : NULL;
	struct kloc_new n = { .knode = KLOC_NONE,
		              .kind = KLOC_APP,
		              .cpu = choose(m, 4),
		              .bytes = 10 + choose(m, 90),
		              .key = choose(m, 1000),
		              .prefetch = !choose(m, 5) };
	struct model_object *o;
	u32 object, tier;

	if (f && is_gone(f))
		return;
	if (f)
		n.knode = f->knode;
	if (f || choose(m, 2))
		n.kind = 1 + choose(m, KLOC_NR_KINDS - 1);
	if (kloc_add(m->rig.k, &n, &object, &tier) != 0)
		return;
	assert_true(object < NR_OBJECTS && tier < m->shape.nr_tiers);
	o = &m->objects[object];
	assert_false(o->there); /* KL3 */
	*o = (struct model_object){ .there = true,
		                    .file = f ? file : NR_FILES,
		                    .kind = n.kind,
		                    .bytes = n.bytes,
		                    .tier = tier };
	if (f)
		f->nr_objects++;
}

static void end_object(struct model *m, struct model_object *o)
{
	struct model_file *f = o->file < NR_FILES ? &m->files[o->file] : NULL;

	o->there = false;
	if (!f)
		return;
	f->nr_objects--;
	forget_empty(f);
}

static void step_remove(struct model *m)
{
	struct model_object *o = any_object(m);

	if (!o)
		return;
	kloc_remove(m->rig.k, (u32)(o - m->objects));
	o->copies = 0;
	if (o->moving)
		o->gone = true;
	else
		end_object(m, o);
}

static void step_touch(struct model *m)
{
	struct model_object *o = any_object(m);
	u32 cpu = choose(m, 4), node = m->shape.cpu_tier[cpu], served;

	if (!o)
		return;
	if (!choose(m, 10)) {
		kloc_prefetch(m->rig.k, (u32)(o - m->objects), cpu);
		return;
	}
	served = kloc_touch(m->rig.k, (u32)(o - m->objects), cpu);
	assert_int_equal(served, o->copies >> node & 1 ? node : o->tier);
}

/* KL6: what is found is the file's own knode, and nothing after its end. */
static void step_find(struct model *m)
{
	const struct model_file *f = any_file(m);
	u32 found = kloc_find(m->rig.k, (u64)(f - m->files) + 1, choose(m, 4));

	assert_int_equal(found, is_gone(f) ? KLOC_NONE : f->knode);
}

static void step_adopt(struct model *m)
{
	struct model_object *o = any_object(m);
	u32 file = choose(m, NR_FILES);

	if (!o || o->file < NR_FILES || o->kind == KLOC_APP || is_gone(&m->files[file]))
		return;
	kloc_adopt(m->rig.k, (u32)(o - m->objects), m->files[file].knode, choose(m, 4));
	o->file = file;
	m->files[file].nr_objects++;
}

/* A policy may ask for this move. */
static void check_move(struct model *m, const struct kloc_move *move)
{
	const struct model_object *o = &m->objects[move->object];
	const struct model_file *f = o->file < NR_FILES ? &m->files[o->file] : NULL;
	const struct kloc_parameters *p = &m->shape.parameters;
	bool by_counter = move->what == KLOC_DEMOTE || move->what == KLOC_FOLLOW;
	bool is_kloc = m->shape.policy == KLOC_POLICY_KLOC;

	assert_true(o->there && !o->moving && !o->gone);
	if (move->what == KLOC_DROP) {
		assert_true(o->copies >> move->from & 1);
		return;
	}
	assert_int_equal(move->from, o->tier);
	assert_int_not_equal(move->to, o->tier);
	assert_true(move->to < m->shape.nr_tiers);
	assert_true(p->movable & KLOC_BIT(o->kind));
	if (by_counter && move->why != KLOC_BY_LIMIT &&
	    m->shape.policy != KLOC_POLICY_ORACLE)
		assert_true(o->nr_moves < p->ping_pong); /* KL5 */
	if (f && is_kloc) {
		assert_false(is_gone(f)); /* KL1 */
		assert_true(move->what != KLOC_PROMOTE || f->opens > 0 ||
		            f->flags & KLOC_MAP_FAST);
		assert_true(move->what != KLOC_DEMOTE || !(f->flags & KLOC_MAP_FAST) ||
		            move->why == KLOC_BY_PREFETCH);
		/* An open does not wake a segment that nobody uses. */
		if (move->what == KLOC_DEMOTE && move->why == KLOC_BY_STATE &&
		    !p->segment_bytes)
			assert_true(!f->opens || f->flags & KLOC_MAP_SLOW);
	}
}

/* A search for moves may forgive what was retained (KL5). */
static void note_forgiven(struct model *m)
{
	struct kloc_object_stat stat;

	for (u32 i = 0; i < NR_OBJECTS; i++) {
		struct model_object *o = &m->objects[i];

		if (!o->there || o->gone || o->nr_moves < m->shape.parameters.ping_pong)
			continue;
		kloc_object_stat(m->rig.k, i, &stat);
		if (!stat.nr_moves && m->shape.parameters.forgive)
			o->nr_moves = 0;
	}
}

static void step_next(struct model *m)
{
	struct kloc_move move;
	struct model_object *o;
	bool found = kloc_next(m->rig.k, &move);

	note_forgiven(m);
	if (!found)
		return;
	check_move(m, &move);
	o = &m->objects[move.object];
	o->moving = true;
	o->move = move;
	m->nr_moving++;
	assert_true(m->nr_moving <= m->shape.parameters.max_in_flight);
}

static void step_moved(struct model *m)
{
	static const enum kloc_result results[] = {
		KLOC_MOVED, KLOC_MOVED, KLOC_MOVED, KLOC_MOVED, KLOC_BUSY, KLOC_NO_ROOM
	};
	struct model_object *o = &m->objects[choose(m, NR_OBJECTS)];
	enum kloc_result result = results[choose(m, 6)];

	if (!o->there || !o->moving)
		return;
	kloc_moved(m->rig.k, (u32)(o - m->objects), result);
	o->moving = false;
	m->nr_moving--;
	if (o->gone) {
		end_object(m, o);
		return;
	}
	if (result != KLOC_MOVED)
		return;
	if (o->move.what == KLOC_COPY) {
		o->copies |= 1u << o->move.to;
	} else if (o->move.what == KLOC_DROP) {
		o->copies &= ~(1u << o->move.from);
	} else {
		o->tier = o->move.to;
		o->nr_moves += o->nr_moves < 255;
	}
}

static void step_rare(struct model *m)
{
	u32 tier = choose(m, m->shape.nr_tiers);

	switch (choose(m, 40)) {
	case 0:
		m->limit[tier] = (tier ? SLOW : FAST) / 2 + choose(m, FAST);
		if (m->limit[tier] > m->shape.capacity[tier])
			m->limit[tier] = m->shape.capacity[tier];
		assert_int_equal(kloc_memsize(m->rig.k, tier, m->limit[tier]), 0);
		m->was_limited = true;
		break;
	case 1:
	case 2: kloc_task_moved(m->rig.k, choose(m, 4), choose(m, 4)); break;
	case 3:
	case 4:
	case 5:
	case 6: kloc_tick(m->rig.k); break;
	}
}

/* What the room says of itself is what the model knows. */
static void compare(struct model *m)
{
	u64 used[KLOC_MAX_TIERS] = { 0 };
	u32 nr[KLOC_MAX_TIERS][KLOC_NR_KINDS] = { { 0 } };
	struct kloc_tier_stat tier;
	u32 i, seen = 0, at = KLOC_NONE;
	struct kloc_knode_stat knode;

	for (i = 0; i < NR_OBJECTS; i++) {
		const struct model_object *o = &m->objects[i];
		struct kloc_object_stat stat;

		if (!o->there)
			continue;
		used[o->tier] += o->bytes;
		for (u32 t = 0; t < KLOC_MAX_TIERS; t++)
			used[t] += o->copies >> t & 1 ? o->bytes : 0;
		if (o->moving && (o->move.what != KLOC_DROP || o->gone))
			used[o->move.to] += o->bytes;
		if (o->gone)
			continue;
		nr[o->tier][o->kind]++;
		kloc_object_stat(m->rig.k, i, &stat);
		assert_int_equal(stat.tier, o->tier);
		assert_int_equal(stat.copies, o->copies);
		assert_int_equal(stat.is_moving, o->moving);
		assert_int_equal(stat.nr_moves, o->nr_moves);
	}
	for (i = 0; i < m->shape.nr_tiers; i++) {
		kloc_tier_stat(m->rig.k, i, &tier);
		assert_int_equal(tier.used, used[i]);
		for (u32 kind = 0; kind < KLOC_NR_KINDS; kind++)
			assert_int_equal(tier.objects[kind], nr[i][kind]);
		if (!m->was_limited && m->shape.policy != KLOC_POLICY_ALL_FAST)
			assert_true(tier.used <= tier.limit); /* KL2 */
	}
	while (kloc_next_knode(m->rig.k, &at, &knode))
		for (i = 0; i < NR_FILES; i++)
			if (m->files[i].knode == at) {
				const struct model_file *f = &m->files[i];

				seen++;
				assert_int_equal(knode.nr_objects, f->nr_objects);
				assert_int_equal(knode.nr_opens, f->opens);
				assert_int_equal(knode.state == KLOC_UNLINKED,
				                 is_gone(f));
				assert_true(knode.state != KLOC_ACTIVE || f->opens);
			}
	for (i = 0; i < NR_FILES; i++)
		seen -= m->files[i].knode != KLOC_NONE;
	assert_int_equal(seen, 0);
}

static u64 future_now;

/* It goes on with each question, as time does. */
static u64 future(u32 object, u64 key)
{
	future_now += 7;
	return key % 7 ? future_now + (key * 31 + object * 17) % 1009 : KLOC_NEVER;
}

static void (*const steps[])(struct model *) = {
	step_open,  step_open,  step_close,  step_unlink, step_add,
	step_add,   step_add,   step_remove, step_remove, step_touch,
	step_touch, step_touch, step_find,   step_adopt,  step_next,
	step_next,  step_next,  step_moved,  step_moved,  step_moved,
	step_moved, step_moved, step_moved,  step_rare,   step_rare,
};

/* The hash of all decisions. */
static u64 run(const struct kloc_shape *shape, u64 seed, u32 check_every)
{
	struct model *m = calloc(1, sizeof(*m));
	struct kloc_move move;
	u32 i;
	u64 hash;

	assert_non_null(m);
	m->shape = *shape;
	m->random = seed;
	kloc_rig_start(&m->rig, shape);
	m->rig.next_use = future;
	future_now = 0;
	for (i = 0; i < NR_FILES; i++)
		m->files[i].knode = KLOC_NONE;
	for (i = 0; i < NR_STEPS; i++) {
		steps[choose(m, sizeof(steps) / sizeof(steps[0]))](m);
		if (i % check_every == 0) {
			kloc_check(m->rig.k);
			compare(m);
		}
	}
	/* Everything ends: nothing is left in any tier. */
	for (i = 0; i < NR_OBJECTS; i++)
		if (m->objects[i].there && !m->objects[i].gone)
			kloc_remove(m->rig.k, i);
	for (i = 0; i < NR_OBJECTS; i++)
		if (m->objects[i].there && m->objects[i].moving)
			kloc_moved(m->rig.k, i, KLOC_MOVED);
	assert_false(kloc_next(m->rig.k, &move));
	for (i = 0; i < m->shape.nr_tiers; i++) {
		struct kloc_tier_stat tier;

		kloc_tier_stat(m->rig.k, i, &tier);
		assert_int_equal(tier.used, 0);
	}
	hash = m->rig.hash;
	kloc_rig_stop(&m->rig);
	free(m);
	return hash;
}

static struct kloc_shape shape_of(enum kloc_policy_id policy, u64 seed)
{
	struct kloc_shape s = kloc_rig_shape(policy, FAST, SLOW);
	struct kloc_parameters *p = &s.parameters;
	static const u8 three_nodes[] = { 0, 1, 2, 2 };

	p->low_permille = 50;
	p->high_permille = 100;
	p->scan = 8;
	p->age_limit = 3;
	p->ping_pong = 3;
	p->forgive = seed & 512 ? 0 : 2;
	p->max_in_flight = 5;
	p->prefetch_age = 1;
	/* Each seed has its parameters. */
	p->eager = seed & 1;
	p->promote_whole = seed & 2;
	p->promote_small = seed & 4;
	p->promote_file = seed & 8;
	p->movable = seed & 16 ? KLOC_ALL_KINDS : KLOC_ALL_KINDS & ~KLOC_BIT(KLOC_SLAB);
	p->kinds = seed & 32 ? p->kinds : p->kinds & ~KLOC_BIT(KLOC_JOURNAL);
	p->segment_bytes = seed & 64 ? 0 : 300;
	p->kernel_place = seed & 128 ? KLOC_KERNEL_FAST : KLOC_KERNEL_SLOW;
	s.nr_knodes = 64;
	/* Of nodes there may be three. */
	if (seed & 256 && policy >= KLOC_POLICY_AUTONUMA) {
		s.nr_tiers = 3;
		s.capacity[2] = FAST;
		s.cpu_tier = three_nodes;
	}
	return s;
}

static void random_calls_keep_all_rules(void **state)
{
	u64 seed = seed_of_run();
	u32 policy;

	(void)state;
	printf("seed %" PRIu64 "\n", seed);
	for (u32 round = 0; round < 8; round++)
		for (policy = 0; policy < KLOC_NR_POLICIES; policy++) {
			u64 one = seed * 1000 + round * 37;
			struct kloc_shape s = shape_of(policy, one);

			run(&s, one, CHECK_EVERY);
		}
}

/* KL4: the same calls, the same decisions; the index has no say. */
static void random_calls_again_same_log(void **state)
{
	u64 seed = seed_of_run();
	u32 policy;

	(void)state;
	for (policy = 0; policy < KLOC_NR_POLICIES; policy++) {
		struct kloc_shape s = shape_of(policy, seed);
		void *elsewhere = malloc(12345);
		u64 first = run(&s, seed, NR_STEPS);

		free(elsewhere);
		assert_int_equal(run(&s, seed, NR_STEPS), first);
		s.parameters.trees = true;
		assert_int_equal(run(&s, seed, NR_STEPS), first);
		assert_int_not_equal(run(&s, seed + 1, NR_STEPS), first);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_calls_keep_all_rules),
		cmocka_unit_test(random_calls_again_same_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
