/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Frames, translation, contexts and the scanned gate, in one thread: what each step leaves
 * behind. tests/stress/stress_arena.c and the checker test the races. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/cache/cache.h"
#include "host/random.h"

#define FILE_ID 3u
#define NR_FRAMES 32u
#define NR_CONTEXTS 3u
#define ALIVE 9u

struct bed {
	struct arena arena;
	struct context contexts[NR_CONTEXTS];
	u32 places[NR_CONTEXTS];
	void *memory[NR_CONTEXTS + 3];
};

static void *take(struct bed *bed, u32 i, u64 bytes)
{
	bed->memory[i] = aligned_alloc(64, (bytes + 63) & ~63u);
	memset(bed->memory[i], 0, bytes);
	return bed->memory[i];
}

static struct bed *bed_make(u32 scheme)
{
	struct bed *bed = calloc(1, sizeof(*bed));
	struct arena_shape shape = { .nr_frames = NR_FRAMES,
		                     .nr_files = 2,
		                     .scheme = scheme };
	struct arena *a = &bed->arena;
	u64 *counts = NULL;
	void *control;

	arena_shape_default(&shape);
	control = take(bed, 0, arena_control_bytes(&shape));
	if (arena_count_bytes(&shape))
		counts = take(bed, 1, arena_count_bytes(&shape));
	arena_format(control, &shape, 1);
	assert_true(arena_view(a, control, arena_control_bytes(&shape),
	                       take(bed, 2, (u64)NR_FRAMES << BLOCK_SHIFT),
	                       (u64)NR_FRAMES << BLOCK_SHIFT, counts));
	a->contexts = calloc(ARENA_MAX_CONTEXTS, sizeof(*a->contexts));
	a->header->alive = ALIVE;
	file_proof_admit(&a->files[0], FILE_ID, (u64)1 << 20);
	for (u32 i = 0; i < NR_CONTEXTS; i++) {
		struct context_table t;
		void *m =
			take(bed, 3 + i, arena_context_bytes(NR_FRAMES, a->nr_entries));

		arena_context_table(&t, m, a->nr_entries);
		bed->places[i] = arena_join(a, &t);
		context_init(&bed->contexts[i], a, m, ALIVE, true);
	}
	return bed;
}

static void bed_free(struct bed *bed)
{
	arena_check(&bed->arena);
	for (u32 i = 0; i < NR_CONTEXTS + 3; i++)
		free(bed->memory[i]);
	free(bed->arena.contexts);
	free(bed);
}

static u64 block(u32 index)
{
	return block_id(FILE_ID, index);
}

static void fill(struct bed *bed, u32 frame, u32 index)
{
	arena_fill_begin(&bed->arena, frame);
	memset(arena_frame_bytes(&bed->arena, frame), (int)index + 1, BLOCK_BYTES);
	assert_true(arena_publish(&bed->arena, frame, block(index)));
}

static bool reads(struct bed *bed, u32 reader, u32 index)
{
	u8 byte = 0;
	bool hit = context_read(&bed->contexts[reader], block(index), 17, &byte, 1) &&
	           context_vouch(&bed->contexts[reader], &bed->arena.files[0], FILE_ID);

	if (hit)
		assert_int_equal(byte, index + 1);
	return hit;
}

static u64 *pin(struct bed *bed, u32 reader, u32 index)
{
	u64 *word;
	u32 frame;

	assert_int_equal(
		context_pin(&bed->contexts[reader], block(index), &frame, &word), 0);
	assert_int_equal(*(u8 *)arena_frame_bytes(&bed->arena, frame), index + 1);
	return word;
}

static void for_each_scheme(void (*test)(struct bed *bed))
{
	for (u32 scheme = 0; scheme < ARENA_NR_SCHEMES; scheme++) {
		struct bed *bed = bed_make(scheme);

		test(bed);
		bed_free(bed);
	}
}

static void frame_fill_in_the_midst_unreadable(void **state)
{
	struct bed *bed = bed_make(ARENA_SCANNED);
	struct frame *f = &bed->arena.frames[4];
	u64 seq = f->seq;

	(void)state;
	frame_fill_begin(f);
	assert_int_equal(f->seq & 1, 1);
	assert_int_equal(f->block, BLOCK_NONE);
	frame_fill_end(f, block(1));
	assert_true(f->seq > seq && !(f->seq & 1));
	frame_clear(f);
	frame_fill_begin(f);
	frame_fill_cancel(f);
	assert_int_equal(f->state, FRAME_FREE);
	bed_free(bed);
}

static void translation_set_full_refuses(void **state)
{
	struct bed *bed = bed_make(ARENA_SCANNED);
	struct translation *t = &bed->arena.translation;
	u32 index, nr = 0;
	u64 word;

	(void)state;
	/* Fill until somebody's two buckets are full: never before a quarter of all words. */
	for (index = 0; index < 1000 && translation_set(t, block(index), index + 1);
	     index++)
		nr++;
	assert_in_range(nr, NR_FRAMES, bed->arena.header->nr_words);
	for (u32 i = 0; i < nr; i++) {
		u64 *at = translation_find(t, block(i), &word);

		assert_non_null(at);
		assert_int_equal(translation_frame(word), i + 1);
		assert_ptr_equal(at, translation_find_exact(t, block(i), i + 1));
		*at = 0;
		assert_null(translation_find(t, block(i), &word));
	}
	bed_free(bed);
}

static void each_read_and_pin(struct bed *bed)
{
	u64 *word;

	assert_false(reads(bed, 0, 5));
	fill(bed, 9, 5);
	assert_true(reads(bed, 0, 5));
	word = pin(bed, 1, 5);
	assert_true(arena_query(&bed->arena, 9));
	assert_false(arena_take(&bed->arena, 9)); /* pinned */
	assert_true(reads(bed, 0, 5));            /* and still there for all */
	cache_unpin(&bed->contexts[1], word);
	assert_false(arena_query(&bed->arena, 9));
	assert_true(arena_take(&bed->arena, 9));
	assert_false(reads(bed, 0, 5));
	fill(bed, 9, 6); /* the same frame for another block */
	assert_false(reads(bed, 0, 5));
	assert_true(reads(bed, 1, 6));
	cache_unpin(&bed->contexts[1], pin(bed, 1, 6));
}

static void arena_take_pinned_refuses(void **state)
{
	(void)state;
	for_each_scheme(each_read_and_pin);
}

static void arena_take_all_map_clears_every_entry(void **state)
{
	struct bed *bed = bed_make(ARENA_SCANNED);
	u64 *word;
	u32 frame;

	(void)state;
	fill(bed, 7, 1);
	for (u32 i = 0; i < NR_CONTEXTS; i++)
		cache_unpin(&bed->contexts[i], pin(bed, i, 1));
	assert_true(arena_take(&bed->arena, 7));
	for (u32 i = 0; i < NR_CONTEXTS; i++) {
		context_check(&bed->contexts[i]);
		assert_int_equal(context_pin(&bed->contexts[i], block(1), &frame,
		                             &word),
		                 -CONTEXT_EAGAIN);
	}
	bed_free(bed);
}

static void context_pin_128_times_refuses_the_last(void **state)
{
	struct bed *bed = bed_make(ARENA_SCANNED);
	struct context *c = &bed->contexts[0];
	u64 *word, *first;
	u32 frame;

	(void)state;
	fill(bed, 9, 1);
	first = pin(bed, 0, 1);
	for (u32 i = 1; i < PTE_COUNT_MAX; i++)
		assert_ptr_equal(pin(bed, 0, 1), first);
	assert_int_equal(context_pin(c, block(1), &frame, &word), -CONTEXT_EOVERFLOW);
	assert_int_equal(context_nr_pinned(c), 1);
	assert_true(reads(bed, 0, 1));
	for (u32 i = 0; i < PTE_COUNT_MAX; i++)
		cache_unpin(c, first);
	assert_int_equal(context_nr_pinned(c), 0);
	assert_true(arena_take(&bed->arena, 9));
	bed_free(bed);
}

static void context_pin_reserve_spent_refuses(void **state)
{
	struct bed *bed = bed_make(ARENA_SCANNED);
	struct context *c = &bed->contexts[0];
	u64 *word;
	u32 frame;

	(void)state;
	c->may_pin = false;
	fill(bed, 9, 1);
	assert_int_equal(context_pin(c, block(1), &frame, &word), -CONTEXT_EDQUOT);
	assert_true(reads(bed, 0, 1));
	bed_free(bed);
}

static void context_read_revoked_not_vouched(void **state)
{
	struct bed *bed = bed_make(ARENA_SCANNED);

	(void)state;
	fill(bed, 9, 1);
	assert_true(reads(bed, 0, 1));
	file_proof_revoke(&bed->arena.files[0]);
	assert_false(reads(bed, 0, 1));
	bed_free(bed);
}

static void context_read_dead_service_not_vouched(void **state)
{
	struct bed *bed = bed_make(ARENA_SCANNED);

	(void)state;
	fill(bed, 9, 1);
	bed->arena.header->alive = 0x40000000; /* what the kernel leaves there */
	assert_false(reads(bed, 0, 1));
	bed_free(bed);
}

static u32 visits(struct bed *bed, u32 frame)
{
	u8 nr;

	arena_visits(&bed->arena, frame, 1, &nr);
	return nr;
}

static void arena_visits_read_counted_to_three_and_cleared(void **state)
{
	struct bed *bed = bed_make(ARENA_SCANNED);

	(void)state;
	fill(bed, 9, 1);
	fill(bed, 1, 2);
	assert_int_equal(visits(bed, 9), 0);
	reads(bed, 0, 1);
	assert_int_equal(visits(bed, 9), 1);
	for (u32 i = 0; i < 9; i++)
		reads(bed, 0, 1);
	reads(bed, 1, 2);
	reads(bed, 2, 2);
	assert_int_equal(visits(bed, 9), 3);
	assert_int_equal(visits(bed, 9), 0);
	assert_int_equal(visits(bed, 1), 2); /* two readers, once each */
	bed_free(bed);
}

/* Notes random visits in all contexts, also rubbish, and says what they come to. */
static void note_visits(struct bed *bed, u64 *random, u8 sums[NR_FRAMES])
{
	memset(sums, 0, NR_FRAMES);
	for (u32 place = 0; place < bed->arena.nr_contexts; place++)
		for (u32 i = 0; i < NR_FRAMES; i++) {
			u64 bits = random_next(random);
			u8 noted = (u8)(bits % 8 < 6 ? bits >> 8 & 3 : bits >> 40);

			bed->arena.contexts[place].visits[i] = noted;
			sums[i] += noted < FRAME_VISITS_MAX ? noted : FRAME_VISITS_MAX;
		}
	for (u32 i = 0; i < NR_FRAMES; i++)
		sums[i] = sums[i] < FRAME_VISITS_MAX ? sums[i] : FRAME_VISITS_MAX;
}

/* Words are added and bounded as bytes are. */
static void arena_visits_of_line_each_frame_as_alone(void **state)
{
	struct bed *bed = bed_make(ARENA_SCANNED);
	u8 sums[NR_FRAMES], together[NR_FRAMES];
	u64 random = 1;

	(void)state;
	for (u32 round = 0; round < 1000; round++) {
		note_visits(bed, &random, sums);
		arena_visits(&bed->arena, 0, NR_FRAMES, together);
		assert_memory_equal(together, sums, NR_FRAMES);
		assert_int_equal(visits(bed, round % NR_FRAMES), 0);
		note_visits(bed, &random, sums);
		for (u32 i = 0; i < NR_FRAMES; i++)
			assert_int_equal(visits(bed, i), sums[i]);
	}
	bed_free(bed);
}

static void arena_leave_dead_reader_frees_its_pins(void **state)
{
	struct bed *bed = bed_make(ARENA_SCANNED);

	(void)state;
	fill(bed, 9, 1);
	pin(bed, 2, 1);
	assert_false(arena_take(&bed->arena, 9));
	arena_leave(&bed->arena, bed->places[2]);
	assert_true(arena_take(&bed->arena, 9));
	bed_free(bed);
}

static void arena_leave_atomic_leaks_by_nature(void **state)
{
	struct bed *bed = bed_make(ARENA_ATOMIC);

	(void)state;
	fill(bed, 9, 1);
	pin(bed, 2, 1);
	arena_leave(&bed->arena, bed->places[2]);
	assert_false(arena_take(&bed->arena, 9));
	bed_free(bed);
}

static void context_hint_ring_delivers_in_order(void **state)
{
	struct bed *bed = bed_make(ARENA_SCANNED);
	struct hint_ring *ring = &bed->contexts[1].memory->ring;
	u64 first, nr;

	(void)state;
	assert_true(arena_sleep(&bed->arena));
	assert_true(hint_post(ring, &bed->arena.header->sleeping, block(1), 4));
	assert_false(arena_sleep(&bed->arena)); /* there is work */
	for (u32 i = 1; i < HINT_MAX; i++)
		assert_false(
			hint_post(ring, &bed->arena.header->sleeping, block(i + 1), 4));
	assert_true(hint_full(ring));
	assert_false(hint_post(ring, &bed->arena.header->sleeping, block(999),
	                       4)); /* dropped */
	for (u32 i = 0; i < HINT_MAX; i++) {
		assert_true(arena_hint(&bed->arena, bed->places[1], &first, &nr));
		assert_int_equal(first, block(i + 1));
		assert_int_equal(nr, 4);
	}
	assert_false(arena_hint(&bed->arena, bed->places[1], &first, &nr));
	bed_free(bed);
}

/* Its reader can write any number there; nobody reads more than the ring holds (H5). */
static void hint_ring_that_lies_keeps_nobody_awake(void **state)
{
	struct bed *bed = bed_make(ARENA_SCANNED);
	struct hint_ring *ring = &bed->contexts[1].memory->ring;
	const u64 lies[] = { HINT_MAX + 1, (u64)1 << 40, ~(u64)0 };
	u64 first, nr;

	(void)state;
	for (u32 i = 0; i < 3; i++) {
		host_store_relaxed(&ring->head, lies[i]);
		assert_false(arena_hint(&bed->arena, bed->places[1], &first, &nr));
		assert_true(arena_sleep(&bed->arena));
	}
	host_store_relaxed(&ring->head, HINT_MAX); /* it may have written all of them */
	for (u32 i = 0; i < HINT_MAX; i++)
		assert_true(arena_hint(&bed->arena, bed->places[1], &first, &nr));
	assert_true(arena_sleep(&bed->arena));
	bed_free(bed);
}

static void arena_view_foreign_memory_refuses(void **state)
{
	struct bed *bed = bed_make(ARENA_SCANNED);
	struct arena_header *h = bed->arena.header;
	struct arena other;
	u64 bytes = h->bytes, data = h->data_bytes;

	(void)state;
	assert_true(arena_view(&other, h, bytes, bed->arena.data, data, NULL));
	assert_false(arena_view(&other, h, bytes - 64, bed->arena.data, data, NULL));
	assert_false(arena_view(&other, h, bytes, bed->arena.data, data + BLOCK_BYTES,
	                        NULL));
	h->frames_at += 64;
	assert_false(arena_view(&other, h, bytes, bed->arena.data, data, NULL));
	h->frames_at -= 64;
	h->magic++;
	assert_false(arena_view(&other, h, bytes, bed->arena.data, data, NULL));
	bed_free(bed);
}

static void file_proof_next_id_last_ends_in_none(void **state)
{
	u32 nr_files = 7, last = UINT32_MAX - 3;

	(void)state;
	assert_int_equal(file_proof_next_id(3, nr_files), 10);
	assert_int_equal(file_proof_next_id(UINT32_MAX - nr_files, nr_files),
	                 UINT32_MAX);
	assert_int_equal(file_proof_next_id(last, nr_files), FILE_NONE);
}

static void tell(void *ctx, u32 place)
{
	*(u32 *)ctx = place;
}

static void cache_join_full_list_tells_nobody(void **state)
{
	struct bed *bed = bed_make(ARENA_SCANNED);
	struct context_table t;
	u32 told = FRAME_NONE, i;

	(void)state;
	arena_context_table(&t, bed->contexts[0].memory, bed->arena.nr_entries);
	for (i = NR_CONTEXTS; i < ARENA_MAX_CONTEXTS; i++) {
		assert_int_equal(cache_join(&bed->arena, &t, tell, &told), i);
		assert_int_equal(told, i);
	}
	assert_int_equal(cache_join(&bed->arena, &t, tell, &told), FRAME_NONE);
	assert_int_equal(told, ARENA_MAX_CONTEXTS - 1);
	arena_leave(&bed->arena,
	            5); /* a hole: the next one gets it, none is forgotten */
	assert_int_equal(bed->arena.nr_contexts, ARENA_MAX_CONTEXTS);
	assert_int_equal(cache_join(&bed->arena, &t, tell, &told), 5);
	assert_int_equal(bed->arena.nr_contexts, ARENA_MAX_CONTEXTS);
	bed_free(bed);
}

static void cache_fill_end_torn_or_unproved_frees(void **state)
{
	struct bed *bed = bed_make(ARENA_SCANNED);
	struct cache_file f = { &bed->arena.files[0], FILE_ID };

	(void)state;
	cache_fill_begin(&bed->arena, 9, block(1));
	assert_false(cache_fill_end(&bed->arena, &f, 9, block(1), false));
	assert_int_equal(bed->arena.frames[9].state, FRAME_FREE);
	file_proof_revoke(&bed->arena.files[0]);
	cache_fill_begin(&bed->arena, 9, block(1));
	assert_false(cache_fill_end(&bed->arena, &f, 9, block(1), true));
	assert_int_equal(bed->arena.frames[9].state, FRAME_FREE);
	bed_free(bed);
}

struct gaps {
	u64 from[4], bytes[4];
	u32 nr;
	bool fail;
};

static bool note_gap(void *ctx, u8 *to, u64 n, u64 offset)
{
	struct gaps *g = ctx;

	g->from[g->nr] = offset;
	g->bytes[g->nr++] = n;
	memset(to, 0xee, n);
	return !g->fail;
}

/* Blocks 1 and 3 of 0 to 4 are cached: three gaps, the last of them of a piece. */
static void cache_read_some_cached_fills_gaps(void **state)
{
	struct bed *bed = bed_make(ARENA_SCANNED);
	struct cache_file f = { &bed->arena.files[0], FILE_ID };
	static u8 to[5 * BLOCK_BYTES];
	struct gaps g = { 0 };
	struct cache_read wanted = { &f, to, 4 * BLOCK_BYTES, 10, note_gap, &g };
	u64 hits = 99;

	(void)state;
	fill(bed, 9, 1);
	fill(bed, 4, 3);
	assert_true(cache_read(&bed->contexts[0], &wanted, &hits));
	assert_int_equal(hits, 2);
	assert_int_equal(g.nr, 3);
	assert_int_equal(g.from[0], 10);
	assert_int_equal(g.bytes[0], BLOCK_BYTES - 10);
	assert_int_equal(g.from[1], 2 * BLOCK_BYTES);
	assert_int_equal(g.bytes[1], BLOCK_BYTES);
	assert_int_equal(g.from[2], 4 * BLOCK_BYTES);
	assert_int_equal(g.bytes[2], 10);
	assert_int_equal(to[BLOCK_BYTES - 11], 0xee);
	assert_int_equal(to[BLOCK_BYTES - 10], 2); /* block 1 */
	assert_int_equal(to[2 * BLOCK_BYTES - 11], 2);
	assert_int_equal(to[3 * BLOCK_BYTES - 10], 4); /* block 3 */
	assert_int_equal(to[4 * BLOCK_BYTES - 1], 0xee);
	g = (struct gaps){ .fail = true };
	assert_false(cache_read(&bed->contexts[0], &wanted, &hits));
	g.fail = false;
	file_proof_revoke(&bed->arena.files[0]);
	assert_false(cache_read(&bed->contexts[0], &wanted, &hits));
	bed_free(bed);
}

static void cache_pin_unproved_gives_back(struct bed *bed)
{
	struct context *c = &bed->contexts[0];
	struct cache_file f = { &bed->arena.files[0], FILE_ID };
	u64 *word;
	u32 frame;

	fill(bed, 9, 1);
	assert_int_equal(cache_pin(c, &f, block(1), &frame, &word), 0);
	assert_int_equal(frame, 9);
	cache_unpin(c, word);
	file_proof_revoke(&bed->arena.files[0]);
	assert_false(cache_pin_home(c, &f, block(1), c->scheme != ARENA_SCANNED, &frame,
	                            &word));
	assert_int_equal(cache_pin(c, &f, block(1), &frame, &word), -CONTEXT_EAGAIN);
	assert_true(arena_take(&bed->arena, 9));
}

static void cache_pin_revoked_leaves_nothing(void **state)
{
	(void)state;
	for_each_scheme(cache_pin_unproved_gives_back);
}

static void arena_end_read_not_vouched(void **state)
{
	struct bed *bed = bed_make(ARENA_SCANNED);

	(void)state;
	fill(bed, 9, 1);
	assert_true(reads(bed, 0, 1));
	arena_end(bed->arena.header);
	assert_false(reads(bed, 0, 1));
	bed_free(bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frame_fill_in_the_midst_unreadable),
		cmocka_unit_test(translation_set_full_refuses),
		cmocka_unit_test(arena_take_pinned_refuses),
		cmocka_unit_test(arena_take_all_map_clears_every_entry),
		cmocka_unit_test(context_pin_128_times_refuses_the_last),
		cmocka_unit_test(context_pin_reserve_spent_refuses),
		cmocka_unit_test(context_read_revoked_not_vouched),
		cmocka_unit_test(context_read_dead_service_not_vouched),
		cmocka_unit_test(arena_visits_read_counted_to_three_and_cleared),
		cmocka_unit_test(arena_visits_of_line_each_frame_as_alone),
		cmocka_unit_test(arena_leave_dead_reader_frees_its_pins),
		cmocka_unit_test(arena_leave_atomic_leaks_by_nature),
		cmocka_unit_test(context_hint_ring_delivers_in_order),
		cmocka_unit_test(hint_ring_that_lies_keeps_nobody_awake),
		cmocka_unit_test(arena_view_foreign_memory_refuses),
		cmocka_unit_test(file_proof_next_id_last_ends_in_none),
		cmocka_unit_test(cache_join_full_list_tells_nobody),
		cmocka_unit_test(cache_fill_end_torn_or_unproved_frees),
		cmocka_unit_test(cache_read_some_cached_fills_gaps),
		cmocka_unit_test(cache_pin_revoked_leaves_nothing),
		cmocka_unit_test(arena_end_read_not_vouched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
