/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The tiny arena and its oracle. See check/arena_world.h. */
#include "check/arena_world.h"

#include "core/cache/context_rival.h"

#define WORLD_GENERATION 7u
#define WORLD_SERVICE_TID 42u

struct world *world;

/* Lodic's table is a single set; a hazard context has all its slots. */
static u32 world_nr_entries(u32 scheme)
{
	return scheme == ARENA_HAZARD ? ARENA_HAZARD_SLOTS : CONTEXT_WAYS;
}

static void *world_alloc(u64 bytes)
{
	void *p = host_alloc(bytes, 64);

	CHECK_ASSERT(p, "memory for the world");
	return p;
}

/* The next block after block whose entry has the home of block a's, or has not. */
static u64 world_find_block(u64 block, bool same_home)
{
	u32 shift = 61; /* eight entries */
	u64 home = block_hash(block_id(WORLD_FILE, 0)) >> shift;

	do
		block++;
	while ((block_hash(block) >> shift == home) != same_home);
	return block;
}

static void world_name_words(void)
{
	const struct arena *a = &world->arena;
	u32 i;

	check_name(&a->header->alive, 8, "alive");
	check_name(&a->header->sleeping, 8, "sleeping");
	for (i = 0; i < WORLD_FRAMES; i++) {
		check_name(&a->frames[i].seq, 8, "frame[%u].seq", i);
		check_name(&a->frames[i].block, 8, "frame[%u].block", i);
		check_name(&a->frames[i].state, 8, "frame[%u].state", i);
		check_name(world_bytes(i), WORLD_BYTES, "frame[%u].bytes", i);
		if (a->counts)
			check_name(&a->counts[(u64)i * COUNT_STRIDE], 8, "count[%u]",
			           i);
	}
	for (i = 0; i < WORLD_FILES; i++) {
		check_name(&a->files[i].live, 8, "file[%u].live", i);
		check_name(&a->files[i].size, 8, "file[%u].size", i);
	}
	for (i = 0; i < a->header->nr_words; i++)
		check_name(&a->translation.words[i], 8, "translation[%u]", i);
	check_name(world->disk, sizeof(world->disk), "disk");
	check_name(&world->wake, 8, "eventfd");
}

static void world_name_reader(const struct world_reader *r)
{
	const struct context_memory *m = r->table.memory;
	u32 i;

	for (i = 0; i < world->arena.nr_entries; i++)
		check_name(&r->table.entries[i], 8, "entry[%u][%u]", r->number, i);
	check_name(r->table.visits, WORLD_FRAMES, "visits[%u]", r->number);
	check_name(m->counters, sizeof(m->counters), "counter[%u]", r->number);
	check_name(m->hints, sizeof(m->hints), "hint[%u]", r->number);
	check_name(&m->head, 8, "head[%u]", r->number);
	check_name(&m->tail, 8, "tail[%u]", r->number);
}

void world_join(struct world_reader *r)
{
	r->place = arena_join(&world->arena, &r->table);
	CHECK_ASSERT(r->place != FRAME_NONE, "a place for the reader");
}

static void world_make_reader(u32 number, const struct arena_case *c)
{
	struct arena *a = &world->arena;
	struct world_reader *r = &world->readers[number];
	void *memory = world_alloc(arena_context_bytes(a->nr_frames, a->nr_entries));

	r->number = number;
	context_table_at(&r->table, memory, a->nr_entries);
	context_init(&r->context, a, memory, world->alive_value, true);
	world_name_reader(r);
	if (number < c->nr_joined)
		world_join(r);
}

static void world_make_arena(const struct arena_case *c)
{
	struct arena_shape shape = { WORLD_FRAMES, WORLD_FILES,
		                     world_nr_entries(c->scheme), c->scheme };
	u64 control_bytes = arena_control_bytes(&shape);
	u64 data_bytes = (u64)WORLD_FRAMES << BLOCK_SHIFT;
	u64 count_bytes = arena_count_bytes(&shape);
	void *control = world_alloc(control_bytes);
	void *data = world_alloc(data_bytes);
	u64 *counts = count_bytes ? world_alloc(count_bytes) : NULL;

	arena_format(control, &shape, WORLD_GENERATION);
	CHECK_ASSERT(arena_view(&world->arena, control, control_bytes, data, data_bytes,
	                        counts),
	             "an arena as it was made");
	world->arena.contexts = world->walk;
	world->alive_value = (u64)WORLD_GENERATION << 32 | WORLD_SERVICE_TID;
	host_store_release(&world->arena.header->alive, world->alive_value);
	world->space = &world->arena.files[0];
	file_proof_admit(world->space, WORLD_FILE, 4 * BLOCK_BYTES);
}

void world_setup(const struct arena_case *c)
{
	u32 i;

	world = world_alloc(sizeof(*world));
	world_make_arena(c);
	world->a = block_id(WORLD_FILE, 0);
	world->b = world_find_block(world->a, true);
	world->c = world_find_block(world->a, false);
	world->d = world_find_block(world->c, false);
	for (i = 0; i < WORLD_WORDS; i++) {
		world->disk[0][i] = world_truth(world->c, i);
		world->disk[1][i] = world_truth(world->d, i);
	}
	world_name_words();
	world->nr_readers = c->nr_readers;
	for (i = 0; i < c->nr_readers; i++)
		world_make_reader(i, c);
	world->owned[WORLD_FIRST] = world->owned[WORLD_SECOND] = true;
	world_fill(WORLD_FIRST, world->a);
	world_fill(WORLD_SECOND, world->b);
}

bool world_is_set(void *arg)
{
	return *(bool *)arg;
}

/* ---- oracle ---- */

static bool world_is_held(u32 frame)
{
	u32 i, k;

	for (i = 0; i < world->nr_readers; i++)
		for (k = 0; k < WORLD_HOLDS && !world->dead[i]; k++)
			if (world->readers[i].holds[k].held &&
			    world->readers[i].holds[k].frame == frame)
				return true;
	return false;
}

/* A reader was just told that it has frame pinned, with block in it. */
static struct world_hold *world_hold(struct world_reader *r, u64 block, u32 frame,
                                     u64 *word)
{
	struct world_hold *h = r->holds;

	while (h < r->holds + WORLD_HOLDS && h->held)
		h++;
	CHECK_ASSERT(h < r->holds + WORLD_HOLDS, "room for another hold");
	CHECK_ASSERT(frame >= FRAME_FIRST && frame < WORLD_FRAMES,
	             "a pin is of a frame that exists");
	CHECK_ASSERT(!world->owned[frame], "I1: no pin on a frame that was taken");
	*h = (struct world_hold){ block, word, frame, true };
	check_note("has pinned frame %u", frame);
	return h;
}

/* ---- the service's side ---- */

bool world_take(u32 frame)
{
	bool taken = arena_take(&world->arena, frame);

	if (!taken)
		return false;
	check_note("has taken frame %u", frame);
	CHECK_ASSERT(!world_is_held(frame), "I1: a pinned frame was taken");
	CHECK_ASSERT(!world->owned[frame], "a frame is taken once");
	world->owned[frame] = true;
	return true;
}

static void world_write(u32 frame, u64 block)
{
	u32 i;

	for (i = 0; i < WORLD_WORDS; i++)
		host_store_relaxed(&world_bytes(frame)[i], world_truth(block, i));
}

void world_fill(u32 frame, u64 block)
{
	arena_fill_begin(&world->arena, frame);
	if (!MUTANT(PUBLISH_BEFORE_BYTES))
		world_write(frame, block);
	world->owned[frame] = false;
	CHECK_ASSERT(arena_publish(&world->arena, frame, block),
	             "the translation has room");
	if (MUTANT(PUBLISH_BEFORE_BYTES))
		world_write(frame, block);
}

bool world_refill(u32 frame, u64 block)
{
	if (!world_take(frame))
		return false;
	world_fill(frame, block);
	return true;
}

/* ---- a reader's side ---- */

static bool world_vouch(const struct world_reader *r, u64 block)
{
	return context_vouch(&r->context, world->space, block_file(block));
}

bool world_read(struct world_reader *r, u64 block, bool home)
{
	bool late = world->writer_open;
	u64 got[WORLD_WORDS];
	bool ok;
	u32 i;

	ok = home ? context_read_home(&r->context, block, 0, got, WORLD_BYTES)
	          : context_read(&r->context, block, 0, got, WORLD_BYTES);
	if (!ok || !world_vouch(r, block))
		return false;
	CHECK_ASSERT(!late, "S1: a read begun after the writer came used the cache");
	for (i = 0; i < WORLD_WORDS; i++)
		CHECK_ASSERT(got[i] == world_truth(block, i),
		             "C4: bytes that are not the block's");
	return true;
}

static bool world_pin_word(struct world_reader *r, u64 block, u32 *ret_frame,
                           u64 **ret_word)
{
	struct context *c = &r->context;

	if (c->scheme == ARENA_SCANNED) {
		if (context_pin_home(c, block, ret_frame, ret_word))
			return true;
	} else if (context_pin_word_home(c, block, ret_frame, ret_word)) {
		return true;
	}
	return context_pin(c, block, ret_frame, ret_word) == 0;
}

struct world_hold *world_pin(struct world_reader *r, u64 block)
{
	bool late = world->writer_open;
	struct world_hold *h;
	u64 *word;
	u32 frame;

	if (!world_pin_word(r, block, &frame, &word))
		return NULL;
	h = world_hold(r, block, frame, word);
	if (!world_vouch(r, block)) {
		world_unpin(r, h);
		return NULL;
	}
	CHECK_ASSERT(!late, "S1: a pin begun after the writer came used the cache");
	world_look(h);
	return h;
}

void world_look(const struct world_hold *h)
{
	u32 i;

	for (i = 0; i < WORLD_WORDS; i++)
		CHECK_ASSERT(host_load_relaxed(&world_bytes(h->frame)[i]) ==
		                     world_truth(h->block, i),
		             "C1: pinned bytes changed");
}

void world_unpin(struct world_reader *r, struct world_hold *h)
{
	h->held = false;
	context_unpin(&r->context, h->word);
}

void world_visit(struct world_reader *r, u64 block)
{
	struct world_hold *h = world_pin(r, block);

	if (!h)
		return;
	world_look(h);
	world_unpin(r, h);
}

/* ---- after a schedule ---- */

void world_check(void)
{
	u32 i;

	arena_check(&world->arena);
	for (i = 0; i < world->nr_readers; i++)
		if (!world->dead[i])
			context_check(&world->readers[i].context);
}

void world_take_all(void)
{
	u32 frame;

	for (frame = FRAME_FIRST; frame < WORLD_FRAMES; frame++)
		if (!world->owned[frame])
			CHECK_ASSERT(world_take(frame),
			             "a frame that nobody has pinned can be taken");
	arena_check(&world->arena);
}

void arena_add(struct check_list *list, const char *scenario,
               const struct arena_case *c, u32 nr_cpus, void (*setup)(const void *),
               void (*finish)(const void *), bool deep)
{
	static const char *const schemes[ARENA_NR_SCHEMES] = { "lodic", "atomic",
		                                               "frozen", "hazard" };
	struct check_case one = {
		.scenario = scenario,
		.scheme = schemes[c->scheme],
		.run = { scenario, nr_cpus, c, setup, finish },
		.deep = deep,
	};

	check_list_add(list, &one);
}

void check_cases_arena(struct check_list *list)
{
	arena_read_cases(list);
	arena_pin_cases(list);
	arena_lease_cases(list);
	arena_life_cases(list);
	arena_hint_cases(list);
}
