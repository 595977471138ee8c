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

/* NULL: a library can be preloaded into the program at path, or the file cannot be read.
 * Otherwise the reason why not, to stand behind "NAME ". A script is judged by its
 * interpreter. */
const char *map_program_refuses(const char *path);

#endif
