/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: arena_bed.h. */
#include "tests/support/arena_bed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

static void *bed_memory(struct arena_bed *bed, u32 i, u64 bytes)
{
	bed->memory[i] = aligned_alloc(64, (bytes + 63) & ~63u);
	memset(bed->memory[i], 0, bytes);
	return bed->memory[i];
}

struct arena_bed *bed_make_fenced(u32 scheme, u32 barrier)
{
	struct arena_bed *bed = calloc(1, sizeof(*bed));
	struct arena_shape shape = { .nr_frames = BED_FRAMES,
		                     .nr_files = 2,
		                     .scheme = scheme,
		                     .barrier = barrier };
	struct arena *a = &bed->arena;
	void *control;

	arena_shape_default(&shape);
	control = bed_memory(bed, 0, arena_control_bytes(&shape));
	arena_format(control, &shape, 1);
	assert_true(arena_open(a, control, arena_control_bytes(&shape),
	                       bed_memory(bed, 2, (u64)BED_FRAMES << BLOCK_SHIFT),
	                       (u64)BED_FRAMES << BLOCK_SHIFT,
	                       bed_memory(bed, 1, arena_shared_bytes(&shape))));
	a->contexts = calloc(ARENA_MAX_CONTEXTS, sizeof(*a->contexts));
	a->header->alive = BED_ALIVE;
	file_proof_admit(&a->files[0], BED_FILE, (u64)1 << 20);
	for (u32 i = 0; i < BED_CONTEXTS; i++) {
		struct context_table t;
		void *m = bed_memory(bed, 3 + i, arena_context_bytes(a->nr_entries, 1));

		arena_context_table(&t, m);
		bed->places[i] = arena_join(a, &t);
		context_init(&bed->contexts[i], a, m, BED_ALIVE, a->nr_entries);
	}
	memset(&bed->batch, 0xff, sizeof(bed->batch)); /* as if it had been used before */
	batch_init(&bed->batch, 1);
	return bed;
}

struct arena_bed *bed_make(u32 scheme)
{
	return bed_make_fenced(scheme, ARENA_BARRIER_LOCK);
}

void bed_free(struct arena_bed *bed)
{
	arena_check(&bed->arena);
	for (u32 i = 0; i < BED_CONTEXTS + 3; i++)
		free(bed->memory[i]);
	free(bed->arena.contexts);
	free(bed);
}

u64 bed_block(u32 index)
{
	return block_id(BED_FILE, index);
}

void bed_fill(struct arena_bed *bed, u32 frame, u32 index)
{
	arena_fill_begin(&bed->arena, frame);
	memset(arena_frame_bytes(&bed->arena, frame), (int)index + 1, BLOCK_BYTES);
	assert_true(arena_publish(&bed->arena, frame, bed_block(index)));
}

bool bed_reads(struct arena_bed *bed, u32 reader, u32 index)
{
	u8 byte = 0;
	bool hit =
		context_read(&bed->contexts[reader], bed_block(index), 17, &byte, 1) &&
		context_vouch(&bed->contexts[reader], &bed->arena.files[0], BED_FILE);

	if (hit)
		assert_int_equal(byte, index + 1);
	return hit;
}

u64 *bed_pin(struct arena_bed *bed, u32 reader, u32 index)
{
	u64 *word;
	u32 frame;

	assert_int_equal(context_pin(&bed->contexts[reader], bed_block(index), &frame,
	                             &word),
	                 0);
	assert_int_equal(*(u8 *)arena_frame_bytes(&bed->arena, frame), index + 1);
	return word;
}

bool bed_takes(struct arena_bed *bed, u32 frame)
{
	return bed->arena.counts ? arena_take(&bed->arena, frame)
	                         : batch_take_one(&bed->arena, &bed->batch, frame);
}

void bed_for_each_scheme(void (*test)(struct arena_bed *bed))
{
	for (u32 i = 0; i < ARENA_NR_SCHEMES * ARENA_NR_BARRIERS; i++) {
		struct arena_bed *bed =
			bed_make_fenced(i / ARENA_NR_BARRIERS, i % ARENA_NR_BARRIERS);

		test(bed);
		bed_free(bed);
	}
}
