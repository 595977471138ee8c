/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The kernel does with leases, and at a thread's death, what port/lease.h and port/mark.h say. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/port/lease.h"
#include "lib/port/mark.h"
#include "lib/port/thread.h"
#include "tests/support/cache_fixture.h"

#define BYTES 4096u
#define NR_FILES 3u
#define KILLS 30u
#define WAIT_MS 30000
#define BESIDE ((u64)0xabcdef << 32)
#define DEAD (BESIDE | PORT_MARK_DEAD)

/* ---- leases ---- */

struct leased {
	char path[FIXTURE_PATH_BYTES];
	int fd;
};

/* Its signals go to the calling thread. */
static void leased_make(struct leased *l, u32 i)
{
	char name[32];

	snprintf(name, sizeof(name), "file%u", i);
	pattern_file_make(l->path, name, 1 + i, 1, BYTES);
	l->fd = fixture_open(l->path, O_RDONLY);
	assert_int_equal(port_lease_aim(l->fd, port_thread_number()), 0);
	assert_int_equal(port_lease_take(l->fd), 0);
	assert_true(port_lease_holds(l->fd));
}

static void leased_free(struct leased *l)
{
	port_close(l->fd);
	unlink(l->path);
}

/* 0, or why a writer that does not wait gets no descriptor. */
static int write_at_once(const char *path)
{
	int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static void lease_broken_is_heard_once(void **state)
{
	int fds[PORT_BREAKS_AT_ONCE], breaks = port_breaks();
	struct leased l;

	leased_make(&l, 0);
	assert_int_equal(port_ready(breaks, PORT_INPUT), 0);
	assert_int_equal(port_breaks_next(breaks, fds), 0);
	assert_int_equal(write_at_once(l.path), -EWOULDBLOCK);
	assert_false(port_lease_holds(l.fd));
	assert_int_equal(write_at_once(l.path), -EWOULDBLOCK);
	assert_int_equal(port_ready(breaks, PORT_INPUT), 1);
	assert_int_equal(port_breaks_next(breaks, fds), 1);
	assert_int_equal(fds[0], l.fd);
	assert_int_equal(port_breaks_next(breaks, fds), 0);
	port_lease_give(l.fd);
	assert_int_equal(write_at_once(l.path), 0);
	leased_free(&l);
	port_close(breaks);
	(void)state;
}

static void lease_given_back_signal_still_comes(void **state)
{
	int fds[PORT_BREAKS_AT_ONCE], breaks = port_breaks(), fd;
	struct leased l;

	leased_make(&l, 0);
	assert_int_equal(write_at_once(l.path), -EWOULDBLOCK);
	port_lease_give(l.fd);
	fd = l.fd;
	leased_free(&l);
	leased_make(&l, 1);
	assert_int_equal(l.fd, fd);
	assert_int_equal(port_breaks_next(breaks, fds), 1);
	assert_int_equal(fds[0], fd);
	assert_true(port_lease_holds(fd));
	leased_free(&l);
	port_close(breaks);
	(void)state;
}

static void lease_truncated_breaks(void **state)
{
	int fds[PORT_BREAKS_AT_ONCE], breaks = port_breaks(), status;
	struct leased l;
	pid_t pid;

	leased_make(&l, 0);
	close(fixture_open(l.path,
	                   O_RDONLY | O_TRUNC)); /* it cuts, and breaks nothing */
	assert_true(port_lease_holds(l.fd));
	pid = fixture_fork();
	if (pid == 0)
		_exit(truncate(l.path, 1) != 0);
	assert_int_equal(port_wait(breaks, PORT_INPUT, WAIT_MS), 1);
	assert_int_equal(port_breaks_next(breaks, fds), 1);
	assert_int_equal(fds[0], l.fd);
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	port_lease_give(l.fd);
	assert_int_equal(fixture_wait(pid), 0);
	leased_free(&l);
	port_close(breaks);
	(void)state;
}

/* The writer waits until the lease is given back, and has the file open from before. */
static void lease_writer_waits_nobody_gets_another(void **state)
{
	int fds[PORT_BREAKS_AT_ONCE], breaks = port_breaks(), other;
	u64 *stage = fixture_shared(sizeof(*stage));
	struct leased l;
	pid_t pid;

	leased_make(&l, 0);
	other = fixture_open(l.path, O_RDONLY);
	pid = fixture_fork();
	if (pid == 0) {
		int fd = fixture_open(l.path, O_WRONLY);

		host_store_release(stage, 1);
		REQUIRE(WAIT_UNTIL(host_load_acquire(stage) == 2), "nobody looks");
		close(fd);
		_exit(0);
	}
	assert_int_equal(port_wait(breaks, PORT_INPUT, WAIT_MS), 1);
	assert_int_equal(port_breaks_next(breaks, fds), 1);
	assert_int_equal(host_load_acquire(stage), 0);
	assert_int_equal(port_lease_take(other), -EAGAIN);
	port_lease_give(l.fd);
	assert_int_equal(port_lease_take(other), -EAGAIN);
	assert_true(WAIT_UNTIL(host_load_acquire(stage) == 1));
	assert_int_equal(port_lease_take(other), -EAGAIN);
	host_store_release(stage, 2);
	assert_int_equal(fixture_wait(pid), 0);
	assert_int_equal(port_lease_take(other), 0);
	port_close(other);
	leased_free(&l);
	port_close(breaks);
	(void)state;
}

static void lease_last_descriptor_closed_is_none(void **state)
{
	int fds[PORT_BREAKS_AT_ONCE], breaks = port_breaks(), again;
	struct leased l;

	leased_make(&l, 0);
	again = port_dup(l.fd);
	port_close(l.fd);
	assert_true(port_lease_holds(again));
	assert_int_equal(write_at_once(l.path), -EWOULDBLOCK);
	port_close(again);
	assert_int_equal(write_at_once(l.path), 0);
	assert_int_equal(port_breaks_next(breaks, fds), 1);
	assert_int_equal(fds[0], l.fd); /* the lease was taken by that one */
	port_close(breaks);
	unlink(l.path);
	(void)state;
}

/* As many breaks as there are files, and one signal for all of them. */
static void lease_queue_is_full_signal_names_nothing(void **state)
{
	int fds[PORT_BREAKS_AT_ONCE], breaks = port_breaks();
	struct leased l[NR_FILES];
	struct rlimit limit, none;

	for (u32 i = 0; i < NR_FILES; i++)
		leased_make(&l[i], i);
	assert_int_equal(getrlimit(RLIMIT_SIGPENDING, &limit), 0);
	assert_int_equal(write_at_once(l[0].path), -EWOULDBLOCK);
	none = (struct rlimit){ 0, limit.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_SIGPENDING, &none), 0);
	for (u32 i = 1; i < NR_FILES; i++)
		assert_int_equal(write_at_once(l[i].path), -EWOULDBLOCK);
	assert_int_equal(setrlimit(RLIMIT_SIGPENDING, &limit), 0);
	assert_int_equal(port_breaks_next(breaks, fds), 2);
	assert_int_equal(fds[0], PORT_BREAK_ANY);
	assert_int_equal(fds[1], l[0].fd);
	for (u32 i = 0; i < NR_FILES; i++)
		leased_free(&l[i]);
	port_close(breaks);
	(void)state;
}

struct listener {
	struct port_lock lock;
	struct port_condition told;
	int number, breaks, heard;
	bool broken;
};

static void listener_run(void *arg)
{
	struct listener *l = arg;
	int fds[PORT_BREAKS_AT_ONCE];

	port_lock_take(&l->lock);
	l->number = port_thread_number();
	port_condition_tell_all(&l->told);
	while (!l->broken)
		port_condition_wait(&l->told, &l->lock);
	l->heard = port_breaks_next(l->breaks, fds) == 1 ? fds[0] : -2;
	port_lock_give(&l->lock);
}

static void lease_signal_goes_to_one_thread(void **state)
{
	struct listener listener = { .breaks = port_breaks(), .heard = -2 };
	int fds[PORT_BREAKS_AT_ONCE];
	struct port_thread thread;
	struct leased l;

	port_lock_init(&listener.lock);
	port_condition_init(&listener.told);
	leased_make(&l, 0);
	assert_int_equal(port_thread_start(&thread, listener_run, &listener), 0);
	port_lock_take(&listener.lock);
	while (listener.number == 0)
		port_condition_wait(&listener.told, &listener.lock);
	assert_int_equal(port_lease_aim(l.fd, listener.number), 0);
	assert_int_equal(write_at_once(l.path), -EWOULDBLOCK);
	assert_int_equal(port_ready(listener.breaks, PORT_INPUT), 0);
	assert_int_equal(port_breaks_next(listener.breaks, fds), 0);
	listener.broken = true;
	port_condition_tell_all(&listener.told);
	port_lock_give(&listener.lock);
	port_thread_join(&thread);
	assert_int_equal(listener.heard, l.fd);
	/* The kernel forgets the thread a moment after it has told that it has ended. */
	assert_true(WAIT_UNTIL(port_lease_aim(l.fd, listener.number) == -ESRCH));
	leased_free(&l);
	port_close(listener.breaks);
	port_condition_end(&listener.told);
	port_lock_end(&listener.lock);
	(void)state;
}

static void lease_take_without_right_says_why(void **state)
{
	struct leased l;
	int fd, fds[2];

	leased_make(&l, 0);
	port_lease_give(l.fd);
	fd = fixture_open(l.path, O_WRONLY);
	assert_int_equal(port_lease_take(l.fd), -EAGAIN);
	close(fd);
	fd = fixture_open(l.path, O_PATH);
	assert_int_equal(port_lease_take(fd), -EBADF);
	assert_int_equal(port_lease_aim(fd, port_thread_number()), -EBADF);
	close(fd);
	assert_int_equal(port_pipe(fds), 0);
	assert_int_equal(port_lease_take(fds[0]), -EINVAL);
	port_close(fds[0]);
	port_close(fds[1]);
	if (geteuid() == 0) { /* else nobody can give a file away */
		pid_t pid;

		assert_int_equal(chown(l.path, 12345, (gid_t)-1), 0);
		assert_int_equal(chmod(l.path, 0644), 0);
		pid = fixture_fork();
		if (pid == 0)
			_exit(setresuid(54321, 54321, 54321) != 0 ||
			      port_lease_take(l.fd) != -EACCES);
		assert_int_equal(fixture_wait(pid), 0);
	}
	leased_free(&l);
	(void)state;
}

/* ---- marks ---- */

/* What the test and its child share. The kernel knows of the low half of the word. */
struct marked {
	struct port_mark mark;
	u64 word, ready;
};

static struct marked *marked_make(void)
{
	return fixture_shared(sizeof(struct marked));
}

static void marked_set(struct marked *m)
{
	m->word = BESIDE | (u32)port_thread_number();
	REQUIRE(port_mark_set(&m->mark, (u32 *)&m->word) == 0, "no mark");
}

static void marked_run(void *arg)
{
	marked_set(arg);
}

/* A join does not return before the kernel has looked for a mark. */
static void mark_thread_ends_is_set(void **state)
{
	struct marked *m = marked_make();
	struct port_thread thread;

	assert_int_equal(port_thread_start(&thread, marked_run, m), 0);
	port_thread_join(&thread);
	assert_int_equal(m->word, DEAD);
	(void)state;
}

static void cleared_run(void *arg)
{
	struct marked *m = arg;

	marked_set(m);
	port_mark_clear(&m->mark);
	m->ready = m->word;
}

static void of_another_run(void *arg)
{
	struct marked *m = arg;

	marked_set(m);
	m->word++;
	m->ready = m->word;
}

static void mark_cleared_or_of_another_stays(void **state)
{
	struct marked *m = marked_make(), *other = marked_make();
	struct port_thread thread;

	assert_int_equal(port_thread_start(&thread, cleared_run, m), 0);
	port_thread_join(&thread);
	assert_int_equal(port_thread_start(&thread, of_another_run, other), 0);
	port_thread_join(&thread);
	assert_int_equal(m->word, m->ready);
	assert_int_equal(other->word, other->ready);
	(void)state;
}

static void mark_exec_is_set(void **state)
{
	struct marked *m = marked_make();
	pid_t pid = fixture_fork();

	if (pid == 0) {
		marked_set(m);
		execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
		_exit(1);
	}
	assert_int_equal(WEXITSTATUS(fixture_wait(pid)), 7);
	assert_int_equal(m->word, DEAD);
	(void)state;
}

struct owner {
	struct marked *m;
	const char *path;
};

static void owner_run(void *arg)
{
	const struct owner *o = arg;

	marked_set(o->m);
	host_store_release(&o->m->ready, 1);
	for (;;)
		pause();
}

/* A process whose one thread has the mark, and whose other one has the lease. */
static void owner_live(struct owner *o)
{
	struct port_thread thread;
	int fd = fixture_open(o->path, O_RDONLY);

	REQUIRE(port_lease_take(fd) == 0, "no lease");
	REQUIRE(port_thread_start(&thread, owner_run, o) == 0, "no thread");
	for (;;)
		pause();
}

struct waiter {
	const char *path;
	const struct marked *m;
	u64 waits, seen; /* when it was let in */
};

static void waiter_run(void *arg)
{
	struct waiter *w = arg;
	int fd;

	host_store_release(&w->waits, 1);
	fd = fixture_open(w->path, O_WRONLY);
	w->seen = host_load_acquire(&w->m->word);
	close(fd);
}

/* What a writer relies on that waits for a lease whose owner is killed (L4 of mark.h). */
static void mark_is_set_before_lease_falls(void **state)
{
	char path[FIXTURE_PATH_BYTES];

	pattern_file_make(path, "killed", 1, 1, BYTES);
	for (u32 i = 0; i < KILLS; i++) {
		struct marked *m = marked_make();
		struct owner owner = { m, path };
		struct waiter waiter = { .path = path, .m = m };
		struct port_thread thread;
		pid_t pid = fixture_fork();

		if (pid == 0)
			owner_live(&owner);
		assert_true(WAIT_UNTIL(host_load_acquire(&m->ready)));
		assert_int_equal(write_at_once(path), -EWOULDBLOCK);
		assert_int_equal(port_thread_start(&thread, waiter_run, &waiter), 0);
		assert_true(WAIT_UNTIL(host_load_acquire(&waiter.waits)));
		assert_int_equal(kill(pid, SIGKILL), 0);
		port_thread_join(&thread);
		assert_int_equal(waiter.seen, DEAD);
		assert_int_equal(WTERMSIG(fixture_wait(pid)), SIGKILL);
	}
	unlink(path);
	(void)state;
}

static bool has_leases(void)
{
	char path[FIXTURE_PATH_BYTES];
	int fd, err;

	pattern_file_make(path, "asked", 1, 1, BYTES);
	fd = fixture_open(path, O_RDONLY);
	err = port_lease_take(fd);
	port_close(fd);
	unlink(path);
	return err == 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lease_broken_is_heard_once),
		cmocka_unit_test(lease_given_back_signal_still_comes),
		cmocka_unit_test(lease_truncated_breaks),
		cmocka_unit_test(lease_writer_waits_nobody_gets_another),
		cmocka_unit_test(lease_last_descriptor_closed_is_none),
		cmocka_unit_test(lease_queue_is_full_signal_names_nothing),
		cmocka_unit_test(lease_signal_goes_to_one_thread),
		cmocka_unit_test(lease_take_without_right_says_why),
		cmocka_unit_test(mark_thread_ends_is_set),
		cmocka_unit_test(mark_cleared_or_of_another_stays),
		cmocka_unit_test(mark_exec_is_set),
		cmocka_unit_test(mark_is_set_before_lease_falls),
	};
	sigset_t all;

	fixture_begin(argc, argv, NULL);
	if (!has_leases())
		fixture_skip("there are no leases in the folder");
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	return cmocka_run_group_tests_name("port_lease", tests, NULL, NULL);
}
