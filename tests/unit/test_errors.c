/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the library says when it cannot: each cause has an error and a sentence of its own.
 * Reads at the limits answer as pread(2) does, whatever is cached. */
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
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/client/error.h"
#include "lib/reason.h"
#include "tests/support/cache_fixture.h"

#define BLOCK LODIC_BLOCK_BYTES
#define TEST_SECONDS 120
#define NR_BLOCKS 64u
#define NR_ENTRIES 16u

static void pin_table_full_enobufs(void **state)
{
	struct lodic_pin pins[NR_BLOCKS];
	struct test_bed b;
	u32 nr = 0;

	test_bed_init(&b, LODIC_LODIC);
	b.service.options.tables.nr_entries = NR_ENTRIES;
	test_bed_make(&b, (u64)NR_BLOCKS * BLOCK);
	assert_int_equal(lodic_prefetch(b.context, b.file, 0, 0, LODIC_WAIT), 0);
	for (u32 i = 0; i < NR_BLOCKS; i++) {
		int err = lodic_pin(b.context, b.file, (off_t)i * BLOCK, &pins[nr]);

		assert_true(err == 0 || err == -ENOBUFS);
		nr += !err;
	}
	assert_in_range(nr, 1, NR_ENTRIES);
	assert_int_equal(test_context_stat(b.context).pins_refused, NR_BLOCKS - nr);
	while (nr > 0)
		lodic_unpin(b.context, &pins[--nr]);
	test_bed_free(&b);
	(void)state;
}

static void pin_file_not_cached_estale_block_not_cached_eagain(void **state)
{
	struct lodic_pin pin;
	struct test_bed b;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, (u64)2 * BLOCK);
	assert_int_equal(lodic_pin(b.context, b.file, 0, &pin), -EAGAIN);
	assert_true(WAIT_UNTIL(lodic_pin(b.context, b.file, 0, &pin) == 0));
	lodic_unpin(b.context, &pin);
	test_service_kill(&b.service);
	assert_int_equal(lodic_pin(b.context, b.file, 0, &pin), -ESTALE);
	assert_int_equal(lodic_pin(b.context, b.file, 2 * BLOCK, &pin), -ENODATA);
	assert_int_equal(lodic_file_cached(b.file), -ESTALE);
	test_bed_free(&b);
	(void)state;
}

/* The part of a sentence that names the cause ends at the first colon. */
static bool names_two_causes(const char *text)
{
	const char *found = strstr(text, " or "), *colon = strchr(text, ':');

	return (found && (!colon || found < colon)) || strstr(text, "; or ");
}

static void reason_each_one_name_one_sentence_one_cause(void **state)
{
	for (u32 i = 0; i < NR_REASONS; i++) {
		const char *text = lodic_reason_text((enum lodic_reason)i);
		const char *name = lodic_reason_name((enum lodic_reason)i);

		assert_non_null(text);
		assert_non_null(name);
		assert_false(names_two_causes(text));
		for (u32 k = 0; k < i; k++) {
			assert_string_not_equal(text,
			                        lodic_reason_text((enum lodic_reason)k));
			assert_string_not_equal(name,
			                        lodic_reason_name((enum lodic_reason)k));
		}
	}
	assert_string_equal(lodic_reason_name((enum lodic_reason)NR_REASONS), "none");
	assert_true(names_two_causes("it is large; or it is small: do nothing"));
	(void)state;
}

/* Each error that lodic.h names for a pin, a hold or an attachment has a sentence of its own. That
 * is not strerror's, and names no second cause. */
static void strerror_lodic_errors_sentences_of_their_own(void **state)
{
	static const int errors[] = { EAGAIN,    ESTALE,     EDQUOT,       ENOBUFS,
		                      EOVERFLOW, EUSERS,     ENODATA,      ETXTBSY,
		                      EACCES,    EPERM,      ENFILE,       EFBIG,
		                      EPROTO,    EOPNOTSUPP, ECONNREFUSED, ETIMEDOUT,
		                      ENOENT,    ECHILD,     ECONNRESET,   EINVAL,
		                      ENOSPC,    EALREADY,   EMEDIUMTYPE,  ENOLCK };
	const u32 nr = sizeof(errors) / sizeof(*errors);

	for (u32 i = 0; i < nr; i++) {
		const char *text = lodic_strerror(-errors[i]);

		assert_ptr_equal(text, lodic_strerror(errors[i]));
		assert_string_not_equal(text, strerror(errors[i]));
		assert_true(strlen(text) > 20);
		assert_false(names_two_causes(text));
		for (u32 k = 0; k < i; k++)
			assert_string_not_equal(text, lodic_strerror(errors[k]));
	}
	assert_string_equal(lodic_strerror(-EISDIR), strerror(EISDIR));
	assert_string_equal(lodic_strerror(0), strerror(0));
	assert_non_null(lodic_strerror(123456));
	assert_non_null(lodic_strerror(INT32_MIN));
	(void)state;
}

/* A bare errno has a reason only if it has one alone. */
static void reason_of_an_errno_that_has_one(void **state)
{
	assert_int_equal(lodic_reason(-ETXTBSY), LODIC_REASON_OPEN_FOR_WRITING);
	assert_int_equal(lodic_reason(ETXTBSY), LODIC_REASON_OPEN_FOR_WRITING);
	assert_int_equal(lodic_reason(-EFBIG), LODIC_REASON_NONE);
	assert_int_equal(lodic_reason(-EISDIR), LODIC_REASON_NONE);
	assert_int_equal(lodic_reason(0), LODIC_REASON_NONE);
	assert_int_equal(lodic_reason(INT32_MIN), LODIC_REASON_NONE);
	assert_int_equal(lodic_reason(INT32_MAX), LODIC_REASON_NONE);
	(void)state;
}

static void *attach_badly(void *arg)
{
	struct lodic_options options = { .bytes = sizeof(options),
		                         .socket = arg,
		                         .service = "",
		                         .cache_bytes = 1 };
	struct lodic *lodic;

	assert_int_equal(lodic_attach(&options, &lodic), -EINVAL);
	assert_int_equal(lodic_reason(-EINVAL), LODIC_REASON_CACHE_SIZE);
	options.cache_bytes = 0;
	options.hold_bytes = SERVICE_MAX_CACHE_BYTES + 1;
	assert_int_equal(lodic_attach(&options, &lodic), -EINVAL);
	assert_int_equal(lodic_reason(-EINVAL), LODIC_REASON_CACHE_SIZE);
	return NULL;
}

/* One errno, two causes, one after the other; and a third in another thread meanwhile. */
static void reason_of_the_last_call_in_this_thread(void **state)
{
	char long_path[200], path[] = "/nope/cache.sock";
	struct lodic_options options = { .bytes = sizeof(options),
		                         .socket = "",
		                         .service = "" };
	struct lodic *lodic;
	pthread_t thread;

	assert_int_equal(lodic_attach(&options, NULL), -EINVAL);
	assert_int_equal(lodic_reason(-EINVAL), LODIC_REASON_ARGUMENT);
	assert_int_equal(lodic_attach(&options, &lodic), -EINVAL);
	assert_int_equal(lodic_reason(-EINVAL), LODIC_REASON_SETTING);
	assert_string_equal(lodic_strerror(-EINVAL), "the socket's path is empty");
	assert_int_equal(pthread_create(&thread, NULL, attach_badly, path), 0);
	pthread_join(thread, NULL);
	assert_int_equal(lodic_reason(-EINVAL), LODIC_REASON_SETTING);
	memset(long_path, 'x', sizeof(long_path) - 1);
	long_path[0] = '/';
	long_path[sizeof(long_path) - 1] = '\0';
	options.socket = long_path;
	assert_int_equal(lodic_attach(&options, &lodic), -ENAMETOOLONG);
	assert_non_null(strstr(lodic_strerror(-ENAMETOOLONG), long_path));
	assert_int_equal(lodic_reason(-EINVAL), LODIC_REASON_NONE); /* long ago */
	(void)state;
}

/* Each errno twice or more, by calls that have it for another cause. */
static void reason_tells_causes_of_one_errno_apart(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	struct lodic_file *empty, *file;
	struct lodic_hold *hold;
	struct lodic_pin pin;
	struct test_bed b;
	int fd, writer;

	test_bed_init(&b, LODIC_LODIC);
	b.service.options.sizes.hold_bytes = (u64)1 << 20;
	test_bed_make(&b, (u64)2 << 20);
	assert_int_equal(lodic_pin(b.context, b.file, 0, &pin), -EAGAIN);
	assert_int_equal(lodic_reason(-EAGAIN), LODIC_REASON_NOT_HERE_YET);
	assert_int_equal(lodic_hold(b.lodic, b.file, 0, 0, LODIC_WAIT, &hold), -EFBIG);
	assert_int_equal(lodic_reason(-EFBIG), LODIC_REASON_HOLD_SIZE);
	assert_int_equal(lodic_prefetch(b.context, b.file, -1, 0, 0), -EINVAL);
	assert_int_equal(lodic_reason(-EINVAL), LODIC_REASON_ARGUMENT);
	assert_int_equal(lodic_hold(b.lodic, b.file, 0, 0, 8, &hold), -EINVAL);
	assert_int_equal(lodic_reason(-EINVAL), LODIC_REASON_ARGUMENT);
	fd = fixture_open(b.path, O_RDWR);
	assert_int_equal(lodic_open(b.lodic, fd, &file), -EINVAL);
	assert_int_equal(lodic_reason(-EINVAL), LODIC_REASON_WRITABLE);
	close(fd);

	pattern_file_make(path, "empty", 1, 1, 0);
	fd = fixture_open(path, O_RDONLY);
	assert_int_equal(lodic_open(b.lodic, fd, &empty), 0);
	assert_int_equal(lodic_file_cached(empty), -ENODATA);
	assert_int_equal(lodic_reason(-ENODATA), LODIC_REASON_EMPTY);
	assert_int_equal(lodic_pin(b.context, b.file, (off_t)2 << 20, &pin), -ENODATA);
	assert_int_equal(lodic_reason(-ENODATA), LODIC_REASON_PAST_END);
	lodic_close(empty);
	close(fd);

	writer = fixture_open(b.path, O_WRONLY);
	assert_true(WAIT_UNTIL(lodic_pin(b.context, b.file, 0, &pin) == -ESTALE &&
	                       lodic_reason(-ESTALE) == LODIC_REASON_OPEN_FOR_WRITING));
	assert_string_equal(lodic_strerror(-ESTALE),
	                    lodic_reason_text(LODIC_REASON_OPEN_FOR_WRITING));
	close(writer);
	test_service_kill(&b.service);
	assert_true(WAIT_UNTIL(lodic_pin(b.context, b.file, 0, &pin) == -ESTALE &&
	                       lodic_file_cached(b.file) == -ESTALE &&
	                       lodic_reason(-ESTALE) == LODIC_REASON_AWAY));
	test_bed_free(&b);
	(void)state;
}

/* A call that ends well leaves no cause of an earlier one that failed. */
static void reason_after_calls_that_end_well_none(void **state)
{
	struct lodic_context *context;
	struct lodic_file *file;
	struct lodic_hold *hold;
	struct lodic_stat stat;
	struct lodic *lodic;
	struct test_bed b;
	int fd;
	off_t at;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
#define ENDS_WELL(call) \
	do { \
		error_because(LODIC_REASON_HOLD_SIZE); \
		assert_true((call) >= 0); \
		assert_int_equal(lodic_reason(-EFBIG), LODIC_REASON_NONE); \
	} while (0)
	ENDS_WELL(test_service_attach(&b.service, &lodic));
	ENDS_WELL(lodic_context_open(lodic, &context));
	ENDS_WELL(lodic_open(lodic, b.fd, &file));
	ENDS_WELL(lodic_file_cached(file));
	ENDS_WELL(lodic_prefetch(context, file, 0, 0, LODIC_WAIT));
	ENDS_WELL(lodic_stat(lodic, &stat, sizeof(stat)));
	ENDS_WELL(lodic_hold(lodic, file, 0, 0, LODIC_WAIT, &hold));
	ENDS_WELL(fd = lodic_hold_fd(hold, &at));
	close(fd);
	lodic_release(hold);
	lodic_close(file);
	lodic_context_close(context);
	lodic_detach(lodic);
	test_bed_free(&b);
	(void)state;
}

static void service_is_stopped_no_answer(void **state)
{
	struct lodic_file *file;
	struct lodic_stat stat;
	struct test_bed b;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	test_service_freeze(&b.service);
	assert_int_equal(lodic_open(b.lodic, b.fd, &file), 0);
	assert_int_equal(lodic_file_cached(file), -ETIMEDOUT);
	assert_int_equal(lodic_reason(-ETIMEDOUT), LODIC_REASON_NO_ANSWER);
	kill(b.service.pid, SIGCONT);
	test_service_stat(b.lodic);
	test_service_freeze(&b.service);
	assert_int_equal(lodic_stat(b.lodic, &stat, sizeof(stat)), -ETIMEDOUT);
	kill(b.service.pid, SIGCONT);
	lodic_close(file);
	test_bed_free(&b);
	(void)state;
}

static void version_library_that_of_the_header(void **state)
{
	char text[32];

	snprintf(text, sizeof(text), "%d.%d.%d", LODIC_VERSION_MAJOR,
	         LODIC_VERSION_MINOR, LODIC_VERSION_PATCH);
	assert_string_equal(lodic_version(), text);
	(void)state;
}

static ssize_t pread_or_error(int fd, void *buffer, size_t n, off_t offset)
{
	ssize_t got = pread(fd, buffer, n, offset);

	return got < 0 ? -errno : got;
}

/* Offsets and lengths near the greatest ones, of a file that is not cached, then is. */
static void read_near_the_greatest_offset_as_pread(void **state)
{
	static const off_t offsets[] = { 0,
		                         1,
		                         BLOCK,
		                         INT64_MAX - 2 * BLOCK,
		                         INT64_MAX - BLOCK,
		                         INT64_MAX - BLOCK + 1,
		                         INT64_MAX - 1,
		                         INT64_MAX };
	static const size_t lengths[] = { 0, 1, BLOCK, BLOCK + 1 };
	struct test_bed b;
	u8 buffer[2 * BLOCK];

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, (u64)2 * BLOCK);
	for (u32 cached = 0; cached < 2; cached++) {
		for (u32 i = 0; i < sizeof(offsets) / sizeof(*offsets); i++)
			for (u32 k = 0; k < sizeof(lengths) / sizeof(*lengths); k++)
				assert_int_equal(lodic_read(b.context, b.file, buffer,
				                            lengths[k], offsets[i]),
				                 pread_or_error(b.fd, buffer,
				                                lengths[k],
				                                offsets[i]));
		assert_int_equal(lodic_prefetch(b.context, b.file, 0, 0, LODIC_WAIT),
		                 0);
	}
	test_bed_free(&b);
	(void)state;
}

/* O_DIRECT reads must be aligned. The library's need not, with or without a cache. */
static void open_o_direct_reads_any_bytes(void **state)
{
	struct lodic_file *file;
	struct test_bed b;
	u8 buffer[BLOCK];
	int fd;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, (u64)2 * BLOCK);
	fd = open(b.path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (fd < 0) {
		test_bed_free(&b);
		print_message("no O_DIRECT here: %s\n", strerror(errno));
		skip();
	}
	assert_int_equal(lodic_open(b.lodic, fd, &file), 0);
	assert_true(fcntl(fd, F_GETFL) & O_DIRECT); /* the caller's stays as it was */
	close(fd);
	for (u32 cached = 0; cached < 2; cached++) {
		assert_int_equal(lodic_read(b.context, file, buffer + 1, 100, 3), 100);
		assert_true(pattern_holds(buffer + 1, 1, 1, 3, 100));
		assert_int_equal(
			lodic_read(b.context, file, buffer, 100, 2 * BLOCK - 50), 50);
		assert_int_equal(lodic_prefetch(b.context, file, 0, 0, LODIC_WAIT), 0);
	}
	lodic_close(file);
	test_bed_free(&b);
	(void)state;
}

/* lodic.h says so: the child does not have the memory. */
static void fork_child_looks_at_pin_sigsegv(void **state)
{
	struct lodic_pin pin;
	struct test_bed b;
	pid_t pid;
	int status;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	assert_int_equal(lodic_prefetch(b.context, b.file, 0, 0, LODIC_WAIT), 0);
	assert_int_equal(lodic_pin(b.context, b.file, 0, &pin), 0);
	pid = fixture_fork();
	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL);
		_exit(*(const volatile u8 *)pin.data & 0);
	}
	status = fixture_wait(pid);
#if defined(__SANITIZE_ADDRESS__)
	assert_true(status != 0);
#elif defined(__SANITIZE_THREAD__) // memory of its own may come to lie there
	assert_int_not_equal(status, -1);
#else
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
#endif
	assert_true(pattern_holds(pin.data, 1, 1, 0, BLOCK));
	lodic_unpin(b.context, &pin);
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
		TEST(pin_table_full_enobufs),
		TEST(pin_file_not_cached_estale_block_not_cached_eagain),
		TEST(reason_each_one_name_one_sentence_one_cause),
		TEST(reason_of_an_errno_that_has_one),
		TEST(reason_of_the_last_call_in_this_thread),
		TEST(reason_tells_causes_of_one_errno_apart),
		TEST(reason_after_calls_that_end_well_none),
		TEST(service_is_stopped_no_answer),
		TEST(strerror_lodic_errors_sentences_of_their_own),
		TEST(version_library_that_of_the_header),
		TEST(read_near_the_greatest_offset_as_pread),
		TEST(open_o_direct_reads_any_bytes),
		TEST(fork_child_looks_at_pin_sigsegv),
	};

	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("errors", tests, NULL, NULL);
}
