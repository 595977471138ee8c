/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Files of "name = value ...  # comment" lines: sim/keys.h. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/keys.h"

#define FILE_BYTES_MAX 65536u

int keys_wrong(const struct keys_line *line, const char *why)
{
	fprintf(stderr, "%s:%u: %s: %s\n", line->path, line->line, line->name, why);
	return -EINVAL;
}

static char *text_trim(char *text)
{
	char *end;

	while (*text == ' ' || *text == '\t')
		text++;
	end = text + strlen(text);
	while (end > text && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
		*--end = 0;
	return text;
}

/* 0 and a name, or 0 and none: an empty line. */
static int line_parse(struct keys_line *line, char *text)
{
	char *hash = strchr(text, '#');
	char *equals;

	line->name = "line";
	line->value = NULL;
	line->comment = "";
	if (hash) {
		*hash = 0;
		line->comment = hash + 1;
	}
	text = text_trim(text);
	if (!*text)
		return 0;
	equals = strchr(text, '=');
	if (!equals)
		return keys_wrong(line, "neither empty nor NAME = VALUE");
	*equals = 0;
	line->name = text_trim(text);
	line->value = text_trim(equals + 1);
	return 0;
}

int keys_numbers(const struct keys_line *line, u32 nr, u32 least, u32 *ret_numbers)
{
	u32 numbers[KEYS_MAX_NUMBERS];
	char *at = line->value, *end;
	u32 i;

	for (i = 0; i < nr; i++) {
		unsigned long v;

		errno = 0;
		v = strtoul(at, &end, 10);
		if (end == at || errno || *at == '-' || v < least || v > 1000000000)
			return keys_wrong(line, "not the numbers that it takes");
		numbers[i] = (u32)v;
		at = end;
	}
	if (*text_trim(at))
		return keys_wrong(line, "more than the numbers that it takes");
	memcpy(ret_numbers, numbers, nr * sizeof(*numbers));
	return 0;
}

static char home[KEYS_PATH_BYTES]; /* of topologies/ and parameters/ */

int keys_look_in(const char *folder)
{
	char path[KEYS_PATH_BYTES];

	if (snprintf(path, sizeof(path), "%s/topologies", folder) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	if (access(path, R_OK | X_OK) != 0)
		return -errno;
	snprintf(home, sizeof(home), "%s", folder);
	return 0;
}

/* Lists on stderr what a name without a slash may be: the files of the folder. */
static void folder_list(const char *folder)
{
	char path[KEYS_PATH_BYTES];
	const struct dirent *entry;
	DIR *dir;

	if (snprintf(path, sizeof(path), "%s/%s", home, folder) >= (int)sizeof(path) ||
	    !(dir = opendir(path))) {
		fprintf(stderr,
		        "; the folder %s is not there: is lodic completely "
		        "installed?\n",
		        folder);
		return;
	}
	fprintf(stderr, "; known %s:", folder);
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			fprintf(stderr, " %s", entry->d_name);
	fprintf(stderr, ", or a file's path with a slash\n");
	closedir(dir);
}

/* A name without a slash is a file of ours; anything else is a path. */
static int file_path(const char *folder, const char *name, char *ret_path)
{
	bool ours = !strchr(name, '/');
	int n = snprintf(ret_path, KEYS_PATH_BYTES, "%s%s%s%s%s", ours ? home : "",
	                 ours ? "/" : "", ours ? folder : "", ours ? "/" : "", name);

	return n < (int)KEYS_PATH_BYTES ? 0 : -ENAMETOOLONG;
}

/* Reads the whole file that name means in folder, and ends the text with a 0. */
static int file_read(const char *folder, const char *name, char *ret_path,
                     char *ret_text, size_t room)
{
	const char *path = ret_path;
	FILE *f = NULL;
	size_t n;

	errno = -file_path(folder, name, ret_path);
	if (!errno)
		f = fopen(path, "r");
	if (!f) {
		fprintf(stderr, "lodic-sim: %s: %s", name, strerror(errno));
		if (strchr(name, '/'))
			fprintf(stderr, "\n");
		else
			folder_list(folder);
		return -ENOENT;
	}
	n = fread(ret_text, 1, room, f);
	fclose(f);
	if (n == room) {
		fprintf(stderr, "%s: too long\n", path);
		return -EINVAL;
	}
	ret_text[n] = 0;
	return 0;
}

/* FNV-1a: it tells parameter files apart and protects from nothing. */
static void text_hash(const char *text, char ret_hash[KEYS_HASH_BYTES])
{
	u64 h = 0xcbf29ce484222325u;

	for (; *text; text++)
		h = (h ^ (u8)*text) * 0x100000001b3u;
	snprintf(ret_hash, KEYS_HASH_BYTES, "%016llx", (unsigned long long)h);
}

int keys_read(const char *folder, const char *name,
              int (*take)(void *arg, const struct keys_line *line), void *arg,
              char ret_path[KEYS_PATH_BYTES], char ret_hash[KEYS_HASH_BYTES])
{
	static char text[FILE_BYTES_MAX];
	struct keys_line line = { .path = ret_path };
	char *rest = text, *next;
	int err = file_read(folder, name, ret_path, text, sizeof(text));

	if (!err)
		text_hash(text, ret_hash);
	while (!err && (next = strsep(&rest, "\n"))) {
		line.line++;
		err = line_parse(&line, next);
		if (!err && line.value)
			err = take(arg, &line);
	}
	return err;
}

int keys_band(const struct keys_line *line, u32 least, u32 *ret_low, u32 *ret_high)
{
	const char *at = strstr(line->comment, "band ");

	if (!at)
		return 0;
	if (sscanf(at, "band %u..%u", ret_low, ret_high) != 2 || *ret_low > *ret_high ||
	    *ret_low < least)
		return keys_wrong(line, "not band LOW..HIGH");
	return 1;
}

int keys_take(const struct keys_key *keys, u32 nr, void *base, bool *seen,
              const struct keys_line *line)
{
	u32 i;

	for (i = 0; i < nr; i++) {
		if (strcmp(line->name, keys[i].name) != 0)
			continue;
		if (seen[i])
			return keys_wrong(line, "twice");
		seen[i] = true;
		if (keys_numbers(line, keys[i].nr, keys[i].least,
		                 (u32 *)((char *)base + keys[i].offset)) != 0)
			return -EINVAL;
		return (int)i;
	}
	return -ENOENT;
}

int keys_missing(const struct keys_key *keys, u32 nr, const bool *seen,
                 const char *path)
{
	u32 i;

	for (i = 0; i < nr; i++) {
		if (!seen[i]) {
			fprintf(stderr, "%s: no %s\n", path, keys[i].name);
			return -EINVAL;
		}
	}
	return 0;
}

bool keys_has_comment(const struct keys_line *line)
{
	return line->comment[strspn(line->comment, " \t\r")] != '\0';
}

const char *keys_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}
