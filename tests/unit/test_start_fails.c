/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* lodic_attach() cannot start a service: it says which cause that has, in the service's words. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/client/start.h"
#include "tests/support/cache_fixture.h"

#define TEST_SECONDS 60
#define TEXT_BYTES 4096

static char program[TEXT_BYTES];

static int attach_to(const char *socket, const char *service, struct lodic **ret_lodic)
{
	const struct lodic_options options = { .bytes = sizeof(options),
		                               .socket = socket,
		                               .service = service };

	return lodic_attach(&options, ret_lodic);
}

static void script_make(char path[FIXTURE_PATH_BYTES], const char *text, mode_t mode)
{
	int fd;

	fixture_path(path, "script");
	unlink(path);
	fd = fixture_open(path, O_WRONLY | O_CREAT);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static int start_program(char *path, u32 wait_ms)
{
	char socket[FIXTURE_PATH_BYTES];
	const struct start start = { .program = path,
		                     .socket_path = socket,
		                     .wait_ms = wait_ms };
	struct start_failure failure;
	int err, status;
	pid_t pid;

	fixture_path(socket, "never.sock");
	pid = fixture_fork();
	if (pid == 0) {
		err = start_service(&start, &failure);
		/* Not even a zombie. */
		REQUIRE(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD,
		        "it leaves a child");
		_exit(-err);
	}
	status = fixture_wait(pid);
	assert_true(WIFEXITED(status));
	return -WEXITSTATUS(status);
}

static void start_program_that_fails_says_how(void **state)
{
	char path[FIXTURE_PATH_BYTES];

	fixture_path(path, "no-such-program");
	assert_int_equal(start_program(path, FIXTURE_DEADLINE_MS), -ENOENT);
	script_make(path, "#!/bin/sh\nexit 0\n", 0600);
	assert_int_equal(start_program(path, FIXTURE_DEADLINE_MS), -EACCES);
	script_make(path, "#!/bin/sh\nexit 0\n", 0700);
	assert_int_equal(start_program(path, FIXTURE_DEADLINE_MS), -ECONNRESET);
	(void)state;
}

/* What the program says last is what the caller hears: by its stderr, or behind the errno. */
static void start_program_that_fails_last_words_come(void **state)
{
	static const struct {
		const char *script;
		int error;
		enum lodic_reason reason;
		const char *words;
	} cases[] = {
		{ "exit 1\n", -ECONNRESET, LODIC_REASON_DIED_STARTING, "" },
		{ "echo first >&2; echo 'it lacks a library' >&2; exit 127\n", -ECONNRESET,
		  LODIC_REASON_REFUSED_START, "it lacks a library" },
		{ "echo 'a warning of the loader' >&2\n"
		  "eval \"printf '\\\\14\\\\0\\\\0\\\\0no room: take less' >&$3\"\n",
		  -ENOMEM, LODIC_REASON_REFUSED_START, "no room: take less" },
		{ "echo 'a warning of the loader' >&2\n"
		  "eval \"printf '\\\\0\\\\0\\\\0\\\\0' >&$3\"\n",
		  0, LODIC_REASON_NONE, "" },
	};
	char path[FIXTURE_PATH_BYTES], text[300];
	const struct start start = { .program = path,
		                     .socket_path = path,
		                     .wait_ms = FIXTURE_DEADLINE_MS };
	struct start_failure failure;

	for (u32 i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		snprintf(text, sizeof(text), "#!/bin/sh\n%s", cases[i].script);
		script_make(path, text, 0700);
		assert_int_equal(start_service(&start, &failure), cases[i].error);
		assert_int_equal(failure.reason, cases[i].reason);
		assert_string_equal(failure.words, cases[i].words);
	}
	(void)state;
}

static void start_program_that_hangs_given_up(void **state)
{
	char path[FIXTURE_PATH_BYTES], pids[FIXTURE_PATH_BYTES], text[300];
	u64 start = host_now_ns();
	pid_t pid = 0;
	FILE *f;
	int nr;

	fixture_path(pids, "pid");
	snprintf(text, sizeof(text), "#!/bin/sh\necho $$ >%s\nexec sleep 20\n", pids);
	script_make(path, text, 0700);
	assert_int_equal(start_program(path, 300), -ETIMEDOUT);
	assert_in_range(host_now_ns() - start, 300000000, 15000000000); /* not 20 s */
	assert_true(WAIT_UNTIL(({ /* the shell may not have come so far */
				  f = fopen(pids, "r");
				  nr = f ? fscanf(f, "%d", &pid) : 0;
				  if (f)
					  fclose(f);
				  nr == 1;
	})));
	assert_int_equal(kill(pid, SIGKILL), 0);
	(void)state;
}

static void attach_service_refuses_settings_error_tells(void **state)
{
	char socket[FIXTURE_PATH_BYTES];
	struct lodic *lodic;

	fixture_path(socket, "refused.sock");
	setenv("LODIC_MEMORY", "lots", 1);
	assert_int_equal(attach_to(socket, program, &lodic), -EINVAL);
	assert_int_equal(lodic_reason(-EINVAL), LODIC_REASON_REFUSED_START);
	assert_non_null(strstr(lodic_strerror(-EINVAL), "LODIC_MEMORY"));
	unsetenv("LODIC_MEMORY");
	(void)state;
}

static void attach_cache_bytes_that_no_cache_has_einval(void **state)
{
	static const u64 bytes[] = { 1, (32 << 10) - 1, (u64)8 << 40 };
	struct lodic_options options = { .bytes = sizeof(options) };
	char socket[FIXTURE_PATH_BYTES];
	struct lodic *lodic;

	fixture_path(socket, "none.sock");
	options.socket = socket;
	options.service = program;
	for (u32 i = 0; i < sizeof(bytes) / sizeof(*bytes); i++) {
		options.cache_bytes = bytes[i];
		assert_int_equal(lodic_attach(&options, &lodic), -EINVAL);
	}
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
		TEST(start_program_that_fails_says_how),
		TEST(start_program_that_fails_last_words_come),
		TEST(start_program_that_hangs_given_up),
		TEST(attach_service_refuses_settings_error_tells),
		TEST(attach_cache_bytes_that_no_cache_has_einval),
	};
	const char *build = getenv("LODIC_BUILD");

	fixture_begin(argc, argv, NULL);
	if (!build || !*build)
		fixture_skip("LODIC_BUILD does not say where the program is");
	snprintf(program, sizeof(program), "%s/lodic", build);
	unsetenv("LODIC_SOCKET");
	unsetenv("LODIC_MEMORY");
	return cmocka_run_group_tests_name("start_fails", tests, NULL, NULL);
}
