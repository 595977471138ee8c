/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Records of a running cache: made again, taken as traces, and refused when they are wrong. What a
 * real service wrote down is replayed by test_policy.c. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/kloc/kloc.h"
#include "sim/tier/record.h"
#include "sim/tier/trace.h"

#define BEGIN "begin kloc 16384 16384 16 4 2 00\n"
#define MAP BEGIN "map 0 7 0\nopen 0 1\n"
#define PLACE_1 "1 place state inode=7 key=0 kind=frame from=4 to=0\n"
#define PLACE_2 "2 place state inode=7 key=4096 kind=frame from=4 to=0\n"
#define ADDED MAP PLACE_1 "add 0 0 0 0\n" PLACE_2 "add 1 0 4096 0\n"
#define DEMOTE "3 demote state inode=7 key=0 kind=frame from=0 to=1\n"
#define WHOLE \
	ADDED "touch 1 1\nclose 0 1\nnext\n" DEMOTE \
	      "moved 0 0\ntick\nunlink 0 1\nremove 0\nremove 1\n"

static char path[] = "/tmp/lodic-record-XXXXXX";

static void write_record(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fputs(text, f) < 0, 0);
	assert_int_equal(fclose(f), 0);
}

static int replay(const char *text, struct record_result *ret)
{
	write_record(text);
	return record_replay(path, ret);
}

static void replay_of_record_same_decisions(void **state)
{
	struct record_result result;

	(void)state;
	assert_int_equal(replay(WHOLE, &result), 0);
	assert_string_equal(result.policy, "kloc");
	assert_int_equal(result.nr_calls, 12);
	assert_int_equal(result.nr_decisions, 3);
}

static void replay_of_other_decision_einval(void **state)
{
	static const char *const others[] = {
		/* The tier, a decision too many, one that is missing. */
		MAP "1 place state inode=7 key=0 kind=frame from=4 to=1\nadd 0 0 0 0\n",
		ADDED DEMOTE,
		MAP "add 0 0 0 0\n",
		ADDED "close 0 1\nnext\n",
		/* The same decisions of another policy. */
		"begin naive 16384 16384 16 4 2 00\nmap 0 7 0\nopen 0 1\n" PLACE_1
		"add 0 0 0 0\n",
	};
	struct record_result result;
	u32 i;

	(void)state;
	for (i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_int_equal(replay(others[i], &result), -EINVAL);
}

static void replay_of_rubbish_einval(void **state)
{
	static const char *const rubbish[] = {
		"",
		"\n",
		"begin",
		"begin kloc 1 2 3 4\n",
		"begin no-such 16384 16384 16 4 2 00\n",
		"begin kloc 16384 16384 0 4 2 00\n",
		"begin kloc 16384 16384 99999999999 4 2 00\n",
		"begin kloc 99999999999999999999 16384 16 4 2 00\n",
		"begin kloc 16384 16384 16 4 2\n",
		"begin kloc 16384 16384 16 4 2 02\n",
		BEGIN "open 0 1\n",
		BEGIN "map 0 7 0\nopen 0\n",
		BEGIN "map 0 7 0\nopen 0 2\n",
		MAP "add 0 0 0 2\n",
		BEGIN "map 4 7 0\n",
		BEGIN "map 0 0 0\n",
		BEGIN "map 1 7 0\n",
		BEGIN "fly 1\n",
		BEGIN "tick 1",
		BEGIN BEGIN,
		MAP "close 1 1\n",
		MAP "close 0 1\nclose 0 1\n",
		MAP "unlink 0 1\n",
		MAP "touch 0 1\n",
		MAP "moved 0 0\n",
		MAP "add 16 0 0 0\n",
		MAP "add 0 1 0 0\n",
		ADDED "add 0 0 8192 0\n",
		ADDED "remove 2\n",
		ADDED "remove 0\nremove 0\n",
		ADDED "close 0 1\nnext\n" DEMOTE "moved 0 9\n",
	};
	struct record_result result;
	u32 i;

	(void)state;
	for (i = 0; i < sizeof(rubbish) / sizeof(*rubbish); i++)
		assert_int_equal(replay(rubbish[i], &result), -EINVAL);
	unlink(path);
	assert_int_equal(record_replay(path, &result), -ENOENT);
}

static void trace_of_record_opens_and_reads(void **state)
{
	static const struct tier_event want[] = {
		{ 1, TIER_OPEN, KLOC_FRAME, 1, 0, 0 },
		{ 0, TIER_READ, KLOC_FRAME, 1, 0, 4096 },
		{ 0, TIER_READ, KLOC_FRAME, 1, 1, 4096 },
		{ 1, TIER_READ, KLOC_FRAME, 1, 1, 4096 },
		{ 1, TIER_CLOSE, KLOC_FRAME, 1, 0, 0 },
		{ 1, TIER_UNLINK, KLOC_FRAME, 1, 0, 0 },
	};
	struct tier_source *source;
	struct tier_event event;
	u32 i;

	(void)state;
	write_record(WHOLE);
	assert_int_equal(trace_open(path, NULL, &source), 0);
	for (i = 0; i < sizeof(want) / sizeof(*want); i++) {
		assert_int_equal(source->next(source, &event), 1);
		assert_memory_equal(&event, &want[i], sizeof(event));
	}
	assert_int_equal(source->next(source, &event), 0);
	source->close(source);
}

/* Of a cache of 384 GiB: its sizes are no mistake. */
static void trace_of_record_of_a_large_cache_opens(void **state)
{
	struct tier_source *source;
	struct tier_event event;

	(void)state;
	write_record("begin kloc 206158430208 206158430208 100663552 8192 256 00\n"
	             "map 0 7 0\nopen 0 1\n");
	assert_int_equal(trace_open(path, NULL, &source), 0);
	assert_int_equal(source->next(source, &event), 1);
	source->close(source);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replay_of_record_same_decisions),
		cmocka_unit_test(replay_of_other_decision_einval),
		cmocka_unit_test(replay_of_rubbish_einval),
		cmocka_unit_test(trace_of_record_opens_and_reads),
		cmocka_unit_test(trace_of_record_of_a_large_cache_opens),
	};
	int fd = mkstemp(path), failed;

	assert_true(fd >= 0);
	close(fd);
	failed = cmocka_run_group_tests_name("record", tests, NULL, NULL);
	unlink(path);
	return failed;
}
