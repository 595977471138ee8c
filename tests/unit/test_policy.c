/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A policy of core/kloc drives the running cache. A file's blocks leave fast memory when its last
 * program closes it, and come back when one opens it. The service's own descriptor is no open.
 *
 * Each policy leaves a record of its calls and decisions. lodic-sim makes the same calls of
 * core/kloc once more, without a cache, and the decisions must be the same, line by line.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/kloc/kloc.h"
#include "lib/look.h"
#include "lib/port.h"
#include "lib/service/tier/policy_record.h"
#include "tests/support/wire_caller.h"

#define CACHE_BLOCKS 400u
#define FAST_BLOCKS 160u

static struct test_bed bed;
static struct look *look;
static struct stat st;
static char record[FIXTURE_PATH_BYTES];

/* ---- the running cache ---- */

static void make_begin(const char *policy)
{
	fixture_path(record, "record");
	test_bed_init(&bed, LODIC_LODIC);
	bed.service.options.sizes.cache_bytes = CACHE_BLOCKS * LODIC_BLOCK_BYTES;
	bed.service.options.sizes.fast_bytes = FAST_BLOCKS * LODIC_BLOCK_BYTES;
	bed.service.options.placing.policy = policy;
	bed.service.options.placing.policy_tick_ms = 1;
	bed.service.options.placing.policy_record = record;
}

static void make_end(u64 blocks)
{
	int pid;

	test_bed_make(&bed, blocks * LODIC_BLOCK_BYTES);
	assert_int_equal(look_open(bed.service.socket, &look, &pid), 0);
	assert_int_equal(stat(bed.path, &st), 0);
}

static void make(const char *policy, u64 blocks)
{
	make_begin(policy);
	make_end(blocks);
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

/* ---- the same calls once more ---- */

/* lodic-sim makes all calls of the record, and compares all decisions: some least. */
static void replay(u64 least)
{
/* There is no lodic-sim in a build for the thread sanitizer. */
#ifndef __SANITIZE_THREAD__
	const char *build = getenv("LODIC_BUILD");
	char command[2 * FIXTURE_PATH_BYTES], policy[32];
	unsigned long long calls, nr;
	FILE *said;

	assert_non_null(build);
	snprintf(command, sizeof(command),
	         "'%s/lodic-sim' tier --json --replay '%s' 2>&1", build, record);
	said = popen(command, "r");
	assert_non_null(said);
	assert_int_equal(fscanf(said,
	                        "{\"policy\": \"%31[^\"]\", \"calls\": %llu, "
	                        "\"decisions\": %llu}",
	                        policy, &calls, &nr),
	                 3);
	assert_int_equal(pclose(said), 0);
	printf("%s: %llu calls, %llu decisions\n", policy, calls, nr);
	assert_true(nr >= least);
#else
	(void)least;
#endif
}

/* ---- what policies do ---- */

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

/* A program on the other node opens the file: its blocks follow. */
static void kloc_numa_file_opened_on_other_node_follows(void **state)
{
	struct wire_caller far, near;

	(void)state;
	make_begin("kloc-numa");
	bed.service.options.placing.nodes = fixture_two_nodes();
	make_end(100);
	caller_hello(&near, &bed.service);
	caller_open(&near, bed.path);
	test_bed_fill(&bed);
	assert_true(WAIT_UNTIL(file_now().fast == 100));
	for (u32 round = 0; round < 2; round++) {
		caller_hello(&far, &bed.service);
		far.cpu = 1;
		caller_open(&far, bed.path);
		assert_true(WAIT_UNTIL(file_now().fast == 0));
		caller_open(&near, bed.path);
		assert_true(WAIT_UNTIL(file_now().fast == 100));
		close(far.socket);
	}
	for (u64 i = 0; i < 100; i++)
		assert_true(test_bed_reads_hit(&bed, i));
	close(near.socket);
	end();
	replay(100 + 4 * 100);
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
		service.options.sizes.fast_bytes = FAST_BLOCKS * LODIC_BLOCK_BYTES;
		service.options.placing.policy = names[i];
		assert_int_equal(test_service_start(&service), -EINVAL);
		assert_true(strlen(service.why) > 0);
	}
}

/* Before memory is made: the service that has the socket is not even met. */
static void start_unknown_policy_refused_first(void **state)
{
	struct test_service other, service;

	(void)state;
	test_service_init(&other, "first");
	assert_int_equal(test_service_start(&other), 0);
	test_service_init(&service, "first");
	assert_int_equal(test_service_start(&service), -EADDRINUSE);
	service.options.sizes.fast_bytes = FAST_BLOCKS * LODIC_BLOCK_BYTES;
	service.options.placing.policy = "no-such";
	assert_int_equal(test_service_start(&service), -EINVAL);
	assert_int_equal(test_service_stop(&other), 0);
}

static void start_record_unwritable_refused(void **state)
{
	struct test_service service;

	(void)state;
	test_service_init(&service, "refused");
	service.options.sizes.fast_bytes = FAST_BLOCKS * LODIC_BLOCK_BYTES;
	service.options.placing.policy = "kloc";
	service.options.placing.policy_record = "/no/such/record";
	assert_int_equal(test_service_start(&service), -ENOENT);
	assert_non_null(strstr(service.why, "/no/such/record"));
}

/* ---- the record's file ---- */

/* A service that can make all but its socket: where that shall be, a file is in the way. */
static int start_in_vain(const char *record_path, struct test_service *service)
{
	test_service_init(service, "in-the-way");
	close(fixture_open(service->socket, O_WRONLY | O_CREAT));
	service->options.sizes.fast_bytes = FAST_BLOCKS * LODIC_BLOCK_BYTES;
	service->options.placing.policy = "kloc";
	service->options.placing.policy_record = record_path;
	return test_service_start(service);
}

static void start_record_is_fifo_refused_at_once(void **state)
{
	struct test_service service;

	(void)state;
	fixture_path(record, "fifo");
	assert_int_equal(mkfifo(record, 0600), 0);
	assert_int_equal(start_in_vain(record, &service), -EINVAL);
	assert_non_null(strstr(service.why, "must be a regular file"));
	unlink(record);
}

static void start_that_fails_leaves_older_record(void **state)
{
	struct test_service service;
	glob_t left;

	(void)state;
	pattern_file_make(record, "older", 1, 1, 100);
	assert_int_equal(start_in_vain(record, &service), -EEXIST);
	assert_int_equal(stat(record, &st), 0);
	assert_int_equal(st.st_size, 100);
	strcat(record, ".*");
	assert_int_equal(glob(record, 0, NULL, &left), GLOB_NOMATCH);
}

/* Number 0 is a descriptor like others, and somebody else's here. */
static void record_refused_closes_nothing(void **state)
{
	struct policy_record *r;
	const char *why;
	int own = dup(0), event = port_event();

	(void)state;
	assert_true(own >= 0 && event >= 0);
	assert_int_equal(dup2(event, 0), 0);
	assert_int_equal(policy_record_begin("/", &r, &why), -EINVAL);
	assert_int_equal(fcntl(0, F_GETFD), 0);
	assert_int_equal(dup2(own, 0), 0);
	close(own);
	close(event);
}

/* Both write to one name, and the record that has it in the end is whole. */
static void successor_has_a_record_of_its_own(void **state)
{
	(void)state;
	make("kloc", 100);
	test_bed_fill(&bed);
	look_close(look);
	test_bed_succeed(&bed);
	assert_int_equal(look_open(bed.service.socket, &look, &(int){ 0 }), 0);
	assert_int_equal(file_now().fast, 100);
	end();
	replay(100);
}

/* What the record's disk does: the test stands between the record and the door. */
enum disk { DISK_WORKS, DISK_FULL, DISK_STUCK, DISK_PARTS };
#define PART_BYTES 100u
static u64 disk;        /* enum disk; atomic */
static u64 nr_in_write; /* threads; atomic */
__typeof__(port_write) __real_port_write, __wrap_port_write;

int64_t __wrap_port_write(int fd, const void *from, size_t bytes, uint64_t offset)
{
	static u64 nr_calls; /* atomic */
	int64_t n = -ENOSPC;

	host_fetch_add(&nr_in_write, 1);
	while (host_load_acquire(&disk) == DISK_STUCK)
		port_sleep(1000000);
	if (host_load_acquire(&disk) == DISK_PARTS && bytes > PART_BYTES)
		bytes = PART_BYTES;
	if (host_load_acquire(&disk) == DISK_PARTS &&
	    host_fetch_add(&nr_calls, 1) % 16 == 0)
		n = -EINTR;
	else if (host_load_acquire(&disk) != DISK_FULL)
		n = __real_port_write(fd, from, bytes, offset);
	host_fetch_add(&nr_in_write, -(u64)1);
	return n;
}

static u64 record_nr_of(int byte)
{
	FILE *file = fopen(record, "r");
	u64 nr = 0;
	int c;

	assert_non_null(file);
	while ((c = getc(file)) != EOF)
		nr += c == byte;
	fclose(file);
	return nr;
}

static void record_put(struct policy_record *r, u64 bytes)
{
	char text[4096];

	memset(text, 'x', sizeof(text));
	for (; bytes > 0; bytes -= sizeof(text))
		policy_record_put(r, text, sizeof(text));
}

static void record_write_fails_says_so_at_next_tick(void **state)
{
	struct policy_record *r;
	const char *why;

	(void)state;
	fixture_path(record, "full");
	assert_int_equal(policy_record_begin(record, &r, &why), 0);
	policy_record_serve(r);
	host_store_release(&disk, DISK_FULL);
	record_put(r, 4096);
	assert_true(WAIT_UNTIL((why = policy_record_tick(r)) != NULL));
	assert_non_null(strstr(why, strerror(ENOSPC)));
	assert_non_null(policy_record_end(r, false));
	host_store_release(&disk, DISK_WORKS);
}

/* A write that is cut off or interrupted goes on where it was, and the file has every byte once. */
static void record_write_in_parts_is_whole(void **state)
{
	struct policy_record *r;
	const char *why;

	(void)state;
	fixture_path(record, "parts");
	assert_int_equal(policy_record_begin(record, &r, &why), 0);
	policy_record_serve(r);
	host_store_release(&disk, DISK_PARTS);
	record_put(r, 3 * 4096);
	assert_null(policy_record_end(r, true));
	host_store_release(&disk, DISK_WORKS);
	assert_int_equal(stat(record, &st), 0);
	assert_int_equal(st.st_size, 3 * 4096);
	assert_int_equal(record_nr_of('x'), 3 * 4096);
}

/* No write comes back. Puts go on, and the end comes in time. */
static void record_disk_does_not_answer_nobody_waits(void **state)
{
	struct policy_record *r;
	const char *why;
	u64 start;

	(void)state;
	fixture_path(record, "stuck");
	host_store_release(&disk, DISK_STUCK);
	for (u32 round = 0; round < 2; round++) {
		assert_int_equal(policy_record_begin(record, &r, &why), 0);
		policy_record_serve(r);
		record_put(r, (u64)1 << 20);
		assert_null(policy_record_tick(r));
		if (round)
			record_put(r, (u64)80 << 20);
		assert_int_equal(policy_record_tick(r) != NULL, round);
		start = host_now_ns();
		assert_non_null(policy_record_end(r, round == 0));
		assert_true(host_now_ns() - start < (u64)20000 * 1000000);
	}
	host_store_release(&disk, DISK_FULL); /* both threads end */
	assert_true(WAIT_UNTIL(host_load_acquire(&nr_in_write) == 0));
	host_store_release(&disk, DISK_WORKS);
}

/* ---- each policy ---- */

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

		if (i == KLOC_POLICY_ORACLE)
			continue;
		make(kloc_policy_name(i), blocks);
		live(blocks, demotes);
		end();
		/* Each block was placed once, and what was demoted was in fast memory. */
		replay(blocks + (demotes ? 3 * 100 : 0));
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
		cmocka_unit_test(kloc_numa_file_opened_on_other_node_follows),
		cmocka_unit_test(naive_close_moves_nothing),
		cmocka_unit_test(user_moves_policy_refuses),
		cmocka_unit_test(start_unknown_policy_or_oracle_refused),
		cmocka_unit_test(start_unknown_policy_refused_first),
		cmocka_unit_test(start_record_unwritable_refused),
		cmocka_unit_test(start_record_is_fifo_refused_at_once),
		cmocka_unit_test(record_refused_closes_nothing),
		cmocka_unit_test(start_that_fails_leaves_older_record),
		cmocka_unit_test(successor_has_a_record_of_its_own),
		cmocka_unit_test(each_policy_same_calls_same_decisions),
		/* These make threads here: under TSan nothing may fork after them. */
		cmocka_unit_test(record_write_fails_says_so_at_next_tick),
		cmocka_unit_test(record_write_in_parts_is_whole),
		cmocka_unit_test(record_disk_does_not_answer_nobody_waits),
	};

	signal(SIGPIPE, SIG_IGN);
	fixture_begin(argc, argv, options);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
