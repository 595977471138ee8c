/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Settings that go together: the parts of the memory, and what places blocks there. Contract:
 * settings.h. */
#include "lib/settings.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/cgroup.h"
#include "lib/service/service.h"

#define HOLDS_PART 4u
#define HOLDS_LEAST_MEMORY ((uint64_t)8 << 20)
#define KIB(bytes) ((unsigned long long)(bytes) >> 10)

/* core/kloc has them. The library, which reads settings, does not link that. */
const char *const settings_policies[SETTINGS_NR_POLICIES] = {
	"none", "all-fast", "all-slow", "naive",     "nimble",    "nimble++",
	"tpp",  "kloc",     "autonuma", "kloc-numa", "replicate", "kloc-nomigration"
};

static const char *const settings_sources[] = {
	[SETTINGS_NOBODY] = "the default",
	[SETTINGS_OPTION] = "an option",
	[SETTINGS_ENVIRONMENT] = "the environment",
	[SETTINGS_USER] = "~/.config/lodic.conf",
	[SETTINGS_SYSTEM] = SETTINGS_SYSTEM_FILE,
	[SETTINGS_LEFT] = "SOCKET.conf",
};

int settings_refuse(struct settings *s, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(s->why, sizeof(s->why), format, args);
	va_end(args);
	return -EINVAL;
}

uint64_t settings_memory(const struct settings *s)
{
	if (s->memory_bytes)
		return s->memory_bytes;
	return s->fast_bytes ? SERVICE_DEFAULT_CACHE_BYTES : cgroup_default_budget();
}

int settings_split(struct settings *s, uint64_t *ret_cache_bytes,
                   uint64_t *ret_hold_bytes)
{
	uint64_t all = settings_memory(s);
	uint64_t holds = all < HOLDS_LEAST_MEMORY ? 0 : all / HOLDS_PART;

	if (s->from[SETTING_HOLDS])
		holds = s->hold_bytes;
	if (holds > all - SERVICE_MIN_CACHE_BYTES && s->fast_bytes == 0)
		holds = all - SERVICE_MIN_CACHE_BYTES;
	if (holds > all - SERVICE_MIN_CACHE_BYTES)
		return settings_refuse(s,
		                       "holds of %llu KiB leave no room for blocks in "
		                       "a memory of %llu KiB",
		                       KIB(holds), KIB(all));
	*ret_cache_bytes = all - holds;
	*ret_hold_bytes = holds;
	return 0;
}

/* Values of two sources may not fit together, although each was right where it was said: a
 * resize, or LODIC_MEMORY, has made the memory smaller. Then no service must fail to start. */
int settings_check_fast(struct settings *s, uint64_t cache_bytes,
                        uint64_t *ret_fast_bytes)
{
	const char *source = settings_sources[s->from[SETTING_FAST_MEMORY]];
	bool one = !s->from[SETTING_MEMORY] ||
	           s->from[SETTING_MEMORY] == s->from[SETTING_FAST_MEMORY];

	*s->why = '\0';
	*ret_fast_bytes = s->fast_bytes;
	if (s->fast_bytes < cache_bytes)
		return 0;
	*ret_fast_bytes = SERVICE_FAST_MOST(cache_bytes);
	settings_refuse(
		s,
		"`fast-memory' of %llu KiB (%s) is as large as the whole cache, "
		"or larger: blocks have %llu KiB, which is `memory' (%s) without "
		"its part for holds",
		KIB(s->fast_bytes), source, KIB(cache_bytes),
		settings_sources[s->from[SETTING_MEMORY]]);
	return one && s->from[SETTING_FAST_MEMORY] != SETTINGS_LEFT ? -EINVAL : 0;
}

int settings_check_placer(struct settings *s, uint64_t fast_bytes,
                          const char **ret_policy)
{
	*s->why = '\0';
	*ret_policy = !*s->policy || strcmp(s->policy, "none") == 0 ? NULL : s->policy;
	if (!*ret_policy || fast_bytes > 0)
		return 0;
	settings_refuse(s,
	                "`policy = %s' (%s) places blocks in two tiers: say how large "
	                "the fast one is, by `fast-memory'",
	                s->policy, settings_sources[s->from[SETTING_POLICY]]);
	*ret_policy = NULL;
	return s->from[SETTING_POLICY] != SETTINGS_LEFT ? -EINVAL : 0;
}

int settings_check(struct settings *s)
{
	uint64_t cache_bytes = 0, hold_bytes, fast_bytes = 0;
	const char *policy;
	int err = settings_split(s, &cache_bytes, &hold_bytes);

	if (!err)
		err = settings_check_fast(s, cache_bytes, &fast_bytes);
	return err ? err : settings_check_placer(s, fast_bytes, &policy);
}
