/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The rows of doc/authority.md that need other users, or namespaces. tests/unit/test_authority.c
 * has those that need none.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/outside/outside.h"
#include "tests/support/wire_caller.h"

#define TEST_SECONDS 120
/* For what must happen; a mutant is not waited for. */
#define HANG_UP_MS (TEST_MUTANT ? 2000u : FIXTURE_DEADLINE_MS)
#define NOBODY OUTSIDE_NOBODY
#define OTHER 64110 /* a user as good as any */

/* What the asking process does before it asks, and after it has connected. */
typedef void (*change)(void);

static void stays(void)
{
}

static void set_all(uid_t real, uid_t effective, uid_t saved)
{
	REQUIRE(setresuid(real, effective, saved) == 0, "%s", strerror(errno));
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* forgotten by setresuid() */
}

static void gives_up_all(void)
{
	set_all(OTHER, OTHER, OTHER);
}

static void gives_up_effective(void)
{
	set_all(0, OTHER, 0);
}

/* As a program of root's with the set-user-ID bit has them, which that user runs. */
static void is_setuid_program(void)
{
	set_all(OTHER, 0, 0);
}

static void enters_user_namespace(void)
{
	REQUIRE(unshare(CLONE_NEWUSER) == 0, "%s", strerror(errno));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* With credentials that the sender names itself. 0, or why the kernel refuses them. */
static int send_as(struct wire_caller *c, u32 op, uid_t uid, int fd)
{
	const struct wire_request request = { .version = WIRE_VERSION, .op = op };
	const struct ucred told = { getpid(), uid, getgid() };
	struct iovec piece = { (void *)&request, sizeof(request) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(told)) + CMSG_SPACE(sizeof(int))];
	} u = { 0 };
	struct msghdr header = { .msg_iov = &piece,
		                 .msg_iovlen = 1,
		                 .msg_control = &u,
		                 .msg_controllen = CMSG_SPACE(sizeof(told)) };
	struct cmsghdr *part;

	if (fd >= 0)
		header.msg_controllen = sizeof(u);
	part = CMSG_FIRSTHDR(&header);
	*part = (struct cmsghdr){ CMSG_LEN(sizeof(told)), SOL_SOCKET, SCM_CREDENTIALS };
	memcpy(CMSG_DATA(part), &told, sizeof(told));
	if (fd >= 0) {
		part = CMSG_NXTHDR(&header, part);
		*part = (struct cmsghdr){ CMSG_LEN(sizeof(fd)), SOL_SOCKET,
			                  SCM_RIGHTS };
		memcpy(CMSG_DATA(part), &fd, sizeof(fd));
	}
	return sendmsg(c->socket, &header, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

struct attempt {
	const struct test_service *service;
	change before; /* it connects */
	change after;  /* and before it asks */
	u32 op;
	bool names_root; /* it says itself that root sends it */
};

static _Noreturn void attempt_run(const struct attempt *a)
{
	int lock = -1, err = 0;
	struct wire_caller c;

	a->before();
	if (a->op ==
	    WIRE_SUCCEED) /* it has the proof: its user must be what is looked at */
		lock = caller_open_lock(a->service, O_RDWR);
	caller_connect(&c, a->service);
	a->after();
	if (a->names_root)
		err = send_as(&c, a->op, 0, lock);
	else
		caller_send(&c, a->op, 0, 0, 0, lock);
	if (!err)
		err = caller_receive(&c);
	REQUIRE(!err || c.nr_fds == 0 || a->names_root, "an error, and descriptors");
	_exit(-err);
}

/* In a process of its own: 0 or -errno. */
static int attempt(const struct test_service *service, u32 op, change before,
                   change after)
{
	const struct attempt a = { service, before, after, op, false };
	pid_t pid = fixture_fork();
	int status;

	if (pid == 0)
		attempt_run(&a);
	status = fixture_wait(pid);
	assert_true(WIFEXITED(status));
	return -WEXITSTATUS(status);
}

static int attempt_as_root(const struct test_service *service, u32 op, change after)
{
	const struct attempt a = { service, stays, after, op, true };
	pid_t pid = fixture_fork();
	int status;

	if (pid == 0)
		attempt_run(&a);
	status = fixture_wait(pid);
	assert_true(WIFEXITED(status));
	return -WEXITSTATUS(status);
}

static const u32 judged[] = { WIRE_FILES, WIRE_READERS, WIRE_HOLDS,
	                      WIRE_DROP,  WIRE_RESIZE,  WIRE_SUCCEED };
#define NR_JUDGED (sizeof(judged) / sizeof(*judged))

static void assert_all(const struct test_service *service, change before, change after,
                       int error)
{
	for (u32 i = 0; i < NR_JUDGED; i++)
		assert_int_equal(attempt(service, judged[i], before, after), error);
}

static void serve(struct test_service *service, const char *name)
{
	test_service_init(service, name);
	assert_int_equal(test_service_start(service), 0);
}

/* ---- a program changes its user ---- */

static void setresuid_takes_all_back(void **state)
{
	struct test_service service;

	(void)state;
	serve(&service, "setresuid");
	assert_all(&service, stays, stays, 0);
	assert_all(&service, stays, gives_up_all, -EPERM);
	assert_int_equal(attempt(&service, WIRE_STOP, stays, gives_up_all), -EPERM);
	assert_int_equal(attempt(&service, WIRE_HELLO, stays, gives_up_all), -EPERM);
	assert_int_equal(attempt(&service, WIRE_STAT, stays, gives_up_all), 0);
	assert_int_equal(test_service_stop(&service), 0);
}

/* The process may take its effective user back, and so its real one is asked. */
static void seteuid_takes_nothing_back(void **state)
{
	struct test_service service;

	(void)state;
	serve(&service, "seteuid");
	assert_all(&service, stays, gives_up_effective, 0);
	assert_int_equal(attempt(&service, WIRE_HELLO, stays, gives_up_effective), 0);
	assert_int_equal(attempt(&service, WIRE_STOP, stays, gives_up_effective), 0);
	assert_int_equal(fixture_wait(service.pid), 0);
}

static void setuid_program_is_its_real_user(void **state)
{
	struct test_service service;

	(void)state;
	serve(&service, "setuid");
	assert_all(&service, is_setuid_program, stays, -EPERM);
	assert_int_equal(attempt(&service, WIRE_HELLO, is_setuid_program, stays),
	                 -EPERM);
	/* It may name its effective user itself, as it may take it. */
	assert_int_equal(attempt_as_root(&service, WIRE_DROP, is_setuid_program), 0);
	assert_int_equal(test_service_stop(&service), 0);
}

static void forged_credentials_are_the_kernels_to_refuse(void **state)
{
	struct test_service service;

	(void)state;
	serve(&service, "forged");
	for (u32 i = 0; i < NR_JUDGED; i++)
		assert_int_equal(attempt_as_root(&service, judged[i], gives_up_all),
		                 -EPERM);
	assert_int_equal(attempt_as_root(&service, WIRE_DROP, gives_up_effective), 0);
	assert_int_equal(attempt_as_root(&service, WIRE_DROP, enters_user_namespace),
	                 -EINVAL); /* root has no number there */
	assert_int_equal(test_service_stop(&service), 0);
}

/* What a reader had, it keeps; its channel gives nothing more of others. */
static void reader_without_its_rights_gets_no_descriptor(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	struct test_service service;
	pid_t pid;

	(void)state;
	pattern_file_make(path, "secret.bin", 1, 1, (u64)1 << 16);
	assert_int_equal(chmod(path, 0600), 0);
	test_service_init(&service, "reader");
	service.options.sizes.hold_bytes = (u64)4 << 20;
	assert_int_equal(test_service_start(&service), 0);
	pid = fixture_fork();
	if (pid == 0) {
		struct wire_caller keeps, c;
		u64 id, number;

		caller_hello(&keeps, &service);
		id = caller_open(&keeps, path);
		close(caller_hold(&keeps, &service, id, 0, 0));
		number = keeps.reply.hold.number;
		caller_hello(&c, &service);
		gives_up_all();
		REQUIRE(open(path, O_RDONLY) < 0, "it opens the file");
		for (u32 op = WIRE_FILES; op < WIRE_NR_OPS; op++) {
			if (op == WIRE_HOLD_WAIT)
				continue;
			REQUIRE(caller_ask(&c, op, 0, 0, 0) != 0 && c.nr_fds == 0,
			        "operation %u gives something", op);
		}
		/* By number it could be anybody's. A file that it has open is its own. */
		REQUIRE(caller_ask(&keeps, WIRE_HOLD_FD, number, 0, 0) == -EPERM,
		        "it gets a hold by its number");
		REQUIRE(caller_ask(&keeps, WIRE_HOLD, id, 0, 0) == 0 &&
		                keeps.nr_fds == 1,
		        "it does not get a hold of its own file");
		_exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
	assert_int_equal(test_service_stop(&service), 0);
}

/* ---- a service of another user ---- */

/* The first process there is a child. Its service finds its parent, and dies with it. */
static void goes_into_pid_namespace(void)
{
	pid_t pid = fork();

	REQUIRE(pid >= 0, "%s", strerror(errno));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pid > 0)
		_exit(waitpid(pid, NULL, 0) != pid);
}

/* A process of that user's which has a service, until it is killed. */
static void serve_as(struct test_service *service, const char *name, int flags,
                     uid_t uid, pid_t *ret_pid)
{
	char folder[FIXTURE_PATH_BYTES], path[FIXTURE_PATH_BYTES];
	u64 *ready = fixture_shared(sizeof(*ready));
	pid_t pid;

	outside_folder(folder, name);
	REQUIRE(chown(folder, uid, uid) == 0, "%s", strerror(errno));
	snprintf(path, sizeof(path), "%s/s", name);
	test_service_init(service, path);
	pid = fixture_fork();
	if (pid == 0) {
		REQUIRE(flags == 0 || unshare(flags) == 0, "%s", strerror(errno));
		if (flags & CLONE_NEWPID)
			goes_into_pid_namespace();
		if (uid != 0)
			set_all(uid, uid, uid);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		REQUIRE(test_service_start(service) == 0, "%s", service->why);
		host_store_release(ready, 1);
		pause();
		_exit(0);
	}
	REQUIRE(WAIT_UNTIL(host_load_acquire(ready) == 1), "no service");
	*ret_pid = pid;
}

static void root_looks_and_administers_but_succeeds_nobody(void **state)
{
	struct test_service service;
	pid_t pid;

	(void)state;
	serve_as(&service, "theirs", 0, OTHER, &pid);
	for (u32 i = 0; i < NR_JUDGED; i++)
		assert_int_equal(attempt(&service, judged[i], stays, stays),
		                 judged[i] == WIRE_SUCCEED ? -EPERM : 0);
	assert_int_equal(attempt(&service, WIRE_HELLO, stays, stays), 0);
	/* Its user may. A program that connected as root may not, as that user either. */
	assert_int_equal(attempt(&service, WIRE_SUCCEED, gives_up_all, stays), 0);
	assert_int_equal(attempt(&service, WIRE_SUCCEED, stays, gives_up_all), -EPERM);
	kill(pid, SIGKILL);
	fixture_wait(pid);
}

/* ---- namespaces ---- */

/* Their numbers are 0 to each other. The user counts. */
static void sibling_pid_namespace_is_judged_by_user(void **state)
{
	struct test_service service;
	struct wire_caller c;
	pid_t pid;

	(void)state;
	serve_as(&service, "pids", CLONE_NEWPID, 0, &pid);
	assert_all(&service, stays, stays, 0);
	assert_all(&service, stays, gives_up_all, -EPERM);
	caller_hello(&c, &service);
	close(c.socket);
	kill(pid, SIGKILL);
	fixture_wait(pid);
}

/* Root itself has no number there, and is as little this user as anybody. */
static void overflow_user_is_nobody(void **state)
{
	struct test_service service;
	struct wire_caller c;
	pid_t pid;

	(void)state;
	serve_as(&service, "unmapped", CLONE_NEWUSER, 0, &pid);
	caller_connect(&c, &service);
	/* It hangs up at once, so that there may be nobody to ask. */
	assert_true(WAIT_UNTIL_MS(wire_receive(c.socket, &c.reply, sizeof(c.reply),
	                                       c.fds, &c.nr_fds) == -ECONNRESET,
	                          HANG_UP_MS));
	close(c.socket);
	kill(pid, SIGKILL);
	fixture_wait(pid);
}

/* The kernel knows who it is. It has no more rights over other users' files than the modes say. */
static void user_namespace_is_the_same_user(void **state)
{
	struct test_service service;

	(void)state;
	serve(&service, "userns");
	assert_all(&service, stays, enters_user_namespace, 0);
	assert_int_equal(test_service_stop(&service), 0);
}

/* ---- a socket that goes to another process ---- */

static void passed_socket_is_worth_its_sender(void **state)
{
	struct test_service service;
	struct wire_caller visitor, channel;
	pid_t pid;

	(void)state;
	serve(&service, "passed");
	caller_connect(&visitor, &service);
	assert_int_equal(caller_ask(&visitor, WIRE_FILES, 0, 0, 0), 0);
	assert_int_equal(caller_succeed(&channel, &service), 0);
	pid = fixture_fork();
	if (pid == 0) {
		gives_up_all();
		REQUIRE(caller_ask(&visitor, WIRE_DROP, 0, 0, LOOK_ALL) == -EPERM,
		        "it drops");
		for (u32 op = WIRE_HAND_FILE; op <= WIRE_HANDED; op++)
			REQUIRE(caller_ask(&channel, op, 0, 0, 0) == -EPERM &&
			                channel.nr_fds == 0,
			        "it is handed something");
		REQUIRE(caller_ask(&channel, WIRE_HAND_ARENA, 0, 0, 0) == -EPERM,
		        "it gets the arena");
		_exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
	assert_int_equal(caller_ask(&visitor, WIRE_DROP, 0, 0, LOOK_ALL), 0);
	assert_int_equal(caller_ask(&channel, WIRE_HAND_OVER, 0, 0, 0), 0);
	while (channel.nr_fds > 0)
		close(channel.fds[--channel.nr_fds]);
	close(channel.socket);
	close(visitor.socket);
	assert_int_equal(test_service_stop(&service), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(setresuid_takes_all_back),
		cmocka_unit_test(seteuid_takes_nothing_back),
		cmocka_unit_test(setuid_program_is_its_real_user),
		cmocka_unit_test(forged_credentials_are_the_kernels_to_refuse),
		cmocka_unit_test(reader_without_its_rights_gets_no_descriptor),
		cmocka_unit_test(root_looks_and_administers_but_succeeds_nobody),
		cmocka_unit_test(sibling_pid_namespace_is_judged_by_user),
		cmocka_unit_test(overflow_user_is_nobody),
		cmocka_unit_test(user_namespace_is_the_same_user),
		cmocka_unit_test(passed_socket_is_worth_its_sender),
	};

	outside_begin(argc, argv);
	alarm(TEST_SECONDS);
	return cmocka_run_group_tests_name("authority", tests, NULL, NULL);
}
