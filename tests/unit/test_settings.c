/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Settings: which values are valid, which source wins, and what a service leaves. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
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

#include "lib/settings.h"
#include "lib/value.h"
#include "tests/support/cache_fixture.h"

static void file_make(char path[FIXTURE_PATH_BYTES], const char *text, mode_t mode)
{
	int fd;

	fixture_path(path, "conf");
	fd = fixture_open(path, O_WRONLY | O_CREAT | O_TRUNC);
	assert_int_equal(fchmod(fd, mode), 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static int read_text(struct settings *s, const char *text, enum settings_source source)
{
	char path[FIXTURE_PATH_BYTES];

	file_make(path, text, 0600);
	return settings_read_file(s, path, source);
}

static void value_bytes_forms_read_or_refused(void **state)
{
	static const struct {
		const char *text;
		int err;
		u64 bytes;
	} cases[] = {
		{ "65536", 0, 65536 },
		{ "256M", 0, (u64)256 << 20 },
		{ "1gib", -EINVAL, 0 },
		{ "1GiB", 0, (u64)1 << 30 },
		{ "2t", 0, (u64)2 << 40 },
		{ "007K", 0, 7 << 10 },
		{ "", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ " 1", -EINVAL, 0 },
		{ "M", -EINVAL, 0 },
		{ "1X", -EINVAL, 0 },
		{ "1MB", -EINVAL, 0 },
		{ "99999999999999999999", -ERANGE, 0 },
		{ "99999999999999999999T", -ERANGE, 0 },
		{ "16777216T", -ERANGE, 0 },
	};
	u64 bytes;

	for (u32 i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		bytes = 0;
		assert_int_equal(value_parse_bytes(cases[i].text, &bytes),
		                 cases[i].err);
		assert_int_equal(bytes, cases[i].bytes);
	}
	(void)state;
}

static void value_seconds_forms_read_or_refused(void **state)
{
	static const char *const wrong[] = { "",   "-1",  "1.",  ".5",        "1,5",
		                             "1s", "nan", "1e3", "1000000001" };
	u64 ms;

	assert_int_equal(value_parse_ms("1.5", &ms), 0);
	assert_int_equal(ms, 1500);
	assert_int_equal(value_parse_ms("0.0159", &ms), 0);
	assert_int_equal(ms, 15);
	assert_int_equal(value_parse_ms("1000000000", &ms), 0);
	for (u32 i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_int_equal(value_parse_ms(wrong[i], &ms), -EINVAL);
	(void)state;
}

/* Each refusal tells what would be right. */
static void set_value_not_valid_refused_with_limits(void **state)
{
	static const struct {
		enum setting setting;
		const char *value, *says;
	} cases[] = {
		{ SETTING_MEMORY, "1K", "'1K' is too small: a cache has 32K at least" },
		{ SETTING_MEMORY, "0", "too small" },
		{ SETTING_MEMORY, "8T",
		  "too large: a cache has 32K at least, and less "
		  "than 8T" },
		{ SETTING_MEMORY, "99999999999999999999", "too large" },
		{ SETTING_MEMORY, "much", "'much' is not a size; write it as 256M" },
		{ SETTING_HOLDS, "much", "'much' is not a size; write it as 256M" },
		{ SETTING_HOLDS, "99999999999999999999", "too large" },
		{ SETTING_SCHEME, "foo", "choose lodic, atomic, frozen or hazard" },
		{ SETTING_IMMUTABLE, "gdb", "it begins with /" },
		{ SETTING_IMMUTABLE, "./*", "it begins with /" },
		{ SETTING_IMMUTABLE, "", "the glob is empty" },
		{ SETTING_IMMUTABLE, "/a\n/b", "a line's end" },
		{ SETTING_IMMUTABLE, "/a ", "a blank" },
		{ SETTING_IMMUTABLE, "/a\r", "a blank" },
		{ SETTING_PRESSURE, "/a\v", "a blank" },
		{ SETTING_PRESSURE, "/a\n", "a line's end" },
		{ SETTING_SOCKET, "", "empty" },
		{ SETTING_FILES, "0", "from 1 to" },
		{ SETTING_BUFFERED, "1", "neither yes nor no" },
		{ SETTING_HUGE_PAGES, "yes", "neither auto nor off" },
		{ SETTING_IDLE_EXIT, "soon", "not a number of seconds" },
		{ SETTING_KEEP, "-1", "not a number of seconds" },
		{ SETTING_POLICY_TICK, "fast", "not a number of seconds" },
		{ SETTING_POLICY_TICK, "0", "0.001 seconds at least" },
		{ SETTING_REPLICATE, "m/*", "begins with /" },
	};
	struct settings s = { 0 };

	for (u32 i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(settings_set(&s, cases[i].setting, cases[i].value,
		                              SETTINGS_OPTION),
		                 -EINVAL);
		assert_non_null(strstr(s.why, cases[i].says));
		assert_int_equal(s.from[cases[i].setting], SETTINGS_NOBODY);
	}
	assert_int_equal(settings_set(&s, SETTING_MEMORY, "32K", SETTINGS_OPTION), 0);
	assert_int_equal(s.memory_bytes, 32 << 10);
	settings_free(&s);
	(void)state;
}

static void set_socket_relative_made_absolute_but_not_from_file(void **state)
{
	char folder[FIXTURE_PATH_BYTES], path[2 * FIXTURE_PATH_BYTES], *old;
	struct settings s = { 0 };

	old = getcwd(NULL, 0);
	fixture_path(folder, "");
	assert_int_equal(chdir(folder), 0);
	assert_int_equal(settings_set(&s, SETTING_SOCKET, "x.sock", SETTINGS_OPTION),
	                 0);
	assert_int_equal(chdir(old), 0);
	snprintf(path, sizeof(path), "%sx.sock", folder);
	assert_string_equal(s.socket, path);
	assert_int_equal(settings_set(&s, SETTING_SOCKET, "x.sock", SETTINGS_SYSTEM),
	                 -EINVAL);
	memset(path, 'x', 120);
	path[0] = '/';
	path[120] = '\0';
	assert_int_equal(settings_set(&s, SETTING_SOCKET, path, SETTINGS_OPTION),
	                 -ENAMETOOLONG);
	free(old);
	(void)state;
}

static void read_file_every_key_taken(void **state)
{
	struct settings s = { 0 };

	assert_int_equal(read_text(&s,
	                           "# comment = 1\n"
	                           "\n"
	                           "  socket=/x/y.sock  \n"
	                           "memory = 64M\n"
	                           "scheme\t=\tatomic\n"
	                           "barrier = lock\n"
	                           "idle-exit = 2.5\n"
	                           "immutable = /a b/*#1\nimmutable = /c=d\n"
	                           "buffered = yes\n"
	                           "quota = 17\n"
	                           "entries = 32\n"
	                           "files = 5\n"
	                           "keep = 0.25\nlease-pause = 1.5\n"
	                           "holds = 8M\n"
	                           "fast-memory = 16M\n"
	                           "fast = /db/*.sst\n"
	                           "slow = /backup/*\nslow = /log/*\n"
	                           "replicate = /models/*\n"
	                           "policy = kloc\npolicy-tick = 0.05\n"
	                           "pressure = /x/memory.pressure\n"
	                           "trust = 17\nescape = yes\n"
	                           "log = json\nlog-level = debug\n"
	                           "huge-pages = off",
	                           SETTINGS_USER),
	                 0);
	assert_string_equal(s.socket, "/x/y.sock");
	assert_int_equal(s.memory_bytes, 64 << 20);
	assert_int_equal(s.hold_bytes, 8 << 20);
	assert_int_equal(s.fast_bytes, 16 << 20);
	assert_string_equal(s.fast[0], "/db/*.sst");
	assert_string_equal(s.slow[0], "/backup/*");
	assert_string_equal(s.slow[1], "/log/*");
	assert_string_equal(s.replicate[0], "/models/*");
	assert_string_equal(s.policy, "kloc");
	assert_int_equal(s.policy_tick_ms, 50);
	assert_int_equal(s.scheme, LODIC_ATOMIC);
	assert_int_equal(s.barrier, SERVICE_BARRIER_LOCK);
	assert_int_equal(s.idle_exit_ms, 2500);
	assert_string_equal(s.immutable[0], "/a b/*#1");
	assert_string_equal(s.immutable[1], "/c=d");
	assert_null(s.immutable[2]);
	assert_true(s.buffered && s.escape);
	assert_int_equal(s.quota, 17);
	assert_int_equal(s.nr_entries, 32);
	assert_int_equal(s.nr_files, 5);
	assert_int_equal(s.keep_ms + s.lease_pause_ms, 250 + 1500);
	assert_true(s.small_pages);
	assert_string_equal(s.pressure, "/x/memory.pressure");
	assert_int_equal(s.trust, 17);
	assert_true(s.log_json);
	assert_int_equal(s.log_level, SERVICE_DEBUG);
	for (enum setting i = 0; i < NR_SETTINGS; i++)
		assert_int_equal(s.from[i], SETTINGS_USER);
	settings_free(&s);
	(void)state;
}

static void read_file_mistake_names_file_and_line(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "memory = 1M\nmemori = 2M\n",
		  "conf:2: there is no setting 'memori'" },
		{ "\n\nmemory 1M\n", "conf:3: this is not 'key = value'" },
		{ "memory = 1K\n", "conf:1: '1K' is too small" },
		{ "pressure = on\n", "conf:1: 'on' is neither off nor a path" },
		{ "trust = no such user\n", "conf:1: there is no user 'no such user'" },
		{ "log = xml\n", "conf:1: 'xml' is neither text nor json" },
		{ "log-level = 3\n", "conf:1: there is no level '3'" },
		{ "= 1\n", "conf:1: there is no setting ''" },
	};
	char *longest = malloc(10000);
	struct settings told = { 0 };

	for (u32 i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct settings s = { 0 };

		assert_int_equal(read_text(&s, cases[i].text, SETTINGS_USER), -EINVAL);
		assert_non_null(strstr(s.why, cases[i].says));
	}
	memset(longest, 'x', 9999);
	longest[9999] = '\0';
	for (u32 i = 0; i < 2; i++) {
		struct settings s = { 0 };

		assert_int_equal(read_text(&s, longest, SETTINGS_USER), -EINVAL);
		assert_non_null(strstr(s.why, "conf:1: the line is too long"));
		memcpy(longest, "immutable=/", 11);
	}
	/* What no successor could read back. */
	memcpy(longest, "/", 1);
	longest[5500] = '\0';
	assert_int_equal(settings_set(&told, SETTING_IMMUTABLE, longest,
	                              SETTINGS_OPTION),
	                 -EINVAL);
	assert_non_null(strstr(told.why, "longer than any path"));
	free(longest);
	(void)state;
}

static void read_file_doubled_key_warns_and_the_last_counts(void **state)
{
	struct settings s = { 0 };

	assert_int_equal(read_text(&s, "immutable = /a\nquota = 3\nimmutable = /b\n",
	                           SETTINGS_USER),
	                 0);
	assert_string_equal(s.doubled, "");
	settings_free(&s);
	assert_int_equal(read_text(&s,
	                           "memory = 1M\n\n# memory\nquota = 3\nmemory = 2M\n",
	                           SETTINGS_USER),
	                 0);
	assert_int_equal(s.memory_bytes, 2 << 20);
	assert_non_null(strstr(s.doubled, "conf:5: 'memory' stands in line 1 already"));
	/* Another file may say another value. */
	memset(&s, 0, sizeof(s));
	assert_int_equal(read_text(&s, "memory = 1M\n", SETTINGS_USER), 0);
	assert_int_equal(read_text(&s, "memory = 2M\n", SETTINGS_SYSTEM), 0);
	assert_string_equal(s.doubled, "");
	(void)state;
}

static void read_file_that_others_could_write_refused(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	struct settings s = { 0 };

	for (u32 i = 0; i < 2; i++) {
		file_make(path, "memory = 1M\n", i ? 0620 : 0602);
		assert_int_equal(settings_read_file(&s, path, SETTINGS_USER), -EINVAL);
		assert_non_null(strstr(s.why, path));
		unlink(path);
	}
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(settings_read_file(&s, path, SETTINGS_USER), -EINVAL);
	unlink(path);
	if (geteuid() == 0) {
		file_make(path, "memory = 1M\n", 0600);
		assert_int_equal(chown(path, 12345, 12345), 0);
		assert_int_equal(settings_read_file(&s, path, SETTINGS_USER), -EINVAL);
		unlink(path);
	}
	assert_int_equal(s.memory_bytes, 0);
	assert_int_equal(settings_read_file(&s, path, SETTINGS_USER), 0); /* none */
	(void)state;
}

/* What a user who may not enter the folder, or may not read the file, gets. */
static int read_as_another(const char *path)
{
	struct settings s = { 0 };
	pid_t pid = fixture_fork();

	if (pid == 0) {
		if (setresuid(12345, 12345, 12345) != 0)
			_exit(1);
		_exit(-settings_read_file(&s, path, SETTINGS_USER));
	}
	return WEXITSTATUS(fixture_wait(pid));
}

static void read_file_in_closed_folder_is_none(void **state)
{
	char path[FIXTURE_PATH_BYTES], folder[FIXTURE_PATH_BYTES];

	if (geteuid() != 0)
		skip();
	fixture_path(folder, "");
	file_make(path, "memory = 1M\n", 0600);
	assert_int_equal(read_as_another(path), 0);
	assert_int_equal(chmod(folder, 0711), 0);
	assert_int_equal(read_as_another(path), EINVAL);
	assert_int_equal(chmod(folder, 0700), 0);
	unlink(path);
	(void)state;
}

/* The sources may come in any order; the earlier one in the list wins. */
static void set_two_sources_earlier_one_wins(void **state)
{
	for (u32 first = SETTINGS_OPTION; first <= SETTINGS_LEFT; first++)
		for (u32 second = SETTINGS_OPTION; second <= SETTINGS_LEFT; second++) {
			u32 winner = first <= second ? first : second;
			struct settings s = { 0 };
			char value[16];

			if (first == second)
				continue;
			for (u32 i = 0; i < 2; i++) {
				u32 source = i ? second : first;

				snprintf(value, sizeof(value), "%uM", source);
				assert_int_equal(settings_set(&s, SETTING_MEMORY, value,
				                              source),
				                 0);
				snprintf(value, sizeof(value), "/%u", source);
				assert_int_equal(settings_set(&s, SETTING_IMMUTABLE,
				                              value, source),
				                 0);
			}
			assert_int_equal(s.memory_bytes, (u64)winner << 20);
			snprintf(value, sizeof(value), "/%u", winner);
			assert_string_equal(s.immutable[0], value);
			assert_null(s.immutable[1]);
			settings_free(&s);
		}
	(void)state;
}

static void set_overruled_value_still_checked(void **state)
{
	struct settings s = { 0 };

	assert_int_equal(settings_set(&s, SETTING_MEMORY, "1M", SETTINGS_OPTION), 0);
	assert_int_equal(read_text(&s, "memory = much\n", SETTINGS_SYSTEM), -EINVAL);
	assert_int_equal(s.memory_bytes, 1 << 20);
	(void)state;
}

static void gather_environment_taken_unless_privileged(void **state)
{
	struct settings s = { 0 };

	setenv("LODIC_SOCKET", "/x/env.sock", 1);
	setenv("LODIC_MEMORY", "3M", 1);
	assert_int_equal(settings_gather(&s, true), 0);
	assert_string_equal(s.socket, "");
	assert_int_equal(s.memory_bytes, 0);
	assert_int_equal(settings_gather(&s, false), 0);
	assert_string_equal(s.socket, "/x/env.sock");
	assert_int_equal(s.memory_bytes, 3 << 20);
	setenv("LODIC_MEMORY", "lots", 1);
	assert_int_equal(settings_gather(&s, true), 0);
	assert_int_equal(settings_gather(&s, false), -EINVAL);
	assert_non_null(strstr(s.why, "LODIC_MEMORY: 'lots' is not a size"));
	unsetenv("LODIC_SOCKET");
	unsetenv("LODIC_MEMORY");
	settings_free(&s);
	(void)state;
}

static void left_path_of(char path[FIXTURE_PATH_BYTES], const struct settings *s)
{
	snprintf(path, FIXTURE_PATH_BYTES, "%.90s.conf", s->socket);
}

/* Blocks and holds together are the memory. */
static void split_memory_quarter_or_what_was_said(void **state)
{
	static const struct {
		const char *memory, *holds; /* NULL: not said */
		uint64_t cache_bytes, hold_bytes;
	} cases[] = {
		{ "16M", NULL, 12 << 20, 4 << 20 },
		{ "4M", NULL, 4 << 20, 0 },
		{ "4M", "1M", 3 << 20, 1 << 20 },
		{ "64M", "0", 64 << 20, 0 },
		/* As much as leaves something for blocks; with parts that is refused. */
		{ "64M", "64M", 32 << 10, (64 << 20) - (32 << 10) },
		{ "64M", "7T", 32 << 10, (64 << 20) - (32 << 10) },
	};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint64_t cache_bytes = 0, hold_bytes = 0;
		struct settings s = { 0 };
		int err;

		if (cases[i].memory)
			settings_set(&s, SETTING_MEMORY, cases[i].memory,
			             SETTINGS_OPTION);
		if (cases[i].holds)
			settings_set(&s, SETTING_HOLDS, cases[i].holds,
			             SETTINGS_OPTION);
		err = settings_split(&s, &cache_bytes, &hold_bytes);
		assert_int_equal(err, 0);
		assert_int_equal(cache_bytes, cases[i].cache_bytes);
		assert_int_equal(hold_bytes, cases[i].hold_bytes);
		settings_set(&s, SETTING_FAST_MEMORY, "1M", SETTINGS_OPTION);
		err = settings_split(&s, &cache_bytes, &hold_bytes);
		assert_int_equal(err, cases[i].cache_bytes > 32 << 10 ? 0 : -EINVAL);
		if (err)
			assert_non_null(strstr(s.why, "leave no room for blocks"));
	}
	(void)state;
}

static void leave_what_was_told_taken_by_successor(void **state)
{
	char socket[FIXTURE_PATH_BYTES], path[FIXTURE_PATH_BYTES];
	struct settings s = { 0 }, next = { 0 };
	struct stat st;

	fixture_path(socket, "left.sock");
	settings_set(&s, SETTING_SOCKET, socket, SETTINGS_OPTION);
	settings_set(&s, SETTING_MEMORY, "64M", SETTINGS_OPTION);
	settings_set(&s, SETTING_SCHEME, "atomic", SETTINGS_LEFT);
	settings_set(&s, SETTING_IMMUTABLE, "/a b", SETTINGS_OPTION);
	settings_set(&s, SETTING_IMMUTABLE, "/c", SETTINGS_OPTION);
	settings_set(&s, SETTING_KEEP, "0.25", SETTINGS_ENVIRONMENT);
	settings_set(&s, SETTING_LEASE_PAUSE, "0", SETTINGS_OPTION);
	settings_set(&s, SETTING_BUFFERED, "yes", SETTINGS_OPTION);
	settings_set(&s, SETTING_HUGE_PAGES, "off", SETTINGS_OPTION);
	settings_set(&s, SETTING_ENTRIES, "32", SETTINGS_OPTION);
	settings_set(&s, SETTING_HOLDS, "0", SETTINGS_OPTION);
	settings_set(&s, SETTING_FAST_MEMORY, "16M", SETTINGS_OPTION);
	settings_set(&s, SETTING_SLOW, "/d/*", SETTINGS_OPTION);
	settings_set(&s, SETTING_REPLICATE, "/m/*", SETTINGS_OPTION);
	settings_set(&s, SETTING_POLICY, "tpp", SETTINGS_OPTION);
	settings_set(&s, SETTING_POLICY_TICK, "0.5", SETTINGS_OPTION);
	settings_set(&s, SETTING_IDLE_EXIT, "7", SETTINGS_OPTION);
	settings_set(&s, SETTING_QUOTA, "9", SETTINGS_USER);
	settings_set(&s, SETTING_FILES, "9", SETTINGS_SYSTEM);
	assert_int_equal(settings_leave(&s), 0);
	left_path_of(path, &s);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);

	settings_set(&next, SETTING_SOCKET, socket, SETTINGS_OPTION);
	settings_set(&next, SETTING_ENTRIES, "16", SETTINGS_OPTION);
	assert_int_equal(settings_take_left(&next), 0);
	assert_int_equal(next.memory_bytes, 64 << 20);
	assert_int_equal(next.scheme, LODIC_ATOMIC);
	assert_string_equal(next.immutable[0], "/a b");
	assert_string_equal(next.immutable[1], "/c");
	assert_int_equal(next.fast_bytes, 16 << 20);
	assert_string_equal(next.slow[0], "/d/*");
	assert_null(next.fast[0]);
	assert_string_equal(next.replicate[0], "/m/*");
	assert_string_equal(next.policy, "tpp");
	assert_int_equal(next.policy_tick_ms, 500);
	assert_int_equal(next.keep_ms, 250);
	assert_int_equal(next.from[SETTING_LEASE_PAUSE], SETTINGS_LEFT);
	assert_int_equal(next.lease_pause_ms, 0);
	assert_true(next.buffered);
	assert_true(next.small_pages);
	assert_int_equal(next.nr_entries, 16);
	assert_int_equal(next.from[SETTING_HOLDS], SETTINGS_LEFT);
	assert_int_equal(next.from[SETTING_IDLE_EXIT], SETTINGS_NOBODY);
	/* What stands in files is not left: a line that is removed must be gone. */
	assert_int_equal(next.from[SETTING_QUOTA], SETTINGS_NOBODY);
	assert_int_equal(next.from[SETTING_FILES], SETTINGS_NOBODY);
	settings_free(&s);
	settings_free(&next);
	(void)state;
}

static void leave_nothing_told_file_removed(void **state)
{
	char socket[FIXTURE_PATH_BYTES], path[FIXTURE_PATH_BYTES];
	struct settings s = { 0 };

	fixture_path(socket, "bare.sock");
	settings_set(&s, SETTING_SOCKET, socket, SETTINGS_OPTION);
	left_path_of(path, &s);
	close(fixture_open(path, O_WRONLY | O_CREAT));
	assert_int_equal(settings_leave(&s), 0);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(settings_leave(&s), 0);
	(void)state;
}

static void leave_folder_gone_says_which_file(void **state)
{
	struct settings s = { 0 };

	settings_set(&s, SETTING_SOCKET, "/nonexistent/x.sock", SETTINGS_OPTION);
	settings_set(&s, SETTING_MEMORY, "1M", SETTINGS_OPTION);
	assert_int_equal(settings_leave(&s), -ENOENT);
	assert_non_null(strstr(s.why, "/nonexistent/x.sock.conf cannot be written"));
	(void)state;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(value_bytes_forms_read_or_refused),
		cmocka_unit_test(value_seconds_forms_read_or_refused),
		cmocka_unit_test(set_value_not_valid_refused_with_limits),
		cmocka_unit_test(set_socket_relative_made_absolute_but_not_from_file),
		cmocka_unit_test(read_file_every_key_taken),
		cmocka_unit_test(read_file_mistake_names_file_and_line),
		cmocka_unit_test(read_file_doubled_key_warns_and_the_last_counts),
		cmocka_unit_test(read_file_that_others_could_write_refused),
		cmocka_unit_test(read_file_in_closed_folder_is_none),
		cmocka_unit_test(set_two_sources_earlier_one_wins),
		cmocka_unit_test(set_overruled_value_still_checked),
		cmocka_unit_test(gather_environment_taken_unless_privileged),
		cmocka_unit_test(split_memory_quarter_or_what_was_said),
		cmocka_unit_test(leave_what_was_told_taken_by_successor),
		cmocka_unit_test(leave_nothing_told_file_removed),
		cmocka_unit_test(leave_folder_gone_says_which_file),
	};

	fixture_begin(argc, argv, NULL);
	unsetenv("LODIC_SOCKET");
	unsetenv("LODIC_MEMORY");
	return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}
