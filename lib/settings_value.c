/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The table of settings, and the kinds of their values. Contract: settings_value.h. */
#define _GNU_SOURCE
#include "lib/settings_value.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/port.h"
#include "lib/service/service.h"
#include "lib/value.h"

#define WORDS_BYTES 64 /* of a list, with what stands between its words */
#define MAX_WORDS 4u

/* The words that a value may be; the setting's number is the place in the list. */
struct settings_words {
	const char *noun; /* for messages; of two words it is not said */
	const char *words[MAX_WORDS + 1];
};

static const struct settings_words settings_schemes = {
	"scheme", { "lodic", "atomic", "frozen", "hazard" }
};
static const struct settings_words settings_barriers = { "barrier",
	                                                 { "auto", "light", "lock" } };
static const struct settings_words settings_huge_pages = { NULL, { "auto", "off" } };
static const struct settings_words settings_logs = { NULL, { "text", "json" } };
/* In the order of enum service_level. */
static const struct settings_words settings_levels = {
	"level", { "error", "warning", "info", "debug" }
};

enum settings_kind {
	KIND_SOCKET,
	KIND_SIZE,
	KIND_WORD,
	KIND_YES,
	KIND_SECONDS,
	KIND_NUMBER,
	KIND_GLOBS,
	KIND_POLICY,
	KIND_PRESSURE,
	KIND_USER
};

struct settings_row {
	const char *name, *text; /* text: the default */
	bool is_live, is_left;
	enum settings_kind kind;
	size_t at; /* in struct settings */
	uint64_t least, most;
	const struct settings_words *words;
};

/* What the words of the columns stand for. */
#define ROW_LIVE true
#define ROW_AT_START false
#define ROW_LEFT true
#define ROW_NOT_LEFT false
#define ROW_KIND(kind, field, least, most, words) \
	kind, offsetof(struct settings, field), least, most, words
#define KIND_SOCKET(field) ROW_KIND(KIND_SOCKET, field, 0, 0, NULL)
#define KIND_SIZE(field, least, most) ROW_KIND(KIND_SIZE, field, least, most, NULL)
#define KIND_WORD(field, words) ROW_KIND(KIND_WORD, field, 0, 0, &(words))
#define KIND_YES(field) ROW_KIND(KIND_YES, field, 0, 0, NULL)
#define KIND_SECONDS(field, least) ROW_KIND(KIND_SECONDS, field, least, 0, NULL)
#define KIND_NUMBER(field, least, most) ROW_KIND(KIND_NUMBER, field, least, most, NULL)
#define KIND_GLOBS(field) ROW_KIND(KIND_GLOBS, field, 0, 0, NULL)
#define KIND_POLICY(field) ROW_KIND(KIND_POLICY, field, 0, 0, NULL)
#define KIND_PRESSURE(field) ROW_KIND(KIND_PRESSURE, field, 0, 0, NULL)
#define KIND_USER(field) ROW_KIND(KIND_USER, field, 0, 0, NULL)
#define SETTING(id, name, kind, taker, sighup, successor, text, key, value, help) \
	[SETTING_##id] = { name, text, ROW_##sighup, ROW_##successor, kind },

static const struct settings_row settings_rows[NR_SETTINGS] = {
#include "lib/settings_list.h"
};

const char *settings_name(enum setting setting)
{
	return settings_rows[setting].name;
}

bool settings_is_live(enum setting setting)
{
	return settings_rows[setting].is_live;
}

bool settings_is_left(enum setting setting)
{
	return settings_rows[setting].is_left;
}

bool settings_value_is_globs(enum setting setting)
{
	return settings_rows[setting].kind == KIND_GLOBS;
}

static const char *settings_word(const struct settings_words *words, uint32_t n)
{
	return n < MAX_WORDS ? words->words[n] : NULL;
}

const char *settings_scheme_name(uint32_t scheme)
{
	return settings_word(&settings_schemes, scheme);
}

const char *settings_barrier_name(uint32_t barrier)
{
	return settings_word(&settings_barriers, barrier);
}

const char *settings_level_name(uint32_t level)
{
	return settings_word(&settings_levels, level);
}

/* Programs change their folder; the path must lead to the same socket afterwards. */
static int settings_take_socket(struct settings *s, const char *value, bool file,
                                char ret_path[SETTINGS_PATH_BYTES])
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

static int settings_take_size(struct settings *s, const struct settings_row *row,
                              const char *value, uint64_t *ret)
{
	uint64_t n;
	int err = value_parse_bytes(value, &n);

	if (err == -EINVAL)
		return settings_refuse(s,
		                       "'%s' is not a size; write it as 256M or 4G%s",
		                       value, row->least ? "" : ", or 0");
	if (!err && n >= row->least && n <= row->most) {
		*ret = n;
		return 0;
	}
	if (row->least == 0)
		return settings_refuse(s, "'%s' is too large: %s has less than 8T",
		                       value, row->name);
	return settings_refuse(
		s, "'%s' is too %s: a cache has 32K at least, and less than 8T", value,
		!err && n < row->least ? "small" : "large");
}

/* "a, b or c". */
static void settings_list_words(const struct settings_words *words,
                                char list[WORDS_BYTES])
{
	size_t at = 0;

	for (uint32_t i = 0; words->words[i]; i++)
		at += (size_t)snprintf(list + at, WORDS_BYTES - at, "%s%s",
		                       i == 0                ? ""
		                       : words->words[i + 1] ? ", "
		                                             : " or ",
		                       words->words[i]);
}

static int settings_take_word(struct settings *s, const struct settings_words *words,
                              const char *value, uint64_t *ret)
{
	char list[WORDS_BYTES];

	for (*ret = 0; words->words[*ret]; ++*ret)
		if (strcmp(words->words[*ret], value) == 0)
			return 0;
	if (!words->noun)
		return settings_refuse(s, "'%s' is neither %s nor %s", value,
		                       words->words[0], words->words[1]);
	settings_list_words(words, list);
	return settings_refuse(s, "there is no %s '%s'; choose %s", words->noun, value,
	                       list);
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

/* Is value, which is not empty, the same when it has stood on a line of a file? */
static bool settings_reads_back(const char *value)
{
	return !strchr(value, '\n') &&
	       !isspace((unsigned char)value[strlen(value) - 1]);
}

static int settings_take_pressure(struct settings *s, const char *value,
                                  char ret_text[SETTINGS_PATH_BYTES])
{
	if (*value != '/' && strcmp(value, "off") != 0)
		return settings_refuse(
			s, "'%s' is neither off nor a path that begins with /", value);
	if (strlen(value) >= sizeof(s->pressure))
		return settings_refuse(s, "'%s' is too long", value);
	if (!settings_reads_back(value))
		return settings_refuse(
			s, "'%s' has a line's end in it, or ends with a blank", value);
	strcpy(ret_text, value);
	return 0;
}

static int settings_take_policy(struct settings *s, const char *value,
                                char ret_text[SETTINGS_PATH_BYTES])
{
	for (unsigned int i = 0; i < SETTINGS_NR_POLICIES; i++)
		if (strcmp(settings_policies[i], value) == 0) {
			strcpy(ret_text, value);
			return 0;
		}
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

static int settings_take_number(struct settings *s, const struct settings_row *row,
                                const char *value, uint64_t *ret)
{
	if (value_parse_number(value, row->least, row->most, ret) == 0)
		return 0;
	return settings_refuse(s, "'%s' is not a number from %llu to %llu", value,
	                       (unsigned long long)row->least,
	                       (unsigned long long)row->most);
}

static int settings_take_ms(struct settings *s, const struct settings_row *row,
                            const char *value, uint64_t *ret)
{
	uint64_t n;

	if (value_parse_ms(value, &n) != 0)
		return settings_refuse(
			s, "'%s' is not a number of seconds, at most 1000000000",
			value);
	if (n < row->least)
		return settings_refuse(s, "%s takes %llu.%03llu seconds at least",
		                       row->name, (unsigned long long)row->least / 1000,
		                       (unsigned long long)row->least % 1000);
	*ret = n;
	return 0;
}

int settings_value_take(struct settings *s, enum setting setting, const char *text,
                        bool from_file, struct settings_value *ret)
{
	const struct settings_row *row = &settings_rows[setting];

	switch (row->kind) {
	case KIND_SOCKET: return settings_take_socket(s, text, from_file, ret->text);
	case KIND_SIZE: return settings_take_size(s, row, text, &ret->number);
	case KIND_WORD: return settings_take_word(s, row->words, text, &ret->number);
	case KIND_YES: return settings_take_yes(s, text, &ret->number);
	case KIND_SECONDS: return settings_take_ms(s, row, text, &ret->number);
	case KIND_NUMBER: return settings_take_number(s, row, text, &ret->number);
	case KIND_GLOBS: return settings_check_glob(s, text);
	case KIND_POLICY: return settings_take_policy(s, text, ret->text);
	case KIND_PRESSURE: return settings_take_pressure(s, text, ret->text);
	case KIND_USER: return settings_take_user(s, text, &ret->number);
	}
	return -EINVAL;
}

static char **settings_globs(struct settings *s, enum setting setting)
{
	return (char **)((char *)s + settings_rows[setting].at);
}

char *const *settings_value_globs(const struct settings *s, enum setting setting)
{
	static char *const none[1];

	if (!settings_value_is_globs(setting))
		return none;
	return (char *const *)((const char *)s + settings_rows[setting].at);
}

int settings_value_own_globs(struct settings *s, enum setting setting)
{
	char **globs = settings_globs(s, setting);
	int err = 0;

	for (unsigned int i = 0; i < SETTINGS_MAX_GLOBS && globs[i]; i++) {
		globs[i] = port_text(globs[i]);
		if (!globs[i])
			err = -ENOMEM;
	}
	return err;
}

void settings_value_free_globs(struct settings *s, enum setting setting)
{
	char **globs = settings_globs(s, setting);

	for (unsigned int i = 0; i < SETTINGS_MAX_GLOBS; i++) {
		port_free(globs[i]);
		globs[i] = NULL;
	}
}

int settings_value_store(struct settings *s, enum setting setting,
                         const struct settings_value *value, const char *text)
{
	const struct settings_row *row = &settings_rows[setting];
	void *at = (char *)s + row->at;

	switch (row->kind) {
	case KIND_SOCKET:
	case KIND_POLICY:
	case KIND_PRESSURE: strcpy(at, value->text); return 0;
	case KIND_SIZE:
	case KIND_SECONDS: *(uint64_t *)at = value->number; return 0;
	case KIND_WORD:
	case KIND_NUMBER:
	case KIND_USER: *(uint32_t *)at = (uint32_t)value->number; return 0;
	case KIND_YES: *(bool *)at = value->number != 0; return 0;
	case KIND_GLOBS: return settings_add_glob(s, settings_globs(s, setting), text);
	}
	return -EINVAL;
}

static const char *settings_print_ms(uint64_t ms, char text[SETTINGS_PATH_BYTES])
{
	int n = snprintf(text, SETTINGS_PATH_BYTES, "%llu",
	                 (unsigned long long)ms / 1000);

	if (ms % 1000)
		snprintf(text + n, SETTINGS_PATH_BYTES - (size_t)n, ".%03llu",
		         (unsigned long long)ms % 1000);
	return text;
}

static const char *settings_print_number(uint64_t n, char text[SETTINGS_PATH_BYTES])
{
	snprintf(text, SETTINGS_PATH_BYTES, "%llu", (unsigned long long)n);
	return text;
}

const char *settings_value_text(const struct settings *s, enum setting setting,
                                char text[SETTINGS_PATH_BYTES])
{
	const struct settings_row *row = &settings_rows[setting];
	const void *at = (const char *)s + row->at;

	if (!s->from[setting])
		return row->text;
	switch (row->kind) {
	case KIND_SOCKET:
	case KIND_POLICY:
	case KIND_PRESSURE: return at;
	case KIND_SIZE: return settings_print_number(*(const uint64_t *)at, text);
	case KIND_SECONDS: return settings_print_ms(*(const uint64_t *)at, text);
	case KIND_WORD: return settings_word(row->words, *(const uint32_t *)at);
	case KIND_NUMBER:
	case KIND_USER: return settings_print_number(*(const uint32_t *)at, text);
	case KIND_YES: return *(const bool *)at ? "yes" : "no";
	case KIND_GLOBS: break;
	}
	return "";
}
