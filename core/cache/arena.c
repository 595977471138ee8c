/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The service's side of an arena. Protocol, invariants and order: core/cache/arena.h. */
#include "core/cache/arena.h"

#include "core/cache/walk.h"
#include "core/count_word.h"
#include "core/mutant.h"

/* What a take touches of the frame, the translation and the header. */
#define TAKE_LINES 8u

static u64 align_line(u64 n)
{
	return (n + 63) & ~(u64)63;
}

void arena_shape_default(struct arena_shape *shape)
{
	u32 n = 64;

	/* As many blocks as a context may pin; what falls out of a small table costs a
	 * soft miss, not a read (ADR-0002). */
	while (n < shape->nr_frames / 128 && n < 4096)
		n *= 2;
	if (shape->scheme == ARENA_HAZARD)
		n = ARENA_HAZARD_SLOTS;
	if (shape->nr_entries == 0)
		shape->nr_entries = n;
}

u64 arena_context_bytes(u32 nr_frames, u32 nr_entries)
{
	return align_line(sizeof(struct context_memory)) +
	       align_line((u64)nr_entries * 8) + align_line(nr_frames);
}

void arena_context_table(struct context_table *t, void *memory, u32 nr_entries)
{
	u8 *p = memory;

	t->memory = memory;
	t->entries = (u64 *)(p + align_line(sizeof(struct context_memory)));
	t->visits = (u8 *)t->entries + align_line((u64)nr_entries * 8);
}

static u64 arena_files_at(void)
{
	return align_line(sizeof(struct arena_header));
}

static u64 arena_frames_at(const struct arena_shape *shape)
{
	return arena_files_at() + (u64)shape->nr_files * sizeof(struct file_proof);
}

static u64 arena_words_at(const struct arena_shape *shape)
{
	return align_line(arena_frames_at(shape) +
	                  (u64)shape->nr_frames * sizeof(struct frame));
}

u64 arena_control_bytes(const struct arena_shape *shape)
{
	return arena_words_at(shape) + translation_nr_words(shape->nr_frames) * 8;
}

u64 arena_count_bytes(const struct arena_shape *shape)
{
	if (shape->scheme != ARENA_ATOMIC && shape->scheme != ARENA_FROZEN)
		return 0;
	return (u64)shape->nr_frames * COUNT_STRIDE * 8;
}

void arena_format(void *control, const struct arena_shape *shape, u64 generation)
{
	struct arena_header *h = control;

	h->magic = ARENA_MAGIC;
	h->bytes = arena_control_bytes(shape);
	h->data_bytes = (u64)shape->nr_frames << BLOCK_SHIFT;
	h->nr_frames = shape->nr_frames;
	h->nr_files = shape->nr_files;
	h->nr_entries = shape->nr_entries;
	h->nr_words = translation_nr_words(shape->nr_frames);
	h->scheme = shape->scheme;
	h->files_at = arena_files_at();
	h->frames_at = arena_frames_at(shape);
	h->words_at = arena_words_at(shape);
	h->generation = generation;
}

static bool arena_header_fits(const struct arena_header *h, u64 control_bytes,
                              u64 data_bytes)
{
	struct arena_shape shape;

	if (control_bytes < sizeof(*h) || h->magic != ARENA_MAGIC ||
	    h->nr_frames <= FRAME_FIRST || h->nr_frames >= FRAME_NONE ||
	    h->nr_files > FRAME_NONE || h->nr_entries > FRAME_NONE ||
	    h->scheme >= ARENA_NR_SCHEMES)
		return false;
	shape = (struct arena_shape){ (u32)h->nr_frames, (u32)h->nr_files,
		                      (u32)h->nr_entries, (u32)h->scheme };
	return h->bytes == control_bytes &&
	       arena_control_bytes(&shape) == control_bytes &&
	       h->data_bytes == data_bytes &&
	       h->nr_frames << BLOCK_SHIFT == data_bytes &&
	       h->nr_entries >= CONTEXT_WAYS &&
	       !(h->nr_entries & (h->nr_entries - 1)) &&
	       h->files_at == arena_files_at() &&
	       h->frames_at == arena_frames_at(&shape) &&
	       h->words_at == arena_words_at(&shape);
}

bool arena_view(struct arena *a, void *control, u64 control_bytes, void *data,
                u64 data_bytes, u64 *counts)
{
	struct arena_header *h = control;
	u8 *base = control;

	if (!arena_header_fits(h, control_bytes, data_bytes))
		return false;
	*a = (struct arena){
		.header = h,
		.files = (struct file_proof *)(base + h->files_at),
		.frames = (struct frame *)(base + h->frames_at),
		.data = data,
		.counts = counts,
		.nr_frames = (u32)h->nr_frames,
		.nr_files = (u32)h->nr_files,
		.nr_entries = (u32)h->nr_entries,
		.scheme = (u32)h->scheme,
	};
	translation_init(&a->translation, (u64 *)(base + h->words_at),
	                 translation_nr_words(a->nr_frames));
	return true;
}

u32 arena_join(struct arena *a, const struct context_table *t)
{
	u32 place;

	for (place = 0; place < ARENA_MAX_CONTEXTS; place++) {
		if (place < a->nr_contexts && a->contexts[place].memory)
			continue;
		a->contexts[place] = *t; /* K2 */
		if (place == a->nr_contexts || MUTANT(JOIN_SHORTENS))
			a->nr_contexts = place + 1;
		return place;
	}
	return FRAME_NONE;
}

void arena_leave(struct arena *a, u32 place)
{
	if (MUTANT(LEAVE_KEEPS))
		return;
	a->contexts[place].memory = NULL; /* K2 */
	if (MUTANT(LEAVE_SHORTENS))
		a->nr_contexts = place;
	while (a->nr_contexts > 0 && !a->contexts[a->nr_contexts - 1].memory)
		a->nr_contexts--;
}

/* The shared words: a frame's word is frozen while the frame is not CACHED. A fresh
 * arena's zero words are frozen under atomic already. */
static void arena_thaw(struct arena *a, u32 frame)
{
	if (a->scheme == ARENA_ATOMIC)
		count_atomic_word_thaw(&a->counts[(u64)frame * COUNT_STRIDE]);
	else if (a->scheme == ARENA_FROZEN)
		count_frozen_word_thaw(&a->counts[(u64)frame * COUNT_STRIDE]);
}

void arena_fill_begin(struct arena *a, u32 frame)
{
	frame_fill_begin(&a->frames[frame]);
}

void arena_fill_cancel(struct arena *a, u32 frame)
{
	frame_fill_cancel(&a->frames[frame]);
}

bool arena_publish(struct arena *a, u32 frame, u64 block)
{
	frame_fill_end(&a->frames[frame], block);
	if (!translation_set(&a->translation, block, frame)) { /* T1, O3 */
		frame_clear(&a->frames[frame]);                /* nobody was led here */
		return false;
	}
	arena_thaw(a, frame);
	return true;
}

bool arena_query(const struct arena *a, u32 frame)
{
	if (a->scheme == ARENA_ATOMIC)
		return count_atomic_word_query(a->counts + (u64)frame * COUNT_STRIDE);
	if (a->scheme == ARENA_FROZEN)
		return count_frozen_word_query(a->counts + (u64)frame * COUNT_STRIDE);
	return walk_query(a, frame);
}

static bool arena_freeze(struct arena *a, u32 frame)
{
	u64 *word = a->counts + (u64)frame * COUNT_STRIDE;

	if (a->scheme == ARENA_ATOMIC)
		return count_atomic_word_freeze(word);
	return count_frozen_word_freeze(word);
}

/* Cleared and refused: nothing must have changed. O3 again. */
static void arena_restore(u64 *at, u64 word)
{
	if (at && !MUTANT(TAKE_LEAVES_CLEARED))
		host_store_release(at, word);
}

bool arena_take(struct arena *a, u32 frame)
{
	struct frame *f = &a->frames[frame];
	u64 block = host_load_relaxed(&f->block);
	u64 *at = translation_find_exact(&a->translation, block, frame);
	u64 word = at ? host_load_relaxed(at) : 0;
	bool taken;

	/* Look before disturbing anybody (LODIC s.4.5, eq. 1). */
	if (arena_query(a, frame))
		return false;
	if (at && !MUTANT(CLEAR_AFTER_WALK))
		host_store_relaxed(at, 0);
	if (!MUTANT(TAKE_WITHOUT_FENCE))
		host_fence_full(); /* O5 */
	taken = a->counts ? arena_freeze(a, frame) : walk_clear(a, frame);
	MUTANT_WINDOW(CLEAR_AFTER_WALK);
	if (!taken) {
		arena_restore(at, word);
		return false;
	}
	if (at && MUTANT(CLEAR_AFTER_WALK))
		host_store_relaxed(at, 0);
	if (!MUTANT(TAKE_LEAVES_NAME))
		frame_clear(f);
	return true;
}

void arena_visits(struct arena *a, u32 first, u32 nr, u8 *ret_visits)
{
	walk_visits(a, first, nr, ret_visits);
}

u32 arena_take_lines(const struct arena *a)
{
	u32 ways = a->scheme == ARENA_HAZARD ? ARENA_HAZARD_SLOTS : CONTEXT_WAYS;

	if (a->counts)
		return TAKE_LINES + 1;
	return TAKE_LINES + 2 * a->nr_contexts * ((ways * 8 + 63) / 64);
}

bool arena_hint(struct arena *a, u32 place, u64 *ret_block, u64 *ret_nr)
{
	struct context_memory *m = a->contexts[place].memory;

	return m && hint_take(&m->ring, ret_block, ret_nr);
}

bool arena_sleep(struct arena *a)
{
	u32 place;

	hint_sleep_begin(&a->header->sleeping);
	for (place = 0; place < a->nr_contexts; place++) {
		const struct context_memory *m = a->contexts[place].memory;

		if (m && hint_pending(&m->ring)) {
			arena_wake(a);
			return false;
		}
	}
	if (MUTANT(SLEEP_AFTER_LOOK))
		host_store_relaxed(&a->header->sleeping, 1);
	return true;
}

void arena_wake(struct arena *a)
{
	host_store_relaxed(&a->header->sleeping, 0);
}

void arena_check(const struct arena *a)
{
	u64 nr_led = 0, nr_cached = 0;
	u32 i;

	for (i = 0; i < a->nr_frames; i++) {
		const struct frame *f = &a->frames[i];
		u64 block = host_load_relaxed(&f->block);

		frame_check(f);
		if (block == BLOCK_NONE)
			continue;
		nr_cached++;
		CHECK(translation_find_exact(&a->translation, block, i),
		      "T1: cached, so led to");
	}
	for (i = 0; i < a->header->nr_words; i++)
		nr_led += host_load_relaxed(&a->translation.words[i]) != 0;
	CHECK(nr_led == nr_cached, "T1: led to, so cached");
	CHECK(a->nr_contexts == 0 || a->contexts[a->nr_contexts - 1].memory,
	      "K2: the walk ends at a context");
}
