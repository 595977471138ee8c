/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What holds cost at their limits: many ranges, no descriptors, no memory, huge pages, programs
 * that read no replies, and files that nobody has open. The service is asked by its wire.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/huge.h"
#include "lib/reason.h"
#include "lib/service/trial.h"
#include "tests/support/wire_caller.h"

#define TEST_SECONDS 120
#define MIB ((u64)1 << 20)
#define PAGE 4096u

/* A service with room for holds of so many bytes. */
static void serve(struct test_service *service, const char *name, u64 hold_bytes)
{
	test_service_init(service, name);
	service->options.sizes.hold_bytes = hold_bytes;
	assert_int_equal(test_service_start(service), 0);
}

static u64 round_up(u64 n)
{
	return (n + PAGE - 1) / PAGE * PAGE;
}

static int add_held(void *ctx, const void *record)
{
	const struct look_file *f = record;

	*(u64 *)ctx += f->held;
	return 0;
}

/* What `lodic files` says, of all files. */
static u64 held_bytes(const struct test_service *service)
{
	struct look *look;
	u64 bytes = 0;
	int pid;

	assert_int_equal(look_open(service->socket, &look, &pid), 0);
	assert_int_equal(look_list(look, LOOK_FILES, add_held, &bytes), 0);
	look_close(look);
	return bytes;
}

/* Ranges of all sizes, some inside others: a part of any of them joins one of them. */
static void hold_many_ranges_each_part_is_found(void **state)
{
	enum { NR = 300, NR_ASKED = 2000, MOST_PAGES = 300, FILE_PAGES = 8192 };
	static u64 offsets[NR], lengths[NR];
	u64 random = random_stream(1), nr_read;
	char path[FIXTURE_PATH_BYTES];
	struct test_service service;
	struct wire_caller c;
	u64 id;

	serve(&service, "many", 512 * MIB);
	pattern_file_make(path, "many.bin", 1, 1, (u64)FILE_PAGES * PAGE);
	caller_hello(&c, &service);
	id = caller_open(&c, path);
	for (u32 i = 0; i < NR; i++) {
		u64 pages = 1 + random_below(&random, i % 2 ? MOST_PAGES : 10);

		offsets[i] = random_below(&random, FILE_PAGES - pages) * PAGE;
		lengths[i] = pages * PAGE;
		close(caller_hold(&c, &service, id, offsets[i], lengths[i]));
	}
	assert_int_equal(held_bytes(&service), caller_stat(&c).hold_bytes);
	nr_read = c.reply.stat.holds_read;
	for (u32 i = 0; i < NR_ASKED; i++) {
		u64 of = random_below(&random, NR);
		u64 n = 1 + random_below(&random, lengths[of]);
		u64 at = offsets[of] + random_below(&random, lengths[of] - n + 1);

		assert_int_equal(caller_ask(&c, WIRE_HOLD, id, at, n), 0);
		close(c.fds[0]);
		assert_true(c.reply.hold.offset <= at &&
		            c.reply.hold.offset + c.reply.hold.bytes >= at + n);
	}
	assert_int_equal(caller_stat(&c).holds_read, nr_read);
	close(fixture_open(path, O_WRONLY));
	assert_int_equal(caller_ask(&c, WIRE_HOLD, id, 0, 1), -ESTALE);
	assert_true(WAIT_UNTIL(held_bytes(&service) == 0));
	assert_true(WAIT_UNTIL(caller_stat(&c).hold_bytes == 0));
	close(c.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

/* Runs the service in this thread until the caller has its answer. */
static int trial_ask(struct service_trial *t, struct wire_caller *c)
{
	int err;

	while ((err = wire_receive(c->socket, &c->reply, sizeof(c->reply), c->fds,
	                           &c->nr_fds)) == -EAGAIN)
		service_trial_turn(t);
	assert_int_equal(err, 0);
	return reason_error(c->reply.error);
}

/* The main thread has not heard of the writer yet: the file's proof alone tells it (HD2). */
static void hold_asked_after_writers_open_estale(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	struct test_service service;
	struct service_trial *t;
	struct wire_caller c;
	const char *why;
	int fd, writer;
	u64 id;

	test_service_init(&service, "trial");
	service.options.sizes.hold_bytes = 8 * MIB;
	service.options.place.socket = service.socket;
	assert_int_equal(service_trial_open(&service.options, &t, &why), 0);
	pattern_file_make(path, "trial.bin", 1, 1, MIB);
	caller_connect(&c, &service);
	caller_send(&c, WIRE_HELLO, 0, 0, 0, -1);
	assert_int_equal(trial_ask(t, &c), 0);
	while (c.nr_fds > 0)
		close(c.fds[--c.nr_fds]);
	fd = fixture_open(path, O_RDONLY);
	caller_send(&c, WIRE_FILE_OPEN, 0, 0, 0, fd);
	assert_int_equal(trial_ask(t, &c), 0);
	id = c.reply.file.id;
	for (;;) {
		caller_send(&c, WIRE_HOLD, id, 0, 0, -1);
		if (trial_ask(t, &c) != -EINPROGRESS)
			break;
	}
	assert_int_equal(c.reply.error, 0);
	close(c.fds[0]);
	/* Its socket is ready before the event of the broken lease, so it comes first. */
	caller_send(&c, WIRE_HOLD_WAIT, 1, 0, 0, -1);
	writer = fixture_open(path, O_WRONLY);
	caller_send(&c, WIRE_HOLD, id, 0, 0, -1);
	assert_int_equal(trial_ask(t, &c), 0);
	assert_int_equal(trial_ask(t, &c), -ESTALE);
	close(writer);
	close(fd);
	close(c.socket);
	service_trial_close(t);
	(void)state;
}

/* Ranges that nobody has leave when the service has no descriptor. What is held stays. */
static void hold_no_descriptors_warm_ones_leave(void **state)
{
	/* To read a range needs two descriptors; a program that waits for it has another. */
	enum { NR = 600, LIMIT = 256, LEFT = 16, RELEASED = 3 };
	char path[FIXTURE_PATH_BYTES];
	struct test_service service;
	struct rlimit limit;
	struct wire_caller c;
	int fds[LIMIT];
	u32 held = 0;
	u64 id;
	int fd;

	serve(&service, "few", 64 * MIB);
	pattern_file_make(path, "few.bin", 1, 1, NR * 8 * PAGE);
	caller_hello(&c, &service);
	id = caller_open(&c, path);
	assert_int_equal(prlimit(service.pid, RLIMIT_NOFILE, NULL, &limit), 0);
	limit.rlim_cur = LIMIT;
	assert_int_equal(prlimit(service.pid, RLIMIT_NOFILE, &limit, NULL), 0);
	for (u64 i = 0; i < NR; i++) {
		fd = caller_hold(&c, &service, id, i * 8 * PAGE, PAGE);
		REQUIRE(fd >= 0, "%d: %d", (int)i, fd);
		assert_true(caller_holds_pattern(fd, 1, 1, i * 8 * PAGE, 1));
		close(fd);
	}
	assert_in_range(caller_nr_descriptors(&service), LIMIT / 2, LIMIT - LEFT + 3);
	while (held < LIMIT) {
		fds[held] = caller_hold(&c, &service, id, (held * 8 + 1) * PAGE, PAGE);
		if (fds[held] < 0)
			break;
		held++;
	}
	assert_in_range(held, LIMIT / 2, LIMIT - LEFT);
	assert_int_equal(fds[held], -ENFILE);
	/* A file has room to be opened, and ranges that are released make room. */
	caller_open(&c, path);
	for (u32 i = 0; i < RELEASED; i++)
		close(fds[--held]);
	fd = caller_hold(&c, &service, id, 3 * PAGE, PAGE);
	REQUIRE(fd >= 0, "%d, %d held, %d", fd, (int)held,
	        (int)caller_nr_descriptors(&service));
	close(fd);
	while (held > 0)
		close(fds[--held]);
	close(c.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

/* A program that does not read its replies is hung up on. What is under way to it counts until its
 * socket is closed, and no longer. */
static void hold_replies_unread_hung_up_then_not_charged(void **state)
{
	enum { NR = 512 };
	char path[FIXTURE_PATH_BYTES];
	struct test_service service;
	struct wire_caller c, other;
	u32 nr;
	u64 id;

	serve(&service, "unread", 16 * MIB);
	pattern_file_make(path, "unread.bin", 1, 1, MIB);
	caller_hello(&other, &service);
	caller_hello(&c, &service);
	id = caller_open(&c, path);
	close(caller_hold(&c, &service, id, 0, 0));
	nr = caller_nr_descriptors(&service);
	for (u32 i = 0; i < NR; i++) {
		const struct wire_request request = { .version = WIRE_VERSION,
			                              .op = WIRE_HOLD,
			                              .a = id };
		int err;

		assert_true(
			WAIT_UNTIL((err = wire_send(c.socket, &request, sizeof(request),
		                                    NULL, 0)) != -EAGAIN));
		if (err)
			break; /* the service has hung up */
	}
	assert_true(WAIT_UNTIL(caller_stat(&other).clients == 1));
	assert_true(caller_nr_descriptors(&service) < nr);
	fixture_pause_us(300000); /* three looks at it */
	assert_int_equal(caller_stat(&other).hold_used_bytes, MIB);
	close(c.socket);
	assert_true(WAIT_UNTIL(caller_stat(&other).hold_used_bytes == 0));
	close(other.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

/* A file that no program has open leaves, and with it what nobody holds of it. */
static void hold_file_left_alone_warm_ones_leave(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	struct test_service service;
	struct wire_caller c;
	u64 id, slot, number, closed_ns;
	int fd;

	test_service_init(&service, "alone");
	service.options.sizes.hold_bytes = 16 * MIB;
	service.options.keeping.keep_ms = 200;
	assert_int_equal(test_service_start(&service), 0);
	pattern_file_make(path, "alone.bin", 1, 1, 4 * MIB);
	caller_hello(&c, &service);
	id = caller_open(&c, path);
	slot = c.reply.file.slot;
	close(caller_hold(&c, &service, id, 0, MIB));
	fd = caller_hold(&c, &service, id, 2 * MIB, MIB);
	assert_true(fd >= 0);
	number = c.reply.hold.number;
	fixture_pause_us(500000); /* it is open: nothing leaves */
	assert_int_equal(caller_stat(&c).hold_bytes, 2 * MIB);
	closed_ns = host_now_ns();
	assert_int_equal(caller_ask(&c, WIRE_FILE_CLOSE, slot, id, 0), 0);
	/* Not yet, unless the answer has taken so long. */
	assert_true(caller_stat(&c).hold_bytes == 2 * MIB ||
	            host_now_ns() - closed_ns >= service.options.keeping.keep_ms * 1000000);
	assert_true(WAIT_UNTIL(caller_stat(&c).files == 0));
	assert_true(WAIT_UNTIL(caller_stat(&c).hold_bytes == MIB));
	assert_true(caller_holds_pattern(fd, 1, 1, 2 * MIB, MIB));
	assert_int_equal(caller_ask(&c, WIRE_HOLD_FD, number, 0, 0), 0);
	close(c.fds[0]);
	close(fd);
	assert_true(WAIT_UNTIL(caller_stat(&c).hold_bytes == 0));
	close(c.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

/* How much of the mapping at `at` this process has by huge pages. */
static u64 mapped_huge(const void *at)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long from, to, kib, found = 0;
	bool inside = false;
	char line[4096];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = from == (unsigned long)at;
		else if (inside && sscanf(line, "ShmemPmdMapped: %lu", &kib) == 1)
			found = kib;
	}
	fclose(file);
	return (u64)found << 10;
}

/* Takes a hold of n bytes. Returns what the service says of huge pages in it, which must be what
 * the kernel says. The memory is that which counts (HD5). */
static u64 huge_bytes_of(struct wire_caller *c, const struct test_service *service,
                         u64 id, u64 n)
{
	u64 huge, found;
	struct stat st;
	void *at;
	int fd;

	fd = caller_hold(c, service, id, 0, n);
	assert_true(fd >= 0);
	huge = c->reply.hold.huge_bytes;
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal((u64)st.st_blocks * 512, round_up(n));
	assert_int_equal(huge_map(fd, n, PROT_READ, &at), 0);
	assert_true(pattern_holds(at, 1, 1, 0, n));
	found = mapped_huge(at);
	munmap(at, n);
	close(fd);
	assert_int_equal(huge, found);
	return huge;
}

/* The service says of huge pages what the kernel has done, and no memory beyond a range's end
 * is taken. */
static void hold_huge_bytes_are_the_kernels(void **state)
{
	static const u64 sizes[] = { PAGE, MIB + 1, 2 * MIB, 3 * MIB + 5,
		                     11 * MIB + 17 };
	const u64 nr = sizeof(sizes) / sizeof(sizes[0]);
	char path[FIXTURE_PATH_BYTES];
	u64 huge, sum, id, first_sum = 0;

	pattern_file_make(path, "huge.bin", 1, 1, 12 * MIB);
	for (int small = 0; small < 2; small++) {
		struct test_service service;
		struct wire_caller c;

		test_service_init(&service, small ? "small" : "huge");
		service.options.sizes.hold_bytes = 64 * MIB;
		service.options.tables.small_pages = small;
		assert_int_equal(test_service_start(&service), 0);
		caller_hello(&c, &service);
		id = caller_open(&c, path);
		sum = 0;
		for (u64 i = 0; i < nr; i++) {
			huge = huge_bytes_of(&c, &service, id, sizes[i]);
			assert_int_equal(caller_stat(&c).hold_huge_bytes, sum + huge);
			sum += huge;
		}
		if (small)
			assert_int_equal(sum, 0);
		else
			first_sum = sum;
		close(c.socket);
		assert_int_equal(test_service_stop(&service), 0);
	}
	print_message("%llu MiB in huge pages\n",
	              (unsigned long long)(first_sum / MIB));
	(void)state;
}

/* A range that is larger than the machine's memory, which holds may have nevertheless. */
static void hold_larger_than_memory_enomem(void **state)
{
	u64 bytes = 2 * (u64)sysconf(_SC_PHYS_PAGES) * PAGE;
	char path[FIXTURE_PATH_BYTES];
	struct test_service service;
	struct wire_caller c;
	u64 id;
	u32 nr;
	int fd;

	pattern_file_make(path, "large.bin", 1, 1, MIB);
	if (truncate(path, (off_t)bytes) != 0)
		skip(); /* the file system has no files of that size */
	serve(&service, "memory", 2 * bytes);
	caller_hello(&c, &service);
	id = caller_open(&c, path);
	nr = caller_nr_descriptors(&service);
	assert_int_equal(caller_hold(&c, &service, id, 0, 0), -ENOMEM);
	assert_int_equal(caller_stat(&c).hold_bytes, 0);
	assert_int_equal(c.reply.stat.holds_failed, 1);
	assert_true(WAIT_UNTIL(caller_nr_descriptors(&service) == nr));
	fd = caller_hold(&c, &service, id, 0, MIB);
	assert_true(fd >= 0);
	assert_true(caller_holds_pattern(fd, 1, 1, 0, MIB));
	close(fd);
	close(c.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hold_many_ranges_each_part_is_found),
		cmocka_unit_test(hold_asked_after_writers_open_estale),
		cmocka_unit_test(hold_no_descriptors_warm_ones_leave),
		cmocka_unit_test(hold_replies_unread_hung_up_then_not_charged),
		cmocka_unit_test(hold_file_left_alone_warm_ones_leave),
		cmocka_unit_test(hold_huge_bytes_are_the_kernels),
		cmocka_unit_test(hold_larger_than_memory_enomem),
	};

	fixture_begin(argc, argv, NULL);
	alarm(TEST_SECONDS);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
