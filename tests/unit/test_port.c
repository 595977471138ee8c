/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The door to the system keeps what lib/port.h promises, where the kernel alone does not; and
 * lines.h reads a file as fgets(3) does.
 */
#define _GNU_SOURCE
#include <errno.h>
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
		lines = (struct lines){ .fd = fileno(file) };
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
	};

	alarm(TEST_SECONDS);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
