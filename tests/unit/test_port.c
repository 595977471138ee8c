/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The door to the system keeps what lib/port.h promises, where the kernel alone does not; and
 * lines.h reads a file as fgets(3) does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/random.h"
#include "lib/lines.h"
#include "lib/port.h"

#define TEST_SECONDS 60
#define FILES 400
#define FILE_BYTES_MOST 9000
#define LINE_BYTES_MOST 5000

static u64 seed_of_run(void)
{
	const char *text = getenv("LODIC_SEED");

	return text ? strtoull(text, NULL, 0) : 1;
}

static size_t below(u64 *random, size_t n)
{
	return random_next(random) % n;
}

static FILE *file_of(const char *bytes, size_t n)
{
	FILE *file = tmpfile();

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, n, file), n);
	assert_int_equal(fflush(file), 0);
	rewind(file);
	return file;
}

/* Bytes that readers of lines stumble over: ends of lines, zeros, and no end at all. */
static void lines_next_any_file_reads_as_fgets(void **state)
{
	static char bytes[FILE_BYTES_MOST], line[LINE_BYTES_MOST],
		told[LINE_BYTES_MOST];
	static const char chosen[] = { 'a', '\n', '\0', 'b', 'c', 'd', '=' };
	u64 random = seed_of_run();

	printf("seed %llu\n", (unsigned long long)random);
	for (int i = 0; i < FILES; i++) {
		size_t n = below(&random, FILE_BYTES_MOST);
		size_t room = 2 + below(&random, LINE_BYTES_MOST - 1);
		u32 kinds = 1 + below(&random, sizeof(chosen));
		struct lines lines;
		FILE *file;

		for (size_t at = 0; at < n; at++)
			bytes[at] = chosen[below(&random, kinds)];
		file = file_of(bytes, n);
		lines = (struct lines){ .fd = fileno(file), .read = port_read };
		for (;;) {
			bool more = lines_next(&lines, line, room);

			memset(told, 'x', room);
			assert_int_equal(more, fgets(told, (int)room, file) != NULL);
			if (!more)
				break;
			assert_string_equal(line, told);
			assert_int_equal(lines.ended, feof(file) != 0);
		}
		fclose(file);
	}
	(void)state;
}

static void memory_look_other_file_is_einval(void **state)
{
	struct port_memory memory = { 1, 2 };
	FILE *file = file_of("abc", 3);
	int fds[2];

	assert_int_equal(port_pipe(fds), 0);
	assert_int_equal(port_memory_look(fileno(file), &memory), -EINVAL);
	assert_int_equal(port_memory_look(fds[0], &memory), -EINVAL);
	assert_int_equal(port_memory_look(-1, &memory), -EBADF);
	assert_int_equal(memory.bytes, 1);
	port_close(fds[0]);
	port_close(fds[1]);
	fclose(file);
	(void)state;
}

static void memory_file_sealed_refuses_writers(void **state)
{
	struct port_memory memory;
	void *at;
	int fd = port_memory_file("test");

	assert_true(fd >= 0);
	assert_int_equal(port_write(fd, "abc", 3, 0), 3);
	assert_int_equal(
		port_map(NULL, 3, PORT_READ | PORT_WRITE, PORT_SHARED, fd, 0, &at), 0);
	assert_int_equal(port_seal(fd, PORT_SEAL_WRITE), -EBUSY);
	assert_int_equal(port_unmap(at, 3), 0);
	assert_int_equal(port_seal(fd, PORT_SEAL_WRITE | PORT_SEAL_SEALS), 0);
	assert_int_equal(port_seal(fd, PORT_SEAL_GROW), -EPERM);
	assert_int_equal(port_write(fd, "d", 1, 0), -EPERM);
	assert_int_equal(port_memory_look(fd, &memory), 0);
	assert_int_equal(memory.bytes, 3);
	assert_true(memory.seals & PORT_SEAL_WRITE);
	assert_int_equal(port_map(NULL, 0, PORT_READ, PORT_SHARED, fd, 0, &at),
	                 -EINVAL);
	port_close(fd);
	(void)state;
}

static void pipe_reader_never_waits(void **state)
{
	char byte;
	int fds[2];

	assert_int_equal(port_pipe(fds), 0);
	assert_int_equal(port_take(fds[0], &byte, 1), -EAGAIN);
	assert_int_equal(port_wait(fds[0], PORT_INPUT, 0), 0);
	port_close(fds[1]);
	assert_int_equal(port_wait(fds[0], PORT_INPUT, 0), 1);
	assert_int_equal(port_wait(fds[0], PORT_HANG_UP, 0), 1);
	assert_int_equal(port_take(fds[0], &byte, 1), 0);
	port_close(fds[0]);
	(void)state;
}

static void event_told_is_input(void **state)
{
	int fds[2], event = port_event();

	assert_int_equal(port_pipe(fds), 0);
	assert_true(port_is_event(event));
	assert_false(port_is_event(fds[0]));
	assert_int_equal(port_wait(event, PORT_INPUT, 0), 0);
	assert_true(port_event_tell(event));
	assert_int_equal(port_wait(event, PORT_INPUT, 0), 1);
	assert_int_equal(port_replace(fds[0], event), 0);
	assert_false(port_is_event(event));
	port_close(event);
	port_close(fds[0]);
	port_close(fds[1]);
	(void)state;
}

static void mode_says_how_it_was_opened(void **state)
{
	unsigned int mode;
	int fds[2];

	assert_int_equal(port_pipe(fds), 0);
	assert_int_equal(port_mode(fds[0], &mode), 0);
	assert_int_equal(mode, PORT_MAY_READ | PORT_NEVER_WAITS);
	assert_int_equal(port_mode(fds[1], &mode), 0);
	assert_int_equal(mode, PORT_MAY_WRITE);
	assert_int_equal(port_mode(-1, &mode), -EBADF);
	assert_int_equal(port_dup(-1), -EBADF);
	port_close(fds[0]);
	port_close(fds[1]);
	(void)state;
}

static void spawn_no_program_says_why(void **state)
{
	char *arguments[] = { "none", NULL }, *environment[] = { NULL };
	struct port_program program = { "/none", arguments, environment, 0, 2 };

	assert_int_equal(port_spawn(&program), -ENOENT);
	program.path = "/";
	assert_int_equal(port_spawn(&program), -EACCES);
	(void)state;
}

struct waiter {
	int fd;
	u64 entered; /* atomic */
	bool cancelled, came_back;
	struct port_lock lock;
};

static void waiter_sleep(void *arg)
{
	struct waiter *w = arg;

	host_store_release(&w->entered, 1);
	while (port_wait(w->fd, PORT_INPUT, -1) != 1)
		;
}

static void waiter_cancelled(void *arg)
{
	struct waiter *w = arg;

	w->cancelled = true;
	port_lock_give(&w->lock);
}

static void *waiter_run(void *arg)
{
	struct waiter *w = arg;
	int state = port_cancel_off();

	port_lock_take(&w->lock);
	port_cancellable(state, waiter_sleep, waiter_cancelled, w);
	w->came_back = true;
	port_cancel_as(state);
	return NULL;
}

static void cancellable_cancelled_gives_back(void **state)
{
	struct waiter w = { .entered = 0 };
	pthread_t thread;
	void *how;
	int fds[2];

	assert_int_equal(port_pipe(fds), 0);
	w.fd = fds[0];
	port_lock_init(&w.lock);
	assert_int_equal(pthread_create(&thread, NULL, waiter_run, &w), 0);
	while (!host_load_acquire(&w.entered))
		host_relax();
	assert_false(port_lock_try(&w.lock));
	assert_int_equal(pthread_cancel(thread), 0);
	assert_int_equal(pthread_join(thread, &how), 0);
	assert_ptr_equal(how, PTHREAD_CANCELED);
	assert_true(w.cancelled && !w.came_back);
#ifndef __SANITIZE_THREAD__ /* it misses what a cancelled thread gives back */
	assert_true(port_lock_try(&w.lock));
	port_lock_give(&w.lock);
	port_lock_end(&w.lock);
#endif
	port_close(fds[0]);
	port_close(fds[1]);
	(void)state;
}

static u64 nr_ended; /* atomic */

static void word_ended(void *value)
{
	host_fetch_add(&nr_ended, *(u64 *)value);
	port_free(value);
}

static struct port_word word = { .end = word_ended };

static void *word_user(void *arg)
{
	u64 *value = port_alloc(sizeof(*value));

	*value = *(u64 *)arg;
	return port_word_get(&word) || !port_word_set(&word, value) ||
	                       port_word_get(&word) != value
	               ? arg
	               : NULL;
}

static void word_of_each_thread_ends_with_it(void **state)
{
	u64 values[] = { 1, 10, 100 };
	pthread_t threads[3];
	void *wrong;

	for (u32 i = 0; i < 3; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, word_user, &values[i]), 0);
	for (u32 i = 0; i < 3; i++) {
		assert_int_equal(pthread_join(threads[i], &wrong), 0);
		assert_null(wrong);
	}
	assert_int_equal(nr_ended, 111);
	assert_null(port_word_get(&word));
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_next_any_file_reads_as_fgets),
		cmocka_unit_test(memory_look_other_file_is_einval),
		cmocka_unit_test(memory_file_sealed_refuses_writers),
		cmocka_unit_test(pipe_reader_never_waits),
		cmocka_unit_test(event_told_is_input),
		cmocka_unit_test(mode_says_how_it_was_opened),
		cmocka_unit_test(spawn_no_program_says_why),
		cmocka_unit_test(cancellable_cancelled_gives_back),
		cmocka_unit_test(word_of_each_thread_ends_with_it),
	};

	alarm(TEST_SECONDS);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
