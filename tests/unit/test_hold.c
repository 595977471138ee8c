/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Holds in one thread: which of several a request gets, and ways that the searched scenarios
 * (check/hold_cases.c) do not go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/cache/hold.h"

#define ID 5u
#define OTHER_ID 6u
#define ALIVE 9u
#define PAGE 4096u

/* The words of an arena, and room for holds. */
struct bed {
	struct file_proof proof;
	u64 alive;
	struct hold_file file;
	struct hold_room room;
	struct hold holds[3];
	unsigned int nr_looks;
	bool had;
};

static void bed_make(struct bed *bed)
{
	*bed = (struct bed){ .alive = ALIVE, .room = { .most = 16 * PAGE } };
	file_proof_admit(&bed->proof, ID, 100 * PAGE);
	bed->file = (struct hold_file){ &bed->proof, &bed->alive, ALIVE, ID, 0 };
	for (u32 i = 0; i + 1 < 3; i++)
		bed->holds[i].next = &bed->holds[i + 1];
}

/* Begins a hold of pages [from, to). */
static struct hold *bed_begin(struct bed *bed, u32 place, u64 from, u64 to)
{
	struct hold *h = &bed->holds[place], *next = h->next;

	assert_true(hold_begin(h, &bed->room, &bed->file, from * PAGE, to * PAGE,
	                       (to - from) * PAGE, 1));
	assert_ptr_equal(h->next, next);
	return h;
}

static struct hold *bed_share(struct bed *bed, u32 place, u64 from, u64 to)
{
	struct hold *h = bed_begin(bed, place, from, to);

	assert_true(hold_piece_begin(h));
	assert_false(hold_piece_begin(h));
	assert_false(hold_is_read(h));
	hold_piece_end(h, true);
	assert_true(hold_is_read(h));
	assert_true(hold_publish(h, true));
	hold_check(h);
	return h;
}

static enum hold_answer bed_ask(struct bed *bed, u64 from, u64 to,
                                struct hold **ret_hold)
{
	return hold_ask(bed->holds, &bed->file, from * PAGE, to * PAGE, ret_hold);
}

static bool bed_look(void *ctx)
{
	struct bed *bed = ctx;

	bed->nr_looks++;
	return bed->had;
}

static void hold_ask_several_cover_it_gives_the_shared_one(void **state)
{
	struct bed bed;
	struct hold *got = NULL, *reading, *shared;

	(void)state;
	bed_make(&bed);
	reading = bed_begin(&bed, 0, 0, 8);
	shared = bed_share(&bed, 1, 2, 4);
	assert_int_equal(bed_ask(&bed, 2, 4, &got), HOLD_GIVE);
	assert_ptr_equal(got, shared);
	assert_int_equal(bed_ask(&bed, 2, 5, &got), HOLD_WAIT);
	assert_ptr_equal(got, reading);
	got = NULL;
	assert_int_equal(bed_ask(&bed, 7, 9, &got), HOLD_NONE);
	assert_null(got);
}

static void hold_ask_proof_gone_outdates_the_file_alone(void **state)
{
	struct bed bed;
	struct hold *got = NULL, *other;

	(void)state;
	bed_make(&bed);
	bed_share(&bed, 0, 0, 2);
	bed_begin(&bed, 1, 4, 6);
	other = bed_share(&bed, 2, 0, 2);
	other->file.id = OTHER_ID;
	file_proof_revoke(&bed.proof);
	assert_int_equal(bed_ask(&bed, 0, 1, &got), HOLD_NONE);
	assert_int_equal(bed.holds[0].state, HOLD_PAST);
	assert_int_equal(bed.holds[1].state, HOLD_LOADING);
	assert_true(hold_is_read(&bed.holds[1])); /* nobody need read it */
	assert_false(hold_publish(&bed.holds[1], true));
	assert_int_equal(other->state, HOLD_SHARED);
}

static void hold_begin_most_lowered_refuses(void **state)
{
	struct bed bed;

	(void)state;
	bed_make(&bed);
	bed_share(&bed, 0, 0, 8);
	assert_false(
		hold_begin(&bed.holds[1], &bed.room, &bed.file, 0, PAGE, 9 * PAGE, 1));
	bed.room.most = 4 * PAGE;
	assert_false(hold_begin(&bed.holds[1], &bed.room, &bed.file, 0, PAGE, PAGE, 1));
	assert_int_equal(bed.room.used, 8 * PAGE);
	assert_true(hold_leave(&bed.holds[0], bed_look, &bed));
	hold_end(&bed.holds[0]);
	assert_int_equal(bed.room.used, 0);
	bed_begin(&bed, 1, 0, 4);
}

static void hold_piece_begin_proof_gone_reads_no_more(void **state)
{
	struct bed bed;
	struct hold *h;

	(void)state;
	bed_make(&bed);
	h = bed_begin(&bed, 0, 0, 8);
	bed.alive = 0; /* the arena has ended; live stays as it is */
	assert_false(hold_is_read(h));
	assert_false(hold_piece_begin(h));
	assert_true(hold_is_read(h));
	assert_false(hold_publish(h, true));
	assert_int_equal(bed.room.used, 8 * PAGE); /* until the memory has gone */
	hold_end(h);
	assert_int_equal(bed.room.used, 0);
}

static void hold_leave_given_to_nobody_asks_nobody(void **state)
{
	struct bed bed = { 0 };
	struct hold *h, *got;

	(void)state;
	bed_make(&bed);
	h = bed_share(&bed, 0, 0, 8);
	bed.had = true;
	assert_int_equal(bed_ask(&bed, 0, 1, &got), HOLD_GIVE);
	assert_false(hold_leave(h, bed_look, &bed));
	bed.had = false;
	assert_false(hold_look(h, bed_look, &bed));
	assert_int_equal(bed.nr_looks, 2);
	assert_true(hold_leave(h, bed_look, &bed)); /* by the look of before */
	assert_int_equal(bed.nr_looks, 2);
	assert_false(hold_leave(h, bed_look, &bed)); /* it goes already */
}

static void hold_pass_on_each_state_what_was_published(void **state)
{
	struct bed bed;
	struct hold *h;

	(void)state;
	bed_make(&bed);
	h = bed_begin(&bed, 0, 0, 8);
	assert_false(hold_pass_on(h));
	assert_true(hold_piece_begin(h));
	hold_piece_end(h, true);
	assert_true(hold_publish(h, true));
	assert_true(hold_pass_on(h));
	hold_outdate(h);
	assert_int_equal(h->state, HOLD_PAST);
	assert_false(hold_look(h, bed_look, &bed));
	assert_false(h->had);
	assert_true(hold_pass_on(h));
	assert_true(h->had); /* HD4: that look is out of date */
	assert_true(hold_leave(h, bed_look, &bed));
	assert_false(hold_pass_on(h));
	hold_end(h);
	assert_false(hold_pass_on(h));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hold_ask_several_cover_it_gives_the_shared_one),
		cmocka_unit_test(hold_ask_proof_gone_outdates_the_file_alone),
		cmocka_unit_test(hold_begin_most_lowered_refuses),
		cmocka_unit_test(hold_piece_begin_proof_gone_reads_no_more),
		cmocka_unit_test(hold_leave_given_to_nobody_asks_nobody),
		cmocka_unit_test(hold_pass_on_each_state_what_was_published),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
