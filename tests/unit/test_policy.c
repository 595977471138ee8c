/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A policy of core/kloc drives the running cache. A file's blocks leave fast memory when its last
 * program closes it, and come back when one opens it. The service's own descriptor is no open.
 *
 * Each policy leaves a record of its calls and decisions. The test makes the same calls of
 * core/kloc once more, without a cache, and the decisions must be the same, line by line.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/kloc/kloc.h"
#include "lib/look.h"
#include "tests/support/cache_fixture.h"

#define CACHE_BLOCKS 400u
#define FAST_BLOCKS 160u
#define LINE_BYTES 200u
#define LIST_LENGTH 32u /* as lib/service/policy.c has it */

static struct test_bed bed;
static struct look *look;
static struct stat st;
static char record[FIXTURE_PATH_BYTES];

/* ---- the running cache ---- */

static void make(const char *policy, u64 blocks)
{
	int pid;

	fixture_path(record, "record");
	test_bed_init(&bed, LODIC_LODIC);
	bed.service.options.cache_bytes = CACHE_BLOCKS * LODIC_BLOCK_BYTES;
	bed.service.options.fast_bytes = FAST_BLOCKS * LODIC_BLOCK_BYTES;
	bed.service.options.policy = policy;
	bed.service.options.policy_tick_ms = 1;
	bed.service.options.policy_record = record;
	test_bed_make(&bed, blocks * LODIC_BLOCK_BYTES);
	assert_int_equal(look_open(bed.service.socket, &look, &pid), 0);
	assert_int_equal(stat(bed.path, &st), 0);
}

static int keep_file(void *ctx, const void *r)
{
	const struct look_file *file = r;

	if (file->state == LOOK_HELD && file->ino == st.st_ino)
		memcpy(ctx, file, sizeof(*file));
	return 0;
}

static struct look_file file_now(void)
{
	struct look_file f = { 0 };

	assert_int_equal(look_list(look, LOOK_FILES, keep_file, &f), 0);
	return f;
}

static void open_again(void)
{
	assert_int_equal(lodic_open(bed.lodic, bed.fd, &bed.file), 0);
}

static void end(void)
{
	look_close(look);
	test_bed_free(&bed);
}

static void kloc_last_close_demotes_open_promotes(void **state)
{
	struct look_file f;

	(void)state;
	make("kloc", 100);
	test_bed_fill(&bed);
	assert_int_equal(file_now().fast, 100);
	for (u32 round = 0; round < 2; round++) {
		lodic_close(bed.file);
		assert_true(WAIT_UNTIL(file_now().fast == 0));
		f = file_now();
		assert_int_equal(f.cached, 100);
		assert_int_equal(f.opens, 0);
		open_again();
		assert_true(WAIT_UNTIL(file_now().fast == 100));
		for (u64 i = 0; i < 100; i++)
			assert_true(test_bed_reads_hit(&bed, i));
	}
	end();
}

static void kloc_pinned_block_follows_when_unpinned(void **state)
{
	struct lodic_file *other;
	struct lodic_pin pin;

	(void)state;
	make("kloc", 100);
	test_bed_fill(&bed);
	assert_int_equal(lodic_open(bed.lodic, bed.fd, &other), 0);
	assert_int_equal(lodic_pin(bed.context, other, 0, &pin), 0);
	lodic_close(bed.file);
	lodic_close(other);
	assert_true(WAIT_UNTIL(file_now().fast == 1));
	assert_true(pattern_holds(pin.data, 1, 1, 0, pin.bytes));
	lodic_unpin(bed.context, &pin);
	assert_true(WAIT_UNTIL(file_now().fast == 0));
	open_again();
	end();
}

/* The new arena's policy learns of files and opens anew. */
static void kloc_after_a_resize_goes_on(void **state)
{
	struct look_resize now = { .state = LOOK_RESIZE_RUNS };

	(void)state;
	make("kloc", 100);
	test_bed_fill(&bed);
	assert_int_equal(look_resize(look, 2 * CACHE_BLOCKS * LODIC_BLOCK_BYTES, &now),
	                 0);
	assert_true(WAIT_UNTIL(look_resize(look, 0, &now) == 0 &&
	                       now.state != LOOK_RESIZE_RUNS));
	assert_int_equal(now.state, LOOK_RESIZE_DONE);
	test_bed_come_back(&bed);
	assert_true(WAIT_UNTIL(file_now().fast == 100));
	lodic_close(bed.file);
	assert_true(WAIT_UNTIL_MS(file_now().fast == 0, 20000));
	open_again();
	assert_true(WAIT_UNTIL(file_now().fast == 100));
	end();
}

static void naive_close_moves_nothing(void **state)
{
	(void)state;
	make("naive", 100);
	test_bed_fill(&bed);
	lodic_close(bed.file);
	assert_true(WAIT_UNTIL(file_now().opens == 0));
	assert_int_equal(file_now().fast, 100);
	open_again();
	end();
}

static void user_moves_policy_refuses(void **state)
{
	(void)state;
	make("kloc", 10);
	test_bed_fill(&bed);
	assert_int_equal(look_move(look, st.st_dev, st.st_ino, LOOK_TIER_SLOW), -EPERM);
	end();
}

static void start_unknown_policy_or_oracle_refused(void **state)
{
	static const char *const names[] = { "no-such", "oracle" };

	(void)state;
	for (u32 i = 0; i < 2; i++) {
		struct test_service service;

		test_service_init(&service, "refused");
		service.options.fast_bytes = FAST_BLOCKS * LODIC_BLOCK_BYTES;
		service.options.policy = names[i];
		assert_int_equal(test_service_start(&service), -EINVAL);
		assert_true(strlen(service.why) > 0);
	}
}

/* ---- the same calls once more ---- */

struct replay {
	struct kloc *k;
	FILE *file;
	char decided[LINE_BYTES]; /* by core/kloc, and not yet met in the record */
	u64 nr_decisions, nr_calls;
};

static char *next_line(struct replay *r)
{
	static char line[LINE_BYTES];

	if (!fgets(line, sizeof(line), r->file))
		return NULL;
	line[strcspn(line, "\n")] = '\0';
	return line;
}

/* The record has each decision of a call before the call's own line, or (next, moved, remove,
 * touch, open, close, unlink, tick) after it. So all are kept in a second file. */
static FILE *decisions;

static void replay_log(void *arg, const struct kloc_decision *d)
{
	struct replay *r = arg;

	r->nr_decisions++;
	fprintf(decisions, "%llu %s %s inode=%llu key=%llu kind=%s from=%u to=%u\n",
	        (unsigned long long)d->number, kloc_what_name((enum kloc_what)d->what),
	        kloc_why_name((enum kloc_why)d->why), (unsigned long long)d->inode,
	        (unsigned long long)d->key, kloc_kind_name((enum kloc_kind)d->kind),
	        d->from, d->to);
}

static void replay_begin(struct replay *r)
{
	struct kloc_shape shape = { .nr_tiers = 2,
		                    .nr_cpus = 1,
		                    .list_length = LIST_LENGTH,
		                    .ops = { .arg = r, .log = replay_log } };
	unsigned long long fast, slow;
	char name[32];
	u32 most;

	assert_int_equal(sscanf(next_line(r), "begin %31s %llu %llu %u %u %u", name,
	                        &fast, &slow, &shape.nr_objects, &shape.nr_knodes,
	                        &most),
	                 6);
	shape.capacity[0] = fast;
	shape.capacity[1] = slow;
	shape.policy = kloc_policy_named(name);
	assert_in_range(shape.policy, 0, KLOC_NR_POLICIES - 1);
	kloc_parameters_default(shape.policy, &shape.parameters);
	shape.parameters.max_in_flight = most;
	shape.parameters.knode_tier = KLOC_NO_TIER;
	assert_int_equal(kloc_init(&shape, &r->k), 0);
}

static void replay_add(struct replay *r, u32 object, u32 knode, u64 key)
{
	struct kloc_new n = { .key = key,
		              .knode = knode,
		              .kind = KLOC_FRAME,
		              .bytes = (u32)LODIC_BLOCK_BYTES };
	u32 got, tier;

	assert_int_equal(kloc_add(r->k, &n, &got, &tier), 0);
	assert_int_equal(got, object);
}

static void replay_call(struct replay *r, const char *line)
{
	unsigned long long key;
	struct kloc_move m;
	char word[16];
	u32 a = 0, b = 0, got;

	r->nr_calls++;
	assert_true(sscanf(line, "%15s %u %u", word, &a, &b) >= 1);
	if (strcmp(word, "map") == 0) {
		u32 flags;

		assert_int_equal(sscanf(line, "map %u %u %u", &a, &b, &flags), 3);
		assert_int_equal(kloc_map(r->k, b, flags, &got), 0);
		assert_int_equal(got, a);
	} else if (strcmp(word, "open") == 0) {
		kloc_open(r->k, a, 0);
	} else if (strcmp(word, "close") == 0) {
		kloc_close(r->k, a, 0);
	} else if (strcmp(word, "unlink") == 0) {
		kloc_unlink(r->k, a, 0);
	} else if (strcmp(word, "add") == 0) {
		assert_int_equal(sscanf(line, "add %u %u %llu", &a, &b, &key), 3);
		replay_add(r, a, b, key);
	} else if (strcmp(word, "touch") == 0) {
		kloc_touch(r->k, a, 0);
	} else if (strcmp(word, "remove") == 0) {
		kloc_remove(r->k, a);
	} else if (strcmp(word, "tick") == 0) {
		kloc_tick(r->k);
	} else if (strcmp(word, "next") == 0) {
		kloc_next(r->k, &m);
	} else {
		assert_string_equal(word, "moved");
		kloc_moved(r->k, a, (enum kloc_result)b);
	}
}

/* Makes all calls of the record, and compares all decisions. Returns how many there were. */
static u64 replay(void)
{
	struct replay r = { .file = fopen(record, "r") };
	char mine[LINE_BYTES], *line;
	u64 nr = 0;

	decisions = tmpfile();
	assert_true(r.file && decisions);
	replay_begin(&r);
	while ((line = next_line(&r)))
		if (*line < '0' || *line > '9')
			replay_call(&r, line);
	kloc_check(r.k);
	kloc_fini(r.k);
	rewind(r.file);
	rewind(decisions);
	while ((line = next_line(&r))) {
		if (*line < '0' || *line > '9')
			continue;
		assert_non_null(fgets(mine, sizeof(mine), decisions));
		mine[strcspn(mine, "\n")] = '\0';
		assert_string_equal(line, mine);
		nr++;
	}
	assert_null(fgets(mine, sizeof(mine), decisions));
	assert_int_equal(nr, r.nr_decisions);
	fclose(decisions);
	fclose(r.file);
	return nr;
}

/* Opens, reads, closes, and a writer. demotes: a last close empties fast memory. */
static void live(u64 blocks, bool demotes)
{
	test_bed_fill(&bed);
	for (u32 round = 0; round < 3; round++) {
		for (u64 i = 0; i < blocks; i += 7)
			test_bed_reads_hit(&bed, i);
		lodic_close(bed.file);
		assert_true(WAIT_UNTIL(file_now().opens == 0 &&
		                       (!demotes || file_now().fast == 0)));
		open_again();
		assert_true(WAIT_UNTIL(!demotes || file_now().fast > 0));
		lodic_prefetch(bed.context, bed.file, (off_t)(round * 100 * 4096), 0,
		               LODIC_WAIT);
	}
	close(fixture_open(bed.path, O_WRONLY));
}

static void each_policy_compare(u64 blocks)
{
	for (enum kloc_policy_id i = 0; i < KLOC_NR_POLICIES; i++) {
		bool demotes = i == KLOC_POLICY_KLOC && blocks < CACHE_BLOCKS;
		u64 nr;

		if (i == KLOC_POLICY_ORACLE)
			continue;
		make(kloc_policy_name(i), blocks);
		live(blocks, demotes);
		end();
		nr = replay();
		printf("%s, %llu blocks: %llu decisions\n", kloc_policy_name(i),
		       (unsigned long long)blocks, (unsigned long long)nr);
		/* Each block was placed once, and what was demoted was in fast memory. */
		assert_true(nr >= blocks + (demotes ? 3 * 100 : 0));
	}
}

static void each_policy_same_calls_same_decisions(void **state)
{
	(void)state;
	each_policy_compare(200); /* slow memory has room for all of them */
	each_policy_compare(500); /* more than fit: evictions, and both tiers full */
}

int main(int argc, char **argv)
{
	const struct fixture_option options[] = { { 0 } };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kloc_last_close_demotes_open_promotes),
		cmocka_unit_test(kloc_pinned_block_follows_when_unpinned),
		cmocka_unit_test(kloc_after_a_resize_goes_on),
		cmocka_unit_test(naive_close_moves_nothing),
		cmocka_unit_test(user_moves_policy_refuses),
		cmocka_unit_test(start_unknown_policy_or_oracle_refused),
		cmocka_unit_test(each_policy_same_calls_same_decisions),
	};

	fixture_begin(argc, argv, options);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
