/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the service does by itself: how long it stays, what it tells its user, and what it
 * keeps. tests/outside/ has the cases that need mounts and namespaces.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/cache/arena.h"
#include "lib/look.h"
#include "lib/wire.h"
#include "tests/support/cache_fixture.h"

#define BLOCK LODIC_BLOCK_BYTES
#define TEST_SECONDS 120
#define LOG_LINES 32

/* What a service has said; its parent reads it. */
struct log {
	u64 nr;
	char lines[LOG_LINES][256];
};

static void log_take(void *arg, enum service_level level, const char *event,
                     const char *line)
{
	struct log *log = arg;
	u64 nr = host_load_relaxed(&log->nr);

	(void)level;
	(void)event;
	snprintf(log->lines[nr % LOG_LINES], sizeof(*log->lines), "%s", line);
	host_store_release(&log->nr, nr + 1);
}

/* How many lines have both words. */
static u32 log_count(const struct log *log, const char *word, const char *other)
{
	u64 nr = host_load_acquire(&log->nr);
	u32 found = 0;

	for (u64 i = 0; i < nr && i < LOG_LINES; i++)
		found += strstr(log->lines[i], word) && strstr(log->lines[i], other);
	return found;
}

static void note_time(void *arg)
{
	*(u64 *)arg = host_now_ns();
}

/* A large cache takes long to make, and no client can come meanwhile. */
static void idle_exit_counts_from_ready(void **state)
{
	const u64 idle_ms = 50;
	struct service_options options = { .sizes.cache_bytes = (u64)64 << 20,
		                           .place.idle_exit_ms = idle_ms };
	char path[FIXTURE_PATH_BYTES];
	u64 ready_ns = 0;

	fixture_path(path, "idle");
	options.place.socket = path;
	assert_int_equal(service_run(&options, note_time, &ready_ns, NULL), 0);
	assert_true(host_now_ns() - ready_ns >= idle_ms * 1000000);
	(void)state;
}

static bool sigterm_is_blocked(void)
{
	sigset_t blocked;

	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	return sigismember(&blocked, SIGTERM);
}

static void log_take_blocked(void *arg, enum service_level level, const char *event,
                             const char *line)
{
	if (sigterm_is_blocked())
		log_take(arg, level, event, line);
}

/* What is said about tiers is said before the loop. A signal that comes then ends the service in
 * order, a little later. */
static void start_tells_of_tiers_and_no_signal_ends_it(void **state)
{
	struct service_options options = { .sizes.cache_bytes = (u64)8 << 20,
		                           .events.say = log_take_blocked,
		                           .place.idle_exit_ms = 1 };
	char path[FIXTURE_PATH_BYTES];
	struct log log = { 0 };

	(void)state;
	fixture_path(path, "tiers");
	options.place.socket = path;
	options.events.say_arg = &log;
	assert_int_equal(service_run(&options, NULL, NULL, NULL), 0);
	assert_int_equal(log_count(&log, "two tiers", ""), 0);
	options.sizes.fast_bytes = (u64)2 << 20;
	assert_int_equal(service_run(&options, NULL, NULL, NULL), 0);
	assert_int_equal(log_count(&log, "two tiers: 2 MiB fast", "6 MiB slow"), 1);
	assert_false(sigterm_is_blocked());
}

/* One line for each file and reason, with the path, however often a client asks. */
/* A killed service has its lock for some time after its socket is dead. */
static void lock_that_falls_soon_is_waited_for(void **state)
{
	char path[FIXTURE_PATH_BYTES + 8];
	struct test_service service;
	int lock, held[2];
	char byte = 0;
	pid_t holder;

	(void)state;
	test_service_init(&service, "ending");
	snprintf(path, sizeof(path), "%s.lock", service.socket);
	assert_int_equal(pipe(held), 0);
	holder = fixture_fork();
	if (holder == 0) {
		lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		REQUIRE(lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0, "no lock");
		REQUIRE(write(held[1], &byte, 1) == 1, "nobody listens");
		fixture_pause_us(50000);
		_exit(0);
	}
	assert_int_equal(read(held[0], &byte, 1), 1);
	assert_int_equal(test_service_start(&service), 0);
	assert_int_equal(fixture_wait(holder), 0);
	test_service_stop(&service);
	close(held[0]);
	close(held[1]);
}

static void refusals_are_told_once_with_their_reasons(void **state)
{
	struct log *log = fixture_shared(sizeof(*log));
	char path[FIXTURE_PATH_BYTES];
	struct lodic_file *file;
	struct test_bed b;
	int fd, writer;

	test_bed_init(&b, LODIC_LODIC);
	b.service.options.events.say = log_take;
	b.service.options.events.say_arg = log;
	test_bed_make(&b, BLOCK);
	pattern_file_make(path, "busy", 2, 1, BLOCK);
	fd = fixture_open(path, O_RDONLY);
	for (u32 i = 0; i < 3; i++) {
		writer = fixture_open(path, O_WRONLY);
		assert_int_equal(lodic_open(b.lodic, fd, &file), 0);
		assert_int_equal(lodic_file_cached(file), -ETXTBSY);
		lodic_close(file);
		close(writer);
		assert_int_equal(lodic_open(b.lodic, fd, &file), 0);
		assert_int_equal(lodic_file_cached(file), 0);
		lodic_close(file);
	}
	close(fixture_open(path, O_WRONLY)); /* after the last open: a revocation */
	assert_true(WAIT_UNTIL(log_count(log, path, "has opened it for writing") > 0));
	assert_int_equal(log_count(log, path, "has it open for writing"), 1);
	assert_int_equal(log_count(log, path, "has opened it for writing"), 1);
	pattern_file_make(path, "empty", 3, 1, 0);
	close(fd);
	fd = fixture_open(path, O_RDONLY);
	assert_int_equal(lodic_open(b.lodic, fd, &file), 0);
	assert_int_equal(log_count(log, path, "it is empty"), 1);
	lodic_close(file);
	close(fd);
	test_bed_free(&b);
	(void)state;
}

/* Asks as liblodic does, and returns the descriptor in the answer. */
static int raw_ask(int socket, u32 op, u64 a, struct wire_reply *ret_reply)
{
	struct wire_request request = { .version = WIRE_VERSION, .op = op, .a = a };
	int fds[WIRE_MAX_FDS];
	u32 nr;

	assert_int_equal(wire_send(socket, &request, sizeof(request), NULL, 0), 0);
	assert_true(WAIT_UNTIL(
		wire_receive(socket, ret_reply, sizeof(*ret_reply), fds, &nr) == 0));
	assert_int_equal(ret_reply->error, 0);
	while (nr > 1)
		close(fds[--nr]);
	return fds[0];
}

/* They leave what may be pinned to those that pin. */
static void contexts_that_only_read_take_no_quota(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct wire_reply reply;
	struct test_bed b;
	int socket_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	strcpy(address.sun_path, b.service.socket);
	assert_int_equal(
		connect(socket_fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(raw_ask(socket_fd, WIRE_HELLO, 0, &reply));
	for (int i = 0; i < 200; i++) {
		close(raw_ask(socket_fd, WIRE_CONTEXT_OPEN, 1, &reply));
		assert_int_equal(reply.context.quota, 0);
	}
	close(raw_ask(socket_fd, WIRE_CONTEXT_OPEN, 0, &reply));
	assert_true(reply.context.quota > 0);
	close(socket_fd);
	test_bed_free(&b);
	(void)state;
}

/* A reader that got no quota names all frames in its slots. */
static void context_without_quota_cannot_hold_the_cache(void **state)
{
	enum { NR_BLOCKS = 48 };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct context_table table;
	struct wire_reply reply;
	struct lodic_stat stat;
	struct test_bed b;
	int socket_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), fd;
	void *memory;

	test_bed_init(&b, LODIC_HAZARD);
	b.service.options.sizes.cache_bytes = (u64)NR_BLOCKS * BLOCK;
	test_bed_make(&b,
	              (u64)2 * NR_BLOCKS * BLOCK); /* the bed's context has the quota */
	strcpy(address.sun_path, b.service.socket);
	assert_int_equal(
		connect(socket_fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(raw_ask(socket_fd, WIRE_HELLO, 0, &reply));
	fd = raw_ask(socket_fd, WIRE_CONTEXT_OPEN, 0, &reply);
	assert_int_equal(reply.context.quota, 0);
	memory = mmap(NULL, reply.context.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
	              0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	arena_context_table(&table, memory);
	for (u32 i = 0; i < ARENA_HAZARD_SLOTS; i++)
		host_store_release(&table.entries[i], i + 1);
	for (u32 i = 0; i < 2; i++)
		assert_int_equal(lodic_prefetch(b.context, b.file,
		                                i * NR_BLOCKS * BLOCK,
		                                NR_BLOCKS * BLOCK, LODIC_WAIT),
		                 0);
	stat = test_service_stat(b.lodic);
	assert_int_equal(stat.pinned, 0);
	assert_true(stat.evicted > 0);
	munmap(memory, reply.context.bytes);
	close(fd);
	close(socket_fd);
	test_bed_free(&b);
	(void)state;
}

/* One that comes later names it. */
static void lock_says_whose_it_is(void **state)
{
	char path[FIXTURE_PATH_BYTES + 8], holder[32], pid[32];
	struct test_service service;
	ssize_t n;
	int fd;

	(void)state;
	test_service_init(&service, "signed");
	assert_int_equal(test_service_start(&service), 0);
	snprintf(path, sizeof(path), "%s.lock", service.socket);
	fd = fixture_open(path, O_RDONLY);
	n = read(fd, holder, sizeof(holder) - 1);
	assert_true(n > 0);
	holder[n] = '\0';
	snprintf(pid, sizeof(pid), "%d\n", (int)service.pid);
	assert_string_equal(holder, pid);
	close(fd);
	assert_int_equal(test_service_stop(&service), 0);
}

static bool nobody_may_bind;

int __real_port_bind(int socket, const char *path);
int __wrap_port_bind(int socket, const char *path);

int __wrap_port_bind(int socket, const char *path)
{
	return nobody_may_bind ? -EACCES : __real_port_bind(socket, path);
}

static void socket_that_cannot_be_made_is_named(void **state)
{
	struct service_options options = { .sizes.cache_bytes = 1 << 20 };
	char path[FIXTURE_PATH_BYTES];
	const char *why = NULL;

	(void)state;
	fixture_path(path, "refused");
	options.place.socket = path;
	nobody_may_bind = true;
	assert_int_equal(service_run(&options, NULL, NULL, &why), -EACCES);
	nobody_may_bind = false;
	assert_non_null(why);
	assert_non_null(strstr(why, path));
	assert_non_null(strstr(why, "cannot be made"));
}

/* Of all contexts together, as `lodic who` is told it. */
static int context_add(void *ctx, const void *record)
{
	const struct look_context *c = record;
	u64 *pinned = ctx;

	*pinned = c->pinned == LOOK_UNKNOWN ? LOOK_UNKNOWN : *pinned + c->pinned;
	return 0;
}

static void pins_by_two_contexts_all_counted(void **state)
{
	(void)state;
	for (enum lodic_scheme scheme = LODIC_LODIC; scheme <= LODIC_HAZARD; scheme++) {
		bool told = scheme == LODIC_LODIC || scheme == LODIC_HAZARD;
		struct lodic_context *other;
		struct lodic_pin pins[2];
		struct lodic_stat stat;
		u64 pinned = 0;
		struct look *look;
		struct test_bed b;
		int pid;

		test_bed_init(&b, scheme);
		test_bed_make(&b, 2 * BLOCK);
		test_bed_fill(&b);
		assert_int_equal(lodic_context_open(b.lodic, &other), 0);
		assert_int_equal(lodic_pin(b.context, b.file, 0, &pins[0]), 0);
		assert_int_equal(lodic_pin(other, b.file, BLOCK, &pins[1]), 0);
		stat = test_service_stat(b.lodic);
		assert_int_equal(stat.pinned, 2);
		assert_in_range(stat.uptime_ns, 1, host_now_ns());
		assert_int_equal(look_open(b.service.socket, &look, &pid), 0);
		assert_int_equal(look_list(look, LOOK_CONTEXTS, context_add, &pinned), 0);
		assert_int_equal(pinned, told ? 2 : LOOK_UNKNOWN);
		look_close(look);
		lodic_unpin(b.context, &pins[0]);
		lodic_unpin(other, &pins[1]);
		lodic_context_close(other);
		test_bed_free(&b);
	}
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
		TEST(idle_exit_counts_from_ready),
		TEST(start_tells_of_tiers_and_no_signal_ends_it),
		TEST(lock_that_falls_soon_is_waited_for),
		TEST(refusals_are_told_once_with_their_reasons),
		TEST(context_without_quota_cannot_hold_the_cache),
		TEST(contexts_that_only_read_take_no_quota),
		TEST(lock_says_whose_it_is),
		TEST(socket_that_cannot_be_made_is_named),
		TEST(pins_by_two_contexts_all_counted),
	};

	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("service", tests, NULL, NULL);
}
