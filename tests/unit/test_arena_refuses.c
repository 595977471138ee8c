/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What a context refuses, and what it counts when it does: sets that are full, forged words and
 * headers, quotas. The rest: test_arena.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/support/arena_bed.h"

/* Far behind the last one, where nothing is mapped. */
#define FORGED_FRAME 0x3fffffffu

/* More blocks of one set than it has entries, one after the other. Nobody has them pinned. */
static void context_pin_set_in_use_entry_of_nobody_replaced(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);
	const struct context *c = &bed->contexts[0];
	u32 set = context_home(c, block_hash(bed_block(0))) / CONTEXT_WAYS, nr = 0;
	u64 soft = host_load_relaxed(&c->memory->counters[CONTEXT_SOFT]);

	(void)state;
	for (u32 i = 0; nr < 2 * CONTEXT_WAYS && i < 100000; i++) {
		u64 *kept, *word;

		if (context_home(c, block_hash(bed_block(i))) / CONTEXT_WAYS != set)
			continue;
		bed_fill(bed, FRAME_FIRST + nr, i);
		word = bed_pin(bed, 0, i);
		kept = bed_pin(bed, 0, i);
		assert_ptr_equal(word, kept);
		cache_unpin(&bed->contexts[0], word);
		cache_unpin(&bed->contexts[0], kept);
		nr++;
	}
	assert_int_equal(nr, 2 * CONTEXT_WAYS);
	assert_int_equal(host_load_relaxed(&c->memory->counters[CONTEXT_SOFT]) - soft,
	                 nr); /* the second pin of each found the first one's entry */
	bed_free(bed);
}

/* The inline pin counts as the other one does: the first of a block, but not the next. */
static void context_pin_home_first_is_soft(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);
	struct context *c = &bed->contexts[0];
	u64 soft = host_load_relaxed(&c->memory->counters[CONTEXT_SOFT]);
	u64 *word = NULL;
	u32 frame;

	(void)state;
	bed_fill(bed, 9, 1);
	for (u32 i = 0; i < 3; i++) {
		assert_true(context_pin_home(c, bed_block(1), &frame, &word));
		assert_int_equal(frame, 9);
		cache_unpin(c, word);
	}
	assert_int_equal(host_load_relaxed(&c->memory->counters[CONTEXT_SOFT]),
	                 soft + 1);
	bed_free(bed);
}

/* With any way to count: a block that is not there, a context that may pin nothing. */
static void pin_refused_by(struct arena_bed *bed)
{
	struct context *c = &bed->contexts[0];
	u64 *counters = c->memory->counters, misses, full, *word = NULL;
	u32 frame;

	bed_fill(bed, 9, 1);
	misses = host_load_relaxed(&counters[CONTEXT_MISSES]);
	full = host_load_relaxed(&counters[CONTEXT_FULL]);
	assert_int_equal(context_pin(c, bed_block(2), &frame, &word), -EAGAIN);
	assert_int_equal(host_load_relaxed(&counters[CONTEXT_MISSES]), misses + 1);
	assert_int_equal(host_load_relaxed(&counters[CONTEXT_FULL]), full);
	c->quota = 1;
	word = bed_pin(bed, 0, 1);
	if (bed->arena.scheme == ARENA_SCANNED || bed->arena.scheme == ARENA_HAZARD)
		assert_int_equal(context_nr_pinned(c), 1);
	cache_unpin(c, word);
	c->quota = 0;
	assert_int_equal(context_pin(c, bed_block(1), &frame, &word), -EDQUOT);
	if (bed->arena.scheme != ARENA_SCANNED)
		assert_false(context_pin_word(c, 9, bed_block(1), &word));
}

static void context_pin_refused_says_why(void **state)
{
	(void)state;
	bed_for_each_scheme(pin_refused_by);
}

/* The block's two buckets are full. The frame stays free and uncounted, and takes the next one. */
static void publish_refused_by(struct arena_bed *bed)
{
	enum { MANY = 1000 };
	struct translation *t = &bed->arena.translation;
	u32 nr = 0;

	while (nr < MANY && translation_set(t, bed_block(nr), nr + 1))
		nr++;
	arena_fill_begin(&bed->arena, 9);
	assert_false(arena_publish(&bed->arena, 9, bed_block(nr)));
	for (u32 i = 0; i < nr; i++)
		translation_clear(t, bed_block(i), i + 1);
	arena_check(&bed->arena);
	bed_fill(bed, 9, 1);
	assert_false(arena_query(&bed->arena, 9));
	assert_true(bed_reads(bed, 0, 1));
	assert_true(bed_takes(bed, 9));
}

static void arena_publish_refused_frame_takes_the_next_block(void **state)
{
	(void)state;
	bed_for_each_scheme(publish_refused_by);
}

/* The header says which fence readers have. */
static void context_init_light_as_header_says(void **state)
{
	struct arena_bed *light = bed_make_fenced(ARENA_SCANNED, ARENA_BARRIER_LIGHT);
	struct arena_bed *lock = bed_make(ARENA_SCANNED);

	(void)state;
	assert_true(light->contexts[0].light);
	assert_false(lock->contexts[0].light);
	bed_free(light);
	bed_free(lock);
}

/* A broken service may write anything there. The readers' views of frames end where they end. */
static void context_home_forged_frame_not_touched(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);
	struct context *c = &bed->contexts[0];
	u64 *guess =
		&c->translation.words[block_hash(bed_block(1)) >> c->translation.shift];
	u64 *word = NULL;
	u8 byte;
	u32 frame;

	(void)state;
	bed_fill(bed, 9, 1);
	assert_true(context_read_home(c, bed_block(1), 0, &byte, 1));
	assert_int_equal(translation_frame(*guess), 9);
	host_store_relaxed(guess, *guess - 9 + FORGED_FRAME);
	assert_false(context_read_home(c, bed_block(1), 0, &byte, 1));
	assert_false(context_pin_home(c, bed_block(1), &frame, &word));
	host_store_relaxed(guess, *guess + 9 - FORGED_FRAME);
	assert_true(context_read_home(c, bed_block(1), 0, &byte, 1));
	bed_free(bed);
}

/* A header that says more than there is. All else of it fits what it says. */
static void arena_view_forged_header_refused(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);
	struct arena_shape none = { .nr_frames = BED_FRAMES, .nr_files = 2 };
	struct arena_shape few = { .nr_frames = BED_FRAMES,
		                   .nr_files = 1,
		                   .nr_entries = CONTEXT_WAYS,
		                   .scheme = ARENA_HAZARD };
	u64 bytes = arena_control_bytes(&none), data = (u64)BED_FRAMES << BLOCK_SHIFT;
	struct arena_header *h = calloc(1, bytes + 64);
	struct arena a;
	static const struct {
		u64 at, value;
	} fields[] = {
		{ offsetof(struct arena_header, magic), 1 },
		{ offsetof(struct arena_header, bytes), 4096 },
		{ offsetof(struct arena_header, data_bytes), BLOCK_BYTES },
		{ offsetof(struct arena_header, nr_frames), FRAME_FIRST },
		{ offsetof(struct arena_header, nr_frames), FRAME_NONE },
		{ offsetof(struct arena_header, nr_files), 0 },
		{ offsetof(struct arena_header, nr_files), (u64)FRAME_NONE + 1 },
		{ offsetof(struct arena_header, nr_entries), CONTEXT_WAYS / 2 },
		{ offsetof(struct arena_header, nr_entries), 3 * CONTEXT_WAYS },
		{ offsetof(struct arena_header, scheme), ARENA_NR_SCHEMES },
		{ offsetof(struct arena_header, barrier), ARENA_NR_BARRIERS },
		{ offsetof(struct arena_header, files_at), 64 },
		{ offsetof(struct arena_header, frames_at), 64 },
		{ offsetof(struct arena_header, words_at), 64 },
	};

	(void)state;
	arena_format(h, &none, 1);
	h->nr_entries = (u64)1 << 32; /* 0 where it is cut to 32 bits */
	assert_false(arena_open(&a, h, bytes, bed->memory[2], data, bed->memory[1]));
	free(h);
	bytes = arena_control_bytes(&few);
	h = calloc(1, bytes + 64);
	arena_format(h, &few, 1);
	assert_false(arena_open(&a, h, bytes, bed->memory[2], data, bed->memory[1]));
	h->scheme = ARENA_SCANNED; /* which needs no more entries, nor files */
	assert_true(arena_open(&a, h, bytes, bed->memory[2], data, bed->memory[1]));
	free(h);
	h = bed->memory[0];
	bytes = h->bytes;
	h->data_bytes = data + BLOCK_BYTES;
	assert_false(arena_open(&a, h, h->bytes, bed->memory[2], data + BLOCK_BYTES,
	                        bed->memory[1]));
	h->data_bytes = data;
	for (u32 i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		u64 *field = (u64 *)((u8 *)h + fields[i].at), was = *field;

		*field = fields[i].value;
		assert_false(
			arena_open(&a, h, bytes, bed->memory[2], data, bed->memory[1]));
		*field = was;
	}
	assert_true(arena_open(&a, h, bytes, bed->memory[2], data, bed->memory[1]));
	bed_free(bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(context_pin_home_first_is_soft),
		cmocka_unit_test(context_pin_refused_says_why),
		cmocka_unit_test(arena_publish_refused_frame_takes_the_next_block),
		cmocka_unit_test(context_init_light_as_header_says),
		cmocka_unit_test(context_home_forged_frame_not_touched),
		cmocka_unit_test(arena_view_forged_header_refused),
		cmocka_unit_test(context_pin_set_in_use_entry_of_nobody_replaced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
