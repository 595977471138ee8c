/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the rows of lib/settings_list.h say about each setting: its successor, and its default. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/settings.h"
#include "tests/support/cache_fixture.h"

#define NR_NOT_LEFT 5u /* socket, idle-exit, log, log-level, trust */

/* A value that the setting takes. */
static void say_something(struct settings *s, enum setting setting)
{
	static const char *const values[] = {
		"/x/y", "48K",    "7",    "yes",   "off",
		"json", "hazard", "lock", "debug", "kloc"
	};

	for (u32 i = 0; i < sizeof(values) / sizeof(*values); i++)
		if (settings_set(s, setting, values[i], SETTINGS_OPTION) == 0)
			return;
	fail_msg("no value here fits %s", settings_name(setting));
}

static void leave_each_setting_as_its_row_says(void **state)
{
	char socket[FIXTURE_PATH_BYTES];
	u32 nr_left = 0;

	fixture_path(socket, "each.sock");
	for (enum setting i = 0; i < NR_SETTINGS; i++) {
		struct settings s = { 0 }, next = { 0 };

		strcpy(s.socket, socket);
		if (i != SETTING_SOCKET)
			say_something(&s, i);
		assert_int_equal(settings_leave(&s), 0);
		strcpy(next.socket, socket);
		assert_int_equal(settings_take_left(&next), 0);
		assert_int_equal(next.from[i],
		                 settings_is_left(i) ? SETTINGS_LEFT : SETTINGS_NOBODY);
		assert_int_equal(settings_equal(&s, &next, i),
		                 settings_is_left(i) || i == SETTING_SOCKET);
		nr_left += settings_is_left(i);
		settings_free(&s);
		settings_free(&next);
	}
	assert_int_equal(nr_left, NR_SETTINGS - NR_NOT_LEFT);
	(void)state;
}

/* On SIGHUP the service compares what it was told with what it is told now. */
static void equal_default_said_is_as_good_as_nothing(void **state)
{
	static const struct {
		enum setting setting;
		const char *value;
		bool equal;
	} cases[] = {
		{ SETTING_SCHEME, "lodic", true },
		{ SETTING_SCHEME, "frozen", false },
		{ SETTING_FILES, "4096", true },
		{ SETTING_FAST_MEMORY, "0", true },
		{ SETTING_LEASE_PAUSE, "10", true },
		{ SETTING_LEASE_PAUSE, "0", false },
		{ SETTING_LOG_LEVEL, "info", true },
		{ SETTING_LOG_LEVEL, "error", false },
		{ SETTING_BUFFERED, "no", true },
		{ SETTING_HUGE_PAGES, "off", false },
		{ SETTING_POLICY, "none", true },
		{ SETTING_POLICY_TICK, "1", true },
		{ SETTING_HOLDS, "0", false },
		{ SETTING_KEEP, "0", false },
		{ SETTING_IDLE_EXIT, "0", false },
		{ SETTING_IMMUTABLE, "/a", false },
		{ SETTING_PRESSURE, "off", false },
	};

	for (u32 i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct settings said = { 0 }, nothing = { 0 };

		assert_int_equal(settings_set(&said, cases[i].setting, cases[i].value,
		                              SETTINGS_SYSTEM),
		                 0);
		if (settings_equal(&said, &nothing, cases[i].setting) != cases[i].equal)
			fail_msg("%s = %s", settings_name(cases[i].setting),
			         cases[i].value);
		settings_free(&said);
	}
	(void)state;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leave_each_setting_as_its_row_says),
		cmocka_unit_test(equal_default_said_is_as_good_as_nothing),
	};

	fixture_begin(argc, argv, NULL);
	return cmocka_run_group_tests_name("settings_list", tests, NULL, NULL);
}
