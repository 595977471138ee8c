/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The tiny arena and its oracle. See check/arena_world.h. */
#include "check/arena_short.h"

#define WORLD_GENERATION 7u
#define WORLD_SERVICE_TID 42u

struct world *world;

/* The file's block 1 is the neighbour of its block 0. */
#define WORLD_NEXT 1u
/* Tables have up to 16 words here: their home is in these bits of the hash. */
#define HOME_SHIFT 60

/* The scanned gate's table has two sets; a hazard context has all its slots. */
static u32 world_nr_entries(u32 scheme)
{
	return scheme == ARENA_HAZARD ? ARENA_HAZARD_SLOTS : 2 * CONTEXT_WAYS;
}

static void *world_alloc(u64 bytes)
{
	void *p = host_alloc(bytes, 64);

	CHECK_ASSERT(p, "memory for the world");
	return p;
}

/* The next block after block that has block a's home, or one in the other half of each
 * table. */
static u64 world_find_block(u64 block, bool same_home)
{
	u64 a = block_hash(block_id(WORLD_FILE, 0));
	u64 other;

	do {
		block++;
		other = block_hash(block) ^ a;
	} while (same_home ? other >> HOME_SHIFT != 0 : other >> 63 == 0);
	return block;
}

/* A block that has block a's home and, in a pte, its tag: one in about 2^23. */
static u64 world_find_twin(void)
{
	static u64 twin;
	u64 a = block_hash(block_id(WORLD_FILE, 0));

	if (!twin)
		for (twin = block_id(WORLD_FILE, WORLD_NEXT);
		     (block_hash(twin) ^ a) >> HOME_SHIFT != 0 ||
		     context_tag(block_hash(twin)) != context_tag(a);)
			twin++;
	return twin;
}

static u64 world_tag(u64 block)
{
	return translation_tag(block_hash(block), block);
}

/* Is block's second bucket another one than its first? */
static bool world_has_second(u64 block)
{
	return (translation_second_hash(block) ^ block_hash(block)) >> HOME_SHIFT >>
	               1 !=
	       0; /* two words in a bucket */
}

/* Finds the next block of the file, and the one of the other file, that have one home and one
 * tag in the translation. In each file one block has a given tag, for the hash is odd. */
static void world_find_alias(u64 *ret_alias, u64 *ret_aliased)
{
	u32 inverse = 1, index, i;
	u64 one, other, wanted;

	for (i = 0; i < 5; i++) /* Newton: each turn doubles the right bits */
		inverse *= 2 - (u32)block_hash(1) * inverse;
	for (index = WORLD_NEXT + 1;; index++) {
		one = block_id(WORLD_FILE, index);
		wanted = world_tag(one) ^ world_tag(block_id(WORLD_OTHER, 0));
		other = block_id(WORLD_OTHER, (u32)(wanted >> 32) * inverse);
		if (world_has_second(one) && world_has_second(other) &&
		    world_tag(one) == world_tag(other) &&
		    (block_hash(one) ^ block_hash(other)) >> HOME_SHIFT == 0)
			break;
	}
	*ret_alias = other;
	*ret_aliased = one;
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
		check_name(&a->frames[i].pins, 8, "frame[%u].pins", i);
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
	check_name(a->visits, WORLD_FRAMES, "visits");
	check_name(a->posted, ARENA_MAX_CONTEXTS, "posted");
	check_name(world->disk, sizeof(world->disk), "disk");
	check_name(&world->disk_size, 8, "disk_size");
	check_name(&world->leases_lock, 8, "leases_lock");
	check_name(&world->wake, 8, "eventfd");
}

static void world_name_reader(const struct world_reader *r)
{
	const struct context_memory *m = r->table.memory;
	u32 i;

	for (i = 0; i < world->arena.nr_entries; i++)
		check_name(&r->table.entries[i], 8, "entry[%u][%u]", r->number, i);
	check_name(m->counters, sizeof(m->counters), "counter[%u]", r->number);
	check_name(&m->nr_pinned, 8, "nr_pinned[%u]", r->number);
	check_name(m->ring.slots, sizeof(m->ring.slots), "hint[%u]", r->number);
	check_name(&m->ring.head, 8, "head[%u]", r->number);
	check_name(&m->ring.tail, 8, "tail[%u]", r->number);
}

/* The reply: from here on the reader may use its memory. */
static void world_tell(void *ctx, u32 place)
{
	const struct arena *a = &world->arena;
	struct world_reader *r = ctx;

	CHECK_ASSERT(place < a->nr_contexts &&
	                     a->contexts[place].memory == r->table.memory,
	             "K2: a context is on the walk list when its reader is told");
	r->place = place;
	r->told = true;
}

void world_join(struct world_reader *r)
{
	u32 place = cache_join(&world->arena, &r->table, world_tell, r);

	CHECK_ASSERT(place == r->place && r->told, "O24: joined, and told where");
}

void world_leave(struct world_reader *r, bool closed)
{
	const struct arena *a = &world->arena;

	arena_leave(&world->arena, r->place);
	CHECK_ASSERT(r->place >= a->nr_contexts || !a->contexts[r->place].memory,
	             "K2: a context that left is not on the walk list");
	/* munmap(). A reader that was killed may have stores on their way to its memory. */
	if (closed)
		check_poison(r->table.memory, arena_context_bytes(a->nr_entries, 1));
}

static void world_make_reader(u32 number, const struct arena_case *c)
{
	struct arena *a = &world->arena;
	struct world_reader *r = &world->readers[number];
	void *memory = world_alloc(arena_context_bytes(a->nr_entries, 1));

	r->number = number;
	arena_context_table(&r->table, memory);
	context_init(&r->context, a, memory, world->alive_value, a->nr_entries);
	world_name_reader(r);
	if (number < c->nr_joined) { /* long ago, before the schedule begins */
		r->place = arena_join(a, &r->table);
		r->told = true;
	}
}

static void world_make_arena(const struct arena_case *c)
{
	struct arena_shape shape = { WORLD_FRAMES, WORLD_FILES,
		                     world_nr_entries(c->scheme), c->scheme,
		                     c->barrier };
	u64 control_bytes = arena_control_bytes(&shape);
	u64 data_bytes = (u64)WORLD_FRAMES << BLOCK_SHIFT;
	void *control = world_alloc(control_bytes);
	void *data = world_alloc(data_bytes);
	void *shared = world_alloc(arena_shared_bytes(&shape));

	arena_format(control, &shape, WORLD_GENERATION);
	CHECK_ASSERT(arena_open(&world->arena, control, control_bytes, data, data_bytes,
	                        shared),
	             "an arena as it was made");
	world->arena.contexts = world->walk;
	for (u32 i = 0; i < 2; i++)
		batch_init(&world->batches[i], i + 1);
	world->alive_value = (u64)WORLD_GENERATION << 32 | WORLD_SERVICE_TID;
	host_store_release(&world->arena.header->alive, world->alive_value);
	world->space = &world->arena.files[0];
	file_proof_admit(world->space, WORLD_FILE, WORLD_FILE_BYTES);
	file_proof_admit(&world->arena.files[1], WORLD_OTHER, WORLD_FILE_BYTES);
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
	world->next = block_id(WORLD_FILE, WORLD_NEXT);
	world->twin = world_find_twin();
	world_find_alias(&world->alias, &world->aliased);
	for (i = 0; i < WORLD_WORDS; i++) {
		world->disk[0][i] = world_truth(world->c, i);
		world->disk[1][i] = world_truth(world->next, i);
	}
	world->disk_size = WORLD_FILE_BYTES;
	world_name_words();
	world->inlined = c->inlined;
	world->nr_readers = c->nr_readers;
	for (i = 0; i < c->nr_readers; i++)
		world_make_reader(check_is_flipped(CHECK_FLIP_ORDER) &&
		                                  c->nr_readers == c->nr_joined
		                          ? c->nr_readers - 1 - i
		                          : i,
		                  c);
	world->owned[WORLD_FIRST] = world->owned[WORLD_SECOND] = true;
	world->owned[WORLD_THIRD] = true;
	world_fill(WORLD_FIRST, world->a);
	world_fill(WORLD_SECOND, world->b);
}

bool world_is_set(void *arg)
{
	return *(bool *)arg;
}

/* ---- oracle ---- */

bool world_is_held(u32 frame)
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
	u32 i, others = 0;

	for (i = 0; i < WORLD_HOLDS; i++)
		others += h[i].held && h[i].word != word;
	CHECK_ASSERT(r->context.scheme != ARENA_SCANNED || others < r->context.quota,
	             "C9: no more entries are pinned than the quota");

	while (h < r->holds + WORLD_HOLDS && h->held)
		h++;
	CHECK_ASSERT(h < r->holds + WORLD_HOLDS, "room for another hold");
	CHECK_ASSERT(frame >= FRAME_FIRST && frame < WORLD_FRAMES,
	             "a pin is of a frame that exists");
	CHECK_ASSERT(!world->owned[frame], "K1: no pin on a frame that was taken");
	*h = (struct world_hold){ block, word, frame, true };
	check_note("has pinned frame %u", frame);
	return h;
}

bool world_leads(u64 block, u32 frame)
{
	return translation_find_exact(&world->arena.translation, block, frame);
}

static struct cache_file world_file(u64 block)
{
	u32 id = block_file(block);

	/* An id says which entry it is for: file_proof_next_id(). */
	return (struct cache_file){ &world->arena.files[(id - 1) % WORLD_FILES], id };
}

/* ---- the service's side ---- */

/* The service was just told that frame, which held block, is taken or not. */
static bool world_taken(u32 frame, u64 block, bool taken)
{
	const struct frame *f = &world->arena.frames[frame];

	CHECK_ASSERT(world_leads(block, frame) == !taken,
	             "T1: refused, so led to as before; taken, so not");
	CHECK_ASSERT(taken || host_load_relaxed(&f->pins) == block,
	             "K7: refused, so it takes pins as before");
	if (!taken)
		return false;
	check_note("has taken frame %u", frame);
	CHECK_ASSERT(!world_is_held(frame), "K1: a pinned frame was taken");
	CHECK_ASSERT(!world->owned[frame], "a frame is taken once");
	CHECK_ASSERT(host_load_relaxed(&f->block) == BLOCK_NONE &&
	                     host_load_relaxed(&f->state) == FRAME_FREE,
	             "F3: a frame that was taken is free and has no name");
	world->owned[frame] = true;
	return true;
}

bool world_take(u32 frame)
{
	struct arena *a = &world->arena;
	u64 block = host_load_relaxed(&a->frames[frame].block);

	return world_taken(frame, block,
	                   a->counts ? arena_take(a, frame)
	                             : batch_take_one(a, &world->batches[0], frame));
}

enum batch_end world_next(struct batch *b, u32 *ret_frame)
{
	struct arena *a = &world->arena;
	u64 block = b->at < b->nr
	                    ? host_load_relaxed(&a->frames[b->frames[b->at]].block)
	                    : BLOCK_NONE;
	enum batch_end end = batch_next(a, b, ret_frame);

	if (end == BATCH_TAKEN || end == BATCH_REFUSED)
		world_taken(*ret_frame, block, end == BATCH_TAKEN);
	return end;
}

void world_write(u32 frame, u64 block)
{
	u32 i;

	for (i = 0; i < WORLD_WORDS; i++)
		host_store_relaxed(&world_bytes(frame)[i], world_truth(block, i));
}

void world_fill_begin(u32 frame, u64 block)
{
	cache_fill_begin(&world->arena, frame);
}

bool world_fill_end(u32 frame, u64 block)
{
	struct cache_file f = world_file(block);
	bool done;

	world->owned[frame] = false;
	done = cache_fill_end(&world->arena, &f, frame, block, true);
	if (!done)
		world->owned[frame] = true; /* nobody was led here */
	return done;
}

void world_fill(u32 frame, u64 block)
{
	world_fill_begin(frame, block);
	world_write(frame, block);
	CHECK_ASSERT(world_fill_end(frame, block), "a file that stands is cached");
	CHECK_ASSERT(world_leads(block, frame), "T1: published, so led to");
}

bool world_refill(u32 frame, u64 block)
{
	if (!world_take(frame))
		return false;
	world_fill(frame, block);
	return true;
}

/* ---- a reader's side ---- */

bool world_writer_came(void)
{
	if (world->writer_open)
		check_told();
	return world->writer_open;
}

void world_draw_ways(void)
{
	check_draw(&world->short_looks, 1u << WORLD_LOOKS);
}

/* One reader goes the other way round, so that both ways meet in each schedule. */
bool world_is_short(const struct world_reader *r, u32 look)
{
	return (world->short_looks >> look ^ r->number) & 1;
}

bool world_read_drawn(struct world_reader *r, u64 block, u32 look)
{
	return world_read(r, block, world_is_short(r, look));
}

/* cache_read() asks for what is not cached; these reads want nothing from the file. What was
 * copied all the same is thrown away. */
static bool world_read_gap(void *ctx, u8 *to, u64 n, u64 offset)
{
	struct world_reader *r = ctx;

	(void)n, (void)offset;
	r->nr_thrown += *(u64 *)to != WORLD_NOTHING;
	return false;
}

bool world_read(struct world_reader *r, u64 block, bool home)
{
	bool late = world_writer_came();
	struct cache_file f = world_file(block);
	u64 got[WORLD_WORDS] = { WORLD_NOTHING }, hits = 0;
	struct cache_read wanted = { &f,
		                     (u8 *)got,
		                     WORLD_BYTES,
		                     (u64)block_index(block) << BLOCK_SHIFT,
		                     world_read_gap,
		                     r };
	u32 i;

	if (!(home ? arena_short_read(&r->context, &f, block, got, WORLD_BYTES)
	           : cache_read(&r->context, &wanted, &hits)))
		return false;
	CHECK_ASSERT(!late, "S1: a read begun after the writer came used the cache");
	for (i = 0; i < WORLD_WORDS; i++)
		CHECK_ASSERT(got[i] == world_truth(block, i),
		             "C4: bytes that are not the block's");
	return true;
}

struct world_hold *world_pin(struct world_reader *r, u64 block)
{
	bool late = world_writer_came();
	struct context *c = &r->context;
	struct cache_file f = world_file(block);
	struct world_hold *h;
	u64 *word;
	u32 frame;

	if (!arena_short_pin(c, &f, block, &frame, &word) &&
	    cache_pin(c, &f, block, &frame, &word) != 0)
		return NULL;
	h = world_hold(r, block, frame, word);
	CHECK_ASSERT(!late, "S1: a pin begun after the writer came used the cache");
	world_look(h);
	return h;
}

int world_refused(struct world_reader *r, u64 block)
{
	const u64 *full = &r->table.memory->counters[CONTEXT_FULL];
	struct cache_file f = world_file(block);
	u64 nr = host_load_relaxed(full), *word;
	u32 nr_pinned = context_nr_pinned(&r->context), frame;
	int err;

	CHECK_ASSERT(!arena_short_pin(&r->context, &f, block, &frame, &word),
	             "what is full takes no pin");
	err = cache_pin(&r->context, &f, block, &frame, &word);
	CHECK_ASSERT(err != 0, "what is full takes no pin");
	CHECK_ASSERT(context_nr_pinned(&r->context) == nr_pinned,
	             "C5: a pin that is refused leaves no count");
	CHECK_ASSERT(host_load_relaxed(full) == nr + 1,
	             "a pin that is refused for want of room is counted as such");
	return err;
}

void world_look(const struct world_hold *h)
{
	u32 i;

	for (i = 0; i < WORLD_WORDS; i++)
		CHECK_ASSERT(check_load_held(&world_bytes(h->frame)[i]) ==
		                     world_truth(h->block, i),
		             "C1, C6: pinned bytes are the block's, and stay so");
}

void world_unpin(struct world_reader *r, struct world_hold *h)
{
	h->held = false;
	arena_short_unpin(&r->context, h->word);
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

static void world_check_bytes(u32 frame)
{
	const struct frame *f = &world->arena.frames[frame];
	u32 i;

	for (i = 0; i < WORLD_WORDS && f->state == FRAME_CACHED; i++)
		CHECK_ASSERT(world_bytes(frame)[i] == world_truth(f->block, i),
		             "O20: a cached frame has its block's bytes");
}

static void world_check_reader(const struct world_reader *r)
{
	context_check(&r->context);
	CHECK_ASSERT(r->table.memory->counters[CONTEXT_RETRIES] == r->nr_thrown,
	             "C4: each copy that was thrown away is counted");
}

void world_check(void)
{
	u32 i;

	arena_check(&world->arena);
	for (i = FRAME_FIRST; i < WORLD_FRAMES; i++)
		world_check_bytes(i);
	for (i = 0; i < world->nr_readers; i++)
		if (!world->dead[i])
			world_check_reader(&world->readers[i]);
}

void world_check_unpinned(const struct world_reader *r)
{
	CHECK_ASSERT(context_nr_pinned(&r->context) == 0,
	             "O23: the reader has given all pins back");
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
	/* By the fence that each is shipped with; the other one is in the name. */
	static const char *const schemes[ARENA_NR_SCHEMES][ARENA_NR_BARRIERS] = {
		{ "lodic-lock", "lodic" },
		{ "atomic", NULL },
		{ "frozen", NULL },
		{ "hazard", "hazard-light" },
	};
	static const char *const inlined[] = { "inline-lock", "inline" };
	struct check_case one = {
		.scenario = scenario,
		.scheme = c->inlined ? inlined[c->barrier]
		                     : schemes[c->scheme][c->barrier],
		.run = { scenario, nr_cpus, c, setup, finish },
		.deep = deep,
	};

	check_list_add(list, &one);
}

void check_cases_arena(struct check_list *list)
{
	arena_read_cases(list);
	arena_view_cases(list);
	arena_pin_cases(list);
	arena_batch_cases(list);
	arena_lease_cases(list);
	arena_life_cases(list);
	arena_hint_cases(list);
	arena_move_cases(list);
	arena_full_cases(list);
}
