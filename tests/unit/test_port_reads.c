/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Reads by the door to the system, against the real kernel: lib/port/reads.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/port/reads.h"

#define TEST_SECONDS 60
#define READS_MOST 8u
#define PIECE_BYTES 4096u
#define FILE_BYTES (5 * PIECE_BYTES + 100)
#define PIPE_WAIT_NS UINT64_C(1000000)
#define END_WAIT_NS UINT64_C(5000000000)
#define TMPFS 0x01021994
#define RAMFS 0x858458f6

static uint8_t said[FILE_BYTES], got[FILE_BYTES + PIECE_BYTES];
static FILE *file;

static int make(void **state)
{
	for (size_t i = 0; i < FILE_BYTES; i++)
		said[i] = (uint8_t)(i * 7 + i / 251);
	file = tmpfile();
	(void)state;
	return file && fwrite(said, 1, FILE_BYTES, file) == FILE_BYTES &&
	                       fflush(file) == 0
	               ? 0
	               : -1;
}

/* Pieces of different sizes, without gaps: all of got. */
static void pieces_of(struct port_piece pieces[3])
{
	memset(got, 0xee, sizeof(got));
	pieces[0] = (struct port_piece){ got, PIECE_BYTES };
	pieces[1] = (struct port_piece){ got + PIECE_BYTES, 10 };
	pieces[2] = (struct port_piece){ got + PIECE_BYTES + 10,
		                         sizeof(got) - PIECE_BYTES - 10 };
}

/* bytes of the file came, from offset on, and behind them nothing has been written. */
static void assert_came(size_t offset, size_t bytes)
{
	assert_memory_equal(got, said + offset, bytes);
	for (size_t i = bytes; i < sizeof(got); i++)
		assert_int_equal(got[i], 0xee);
}

static void read_pieces_to_the_end_is_short(void **state)
{
	struct port_piece pieces[3];

	pieces_of(pieces);
	assert_int_equal(port_read_pieces(fileno(file), pieces, 2, 3),
	                 PIECE_BYTES + 10);
	assert_came(3, PIECE_BYTES + 10);
	pieces_of(pieces);
	assert_int_equal(port_read_pieces(fileno(file), pieces, 3, PIECE_BYTES),
	                 FILE_BYTES - PIECE_BYTES);
	assert_came(PIECE_BYTES, FILE_BYTES - PIECE_BYTES);
	assert_int_equal(port_read_pieces(fileno(file), pieces, 3, FILE_BYTES), 0);
	assert_int_equal(port_read_pieces(-1, pieces, 3, 0), -EBADF);
	(void)state;
}

/* Skips where this process gets no ring, as in many containers. */
static struct port_reads *make_reads(void)
{
	struct port_reads *reads = NULL;
	int err = port_reads_make(READS_MOST, &reads);

	if (err == -ENOSYS || err == -EPERM || err == -EACCES)
		skip();
	assert_int_equal(err, 0);
	assert_non_null(reads);
	return reads;
}

static int end_of(struct port_reads *reads, const void *of)
{
	void *which = NULL;
	int result = 1;

	while (!port_reads_next(reads, &which, &result)) {
		port_reads_wait(reads, END_WAIT_NS);
		assert_int_equal(port_wait(port_reads_event(reads), PORT_INPUT, 0), 1);
	}
	assert_ptr_equal(which, of);
	return result;
}

static void begin(struct port_reads *reads, const struct port_read *read)
{
	assert_true(port_reads_add(reads, read));
	port_reads_send(reads);
}

static void read_under_way_ends_with_its_bytes(void **state)
{
	struct port_reads *reads = make_reads();
	struct port_piece pieces[3];
	struct port_read read = { .fd = fileno(file), .pieces = pieces, .of = &read };

	for (unsigned int elsewhere = 0; elsewhere < 2; elsewhere++) {
		read.elsewhere = elsewhere;
		read.nr_pieces = 2;
		read.offset = PIECE_BYTES;
		pieces_of(pieces);
		begin(reads, &read);
		assert_int_equal(end_of(reads, &read), PIECE_BYTES + 10);
		assert_came(PIECE_BYTES, PIECE_BYTES + 10);
		read.nr_pieces = 3;
		read.offset = 5 * PIECE_BYTES;
		pieces_of(pieces);
		begin(reads, &read);
		assert_int_equal(end_of(reads, &read), 100);
		assert_came(5 * PIECE_BYTES, 100);
		read.offset = FILE_BYTES;
		begin(reads, &read);
		assert_int_equal(end_of(reads, &read), 0);
	}
	port_reads_end(reads);
	(void)state;
}

static void read_of_no_descriptor_ends_as_ebadf(void **state)
{
	struct port_reads *reads = make_reads();
	struct port_piece pieces[3];
	struct port_read read = { .pieces = pieces, .nr_pieces = 3, .of = &read };

	read.fd = port_dup(fileno(file));
	assert_true(read.fd >= 0);
	port_close(read.fd);
	pieces_of(pieces);
	begin(reads, &read);
	assert_int_equal(end_of(reads, &read), -EBADF);
	assert_came(0, 0);
	port_reads_end(reads);
	(void)state;
}

/* A pipe answers when the test wants it to. */
static void read_without_an_answer_is_under_way(void **state)
{
	struct port_reads *reads = make_reads();
	struct port_piece pieces[3];
	struct port_read read = { .pieces = pieces, .nr_pieces = 3, .of = &read };
	void *of = NULL;
	int fds[2], result;

	assert_int_equal(pipe(fds), 0);
	read.fd = fds[0];
	pieces_of(pieces);
	begin(reads, &read);
	port_reads_wait(reads, PIPE_WAIT_NS);
	assert_int_equal(port_wait(port_reads_event(reads), PORT_INPUT, 0), 0);
	assert_false(port_reads_next(reads, &of, &result));
	assert_null(of);
	assert_int_equal(write(fds[1], said, 5), 5);
	assert_int_equal(end_of(reads, &read), 5);
	assert_came(0, 5);
	assert_int_equal(port_wait(port_reads_event(reads), PORT_INPUT, 0), 0);
	begin(reads, &read);
	port_reads_end(reads); /* does not wait for it */
	close(fds[0]);
	close(fds[1]);
	(void)state;
}

/* Each has its own bytes and number, and all that fit are begun by one call. */
static void reads_as_many_as_there_is_room_each_ends_once(void **state)
{
	struct port_reads *reads = make_reads();
	struct port_piece pieces[READS_MOST];
	struct port_read read = { .fd = fileno(file), .nr_pieces = 1 };
	unsigned int nr_ended[READS_MOST] = { 0 };
	void *of;
	int result;

	memset(got, 0xee, sizeof(got));
	for (size_t i = 0; i < READS_MOST; i++) {
		pieces[i] = (struct port_piece){ got + i * 64, 64 };
		read.pieces = &pieces[i];
		read.offset = 1000 * i;
		read.of = &pieces[i];
		assert_true(port_reads_add(reads, &read));
	}
	assert_false(port_reads_add(reads, &read));
	port_reads_wait(reads, 1); /* nothing has begun */
	port_reads_send(reads);
	for (unsigned int i = 0; i < READS_MOST;) {
		if (!port_reads_next(reads, &of, &result)) {
			port_reads_wait(reads, END_WAIT_NS);
			continue;
		}
		nr_ended[(struct port_piece *)of - pieces]++;
		assert_int_equal(result, 64);
		i++;
	}
	assert_false(port_reads_next(reads, &of, &result));
	for (size_t i = 0; i < READS_MOST; i++) {
		assert_int_equal(nr_ended[i], 1);
		assert_memory_equal(got + i * 64, said + 1000 * i, 64);
	}
	port_reads_end(reads);
	(void)state;
}

static void cached_bytes_that_are_dropped_are_gone(void **state)
{
	struct statfs system;
	int fd = fileno(file);

	assert_false(port_is_cached(-1, 0, 1));
	assert_int_equal(fdatasync(fd), 0);
	if (!port_is_cached(fd, 0, FILE_BYTES))
		skip(); /* before Linux 6.5 */
	assert_true(port_is_cached(fd, 5 * PIECE_BYTES, 100));
	assert_false(port_is_cached(fd, 0, FILE_BYTES + PIECE_BYTES));
	assert_int_equal(fstatfs(fd, &system), 0);
	if (system.f_type == TMPFS || system.f_type == RAMFS)
		skip(); /* there the page cache is all there is */
	port_drop_cached(fd, 0, 0);
	assert_false(port_is_cached(fd, 0, FILE_BYTES));
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_pieces_to_the_end_is_short),
		cmocka_unit_test(read_under_way_ends_with_its_bytes),
		cmocka_unit_test(read_of_no_descriptor_ends_as_ebadf),
		cmocka_unit_test(read_without_an_answer_is_under_way),
		cmocka_unit_test(reads_as_many_as_there_is_room_each_ends_once),
		cmocka_unit_test(cached_bytes_that_are_dropped_are_gone),
	};

	alarm(TEST_SECONDS);
	return cmocka_run_group_tests(tests, make, NULL);
}
