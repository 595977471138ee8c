/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Files of "name = value ...  # comment" lines: topologies (sim/topologies) and what things
 * cost (sim/parameters). The comment behind a number gives its source. "band LOW..HIGH" in
 * such a comment means that the number is not known better than that.
 */
#ifndef LODIC_SIM_KEYS_H
#define LODIC_SIM_KEYS_H

#include "host/host.h"

#define KEYS_PATH_BYTES 512u
#define KEYS_HASH_BYTES 17u
#define KEYS_MAX_NUMBERS 16u

/* One line that has a value. The texts live as long as the call that gets it. */
struct keys_line {
	const char *path;
	u32 line;
	char *name, *value, *comment;
};

/* Takes the files that have names from this folder's topologies/ and parameters/. Returns 0,
 * or -errno if it cannot read them. */
int keys_look_in(const char *folder);

/* Reads the file that name means: without a slash, one of folder's ("parameters"). Calls take()
 * with each line, which returns 0 or -EINVAL. ret_path: for messages. ret_hash: of the text, in
 * hex. Prints what is wrong to stderr. -ENOENT: no such file. -EINVAL: something in it is
 * wrong. */
int keys_read(const char *folder, const char *name,
              int (*take)(void *arg, const struct keys_line *line), void *arg,
              char ret_path[KEYS_PATH_BYTES], char ret_hash[KEYS_HASH_BYTES]);

/* Prints "path:line: name: why". Returns -EINVAL. */
int keys_wrong(const struct keys_line *line, const char *why);

/* The line's nr numbers, each at least least. */
int keys_numbers(const struct keys_line *line, u32 nr, u32 least, u32 *ret_numbers);

/* What a file may say, and where a name's nr numbers go. */
struct keys_key {
	const char *name;
	size_t offset;
	u32 nr;    /* u32 in a row, at most KEYS_MAX_NUMBERS */
	u32 least; /* of each */
};

/* Stores the line's numbers at base, where keys has its name, and notes it in seen. Returns which
 * key it was. -EINVAL: wrong, and said so. -ENOENT: no such name; says nothing. */
int keys_take(const struct keys_key *keys, u32 nr, void *base, bool *seen,
              const struct keys_line *line);

/* Prints which key the file at path lacks. Returns 0 or -EINVAL. */
int keys_missing(const struct keys_key *keys, u32 nr, const bool *seen,
                 const char *path);

/* The band in the line's comment. Returns 1, or 0 if there is none, or -EINVAL. */
int keys_band(const struct keys_line *line, u32 least, u32 *ret_low, u32 *ret_high);

/* Does the comment say anything? A number must have a source. */
bool keys_has_comment(const struct keys_line *line);

/* The part of a path behind its last slash. */
const char *keys_base(const char *path);

#endif
