/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* An arena, its readers, and what they do: sim/cache/world.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "host/random.h"
#include "sim/cache/way.h"

#define FILE_ID 1u
#define GENERATION 7u
#define ALIVE (((u64)GENERATION << 32) | 42u) /* any thread's id will do */
/* What a miss costs its reader: a read from the kernel, cycles. Assumed, 2 us. */
#define MISS_CYCLES 4600u
/* Readers note a visit three times. So many readers see to that in one pass. */
#define READERS_ENOUGH 4u

const char *cache_what_name(enum cache_what what)
{
	static const char *const names[CACHE_NR_WHATS] = { "read", "pin", "pair",
		                                           "evict" };

	return names[what];
}

/* ---- making it ---- */

static void *world_alloc(u64 bytes)
{
	return host_alloc(bytes, 2 * CACHE_LINE);
}

static void world_name(const struct cache_world *w)
{
	const struct arena *a = &w->arena;
	struct arena_header *h = a->header;

	sim_name(h, sizeof(*h), "header");
	sim_name(&h->alive, 8, "alive mark");
	sim_name(&h->sleeping, 8, "sleeping");
	sim_name(a->files, a->nr_files * sizeof(*a->files), "live word");
	sim_name(a->frames, a->nr_frames * sizeof(*a->frames), "frame");
	sim_name(a->translation.words, h->nr_words * 8, "translation");
	sim_name(a->data, (u64)a->nr_frames << BLOCK_SHIFT, "data");
	sim_name(a->visits, a->nr_frames, "visits");
	sim_name(a->posted, ARENA_MAX_CONTEXTS, "hint marks");
	if (a->counts)
		sim_name(a->counts, (u64)a->nr_frames * COUNT_STRIDE * 8, "counter");
}

static int world_make_arena(struct cache_world *w)
{
	const struct cache_way *way = w->setup->way;
	struct arena_shape shape = { w->setup->nr_blocks + FRAME_FIRST, 1, 0,
		                     way->scheme, way->barrier };
	u64 control_bytes, data_bytes = (u64)shape.nr_frames << BLOCK_SHIFT;
	void *control, *data, *shared;

	arena_shape_default(&shape);
	control_bytes = arena_control_bytes(&shape);
	control = world_alloc(control_bytes);
	data = world_alloc(data_bytes);
	shared = world_alloc(arena_shared_bytes(&shape));
	if (!control || !data || !shared)
		return -ENOMEM;
	arena_format(control, &shape, GENERATION);
	if (!arena_open(&w->arena, control, control_bytes, data, data_bytes, shared))
		host_fail("an arena as it was made", __FILE__, __LINE__);
	w->arena.contexts = w->walk;
	host_store_release(&w->arena.header->alive, ALIVE);
	file_proof_admit(&w->arena.files[0], FILE_ID, (u64)1 << 40);
	w->file = (struct cache_file){ &w->arena.files[0], FILE_ID };
	world_name(w);
	return 0;
}

static int world_make_reader(struct cache_world *w, u32 number, u64 seed)
{
	struct cache_reader *r = &w->readers[number];
	struct arena *a = &w->arena;
	u64 bytes = arena_context_bytes(a->nr_entries, a->nr_entries);
	struct context_memory *m = world_alloc(bytes);
	struct context_table t;

	r->buffer = world_alloc(BLOCK_BYTES);
	if (!m || !r->buffer)
		return -ENOMEM;
	sim_name(r->buffer, BLOCK_BYTES, "buffers");
	sim_name(m, bytes, a->scheme == ARENA_HAZARD ? "slots" : "ptes");
	sim_name(&m->ring, sizeof(m->ring), "hint ring");
	sim_name(m->counters, sizeof(*m) - sizeof(m->ring), "context");
	arena_context_table(&t, m);
	r->place = arena_join(a, &t);
	r->world = w;
	r->number = number;
	r->random = random_mix(seed + number);
	context_init(&r->context, a, m, ALIVE, a->nr_entries);
	return r->place == FRAME_NONE ? -ENOMEM : 0;
}

/* Zipf's law over the wanted blocks: a rank's threshold is the share of all ranks up to it.
 * Which block has which rank is drawn, so popular blocks lie among others. */
static void world_make_law(struct cache_world *w, u64 seed)
{
	double sum = 0, all = 0;
	u64 random = random_mix(~seed);
	u32 i;

	for (i = 0; i < w->nr_wanted; i++)
		all += pow(i + 1, -CACHE_ZIPF);
	for (i = 0; i < w->nr_wanted; i++) {
		sum += pow(i + 1, -CACHE_ZIPF);
		w->popular[i] = (u64)(sum / all * 0x1p63);
	}
	w->popular[w->nr_wanted - 1] = ~(u64)0;
	for (i = 0; i < w->setup->nr_blocks; i++) {
		u32 other = (u32)(random_next(&random) % (i + 1));

		w->order[i] = w->order[other];
		w->order[other] = i;
	}
}

void cache_world_fill(struct cache_world *w, u32 frame, u32 block)
{
	struct arena *a = &w->arena;
	u64 *bytes = arena_frame_bytes(a, frame);

	cache_fill_begin(a, frame);
	host_copy(bytes, w->service_buffer, BLOCK_BYTES);
	if (!cache_fill_end(a, &w->file, frame, cache_block(w, block), true))
		host_fail("room for a block in the translation", __FILE__, __LINE__);
}

int cache_world_make(struct cache_world *w, const struct cache_setup *setup, u64 seed)
{
	u32 i, nr = setup->nr_blocks;
	int err;

	w->setup = setup;
	w->nr_wanted = setup->what == CACHE_EVICT ? nr / 2 : nr;
	w->passes = setup->nr_readers < READERS_ENOUGH ? READERS_ENOUGH : 1;
	w->readers = calloc(setup->nr_readers, sizeof(*w->readers));
	w->popular = calloc(nr, sizeof(*w->popular));
	w->order = calloc(nr, sizeof(*w->order));
	w->service_buffer = world_alloc(BLOCK_BYTES);
	if (!w->readers || !w->popular || !w->order || !w->service_buffer)
		return -ENOMEM;
	sim_name(w->service_buffer, BLOCK_BYTES, "buffers");
	world_make_law(w, seed);
	err = world_make_arena(w);
	for (i = 0; i < setup->nr_readers && !err; i++)
		err = world_make_reader(w, i, seed);
	if (!err && setup->way->make)
		err = setup->way->make(w);
	for (i = 0; i < nr && !err; i++)
		cache_world_fill(w, FRAME_FIRST + i, i);
	w->next_block = nr;
	return err;
}

void cache_world_free(struct cache_world *w)
{
	free(w->readers);
	free(w->popular);
	free(w->order);
	w->readers = NULL;
	w->popular = NULL;
	w->order = NULL;
}

/* ---- readers ---- */

/* The first rank whose threshold is above a random number. */
static u32 reader_draw(struct cache_reader *r)
{
	const struct cache_world *w = r->world;
	u64 at = random_next(&r->random) >> 1;
	u32 low = 0, high = w->nr_wanted - 1;

	while (low < high) {
		u32 middle = (low + high) / 2;

		if (w->popular[middle] > at)
			high = middle;
		else
			low = middle + 1;
	}
	return w->order[low];
}

static void reader_miss(struct cache_reader *r, u64 block)
{
	const struct arena *a = &r->world->arena;

	r->nr_missed++;
	context_bump(&r->context, CONTEXT_MISSES);
	sim_work(MISS_CYCLES);
	hint_post(&r->context.memory->ring, &r->context.memory->kept,
	          &a->posted[r->place], &a->header->sleeping, block, 1);
}

static bool reader_pin(struct cache_reader *r, u64 block, u32 work)
{
	const struct cache_way *way = r->world->setup->way;
	struct cache_pin pin;

	if (!way->pin(r, block, &pin))
		return false;
	context_bump(&r->context, CONTEXT_HITS);
	if (work)
		sim_work(work);
	way->unpin(r, &pin);
	return true;
}

/* cache_read() asks for what is not cached; these readers are told that there is nothing. */
static bool reader_gap(void *ctx, u8 *to, u64 n, u64 offset)
{
	(void)ctx, (void)to, (void)n, (void)offset;
	return false;
}

static bool reader_read(struct cache_reader *r, u64 block)
{
	struct cache_world *w = r->world;
	const struct cache_way *way = w->setup->way;
	struct context *c = &r->context;
	struct cache_read wanted = {
		&w->file,    r->buffer,
		BLOCK_BYTES, (u64)block_index(block) << BLOCK_SHIFT,
		reader_gap,  NULL
	};
	struct cache_pin pin;
	u64 hits;

	if (way->reads_uncounted) {
		if (!cache_read_home(c, &w->file, block, 0, r->buffer, BLOCK_BYTES) &&
		    !cache_read(c, &wanted, &hits))
			return false;
	} else {
		if (!way->pin(r, block, &pin))
			return false;
		host_copy(r->buffer, arena_frame_bytes(&w->arena, pin.frame),
		          BLOCK_BYTES);
		way->unpin(r, &pin);
	}
	context_bump(c, CONTEXT_HITS);
	return true;
}

static bool reader_step(struct cache_reader *r, u64 block)
{
	const struct cache_setup *s = r->world->setup;

	switch (s->what) {
	case CACHE_READ: return reader_read(r, block);
	case CACHE_PAIR: return reader_pin(r, block, 0);
	default: return reader_pin(r, block, s->work);
	}
}

/* Each reader begins elsewhere: together they would meet at every block. */
void cache_reader_pass(void *reader)
{
	struct cache_reader *r = reader;
	const struct cache_world *w = r->world;
	u32 nr = w->setup->nr_blocks;
	u32 first = (u32)((u64)nr * r->number / w->setup->nr_readers), i;

	for (i = 0; i < w->passes * nr; i++)
		if (!reader_step(r, cache_block(w, (first + i) % nr)))
			host_fail("a cached block", __FILE__, __LINE__);
}

void cache_reader_run(void *reader)
{
	struct cache_reader *r = reader;
	struct cache_world *w = r->world;
	bool misses = w->setup->what == CACHE_EVICT;
	u64 block;

	while (!sim_stopping() && !w->over) {
		if (misses && random_next(&r->random) % CACHE_COLD_PINS == 0) {
			/* Far from what the service fills by itself. */
			block = cache_block(w, (u32)random_next(&r->random) >> 4 |
			                               1u << 28);
			if (!reader_step(r, block))
				reader_miss(r, block);
			continue;
		}
		block = cache_block(w, reader_draw(r));
		if (reader_step(r, block))
			sim_op_done();
		else if (misses)
			reader_miss(r, block);
		else
			host_fail("a cached block", __FILE__, __LINE__);
	}
}
