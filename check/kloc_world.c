/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The world of knodes and tiers, and its oracle. Contract: check/kloc_world.h. */
#include "check/kloc_world.h"

#define MOST_MOVES 64u /* at the end; more would never end */

struct kloc_world *kloc_world;

static void lock(void)
{
	host_lock(&kloc_world->lock);
}

static void unlock(void)
{
	host_unlock(&kloc_world->lock);
}

/* The room promised that there is one. */
static u32 take_slot(u32 tier)
{
	u32 slot;

	for (slot = 0; slot < kloc_world->c->slots[tier]; slot++)
		if (!kloc_world->slots[tier][slot].is_used) {
			kloc_world->slots[tier][slot].is_used = true;
			return slot;
		}
	CHECK_ASSERT(false, "KL2: a tier has the room that was given away");
	return 0;
}

static void give_slot(struct kloc_thing *t, u32 tier)
{
	kloc_world->slots[tier][t->at[tier]].is_used = false;
	t->at[tier] = KLOC_NONE;
}

static struct kloc_file *file_of(const struct kloc_thing *t)
{
	return t->file < KLOC_WORLD_FILES ? &kloc_world->files[t->file] : NULL;
}

static void end_file(struct kloc_file *f)
{
	if (f->is_unlinked && !f->opens && !f->nr_things)
		*f = (struct kloc_file){ 0 };
}

static void end_thing(struct kloc_thing *t)
{
	struct kloc_file *f = file_of(t);
	u32 tier;

	for (tier = 0; tier < KLOC_WORLD_TIERS; tier++)
		if (t->at[tier] != KLOC_NONE)
			give_slot(t, tier);
	*t = (struct kloc_thing){ 0 };
	if (!f)
		return;
	f->nr_things--;
	end_file(f);
}

/* Another move may be wanted from now on. */
static void change(struct kloc_file *f)
{
	if (f)
		f->nr_changes++;
}

static void change_all(void)
{
	for (u32 i = 0; i < KLOC_WORLD_FILES; i++)
		change(&kloc_world->files[i]);
	kloc_world->nr_changes++;
}

/* Need may take a file once a tick besides. That is a change as well. */
static u64 changes_of(const struct kloc_thing *t)
{
	const struct kloc_file *f = file_of(t);

	return f ? f->nr_changes + kloc_world->k->knodes[f->knode].life.tried
	         : kloc_world->nr_changes;
}

static void look(const struct kloc_thing *t, u32 tier)
{
	u64 word = host_load_relaxed(&kloc_world->slots[tier][t->at[tier]].word);

	CHECK_ASSERT(word == t->serial, "KL3: an object's bytes are its own");
}

static enum kloc_state state_of(u32 knode)
{
	struct kloc_knode_stat stat;
	u32 at = KLOC_NONE;

	while (kloc_next_knode(kloc_world->k, &at, &stat))
		if (at == knode)
			return (enum kloc_state)stat.state;
	return KLOC_FREE;
}

/* ---- files ---- */

void kloc_world_map(u32 file, u32 flags)
{
	struct kloc_file *f = &kloc_world->files[file];
	u32 knode, i;

	lock();
	if (!f->inode &&
	    kloc_map(kloc_world->k, kloc_world->next_inode + 1, flags, &knode) == 0) {
		for (i = 0; i < KLOC_WORLD_FILES; i++)
			CHECK_ASSERT(!kloc_world->files[i].inode ||
			                     kloc_world->files[i].knode != knode,
			             "KL3: a knode waits for its objects' moves");
		*f = (struct kloc_file){ .inode = ++kloc_world->next_inode,
			                 .knode = knode,
			                 .flags = flags };
	}
	unlock();
}

void kloc_world_open(u32 file, u32 cpu)
{
	struct kloc_file *f = &kloc_world->files[file];

	lock();
	if (f->inode && (f->opens > 0 || !f->is_unlinked)) {
		f->opens++;
		change(f);
		f->used = kloc_world->k->now;
		kloc_open(kloc_world->k, f->knode, cpu);
		CHECK_ASSERT(state_of(f->knode) == KLOC_ACTIVE,
		             "an open file is active");
	}
	unlock();
}

void kloc_world_close(u32 file, u32 cpu)
{
	struct kloc_file *f = &kloc_world->files[file];

	lock();
	if (f->opens > 0) {
		f->opens--;
		f->may_be_noted = true; /* in the CPU's list: a tick counts it */
		change(f);
		kloc_close(kloc_world->k, f->knode, cpu);
		end_file(f);
	}
	unlock();
}

void kloc_world_unlink(u32 file)
{
	struct kloc_file *f = &kloc_world->files[file];

	lock();
	if (f->inode && !f->is_unlinked) {
		f->is_unlinked = true;
		change(f);
		kloc_unlink(kloc_world->k, f->knode, 0);
		CHECK_ASSERT(!f->opens || state_of(f->knode) != KLOC_UNLINKED,
		             "an unlinked file lives while it is open");
		end_file(f);
	}
	unlock();
}

/* ---- objects ---- */

u32 kloc_world_add(u32 file, enum kloc_kind kind, u32 cpu)
{
	struct kloc_file *f = file < KLOC_WORLD_FILES ? &kloc_world->files[file] : NULL;
	struct kloc_new n = {
		.knode = f ? f->knode : KLOC_NONE, .kind = kind, .bytes = 1, .cpu = cpu
	};
	u32 object = KLOC_NONE, tier, i;
	struct kloc_thing *t;

	lock();
	if (f && (!f->inode || (f->is_unlinked && !f->opens)))
		goto out;
	if (f)
		n.knode = f->knode;
	change(f);
	if (kloc_add(kloc_world->k, &n, &object, &tier) != 0) {
		object = KLOC_NONE;
		goto out;
	}
	t = &kloc_world->things[object];
	CHECK_ASSERT(!t->there, "KL3: an object's number waits for its move");
	*t = (struct kloc_thing){ .there = true,
		                  .file = file,
		                  .kind = kind,
		                  .tier = tier,
		                  .serial = ++kloc_world->next_serial };
	for (i = 0; i < KLOC_WORLD_TIERS; i++)
		t->at[i] = KLOC_NONE;
	t->at[tier] = take_slot(tier);
	host_store_relaxed(&kloc_world->slots[tier][t->at[tier]].word, t->serial);
	if (f) {
		f->nr_things++;
		f->used = kloc_world->k->now;
	}
out:
	unlock();
	return object;
}

void kloc_world_remove(u32 object)
{
	struct kloc_thing *t = &kloc_world->things[object];

	lock();
	if (object != KLOC_NONE && t->there && !t->gone && !t->nr_pins) {
		kloc_remove(kloc_world->k, object);
		if (t->moving)
			t->gone = true;
		else
			end_thing(t);
	}
	unlock();
}

static bool is_dead(const struct kloc_file *f)
{
	return f && f->is_unlinked && !f->opens;
}

void kloc_world_use(u32 object, u32 cpu)
{
	struct kloc_thing *t = &kloc_world->things[object];
	struct kloc_file *f;
	u32 tier;

	lock();
	f = file_of(t);
	if (!t->there || t->gone || t->moving) {
		unlock();
		return;
	}
	if (f && !is_dead(f))
		f->used = kloc_world->k->now;
	change(f);
	tier = kloc_touch(kloc_world->k, object, cpu);
	CHECK_ASSERT(!is_dead(f) ||
	                     kloc_find(kloc_world->k, f->inode, cpu) == KLOC_NONE,
	             "KL6: what has ended is not found");
	CHECK_ASSERT(t->at[tier] != KLOC_NONE, "a use is served where the bytes are");
	CHECK_ASSERT(!f || !f->opens || state_of(f->knode) == KLOC_ACTIVE,
	             "a use wakes an open file");
	t->nr_pins++;
	unlock();
	look(t, tier);
	lock();
	t->nr_pins--;
	unlock();
}

void kloc_world_note(u32 file, u32 cpu)
{
	struct kloc_file *f = &kloc_world->files[file];
	struct knode_lists *lists = &kloc_world->k->lists;
	struct knode_token token = { .knode = KNODE_NONE };
	u64 inode;
	u32 now;

	lock();
	inode = f->inode;
	if (inode && !is_dead(f))
		token = knode_list_token(lists, f->knode);
	if (token.knode != KNODE_NONE)
		f->may_be_noted = true;
	now = kloc_world->k->now;
	unlock();
	if (token.knode == KNODE_NONE)
		return;
	knode_list_use(lists, cpu, token);
	if (f->inode != inode)
		return;
	f->is_noted = true;
	f->noted = now;
}

void kloc_world_tick(void)
{
	lock();
	kloc_tick(kloc_world->k);
	unlock();
}

void kloc_world_limit(u64 slots)
{
	lock();
	kloc_world->limit = slots;
	change_all();
	CHECK_ASSERT(kloc_memsize(kloc_world->k, KLOC_FAST, slots) == 0, "a limit");
	unlock();
}

void kloc_world_task_moved(u32 from_cpu, u32 to_cpu)
{
	lock();
	change_all();
	kloc_task_moved(kloc_world->k, from_cpu, to_cpu);
	unlock();
}

/* ---- moves ---- */

/* May the room ask for this? */
static void judge(const struct kloc_move *m)
{
	const struct kloc_thing *t = &kloc_world->things[m->object];
	const struct kloc_file *f = file_of(t);

	CHECK_ASSERT(t->there && !t->gone && !t->moving, "KL3: one move at a time");
	CHECK_ASSERT(m->what == KLOC_DROP || m->from == t->tier, "a move begins there");
	CHECK_ASSERT(!is_dead(f), "KL1: what is unlinked does not move");
	CHECK_ASSERT(!t->was_busy || t->busy_tick != kloc_world->k->now ||
	                     t->busy_what != m->what || t->busy_why != m->why ||
	                     t->busy_changes != changes_of(t),
	             "what was busy is asked once a tick");
	CHECK_ASSERT(m->what != KLOC_DEMOTE || m->why == KLOC_BY_LIMIT ||
	                     t->nr_moves < kloc_world->c->ping_pong,
	             "KL5: the counter");
	if (!f || kloc_world->c->policy != KLOC_POLICY_KLOC)
		return;
	CHECK_ASSERT(m->what != KLOC_PROMOTE || f->opens > 0, "KL1: promoted, so open");
	CHECK_ASSERT(m->what != KLOC_DEMOTE || m->why != KLOC_BY_STATE || !f->opens,
	             "KL1: demoted for its state, so closed");
}

/* A closed file that has something in fast memory, which could leave it now. */
static bool can_give(u32 file)
{
	const struct kloc_file *f = &kloc_world->files[file];
	u32 i;

	for (i = 0; i < KLOC_WORLD_THINGS && f->inode && !f->opens; i++) {
		const struct kloc_thing *t = &kloc_world->things[i];

		if (t->there && file_of(t) == f && !t->gone && !t->moving &&
		    t->tier == KLOC_FAST && t->nr_moves < kloc_world->c->ping_pong &&
		    !(t->was_busy && t->busy_tick == kloc_world->k->now))
			return !f->is_unlinked;
	}
	return false;
}

static bool is_active(u32 file)
{
	return state_of(kloc_world->files[file].knode) == KLOC_ACTIVE;
}

/* Was the file's knode asked for room in this tick? */
static bool was_asked(u32 file)
{
	return kloc_world->k->knodes[kloc_world->files[file].knode].life.tried ==
	       kloc_world->k->now + 1;
}

/* kloc_next(), and the oracle's word on the files that give room for it. */
static bool next(struct kloc_move *ret_move)
{
	bool was[KLOC_WORLD_FILES], could[KLOC_WORLD_FILES], is_there, gave = false;
	u32 i;

	for (i = 0; i < KLOC_WORLD_FILES; i++) {
		was[i] = is_active(i);
		could[i] = can_give(i);
	}
	is_there = kloc_next(kloc_world->k, ret_move);
	for (i = 0; i < KLOC_WORLD_FILES; i++)
		gave = gave || (was[i] && !is_active(i));
	for (i = 0; i < KLOC_WORLD_FILES; i++)
		CHECK_ASSERT(!gave || !could[i] || was_asked(i),
		             "inactive first: an open file gives room last");
	return is_there;
}

/* After the lock was free: the object may have been removed. */
static void end_move(const struct kloc_move *m, bool is_busy)
{
	struct kloc_thing *t = &kloc_world->things[m->object];

	kloc_moved(kloc_world->k, m->object, is_busy ? KLOC_BUSY : KLOC_MOVED);
	t->moving = false;
	if (t->gone) {
		end_thing(t);
		return;
	}
	t->was_busy = is_busy;
	if (is_busy) {
		t->busy_tick = kloc_world->k->now;
		t->busy_what = m->what;
		t->busy_why = m->why;
		t->busy_changes = changes_of(t);
		if (m->what != KLOC_DROP)
			give_slot(t, m->to);
		return;
	}
	if (m->what != KLOC_COPY)
		give_slot(t, m->from);
	if (m->what == KLOC_COPY || m->what == KLOC_DROP)
		return;
	t->tier = m->to;
	t->nr_moves++;
}

bool kloc_world_move(void)
{
	struct kloc_slot *from, *to;
	struct kloc_thing *t;
	struct kloc_move m;
	bool is_busy;

	lock();
	if (!next(&m)) {
		unlock();
		return false;
	}
	judge(&m);
	t = &kloc_world->things[m.object];
	t->moving = true;
	if (m.what != KLOC_DROP)
		t->at[m.to] = take_slot(m.to);
	is_busy = t->nr_pins > 0;
	from = &kloc_world->slots[m.from][t->at[m.from]];
	to = &kloc_world->slots[m.to][t->at[m.to]];
	unlock();
	if (!is_busy && m.what != KLOC_DROP)
		host_store_relaxed(&to->word, host_load_relaxed(&from->word));
	lock();
	end_move(&m, is_busy);
	unlock();
	return true;
}

/* ---- the beginning and the end ---- */

void kloc_world_setup(const void *arg)
{
	static const u8 cpu_tier[KLOC_WORLD_CPUS] = { 0, 0, 1, 1 };
	const struct kloc_case *c = arg;
	struct kloc_shape s = { .capacity = { c->slots[0], c->slots[1] },
		                .nr_tiers = KLOC_WORLD_TIERS,
		                .nr_objects = KLOC_WORLD_THINGS,
		                .nr_knodes = KLOC_WORLD_FILES + 1,
		                .nr_cpus = KLOC_WORLD_CPUS,
		                .list_length = 2,
		                .cpu_tier = cpu_tier,
		                .policy = c->policy };
	u32 tier, slot;

	kloc_world = host_alloc(sizeof(*kloc_world), 64);
	CHECK_ASSERT(kloc_world, "memory for the world");
	kloc_world->c = c;
	kloc_world->limit = c->slots[0];
	kloc_parameters_default(c->policy, &s.parameters);
	s.parameters.ping_pong = c->ping_pong;
	s.parameters.age_limit = c->age_limit;
	s.parameters.knode_tier = KLOC_NO_TIER;
	s.parameters.low_permille = s.parameters.high_permille = 0;
	s.parameters.promote_small = true;
	s.parameters.eager = !c->is_lazy;
	CHECK_ASSERT(kloc_init(&s, &kloc_world->k) == 0, "memory for the room");
	for (tier = 0; tier < KLOC_WORLD_TIERS; tier++)
		for (slot = 0; slot < KLOC_WORLD_SLOTS; slot++)
			check_name(&kloc_world->slots[tier][slot].word, 8,
			           "slot[%u][%u]", tier, slot);
	check_name(&kloc_world->lock, 8, "lock");
	c->begin();
	c->tasks();
}

/* The room has heard of each noted use of a file that lives, and of no other. */
static void check_noted(const struct kloc_file *f)
{
	const struct knode *n = &kloc_world->k->knodes[f->knode];

	if (!f->inode || is_dead(f))
		return;
	CHECK_ASSERT(f->may_be_noted || n->life.last_use == f->used,
	             "KL22, KL23: a noted use counts for its own file");
	if (!f->is_noted)
		return;
	CHECK_ASSERT(n->life.last_use >= f->noted, "KL24: a noted use counts");
	CHECK_ASSERT(!f->opens || n->life.state == KLOC_ACTIVE ||
	                     kloc_world->k->now - f->noted > kloc_world->c->age_limit,
	             "KL24: a noted use keeps an open file active");
}

static void drain(void)
{
	u32 nr = 0;

	while (kloc_world_move())
		CHECK_ASSERT(++nr < MOST_MOVES, "moves end");
}

static u64 used_slots(u32 tier)
{
	u64 nr = 0;
	u32 i;

	for (i = 0; i < KLOC_WORLD_SLOTS; i++)
		nr += kloc_world->slots[tier][i].is_used;
	return nr;
}

/* Is the thing where its file's opens want it? */
static void check_place(const struct kloc_thing *t)
{
	const struct kloc_file *f = file_of(t);

	if (!kloc_world->c->is_roomy || !f || is_dead(f))
		return;
	if (kloc_world->c->policy == KLOC_POLICY_KLOC_NUMA) {
		u32 cpu = kloc_last_cpu(kloc_world->k, f->knode);

		CHECK_ASSERT(!f->opens || t->tier == cpu / 2,
		             "objects follow the task");
		return;
	}
	if (f->opens > 0)
		CHECK_ASSERT(t->tier == KLOC_FAST, "an open file's objects are fast");
	else if (t->nr_moves < kloc_world->c->ping_pong)
		CHECK_ASSERT(t->tier == KLOC_SLOW, "a closed file's objects are slow");
}

/* Does its knode lead to each thing that it groups, once, now that nothing waits for a move? */
static void check_things(const struct kloc_file *f)
{
	const struct kloc *k = kloc_world->k;
	u32 class_, i, object = KLOC_NONE, nr = 0, grouped = 0;

	for (i = 0; f->inode && i < KLOC_WORLD_THINGS; i++)
		grouped += kloc_world->things[i].there &&
		           file_of(&kloc_world->things[i]) == f &&
		           kloc_is_grouped(k, &k->objects[i]);
	for (class_ = 0; f->inode && class_ < KLOC_NR_CLASSES; class_++)
		while ((object = kloc_next_object(k, f->knode, class_, object)) !=
		       KLOC_NONE) {
			CHECK_ASSERT(file_of(&kloc_world->things[object]) == f,
			             "a knode leads to its own file's objects");
			nr++;
		}
	CHECK_ASSERT(nr == grouped, "a knode leads to each object");
}

void kloc_world_finish(const void *arg)
{
	struct kloc_tier_stat tier;
	struct kloc_stat stat;
	u32 i, files = 0, turn;

	(void)arg;
	kloc_world_tick();
	for (i = 0; i < KLOC_WORLD_FILES; i++)
		check_noted(&kloc_world->files[i]);
	/* What was busy gets its turn at the next tick. A file that ages is used before it. */
	for (turn = 0; turn < 2; turn++) {
		drain();
		kloc_check(kloc_world->k);
		for (i = 0; i < KLOC_WORLD_THINGS; i++)
			if (kloc_world->c->age_limit)
				kloc_world_use(i, 0);
		kloc_world_tick();
	}
	drain();
	kloc_check(kloc_world->k);
	for (i = 0; i < KLOC_WORLD_THINGS; i++) {
		const struct kloc_thing *t = &kloc_world->things[i];

		if (!t->there)
			continue;
		look(t, t->tier);
		check_place(t);
	}
	for (i = 0; i < KLOC_WORLD_TIERS; i++) {
		kloc_tier_stat(kloc_world->k, i, &tier);
		CHECK_ASSERT(tier.used == used_slots(i), "KL10: used is what is there");
	}
	CHECK_ASSERT(used_slots(0) <= kloc_world->limit,
	             "KL2: a lowered limit is kept in the end");
	for (i = 0; i < KLOC_WORLD_FILES; i++) {
		check_things(&kloc_world->files[i]);
		files += kloc_world->files[i].inode != 0;
	}
	kloc_stat(kloc_world->k, &stat);
	CHECK_ASSERT(stat.nr_knodes == files, "a file that is gone has no knode");
	CHECK_ASSERT(stat.in_flight == 0, "KL3: each move has ended");
}
