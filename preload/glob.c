/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See glob.h. */
#define _GNU_SOURCE
#include "preload/glob.h"

#include <stddef.h>
#include <string.h>

/* Does c lie in the set behind '['? *ret_end points behind its ']'. If there is none,
 * *ret_end is NULL, and the bracket stands for itself. */
static bool glob_set_has(const char *set, const char *end, char c, const char **ret_end)
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
static const char *glob_piece(const char *glob, const char *end, char c)
{
	const char *behind;
	bool has;

	if (*glob == '?')
		return glob + 1;
	if (*glob == '[') {
		has = glob_set_has(glob + 1, end, c, &behind);
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
		} else if (glob < end && (next = glob_piece(glob, end, *text))) {
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

bool glob_lists(const char *globs, const char *path)
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
