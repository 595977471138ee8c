/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Services and sockets that are not as they should be, and limits that are reached. Each
 * gives one clear error and a sentence that says what to do, and never hangs.
 * test_bad_input.c has the files.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/wire.h"
#include "tests/support/cache_fixture.h"

#define BLOCK LODIC_BLOCK_BYTES
#define TEST_SECONDS 120
#define NOBODY 65534
/* Far more than an answer takes on a loaded machine: what hangs here hangs for ever. A client that
 * waits 2 s for an answer says so by its error. */
#define SOON_MS 5000
#define LATE_MS 10000
#define MOST_CONTEXTS 1024u
#define SMALL_BLOCKS 64u

#define FOR_EACH_SCHEME(scheme) \
	for (enum lodic_scheme scheme = LODIC_LODIC; scheme <= LODIC_HAZARD; scheme++)

/* The service must not start: it gives this error, and a sentence. */
static void assert_refuses(struct test_service *service, int error)
{
	assert_int_equal(test_service_start(service), error);
	assert_true(strlen(service->why) > 10);
}

static void serve_no_memory_enomem_and_sentence(void **state)
{
	struct test_service service;

	test_service_init(&service, "big");
	service.options.sizes.cache_bytes = (u64)1 << 42; /* 4 TiB */
	assert_refuses(&service, -ENOMEM);
	service.options.sizes.cache_bytes = ~(u64)0;
	assert_refuses(&service, -EINVAL);
	service.options.sizes.cache_bytes = 1; /* the least there is */
	assert_int_equal(test_service_start(&service), 0);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

static void serve_file_size_limit_clear_error(void **state)
{
	struct rlimit old, limit;
	struct test_service service;
	int err;

	test_service_init(&service, "limit");
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	limit = old;
	limit.rlim_cur = 4096;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	err = test_service_start(&service);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	signal(SIGXFSZ, SIG_DFL);
	assert_int_equal(err, -EFBIG);
	assert_true(strlen(service.why) > 10);
	assert_int_equal(test_service_start(&service), 0);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

static void serve_wrong_options_einval(void **state)
{
	struct test_service service;

	test_service_init(&service, "options");
	service.options.tables.scheme = 9;
	assert_refuses(&service, -EINVAL);
	service.options.tables.scheme = LODIC_LODIC;
	service.options.tables.nr_entries = 100;
	assert_refuses(&service, -EINVAL);
	service.options.tables.nr_entries = 0;
	service.options.keeping.nr_files = ~0u;
	assert_refuses(&service, -EINVAL);
	(void)state;
}

/* Attaches there, in a process of its own, since some lies could make a believer fall
 * over; it must fail so within ms. */
static void assert_attach_fails(const char *path, int error, u64 ms)
{
	const struct lodic_options options = { .bytes = sizeof(options),
		                               .socket = path,
		                               .service = "" };
	pid_t pid = fixture_fork();

	if (pid == 0) {
		u64 start = host_now_ns();
		struct lodic *lodic = NULL;
		int err;

		signal(SIGBUS, SIG_DFL); /* cmocka would go on with the next test */
		signal(SIGSEGV, SIG_DFL);
		err = lodic_attach(&options, &lodic);
		REQUIRE(err == error && !lodic, "%d, wanted %d", err, error);
		REQUIRE(host_now_ns() - start < ms * 1000000, "too late");
		_exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
}

static void serve_path_taken_eexist_file_untouched(void **state)
{
	char path[FIXTURE_PATH_BYTES], lock[FIXTURE_PATH_BYTES + 8];
	struct test_service service;
	struct stat st;

	pattern_file_make(path, "taken", 1, 1, 100);
	test_service_init(&service, "taken");
	assert_refuses(&service, -EEXIST);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 100);
	assert_attach_fails(path, -ECONNREFUSED, SOON_MS);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_refuses(&service, -EEXIST);
	assert_attach_fails(path, -ECONNREFUSED, SOON_MS);
	assert_int_equal(rmdir(path), 0);
	snprintf(lock, sizeof(lock), "%s.lock", path);
	assert_int_equal(mkdir(lock, 0700), 0);
	assert_refuses(&service, -EEXIST);
	assert_int_equal(rmdir(lock), 0);
	assert_int_equal(symlink("/dev/null", lock), 0);
	assert_refuses(&service, -EEXIST);
	assert_int_equal(unlink(lock), 0);
	assert_int_equal(test_service_start(&service), 0);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

static void serve_path_impossible_clear_error(void **state)
{
	char longest[300];
	struct test_service service;

	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	test_service_init(&service, "no-such-folder/s");
	assert_refuses(&service, -ENOENT);
	assert_attach_fails(service.socket, -ENOENT, SOON_MS);
	service.options.place.socket = longest;
	assert_refuses(&service, -ENAMETOOLONG);
	assert_attach_fails(longest, -ENAMETOOLONG, SOON_MS);
	service.options.place.socket = "";
	assert_refuses(&service, -EINVAL);
	(void)state;
}

static void serve_two_at_once_second_eaddrinuse(void **state)
{
	struct test_service first, second;
	struct lodic *lodic;
	char pid[16];

	test_service_init(&first, "both");
	test_service_init(&second, "both");
	assert_int_equal(test_service_start(&first), 0);
	assert_refuses(&second, -EADDRINUSE);
	snprintf(pid, sizeof(pid), "%d", (int)first.pid);
	assert_non_null(strstr(second.why, pid));
	assert_int_equal(test_service_attach(&first, &lodic), 0); /* it lives */
	assert_int_equal(test_service_stat(lodic).service_pid, first.pid);
	lodic_detach(lodic);
	test_service_kill(&first); /* leaves its socket and its lock file behind */
	assert_attach_fails(first.socket, -ECONNREFUSED, SOON_MS);
	assert_int_equal(test_service_start(&second), 0);
	assert_int_equal(test_service_stop(&second), 0);
	assert_attach_fails(first.socket, -ENOENT, SOON_MS);
	(void)state;
}

static void attach_wrong_arguments_einval(void **state)
{
	struct lodic_options options = { .bytes = sizeof(options), .service = "" };
	struct lodic *lodic;

	assert_int_equal(lodic_attach(&options, NULL), -EINVAL);
	options.scheme = (enum lodic_scheme)77;
	assert_int_equal(lodic_attach(&options, &lodic), -EINVAL);
	options.bytes = 0;
	assert_int_equal(lodic_attach(&options, &lodic), -EINVAL);
	(void)state;
}

static void attach_program_missing_enoent(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	struct lodic_options options = { .bytes = sizeof(options),
		                         .socket = path,
		                         .service = "/no/such/program" };
	struct lodic *lodic;

	fixture_path(path, "nobody-listens");
	assert_int_equal(lodic_attach(&options, &lodic), -ENOENT);
	(void)state;
}

enum liar {
	LIAR_SILENT,
	LIAR_SHORT,
	LIAR_LONG,
	LIAR_NO_FDS,
	LIAR_SMALL_FDS,
	LIAR_CLOSES
};

/* Answers every request at the socket in its own wrong way. */
static _Noreturn void liar_run(int listening, enum liar kind)
{
	struct wire_reply reply = {
		.hello = { .control_bytes = 8192, .data_bytes = 4096, .alive = 1 }
	};
	char message[sizeof(reply) + 64] = { 0 };
	int fds[3];

	for (u32 i = 0; i < 3; i++)
		fds[i] = memfd_create("liar", MFD_CLOEXEC); /* of size 0 */
	for (;;) {
		int socket = accept(listening, NULL, NULL);

		while (kind != LIAR_CLOSES &&
		       recv(socket, message, sizeof(message), 0) > 0) {
			if (kind == LIAR_SHORT)
				send(socket, "who?", 4, MSG_NOSIGNAL);
			else if (kind == LIAR_LONG)
				send(socket, message, sizeof(message), MSG_NOSIGNAL);
			else if (kind == LIAR_NO_FDS)
				wire_send(socket, &reply, sizeof(reply), NULL, 0);
			else if (kind == LIAR_SMALL_FDS)
				wire_send(socket, &reply, sizeof(reply), fds, 3);
		}
		close(socket);
	}
}

static int listen_at(const char *path, int type)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path, path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

static void assert_liar_found_out(enum liar kind, int error, u64 ms)
{
	char path[FIXTURE_PATH_BYTES], name[16];
	struct test_service service;
	pid_t liar;
	int fd;

	snprintf(name, sizeof(name), "liar%u", (u32)kind);
	fixture_path(path, name);
	fd = listen_at(path, SOCK_SEQPACKET);
	liar = fixture_fork();
	if (liar == 0)
		liar_run(fd, kind);
	close(fd);
	assert_attach_fails(path, error, ms);
	test_service_init(&service, name); /* its socket is not taken away, either */
	assert_refuses(&service, -EEXIST);
	kill(liar, SIGKILL);
	fixture_wait(liar);
}

static void attach_service_is_not_lodic_clear_error(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	int fd;

	assert_liar_found_out(LIAR_SILENT, -ETIMEDOUT, LATE_MS);
	assert_liar_found_out(LIAR_SHORT, -EPROTO, SOON_MS);
	assert_liar_found_out(LIAR_LONG, -EPROTO, SOON_MS);
	assert_liar_found_out(LIAR_NO_FDS, -EPROTO, SOON_MS);
	assert_liar_found_out(LIAR_SMALL_FDS, -EPROTO, SOON_MS);
	assert_liar_found_out(LIAR_CLOSES, -ECONNREFUSED, SOON_MS);
	fixture_path(path, "stream");
	fd = listen_at(path, SOCK_STREAM);
	assert_attach_fails(path, -EPERM, SOON_MS);
	close(fd);
	(void)state;
}

/* Sends the first bytes of request, and returns the error of the one reply. */
static int ask(int socket, const struct wire_request *request, u64 bytes,
               u32 *ret_nr_fds)
{
	struct pollfd wait = { .fd = socket, .events = POLLIN };
	struct wire_reply reply;
	int fds[WIRE_MAX_FDS];

	assert_int_equal(wire_send(socket, request, bytes, NULL, 0), 0);
	assert_int_equal(poll(&wait, 1, FIXTURE_DEADLINE_MS), 1);
	assert_int_equal(wire_receive(socket, &reply, sizeof(reply), fds, ret_nr_fds),
	                 0);
	for (u32 i = 0; i < *ret_nr_fds; i++)
		close(fds[i]);
	assert_int_equal(recv(socket, &reply, sizeof(reply), MSG_DONTWAIT), -1);
	return reply.error;
}

/* An older or newer client's struct may have another size as well. */
static void serve_client_of_another_version_eproto_goes_on(void **state)
{
	struct wire_request hello = { .version = WIRE_VERSION, .op = WIRE_HELLO };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct test_service service;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	u32 nr_fds;

	test_service_init(&service, "versions");
	assert_int_equal(test_service_start(&service), 0);
	strcpy(address.sun_path, service.socket);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	for (u32 op = 0; op <= WIRE_DROP + 1; op++)
		for (int step = -1; step <= 1; step += 2) {
			struct wire_request other = { .version =
				                              WIRE_VERSION + (u32)step,
				                      .op = op };

			assert_int_equal(ask(fd, &other, sizeof(other), &nr_fds),
			                 -EPROTO);
			assert_int_equal(nr_fds, 0);
		}
	assert_int_equal(ask(fd, &hello, sizeof(hello) - 8, &nr_fds), -EPROTO);
	assert_int_equal(ask(fd, &hello, sizeof(hello), &nr_fds), 0);
	assert_int_equal(nr_fds, 4);
	close(fd);
	assert_int_equal(test_service_stop(&service), 0);
	(void)state;
}

static void attach_service_of_another_user_eperm(void **state)
{
	struct test_service service;
	char folder[FIXTURE_PATH_BYTES];
	pid_t pid;
	u64 *ready = fixture_shared(sizeof(*ready));

	if (geteuid() != 0) {
		print_message("needs root, to be somebody else\n");
		skip();
	}
	fixture_path(folder, ".");
	assert_int_equal(chmod(folder, 0711), 0);
	fixture_path(folder, "theirs");
	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(chown(folder, NOBODY, NOBODY), 0);
	test_service_init(&service, "theirs/s");
	pid = fixture_fork();
	if (pid == 0) {
		REQUIRE(setgid(NOBODY) == 0 && setuid(NOBODY) == 0, "%s",
		        strerror(errno));
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		REQUIRE(test_service_start(&service) == 0, "%s", service.why);
		host_store_release(ready, 1);
		for (;;)
			pause();
	}
	assert_true(WAIT_UNTIL(host_load_acquire(ready)));
	assert_attach_fails(service.socket, -EPERM, SOON_MS);
	assert_refuses(&service, -EADDRINUSE);
	kill(pid, SIGKILL);
	fixture_wait(pid);
	(void)state;
}

static void context_open_1024_then_eusers_until_one_closes(void **state)
{
	static struct lodic_context *contexts[MOST_CONTEXTS];
	struct test_bed b;
	u8 buffer[BLOCK];

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, (u64)4 * BLOCK);
	for (u32 i = 1; i < MOST_CONTEXTS; i++)
		assert_int_equal(lodic_context_open(b.lodic, &contexts[i]), 0);
	assert_int_equal(lodic_context_open(b.lodic, &contexts[0]), -EUSERS);
	assert_int_equal(lodic_read(contexts[MOST_CONTEXTS - 1], b.file, buffer, BLOCK,
	                            0),
	                 BLOCK);
	assert_true(pattern_holds(buffer, 1, 1, 0, BLOCK));
	lodic_context_close(contexts[5]);
	assert_int_equal(lodic_context_open(b.lodic, &contexts[5]), 0);
	for (u32 i = 1; i < MOST_CONTEXTS; i++)
		lodic_context_close(contexts[i]);
	assert_int_equal(test_service_stat(b.lodic).contexts, 1);
	test_bed_free(&b);
	(void)state;
}

static void open_too_many_files_enfile_until_one_closes(void **state)
{
	struct lodic_file *files[2];
	char path[FIXTURE_PATH_BYTES];
	struct test_bed b;
	u8 buffer[10];
	int fds[2];

	test_bed_init(&b, LODIC_LODIC);
	b.service.options.keeping.nr_files = 2;
	test_bed_make(&b, BLOCK);
	for (u32 i = 0; i < 2; i++) {
		pattern_file_make(path, i ? "many1" : "many0", 2 + i, 1, BLOCK);
		fds[i] = fixture_open(path, O_RDONLY);
		assert_int_equal(lodic_open(b.lodic, fds[i], &files[i]), 0);
	}
	assert_int_equal(lodic_file_cached(files[0]), 0);
	assert_int_equal(lodic_file_cached(files[1]), -ENFILE);
	assert_int_equal(lodic_read(b.context, files[1], buffer, 10, 7), 10);
	assert_true(pattern_holds(buffer, 3, 1, 7, 10));
	lodic_close(files[0]);
	assert_true(WAIT_UNTIL(lodic_read(b.context, files[1], buffer, 10, 7) == 10 &&
	                       lodic_file_cached(files[1]) == 0));
	lodic_close(files[1]);
	close(fds[0]);
	close(fds[1]);
	test_bed_free(&b);
	(void)state;
}

/* Pins whatever block can be pinned until no more can; returns how many pins are held. */
static u32 pin_all(struct test_bed *b, struct lodic_context *context, u64 nr_blocks,
                   struct lodic_pin *pins, u32 most)
{
	u32 nr = 0;

	for (u64 i = 0; i < nr_blocks && nr < most; i++)
		if (lodic_pin(context, b->file, (off_t)(i * BLOCK), &pins[nr]) == 0)
			nr++;
	return nr;
}

/* As many contexts as it takes pin all that may be pinned. Reads of the rest are still
 * right, and other pins are refused until these are given back. */
static void pin_cache_all_pinned_reads_go_on(void **state)
{
	enum { NR_CONTEXTS = 8 };
	static struct lodic_pin pins[NR_CONTEXTS][2 * SMALL_BLOCKS];
	static u8 buffer[2 * SMALL_BLOCKS * BLOCK];

	FOR_EACH_SCHEME(scheme)
	{
		struct lodic_context
			*contexts[NR_CONTEXTS]; /* the first is the bed's */
		u64 bytes = (u64)2 * SMALL_BLOCKS * BLOCK;
		u32 held[NR_CONTEXTS];
		struct lodic_stat stat;
		struct test_bed b;

		test_bed_init(&b, scheme);
		b.service.options.sizes.cache_bytes = (u64)SMALL_BLOCKS * BLOCK;
		test_bed_make(&b, bytes);
		lodic_prefetch(b.context, b.file, 0, bytes / 2, LODIC_WAIT);
		for (u32 i = 0; i < NR_CONTEXTS; i++) {
			if (i == 0)
				contexts[i] = b.context;
			else
				assert_int_equal(
					lodic_context_open(b.lodic, &contexts[i]), 0);
			held[i] = pin_all(&b, contexts[i], 2 * SMALL_BLOCKS, pins[i],
			                  2 * SMALL_BLOCKS);
		}
		stat = test_service_stat(b.lodic);
		print_message("%s: %u of %u frames pinned\n", lodic_scheme_name(scheme),
		              (u32)stat.pinned, SMALL_BLOCKS);
		assert_true(stat.pinned >= SMALL_BLOCKS / 4);
		/* These reads want more than there is room for. */
		assert_int_equal(lodic_prefetch(b.context, b.file, 0, 0, LODIC_WAIT),
		                 0);
		for (u32 i = 0; i < 3; i++) {
			assert_int_equal(
				lodic_read(b.context, b.file, buffer, bytes, 0), bytes);
			assert_true(pattern_holds(buffer, 1, 1, 0, bytes));
		}
		assert_int_equal(test_service_stat(b.lodic).pinned, stat.pinned);
		for (u32 i = 0; i < NR_CONTEXTS; i++) {
			for (u32 k = 0; k < held[i]; k++)
				lodic_unpin(contexts[i], &pins[i][k]);
			if (i > 0)
				lodic_context_close(contexts[i]);
		}
		assert_int_equal(test_service_stat(b.lodic).pinned, 0);
		assert_true(
			WAIT_UNTIL(lodic_pin(b.context, b.file, (off_t)bytes - BLOCK,
		                             &pins[0][0]) == 0));
		assert_true(pattern_holds(pins[0][0].data, 1, 1, bytes - BLOCK, BLOCK));
		lodic_unpin(b.context, &pins[0][0]);
		test_bed_free(&b);
	}
	(void)state;
}

/* A context that comes when the reserve is spent reads, but does not pin; its quota is
 * the others' again when they go. */
static void pin_quota_spent_edquot_reads_hit(void **state)
{
	static struct lodic_pin pins[SMALL_BLOCKS];
	struct lodic_context *contexts[8];
	struct lodic_context *late;
	struct lodic_pin pin;
	struct test_bed b;
	u8 buffer[BLOCK];
	u32 nr;

	test_bed_init(&b, LODIC_LODIC);
	b.service.options.sizes.cache_bytes = (u64)SMALL_BLOCKS * BLOCK;
	b.service.options.tables.quota = 16;
	test_bed_make(&b, (u64)SMALL_BLOCKS / 2 * BLOCK);
	assert_int_equal(lodic_prefetch(b.context, b.file, 0, 0, LODIC_WAIT), 0);
	nr = pin_all(&b, b.context, SMALL_BLOCKS / 2, pins, SMALL_BLOCKS);
	assert_in_range(nr, 1, 16);
	for (u32 i = 0; i < nr; i++)
		lodic_unpin(b.context, &pins[i]);
	for (u32 i = 0; i < 8; i++) /* 9 * 16 is more than the whole cache */
		assert_int_equal(lodic_context_open(b.lodic, &contexts[i]), 0);
	late = contexts[7];
	assert_int_equal(test_context_stat(b.context).may_pin, 1);
	assert_int_equal(test_context_stat(late).may_pin, 0);
	assert_int_equal(lodic_pin(late, b.file, 0, &pin), -EDQUOT);
	assert_int_equal(test_context_stat(late).pins_refused, 1);
	assert_int_equal(lodic_read(late, b.file, buffer, BLOCK, 0), BLOCK);
	assert_true(pattern_holds(buffer, 1, 1, 0, BLOCK));
	assert_int_equal(test_context_stat(late).hits, 1);
	for (u32 i = 0; i < 8; i++)
		lodic_context_close(contexts[i]);
	assert_int_equal(lodic_context_open(b.lodic, &late), 0);
	assert_int_equal(lodic_pin(late, b.file, 0, &pin), 0);
	lodic_unpin(late, &pin);
	lodic_context_close(late);
	test_bed_free(&b);
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
		TEST(serve_no_memory_enomem_and_sentence),
		TEST(serve_file_size_limit_clear_error),
		TEST(serve_wrong_options_einval),
		TEST(serve_path_taken_eexist_file_untouched),
		TEST(serve_path_impossible_clear_error),
		TEST(serve_two_at_once_second_eaddrinuse),
		TEST(attach_wrong_arguments_einval),
		TEST(attach_program_missing_enoent),
		TEST(attach_service_is_not_lodic_clear_error),
		TEST(serve_client_of_another_version_eproto_goes_on),
		TEST(attach_service_of_another_user_eperm),
		TEST(context_open_1024_then_eusers_until_one_closes),
		TEST(open_too_many_files_enfile_until_one_closes),
		TEST(pin_cache_all_pinned_reads_go_on),
		TEST(pin_quota_spent_edquot_reads_hit),
	};

	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("bad_service", tests, NULL, NULL);
}
