/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What each promise of a read costs: one hot block of a small arena, 64 bytes of it, with one
 * promise more in each step. The texts are those of lodic/inline.h. The last step but two is
 * lodic_inline_copy() with its count, and the last two are pins.
 */
#include <string.h>

#include "bench/micro.h"
#include "core/cache/cache.h"
#include "lodic/inline.h"

#define PROMISE_FRAMES 16u
#define PROMISE_FILE 1u
#define PROMISE_ALIVE 7u
#define PROMISE_BYTES 64u

/* What a step does besides finding the block and copying. */
struct promises {
	bool found; /* false: the address is known */
	bool whole; /* no refill came between */
	bool fresh; /* no writer has the file */
	bool alive; /* the service lives */
	bool noted; /* for eviction */
	bool counted;
};

/* Each worker has its own: one reader, and a block that it has cached. */
struct promise_ground {
	struct lodic_inline_core core;
	struct lodic_inline_claim claim;
	struct context context;
	u64 block;
	bool made;
	u8 to[PROMISE_BYTES];
};

static __thread struct promise_ground ground;

static void *promise_alloc(u64 bytes)
{
	void *p = host_alloc(bytes, 4096);

	CHECK(p, "memory for a small arena");
	return p;
}

static void promise_make(u32 barrier)
{
	struct arena_shape shape = { .nr_frames = PROMISE_FRAMES,
		                     .nr_files = 1,
		                     .scheme = ARENA_SCANNED,
		                     .barrier = barrier };
	struct cache_file file;
	struct arena a = { 0 };
	u64 control_bytes;
	void *control;

	arena_shape_default(&shape);
	control_bytes = arena_control_bytes(&shape);
	control = promise_alloc(control_bytes);
	arena_format(control, &shape, 1);
	CHECK(arena_open(&a, control, control_bytes,
	                 promise_alloc((u64)PROMISE_FRAMES << BLOCK_SHIFT),
	                 (u64)PROMISE_FRAMES << BLOCK_SHIFT,
	                 promise_alloc(arena_shared_bytes(&shape))),
	      "an arena as it was made");
	host_store_release(&a.header->alive, PROMISE_ALIVE);
	file_proof_admit(&a.files[0], PROMISE_FILE, BLOCK_BYTES);
	file = (struct cache_file){ &a.files[0], PROMISE_FILE };
	ground.block = block_id(PROMISE_FILE, 0);
	cache_fill_begin(&a, FRAME_FIRST);
	CHECK(cache_fill_end(&a, &file, FRAME_FIRST, ground.block, true), "cached");
	context_init(&ground.context, &a,
	             promise_alloc(arena_context_bytes(a.nr_entries, a.nr_entries)),
	             PROMISE_ALIVE, a.nr_entries);
	memcpy(&ground.core, &ground.context, sizeof(ground.core));
	ground.claim = (struct lodic_inline_claim){ .live = &file.proof->live,
		                                    .id = PROMISE_FILE };
	ground.made = true;
}

static inline __attribute__((always_inline)) bool promise_read(const struct promises p,
                                                               size_t n)
{
	const struct lodic_inline_core *c = &ground.core;
	u32 frame = p.found ? lodic_inline_guess(c, lodic_inline_hash(ground.block))
	                    : FRAME_FIRST;
	const struct lodic_inline_frame *f = &c->frames[frame];
	u64 seq;

	if (p.found && frame >= c->nr_frames)
		return false;
	seq = p.whole ? LODIC_INLINE_LOAD_ACQUIRE(&f->seq) : 0;
	if (p.found && LODIC_INLINE_LOAD(&f->block) != ground.block)
		return false;
	if (seq & 1)
		return false;
	if (p.noted)
		lodic_inline_visit(c, frame);
	LODIC_INLINE_COPY(ground.to, c->data + ((u64)frame << BLOCK_SHIFT), n);
	if (p.whole) {
		LODIC_INLINE_FENCE_ACQUIRE();
		if (LODIC_INLINE_LOAD(&f->seq) != seq)
			return false;
	}
	if (p.fresh && LODIC_INLINE_LOAD_ACQUIRE(ground.claim.live) != ground.claim.id)
		return false;
	if (p.alive && LODIC_INLINE_LOAD(c->alive) != c->alive_value)
		return false;
	if (p.counted)
		lodic_inline_bump(c, LODIC_INLINE_HITS);
	return true;
}

/* A size that the compiler does not know. */
static size_t promise_bytes(void)
{
	size_t n = PROMISE_BYTES;

	__asm__ volatile("" : "+r"(n));
	return n;
}

static inline __attribute__((always_inline)) u64 promise_run(const struct promises p,
                                                             u64 nr)
{
	size_t n = promise_bytes();
	u64 nr_failed = 0;

	if (!ground.made)
		promise_make(ARENA_BARRIER_LIGHT);
	for (u64 i = 0; i < nr; i++)
		nr_failed += !promise_read(p, n);
	return nr_failed;
}

#define PROMISE_STEP(name, ...) \
	u64 micro_promise_##name(void *arg, u32 worker, u64 position, u64 nr) \
	{ \
		(void)arg, (void)worker, (void)position; \
		return promise_run((struct promises){ __VA_ARGS__ }, nr); \
	}

PROMISE_STEP(copy, .found = false)
PROMISE_STEP(found, .found = true)
PROMISE_STEP(whole, .found = true, .whole = true)
PROMISE_STEP(fresh, .found = true, .whole = true, .fresh = true)
PROMISE_STEP(alive, .found = true, .whole = true, .fresh = true, .alive = true)
PROMISE_STEP(noted, .found = true, .whole = true, .fresh = true, .alive = true,
             .noted = true)
PROMISE_STEP(counted, .found = true, .whole = true, .fresh = true, .alive = true,
             .noted = true, .counted = true)

static u64 promise_pin(u64 nr, bool light)
{
	size_t n = promise_bytes();
	u64 nr_failed = 0;

	if (!ground.made)
		promise_make(ARENA_BARRIER_LIGHT);
	ground.core.light = light;
	for (u64 i = 0; i < nr; i++) {
		uint64_t *entry;
		uint32_t frame;

		if (!lodic_inline_pin(&ground.core, &ground.claim, ground.block, &frame,
		                      &entry)) {
			nr_failed++;
			continue;
		}
		LODIC_INLINE_COPY(ground.to,
		                  ground.core.data + ((u64)frame << BLOCK_SHIFT), n);
		lodic_inline_bump(&ground.core, LODIC_INLINE_HITS);
		lodic_inline_uncount(&ground.core, entry);
	}
	return nr_failed;
}

u64 micro_promise_pinned(void *arg, u32 worker, u64 position, u64 nr)
{
	(void)arg, (void)worker, (void)position;
	return promise_pin(nr, true);
}

u64 micro_promise_locked(void *arg, u32 worker, u64 position, u64 nr)
{
	(void)arg, (void)worker, (void)position;
	return promise_pin(nr, false);
}
