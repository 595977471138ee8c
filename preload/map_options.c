/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What `lodic map` says to the shim. It says so through the environment, to reach the
 * program's children too. The names are those of the options. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/map.h"
#include "preload/map_environment.h"

struct map_options map_options;

/* false: not set, or not a number. */
static bool read_number(const char *name, u64 *ret)
{
	const char *text = getenv(name);
	char *end;

	if (!text)
		return false;
	*ret = strtoull(text, &end, 10);
	return end != text && *end == '\0';
}

/* Copies the text, because the program may write over its environment. */
static bool read_text(const char *name, char *ret, size_t size)
{
	const char *text = getenv(name);
	size_t n = text ? strlen(text) : 0;

	if (n >= size)
		return false;
	if (n)
		memcpy(ret, text, n);
	ret[n] = '\0';
	return true;
}

bool map_options_read(void)
{
	struct map_options *o = &map_options;

	o->json = getenv(MAP_JSON) != NULL;
	o->verbose = getenv(MAP_VERBOSE) != NULL;
	o->kernel_has_lodic = getenv(MAP_KERNEL) != NULL;
	return read_number(MAP_BUDGET, &o->budget_bytes) &&
	       read_number(MAP_MIN_READS, &o->min_reads) && o->min_reads > 0 &&
	       read_text(MAP_INCLUDE, o->include, sizeof(o->include)) &&
	       read_text(MAP_EXCLUDE, o->exclude, sizeof(o->exclude)) &&
	       read_text(MAP_REPORT, o->report, sizeof(o->report));
}

const char *map_path(int fd)
{
	char *path = map_state->path;
	char name[32];
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	n = readlink(name, path, sizeof(map_state->path) - 1);
	path[n > 0 ? n : 0] = '\0';
	return path;
}

/* Does c lie in the set behind '['? *ret_end points behind its ']'. If there is none,
 * *ret_end is NULL, and the bracket stands for itself. */
static bool set_has(const char *set, const char *end, char c, const char **ret_end)
{
	bool not = set < end && (*set == '!' || *set == '^');
	const char *p = set + not ;
	const char *first = p;
	bool found = false;

	for (; p < end && (*p != ']' || p == first); p++) {
		char low = *p;

		if (p + 2 < end && p[1] == '-' && p[2] != ']')
			p += 2;
		found |= (unsigned char)low <= (unsigned char)c &&
		         (unsigned char)c <= (unsigned char)*p;
	}
	*ret_end = p < end ? p + 1 : NULL;
	return found != not ;
}

/* Compares c with the glob's next piece, and returns what is behind it. NULL: they
 * differ. */
static const char *piece_match(const char *glob, const char *end, char c)
{
	const char *behind;
	bool has;

	if (*glob == '?')
		return glob + 1;
	if (*glob == '[') {
		has = set_has(glob + 1, end, c, &behind);
		if (behind)
			return has ? behind : NULL;
	}
	return *glob == c ? glob + 1 : NULL;
}

/* A glob has * ? [set]; a star stands for any characters, slashes too. fnmatch() may call
 * malloc, which a read() in a signal handler must not. */
static bool glob_match(const char *glob, const char *end, const char *text)
{
	const char *star = NULL, *from = NULL, *next;

	while (*text) {
		if (glob < end && *glob == '*') {
			star = ++glob;
			from = text;
		} else if (glob < end && (next = piece_match(glob, end, *text))) {
			glob = next;
			text++;
		} else if (star) {
			glob = star; /* let the star have one more */
			text = ++from;
		} else {
			return false;
		}
	}
	while (glob < end && *glob == '*')
		glob++;
	return glob == end;
}

/* Does one of these lines match? A line with a slash is about the whole path, any other is
 * about the name. */
static bool globs_match(const char *globs, const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	while (*globs) {
		const char *end = strchrnul(globs, '\n');
		bool whole = memchr(globs, '/', (size_t)(end - globs)) != NULL;

		if (end > globs && glob_match(globs, end, whole ? path : name))
			return true;
		globs = *end ? end + 1 : end;
	}
	return false;
}

bool map_options_want(int fd)
{
	const struct map_options *o = &map_options;
	const char *path;

	if (!o->include[0] && !o->exclude[0])
		return true;
	path = map_path(fd);
	return (!o->include[0] || globs_match(o->include, path)) &&
	       !globs_match(o->exclude, path);
}
