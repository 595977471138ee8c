/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The rows of doc/authority.md that need no other user. tests/outside/authority.c has the others,
 * and test_succession.c those of successors.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/service/client/authority.h"
#include "tests/support/wire_caller.h"

#define MIB ((u64)1 << 20)
#define FEW_BLOCKS 20u
#define TEST_SECONDS 120
#define OVERFLOW_UID 65534
#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif

static const u32 looks[] = { WIRE_FILES, WIRE_READERS, WIRE_CONTEXTS,
	                     WIRE_HOLDS, WIRE_TIMES,   WIRE_TIERS };
static const u32 administers[] = { WIRE_MOVE, WIRE_DROP, WIRE_RESIZE, WIRE_KEEP,
	                           WIRE_STOP };
static const u32 hands[] = { WIRE_HAND_ARENA, WIRE_HAND_FILE, WIRE_HAND_FRAMES,
	                     WIRE_HAND_STAY,  WIRE_HAND_OVER, WIRE_HANDED };
static const u32 reads[] = { WIRE_CONTEXT_OPEN, WIRE_CONTEXT_CLOSE, WIRE_FILE_OPEN,
	                     WIRE_FILE_CLOSE,   WIRE_HOLD,          WIRE_HOLD_FD };

#define ASSERT_ALL_REFUSED(c, ops, error) \
	for (u32 i_ = 0; i_ < sizeof(ops) / sizeof(*(ops)); i_++) \
	assert_refused(c, (ops)[i_], error)

/* With this error, and nothing is given. */
static void assert_refused(struct wire_caller *c, u32 op, int error)
{
	assert_int_equal(caller_ask(c, op, 0, 0, 0), error);
	assert_int_equal(c->nr_fds, 0);
}

static void drop_fds(struct wire_caller *c)
{
	while (c->nr_fds > 0)
		close(c->fds[--c->nr_fds]);
}

static void bed_make(struct test_bed *b)
{
	test_bed_make_blocks(b, MIB, FEW_BLOCKS);
	test_bed_fill(b);
}

/* The cache is as it was, and its service is. */
static void bed_check_and_free(struct test_bed *b)
{
	for (u64 i = 0; i < FEW_BLOCKS; i++)
		assert_true(test_bed_reads_hit(b, i));
	assert_int_equal(test_service_stat(b->lodic).service_pid, b->service.pid);
	test_bed_free(b);
}

/* ---- kinds of connections ---- */

static void reader_looks_at_nothing_administers_nothing(void **state)
{
	struct wire_caller c;
	struct test_bed b;
	int lock;

	(void)state;
	bed_make(&b);
	caller_hello(&c, &b.service);
	ASSERT_ALL_REFUSED(&c, looks, -EINVAL);
	ASSERT_ALL_REFUSED(&c, administers, -EINVAL);
	ASSERT_ALL_REFUSED(&c, hands, -EINVAL);
	lock = caller_open_lock(&b.service, O_RDWR);
	caller_send(&c, WIRE_SUCCEED, 0, 0, 0, lock);
	assert_int_equal(caller_receive(&c), -EINVAL);
	assert_int_equal(c.nr_fds, 0);
	close(lock);
	assert_refused(&c, WIRE_HELLO, -EINVAL);
	assert_int_equal(caller_ask(&c, WIRE_STAT, 0, 0, 0), 0);
	assert_int_equal(caller_ask(&c, WIRE_SYNC, 0, 0, 0), 0);
	close(c.socket);
	caller_connect(&c, &b.service);
	caller_send(&c, WIRE_HELLO, 0, 0, 0, b.fd);
	assert_int_equal(caller_receive(&c), -EINVAL); /* it brings a descriptor */
	assert_int_equal(c.nr_fds, 0);
	close(c.socket);
	bed_check_and_free(&b);
}

static void visitor_becomes_no_reader(void **state)
{
	struct wire_caller c;
	struct test_bed b;

	(void)state;
	bed_make(&b);
	caller_connect(&c, &b.service);
	ASSERT_ALL_REFUSED(&c, reads, -EINVAL);
	ASSERT_ALL_REFUSED(&c, hands, -EINVAL);
	assert_int_equal(caller_ask(&c, WIRE_STAT, 0, 0, 0), 0);
	assert_refused(&c, WIRE_HELLO, -EINVAL);
	ASSERT_ALL_REFUSED(&c, reads, -EINVAL);
	ASSERT_ALL_REFUSED(&c, hands, -EINVAL);
	close(c.socket);
	bed_check_and_free(&b);
}

static void owner_looks_and_administers(void **state)
{
	struct wire_caller c;
	struct test_bed b;

	(void)state;
	bed_make(&b);
	caller_connect(&c, &b.service);
	for (u32 i = 0; i < sizeof(looks) / sizeof(*looks); i++)
		assert_int_equal(caller_ask(&c, looks[i], 0, 0, 0), 0);
	assert_int_equal(caller_ask(&c, WIRE_RESIZE, 0, 0, 0), 0);
	assert_int_equal(caller_ask(&c, WIRE_MOVE, 0, 0, 0), -ENOENT); /* of a file */
	assert_int_equal(caller_ask(&c, WIRE_KEEP, 0, 0, 0), -ENOENT);
	assert_int_equal(caller_ask(&c, WIRE_DROP, 0, 0, LOOK_ALL), 0);
	assert_true(c.reply.drop.dropped.blocks == FEW_BLOCKS);
	close(c.socket);
	test_bed_free(&b);
}

static void owner_stops_the_service(void **state)
{
	struct wire_caller c;
	struct test_bed b;

	(void)state;
	bed_make(&b);
	caller_connect(&c, &b.service);
	assert_int_equal(caller_ask(&c, WIRE_STOP, 0, 0, 0), 0);
	assert_int_equal(fixture_wait(b.service.pid), 0); /* it ends in order */
	b.service.pid = 0;
	close(c.socket);
	test_bed_free(&b);
}

static void successor_channel_is_for_nothing_else(void **state)
{
	struct wire_caller c;
	struct test_bed b;

	(void)state;
	bed_make(&b);
	assert_int_equal(caller_succeed(&c, &b.service), 0);
	ASSERT_ALL_REFUSED(&c, looks, -EINVAL);
	ASSERT_ALL_REFUSED(&c, administers, -EINVAL);
	ASSERT_ALL_REFUSED(&c, reads, -EINVAL);
	assert_refused(&c, WIRE_HELLO, -EINVAL);
	assert_refused(&c, WIRE_STAT, -EINVAL);
	assert_refused(&c, WIRE_SUCCEED, -EINVAL);
	assert_refused(&c, WIRE_HANDED, -EINVAL); /* before HAND_OVER */
	assert_int_equal(caller_ask(&c, WIRE_HAND_STAY, 0, 0, 0), 0);
	close(c.socket);
	bed_check_and_free(&b);
}

/* ---- credentials ---- */

static void message_without_credentials_is_refused(void **state)
{
	static const u32 judged[] = { WIRE_HELLO, WIRE_FILES, WIRE_DROP, WIRE_SUCCEED };
	const struct wire_sender unsaid[] = { { .said = false, .uid = geteuid() },
		                              { true, 0, OVERFLOW_UID } };
	const struct wire_sender said[] = { { true, getpid(), geteuid() },
		                            { true, 0, geteuid() } };

	/* From a sibling process namespace that user looks like no user. */
	const u32 nr_said = geteuid() == OVERFLOW_UID ? 1 : 2;

	(void)state;
	for (u32 i = 0; i < 4; i++) {
		for (u32 j = 0; j < 2; j++) {
			struct client c = { .uid = geteuid() };

			assert_int_equal(authority_judge(&c, judged[i], &unsaid[j]),
			                 -ECONNRESET);
			assert_int_equal(c.kind, CLIENT_NEW);
			if (j < nr_said)
				assert_int_equal(
					authority_judge(&c, judged[i], &said[j]), 0);
		}
	}
}

/* A manager's socket asks for more, and programs have connected there and asked before the service
 * starts. Their credentials come all the same, and no descriptor that nobody sent. */
static void lent_socket_asks_for_credentials_alone(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char path[FIXTURE_PATH_BYTES];
	struct test_service service;
	struct wire_caller c[2];
	const int on = 1;
	u32 nr;

	(void)state;
	pattern_file_make(path, "lent.bin", 1, 1, MIB);
	test_service_init(&service, "lent");
	strcpy(address.sun_path, service.socket);
	service.options.place.listening =
		socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	(void)setsockopt(service.options.place.listening, SOL_SOCKET, SO_PASSPIDFD, &on,
	                 sizeof(on));
	(void)setsockopt(service.options.place.listening, SOL_SOCKET, SO_PASSSEC, &on,
	                 sizeof(on));
	assert_int_equal(bind(service.options.place.listening, (struct sockaddr *)&address,
	                      sizeof(address)),
	                 0);
	assert_int_equal(listen(service.options.place.listening, 4), 0);
	for (u32 i = 0; i < 2; i++)
		caller_connect(&c[i], &service);
	caller_send(&c[0], WIRE_HELLO, 0, 0, 0, -1);
	assert_int_equal(test_service_start(&service), 0);
	assert_int_equal(caller_receive(&c[0]), 0);
	assert_int_equal(c[0].nr_fds, 4);
	drop_fds(&c[0]);
	(void)caller_open(&c[0], path);
	assert_true(WAIT_UNTIL(caller_ask(&c[1], WIRE_FILES, 0, 0, 0) == 0));
	nr = caller_nr_descriptors(&service);
	for (u32 i = 0; i < 20; i++)
		assert_int_equal(caller_ask(&c[i % 2], WIRE_STAT, 0, 0, 0), 0);
	assert_int_equal(caller_nr_descriptors(&service), nr);
	for (u32 i = 0; i < 2; i++)
		close(c[i].socket);
	close(service.options.place.listening);
	assert_int_equal(test_service_stop(&service), 0);
	assert_int_equal(unlink(service.socket), 0); /* it is not the service's */
}

/* ---- successors ---- */

static int succeed_with(const struct test_service *service, int fd)
{
	struct wire_caller c;
	int err;

	caller_connect(&c, service);
	caller_send(&c, WIRE_SUCCEED, 0, 0, 0, fd);
	err = caller_receive(&c);
	drop_fds(&c);
	close(c.socket);
	if (fd >= 0)
		close(fd);
	return err;
}

static void successor_needs_the_lock_file(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	struct test_bed b;

	(void)state;
	bed_make(&b);
	pattern_file_make(path, "other.lock", 1, 1, 10);
	assert_int_equal(succeed_with(&b.service, -1), -EACCES);
	assert_int_equal(succeed_with(&b.service, fixture_open(path, O_RDWR)), -EACCES);
	assert_int_equal(succeed_with(&b.service, fixture_open(path, O_PATH)), -EACCES);
	assert_int_equal(succeed_with(&b.service,
	                              caller_open_lock(&b.service, O_RDONLY)),
	                 -EACCES);
	assert_int_equal(succeed_with(&b.service,
	                              caller_open_lock(&b.service, O_WRONLY)),
	                 -EACCES);
	assert_int_equal(succeed_with(&b.service, caller_open_lock(&b.service, O_PATH)),
	                 -EACCES);
	assert_int_equal(succeed_with(&b.service, caller_open_lock(&b.service, O_RDWR)),
	                 0);
	bed_check_and_free(&b);
}

/* The first file that the service hands over. */
static int hand_any_file(struct wire_caller *c)
{
	for (u64 slot = 0; slot < 4096; slot++)
		if (caller_ask(c, WIRE_HAND_FILE, slot, 0, 0) == 0)
			return c->fds[--c->nr_fds];
	return -1;
}

static void successor_gets_paths_and_no_rights(void **state)
{
	char path[64], byte;
	struct wire_caller c;
	struct test_bed b;
	int fd;

	(void)state;
	bed_make(&b);
	assert_int_equal(caller_succeed(&c, &b.service), 0);
	fd = hand_any_file(&c);
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFL) & O_PATH);
	assert_int_equal(pread(fd, &byte, 1, 0), -1);
	assert_int_equal(errno, EBADF);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	close(fixture_open(path, O_RDONLY)); /* this user may */
	close(fd);
	close(c.socket);
	bed_check_and_free(&b);
}

/* Under a domain that lets a process open nothing. -1: the kernel has none. */
static int enter_landlock(void)
{
	const struct landlock_ruleset_attr nothing = {
		.handled_access_fs =
			LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE
	};
	int rules =
		(int)syscall(SYS_landlock_create_ruleset, &nothing, sizeof(nothing), 0);

	if (rules < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	return (int)syscall(SYS_landlock_restrict_self, rules, 0);
}

/* It attaches: a service cannot see that. But it cannot announce itself. */
static _Noreturn void run_confined(const struct test_bed *b)
{
	struct wire_caller c;
	char path[64];
	int fd, lock = caller_open_lock(&b->service, O_RDWR);

	if (enter_landlock() != 0)
		_exit(FIXTURE_SKIP);
	REQUIRE(open(b->path, O_RDONLY) < 0 && errno == EACCES, "it opens the file");
	caller_hello(&c, &b->service);
	REQUIRE(caller_ask(&c, WIRE_HAND_FILE, 0, 0, 0) == -EINVAL && c.nr_fds == 0,
	        "a reader is handed a file");
	close(c.socket);
	REQUIRE(caller_open_lock(&b->service, O_RDWR) < 0 && errno == EACCES,
	        "it opens the lock");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", lock);
	REQUIRE(open(path, O_RDWR) < 0, "it opens the lock again");
	caller_connect(&c, &b->service);
	caller_send(&c, WIRE_SUCCEED, 0, 0, 0, open(path, O_PATH));
	REQUIRE(caller_receive(&c) == -EACCES && c.nr_fds == 0, "it is a successor");
	/* What it had opened before is worth what it was. Files are not. */
	caller_send(&c, WIRE_SUCCEED, 0, 0, 0, lock);
	REQUIRE(caller_receive(&c) == 0 && c.nr_fds == 1, "no successor");
	close(c.socket);
	c.socket = c.fds[0];
	fd = hand_any_file(&c);
	REQUIRE(fd >= 0, "no file");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	REQUIRE(open(path, O_RDONLY) < 0 && errno == EACCES, "it opens the file");
	_exit(0);
}

static void landlock_domain_succeeds_nobody_opens_nothing(void **state)
{
	struct test_bed b;
	pid_t pid;
	int status;

	(void)state;
	bed_make(&b);
	pid = fixture_fork();
	if (pid == 0)
		run_confined(&b);
	status = fixture_wait(pid);
	bed_check_and_free(&b);
	if (WIFEXITED(status) && WEXITSTATUS(status) == FIXTURE_SKIP) {
		print_message("the kernel has no Landlock\n");
		skip();
	}
	assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reader_looks_at_nothing_administers_nothing),
		cmocka_unit_test(visitor_becomes_no_reader),
		cmocka_unit_test(owner_looks_and_administers),
		cmocka_unit_test(owner_stops_the_service),
		cmocka_unit_test(successor_channel_is_for_nothing_else),
		cmocka_unit_test(message_without_credentials_is_refused),
		cmocka_unit_test(lent_socket_asks_for_credentials_alone),
		cmocka_unit_test(successor_needs_the_lock_file),
		cmocka_unit_test(successor_gets_paths_and_no_rights),
		cmocka_unit_test(landlock_domain_succeeds_nobody_opens_nothing),
	};

	fixture_begin(argc, argv, NULL);
	alarm(TEST_SECONDS);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("authority", tests, NULL, NULL);
}
