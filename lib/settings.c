/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Values, and the order of those who say them. Contract: settings.h. */
#define _GNU_SOURCE
#include "lib/settings.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/port.h"
#include "lib/service/service.h"
#include "lib/value.h"

static const char *const settings_schemes[] = { "lodic", "atomic", "frozen", "hazard" };
#define NR_SCHEMES (sizeof(settings_schemes) / sizeof(*settings_schemes))

static const char *const settings_barriers[] = { "auto", "light", "lock" };
#define NR_BARRIERS (sizeof(settings_barriers) / sizeof(*settings_barriers))

static const char *const settings_logs[] = { "text", "json" };
#define NR_LOGS (sizeof(settings_logs) / sizeof(*settings_logs))

/* In the order of enum service_level. */
static const char *const settings_levels[] = { "error", "warning", "info", "debug" };
#define NR_LEVELS (sizeof(settings_levels) / sizeof(*settings_levels))

static const struct {
	const char *name;
	uint64_t least, most; /* of a number */
} settings_known[NR_SETTINGS] = {
	[SETTING_SOCKET] = { .name = "socket" },
	[SETTING_MEMORY] = { "memory", SERVICE_MIN_CACHE_BYTES,
	                     SERVICE_MAX_CACHE_BYTES },
	[SETTING_SCHEME] = { .name = "scheme" },
	[SETTING_BARRIER] = { .name = "barrier" },
	[SETTING_IDLE_EXIT] = { .name = "idle-exit" },
	[SETTING_IMMUTABLE] = { .name = "immutable" },
	[SETTING_BUFFERED] = { .name = "buffered" },
	[SETTING_QUOTA] = { "quota", 1, UINT32_MAX },
	[SETTING_ENTRIES] = { "entries", 1, UINT32_MAX },
	[SETTING_FILES] = { "files", 1, UINT32_MAX },
	[SETTING_KEEP] = { .name = "keep" },
	[SETTING_LEASE_PAUSE] = { .name = "lease-pause" },
	[SETTING_HUGE_PAGES] = { .name = "huge-pages" },
	[SETTING_HOLDS] = { "holds", 0, SERVICE_MAX_CACHE_BYTES },
	[SETTING_FAST_MEMORY] = { "fast-memory", 0, SERVICE_MAX_CACHE_BYTES },
	[SETTING_FAST] = { .name = "fast" },
	[SETTING_SLOW] = { .name = "slow" },
	[SETTING_REPLICATE] = { .name = "replicate" },
	[SETTING_POLICY] = { .name = "policy" },
	[SETTING_POLICY_TICK] = { .name = "policy-tick" },
	[SETTING_PRESSURE] = { .name = "pressure" },
	[SETTING_ESCAPE] = { .name = "escape" },
	[SETTING_LOG] = { .name = "log" },
	[SETTING_LOG_LEVEL] = { .name = "log-level" },
	[SETTING_TRUST] = { .name = "trust" },
};

enum settings_globs settings_globs(enum setting setting)
{
	switch (setting) {
	case SETTING_IMMUTABLE: return GLOBS_IMMUTABLE;
	case SETTING_FAST: return GLOBS_FAST;
	case SETTING_SLOW: return GLOBS_SLOW;
	case SETTING_REPLICATE: return GLOBS_REPLICATE;
	default: return NR_GLOBS;
	}
}

static void settings_free_globs(struct settings *s, enum settings_globs list)
{
	for (unsigned int i = 0; i < SETTINGS_MAX_GLOBS; i++) {
		port_free(s->globs[list][i]);
		s->globs[list][i] = NULL;
	}
}

void settings_free(struct settings *s)
{
	for (enum settings_globs list = 0; list < NR_GLOBS; list++)
		settings_free_globs(s, list);
}

int settings_copy(struct settings *s, const struct settings *from)
{
	int err = 0;

	*s = *from;
	for (enum settings_globs list = 0; list < NR_GLOBS; list++)
		for (unsigned int i = 0; from->globs[list][i]; i++) {
			s->globs[list][i] = port_text(from->globs[list][i]);
			if (!s->globs[list][i])
				err = -ENOMEM;
		}
	return err;
}

static bool settings_equal_globs(char *const *a, char *const *b)
{
	while (*a && *b && strcmp(*a, *b) == 0)
		a++, b++;
	return !*a && !*b;
}

bool settings_equal(const struct settings *a, const struct settings *b,
                    enum setting setting)
{
	switch (setting) {
	case SETTING_SOCKET:
		/* The default is not looked for again. */
		return a->from[setting] == b->from[setting] &&
		       (!a->from[setting] || strcmp(a->socket, b->socket) == 0);
	case SETTING_MEMORY: return a->memory_bytes == b->memory_bytes;
	case SETTING_SCHEME: return a->scheme == b->scheme;
	case SETTING_BARRIER: return a->barrier == b->barrier;
	case SETTING_IDLE_EXIT: return a->idle_exit_ms == b->idle_exit_ms;
	case SETTING_IMMUTABLE:
	case SETTING_FAST:
	case SETTING_SLOW:
	case SETTING_REPLICATE:
		return settings_equal_globs(a->globs[settings_globs(setting)],
		                            b->globs[settings_globs(setting)]);
	case SETTING_BUFFERED: return a->buffered == b->buffered;
	case SETTING_QUOTA: return a->quota == b->quota;
	case SETTING_ENTRIES: return a->entries == b->entries;
	case SETTING_FILES: return a->files == b->files;
	case SETTING_KEEP: return a->keep_ms == b->keep_ms;
	case SETTING_LEASE_PAUSE:
		return a->from[setting] == b->from[setting] &&
		       a->lease_pause_ms == b->lease_pause_ms;
	case SETTING_HUGE_PAGES: return a->small_pages == b->small_pages;
	case SETTING_HOLDS:
		return a->from[setting] == b->from[setting] &&
		       a->hold_bytes == b->hold_bytes;
	case SETTING_FAST_MEMORY: return a->fast_bytes == b->fast_bytes;
	case SETTING_POLICY: return strcmp(a->policy, b->policy) == 0;
	case SETTING_POLICY_TICK: return a->policy_tick_ms == b->policy_tick_ms;
	case SETTING_PRESSURE: return strcmp(a->pressure, b->pressure) == 0;
	case SETTING_ESCAPE: return a->escape == b->escape;
	case SETTING_LOG: return a->log_json == b->log_json;
	case SETTING_LOG_LEVEL:
		return a->from[setting] == b->from[setting] &&
		       a->log_level == b->log_level;
	case SETTING_TRUST: return a->trust == b->trust;
	case NR_SETTINGS: break;
	}
	return true;
}

const char *settings_name(enum setting setting)
{
	return settings_known[setting].name;
}

const char *settings_scheme_name(uint32_t scheme)
{
	return scheme < NR_SCHEMES ? settings_schemes[scheme] : NULL;
}

const char *settings_barrier_name(uint32_t barrier)
{
	return barrier < NR_BARRIERS ? settings_barriers[barrier] : NULL;
}

const char *settings_level_name(uint32_t level)
{
	return level < NR_LEVELS ? settings_levels[level] : NULL;
}

bool settings_privileged(void)
{
	return port_is_privileged();
}

/* Programs change their folder; the path must lead to the same socket afterwards. */
static int settings_take_socket(struct settings *s, const char *value, bool file,
                                char ret_path[SETTINGS_SOCKET_BYTES])
{
	char folder[PATH_MAX] = "";
	int err = 0;

	if (!*value)
		return settings_refuse(s, "the socket's path is empty");
	if (*value != '/' && file)
		return settings_refuse(s, "'%s' does not begin with /", value);
	if (*value != '/')
		err = port_folder(folder, sizeof(folder));
	if (err)
		return settings_refuse(s, "there is no folder to look for '%s' in: %s",
		                       value, strerror(-err));
	if (snprintf(ret_path, SETTINGS_SOCKET_BYTES, "%s%s%s", folder,
	             *value == '/' || !folder[1] ? "" : "/",
	             value) < SETTINGS_SOCKET_BYTES)
		return 0;
	settings_refuse(
		s, "'%s' is too long: a socket's path, from / on, has at most %d bytes",
		value, SETTINGS_SOCKET_BYTES - 1);
	return -ENAMETOOLONG;
}

static int settings_take_memory(struct settings *s, const char *value, uint64_t *ret)
{
	uint64_t n;
	int err = value_parse_bytes(value, &n);

	if (err == -EINVAL)
		return settings_refuse(s, "'%s' is not a size; write it as 256M or 4G",
		                       value);
	if (err || n < SERVICE_MIN_CACHE_BYTES || n > SERVICE_MAX_CACHE_BYTES)
		return settings_refuse(
			s, "'%s' is too %s: a cache has 32K at least, and less than 8T",
			value, !err && n < SERVICE_MIN_CACHE_BYTES ? "small" : "large");
	*ret = n;
	return 0;
}

/* A part of the memory, which may be none. */
static int settings_take_part(struct settings *s, enum setting setting,
                              const char *value, uint64_t *ret)
{
	uint64_t n;
	int err = strcmp(value, "0") == 0 ? 0 : value_parse_bytes(value, &n);

	if (err == -EINVAL)
		return settings_refuse(
			s, "'%s' is not a size; write it as 256M or 4G, or 0", value);
	n = strcmp(value, "0") == 0 ? 0 : n;
	if (err || n > SERVICE_MAX_CACHE_BYTES)
		return settings_refuse(s, "'%s' is too large: %s has less than 8T",
		                       value, settings_name(setting));
	*ret = n;
	return 0;
}

static bool settings_find(const char *const *names, size_t nr, const char *value,
                          uint64_t *ret)
{
	for (*ret = 0; *ret < nr; ++*ret)
		if (strcmp(names[*ret], value) == 0)
			return true;
	return false;
}

static int settings_take_word(struct settings *s, enum setting setting,
                              const char *value, uint64_t *ret)
{
	switch (setting) {
	case SETTING_SCHEME:
		if (settings_find(settings_schemes, NR_SCHEMES, value, ret))
			return 0;
		return settings_refuse(s,
		                       "there is no scheme '%s'; choose lodic, atomic, "
		                       "frozen or hazard",
		                       value);
	case SETTING_BARRIER:
		if (settings_find(settings_barriers, NR_BARRIERS, value, ret))
			return 0;
		return settings_refuse(
			s, "there is no barrier '%s'; choose auto, light or lock",
			value);
	case SETTING_LOG:
		if (settings_find(settings_logs, NR_LOGS, value, ret))
			return 0;
		return settings_refuse(s, "'%s' is neither text nor json", value);
	default:
		if (settings_find(settings_levels, NR_LEVELS, value, ret))
			return 0;
		return settings_refuse(s,
		                       "there is no level '%s'; choose error, warning, "
		                       "info or debug",
		                       value);
	}
}

static int settings_take_user(struct settings *s, const char *value, uint64_t *ret)
{
	uint32_t user;

	if (value_parse_number(value, 0, SETTINGS_NO_USER - 1, ret) == 0)
		return 0;
	if (port_user_named(value, &user) != 0)
		return settings_refuse(s, "there is no user '%s'", value);
	*ret = user;
	return 0;
}

static int settings_take_yes(struct settings *s, const char *value, uint64_t *ret)
{
	if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
		return settings_refuse(s, "'%s' is neither yes nor no", value);
	*ret = *value == 'y';
	return 0;
}

static int settings_take_huge_pages(struct settings *s, const char *value,
                                    uint64_t *ret)
{
	if (strcmp(value, "auto") != 0 && strcmp(value, "off") != 0)
		return settings_refuse(s, "'%s' is neither auto nor off", value);
	*ret = *value == 'o';
	return 0;
}

/* Is value, which is not empty, the same when it has stood on a line of a file? */
static bool settings_reads_back(const char *value)
{
	return !strchr(value, '\n') &&
	       !isspace((unsigned char)value[strlen(value) - 1]);
}

static int settings_check_pressure(struct settings *s, const char *value)
{
	if (*value != '/' && strcmp(value, "off") != 0)
		return settings_refuse(
			s, "'%s' is neither off nor a path that begins with /", value);
	if (strlen(value) >= sizeof(s->pressure))
		return settings_refuse(s, "'%s' is too long", value);
	if (!settings_reads_back(value))
		return settings_refuse(
			s, "'%s' has a line's end in it, or ends with a blank", value);
	return 0;
}

static int settings_check_policy(struct settings *s, const char *value)
{
	uint64_t i;

	if (settings_find(settings_policies, SETTINGS_NR_POLICIES, value, &i))
		return 0;
	return settings_refuse(s,
	                       "there is no policy '%.40s' for a service; doc/tier.md "
	                       "has the names, as kloc, or none",
	                       value);
}

static int settings_check_glob(struct settings *s, const char *glob)
{
	size_t n = strlen(glob);

	if (n == 0)
		return settings_refuse(s, "the glob is empty");
	if (*glob != '/')
		return settings_refuse(s,
		                       "'%s' would match no file: a glob stands for "
		                       "whole paths, so it begins with /",
		                       glob);
	if (n >= PATH_MAX)
		return settings_refuse(s, "'%.100s...' is longer than any path", glob);
	if (!settings_reads_back(glob))
		return settings_refuse(s,
		                       "'%s' has a line's end in it, or ends with a "
		                       "blank; write ? for that character",
		                       glob);
	return 0;
}

static int settings_add_glob(struct settings *s, char **globs, const char *glob)
{
	unsigned int nr = 0;

	while (globs[nr])
		nr++;
	if (nr == SETTINGS_MAX_GLOBS)
		return settings_refuse(s, "at most %d globs can be given",
		                       SETTINGS_MAX_GLOBS);
	globs[nr] = port_text(glob);
	return globs[nr] ? 0 : -ENOMEM;
}

static int settings_take_number(struct settings *s, enum setting setting,
                                const char *value, uint64_t *ret)
{
	uint64_t least = settings_known[setting].least;
	uint64_t most = settings_known[setting].most;

	if (value_parse_number(value, least, most, ret) == 0)
		return 0;
	return settings_refuse(s, "'%s' is not a number from %llu to %llu", value,
	                       (unsigned long long)least, (unsigned long long)most);
}

static int settings_take_ms(struct settings *s, enum setting setting, const char *value,
                            uint64_t *ret)
{
	uint64_t n;

	if (value_parse_ms(value, &n) != 0)
		return settings_refuse(
			s, "'%s' is not a number of seconds, at most 1000000000",
			value);
	if (n == 0 && setting == SETTING_POLICY_TICK)
		return settings_refuse(s, "a tick takes 0.001 seconds at least");
	*ret = n;
	return 0;
}

/* Reads any value that is one number; that also covers a word of a list. */
static int settings_parse(struct settings *s, enum setting setting, const char *value,
                          uint64_t *ret)
{
	switch (setting) {
	case SETTING_MEMORY: return settings_take_memory(s, value, ret);
	case SETTING_HOLDS:
	case SETTING_FAST_MEMORY: return settings_take_part(s, setting, value, ret);
	case SETTING_SCHEME:
	case SETTING_BARRIER:
	case SETTING_LOG:
	case SETTING_LOG_LEVEL: return settings_take_word(s, setting, value, ret);
	case SETTING_BUFFERED:
	case SETTING_ESCAPE: return settings_take_yes(s, value, ret);
	case SETTING_HUGE_PAGES: return settings_take_huge_pages(s, value, ret);
	case SETTING_IDLE_EXIT:
	case SETTING_KEEP:
	case SETTING_LEASE_PAUSE:
	case SETTING_POLICY_TICK: return settings_take_ms(s, setting, value, ret);
	case SETTING_IMMUTABLE:
	case SETTING_FAST:
	case SETTING_SLOW:
	case SETTING_REPLICATE: return settings_check_glob(s, value);
	case SETTING_POLICY: return settings_check_policy(s, value);
	case SETTING_PRESSURE: return settings_check_pressure(s, value);
	case SETTING_TRUST: return settings_take_user(s, value, ret);
	default: return settings_take_number(s, setting, value, ret);
	}
}

static int settings_store(struct settings *s, enum setting setting, const char *value,
                          uint64_t n)
{
	switch (setting) {
	case SETTING_SOCKET: strcpy(s->socket, value); return 0;
	case SETTING_MEMORY: s->memory_bytes = n; return 0;
	case SETTING_SCHEME: s->scheme = (uint32_t)n; return 0;
	case SETTING_BARRIER: s->barrier = (uint32_t)n; return 0;
	case SETTING_IDLE_EXIT: s->idle_exit_ms = n; return 0;
	case SETTING_IMMUTABLE:
	case SETTING_FAST:
	case SETTING_SLOW:
	case SETTING_REPLICATE:
		return settings_add_glob(s, s->globs[settings_globs(setting)], value);
	case SETTING_BUFFERED: s->buffered = n != 0; return 0;
	case SETTING_QUOTA: s->quota = (uint32_t)n; return 0;
	case SETTING_ENTRIES: s->entries = (uint32_t)n; return 0;
	case SETTING_FILES: s->files = (uint32_t)n; return 0;
	case SETTING_KEEP: s->keep_ms = n; return 0;
	case SETTING_LEASE_PAUSE: s->lease_pause_ms = n; return 0;
	case SETTING_HUGE_PAGES: s->small_pages = n != 0; return 0;
	case SETTING_HOLDS: s->hold_bytes = n; return 0;
	case SETTING_FAST_MEMORY: s->fast_bytes = n; return 0;
	case SETTING_POLICY: strcpy(s->policy, value); return 0;
	case SETTING_POLICY_TICK: s->policy_tick_ms = n; return 0;
	case SETTING_PRESSURE: strcpy(s->pressure, value); return 0;
	case SETTING_ESCAPE: s->escape = n != 0; return 0;
	case SETTING_LOG: s->log_json = n != 0; return 0;
	case SETTING_LOG_LEVEL: s->log_level = (uint32_t)n; return 0;
	case SETTING_TRUST: s->trust = (uint32_t)n; return 0;
	case NR_SETTINGS: break;
	}
	return -EINVAL;
}

int settings_set(struct settings *s, enum setting setting, const char *value,
                 enum settings_source source)
{
	char socket[SETTINGS_SOCKET_BYTES];
	uint64_t n = 0;
	int err;

	if (setting == SETTING_SOCKET) {
		err = settings_take_socket(s, value, source >= SETTINGS_USER, socket);
		value = socket;
	} else {
		err = settings_parse(s, setting, value, &n);
	}
	/* A later source's value must be valid all the same. Otherwise a mistake would
	 * show only on the day when nobody overrules it. */
	if (err || (s->from[setting] && s->from[setting] < source))
		return err;
	if (settings_globs(setting) < NR_GLOBS && s->from[setting] != source)
		settings_free_globs(s,
		                    settings_globs(setting)); /* the later source's */
	s->from[setting] = (uint8_t)source;
	return settings_store(s, setting, value, n);
}

static int settings_take_variable(struct settings *s, enum setting setting,
                                  const char *name)
{
	const char *value = port_variable(name);
	char why[SETTINGS_WHY_BYTES];
	int err;

	if (!value || !*value)
		return 0;
	err = settings_set(s, setting, value, SETTINGS_ENVIRONMENT);
	if (err) {
		strcpy(why, s->why);
		snprintf(s->why, sizeof(s->why), "%s: %.400s", name, why);
	}
	return err;
}

/* HOME would be one more variable that the library reads, and one that is often wrong. */
static int settings_read_user_file(struct settings *s)
{
	char home[PATH_MAX], path[PATH_MAX];

	if (port_home(port_user(), home, sizeof(home)) != 0 || *home != '/' ||
	    snprintf(path, sizeof(path), "%s/.config/lodic.conf", home) >=
	            (int)sizeof(path))
		return 0;
	return settings_read_file(s, path, SETTINGS_USER);
}

int settings_gather(struct settings *s, bool privileged)
{
	int err;

	if (privileged)
		return 0;
	err = settings_take_variable(s, SETTING_SOCKET, "LODIC_SOCKET");
	if (!err)
		err = settings_take_variable(s, SETTING_MEMORY, "LODIC_MEMORY");
	if (!err)
		err = settings_read_user_file(s);
	if (!err)
		err = settings_read_file(s, SETTINGS_SYSTEM_FILE, SETTINGS_SYSTEM);
	return err;
}

static int settings_default_socket(struct settings *s, bool make)
{
	char folder[SETTINGS_SOCKET_BYTES];
	struct port_file file;
	int err = path_default_socket(s->socket, sizeof(s->socket), make);

	if (!err)
		return 0;
	strcpy(folder, s->socket);
	*strrchr(folder, '/') = '\0';
	if (err != -EACCES || port_look_at(folder, false, &file) != 0)
		settings_refuse(s, "%s cannot be made: %s", folder, strerror(-err));
	else if (file.uid != port_user())
		settings_refuse(s, "%s belongs to user %u", folder, file.uid);
	else if (file.kind != PORT_FILE_FOLDER)
		settings_refuse(s, "%s is no folder", folder);
	else
		settings_refuse(s, "%s is open to other users", folder);
	strncat(s->why, "; name a socket with --socket or LODIC_SOCKET",
	        sizeof(s->why) - strlen(s->why) - 1);
	return err;
}

uint32_t settings_trusted(void)
{
	struct settings s = { 0 };
	uint32_t user = SETTINGS_NO_USER;

	if (settings_gather(&s, settings_privileged()) == 0 && s.from[SETTING_TRUST])
		user = s.trust;
	settings_free(&s);
	return user;
}

int settings_find_socket(struct settings *s, bool make)
{
	int err = settings_gather(s, settings_privileged());

	if (err || s->from[SETTING_SOCKET])
		return err;
	return settings_default_socket(s, make);
}
