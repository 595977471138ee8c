/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Frames, translation, reads, visits, hints and the arena itself, in one thread: what each step
 * leaves behind. Pins and takes: test_batch.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "host/random.h"
#include "tests/support/arena_bed.h"

static void frame_fill_in_the_midst_unreadable(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);
	struct frame *f = &bed->arena.frames[4];
	u64 seq = f->seq;

	(void)state;
	frame_fill_begin(f);
	assert_int_equal(f->seq & 1, 1);
	assert_int_equal(f->block, BLOCK_NONE);
	frame_fill_end(f, bed_block(1));
	assert_true(f->seq > seq && !(f->seq & 1));
	frame_clear(f);
	frame_fill_begin(f);
	frame_fill_cancel(f);
	assert_int_equal(f->state, FRAME_FREE);
	bed_free(bed);
}

/* T3, and each block is found that was set. Returns how many stand in second buckets. */
static u32 translation_check(const struct arena_bed *bed, const u32 *frames, u32 nr)
{
	const struct translation *t = &bed->arena.translation;
	u32 nr_spilled = 0, nr_spills = 0;
	u64 word;

	for (u32 i = 0; i < nr; i++) {
		const u64 *at = translation_find(t, bed_block(i), &word);

		if (frames[i] == 0)
			continue;
		assert_non_null(at);
		assert_int_equal(translation_frame(word), frames[i]);
		assert_ptr_equal(at,
		                 translation_find_exact(t, bed_block(i), frames[i]));
		nr_spilled += translation_is_spilled(t, bed_block(i), at);
	}
	for (u32 i = 0; i < bed->arena.header->nr_words; i++)
		nr_spills += t->words[i] >> 63;
	assert_int_equal(nr_spills, nr_spilled);
	return nr_spilled;
}

static void translation_set_full_refuses(void **state)
{
	enum { MANY = 1000 };
	struct arena_bed *bed = bed_make(ARENA_SCANNED);
	struct translation *t = &bed->arena.translation;
	u32 index, nr = 0, first_refused = 0;
	u32 frames[MANY] = { 0 };

	(void)state;
	/* Far more than there is room for: nobody is refused before a quarter of all words. */
	for (index = 0; index < MANY; index++) {
		if (translation_set(t, bed_block(index), nr + 1))
			frames[index] = ++nr;
		else if (first_refused == 0)
			first_refused = index;
	}
	assert_in_range(first_refused, BED_FRAMES, bed->arena.header->nr_words);
	assert_in_range(nr, first_refused, bed->arena.header->nr_words);
	assert_true(translation_check(bed, frames, MANY) > 0);
	/* Blocks go and others come: also into words that keep a bucket's bit. */
	for (index = 0; index < MANY; index++) {
		u32 other = (index * 7 + 3) % MANY;

		translation_clear(t, bed_block(index), frames[index]);
		frames[index] = 0;
		if (frames[other] == 0 && translation_set(t, bed_block(other), nr + 1))
			frames[other] = ++nr;
		translation_check(bed, frames, MANY);
	}
	for (index = 0; index < MANY; index++)
		translation_clear(t, bed_block(index), frames[index]);
	for (u32 i = 0; i < bed->arena.header->nr_words; i++)
		assert_int_equal(t->words[i], 0);
	bed_free(bed);
}

static void context_read_revoked_not_vouched(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);

	(void)state;
	bed_fill(bed, 9, 1);
	assert_true(bed_reads(bed, 0, 1));
	file_proof_revoke(&bed->arena.files[0]);
	assert_false(bed_reads(bed, 0, 1));
	bed_free(bed);
}

static void context_read_dead_service_not_vouched(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);

	(void)state;
	bed_fill(bed, 9, 1);
	bed->arena.header->alive = 0x40000000; /* what the kernel leaves there */
	assert_false(bed_reads(bed, 0, 1));
	bed_free(bed);
}

static u32 visits(struct arena_bed *bed, u32 frame)
{
	u8 nr;

	arena_visits(&bed->arena, frame, 1, &nr);
	return nr;
}

static void arena_visits_read_counted_to_three_and_cleared(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);

	(void)state;
	bed_fill(bed, 9, 1);
	bed_fill(bed, 1, 2);
	assert_int_equal(visits(bed, 9), 0);
	bed_reads(bed, 0, 1);
	assert_int_equal(visits(bed, 9), 1);
	for (u32 i = 0; i < 9; i++)
		bed_reads(bed, 0, 1);
	bed_reads(bed, 1, 2);
	bed_reads(bed, 2, 2);
	assert_int_equal(visits(bed, 9), 3);
	assert_int_equal(visits(bed, 9), 0);
	assert_int_equal(visits(bed, 1), 2); /* two readers, once each */
	bed_free(bed);
}

/* Notes random visits, also rubbish, and says what they come to. */
static void note_visits(struct arena_bed *bed, u64 *random, u8 sums[BED_FRAMES])
{
	for (u32 i = 0; i < BED_FRAMES; i++) {
		u64 bits = random_next(random);
		u8 noted = (u8)(bits % 8 < 6 ? bits >> 8 & 3 : bits >> 40);

		bed->arena.visits[i] = noted;
		sums[i] = noted < FRAME_VISITS_MAX ? noted : FRAME_VISITS_MAX;
	}
}

/* Words are bounded as bytes are. */
static void arena_visits_of_line_each_frame_as_alone(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);
	u8 sums[BED_FRAMES], together[BED_FRAMES];
	u64 random = 1;

	(void)state;
	for (u32 round = 0; round < 1000; round++) {
		note_visits(bed, &random, sums);
		arena_visits(&bed->arena, 0, BED_FRAMES, together);
		assert_memory_equal(together, sums, BED_FRAMES);
		assert_int_equal(visits(bed, round % BED_FRAMES), 0);
		note_visits(bed, &random, sums);
		for (u32 i = 0; i < BED_FRAMES; i++)
			assert_int_equal(visits(bed, i), sums[i]);
	}
	bed_free(bed);
}

static void context_hint_ring_delivers_in_order(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);
	struct hint_ring *ring = &bed->contexts[1].memory->ring;
	struct hint_kept *kept = &bed->contexts[1].memory->kept;
	u8 *posted = &bed->arena.posted[bed->places[1]];
	u64 first, nr;

	(void)state;
	assert_false(arena_posted(&bed->arena, bed->places[1]));
	assert_true(arena_sleep(&bed->arena));
	assert_true(hint_post(ring, kept, posted, &bed->arena.header->sleeping,
	                      bed_block(1), 4));
	assert_false(arena_sleep(&bed->arena)); /* there is work */
	for (u32 i = 1; i < HINT_MAX; i++)
		assert_false(hint_post(ring, kept, posted, &bed->arena.header->sleeping,
		                       bed_block(i + 1), 4));
	assert_true(hint_full(ring));
	/* Another reader takes the mark away; the next hint sets it, though it is kept. */
	assert_true(arena_posted(&bed->arena, bed->places[1]));
	assert_false(hint_post(ring, kept, posted, &bed->arena.header->sleeping,
	                       bed_block(999), 4)); /* kept */
	assert_false(arena_posted(&bed->arena, bed->places[0]));
	assert_true(arena_posted(&bed->arena, bed->places[1]));
	assert_false(arena_posted(&bed->arena, bed->places[1]));
	/* The service sleeps meanwhile: it is woken for a hint that is kept, too. */
	assert_true(arena_sleep(&bed->arena));
	assert_true(hint_post(ring, kept, posted, &bed->arena.header->sleeping,
	                      bed_block(999), 4));
	assert_false(arena_sleep(&bed->arena)); /* there is work */
	for (u32 i = 0; i < HINT_MAX; i++) {
		assert_true(arena_hint(&bed->arena, bed->places[1], &first, &nr));
		assert_int_equal(first, bed_block(i + 1));
		assert_int_equal(nr, 4);
	}
	assert_false(arena_hint(&bed->arena, bed->places[1], &first, &nr));
	bed_free(bed);
}

/* Posts a hint to a full ring, and says how many ranges are kept then; *range is the last. */
static u32 keep(struct arena_bed *bed, u32 file, u32 index, u64 nr, u64 range[2])
{
	struct context_memory *m = bed->contexts[1].memory;
	u64 ranges[HINT_KEPT][2];
	u32 kept;

	hint_post(&m->ring, &m->kept, &bed->arena.posted[bed->places[1]],
	          &bed->arena.header->sleeping, block_id(file, index), nr);
	assert_true(arena_posted(&bed->arena, bed->places[1]));
	kept = arena_kept(&bed->arena, bed->places[1], ranges);
	assert_in_range(kept, 1, HINT_KEPT);
	memcpy(range, ranges[kept - 1], sizeof(ranges[0]));
	return kept;
}

static void hint_ring_full_keeps_ranges(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);
	struct context_memory *m = bed->contexts[1].memory;
	u64 range[2], ranges[HINT_KEPT][2];

	(void)state;
	for (u32 i = 0; i < HINT_MAX; i++)
		hint_post(&m->ring, &m->kept, &bed->arena.posted[bed->places[1]],
		          &bed->arena.header->sleeping, block_id(1, i), 1);
	assert_int_equal(arena_kept(&bed->arena, bed->places[1], ranges), 0);
	assert_int_equal(keep(bed, 1, 500, 2, range), 1);
	assert_int_equal(range[0], block_id(1, 500));
	assert_int_equal(range[1], 2);
	/* What the service has taken is given up, and it takes nothing twice. */
	assert_int_equal(arena_kept(&bed->arena, bed->places[1], ranges), 0);
	assert_int_equal(keep(bed, 1, 502, 1, range), 1);
	assert_int_equal(range[0], block_id(1, 502));
	bed_free(bed);
}

static void hint_kept_ranges_merge(void **state)
{
	struct hint_kept kept = { 0 };
	u64 ranges[HINT_KEPT][2];

	(void)state;
	hint_keep(&kept, block_id(1, 100), 4);
	hint_keep(&kept, block_id(1, 104), 1); /* behind it */
	hint_keep(&kept, block_id(1, 98), 3);  /* before it, and into it */
	hint_keep(&kept, block_id(1, 105), HINT_ASKED | 1);
	assert_int_equal(hint_take_kept(&kept, ranges), 2);
	assert_int_equal(ranges[0][0], block_id(1, 98));
	assert_int_equal(ranges[0][1], 7);
	assert_int_equal(ranges[1][1],
	                 HINT_ASKED | 1); /* asked for, and so by itself */
	/* While a place is free, no block comes that nobody asked for. */
	hint_keep(&kept, block_id(1, 100), 1);
	hint_keep(&kept, block_id(1, 102), 1);
	assert_int_equal(hint_take_kept(&kept, ranges), 2);
	/* More than there is room for: the nearest of the file takes it, and says so. */
	for (u32 i = 0; i < HINT_KEPT; i++)
		hint_keep(&kept, block_id(2 + i, 0), 1);
	hint_keep(&kept, block_id(3, 9), 1);
	hint_keep(&kept, block_id(1, 9), 1); /* no room, and none of its file */
	assert_int_equal(hint_take_kept(&kept, ranges), HINT_KEPT);
	assert_int_equal(ranges[1][0], block_id(3, 0));
	assert_int_equal(ranges[1][1], HINT_GAPS | 10);
	/* Not while they change. */
	hint_keep(&kept, block_id(1, 1), 1);
	kept.version++;
	assert_int_equal(hint_take_kept(&kept, ranges), 0);
	kept.version++;
	assert_int_equal(hint_take_kept(&kept, ranges), 1);
}

/* Its reader can write any number there; nobody reads more than the ring holds (H5). */
static void hint_ring_that_lies_keeps_nobody_awake(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);
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
	struct arena_bed *bed = bed_make(ARENA_SCANNED);
	struct arena_header *h = bed->arena.header;
	struct arena_shape shape;
	struct arena other;
	u64 bytes = h->bytes, data = h->data_bytes;

	(void)state;
	assert_true(arena_open(&other, h, bytes, bed->arena.data, data, NULL));
	assert_false(arena_open(&other, h, bytes - 64, bed->arena.data, data, NULL));
	assert_false(arena_open(&other, h, bytes, bed->arena.data, data + BLOCK_BYTES,
	                        NULL));
	h->frames_at += 64;
	assert_false(arena_open(&other, h, bytes, bed->arena.data, data, NULL));
	h->frames_at -= 64;
	h->magic++;
	assert_false(arena_open(&other, h, bytes, bed->arena.data, data, NULL));
	h->magic--;
	assert_true(arena_open(&other, h, bytes, bed->arena.data, data, NULL));
	shape = (struct arena_shape){ .nr_frames = other.nr_frames };
	assert_true(arena_shared_fits(&other, arena_shared_bytes(&shape)));
	assert_false(arena_shared_fits(&other, arena_shared_bytes(&shape) - 64));
	bed_free(bed);
}

/* C22: a word of the translation that leads to no frame of the arena. */
static void read_frame_that_is_none_not_cached(struct arena_bed *bed)
{
	u64 block = bed_block(3), right, *word, *pinned;
	struct context *c = &bed->contexts[0];
	u32 frame;

	bed_fill(bed, 5, 3);
	word = translation_find_exact(&bed->arena.translation, block, 5);
	right = *word;
	assert_true(bed_reads(bed, 0, 3));
	for (u32 wrong = BED_FRAMES; wrong != 0; wrong *= 2) {
		*word = (right & ~(u64)UINT32_MAX) | wrong;
		assert_false(bed_reads(bed, 0, 3));
		assert_int_not_equal(context_pin(c, block, &frame, &pinned), 0);
	}
	*word = right;
	assert_true(bed_reads(bed, 0, 3));
}

static void read_frame_that_is_none_each_scheme(void **state)
{
	(void)state;
	bed_for_each_scheme(read_frame_that_is_none_not_cached);
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

/* What file_proof_begin() asks of its caller; the size cannot be had. */
struct proof_asked {
	u32 nr_locks, nr_taken, nr_entered;
};

static void proof_lock(void *ctx)
{
	((struct proof_asked *)ctx)->nr_locks++;
}

static int proof_take(void *ctx)
{
	((struct proof_asked *)ctx)->nr_taken++;
	return 0;
}

static int proof_size_fails(void *ctx, u64 *ret_size)
{
	(void)ctx, (void)ret_size;
	return -5;
}

static void proof_enter(void *ctx)
{
	((struct proof_asked *)ctx)->nr_entered++;
}

static void proof_give_back(void *ctx)
{
	((struct proof_asked *)ctx)->nr_taken--;
}

static void proof_unlock(void *ctx)
{
	((struct proof_asked *)ctx)->nr_locks--;
}

static void file_proof_begin_size_fails_changes_nothing(void **state)
{
	const struct file_proof_ops ops = { proof_lock,       proof_take,
		                            proof_size_fails, proof_enter,
		                            proof_give_back,  proof_unlock };
	struct file_proof s = { .live = FILE_NONE, .size = 3 };
	struct proof_asked asked = { 0 };
	u64 size = 7;

	(void)state;
	assert_int_equal(file_proof_begin(&s, BED_FILE, &ops, &asked, &size), -5);
	assert_int_equal(s.live, FILE_NONE);
	assert_int_equal(s.size, 3);
	assert_int_equal(size, 7);
	assert_int_equal(asked.nr_locks, 0);
	assert_int_equal(asked.nr_taken, 0);
	assert_int_equal(asked.nr_entered, 0);
}

static void tell(void *ctx, u32 place)
{
	*(u32 *)ctx = place;
}

static void cache_join_full_list_tells_nobody(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);
	struct context_table t;
	u32 told = FRAME_NONE, i;

	(void)state;
	arena_context_table(&t, bed->contexts[0].memory);
	for (i = BED_CONTEXTS; i < ARENA_MAX_CONTEXTS; i++) {
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
	struct arena_bed *bed = bed_make(ARENA_SCANNED);
	struct cache_file f = { &bed->arena.files[0], BED_FILE };

	(void)state;
	cache_fill_begin(&bed->arena, 9);
	assert_false(cache_fill_end(&bed->arena, &f, 9, bed_block(1), false));
	assert_int_equal(bed->arena.frames[9].state, FRAME_FREE);
	file_proof_revoke(&bed->arena.files[0]);
	cache_fill_begin(&bed->arena, 9);
	assert_false(cache_fill_end(&bed->arena, &f, 9, bed_block(1), true));
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
	struct arena_bed *bed = bed_make(ARENA_SCANNED);
	struct cache_file f = { &bed->arena.files[0], BED_FILE };
	static u8 to[5 * BLOCK_BYTES];
	struct gaps g = { 0 };
	struct cache_read wanted = { &f, to, 4 * BLOCK_BYTES, 10, note_gap, &g };
	u64 hits = 99;

	(void)state;
	bed_fill(bed, 9, 1);
	bed_fill(bed, 4, 3);
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

static void arena_end_read_not_vouched(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);

	(void)state;
	bed_fill(bed, 9, 1);
	assert_true(bed_reads(bed, 0, 1));
	arena_end(bed->arena.header);
	assert_false(bed_reads(bed, 0, 1));
	bed_free(bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frame_fill_in_the_midst_unreadable),
		cmocka_unit_test(translation_set_full_refuses),
		cmocka_unit_test(context_read_revoked_not_vouched),
		cmocka_unit_test(context_read_dead_service_not_vouched),
		cmocka_unit_test(arena_visits_read_counted_to_three_and_cleared),
		cmocka_unit_test(arena_visits_of_line_each_frame_as_alone),
		cmocka_unit_test(context_hint_ring_delivers_in_order),
		cmocka_unit_test(hint_ring_full_keeps_ranges),
		cmocka_unit_test(hint_kept_ranges_merge),
		cmocka_unit_test(hint_ring_that_lies_keeps_nobody_awake),
		cmocka_unit_test(arena_view_foreign_memory_refuses),
		cmocka_unit_test(read_frame_that_is_none_each_scheme),
		cmocka_unit_test(file_proof_next_id_last_ends_in_none),
		cmocka_unit_test(file_proof_begin_size_fails_changes_nothing),
		cmocka_unit_test(cache_join_full_list_tells_nobody),
		cmocka_unit_test(cache_fill_end_torn_or_unproved_frees),
		cmocka_unit_test(cache_read_some_cached_fills_gaps),
		cmocka_unit_test(arena_end_read_not_vouched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
