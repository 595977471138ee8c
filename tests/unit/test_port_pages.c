/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Memory that others map, by the door to the system and against the real kernel: port/pages.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/host.h"
#include "lib/huge.h"
#include "lib/port/pages.h"
#include "lib/port/reads.h"
#include "lib/service/memory/pages.h"

#define TEST_SECONDS 60
#define BYTES (2 * HUGE_PAGE_BYTES)
#define LARGE_BYTES (16 * BYTES)        /* several steps of pages_fill() */
#define NOTED (3 * LARGE_BYTES)         /* as if others made memory, too */
#define CLAIM_NS UINT64_C(20000000000)  /* /proc/sys/fs/lease-break-time is 45 s */
#define FREE_NODE (PORT_MOST_NODES - 1) /* no machine of ours has it */

/* Memory of so many bytes, mapped to be written. */
static int make(uint64_t bytes, void **ret_at)
{
	int fd = port_memory_file("test");

	assert_true(fd >= 0);
	assert_int_equal(port_set_bytes(fd, bytes), 0);
	assert_int_equal(huge_map(fd, bytes, PORT_READ | PORT_WRITE, ret_at), 0);
	return fd;
}

static void set_bytes_sealed_is_eperm(void **state)
{
	struct port_memory memory;
	int fd = port_memory_file("test");

	assert_int_equal(port_set_bytes(fd, 5000), 0);
	assert_int_equal(port_memory_look(fd, &memory), 0);
	assert_int_equal(memory.bytes, 5000);
	assert_int_equal(port_seal(fd, PORT_SEAL_GROW | PORT_SEAL_SHRINK), 0);
	assert_int_equal(port_set_bytes(fd, 5001), -EPERM);
	assert_int_equal(port_set_bytes(fd, 4999), -EPERM);
	assert_int_equal(port_commit(fd, 0, 8192), -EPERM);
	assert_int_equal(port_commit(fd, 0, 5000), 0);
	port_close(fd);
	assert_int_equal(port_set_bytes(fd, 5000), -EBADF);
	assert_int_equal(port_commit(fd, 0, 5000), -EBADF);
	(void)state;
}

static void new_writers_sealed_old_mapping_writes(void **state)
{
	void *at, *other;
	int again, fd = make(4096, &at);
	char byte;

	again = port_memory_again(fd, true);
	assert_true(again >= 0);
	if (port_seal(fd, PORT_SEAL_NEW_WRITERS | PORT_SEAL_SEALS) == -EINVAL)
		skip(); /* before Linux 5.1 */
	*(char *)at = 'x';
	assert_int_equal(port_read(fd, &byte, 1, 0), 1);
	assert_int_equal(byte, 'x');
	for (unsigned int i = 0; i < 2; i++) {
		int via = i ? fd : again;

		assert_int_equal(port_write(via, "y", 1, 0), -EPERM);
		assert_int_equal(port_map(NULL, 4096, PORT_READ | PORT_WRITE,
		                          PORT_SHARED, via, 0, &other),
		                 -EPERM);
	}
	assert_int_equal(port_map(NULL, 4096, PORT_READ, PORT_SHARED, fd, 0, &other),
	                 0);
	assert_int_equal(*(char *)other, 'x');
	port_unmap(other, 4096);
	port_unmap(at, 4096);
	port_close(again);
	port_close(fd);
	(void)state;
}

static void memory_again_reads_and_writes_as_asked(void **state)
{
	unsigned int mode;
	void *at;
	int fd = make(4096, &at), again = port_memory_again(fd, false);

	assert_int_equal(port_mode(again, &mode), 0);
	assert_int_equal(mode, PORT_MAY_READ);
	assert_int_equal(port_write(again, "y", 1, 0), -EBADF);
	port_close(again);
	again = port_memory_again(fd, true);
	assert_int_equal(port_mode(again, &mode), 0);
	assert_int_equal(mode, PORT_MAY_READ | PORT_MAY_WRITE);
	assert_int_equal(port_write(again, "y", 1, 0), 1);
	assert_int_equal(*(char *)at, 'y');
	port_close(again);
	assert_int_equal(port_memory_again(again, false), -ENOENT);
	port_unmap(at, 4096);
	port_close(fd);
	(void)state;
}

static void claim_while_somebody_has_it_is_eagain(void **state)
{
	void *at, *other;
	int fd = make(4096, &at), own = port_memory_again(fd, false), reader;
	u64 began_ns;

	assert_int_equal(port_memory_claim(own), 0); /* at and fd do not count */
	began_ns = host_now_ns();
	assert_int_equal(port_memory_again(fd, true), -EWOULDBLOCK);
	assert_true(host_now_ns() - began_ns < CLAIM_NS); /* it does not wait */
	port_memory_unclaim(own);
	reader = port_memory_again(fd, false);
	assert_true(reader >= 0);
	assert_int_equal(port_memory_claim(own), -EAGAIN);
	assert_int_equal(
		port_map(NULL, 4096, PORT_READ, PORT_SHARED, reader, 0, &other), 0);
	port_close(reader);
	assert_int_equal(port_memory_claim(own), -EAGAIN);
	port_unmap(other, 4096);
	assert_int_equal(port_memory_claim(own), 0);
	port_close(own);
	own = port_memory_again(fd, false); /* nobody has to wait any more */
	assert_true(own >= 0);
	port_close(own);
	assert_int_equal(port_memory_claim(own), -EBADF);
	port_unmap(at, 4096);
	port_close(fd);
	(void)state;
}

static void populate_and_commit_bring_all_pages(void **state)
{
	void *at;
	int err, fd = make(BYTES, &at);

	assert_int_equal(port_commit(fd, 0, 4096), 0);
	if (!port_is_cached(fd, 0, 4096))
		skip(); /* this kernel cannot tell */
	assert_false(port_is_cached(fd, 0, HUGE_PAGE_BYTES));
	assert_int_equal(port_commit(fd, 0, HUGE_PAGE_BYTES), 0);
	assert_true(port_is_cached(fd, 0, HUGE_PAGE_BYTES));
	assert_false(port_is_cached(fd, 0, BYTES));
	err = port_populate((char *)at + HUGE_PAGE_BYTES, HUGE_PAGE_BYTES);
	assert_true(err == 0 || err == -EINVAL);
	assert_int_equal(port_is_cached(fd, 0, BYTES), err == 0);
	port_unmap(at, BYTES);
	assert_true(port_populate(at, BYTES) < 0);
	port_close(fd);
	(void)state;
}

static u32 nr_stops, nr_commits;

static const uint64_t *noted; /* NULL: nobody looks */

int __real_port_commit(int fd, uint64_t offset, uint64_t bytes);
int __wrap_port_commit(int fd, uint64_t offset, uint64_t bytes);

/* The process is stopped in so many calls, and goes on. */
int __wrap_port_commit(int fd, uint64_t offset, uint64_t bytes)
{
	nr_commits++;
	if (noted)
		assert_int_equal(*noted, NOTED - offset);
	if (nr_stops == 0)
		return __real_port_commit(fd, offset, bytes);
	nr_stops--;
	return -EINTR;
}

static void fill_is_stopped_and_goes_on_all_pages_come(void **state)
{
	const struct base *nobody_hears = NULL;
	struct shared_memory m = { .bytes = BYTES };

	m.fd = make(BYTES, &m.at);
	nr_stops = 3;
	assert_int_equal(pages_fill(nobody_hears, &m, false), 0);
	assert_int_equal(nr_stops, 0);
	nr_stops = UINT32_MAX;
	nr_commits = 0;
	assert_int_equal(pages_fill(nobody_hears, &m, false), -EINTR);
	assert_true(nr_commits < 1000);
	nr_stops = 0;
	port_unmap(m.at, BYTES);
	port_close(m.fd);
	(void)state;
}

/* Others look at what is noted meanwhile. What is there counts as used already. */
static void fill_goes_on_less_is_to_come(void **state)
{
	const struct base *nobody_hears = NULL;
	uint64_t to_come = NOTED;
	struct shared_memory m = { .bytes = LARGE_BYTES, .to_come = &to_come };

	m.fd = make(LARGE_BYTES, &m.at);
	noted = &to_come;
	nr_commits = 0;
	assert_int_equal(pages_fill(nobody_hears, &m, false), 0);
	assert_true(nr_commits > 1);
	assert_int_equal(to_come, NOTED - LARGE_BYTES);
	assert_int_equal(m.there, LARGE_BYTES);
	noted = NULL;
	nr_stops = UINT32_MAX;
	assert_int_equal(pages_fill(nobody_hears, &m, false), -EINTR);
	assert_int_equal(to_come, NOTED - LARGE_BYTES);
	nr_stops = 0;
	port_unmap(m.at, LARGE_BYTES);
	port_close(m.fd);
	(void)state;
}

/* Whether there are huge pages is the machine's to say, but bytes stay what they were. */
static void collapse_keeps_the_bytes(void **state)
{
	struct shared_memory memory;
	void *at;
	int err, fd = make(BYTES, &at);

	memset(at, 7, HUGE_PAGE_BYTES);
	assert_int_equal(port_advise(at, BYTES, PORT_NOT_IN_DUMP), 0);
	err = port_collapse(at, HUGE_PAGE_BYTES);
	assert_true(err == 0 || err == -EINVAL || err == -ENOMEM || err == -EBUSY ||
	            err == -EAGAIN);
	memory = (struct shared_memory){ .at = at, .bytes = BYTES };
	if (err == 0)
		assert_int_equal(pages_huge_bytes(&memory), HUGE_PAGE_BYTES);
	for (size_t i = 0; i < HUGE_PAGE_BYTES; i++)
		assert_int_equal(((char *)at)[i], 7);
	port_unmap(at, BYTES);
	assert_true(port_collapse(at, HUGE_PAGE_BYTES) < 0);
	port_close(fd);
	(void)state;
}

static void node_that_is_there_is_granted(void **state)
{
	void *at;
	int err, fd = make(BYTES, &at);

	err = port_node_prefer(at, BYTES, 0);
	if (err == -ENOSYS || err == -EPERM)
		skip();
	assert_int_equal(err, 0);
	memset(at, 7, BYTES);
	assert_int_equal(port_node_move(at, BYTES, 0), 0);
	assert_int_equal(port_node_prefer(at, BYTES, FREE_NODE), -EINVAL);
	assert_int_equal(port_node_move(at, BYTES, FREE_NODE), -EINVAL);
	for (size_t i = 0; i < BYTES; i++)
		assert_int_equal(((char *)at)[i], 7);
	port_unmap(at, BYTES);
	assert_int_equal(port_node_prefer(at, BYTES, 0), -EFAULT);
	assert_int_equal(port_node_move(at, BYTES, 0), -EFAULT);
	port_close(fd);
	(void)state;
}

static void lock_pages_unmapped_is_enomem(void **state)
{
	void *at;
	int err, fd = make(4096, &at);

	err = port_lock_pages(at, 4096);
	assert_true(err == 0 || err == -ENOMEM || err == -EPERM);
	port_unmap(at, 4096);
	err = port_lock_pages(at, 4096);
#if !defined(__SANITIZE_ADDRESS__) && \
	!defined(HOST_TSAN) /* their mlock() does nothing */
	assert_true(err == -ENOMEM || err == -EPERM);
#endif
	port_close(fd);
	(void)state;
}

/* Mostly nobody has set pages aside. */
static void reserved_pages_are_refused_when_mapped(void **state)
{
	void *at;
	int err, fd = port_memory_file_reserved("test");

	if (fd < 0) {
		assert_true(fd == -EINVAL || fd == -ENODEV || fd == -ENOSYS ||
		            fd == -ENOENT || fd == -EPERM);
		return;
	}
	assert_int_equal(port_set_bytes(fd, HUGE_PAGE_BYTES), 0);
	err = huge_map(fd, HUGE_PAGE_BYTES, PORT_READ | PORT_WRITE, &at);
	assert_true(err == 0 || err == -ENOMEM);
	if (!err)
		port_unmap(at, HUGE_PAGE_BYTES);
	port_close(fd);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(set_bytes_sealed_is_eperm),
		cmocka_unit_test(new_writers_sealed_old_mapping_writes),
		cmocka_unit_test(memory_again_reads_and_writes_as_asked),
		cmocka_unit_test(claim_while_somebody_has_it_is_eagain),
		cmocka_unit_test(populate_and_commit_bring_all_pages),
		cmocka_unit_test(fill_is_stopped_and_goes_on_all_pages_come),
		cmocka_unit_test(fill_goes_on_less_is_to_come),
		cmocka_unit_test(collapse_keeps_the_bytes),
		cmocka_unit_test(node_that_is_there_is_granted),
		cmocka_unit_test(lock_pages_unmapped_is_enomem),
		cmocka_unit_test(reserved_pages_are_refused_when_mapped),
	};

	alarm(TEST_SECONDS);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
