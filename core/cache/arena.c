/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The service's side of an arena. Protocol, invariants and order: core/cache/arena.h. */
#include "core/cache/arena.h"

#include "core/cache/walk.h"
#include "core/count_word.h"

/* A byte of a word is one frame's visits. */
#define EACH_BYTE(value) ((value)*0x0101010101010101u)

static u64 align_line(u64 n)
{
	return (n + 63) & ~(u64)63;
}

void arena_shape_default(struct arena_shape *shape)
{
	u32 n = 64;

	/* What falls out of a small table costs a look into the translation, not a read
	 * (ADR-0002). A table of 256 KiB still fits a core's own cache. */
	while (n < shape->nr_frames && n < 32768)
		n *= 2;
	if (shape->scheme == ARENA_HAZARD)
		n = ARENA_HAZARD_SLOTS;
	if (shape->nr_entries == 0)
		shape->nr_entries = n;
}

u32 arena_default_quota(const struct arena_shape *shape)
{
	u32 n = 64;

	if (shape->scheme == ARENA_HAZARD)
		return ARENA_HAZARD_SLOTS;
	while (n < shape->nr_frames / 128 && n < 4096)
		n *= 2;
	return n < shape->nr_entries ? n : shape->nr_entries;
}

u32 arena_context_entries(u32 nr_entries, u32 quota)
{
	return quota > 0 ? nr_entries : CONTEXT_WAYS;
}

u64 arena_context_bytes(u32 nr_entries, u32 quota)
{
	return align_line(sizeof(struct context_memory)) +
	       align_line((u64)arena_context_entries(nr_entries, quota) * 8);
}

void arena_context_table(struct context_table *t, void *memory)
{
	u8 *p = memory;

	t->memory = memory;
	t->entries = (u64 *)(p + align_line(sizeof(struct context_memory)));
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

/* The visits, posted, then the counters. */
u64 arena_shared_bytes(const struct arena_shape *shape)
{
	return align_line(shape->nr_frames) + align_line(ARENA_MAX_CONTEXTS) +
	       arena_count_bytes(shape);
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
	h->barrier = shape->barrier;
	h->files_at = arena_files_at();
	h->frames_at = arena_frames_at(shape);
	h->words_at = arena_words_at(shape);
	h->generation = generation;
}

/* What is written once, read once: what has been looked at is what is used. */
static void arena_header_copy(const struct arena_header *h, struct arena_header *ret)
{
	const u64 *from = (const u64 *)h;
	u64 *to = (u64 *)ret;

	for (u32 i = 0; i < sizeof(*h) / 8; i++)
		to[i] = host_load_relaxed(&from[i]);
}

static bool arena_header_fits(const struct arena_header *h, u64 control_bytes,
                              u64 data_bytes)
{
	struct arena_shape shape;

	if (h->magic != ARENA_MAGIC || h->nr_frames <= FRAME_FIRST ||
	    h->nr_frames >= FRAME_NONE || h->nr_files == 0 ||
	    h->nr_files > FRAME_NONE || h->nr_entries > FRAME_NONE ||
	    h->scheme >= ARENA_NR_SCHEMES || h->barrier >= ARENA_NR_BARRIERS)
		return false;
	shape = (struct arena_shape){ (u32)h->nr_frames, (u32)h->nr_files,
		                      (u32)h->nr_entries, (u32)h->scheme,
		                      (u32)h->barrier };
	return h->bytes == control_bytes &&
	       arena_control_bytes(&shape) == control_bytes &&
	       h->data_bytes == data_bytes &&
	       h->nr_frames << BLOCK_SHIFT == data_bytes &&
	       h->nr_entries >= (h->scheme == ARENA_HAZARD ? ARENA_HAZARD_SLOTS
	                                                   : CONTEXT_WAYS) &&
	       !(h->nr_entries & (h->nr_entries - 1)) &&
	       h->files_at == arena_files_at() &&
	       h->frames_at == arena_frames_at(&shape) &&
	       h->words_at == arena_words_at(&shape);
}

bool arena_open(struct arena *a, void *control, u64 control_bytes, void *data,
                u64 data_bytes, void *shared)
{
	struct arena_header h;
	u8 *base = control;

	if (control_bytes < sizeof(h))
		return false;
	arena_header_copy(control, &h);
	if (!arena_header_fits(&h, control_bytes, data_bytes))
		return false;
	*a = (struct arena){
		.header = control,
		.files = (struct file_proof *)(base + h.files_at),
		.frames = (struct frame *)(base + h.frames_at),
		.data = data,
		.visits = shared,
		.posted = (u8 *)shared + align_line(h.nr_frames),
		.nr_frames = (u32)h.nr_frames,
		.nr_files = (u32)h.nr_files,
		.nr_entries = (u32)h.nr_entries,
		.scheme = (u32)h.scheme,
	};
	if (a->scheme == ARENA_ATOMIC || a->scheme == ARENA_FROZEN)
		a->counts = (u64 *)(a->posted + align_line(ARENA_MAX_CONTEXTS));
	translation_init(&a->translation, (u64 *)(base + h.words_at),
	                 translation_nr_words(a->nr_frames));
	a->translation.nr_frames = a->nr_frames;
	return true;
}

bool arena_shared_fits(const struct arena *a, u64 shared_bytes)
{
	const struct arena_shape shape = { .nr_frames = a->nr_frames,
		                           .scheme = a->scheme };

	return shared_bytes == arena_shared_bytes(&shape);
}

u32 arena_join(struct arena *a, const struct context_table *t)
{
	u32 place;

	for (place = 0; place < ARENA_MAX_CONTEXTS; place++) {
		if (place < a->nr_contexts && a->contexts[place].memory)
			continue;
		a->contexts[place] = *t; /* K2 */
		if (place == a->nr_contexts)
			a->nr_contexts = place + 1;
		return place;
	}
	return FRAME_NONE;
}

void arena_leave(struct arena *a, u32 place)
{
	a->contexts[place].memory = NULL; /* K2 */
	while (a->nr_contexts > 0 && !a->contexts[a->nr_contexts - 1].memory)
		a->nr_contexts--;
}

/* The shared words: a frame's word is frozen while the frame is not CACHED. A fresh
 * arena's zero words are frozen. */
void arena_thaw(struct arena *a, u32 frame)
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
	return walk_query_all(a, frame);
}

bool arena_freeze(struct arena *a, u32 frame)
{
	u64 *word;

	CHECK(a->counts, "a shared word can be frozen at once");
	/* Look before disturbing anybody (LODIC s.4.5, eq. 1). */
	if (arena_query(a, frame))
		return false;
	word = a->counts + (u64)frame * COUNT_STRIDE;
	if (a->scheme == ARENA_ATOMIC)
		return count_atomic_word_freeze(word);
	return count_frozen_word_freeze(word);
}

void arena_clear(struct arena *a, u32 frame)
{
	struct frame *f = &a->frames[frame];

	translation_clear(&a->translation, host_load_relaxed(&f->block), frame);
	frame_clear(f);
}

bool arena_take(struct arena *a, u32 frame)
{
	if (!arena_freeze(a, frame))
		return false;
	arena_clear(a, frame);
	return true;
}

/* The visits of eight frames. A byte is the readers' to write: it may say anything. */
static u64 arena_visits_word(u64 *p)
{
	u64 visits = host_load_relaxed(p);
	u64 more = visits & ~EACH_BYTE(FRAME_VISITS_MAX);

	/* The store may lose a visit that any of them just got. */
	if (visits)
		host_store_relaxed(p, 0);
	if (!more)
		return visits;
	more |= more >> 4; /* upper bits of a byte into its bits 0 to 3 */
	more |= more >> 2;
	more |= more >> 1;
	return (visits | (more & EACH_BYTE(1)) * FRAME_VISITS_MAX) &
	       EACH_BYTE(FRAME_VISITS_MAX);
}
_Static_assert(FRAME_VISITS_MAX == 3, "two bits");

void arena_visits(struct arena *a, u32 first, u32 nr, u8 *ret_visits)
{
	u8 *p = &a->visits[first];
	u64 word = 0;

	if (nr == 1) {
		*ret_visits = host_load_byte(p);
		if (*ret_visits)
			host_store_byte(p, 0);
		if (*ret_visits > FRAME_VISITS_MAX)
			*ret_visits = FRAME_VISITS_MAX;
		return;
	}
	CHECK(first % ARENA_LINE_FRAMES == 0 && nr <= ARENA_LINE_FRAMES, "one line");
	for (u32 i = 0; i < nr; i++) {
		if (i % 8 == 0)
			word = arena_visits_word((u64 *)(p + i));
		ret_visits[i] = (u8)(word >> i % 8 * 8);
	}
}

bool arena_posted(struct arena *a, u32 place)
{
	return hint_look(&a->posted[place]);
}

bool arena_hint(struct arena *a, u32 place, u64 *ret_block, u64 *ret_nr)
{
	struct context_memory *m = a->contexts[place].memory;

	return m && hint_take(&m->ring, ret_block, ret_nr);
}

u32 arena_kept(struct arena *a, u32 place, u64 ret_ranges[HINT_KEPT][2])
{
	struct context_memory *m = a->contexts[place].memory;

	return m ? hint_take_kept(&m->kept, ret_ranges) : 0;
}

bool arena_sleep(struct arena *a)
{
	u32 place;

	hint_sleep_begin(&a->header->sleeping);
	for (place = 0; place < a->nr_contexts; place++) {
		if (host_load_byte(&a->posted[place])) {
			arena_wake(a);
			return false;
		}
	}
	return true;
}

void arena_wake(struct arena *a)
{
	host_store_relaxed(&a->header->sleeping, 0);
}

void arena_check(const struct arena *a)
{
	const struct translation *t = &a->translation;
	u64 nr_led = 0, nr_cached = 0, nr_spilled = 0, nr_spills = 0;
	u32 i;

	for (i = 0; i < a->nr_frames; i++) {
		const struct frame *f = &a->frames[i];
		u64 block = host_load_relaxed(&f->block);
		const u64 *at;

		frame_check(f);
		if (block == BLOCK_NONE)
			continue;
		nr_cached++;
		at = translation_find_exact(t, block, i);
		CHECK(at, "T1: cached, so led to");
		nr_spilled += translation_is_spilled(t, block, at);
	}
	for (i = 0; i < a->header->nr_words; i++) {
		u64 word = host_load_relaxed(&t->words[i]);

		nr_led += translation_frame(word) != 0;
		nr_spills += !!(word & TRANSLATION_SPILL);
	}
	CHECK(nr_led == nr_cached, "T1: led to, so cached");
	CHECK(nr_spills == nr_spilled, "T3: a bit for each block in a second bucket");
	CHECK(a->nr_contexts == 0 || a->contexts[a->nr_contexts - 1].memory,
	      "K2: the walk ends at a context");
}
