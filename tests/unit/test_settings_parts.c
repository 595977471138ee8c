/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Settings that go together: fast memory and all memory, a policy and its two tiers. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/kloc/kloc.h"
#include "lib/settings.h"

/* One source that says what does not fit is refused. Two that do not fit together give a smaller
 * fast tier, and a warning. */
static void check_fast_larger_than_cache_refused_or_less(void **state)
{
	static const struct {
		enum settings_source memory, fast; /* SETTINGS_NOBODY: not said */
		const char *fast_says;
		bool refused;
		uint64_t fast_mib;
	} cases[] = {
		{ SETTINGS_OPTION, SETTINGS_OPTION, "20M", false, 20 },
		{ SETTINGS_OPTION, SETTINGS_OPTION, "32M", true, 0 },
		{ SETTINGS_USER, SETTINGS_USER, "40M", true, 0 },
		{ SETTINGS_NOBODY, SETTINGS_SYSTEM, "256M", true, 0 },
		{ SETTINGS_LEFT, SETTINGS_LEFT, "40M", false, 28 },
		{ SETTINGS_ENVIRONMENT, SETTINGS_USER, "40M", false, 28 },
		{ SETTINGS_USER, SETTINGS_LEFT, "40M", false, 28 },
		{ SETTINGS_LEFT, SETTINGS_SYSTEM, "40M", false, 28 },
	};
	uint64_t cache_bytes, hold_bytes, fast_bytes;

	(void)state;
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct settings s = { 0 };

		settings_set(&s, SETTING_HOLDS, "0", SETTINGS_OPTION);
		if (cases[i].memory)
			settings_set(&s, SETTING_MEMORY, "32M", cases[i].memory);
		settings_set(&s, SETTING_FAST_MEMORY, cases[i].fast_says,
		             cases[i].fast);
		assert_int_equal(settings_split(&s, &cache_bytes, &hold_bytes), 0);
		assert_int_equal(settings_check_fast(&s, cache_bytes, &fast_bytes),
		                 cases[i].refused ? -EINVAL : 0);
		if (!cases[i].refused)
			assert_int_equal(fast_bytes, cases[i].fast_mib << 20);
		assert_int_equal(!*s.why, fast_bytes == 20 << 20);
		if (*s.why)
			assert_non_null(strstr(s.why, "`fast-memory'"));
		assert_int_equal(settings_check(&s), cases[i].refused ? -EINVAL : 0);
	}
}

static void check_policy_without_fast_memory_names_source(void **state)
{
	const char *policy;

	(void)state;
	for (u32 i = SETTINGS_OPTION; i <= SETTINGS_LEFT; i++) {
		struct settings s = { 0 };

		settings_set(&s, SETTING_POLICY, "kloc", (enum settings_source)i);
		assert_int_equal(settings_check_placer(&s, 0, &policy),
		                 i == SETTINGS_LEFT ? 0 : -EINVAL);
		assert_null(policy);
		assert_non_null(strstr(s.why, "`policy = kloc'"));
		if (i == SETTINGS_SYSTEM)
			assert_non_null(strstr(s.why, SETTINGS_SYSTEM_FILE));
		assert_int_equal(settings_check_placer(&s, 1, &policy), 0);
		assert_string_equal(policy, "kloc");
	}
}

/* The library does not link core/kloc, and lists its policies. */
static void set_policy_each_of_core_kloc_but_the_oracle(void **state)
{
	struct settings s = { 0 };

	(void)state;
	assert_int_equal(SETTINGS_NR_POLICIES, KLOC_NR_POLICIES);
	for (enum kloc_policy_id i = 0; i < KLOC_NR_POLICIES; i++)
		assert_int_equal(settings_set(&s, SETTING_POLICY, kloc_policy_name(i),
		                              SETTINGS_OPTION),
		                 i == KLOC_POLICY_ORACLE ? -EINVAL : 0);
	assert_int_equal(settings_set(&s, SETTING_POLICY, "none", SETTINGS_OPTION), 0);
	assert_int_equal(settings_set(&s, SETTING_POLICY, "no", SETTINGS_OPTION),
	                 -EINVAL);
	assert_non_null(strstr(s.why, "there is no policy 'no'"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_fast_larger_than_cache_refused_or_less),
		cmocka_unit_test(check_policy_without_fast_memory_names_source),
		cmocka_unit_test(set_policy_each_of_core_kloc_but_the_oracle),
	};

	return cmocka_run_group_tests_name("settings_parts", tests, NULL, NULL);
}
