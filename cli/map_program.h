/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The program that `lodic map` or `lodic run` runs: where it is on disk, and whether a library
 * can be preloaded into it. */
#ifndef LODIC_CLI_MAP_PROGRAM_H
#define LODIC_CLI_MAP_PROGRAM_H

#include <stddef.h>

#define MAP_PROGRAM_PATH_BYTES 4096

/* Gives the path where execvp() would find name. -ENOENT: nowhere. -EACCES: what is there
 * is not a program that this user may run. */
int map_program_find(const char *name, char *ret_path, size_t size);

enum map_program {
	MAP_PROGRAM_TAKES,  /* a library, or its file cannot be read */
	MAP_PROGRAM_PASSES, /* takes none, but hands it on to its children: it has no loader */
	MAP_PROGRAM_GO,     /* takes one that is of no use there */
	MAP_PROGRAM_LOSES,  /* takes none, and must not get one, or hands none on */
};

/* What becomes of a library that is preloaded into the program at path. If it does not take one,
 * *ret_why is the reason, to stand behind "NAME ". A script is judged by its interpreter. */
enum map_program map_program_judge(const char *path, const char **ret_why);

#endif
