/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A process and its service lose each other, or cannot have what they ask for. The process
 * comes back to the cache by itself, leaks nothing, and says what is wrong meanwhile. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/cache_fixture.h"

#define BLOCK LODIC_BLOCK_BYTES
#define TEST_SECONDS 120
/* A request may take 2 s, and the machine may be slow. */
#define MOST_REQUEST_NS ((u64)10000000000)

static int make_second(void)
{
	char path[FIXTURE_PATH_BYTES];

	pattern_file_make(path, "second", 2, 1, BLOCK);
	return fixture_open(path, O_RDONLY);
}

static struct lodic_file *open_second(struct test_bed *b)
{
	struct lodic_file *file;
	int fd = make_second();

	assert_int_equal(lodic_open(b->lodic, fd, &file), 0);
	close(fd);
	return file;
}

/* Reads the second file until it comes from the cache. */
static bool reads_hit(struct lodic_context *context, struct lodic_file *file)
{
	u64 hits = test_context_stat(context).hits;
	u8 buffer[BLOCK];

	assert_int_equal(lodic_read(context, file, buffer, BLOCK, 0), BLOCK);
	assert_true(pattern_holds(buffer, 2, 1, 0, BLOCK));
	return test_context_stat(context).hits > hits;
}

/* A request times out; what the process has already stays, and what it asks for afterwards
 * it gets. */
static void request_timed_out_connects_anew_keeps_seats(void **state)
{
	struct lodic_context *context;
	struct lodic_file *second;
	struct lodic_stat stat;
	struct lodic_pin pin;
	struct test_bed b;
	u8 byte;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, (u64)4 * BLOCK);
	assert_int_equal(lodic_prefetch(b.context, b.file, 0, 0, LODIC_WAIT), 0);
	assert_int_equal(lodic_pin(b.context, b.file, 0, &pin), 0);
	test_service_freeze(&b.service);
	second = open_second(&b);
	assert_int_equal(lodic_file_cached(second), -ETIMEDOUT);
	assert_int_equal(lodic_read(b.context, b.file, &byte, 1, BLOCK), 1);
	assert_int_equal(lodic_file_cached(b.file), 0);
	kill(b.service.pid, SIGCONT);

	assert_true(WAIT_UNTIL(lodic_stat(b.lodic, &stat, sizeof(stat)) == 0));
	assert_true(WAIT_UNTIL(reads_hit(b.context, second)));
	assert_int_equal(lodic_file_cached(second), 0);
	assert_int_equal(lodic_context_open(b.lodic, &context), 0);
	assert_true(WAIT_UNTIL(reads_hit(context, second)));
	assert_int_equal(test_service_stat(b.lodic).contexts, 2);
	assert_int_equal(test_service_stat(b.lodic).pinned, 1);
	assert_true(pattern_holds(pin.data, 1, 1, 0, BLOCK));
	lodic_unpin(b.context, &pin);
	assert_int_equal(test_service_stat(b.lodic).pinned, 0);
	lodic_context_close(context);
	lodic_close(second);
	test_bed_free(&b);
	(void)state;
}

static u32 nr_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	u32 n = 0;

	assert_non_null(folder);
	while (readdir(folder))
		n++;
	closedir(folder);
	return n;
}

/* A thread that prefetches with LODIC_WAIT, in a context that main has opened for it. */
struct waiter {
	struct test_bed *b;
	struct lodic_context *context;
	u64 thread_id;
	int result;
};

static void *wait_for_prefetch(void *arg)
{
	struct waiter *w = arg;

	host_store_release(&w->thread_id, (u64)syscall(SYS_gettid));
	w->result = lodic_prefetch(w->context, w->b->file, 0, 0, LODIC_WAIT);
	return NULL;
}

static bool thread_sleeps(u64 thread_id)
{
	char path[64], text[256] = "";
	FILE *file;
	size_t n;

	if (!thread_id)
		return false;
	snprintf(path, sizeof(path), "/proc/self/task/%llu/stat",
	         (unsigned long long)thread_id);
	file = fopen(path, "r");
	if (!file)
		return false;
	n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	return n > 0 && strstr(text, ") S ");
}

/* Stops the service, and starts a thread that waits for it. */
static pthread_t waiter_start(struct waiter *w, struct test_bed *b)
{
	pthread_t thread;

	test_bed_init(b, LODIC_LODIC);
	test_bed_make(b, (u64)4 * BLOCK);
	w->b = b;
	assert_int_equal(lodic_context_open(b->lodic, &w->context), 0);
	test_service_freeze(&b->service);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_prefetch, w), 0);
	assert_true(WAIT_UNTIL(thread_sleeps(host_load_acquire(&w->thread_id))));
	return thread;
}

/* Other threads' requests time out after 2 s, as if nobody waited. */
static void prefetch_waits_other_threads_do_not(void **state)
{
	struct waiter w = { 0 };
	struct test_bed b;
	pthread_t thread = waiter_start(&w, &b);
	struct lodic_stat stat;
	u64 start = host_now_ns();

	lodic_close(open_second(&b));
	assert_true(host_now_ns() - start < MOST_REQUEST_NS);
	kill(b.service.pid, SIGCONT);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(w.result, 0);
	assert_true(WAIT_UNTIL(lodic_stat(b.lodic, &stat, sizeof(stat)) == 0));
	assert_int_equal(stat.cached, 4);
	lodic_context_close(w.context);
	test_bed_free(&b);
	(void)state;
}

static void prefetch_waits_service_dies_econnreset(void **state)
{
	struct waiter w = { 0 };
	struct test_bed b;
	pthread_t thread = waiter_start(&w, &b);

	test_service_kill(&b.service);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(w.result, -ECONNRESET);
	lodic_context_close(w.context);
	test_bed_free(&b);
	(void)state;
}

/* A context makes a connection for its first wait. It keeps it until it closes, or another
 * service has taken over. */
static void prefetch_waits_again_same_connection(void **state)
{
	struct lodic_context *context;
	struct test_bed b;
	u32 before;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, (u64)4 * BLOCK);
	assert_int_equal(lodic_context_open(b.lodic, &context), 0);
	before = nr_descriptors();
	for (u32 i = 0; i < 8; i++)
		assert_int_equal(lodic_prefetch(context, b.file, 0, 0, LODIC_WAIT), 0);
	assert_int_equal(nr_descriptors(), before + 1);
	assert_int_equal(test_service_stat(b.lodic).cached, 4);
	test_service_kill(&b.service);
	assert_int_equal(test_service_start(&b.service), 0);
	assert_true(WAIT_UNTIL(lodic_prefetch(context, b.file, 0, 0, LODIC_WAIT) == 0 &&
	                       test_service_stat(b.lodic).cached == 4));
	before = nr_descriptors();
	lodic_context_close(context);
	assert_int_equal(nr_descriptors(), before - 1);
	test_bed_free(&b);
	(void)state;
}

/* A thread is cancelled in its wait. The next wait in that context is answered for itself. */
static void prefetch_cancelled_in_wait_next_wait_is_its_own(void **state)
{
	struct waiter w = { 0 };
	struct test_bed b;
	pthread_t thread;
	void *result;

#ifdef __SANITIZE_ADDRESS__
	skip(); /* it takes what the cancelled functions leave on the stack for theirs */
#endif
	thread = waiter_start(&w, &b);
	assert_int_equal(pthread_cancel(thread), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	kill(b.service.pid, SIGCONT);
	assert_int_equal(lodic_prefetch(w.context, b.file, 0, 0, LODIC_WAIT), 0);
	assert_int_equal(test_service_stat(b.lodic).cached, 4);
	lodic_context_close(w.context);
	test_bed_free(&b);
	(void)state;
}

struct cancelled {
	struct lodic *lodic;
	int fd;
};

/* The thread's end is due before the call, so the first place where the call could end it
 * would. */
static void *open_cancelled(void *arg)
{
	struct cancelled *c = arg;
	struct lodic_file *file;

	pthread_cancel(pthread_self());
	if (lodic_open(c->lodic, c->fd, &file) == 0)
		lodic_close(file);
	pthread_testcancel();
	return NULL;
}

/* A thread is cancelled, and must wait for a stopped service first. Others can go on. */
static void open_cancelled_in_request_no_lock_left(void **state)
{
	struct cancelled c;
	struct test_bed b;
	pthread_t thread;
	void *result;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	c = (struct cancelled){ b.lodic, make_second() };
	test_service_freeze(&b.service);
	assert_int_equal(pthread_create(&thread, NULL, open_cancelled, &c), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	kill(b.service.pid, SIGCONT);
	close(c.fd);
	lodic_close(open_second(&b));
	test_bed_free(&b);
	(void)state;
}

/* From now on this process cannot map shared memory. */
static void forbid_shared_mappings(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
		         offsetof(struct seccomp_data, args[3])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MAP_SHARED, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };

	REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "%s", strerror(errno));
	REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "%s",
	        strerror(errno));
}

/* Opens contexts that it cannot map, in a process of its own. */
static void open_contexts_in_vain(const struct test_bed *b)
{
	struct lodic_context *context = NULL;
	struct lodic *lodic;

	REQUIRE(test_service_attach(&b->service, &lodic) == 0, "not attached");
	REQUIRE(lodic_context_open(lodic, &context) == 0, "not opened");
	forbid_shared_mappings();
	for (u32 i = 0; i < 20; i++) {
		struct lodic_context *other;
		int err = lodic_context_open(lodic, &other);

		REQUIRE(err == -ENOMEM, "%d", err);
	}
	REQUIRE(test_service_stat(lodic).contexts == 2, "they leak");
	lodic_context_close(context);
	lodic_detach(lodic);
}

static void context_open_not_mapped_enomem_none_leaks(void **state)
{
	struct lodic_context *other;
	struct test_bed b;
	pid_t pid;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	pid = fixture_fork();
	if (pid == 0) {
		open_contexts_in_vain(&b);
		_exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
	assert_int_equal(lodic_context_open(b.lodic, &other), 0);
	lodic_context_close(other);
	test_bed_free(&b);
	(void)state;
}

/* While a process has no descriptor left it gets no context. Later it does. */
static void open_without_descriptors(const struct test_bed *b)
{
	struct rlimit old, none;
	struct lodic_context *context;
	struct lodic *lodic;

	REQUIRE(test_service_attach(&b->service, &lodic) == 0, "not attached");
	REQUIRE(getrlimit(RLIMIT_NOFILE, &old) == 0, "%s", strerror(errno));
	none = old;
	none.rlim_cur = 0;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0, "%s", strerror(errno));
	for (u32 i = 0; i < 20; i++) {
		int err = lodic_context_open(lodic, &context);

		REQUIRE(err == -EMFILE, "%d", err);
	}
	REQUIRE(setrlimit(RLIMIT_NOFILE, &old) == 0, "%s", strerror(errno));
	REQUIRE(test_service_stat(lodic).contexts == 1, "they leak");
	REQUIRE(lodic_context_open(lodic, &context) == 0, "not opened");
	REQUIRE(test_service_stat(lodic).contexts == 2, "not there");
	lodic_context_close(context);
	lodic_detach(lodic);
}

static void context_open_no_descriptors_emfile_then_opens(void **state)
{
	struct test_bed b;
	pid_t pid;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	pid = fixture_fork();
	if (pid == 0) {
		open_without_descriptors(&b);
		_exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
	test_bed_free(&b);
	(void)state;
}

static void detach_first_last_close_frees(void **state)
{
	for (u32 order = 0; order < 2; order++) {
		struct test_bed b;
		u8 buffer[BLOCK];

		test_bed_init(&b, LODIC_LODIC);
		test_bed_make(&b, (u64)2 * BLOCK);
		lodic_detach(b.lodic);
		/* It still works. */
		assert_int_equal(lodic_prefetch(b.context, b.file, 0, 0, LODIC_WAIT),
		                 0);
		assert_int_equal(lodic_read(b.context, b.file, buffer, BLOCK, 0),
		                 BLOCK);
		assert_int_equal(test_context_stat(b.context).hits, 1);
		if (order == 0)
			lodic_context_close(b.context);
		lodic_close(b.file);
		if (order == 1)
			lodic_context_close(b.context);
		close(b.fd);
		assert_int_equal(test_service_stop(&b.service), 0);
		unlink(b.path);
	}
	(void)state;
}

static void *attach_and_start(void *arg)
{
	struct lodic **lodic = arg;
	char program[4096], socket[FIXTURE_PATH_BYTES];
	struct lodic_options options = { .bytes = sizeof(options),
		                         .socket = socket,
		                         .service = program,
		                         .cache_bytes = (u64)1 << 20,
		                         .idle_exit_ms = 200 };

	fixture_path(socket, "leaving");
	snprintf(program, sizeof(program), "%s/lodic", getenv("LODIC_BUILD"));
	return (void *)(intptr_t)lodic_attach(&options, lodic);
}

/* A service that is leaving listens no more, but still has the socket's lock. */
static void attach_old_service_leaves_starts_another(void **state)
{
	char lock[FIXTURE_PATH_BYTES];
	struct lodic *lodic = NULL;
	struct lodic_stat stat;
	pthread_t thread;
	struct pollfd closed = { .events = POLLIN };
	void *result;
	int fd;

	if (!getenv("LODIC_BUILD")) {
		print_message("LODIC_BUILD does not say where the program is\n");
		skip();
	}
	fixture_path(lock, "leaving.lock");
	fd = fixture_open(lock, O_RDWR | O_CREAT);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	closed.fd = inotify_init1(IN_CLOEXEC);
	assert_true(inotify_add_watch(closed.fd, lock, IN_CLOSE) >= 0);
	assert_int_equal(pthread_create(&thread, NULL, attach_and_start, &lodic), 0);
	/* The first service that the thread starts looks at the lock, and gives up. */
	assert_int_equal(poll(&closed, 1, FIXTURE_DEADLINE_MS), 1);
	close(closed.fd);
	close(fd);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_int_equal((int)(intptr_t)result, 0);
	stat = test_service_stat(lodic);
	lodic_detach(lodic);
	assert_true(WAIT_UNTIL(kill((pid_t)stat.service_pid, 0) != 0));
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
		TEST(request_timed_out_connects_anew_keeps_seats),
		TEST(prefetch_waits_other_threads_do_not),
		TEST(prefetch_waits_service_dies_econnreset),
		TEST(prefetch_waits_again_same_connection),
		TEST(prefetch_cancelled_in_wait_next_wait_is_its_own),
		TEST(open_cancelled_in_request_no_lock_left),
		TEST(context_open_not_mapped_enomem_none_leaks),
		TEST(context_open_no_descriptors_emfile_then_opens),
		TEST(detach_first_last_close_frees),
		TEST(attach_old_service_leaves_starts_another),
	};

	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("reattach", tests, NULL, NULL);
}
