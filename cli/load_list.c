/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: cli/load_list.h. */
#define _GNU_SOURCE
#include "cli/load_list.h"

#include <errno.h>
#include <fts.h>
#include <glob.h>
#include <search.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"

#define PROGRESS_FILES 1024u

/* A file's numbers, in the tree of those that are listed, and where it is in the list. */
struct load_number {
	uint64_t dev, ino;
	size_t at;
};

static int number_compare(const void *a, const void *b)
{
	const struct load_number *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

/* Notes the file. 1: it is listed already, by another name. */
static int list_saw(struct load_list *list, const struct stat *st)
{
	struct load_number *number = malloc(sizeof(*number));
	struct load_number **found;

	if (!number)
		return -ENOMEM;
	*number = (struct load_number){ st->st_dev, st->st_ino, list->nr };
	found = tsearch(number, &list->seen, number_compare);
	if (found && *found == number)
		return 0;
	free(number);
	return found ? 1 : -ENOMEM;
}

static int list_push(struct load_list *list, const struct load_file *file,
                     const char *path)
{
	struct load_file *files = list->files;

	if (cli_stopped)
		return -EINTR;
	if (list->nr == list->room) {
		list->room = list->room ? 2 * list->room : 64;
		files = realloc(files, list->room * sizeof(*files));
		if (!files)
			return -ENOMEM;
		list->files = files;
	}
	files[list->nr] = *file;
	files[list->nr].path = strdup(path);
	if (!files[list->nr].path)
		return -ENOMEM;
	if (++list->nr % PROGRESS_FILES == 0)
		cli_progress("looking for files", 0);
	return 0;
}

static int list_fail(struct load_list *list, const char *path, int error,
                     const char *why)
{
	const struct load_file file = { .error = error,
		                        .why = why,
		                        .state = LOAD_FAILED };

	return list_push(list, &file, path);
}

static int list_file(struct load_list *list, const char *path, const struct stat *st)
{
	const struct load_file file = { .dev = st->st_dev,
		                        .ino = st->st_ino,
		                        .size = (uint64_t)st->st_size };
	int err = list_saw(list, st);

	if (err)
		return err < 0 ? err : 0;
	list->bytes += file.size;
	return list_push(list, &file, path);
}

struct load_file *load_list_find(const struct load_list *list, uint64_t dev,
                                 uint64_t ino)
{
	const struct load_number number = { dev, ino, 0 };
	struct load_number *const *found = tfind(&number, &list->seen, number_compare);

	return found ? &list->files[(*found)->at] : NULL;
}

/* What a walk through a folder has come to. */
static int list_entry(struct load_list *list, const FTSENT *entry)
{
	struct stat st;

	switch (entry->fts_info) {
	case FTS_F: return list_file(list, entry->fts_path, entry->fts_statp);
	case FTS_SL:
		if (stat(entry->fts_accpath, &st) == 0 && S_ISREG(st.st_mode))
			return list_file(list, entry->fts_path, &st);
		return 0;
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS: return list_fail(list, entry->fts_path, entry->fts_errno, NULL);
	default: return 0; /* folders, and what is no file */
	}
}

static int list_folder(struct load_list *list, char *path)
{
	char *const paths[] = { path, NULL };
	FTS *walk = fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
	FTSENT *entry;
	int err = 0;

	if (!walk)
		return list_fail(list, path, errno, NULL);
	/* Ends: a walk that does not follow links to folders comes to each once. */
	while (!err && (errno = 0, entry = fts_read(walk)))
		err = list_entry(list, entry);
	if (!err && errno)
		err = list_fail(list, path, errno, NULL);
	fts_close(walk);
	return err;
}

static int list_path(struct load_list *list, char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return list_fail(list, path, errno, NULL);
	if (S_ISDIR(st.st_mode))
		return list_folder(list, path);
	if (!S_ISREG(st.st_mode))
		return list_fail(list, path, ENODEV,
		                 "it is neither a file nor a folder");
	return list_file(list, path, &st);
}

static int list_pattern(struct load_list *list, const char *word)
{
	glob_t found = { 0 };
	int err = glob(word, GLOB_NOSORT | GLOB_TILDE, NULL, &found);

	if (err == GLOB_NOSPACE)
		err = -ENOMEM;
	else if (err)
		err = list_fail(list, word, ENOENT, "no file matches");
	for (size_t i = 0; !err && i < found.gl_pathc; i++)
		err = list_path(list, found.gl_pathv[i]);
	globfree(&found);
	return err;
}

int load_list_add(struct load_list *list, const char *word)
{
	struct stat st;
	char *path;
	int err;

	if (lstat(word, &st) != 0 && strpbrk(word, "*?[~"))
		return list_pattern(list, word);
	path = strdup(word);
	if (!path)
		return -ENOMEM;
	err = list_path(list, path);
	free(path);
	return err;
}

void load_list_free(struct load_list *list)
{
	for (size_t i = 0; i < list->nr; i++) {
		free(list->files[i].path);
		free(list->files[i].told);
	}
	free(list->files);
	tdestroy(list->seen, free);
	*list = (struct load_list){ 0 };
}
