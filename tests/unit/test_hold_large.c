/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Large holds, with a real service: the right bytes, taken once for all programs. They stand
 * whatever becomes of the file and of the service. test_hold_wait.c has those that are not
 * ready yet, test_hold_copy.c the small ones.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/client/attach.h"
#include "lib/client/holder.h"
#include "lib/look.h"
#include "tests/support/held.h"

#define TEST_SECONDS 120
#define MIB ((u64)1 << 20)
#define FILE_BYTES (3 * MIB + 123)
#define NR_CYCLES 100u
#define NR_THREADS 4u
#define NR_TURNS 8u

static void bed_make(struct test_bed *b)
{
	test_bed_init(b, LODIC_LODIC);
	b->service.options.sizes.hold_bytes = 16 * MIB;
	test_bed_make(b, FILE_BYTES);
}

static void hold_any_range_has_its_bytes(void **state)
{
	static const u64 ranges[][2] = { { 0, FILE_BYTES },
		                         { 0, MIB },
		                         { 1, MIB },
		                         { 4095, MIB + 2 },
		                         { 4096, MIB },
		                         { 77777, 2 * MIB },
		                         { 2 * MIB, MIB + 123 },
		                         { MIB - 1, 2 * MIB + 124 } };
	const u64 n = sizeof(ranges) / sizeof(*ranges);
	struct lodic_hold *holds[sizeof(ranges) / sizeof(*ranges)];
	struct test_bed b;
	u32 descriptors, mappings;
	const u8 *data;

	bed_make(&b);
	descriptors = held_nr_descriptors();
	mappings = held_nr_mappings("lodic-hold");
	for (u64 i = 0; i < n; i++)
		holds[i] = held_range(&b, ranges[i][0], ranges[i][1]);
	assert_int_equal(held_nr_descriptors(), descriptors);
	for (u64 i = 0; i < n; i++) {
		assert_true(held_has(holds[i], 1, 1, ranges[i][0], ranges[i][1]));
		data = lodic_hold_data(holds[i]);
		assert_int_equal((uintptr_t)data % 4096, ranges[i][0] % 4096);
		assert_int_equal(lodic_hold_event(holds[i]), -1);
		/* Nobody can change it. */
		data -= (uintptr_t)data % 4096;
		assert_int_equal(mprotect((void *)(uintptr_t)data, 4096,
		                          PROT_READ | PROT_WRITE),
		                 -1);
	}
	/* Each lies inside the first. */
	assert_int_equal(test_service_stat(b.lodic).holds_read, 1);
	for (u64 i = 0; i < n; i++)
		lodic_release(holds[i]);
	assert_int_equal(held_nr_mappings("lodic-hold"), mappings);
	test_bed_free(&b);
	(void)state;
}

static void hold_range_ends_where_file_does(void **state)
{
	struct lodic_hold *h = NULL;
	struct test_bed b;

	bed_make(&b);
	h = held_range(&b, 0, 0);
	assert_true(held_has(h, 1, 1, 0, FILE_BYTES));
	lodic_release(h);
	h = held_range(&b, 5000, ~(u64)0);
	assert_true(held_has(h, 1, 1, 5000, FILE_BYTES - 5000));
	lodic_release(h);
	h = NULL;
	assert_int_equal(lodic_hold(b.lodic, b.file, FILE_BYTES, 0, LODIC_WAIT, &h),
	                 -ENODATA);
	assert_null(h);
	test_bed_free(&b);
	(void)state;
}

/* Of the mapping that has the address: what is in memory, and this process's share of it. */
static void mapping_shares(const void *at, u64 *ret_rss, u64 *ret_pss)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long from, to, kib;
	bool inside = false;
	char line[4096];

	REQUIRE(file, "no /proc");
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = (uintptr_t)at >= from && (uintptr_t)at < to;
		else if (inside && sscanf(line, "Rss: %lu", &kib) == 1)
			*ret_rss = (u64)kib << 10;
		else if (inside && sscanf(line, "Pss: %lu", &kib) == 1)
			*ret_pss = (u64)kib << 10;
	}
	fclose(file);
}

struct sharing {
	u64 held, stop; /* the child has it; it may end */
};

static _Noreturn void hold_beside(const struct test_bed *b, struct sharing *sharing)
{
	struct lodic_file *file;
	struct lodic_hold *h;
	struct lodic *lodic;

	REQUIRE(test_service_attach(&b->service, &lodic) == 0, "no cache");
	REQUIRE(lodic_open(lodic, b->fd, &file) == 0, "not opened");
	REQUIRE(lodic_hold(lodic, file, 0, 0, LODIC_WAIT, &h) == 0, "not held");
	REQUIRE(held_has(h, 1, 1, 0, FILE_BYTES), "wrong bytes");
	host_store_release(&sharing->held, 1);
	REQUIRE(WAIT_UNTIL(host_load_acquire(&sharing->stop)), "not stopped");
	lodic_release(h);
	lodic_close(file);
	lodic_detach(lodic);
	_exit(0);
}

static void hold_two_processes_memory_taken_once(void **state)
{
	struct sharing *sharing = fixture_shared(sizeof(*sharing));
	u64 rss = 0, pss = 0;
	struct lodic_hold *h;
	struct test_bed b;
	pid_t pid;

	bed_make(&b);
	h = held_range(&b, 0, 0);
	assert_true(held_has(h, 1, 1, 0, FILE_BYTES));
	pid = fixture_fork();
	if (pid == 0) {
		lodic_release(h); /* what it has from its parent */
		hold_beside(&b, sharing);
	}
	assert_true(WAIT_UNTIL(host_load_acquire(&sharing->held)));
	mapping_shares(lodic_hold_data(h), &rss, &pss);
	assert_in_range(rss, FILE_BYTES, FILE_BYTES + 4096);
	assert_in_range(pss, FILE_BYTES / 2 - 4096, FILE_BYTES / 2 + 4096);
	assert_int_equal(test_service_stat(b.lodic).holds_read, 1);
	assert_int_equal(test_service_stat(b.lodic).hold_bytes,
	                 (FILE_BYTES + 4095) / 4096 * 4096);
	host_store_release(&sharing->stop, 1);
	assert_int_equal(fixture_wait(pid), 0);
	lodic_release(h);
	munmap(sharing, sizeof(*sharing));
	test_bed_free(&b);
	(void)state;
}

static void write_version(const char *path, u64 version)
{
	u8 *bytes = malloc(FILE_BYTES);
	int fd = fixture_open(path, O_WRONLY);

	pattern_fill(bytes, 1, version, 0, FILE_BYTES);
	assert_int_equal(write(fd, bytes, FILE_BYTES), FILE_BYTES);
	close(fd);
	free(bytes);
}

static struct lodic_hold *hold_new(struct test_bed *b)
{
	struct lodic_hold *h = NULL;

	assert_true(WAIT_UNTIL(
		lodic_hold(b->lodic, b->file, 0, 2 * MIB, LODIC_WAIT, &h) == 0));
	return h;
}

/* What is held stands, and a new hold has the new bytes. */
static void held_bytes_stand_whatever_happens(void **state)
{
	struct lodic_hold *first, *second, *third;
	char path[FIXTURE_PATH_BYTES];
	struct test_bed b;

	bed_make(&b);
	first = held_range(&b, 0, 2 * MIB);
	write_version(b.path, 2);
	second = hold_new(&b);
	assert_true(held_has(second, 1, 2, 0, 2 * MIB));
	assert_int_equal(truncate(b.path, (off_t)(MIB + 5)), 0);
	third = hold_new(&b);
	assert_true(held_has(third, 1, 2, 0, MIB + 5));
	pattern_file_make(path, "other", 9, 1, 2 * MIB);
	assert_int_equal(rename(path, b.path), 0);
	assert_int_equal(unlink(b.path), 0);
	test_service_kill(&b.service);
	assert_true(held_has(first, 1, 1, 0, 2 * MIB));
	assert_true(held_has(second, 1, 2, 0, 2 * MIB));
	b.service.inherits = true;
	assert_int_equal(test_service_start(&b.service), 0);
	lodic_release(third);
	third = hold_new(&b); /* of the deleted file, by the descriptor */
	assert_true(held_has(first, 1, 1, 0, 2 * MIB));
	assert_true(held_has(second, 1, 2, 0, 2 * MIB));
	assert_true(held_has(third, 1, 2, 0, MIB + 5));
	lodic_release(first);
	lodic_release(second);
	lodic_release(third);
	test_bed_free(&b);
	(void)state;
}

static void fork_child_keeps_its_own(void **state)
{
	struct lodic_hold *a, *c, *h = NULL;
	struct test_bed b;
	pid_t pid;
	off_t at;

	bed_make(&b);
	a = held_range(&b, 7, 2 * MIB);
	c = held_range(&b, 4096, MIB);
	pid = fixture_fork();
	if (pid == 0) {
		REQUIRE(held_has(a, 1, 1, 7, 2 * MIB), "wrong in the child");
		lodic_release(a);
		REQUIRE(held_has(c, 1, 1, 4096, MIB), "wrong after a release");
		REQUIRE(lodic_hold_fd(c, &at) == -ECHILD, "a descriptor");
		REQUIRE(lodic_hold(b.lodic, b.file, 0, 0, 0, &h) == -ECHILD, "held");
		lodic_close(b.file);
		lodic_context_close(b.context);
		lodic_detach(b.lodic);
		REQUIRE(held_has(c, 1, 1, 4096, MIB), "wrong after a detach");
		lodic_release(c);
		_exit(0);
	}
	lodic_release(c);
	assert_int_equal(fixture_wait(pid), 0);
	assert_true(held_has(a, 1, 1, 7, 2 * MIB));
	lodic_release(a);
	test_bed_free(&b);
	(void)state;
}

static void hold_fd_of_service_sealed_estale_without_it(void **state)
{
	struct lodic_hold *h, *other;
	struct test_bed b;
	u32 descriptors;
	off_t at = -1;
	int fd;

	bed_make(&b);
	other = held_range(&b, 0, 0);
	h = held_range(&b, 12345, MIB + 7);
	descriptors = held_nr_descriptors();
	fd = lodic_hold_fd(h, &at);
	assert_true(fd >= 0 && held_descriptor_is_right(fd, at, 12345, MIB + 7));
	assert_int_equal(held_nr_descriptors(), descriptors + 1);
	lodic_release(other);
	test_service_kill(&b.service);
	assert_int_equal(lodic_hold_fd(h, &at), -ESTALE);
	b.service.inherits = true;
	assert_int_equal(test_service_start(&b.service), 0);
	/* The new service has one, of the same range, and would give its descriptor. */
	other = held_range(&b, 0, 0);
	assert_int_equal(lodic_hold_fd(h, &at), -ESTALE);
	lodic_release(h);
	assert_true(held_descriptor_is_right(fd, at, 12345, MIB + 7));
	close(fd);
	fd = lodic_hold_fd(other, &at);
	assert_true(fd >= 0 && held_descriptor_is_right(fd, at, 0, FILE_BYTES));
	close(fd);
	lodic_release(other);
	test_bed_free(&b);
	(void)state;
}

static void *ask_for_fd(void *hold)
{
	off_t at;

	return (void *)(intptr_t)lodic_hold_fd(hold, &at);
}

/* The service lives, and the answer is lost on the way: the second try has it. */
static void hold_fd_connection_breaks_asks_again(void **state)
{
	struct lodic_hold *h;
	pthread_t thread;
	struct test_bed b;
	void *fd;
	int socket, unread;

	bed_make(&b);
	h = held_range(&b, 0, 0);
	socket = b.lodic->channel.socket; /* the thread closes it after the shutdown */
	test_service_freeze(&b.service);
	assert_int_equal(pthread_create(&thread, NULL, ask_for_fd, h), 0);
	assert_true(WAIT_UNTIL(ioctl(socket, SIOCOUTQ, &unread) == 0 && unread > 0));
	assert_int_equal(shutdown(socket, SHUT_RDWR), 0);
	kill(b.service.pid, SIGCONT);
	assert_int_equal(pthread_join(thread, &fd), 0);
	assert_true((intptr_t)fd >= 0);
	close((int)(intptr_t)fd);
	lodic_release(h);
	test_bed_free(&b);
	(void)state;
}

static bool memory_is_strange;

int __real_port_memory_look(int fd, struct port_memory *ret);
int __wrap_port_memory_look(int fd, struct port_memory *ret);

int __wrap_port_memory_look(int fd, struct port_memory *ret)
{
	return memory_is_strange ? -EINVAL : __real_port_memory_look(fd, ret);
}

static void hold_fd_of_what_is_no_memory_eproto_and_closed(void **state)
{
	struct lodic_hold *h;
	struct test_bed b;
	u32 descriptors;
	off_t at;

	bed_make(&b);
	h = held_range(&b, 0, 0);
	descriptors = held_nr_descriptors();
	memory_is_strange = true;
	assert_int_equal(lodic_hold_fd(h, &at), -EPROTO);
	memory_is_strange = false;
	assert_int_equal(held_nr_descriptors(), descriptors);
	lodic_release(h);
	test_bed_free(&b);
	(void)state;
}

static bool resize_is_over(struct look *look, struct look_resize *now)
{
	assert_int_equal(look_resize(look, 0, now), 0);
	return now->state != LOOK_RESIZE_RUNS;
}

/* The cache has another size, and holds do not notice. */
static void resize_holds_stand_and_are_shared(void **state)
{
	struct lodic_hold *h, *again;
	struct look_resize now;
	struct look *look;
	struct test_bed b;
	off_t at = -1;
	int pid, fd;

	bed_make(&b);
	h = held_range(&b, 1, 2 * MIB);
	assert_int_equal(look_open(b.service.socket, &look, &pid), 0);
	assert_int_equal(look_resize(look, 2 * MIB, &now), 0);
	assert_true(WAIT_UNTIL(resize_is_over(look, &now)));
	assert_int_equal(now.state, LOOK_RESIZE_DONE);
	look_close(look);
	assert_true(held_has(h, 1, 1, 1, 2 * MIB));
	fd = lodic_hold_fd(h, &at);
	assert_true(fd >= 0 && held_descriptor_is_right(fd, at, 1, 2 * MIB));
	close(fd);
	again = held_range(&b, 1, 2 * MIB);
	assert_true(held_has(again, 1, 1, 1, 2 * MIB));
	assert_int_equal(test_service_stat(b.lodic).holds_read, 1);
	lodic_release(again);
	lodic_release(h);
	test_bed_free(&b);
	(void)state;
}

static void hold_limits_clear_errors_nothing_kept(void **state)
{
	struct lodic_hold *first, *h = NULL;
	char path[FIXTURE_PATH_BYTES];
	struct lodic_file *second;
	struct rlimit old, limit;
	u32 descriptors;
	struct test_bed b;
	int fd;

	test_bed_init(&b, LODIC_LODIC);
	b.service.options.sizes.hold_bytes = 4 * MIB;
	test_bed_make(&b, FILE_BYTES);
	pattern_file_make(path, "second", 2, 1, 8 * MIB);
	fd = fixture_open(path, O_RDONLY);
	assert_int_equal(lodic_open(b.lodic, fd, &second), 0);
	first = held_range(&b, 0, 0);
	descriptors = held_nr_descriptors();
	assert_int_equal(lodic_hold(b.lodic, second, 0, 0, LODIC_WAIT, &h), -EFBIG);
	assert_int_equal(lodic_hold(b.lodic, second, 0, 3 * MIB, LODIC_WAIT, &h),
	                 -ENOSPC);
	/* One that is ready: its descriptor comes with the answer, and has no place. */
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	limit = old;
	limit.rlim_cur = (rlim_t)dup(fd);
	assert_int_equal(close((int)limit.rlim_cur), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(lodic_hold(b.lodic, b.file, 0, 0, LODIC_WAIT, &h), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_null(h);
	assert_int_equal(held_nr_descriptors(), descriptors);
	lodic_release(first);
	assert_int_equal(lodic_hold(b.lodic, second, 0, 3 * MIB, LODIC_WAIT, &h), 0);
	assert_true(held_has(h, 2, 1, 0, 3 * MIB));
	lodic_release(h);
	lodic_close(second);
	close(fd);
	test_bed_free(&b);
	(void)state;
}

/* A memfd of so many bytes, with these seals; read-only or not. */
static int make_memory(u64 bytes, int seals, bool read_only)
{
	int fd = memfd_create("probe", MFD_CLOEXEC | MFD_ALLOW_SEALING), again;
	char path[32];

	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	if (!read_only)
		return fd;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = fixture_open(path, O_RDONLY);
	close(fd);
	return again;
}

static void holder_verify_answer_that_could_harm_eproto(void **state)
{
	const int seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
	struct wire_reply r = { .hold = { .number = 1, .offset = MIB, .bytes = MIB } };
	const int wrong[] = { make_memory(MIB, seals & ~F_SEAL_WRITE, true),
		              make_memory(MIB, seals & ~F_SEAL_SHRINK, true),
		              make_memory(MIB, seals & ~F_SEAL_GROW, true),
		              make_memory(MIB, seals, false),
		              make_memory(MIB - 1, seals, true),
		              open("/dev/null", O_RDONLY | O_CLOEXEC) };
	int fd = make_memory(MIB, seals, true);

	assert_int_equal(holder_verify(fd, &r, MIB, MIB), 0);
	assert_int_equal(holder_verify(fd, &r, MIB + 5, MIB - 5), 0);
	for (u64 i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_int_equal(holder_verify(wrong[i], &r, MIB, MIB), -EPROTO);
		close(wrong[i]);
	}
	assert_int_equal(holder_verify(-1, &r, MIB, MIB), -EPROTO);
	assert_int_equal(holder_verify(fd, &r, MIB - 1, 1), -EPROTO);
	assert_int_equal(holder_verify(fd, &r, MIB, MIB + 1), -EPROTO);
	assert_int_equal(holder_verify(fd, &r, MIB + 5, ~(u64)0), -EPROTO);
	assert_int_equal(holder_verify(fd, &r, 2 * MIB + 1, 1), -EPROTO);
	r.hold.offset = MIB + 1;
	assert_int_equal(holder_verify(fd, &r, MIB + 1, 1), -EPROTO);
	r.hold.offset = MIB;
	r.hold.bytes = ~(u64)0;
	assert_int_equal(holder_verify(fd, &r, MIB, MIB), -EPROTO);
	close(fd);
	(void)state;
}

static void hold_again_and_again_nothing_stays(void **state)
{
	u32 descriptors, mappings;
	struct lodic_hold *h;
	struct test_bed b;

	bed_make(&b);
	lodic_release(held_range(&b, 0, 0));
	descriptors = held_nr_descriptors();
	mappings = held_nr_mappings("lodic-hold");
	for (u32 i = 0; i < NR_CYCLES; i++) {
		h = held_range(&b, i, 2 * MIB);
		assert_true(pattern_holds(lodic_hold_data(h), 1, 1, i, 4096));
		assert_int_equal(held_nr_mappings("lodic-hold"), mappings + 1);
		lodic_release(h);
	}
	assert_int_equal(held_nr_descriptors(), descriptors);
	assert_int_equal(held_nr_mappings("lodic-hold"), mappings);
	test_bed_free(&b);
	(void)state;
}

static void *hold_in_thread(void *arg)
{
	u64 random = random_stream((u64)(uintptr_t)pthread_self());
	struct test_bed *b = arg;
	struct lodic_hold *h;
	u64 offset, n;

	for (u32 i = 0; i < NR_TURNS; i++) {
		offset = random_below(&random, 2 * MIB);
		n = MIB / 2 + random_below(&random, FILE_BYTES - offset - MIB / 2);
		h = held_range(b, offset, n);
		REQUIRE(held_has(h, 1, 1, offset, n), "wrong bytes");
		lodic_release(h);
	}
	return NULL;
}

static void hold_many_threads_at_once_right_bytes(void **state)
{
	pthread_t threads[NR_THREADS];
	struct test_bed b;

	bed_make(&b);
	for (u32 i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hold_in_thread, &b),
		                 0);
	for (u32 i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	test_bed_free(&b);
	(void)state;
}

static void *release_it(void *arg)
{
	lodic_release(arg);
	return NULL;
}

static void release_on_other_thread_after_detach(void **state)
{
	u32 descriptors = held_nr_descriptors();
	struct lodic_hold *h;
	struct test_bed b;
	pthread_t thread;

	bed_make(&b);
	h = held_range(&b, 1, 2 * MIB);
	test_bed_free(&b);
	assert_true(held_has(h, 1, 1, 1, 2 * MIB));
	assert_int_equal(pthread_create(&thread, NULL, release_it, h), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(held_nr_descriptors(), descriptors);
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
		TEST(hold_any_range_has_its_bytes),
		TEST(hold_range_ends_where_file_does),
		TEST(hold_two_processes_memory_taken_once),
		TEST(held_bytes_stand_whatever_happens),
		TEST(fork_child_keeps_its_own),
		TEST(hold_fd_of_service_sealed_estale_without_it),
		TEST(hold_fd_connection_breaks_asks_again),
		TEST(hold_fd_of_what_is_no_memory_eproto_and_closed),
		TEST(resize_holds_stand_and_are_shared),
		TEST(hold_limits_clear_errors_nothing_kept),
		TEST(holder_verify_answer_that_could_harm_eproto),
		TEST(hold_again_and_again_nothing_stays),
		TEST(hold_many_threads_at_once_right_bytes),
		TEST(release_on_other_thread_after_detach),
	};

	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("hold_large", tests, NULL, NULL);
}
