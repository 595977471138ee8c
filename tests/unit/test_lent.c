/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A place that is for one lent file, and then for another: rules D11 to D13 of lib/client/lent.h.
 * Two files take turns in it. No read gives the bytes of the other one. Each mutant of these
 * rules fails one of the cases.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/client/attach.h"
#include "lib/client/lent.h"
#include "lib/port/listen.h"
#include "tests/support/cache_fixture.h"

#define NR_BLOCKS 8u
#define BYTES 256u
#define TURNS 300u
#define LEAVES 200u
#define TEST_SECONDS 120
#define STRANGER 65534u /* a user */

/* Two files, and a place. A name n stands for file n % 2. */
struct lent_bed {
	struct test_bed bed;
	int fds[2];
	struct stat st[2];
	struct lodic *lodic;
	struct lodic_context *context, *reader;
	struct lent_file place;
	pthread_mutex_t lock; /* of the calls that one thread at a time may make */
	u64 name;             /* now; atomic */
	u64 stop, wrong, right;
};

static void lent_bed_make(struct lent_bed *b)
{
	char path[FIXTURE_PATH_BYTES];

	memset(b, 0, sizeof(*b));
	pthread_mutex_init(&b->lock, NULL);
	test_bed_make_blocks(&b->bed, (u64)1 << 20, NR_BLOCKS);
	pattern_file_make(path, "other", 2, 1, NR_BLOCKS * BLOCK_BYTES);
	b->fds[0] = b->bed.fd;
	b->fds[1] = fixture_open(path, O_RDONLY);
	for (u32 i = 0; i < 2; i++)
		assert_int_equal(fstat(b->fds[i], &b->st[i]), 0);
	assert_int_equal(lent_attach(b->bed.service.socket, LENT_NO_USER, &b->lodic), 0);
	assert_int_equal(lent_context(b->lodic, &b->context), 0);
}

static void lent_bed_free(struct lent_bed *b)
{
	lodic_context_close(b->context);
	lodic_detach(b->lodic);
	close(b->fds[1]);
	test_bed_free(&b->bed);
}

/* The bytes must be those of file, if any come. */
static ssize_t read_as(struct lodic_context *context, const struct lent_file *place,
                       u64 name, u32 file)
{
	u8 bytes[BYTES];
	const struct iovec to = { bytes, sizeof(bytes) };
	ssize_t got = lent_read(context, place, name, &to, 1, BLOCK_BYTES);

	if (got >= 0 &&
	    (got != BYTES || !pattern_holds(bytes, file + 1, 1, BLOCK_BYTES, BYTES)))
		return 1; /* never right */
	return got;
}

static bool step_serves(struct lent_bed *b, struct lodic_context *context,
                        struct lent_file *place, u64 name)
{
	ssize_t got;

	pthread_mutex_lock(&b->lock);
	lent_step(context, place, b->fds[name % 2], 0, 0);
	pthread_mutex_unlock(&b->lock);
	if (host_load_relaxed(&place->generation) == GENERATION_NONE)
		return false; /* so that a turn is shorter than a mutant's window */
	got = read_as(context, place, name, name % 2);
	REQUIRE(got < 0 || got == BYTES, "another file's bytes");
	return got == BYTES;
}

/* Makes the place one for name's file, and waits until that is served. */
static void turn_to(struct lent_bed *b, struct lodic_context *context,
                    struct lent_file *place, u64 name)
{
	bool gone;

	pthread_mutex_lock(&b->lock);
	gone = WAIT_UNTIL(lent_give_back(place));
	REQUIRE(gone, "the service has not taken the file back");
	lent_begin(place, name, b->st[name % 2].st_dev, b->st[name % 2].st_ino);
	pthread_mutex_unlock(&b->lock);
	host_store_release(&b->name, name);
	REQUIRE(WAIT_UNTIL(step_serves(b, context, place, name)), "not served");
}

/* D11 */
static void read_by_an_earlier_name_estale(void **state)
{
	struct lent_bed b;

	(void)state;
	lent_bed_make(&b);
	for (u64 name = 1; name <= 4; name++) {
		turn_to(&b, b.context, &b.place, name);
		for (u64 i = 0; i < name; i++)
			assert_int_equal(read_as(b.context, &b.place, i, i % 2),
			                 -ESTALE);
	}
	lent_bed_free(&b);
}

/* D13: the descriptor leads to the other file by now. Nothing of that is served, and the service
 * has it back. */
static void answer_for_another_file_does_not_count(void **state)
{
	struct lent_bed b;
	u64 opens = 0, steps = 0;

	(void)state;
	lent_bed_make(&b);
	turn_to(&b, b.context, &b.place, 2);
	assert_true(WAIT_UNTIL(lent_give_back(&b.place)));
	assert_true(lent_is_answered(b.context, &b.place));
	lent_begin(&b.place, 4, b.st[0].st_dev, b.st[0].st_ino);
	assert_false(lent_is_answered(b.context, &b.place));
	/* Some steps, and until it was asked, and refused. */
	assert_true(WAIT_UNTIL(({
		lent_step(b.context, &b.place, b.fds[1], 0, 0);
		assert_int_equal(read_as(b.context, &b.place, 4, 0), -ESTALE);
		opens += host_load_relaxed(&b.place.reason) == ESTALE;
		++steps >= 200 && opens > 0;
	})));
	/* With its own descriptor it is served at once, or soon. */
	b.place.retry = (struct retry){ 0 };
	assert_true(WAIT_UNTIL(step_serves(&b, b.context, &b.place, 4)));
	lent_bed_free(&b);
}

/* A reader of its own thread, by whatever name the place has just now. */
static void *read_on(void *arg)
{
	struct lent_bed *b = arg;
	struct lent_file own = { 0 };
	struct lodic_context *context;
	u64 name;
	ssize_t got;

	pthread_mutex_lock(&b->lock);
	REQUIRE(lent_context(b->lodic, &context) == 0, "no context");
	lent_begin(&own, 2, b->st[0].st_dev, b->st[0].st_ino);
	pthread_mutex_unlock(&b->lock);
	REQUIRE(WAIT_UNTIL(step_serves(b, context, &own, 2)), "not served");
	while (!host_load_acquire(&b->stop)) {
		name = host_load_acquire(&b->name);
		got = read_as(context, &b->place, name, name % 2);
		if (got >= 0 && got != BYTES)
			host_store_release(&b->wrong, 1);
		host_store_release(&b->right, b->right + (got == BYTES));
	}
	pthread_mutex_lock(&b->lock);
	lodic_context_close(context);
	pthread_mutex_unlock(&b->lock);
	return NULL;
}

/* D12 */
static void place_changes_under_a_read_no_mixture(void **state)
{
	pthread_t reader;
	struct lent_bed b;

	(void)state;
	lent_bed_make(&b);
	turn_to(&b, b.context, &b.place, 1);
	assert_int_equal(pthread_create(&reader, NULL, read_on, &b), 0);
	assert_true(WAIT_UNTIL(host_load_acquire(&b.right) > 0));
	for (u64 name = 2; name < TURNS && !host_load_acquire(&b.wrong); name++)
		turn_to(&b, b.context, &b.place, name);
	host_store_release(&b.stop, 1);
	assert_int_equal(pthread_join(reader, NULL), 0);
	assert_int_equal(b.wrong, 0);
	lent_bed_free(&b);
}

/* Reads, and makes steps when nothing is served. */
static void *read_and_step(void *arg)
{
	struct lent_bed *b = arg;
	ssize_t got;

	while (!host_load_acquire(&b->stop)) {
		got = read_as(b->reader, &b->place, 2, 0);
		if (got >= 0 && got != BYTES)
			host_store_release(&b->wrong, 1);
		if (got == BYTES) {
			host_store_release(&b->right, b->right + 1);
			continue;
		}
		pthread_mutex_lock(&b->lock);
		lent_step(b->reader, &b->place, b->fds[0], 0, 0);
		pthread_mutex_unlock(&b->lock);
	}
	return NULL;
}

/* LV1: a reader in the middle of a copy, when the process leaves, gets the file's bytes or none.
 * Then the process comes back to the same service. */
static void leaving_under_reads_no_zeros(void **state)
{
	pthread_t reader;
	struct lent_bed b;
	u64 right;

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* it takes the new mapping for a store to each byte */
#endif
	lent_bed_make(&b);
	assert_int_equal(lent_context(b.lodic, &b.reader), 0);
	lent_begin(&b.place, 2, b.st[0].st_dev, b.st[0].st_ino);
	assert_int_equal(pthread_create(&reader, NULL, read_and_step, &b), 0);
	for (u32 i = 0; i < LEAVES && !host_load_acquire(&b.wrong); i++) {
		right = host_load_acquire(&b.right);
		assert_true(WAIT_UNTIL(host_load_acquire(&b.right) > right + 20 ||
		                       host_load_acquire(&b.wrong)));
		pthread_mutex_lock(&b.lock);
		lent_leave(b.lodic);
		lent_leave_context(b.reader);
		lent_leave_file(&b.place);
		assert_true(lent_move(b.lodic, b.bed.service.socket, LENT_NO_USER,
		                      0));
		pthread_mutex_unlock(&b.lock);
	}
	host_store_release(&b.stop, 1);
	assert_int_equal(pthread_join(reader, NULL), 0);
	assert_int_equal(b.wrong, 0);
	lodic_context_close(b.reader);
	lent_bed_free(&b);
}

/* Each user has settings of its own. So has a program that has become another one. */
static void moved_believes_whom_its_user_trusts_now(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	int listening = port_socket(), err;
	struct lodic *lodic;

	(void)state;
	if (geteuid() != 0)
		skip(); /* nobody else's socket can be made */
	fixture_path(path, "stranger");
	assert_int_equal(port_bind(listening, path), 0);
	err = seteuid(STRANGER);
	assert_int_equal(port_listen(listening, 1), 0);
	assert_int_equal(err | seteuid(0), 0);
	assert_int_equal(lent_attach(path, STRANGER, &lodic), 0);
	lent_connect(lodic);
	assert_int_not_equal(lodic->error, -EPERM);
	lent_leave(lodic);
	assert_true(lent_move(lodic, path, LENT_NO_USER, 0));
	lent_connect(lodic);
	assert_int_equal(lodic->error, -EPERM);
	lodic_detach(lodic);
	close(listening);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_by_an_earlier_name_estale),
		cmocka_unit_test(answer_for_another_file_does_not_count),
		cmocka_unit_test(place_changes_under_a_read_no_mixture),
		cmocka_unit_test(leaving_under_reads_no_zeros),
		cmocka_unit_test(moved_believes_whom_its_user_trusts_now),
	};

	fixture_begin(argc, argv, NULL);
	alarm(TEST_SECONDS);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("lent", tests, NULL, NULL);
}
