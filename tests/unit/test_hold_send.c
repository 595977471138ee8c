/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a socket or a pipe still has of a hold that is released. A TCP connection whose receiver
 * does not read has bytes by MSG_ZEROCOPY, and a pipe has them by vmsplice(2). The hold ends,
 * others take its place, and the machine's memory is used for other things. What then arrives
 * must be the hold's. The first two tests show that the method sees a change. They send from
 * memory of the program's own, and write there again, as the service does in a pin's frame.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/held.h"

#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#endif
#ifndef MSG_ZEROCOPY
#define MSG_ZEROCOPY 0x4000000
#endif

#define TEST_SECONDS 120
#define MIB ((u64)1 << 20)
#define FILE_BYTES (2 * MIB)
#define SENT_BYTES (MIB / 2)
#define WINDOW_BYTES (32 << 10) /* less makes TCP slow */
#define NR_OTHERS 16u
#define PRESSURE_BYTES (32 * MIB)

/* From ends[1] to ends[0]. */
struct way {
	const char *name;
	void (*open)(int ends[2]);
	/* Puts bytes in, as many as fit; returns how many. */
	u64 (*send)(int fd, const void *from, u64 n);
};

static void tcp_set(int fd, int level, int option, int value)
{
	setsockopt(fd, level, option, &value, sizeof(value));
}

/* The receiver's window is small, and the sender's queue is large. */
static void tcp_open(int ends[2])
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t bytes = sizeof(address);
	int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	tcp_set(listening, SOL_SOCKET, SO_RCVBUF, WINDOW_BYTES);
	assert_int_equal(bind(listening, (struct sockaddr *)&address, bytes), 0);
	assert_int_equal(listen(listening, 1), 0);
	assert_int_equal(getsockname(listening, (struct sockaddr *)&address, &bytes),
	                 0);
	ends[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(ends[1], (struct sockaddr *)&address, bytes), 0);
	ends[0] = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	assert_true(ends[0] >= 0);
	close(listening);
	tcp_set(ends[1], SOL_SOCKET, SO_SNDBUF, (int)(4 * SENT_BYTES));
	tcp_set(ends[1], SOL_SOCKET, SO_SNDBUFFORCE, (int)(4 * SENT_BYTES));
	tcp_set(ends[1], SOL_SOCKET, SO_ZEROCOPY, 1);
}

static u64 tcp_send(int fd, const void *from, u64 n)
{
	u64 done = 0;
	ssize_t got;

	while (done < n && (got = send(fd, (const u8 *)from + done, n - done,
	                               MSG_ZEROCOPY | MSG_DONTWAIT)) > 0)
		done += (u64)got;
	return done;
}

static void pipe_open(int ends[2])
{
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_true(fcntl(ends[1], F_SETPIPE_SZ, (int)MIB) >= (int)MIB);
}

static u64 pipe_send(int fd, const void *from, u64 n)
{
	struct iovec piece = { (void *)(uintptr_t)from, n };
	ssize_t got = vmsplice(fd, &piece, 1, SPLICE_F_NONBLOCK);

	return got > 0 ? (u64)got : 0;
}

static const struct way tcp = { "MSG_ZEROCOPY", tcp_open, tcp_send };
static const struct way by_pipe = { "vmsplice", pipe_open, pipe_send };

/* Takes n bytes out. Are they those of file 1? */
static bool arrives_right(int fd, u64 offset, u64 n)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	u8 *bytes = malloc(n);
	u64 done = 0;
	ssize_t got;
	bool right;

	while (done < n) {
		assert_int_equal(poll(&wait, 1, FIXTURE_DEADLINE_MS), 1);
		got = read(fd, bytes + done, n - done);
		assert_true(got > 0);
		done += (u64)got;
	}
	right = pattern_holds(bytes, 1, 1, offset, n);
	free(bytes);
	return right;
}

/* The control: the same with memory that is used again. */
static void assert_method_sees_change(const struct way *way)
{
	u8 *own = mmap(NULL, SENT_BYTES, PROT_READ | PROT_WRITE,
	               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int ends[2];
	u64 n;

	assert_ptr_not_equal(own, MAP_FAILED);
	pattern_fill(own, 1, 1, 0, SENT_BYTES);
	way->open(ends);
	n = way->send(ends[1], own, SENT_BYTES);
	assert_in_range(n, SENT_BYTES / 4, SENT_BYTES);
	pattern_fill(own, 2, 1, 0, SENT_BYTES);
	if (arrives_right(ends[0], 0, n)) {
		print_message("the kernel copies at once what %s gives it\n",
		              way->name);
		skip();
	}
	close(ends[0]);
	close(ends[1]);
	munmap(own, SENT_BYTES);
}

static void method_sees_change_by_msg_zerocopy(void **state)
{
	assert_method_sees_change(&tcp);
	(void)state;
}

static void method_sees_change_by_vmsplice(void **state)
{
	assert_method_sees_change(&by_pipe);
	(void)state;
}

/* The kernel uses whatever pages are free now. */
static void use_memory(void)
{
	u8 *p = mmap(NULL, PRESSURE_BYTES, PROT_READ | PROT_WRITE,
	             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	memset(p, 0xa5, PRESSURE_BYTES);
	munmap(p, PRESSURE_BYTES);
}

static struct lodic_file *open_other(struct test_bed *b)
{
	char path[FIXTURE_PATH_BYTES];
	struct lodic_file *file;
	int fd;

	pattern_file_make(path, "other", 2, 1, FILE_BYTES);
	fd = fixture_open(path, O_RDONLY);
	assert_int_equal(lodic_open(b->lodic, fd, &file), 0);
	close(fd);
	return file;
}

/* Sends from a hold of bytes bytes, and releases it. Others then need its memory. */
static void send_and_release(const struct way *way, u64 bytes)
{
	struct lodic_hold *h, *others[NR_OTHERS];
	u32 nr_others = bytes < MIB ? NR_OTHERS : 1;
	struct lodic_file *other;
	struct test_bed b;
	int ends[2];
	u64 n;

	test_bed_init(&b, LODIC_LODIC);
	b.service.options.sizes.hold_bytes = FILE_BYTES; /* one at a time, if large */
	test_bed_make(&b, FILE_BYTES);
	other = open_other(&b);
	way->open(ends);
	h = held_range(&b, 0, bytes);
	n = way->send(ends[1], lodic_hold_data(h), SENT_BYTES);
	assert_in_range(n, SENT_BYTES / 4, SENT_BYTES);
	lodic_release(h);
	for (u32 i = 0; i < nr_others; i++)
		assert_int_equal(lodic_hold(b.lodic, other, 0, bytes, LODIC_WAIT,
		                            &others[i]),
		                 0);
	use_memory();
	assert_true(held_has(others[0], 2, 1, 0, bytes));
	assert_true(arrives_right(ends[0], 0, n));
	for (u32 i = 0; i < nr_others; i++)
		lodic_release(others[i]);
	close(ends[0]);
	close(ends[1]);
	lodic_close(other);
	test_bed_free(&b);
}

static void small_hold_released_while_tcp_sends(void **state)
{
	send_and_release(&tcp, SENT_BYTES);
	(void)state;
}

static void large_hold_released_while_tcp_sends(void **state)
{
	send_and_release(&tcp, FILE_BYTES);
	(void)state;
}

static void small_hold_released_while_pipe_has_it(void **state)
{
	send_and_release(&by_pipe, SENT_BYTES);
	(void)state;
}

static void large_hold_released_while_pipe_has_it(void **state)
{
	send_and_release(&by_pipe, FILE_BYTES);
	(void)state;
}

static int guard_set(void **state)
{
	(void)state;
	alarm(TEST_SECONDS);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, guard_set)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(method_sees_change_by_msg_zerocopy),
		TEST(method_sees_change_by_vmsplice),
		TEST(small_hold_released_while_tcp_sends),
		TEST(large_hold_released_while_tcp_sends),
		TEST(small_hold_released_while_pipe_has_it),
		TEST(large_hold_released_while_pipe_has_it),
	};

	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("hold_send", tests, NULL, NULL);
}
