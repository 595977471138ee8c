/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The world of the counting schemes, and its oracle. Contract: check/count_world.h. */

#include <stdlib.h>

#include "check/count_world.h"

#define FREEZE_TRIES 32u /* with ticks between, for a scheme that needs epochs */
#define RECLAIM_TRIES 3u /* each is a few steps of a schedule */
#define TICKS 4u

struct count_world *counted;

/* What word i of a frame that holds block says. */
static u64 truth(u64 block, u32 i)
{
	return block * 16 + i;
}

static void *world_alloc(size_t n)
{
	void *p = host_alloc(n, 64);

	CHECK_ASSERT(p, "memory for the world");
	return p;
}

static void name_all(void)
{
	u32 f;

	for (f = 0; f < WORLD_FRAMES; f++) {
		check_name(&counted->frames[f].seq, 8, "frame[%u].seq", f);
		check_name(&counted->frames[f].block, 8, "frame[%u].block", f);
		check_name(&counted->frames[f].state, 8, "frame[%u].state", f);
		check_name(counted->bytes[f], sizeof(counted->bytes[f]),
		           "frame[%u].bytes", f);
	}
}

/* The words of the owned gate have names of their own in a trace. */
static void name_owned(void)
{
	u32 f;

	if (!counted->c->scheme->has_ptes)
		return;
	for (f = 0; f < WORLD_FRAMES; f++) {
		struct count_owned_words *w = count_owned_words(&counted->count, f);

		check_name(&w->global, 8, "global[%u]", f);
		check_name(&w->share, 8, "share[%u]", f);
		check_name(&w->open, 8, "open[%u]", f);
	}
}

/* So do the entries of a table. */
static void name_entries(struct paygo_table *t)
{
	static const char *const words[] = { "key", "local", "away", "mark" };
	u64 *word = (u64 *)t->entries;
	u32 cpu, i, w;

	for (cpu = 0; cpu < t->nr_cpus; cpu++)
		for (i = 0; i < t->stride; i++)
			for (w = 0; w < 4; w++)
				check_name(word++, 8, "cpu[%u].%s[%u]", cpu, words[w],
				           i);
	for (i = 0; i < WORLD_FRAMES && !counted->c->scheme->has_ptes; i++)
		check_name(&t->globals[i * COUNT_LINE_WORDS], 8, "global[%u]", i);
	check_name(t->disabled, 8, "disabled");
}

struct paygo_table *count_world_table(void)
{
	return counted->c->scheme->table(&counted->count);
}

static void setup_table(void)
{
	const struct count_case *c = counted->c;

	if (!c->scheme->table)
		return;
	if (c->ways)
		CHECK_ASSERT(paygo_table_shape(count_world_table(), 1, c->ways) == 0,
		             "memory for a table");
	if (c->lazy) {
		count_world_table()->eager = false;
		count_world_table()->idle = 2;
	}
	name_entries(count_world_table());
}

void count_world_setup_shared(const struct count_case *c, u32 first, u32 end)
{
	u32 f, u, i;

	counted = world_alloc(sizeof(*counted));
	counted->c = c;
	name_all();
	CHECK_ASSERT(count_init(&counted->count, c->scheme, counted->frames,
	                        WORLD_FRAMES, WORLD_USERS) == 0,
	             "a scheme starts");
	name_owned();
	setup_table();
	for (f = 0; f < WORLD_FRAMES; f++) {
		frame_fill_begin(&counted->frames[f]);
		for (i = 0; i < WORLD_BYTES_WORDS; i++)
			counted->bytes[f][i] = truth(block_id(WORLD_FILE, f), i);
		frame_fill_end(&counted->frames[f], block_id(WORLD_FILE, f));
		count_thaw(&counted->count, f);
		for (u = first; u < end; u++)
			CHECK_ASSERT(count_share(&counted->count, u, f) == 0,
			             "a user shares a live frame");
	}
}

void count_world_setup(const struct count_case *c)
{
	count_world_setup_shared(c, 0, WORLD_SHARERS);
}

bool count_world_ref(u32 frame, u32 user, u32 *ret_i)
{
	u64 token;
	u32 i;

	if (!count_ref(&counted->count, frame, user, &token))
		return false;
	CHECK_ASSERT(!counted->owned[frame], "N2: no reference while frozen");
	for (i = 0; counted->is_held[i]; i++)
		CHECK_ASSERT(i + 1 < WORLD_HELD, "WORLD_HELD is large enough");
	counted->held[i] =
		(struct count_held){ .token = token, .object = frame, .user = user };
	counted->is_held[i] = true;
	counted->nr_on[frame]++;
	check_note("holds frame %u", frame);
	*ret_i = i;
	return true;
}

void count_world_unref(u32 i)
{
	struct count_held held = counted->held[i];

	check_note("gives frame %u back", held.object);
	counted->is_held[i] = false;
	counted->is_held_since[i] = false;
	counted->nr_on[held.object]--;
	count_unref(&counted->count, held.object, held.user, held.token);
}

void count_world_hoard(u32 frame, u32 user, u32 nr, u32 keep)
{
	u32 i, last;

	for (i = 0; i < nr && count_world_ref(frame, user, &last); i++)
		CHECK_ASSERT(last == i, "nobody else holds anything yet");
	CHECK_ASSERT(i > 0, "a live frame can be referenced");
	while (i > keep)
		count_world_unref(--i);
}

bool count_world_is_mapped(u32 user, u32 frame)
{
	const struct process_space *space = count_owned_space(&counted->count, user);
	u32 i, k;

	for (i = 0; i < SPACE_CHUNKS; i++) {
		const u64 *ptes = (const u64 *)(size_t)space->chunks[i];

		for (k = 0; ptes && k < PTE_CHUNK; k++)
			if (pte_maps(ptes[k], frame))
				return true;
	}
	return false;
}

void count_world_map_begin(u32 user)
{
	u32 f;

	counted->nr_mapping[user]++;
	counted->nr_mapped[user]++;
	counted->left[user] = false;
	for (f = 0; f < WORLD_FRAMES; f++)
		counted->gone[user][f] = false;
}

void count_world_map_end(u32 user)
{
	counted->nr_mapping[user]--;
}

int count_world_share(u32 user, u32 frame)
{
	int err;

	count_world_map_begin(user);
	err = count_share(&counted->count, user, frame);
	count_world_map_end(user);
	return err;
}

/* What tells whether user maps anything while a call runs: before it and after it. The caller knows
 * of what is mapped by then. */
static u32 mapped_before(u32 user)
{
	check_told();
	return counted->nr_mapped[user] - counted->nr_mapping[user];
}

static bool was_quiet(u32 user, u32 before)
{
	return counted->nr_mapped[user] == before;
}

static void is_gone(u32 user, u32 frame)
{
	CHECK_ASSERT(!count_world_is_mapped(user, frame),
	             "what is unmapped is mapped no more");
	counted->gone[user][frame] = true;
}

void count_world_unshare(u32 user, u32 frame)
{
	u32 before = mapped_before(user);

	count_unshare(&counted->count, user, frame);
	if (counted->c->scheme->has_ptes && was_quiet(user, before))
		is_gone(user, frame);
}

void count_world_unmap_frame(u32 frame)
{
	u32 before[WORLD_USERS], user;
	bool quiet = true;

	for (user = 0; user < WORLD_USERS; user++)
		before[user] = mapped_before(user);
	count_owned_unmap_frame(&counted->count, frame);
	for (user = 0; user < WORLD_USERS; user++) {
		quiet = quiet && was_quiet(user, before[user]);
		if (was_quiet(user, before[user]))
			is_gone(user, frame);
	}
	/* Plain: adds to this word are in memory at once. */
	CHECK_ASSERT(!quiet ||
	                     (u32)count_owned_words(&counted->count, frame)->share == 0,
	             "I4: what is unmapped everywhere has no share");
}

void count_world_leave(u32 user, u64 page)
{
	u32 f;

	count_owned_munmap(&counted->count, user, page);
	/* A page fault has made another mapping, or is about to. */
	if (counted->nr_mapped[user] > 1)
		return;
	counted->left[user] = true;
	for (f = 0; f < WORLD_FRAMES; f++)
		is_gone(user, f);
}

/* At the end: what went has not come back, and a user that left has nothing. */
static void check_gone(void)
{
	u32 user, i;

	if (!counted->c->scheme->has_ptes)
		return;
	for (user = 0; user < WORLD_USERS; user++) {
		const struct process_space *space =
			count_owned_space(&counted->count, user);

		for (i = 0; i < WORLD_FRAMES; i++)
			CHECK_ASSERT(!counted->gone[user][i] ||
			                     !count_world_is_mapped(user, i),
			             "what was unmapped does not come back");
		for (i = 0; i < SPACE_VMAS; i++)
			CHECK_ASSERT(!counted->left[user] || space->vmas[i].nr == 0,
			             "a user that left has no mapping");
	}
}

void count_world_look(u32 i)
{
	u32 frame = counted->held[i].object;
	u64 block = host_load_relaxed(&counted->frames[frame].block);
	u32 w;

	for (w = 0; w < WORLD_BYTES_WORDS; w++)
		CHECK_ASSERT(check_load_held(&counted->bytes[frame][w]) ==
		                     truth(block, w),
		             "N2, N3: a held frame's bytes are those of its name");
	CHECK_ASSERT(host_load_relaxed(&counted->frames[frame].block) == block,
	             "N2: a held frame keeps its name");
	/* In the store buffer still when the frame is poisoned: a use after free. */
	host_store_relaxed(&counted->bytes[frame][WORLD_BYTES_WORDS], block);
}

bool count_world_freeze(u32 frame)
{
	if (!count_freeze(&counted->count, frame))
		return false;
	check_note("has frozen frame %u", frame);
	check_poison(counted->bytes[frame], sizeof(counted->bytes[frame]));
	counted->owned[frame] = true;
	counted->frozen_under += counted->nr_on[frame];
	return true;
}

void count_world_refill(u32 frame, u32 index)
{
	u64 block = block_id(WORLD_FILE, index);
	u32 i;

	frame_fill_begin(&counted->frames[frame]);
	check_revive(counted->bytes[frame], sizeof(counted->bytes[frame]));
	for (i = 0; i < WORLD_BYTES_WORDS; i++)
		host_store_relaxed(&counted->bytes[frame][i], truth(block, i));
	frame_fill_end(&counted->frames[frame], block);
	counted->owned[frame] = false;
	check_note("thaws frame %u", frame);
	count_thaw(&counted->count, frame);
}

bool count_world_reclaim(u32 index)
{
	u32 i;

	for (i = 0; i < RECLAIM_TRIES; i++) {
		if (count_world_freeze(0)) {
			count_world_refill(0, index);
			return true;
		}
		host_relax();
	}
	return false;
}

void count_world_query(u32 frame)
{
	bool used;
	u32 i;

	for (i = 0; i < WORLD_HELD; i++) {
		counted->is_held_since[i] =
			counted->is_held[i] && counted->held[i].object == frame;
		if (counted->is_held_since[i])
			check_told(); /* who asks knows of it */
	}
	used = count_query(&counted->count, frame);
	for (i = 0; i < WORLD_HELD; i++)
		CHECK_ASSERT(used || !counted->is_held_since[i],
		             "N4: a reference held all through a query is not denied");
}

static void tick(void *arg)
{
	u32 cpu = (u32)(uintptr_t)arg;
	u32 i;

	for (i = 0; i < TICKS; i++)
		count_tick(&counted->count, check_cpu(cpu));
}

void count_world_ticks(void)
{
	u32 cpu;

	if (!counted->c->scheme->tick)
		return;
	for (cpu = 0; cpu < host_nr_cpus(); cpu++)
		check_task("ticks", cpu, tick, (void *)(uintptr_t)cpu);
}

static bool freeze_at_last(u32 frame)
{
	u32 i, cpu;

	for (i = 0; i < FREEZE_TRIES; i++) {
		if (count_freeze(&counted->count, frame))
			return true;
		for (cpu = 0; cpu < host_nr_cpus(); cpu++) {
			check_alone_on(cpu);
			count_tick(&counted->count, check_cpu(cpu));
		}
		check_alone_on(0);
	}
	return false;
}

static void give_back_all(void)
{
	struct count_held held[WORLD_HELD];
	u32 nr = 0, i;

	for (i = 0; i < WORLD_HELD; i++)
		if (counted->is_held[i])
			held[nr++] = counted->held[i];
	for (i = 0; i < WORLD_FRAMES && counted->c->scheme->counts; i++)
		CHECK_ASSERT(count_sum(&counted->count, i) == counted->nr_on[i],
		             "N5: the sum is what is held");
	count_check(&counted->count, held, nr);
	for (i = 0; i < WORLD_HELD; i++)
		if (counted->is_held[i])
			count_world_unref(i);
}

void count_world_finish(const void *arg)
{
	u32 f;

	(void)arg;
	CHECK_ASSERT(counted->frozen_under == 0, "N2: nobody held what was frozen");
	check_gone();
	give_back_all();
	count_check(&counted->count, NULL, 0);
	for (f = 0; f < WORLD_FRAMES; f++) {
		CHECK_ASSERT(counted->nr_on[f] == 0, "the readers gave all back");
		CHECK_ASSERT(count_sum(&counted->count, f) == 0,
		             "N5: nothing is counted that nobody holds");
		if (!counted->c->scheme->counts)
			continue;
		CHECK_ASSERT(counted->owned[f] || freeze_at_last(f),
		             "a frame that nobody holds can be frozen (a leak)");
	}
}

void count_world_add(struct check_list *list, const char *scenario,
                     const struct count_scheme *scheme, const struct count_case *like,
                     u32 nr_cpus, void (*setup)(const void *))
{
	struct count_case *mine = malloc(sizeof(*mine));
	struct check_case one = { .scenario = scenario,
		                  .scheme = scheme->name,
		                  .deep = like->deep };

	CHECK_ASSERT(mine, "memory for the list of cases");
	*mine = *like; /* as long as the list: to the end of the program */
	mine->scheme = scheme;
	one.run = (struct check_scenario){ .name = scenario,
		                           .nr_cpus = nr_cpus,
		                           .arg = mine,
		                           .setup = setup,
		                           .finish = count_world_finish };
	check_list_add(list, &one);
}
