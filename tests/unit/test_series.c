/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the benchmarks of counting compute with: cli/series.h, through which every number
 * goes that they print, and host/random.h, which draws their walks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cli/series.h"
#include "host/random.h"

#define NEAR 1e-9

static struct series make(const double *values, u32 nr)
{
	struct series s;

	assert_int_equal(series_open(&s, nr), 0);
	for (u32 i = 0; i < nr; i++)
		s.at[i] = values[i];
	return s;
}

static void spread_unsorted_median_and_quartiles(void **state)
{
	struct series s = make((const double[]){ 5, 1, 4, 2, 3 }, 5);
	struct series_spread spread = series_spread(&s);

	(void)state;
	assert_true(spread.known);
	assert_int_equal(spread.nr, 5);
	assert_float_equal(spread.low, 2, NEAR);
	assert_float_equal(spread.median, 3, NEAR);
	assert_float_equal(spread.high, 4, NEAR);
	series_close(&s);
}

static void spread_even_number_lies_between(void **state)
{
	struct series s = make((const double[]){ 1, 2, 4, 8 }, 4);
	struct series_spread spread = series_spread(&s);

	(void)state;
	assert_float_equal(spread.median, 3, NEAR);
	assert_float_equal(spread.low, 1.75, NEAR);
	assert_float_equal(spread.high, 5, NEAR);
	series_close(&s);
}

static void spread_disturbed_rounds_are_left_out(void **state)
{
	struct series s = make((const double[]){ 0, 7, 0, 9, 8, 0 }, 6);
	struct series_spread spread = series_spread(&s);

	(void)state;
	assert_int_equal(spread.nr, 3);
	assert_float_equal(spread.median, 8, NEAR);
	series_close(&s);
}

static void spread_too_few_rounds_is_unknown(void **state)
{
	struct series s = make((const double[]){ 3, 0, 3, 0 }, 4);

	(void)state;
	assert_false(series_spread(&s).known);
	series_close(&s);
}

/* A machine that slows down half-way: the ratio of medians would be 10/2 or 1/2. */
static void ratio_is_taken_round_by_round(void **state)
{
	struct series a = make((const double[]){ 20, 20, 2, 2, 20, 2 }, 6);
	struct series b = make((const double[]){ 10, 10, 1, 1, 0, 0 }, 6);
	struct series_spread ratio = series_ratio(&a, &b);

	(void)state;
	assert_true(ratio.known);
	assert_int_equal(ratio.nr, 4);
	assert_float_equal(ratio.low, 2, NEAR);
	assert_float_equal(ratio.median, 2, NEAR);
	assert_float_equal(ratio.high, 2, NEAR);
	series_close(&a);
	series_close(&b);
}

static void ratio_without_common_rounds_is_unknown(void **state)
{
	struct series a = make((const double[]){ 1, 0, 1, 0, 1, 0 }, 6);
	struct series b = make((const double[]){ 0, 1, 0, 1, 0, 1 }, 6);

	(void)state;
	assert_false(series_ratio(&a, &b).known);
	series_close(&a);
	series_close(&b);
}

/* The first three numbers that splitmix64's authors give for this seed. A seed in a printed
 * line or a CSV file must mean the same numbers on every machine and in every version. */
static void random_next_same_seed_same_numbers(void **state)
{
	u64 sequence = 1234567;

	(void)state;
	assert_true(random_next(&sequence) == 6457827717110365317u);
	assert_true(random_next(&sequence) == 3203168211198807973u);
	assert_true(random_next(&sequence) == 9817491932198370423u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spread_unsorted_median_and_quartiles),
		cmocka_unit_test(spread_even_number_lies_between),
		cmocka_unit_test(spread_disturbed_rounds_are_left_out),
		cmocka_unit_test(spread_too_few_rounds_is_unknown),
		cmocka_unit_test(ratio_is_taken_round_by_round),
		cmocka_unit_test(ratio_without_common_rounds_is_unknown),
		cmocka_unit_test(random_next_same_seed_same_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
