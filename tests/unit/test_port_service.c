/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The door to the system keeps what the service's headers promise: lib/port/. */
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
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/host.h"
#include "lib/port.h"
#include "lib/port/inode.h"
#include "lib/port/limit.h"
#include "lib/port/listen.h"
#include "lib/port/set.h"
#include "lib/port/signal.h"
#include "lib/port/thread.h"

#define TEST_SECONDS 60
#define WAIT_MS 30000
#define MOST 8
#define STACK_BYTES ((size_t)256 << 10)
#define OSTYPE "/proc/sys/kernel/ostype"

/* ---- threads ---- */

struct shared {
	struct port_lock lock;
	struct port_condition told;
	u32 nr; /* under the lock */
	bool blocked;
};

static void shared_begin(struct shared *s)
{
	*s = (struct shared){ .nr = 0 };
	port_lock_init(&s->lock);
	port_condition_init(&s->told);
}

static void shared_end(struct shared *s)
{
	port_condition_end(&s->told);
	port_lock_end(&s->lock);
}

static void shared_count(void *arg)
{
	struct shared *s = arg;
	sigset_t blocked;

	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	port_lock_take(&s->lock);
	s->blocked = sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGUSR1);
	s->nr++;
	port_condition_tell_all(&s->told);
	port_lock_give(&s->lock);
}

static void thread_has_all_signals_blocked(void **state)
{
	struct port_thread thread;
	struct shared s;
	sigset_t before, after;

	shared_begin(&s);
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	assert_int_equal(port_thread_start(&thread, shared_count, &s), 0);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	port_thread_join(&thread);
	assert_int_equal(s.nr, 1);
	assert_true(s.blocked);
	assert_int_equal(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
	shared_end(&s);
	(void)state;
}

static void condition_told_ends_the_wait(void **state)
{
	u64 until = host_now_ns() + (u64)WAIT_MS * 1000000;
	struct shared s;

	shared_begin(&s);
	port_lock_take(&s.lock);
	assert_int_equal(port_thread_start_alone(shared_count, &s, STACK_BYTES), 0);
	while (s.nr == 0)
		assert_true(port_condition_wait_until(&s.told, &s.lock, until));
	assert_int_equal(port_thread_start_alone(shared_count, &s, 0), 0);
	while (s.nr == 1)
		port_condition_wait(&s.told, &s.lock);
	port_lock_give(&s.lock);
	/* The last thread may be about to give the lock: so that stays. */
	(void)state;
}

static void condition_wait_ends_with_its_time(void **state)
{
	u64 until = host_now_ns() + 2000000;
	struct shared s;

	shared_begin(&s);
	port_lock_take(&s.lock);
	while (port_condition_wait_until(&s.told, &s.lock, until))
		;
	assert_true(host_now_ns() >= until);
	assert_false(port_lock_try(&s.lock));
	assert_false(port_condition_wait_until(&s.told, &s.lock, 0));
	port_lock_give(&s.lock);
	shared_end(&s);
	(void)state;
}

static u32 nr_inits;

static void init_count(void)
{
	nr_inits++;
}

static void once_calls_it_once(void **state)
{
	struct port_once once = { { 0 } };

	port_once(&once, init_count);
	port_once(&once, init_count);
	assert_int_equal(nr_inits, 1);
	(void)state;
}

static void thread_cpu_grows_with_work(void **state)
{
	u64 began = port_thread_cpu_ns();

	while (port_thread_cpu_ns() == began)
		host_relax();
	assert_true(port_thread_cpu_ns() > began);
	(void)state;
}

/* ---- events and sets ---- */

static void event_taken_is_no_input(void **state)
{
	int event = port_event();

	assert_false(port_event_take(event));
	assert_int_equal(port_ready(event, PORT_INPUT), 0);
	assert_true(port_event_tell(event) && port_event_tell(event));
	assert_int_equal(port_ready(event, PORT_INPUT), 1);
	assert_true(port_event_take(event));
	assert_false(port_event_take(event));
	assert_int_equal(port_ready(event, PORT_INPUT), 0);
	port_close(event);
	(void)state;
}

static void set_tells_of_input_as_long_as_there_is(void **state)
{
	int set = port_set(), event = port_event(), other = port_event();
	void *whose[MOST];

	assert_int_equal(port_set_add(set, event, PORT_INPUT, &event), 0);
	assert_int_equal(port_set_add(set, event, PORT_INPUT, &event), -EEXIST);
	assert_int_equal(port_set_add(set, other, PORT_NEW_INPUT, &other), 0);
	assert_int_equal(port_set_wait(set, whose, MOST, 0), 0);
	port_event_tell(event);
	assert_int_equal(port_set_wait(set, whose, MOST, WAIT_MS), 1);
	assert_ptr_equal(whose[0], &event);
	assert_int_equal(port_set_wait(set, whose, MOST, 0), 1);
	port_event_take(event);
	assert_int_equal(port_set_wait(set, whose, MOST, 0), 0);
	port_event_tell(other);
	assert_int_equal(port_set_wait(set, whose, MOST, -1), 1);
	assert_ptr_equal(whose[0], &other);
	assert_int_equal(port_set_wait(set, whose, MOST, 0), 0);
	port_event_tell(other);
	assert_int_equal(port_set_wait(set, whose, MOST, 0), 1);
	port_close(event);
	port_close(other);
	port_close(set);
	(void)state;
}

static void set_without_input_tells_of_a_hang_up(void **state)
{
	int set = port_set(), fds[2];
	void *whose[MOST];

	assert_int_equal(port_pipe(fds), 0);
	assert_int_equal(port_set_change(set, fds[0], PORT_INPUT, &set), -ENOENT);
	assert_int_equal(port_set_add(set, fds[0], PORT_INPUT, &set), 0);
	assert_int_equal(write(fds[1], "a", 1), 1);
	assert_int_equal(port_set_wait(set, whose, MOST, 0), 1);
	assert_int_equal(port_set_change(set, fds[0], PORT_HANG_UP, fds), 0);
	assert_int_equal(port_set_wait(set, whose, MOST, 0), 0);
	port_close(fds[1]);
	assert_int_equal(port_set_wait(set, whose, MOST, WAIT_MS), 1);
	assert_ptr_equal(whose[0], fds);
	port_set_remove(set, fds[0]);
	assert_int_equal(port_set_wait(set, whose, MOST, 0), 0);
	port_close(fds[0]);
	assert_int_equal(port_set_add(set, set, PORT_INPUT, &set), -EINVAL);
	assert_int_equal(port_set_add(set, -1, PORT_INPUT, &set), -EBADF);
	port_close(set);
	(void)state;
}

static void set_works_without_descriptors(void **state)
{
	struct rlimit before, none;
	int set = port_set(), event = port_event();
	void *whose[MOST];

	assert_int_equal(port_set_add(set, event, PORT_INPUT, &event), 0);
	port_event_tell(event);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ 0, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(port_limit(PORT_LIMIT_DESCRIPTORS), 0);
	assert_int_equal(port_set_wait(set, whose, MOST, 0), 1);
	assert_int_equal(port_ready(event, PORT_INPUT), -EINVAL);
	assert_int_equal(port_event(), -EMFILE);
	port_limit_raise_descriptors();
	assert_int_equal(port_limit(PORT_LIMIT_DESCRIPTORS), before.rlim_max);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	port_close(event);
	port_close(set);
	(void)state;
}

/* ---- signals ---- */

static void signals_are_input_and_not_deadly(void **state)
{
	struct port_signals_before before;
	struct port_signal signal;
	int signals;

	port_signals_block(&before);
	signals = port_signals();
	assert_int_equal(port_signals_take(signals, &signal), -EAGAIN);
	assert_int_equal(kill(getpid(), SIGHUP), 0);
	assert_int_equal(port_ready(signals, PORT_INPUT), 1);
	assert_int_equal(port_signals_take(signals, &signal), 0);
	assert_true(signal.hang_up && !signal.by_kernel);
	assert_int_equal(kill(getpid(), SIGTERM), 0);
	assert_int_equal(port_signals_take(signals, &signal), 0);
	assert_true(!signal.hang_up && !signal.by_kernel);
	assert_int_equal(port_signals_take(signals, &signal), -EAGAIN);
	port_close(signals);
	port_signals_as(&before);
	(void)state;
}

/* ---- sockets ---- */

struct place {
	char folder[32], path[64];
	int listening;
};

static void place_begin(struct place *p)
{
	strcpy(p->folder, "/tmp/lodic-port-XXXXXX");
	assert_non_null(mkdtemp(p->folder));
	snprintf(p->path, sizeof(p->path), "%s/at", p->folder);
	p->listening = port_socket();
	assert_true(p->listening >= 0);
}

static void place_end(struct place *p)
{
	port_close(p->listening);
	unlink(p->path);
	assert_int_equal(rmdir(p->folder), 0);
}

static void bind_path_is_the_users_alone(void **state)
{
	struct port_file file;
	struct place p;
	mode_t mask = umask(0);

	place_begin(&p);
	assert_int_equal(port_bind(p.listening, p.path), 0);
	assert_int_equal(port_look_at(p.path, false, &file), 0);
	assert_int_equal(file.kind, PORT_FILE_SOCKET);
	assert_int_equal(file.rights, 0600);
	assert_int_equal(port_bind(p.listening, p.path), -EADDRINUSE);
	assert_int_equal(port_set_rights(p.path, 0660), 0);
	assert_int_equal(port_set_group(p.path, getegid()), 0);
	assert_int_equal(port_look_at(p.path, false, &file), 0);
	assert_int_equal(file.rights, 0660);
	umask(mask);
	place_end(&p);
	(void)state;
}

static void accept_nobody_waits_is_eagain(void **state)
{
	struct place p;
	int program = port_socket(), service;
	char byte[2];
	struct port_message m = { .bytes = byte,
		                  .room = sizeof(byte),
		                  .ask_who = true };

	place_begin(&p);
	assert_int_equal(port_accept(p.listening), -EINVAL);
	assert_int_equal(port_bind(p.listening, p.path), 0);
	assert_int_equal(port_ask_senders(p.listening), 0);
	assert_int_equal(port_connect(program, p.path), -ECONNREFUSED);
	assert_int_equal(port_listen(p.listening, MOST), 0);
	assert_int_equal(port_accept(p.listening), -EAGAIN);
	assert_int_equal(port_connect(program, p.path), 0);
	service = port_accept(p.listening);
	assert_true(service >= 0);
	assert_int_equal(port_receive(service, &m), -EAGAIN);
	assert_int_equal(port_ready(service, PORT_INPUT), 0);
	assert_int_equal(port_send(program, "a", 1, NULL, 0), 0);
	assert_int_equal(port_ready(service, PORT_INPUT), 1);
	assert_int_equal(port_stop_receiving(service), 0);
	assert_int_equal(port_receive(service, &m), 0);
	assert_true(m.got == 1 && m.said && m.sender.pid == getpid());
	assert_int_equal(port_receive(service, &m), 0);
	assert_true(m.got == 0 && !m.said);
	assert_int_equal(port_send(program, "a", 1, NULL, 0), -ECONNRESET);
	port_close(program);
	port_close(service);
	place_end(&p);
	(void)state;
}

/* A program of another process that connects, and ends when it is hung up on. */
static pid_t program_start(struct place *p)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	port_close(p->listening);
	p->listening = port_socket();
	_exit(port_connect(p->listening, p->path) != 0 ||
	      port_wait(p->listening, PORT_INPUT, WAIT_MS) != 1);
}

static void peer_process_dead_is_input(void **state)
{
	struct place p;
	int socket, process, status;
	pid_t pid;

	place_begin(&p);
	assert_int_equal(port_bind(p.listening, p.path), 0);
	assert_int_equal(port_listen(p.listening, MOST), 0);
	pid = program_start(&p);
	assert_int_equal(port_wait(p.listening, PORT_INPUT, WAIT_MS), 1);
	socket = port_accept(p.listening);
	process = port_peer_process(socket);
	assert_true(process >= 0);
	assert_int_equal(port_ready(process, PORT_INPUT), 0);
	assert_true(port_peer_has_group(socket, getegid()));
	assert_false(port_peer_has_group(socket, UINT32_MAX - 1));
	port_close(socket);
	assert_int_equal(port_wait(process, PORT_INPUT, WAIT_MS), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	port_close(process);
	place_end(&p);
	(void)state;
}

static void lock_file_has_one_holder(void **state)
{
	struct place p;
	int first, second;

	place_begin(&p);
	first = port_open_or_create(p.path);
	second = port_open_or_create(p.path);
	assert_int_equal(port_lock_file(first), 0);
	assert_int_equal(port_lock_file(second), -EAGAIN);
	assert_true(port_is_same_file(first, second));
	assert_false(port_is_same_file(first, p.listening));
	assert_true(port_leads_to(p.path, first));
	assert_int_equal(port_write(first, "abc", 3, 0), 3);
	assert_int_equal(port_truncate(first), 0);
	port_shut(first);
	assert_int_equal(port_lock_file(second), 0);
	assert_int_equal(port_remove(p.path), 0);
	assert_false(port_leads_to(p.path, second));
	first = port_create(p.path);
	assert_false(port_leads_to(p.path, second));
	port_shut(first);
	assert_int_equal(port_remove(p.path), 0);
	assert_int_equal(symlink("/dev/null", p.path), 0);
	assert_int_equal(port_open_or_create(p.path), -ELOOP);
	port_shut(second);
	place_end(&p);
	(void)state;
}

static void open_to_write_makes_no_file(void **state)
{
	struct place p;
	int made, again;

	place_begin(&p);
	assert_int_equal(port_open_to_write(p.path), -ENOENT);
	made = port_open_or_create(p.path);
	again = port_open_to_write(p.path);
	assert_true(port_is_same_file(made, again));
	assert_int_equal(port_write(again, "abc", 3, 0), 3);
	port_shut(again);
	port_shut(made);
	assert_int_equal(port_remove(p.path), 0);
	assert_int_equal(symlink("/dev/null", p.path), 0);
	assert_int_equal(port_open_to_write(p.path), -ELOOP);
	place_end(&p);
	(void)state;
}

static void channel_has_two_ends_that_never_wait(void **state)
{
	int ends[2];
	char byte = 0;
	struct port_message m = { .bytes = &byte, .room = sizeof(byte) };

	assert_int_equal(port_channel(ends), 0);
	for (u32 i = 0; i < 2; i++) {
		assert_int_equal(port_receive(ends[i], &m), -EAGAIN);
		assert_int_equal(port_send(ends[i], "x", 1, NULL, 0), 0);
		assert_int_equal(port_receive(ends[1 - i], &m), 0);
		assert_int_equal(byte, 'x');
		byte = 0;
	}
	port_close(ends[0]);
	assert_int_equal(port_receive(ends[1], &m), 0);
	assert_int_equal(m.got, 0);
	port_close(ends[1]);
	(void)state;
}

static void reopened_name_gives_no_right(void **state)
{
	unsigned int mode;
	struct place p;
	int fd, name, again;
	char byte;

	place_begin(&p);
	fd = port_open_or_create(p.path);
	assert_int_equal(port_write(fd, "a", 1, 0), 1);
	assert_int_equal(port_remove(p.path), 0); /* it needs no name */
	name = port_reopen_name(fd);
	assert_true(name >= 0);
	assert_true(port_is_same_file(fd, name));
	assert_int_equal(port_mode(name, &mode), 0);
	assert_true(mode & PORT_NAMES_ONLY);
	assert_int_equal(port_read(name, &byte, 1, 0), -EBADF);
	again = port_reopen_at_once(name, 0);
	assert_true(again >= 0);
	assert_int_equal(port_read(again, &byte, 1, 0), 1);
	port_shut(again);
	port_close(name);
	port_shut(fd);
	assert_int_equal(port_reopen_name(fd), -ENOENT);
	place_end(&p);
	(void)state;
}

/* ---- files of the kernel ---- */

static void system_text_of_a_fifo_waits_for_nobody(void **state)
{
	struct place p;
	char text[4];

	place_begin(&p);
	assert_int_equal(mkfifo(p.path, 0600), 0);
	assert_int_equal(port_system_text(p.path, text, sizeof(text)), -ESPIPE);
	place_end(&p);
	(void)state;
}

static void system_text_ends_with_zero(void **state)
{
	char text[64], few[4];
	int64_t n = port_system_text(OSTYPE, text, sizeof(text));

	assert_int_equal(n, 6);
	assert_string_equal(text, "Linux\n");
	assert_int_equal(port_system_text(OSTYPE, few, sizeof(few)), 3);
	assert_int_equal(few[3], '\0');
	assert_memory_equal(few, text, 3);
	assert_int_equal(port_system_text("/proc/self/none", text, sizeof(text)),
	                 -ENOENT);
	assert_int_equal(port_system_text("/proc/0/comm", text, sizeof(text)), -ENOENT);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(thread_has_all_signals_blocked),
		cmocka_unit_test(condition_told_ends_the_wait),
		cmocka_unit_test(condition_wait_ends_with_its_time),
		cmocka_unit_test(once_calls_it_once),
		cmocka_unit_test(thread_cpu_grows_with_work),
		cmocka_unit_test(event_taken_is_no_input),
		cmocka_unit_test(set_tells_of_input_as_long_as_there_is),
		cmocka_unit_test(set_without_input_tells_of_a_hang_up),
		cmocka_unit_test(set_works_without_descriptors),
		cmocka_unit_test(signals_are_input_and_not_deadly),
		cmocka_unit_test(bind_path_is_the_users_alone),
		cmocka_unit_test(accept_nobody_waits_is_eagain),
		cmocka_unit_test(peer_process_dead_is_input),
		cmocka_unit_test(lock_file_has_one_holder),
		cmocka_unit_test(open_to_write_makes_no_file),
		cmocka_unit_test(channel_has_two_ends_that_never_wait),
		cmocka_unit_test(reopened_name_gives_no_right),
		cmocka_unit_test(system_text_of_a_fifo_waits_for_nobody),
		cmocka_unit_test(system_text_ends_with_zero),
	};

	alarm(TEST_SECONDS);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
