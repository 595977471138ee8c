/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Holds as the service gives them, asked for by its wire. The tests look at ranges that join, at
 * limits, at what leaves and what stays, and at files that change. The library's half is tested
 * apart.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/wire_caller.h"

#define TEST_SECONDS 120
#define MIB ((u64)1 << 20)
#define PAGE 4096u
/* How long a range that was just read stays (lib/service/hold/hold_table.c). */
#define FRESH_NS ((u64)1000000000)

/* A service with room for holds of so many bytes. */
static void serve(struct test_service *service, const char *name, u64 hold_bytes)
{
	test_service_init(service, name);
	service->options.sizes.hold_bytes = hold_bytes;
	assert_int_equal(test_service_start(service), 0);
}

/* The held memory, mapped; bytes of it are the file's. */
static const u8 *map_held(int fd, u64 bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);

	assert_true(at != MAP_FAILED);
	return at;
}

static void hold_range_right_bytes_sealed_and_charged(void **state)
{
	const u64 bytes = 9 * MIB + 1234;
	char path[FIXTURE_PATH_BYTES];
	struct test_service service;
	struct wire_caller c;
	const u8 *at;
	u64 id;
	int fd;

	serve(&service, "right", 64 * MIB);
	pattern_file_make(path, "right.bin", 1, 1, bytes);
	caller_hello(&c, &service);
	id = caller_open(&c, path);
	fd = caller_hold(&c, &service, id, 0, 0);
	assert_true(fd >= 0);
	assert_int_equal(c.reply.hold.offset, 0);
	assert_int_equal(c.reply.hold.bytes, bytes);
	at = map_held(fd, bytes);
	assert_true(pattern_holds(at, 1, 1, 0, bytes));
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_int_equal(fcntl(fd, F_GET_SEALS) & (F_SEAL_WRITE | F_SEAL_SHRINK |
	                                           F_SEAL_GROW | F_SEAL_SEAL),
	                 F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	assert_int_equal(caller_stat(&c).hold_bytes, 9 * MIB + PAGE);
	assert_int_equal(c.reply.stat.hold_used_bytes, 9 * MIB + PAGE);
	munmap((void *)at, bytes);
	close(fd);
	assert_true(WAIT_UNTIL(caller_stat(&c).hold_used_bytes == 0));
	assert_int_equal(c.reply.stat.hold_bytes, 9 * MIB + PAGE); /* warm */
	close(c.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

/* Two programs hold the same range, and ranges inside it: its memory is taken once. */
static void hold_range_inside_another_joins_it(void **state)
{
	const u64 bytes = 6 * MIB + 7;
	char path[FIXTURE_PATH_BYTES];
	struct test_service service;
	struct wire_caller a, b;
	u64 id, number;
	u32 nr;
	int fd;

	serve(&service, "join", 64 * MIB);
	pattern_file_make(path, "join.bin", 1, 1, bytes);
	caller_hello(&a, &service);
	caller_hello(&b, &service);
	nr = caller_nr_descriptors(&service);
	id = caller_open(&a, path);
	assert_int_equal(caller_open(&b, path), id);
	/* Both ask while it is being read. */
	caller_send(&a, WIRE_HOLD, id, 0, 0, -1);
	caller_send(&b, WIRE_HOLD, id, MIB + 5, 77, -1);
	assert_int_equal(caller_receive(&a), -EINPROGRESS);
	number = a.reply.hold.number;
	if (caller_receive(&b) == -EINPROGRESS)
		assert_int_equal(b.reply.hold.number, number);
	else
		close(b.fds[0]);
	assert_int_equal(caller_wait_settled(&service, number), 0);
	fd = caller_hold(&a, &service, id, 0, 0);
	close(fd);
	fd = caller_hold(&b, &service, id, 3 * MIB, 0);
	assert_int_equal(b.reply.hold.number, number);
	assert_int_equal(b.reply.hold.offset, 0);
	assert_int_equal(b.reply.hold.bytes, bytes);
	close(fd);
	assert_int_equal(caller_stat(&a).holds, 1);
	assert_int_equal(a.reply.stat.holds_read, 1);
	assert_int_equal(a.reply.stat.hold_bytes, 6 * MIB + PAGE);
	/* The file, and the memory; the other description of the file is closed again. */
	assert_true(WAIT_UNTIL(caller_nr_descriptors(&service) == nr + 2));
	close(a.socket);
	close(b.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

/* A range that was just read stays until the program that waited for it has asked again. */
static void hold_just_read_waits_for_its_program(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	struct test_service service;
	struct wire_caller a, b;
	u64 id, number, begun;
	int err;

	serve(&service, "fresh", 2 * MIB);
	pattern_file_make(path, "fresh.bin", 1, 1, 4 * MIB);
	caller_hello(&a, &service);
	caller_hello(&b, &service);
	id = caller_open(&a, path);
	caller_open(&b, path);
	begun = host_now_ns();
	assert_int_equal(caller_ask(&a, WIRE_HOLD, id, 0, 2 * MIB), -EINPROGRESS);
	number = a.reply.hold.number;
	assert_int_equal(caller_wait_settled(&service, number), 0);
	err = caller_ask(&b, WIRE_HOLD, id, 2 * MIB, 2 * MIB);
	/* It does so for a second, which may be over on a loaded machine. */
	if (host_now_ns() - begun < FRESH_NS)
		assert_int_equal(err, -ENOSPC);
	if (err == -ENOSPC) {
		close(caller_hold(&a, &service, id, 0, 2 * MIB));
		if (host_now_ns() - begun < FRESH_NS)
			assert_int_equal(a.reply.hold.number, number);
		close(caller_hold(&b, &service, id, 2 * MIB, 2 * MIB));
	}
	close(a.socket);
	close(b.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

/* A number is of use to a process that was given the hold, and to no other. */
static void hold_fd_of_another_process_estale(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	struct test_service service;
	struct wire_caller c;
	u64 id, number;
	pid_t pid;
	int fd;

	serve(&service, "other", 4 * MIB);
	pattern_file_make(path, "other.bin", 1, 1, MIB);
	caller_hello(&c, &service);
	id = caller_open(&c, path);
	fd = caller_hold(&c, &service, id, 0, 0);
	number = c.reply.hold.number;
	assert_int_equal(caller_ask(&c, WIRE_HOLD_FD, number, 0, 0), 0);
	close(c.fds[0]);
	pid = fixture_fork();
	if (pid == 0) {
		struct wire_caller other;

		caller_hello(&other, &service);
		REQUIRE(caller_ask(&other, WIRE_HOLD_FD, number, 0, 0) == -ESTALE, "%d",
		        other.reply.error);
		_exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
	close(fd);
	close(c.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

static void hold_bad_requests_clear_errors(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	struct test_service service;
	struct wire_caller a, b;
	u64 id;

	serve(&service, "bad", 4 * MIB);
	pattern_file_make(path, "bad.bin", 1, 1, 5 * MIB);
	caller_hello(&a, &service);
	caller_connect(&b, &service);
	id = caller_open(&a, path);
	assert_int_equal(caller_ask(&b, WIRE_HOLD, id, 0, 1), -EINVAL); /* no HELLO */
	assert_int_equal(caller_ask(&b, WIRE_HOLD_FD, 1, 0, 0), -EINVAL);
	assert_int_equal(caller_ask(&b, WIRE_HELLO, 0, 0, 0), 0);
	while (b.nr_fds > 0)
		close(b.fds[--b.nr_fds]);
	assert_int_equal(caller_ask(&b, WIRE_HOLD, id, 0, 1), -EINVAL); /* not open */
	assert_int_equal(caller_ask(&a, WIRE_HOLD, 0, 0, 1), -EINVAL);
	assert_int_equal(caller_ask(&a, WIRE_HOLD, id + ((u64)1 << 32), 0, 1), -EINVAL);
	assert_int_equal(caller_ask(&a, WIRE_HOLD, ~(u64)0, 0, 1), -EINVAL);
	assert_int_equal(caller_ask(&a, WIRE_HOLD, id, 5 * MIB, 1), -ENODATA);
	assert_int_equal(caller_ask(&a, WIRE_HOLD, id, ~(u64)0, ~(u64)0), -ENODATA);
	assert_int_equal(caller_ask(&a, WIRE_HOLD, id, 0, 0), -EFBIG);
	assert_int_equal(caller_ask(&a, WIRE_HOLD, id, 1, 4 * MIB), -EFBIG);
	assert_int_equal(caller_ask(&a, WIRE_HOLD_FD, 12345, 0, 0), -ESTALE);
	assert_int_equal(caller_ask(&a, WIRE_HOLD_WAIT, 12345, 0, 0), 0);
	assert_int_equal(caller_stat(&a).hold_bytes, 0);
	/* An end beyond all numbers is the file's end. */
	assert_true(caller_hold(&a, &service, id, 5 * MIB - 1, ~(u64)0) >= 0);
	assert_int_equal(a.reply.hold.offset, 5 * MIB - PAGE);
	assert_int_equal(a.reply.hold.bytes, PAGE);
	close(a.fds[0]);
	assert_true(caller_hold(&a, &service, id, 2 * MIB + 1, ~(u64)0) >= 0);
	assert_int_equal(a.reply.hold.offset, 2 * MIB);
	assert_int_equal(a.reply.hold.bytes, 3 * MIB);
	close(a.fds[0]);
	close(a.socket);
	close(b.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

/* What somebody has stays; what nobody has goes. */
static void hold_no_room_enospc_until_one_is_released(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	struct test_service service;
	struct wire_caller c;
	int first, second;
	u32 nr;
	u64 id;

	serve(&service, "room", 4 * MIB);
	pattern_file_make(path, "room.bin", 1, 1, 12 * MIB);
	caller_hello(&c, &service);
	id = caller_open(&c, path);
	first = caller_hold(&c, &service, id, 0, 2 * MIB);
	second = caller_hold(&c, &service, id, 2 * MIB, 2 * MIB);
	assert_true(first >= 0 && second >= 0);
	nr = caller_nr_descriptors(&service);
	assert_int_equal(caller_hold(&c, &service, id, 4 * MIB, 2 * MIB), -ENOSPC);
	assert_int_equal(caller_hold(&c, &service, id, 4 * MIB, 1), -ENOSPC);
	assert_int_equal(caller_stat(&c).hold_bytes, 4 * MIB);
	close(second);
	second = caller_hold(&c, &service, id, 4 * MIB, 2 * MIB);
	assert_true(second >= 0);
	assert_int_equal(caller_stat(&c).hold_bytes, 4 * MIB);
	assert_int_equal(c.reply.stat.holds, 2);
	assert_int_equal(caller_nr_descriptors(&service), nr);
	close(first);
	close(second);
	close(c.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

/* What is held stands; a new request gets the new bytes. */
static void hold_file_changed_old_stands_new_is_read(void **state)
{
	const u64 bytes = 2 * MIB;
	static u8 fresh[2 * MIB];
	char path[FIXTURE_PATH_BYTES];
	struct test_service service;
	struct wire_caller c;
	u64 id, number;
	const u8 *at;
	int fd, writer;

	serve(&service, "changed", 16 * MIB);
	pattern_file_make(path, "changed.bin", 1, 1, bytes);
	caller_hello(&c, &service);
	id = caller_open(&c, path);
	fd = caller_hold(&c, &service, id, 0, 0);
	number = c.reply.hold.number;
	at = map_held(fd, bytes);
	close(fd);
	writer = fixture_open(path, O_WRONLY);
	assert_int_equal(caller_ask(&c, WIRE_HOLD, id, 0, 0), -ESTALE);
	pattern_fill(fresh, 1, 2, 0, bytes);
	assert_int_equal(pwrite(writer, fresh, bytes, 0), bytes);
	close(writer);
	assert_true(pattern_holds(at, 1, 1, 0, bytes));
	/* A holder may have another description of what it has. */
	assert_int_equal(caller_ask(&c, WIRE_HOLD_FD, number, 0, 0), 0);
	close(c.fds[0]);
	id = caller_open(&c, path);
	fd = caller_hold(&c, &service, id, 0, 0);
	assert_true(c.reply.hold.number != number);
	assert_int_equal(caller_stat(&c).hold_bytes, 2 * bytes);
	munmap((void *)at, bytes);
	/* The old one leaves by itself, and the new one stays. */
	assert_true(WAIT_UNTIL(caller_stat(&c).hold_bytes == bytes));
	assert_int_equal(caller_ask(&c, WIRE_HOLD_FD, number, 0, 0), -ESTALE);
	at = map_held(fd, bytes);
	assert_true(pattern_holds(at, 1, 2, 0, bytes));
	munmap((void *)at, bytes);
	close(fd);
	close(c.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

/* Ranges that were asked for once leave first, though they came later. */
static void hold_asked_for_twice_stays(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	struct test_service service;
	struct wire_caller c;
	u64 id, number;

	serve(&service, "twice", 8 * MIB);
	pattern_file_make(path, "twice.bin", 1, 1, 32 * MIB);
	caller_hello(&c, &service);
	id = caller_open(&c, path);
	close(caller_hold(&c, &service, id, 0, 2 * MIB));
	number = c.reply.hold.number;
	close(caller_hold(&c, &service, id, 0, 2 * MIB));
	for (u64 i = 1; i < 16; i++)
		close(caller_hold(&c, &service, id, 2 * i * MIB, 2 * MIB));
	assert_int_equal(caller_stat(&c).holds_read, 16);
	close(caller_hold(&c, &service, id, 0, 2 * MIB));
	assert_int_equal(c.reply.hold.number, number);
	close(caller_hold(&c, &service, id, 2 * MIB, 2 * MIB)); /* this one has left */
	assert_int_equal(caller_stat(&c).holds_read, 17);
	assert_true(c.reply.stat.hold_bytes <= 8 * MIB);
	close(c.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

/* A writer comes while the range is being read. */
static void hold_writer_comes_while_read_estale_then_new_bytes(void **state)
{
	const u64 bytes = 48 * MIB;
	char path[FIXTURE_PATH_BYTES];
	struct test_service service;
	static u8 fresh[8 * MIB];
	struct wire_caller c;
	int err, fd, writer;
	u64 id;

	serve(&service, "writer", 64 * MIB);
	pattern_file_make(path, "writer.bin", 1, 1, bytes);
	caller_hello(&c, &service);
	id = caller_open(&c, path);
	assert_int_equal(caller_ask(&c, WIRE_HOLD, id, 0, 0), -EINPROGRESS);
	writer = fixture_open(path, O_WRONLY);
	err = caller_wait_settled(&service, c.reply.hold.number);
	assert_true(err == -ESTALE || err == 0); /* 0: it was read before */
	assert_int_equal(caller_ask(&c, WIRE_HOLD, id, 0, 0), -ESTALE);
	assert_int_equal(ftruncate(writer, 8 * MIB), 0);
	pattern_fill(fresh, 1, 2, 0, 8 * MIB);
	assert_int_equal(pwrite(writer, fresh, 8 * MIB, 0), 8 * MIB);
	close(writer);
	id = caller_open(&c, path);
	fd = caller_hold(&c, &service, id, 0, 0);
	assert_true(fd >= 0);
	assert_true(caller_holds_pattern(fd, 1, 2, 0, 8 * MIB));
	close(fd);
	assert_true(WAIT_UNTIL(caller_stat(&c).hold_bytes == 8 * MIB));
	close(c.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

/* A writer comes at any moment of a small range, also while the last job seals its memory. */
static void hold_writer_comes_at_any_moment_estale_then_given_back(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	struct test_service service;
	struct wire_caller c;

	serve(&service, "moments", 256 * MIB); /* room for all of them */
	pattern_file_make(path, "moments.bin", 1, 1, MIB);
	caller_hello(&c, &service);
	for (u32 i = 0; i < 200; i++) {
		u64 id = caller_open(&c, path);
		u64 begun = host_now_ns();
		int err, writer;

		assert_int_equal(caller_ask(&c, WIRE_HOLD, id, 0, 0), -EINPROGRESS);
		while (host_now_ns() - begun < i * (u64)10000) {
		}
		writer = fixture_open(path, O_WRONLY);
		err = caller_wait_settled(&service, c.reply.hold.number);
		assert_true(err == -ESTALE || err == 0); /* 0: it was read before */
		assert_int_equal(caller_ask(&c, WIRE_HOLD, id, 0, 0), -ESTALE);
		close(writer);
	}
	assert_true(WAIT_UNTIL(caller_stat(&c).hold_bytes == 0));
	close(c.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

/* A descriptor that was passed on keeps the bytes charged, though its first holder is dead. */
static void hold_passed_on_stays_charged(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	struct test_service service;
	struct wire_caller c;
	int fd, keeper;
	u64 id;

	serve(&service, "passed", 4 * MIB);
	pattern_file_make(path, "passed.bin", 1, 1, 8 * MIB);
	caller_hello(&c, &service);
	id = caller_open(&c, path);
	fd = caller_hold(&c, &service, id, 0, 3 * MIB);
	assert_true(fd >= 0);
	keeper = dup(fd);
	close(fd);
	close(c.socket); /* it hangs up, and keeps the memory */
	caller_hello(&c, &service);
	id = caller_open(&c, path);
	assert_int_equal(caller_hold(&c, &service, id, 4 * MIB, 2 * MIB), -ENOSPC);
	assert_int_equal(caller_stat(&c).hold_used_bytes, 3 * MIB);
	close(keeper);
	fd = caller_hold(&c, &service, id, 4 * MIB, 2 * MIB);
	assert_true(fd >= 0);
	close(fd);
	assert_true(WAIT_UNTIL(caller_stat(&c).hold_used_bytes == 0));
	assert_int_equal(c.reply.stat.hold_bytes, 2 * MIB);
	close(c.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

/* Each connection that waits gets one answer. */
static void hold_many_wait_all_answered(void **state)
{
	enum { NR_WAITERS = 24 };
	struct wire_caller c, waiters[NR_WAITERS];
	char path[FIXTURE_PATH_BYTES];
	struct test_service service;
	u64 id, number;

	serve(&service, "many", 64 * MIB);
	pattern_file_make(path, "many.bin", 1, 1, 32 * MIB);
	caller_hello(&c, &service);
	id = caller_open(&c, path);
	assert_int_equal(caller_ask(&c, WIRE_HOLD, id, 0, 0), -EINPROGRESS);
	number = c.reply.hold.number;
	for (u32 i = 0; i < NR_WAITERS; i++) {
		caller_connect(&waiters[i], &service);
		caller_send(&waiters[i], WIRE_HOLD_WAIT, number, 0, 0, -1);
	}
	close(waiters[3].socket); /* one hangs up */
	for (u32 i = 0; i < NR_WAITERS; i++) {
		if (i == 3)
			continue;
		assert_int_equal(caller_receive(&waiters[i]), 0);
		close(waiters[i].socket);
	}
	assert_true(caller_hold(&c, &service, id, 0, 0) >= 0);
	close(c.fds[0]);
	close(c.socket);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hold_range_right_bytes_sealed_and_charged),
		cmocka_unit_test(hold_range_inside_another_joins_it),
		cmocka_unit_test(hold_just_read_waits_for_its_program),
		cmocka_unit_test(hold_fd_of_another_process_estale),
		cmocka_unit_test(hold_bad_requests_clear_errors),
		cmocka_unit_test(hold_no_room_enospc_until_one_is_released),
		cmocka_unit_test(hold_file_changed_old_stands_new_is_read),
		cmocka_unit_test(hold_asked_for_twice_stays),
		cmocka_unit_test(hold_writer_comes_while_read_estale_then_new_bytes),
		cmocka_unit_test(
			hold_writer_comes_at_any_moment_estale_then_given_back),
		cmocka_unit_test(hold_passed_on_stays_charged),
		cmocka_unit_test(hold_many_wait_all_answered),
	};

	fixture_begin(argc, argv, NULL);
	alarm(TEST_SECONDS);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
