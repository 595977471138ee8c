/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A program on disk: where it is, and whether a library can be preloaded into it. */
#ifndef LODIC_CLI_MAP_PROGRAM_H
#define LODIC_CLI_MAP_PROGRAM_H

#include <stddef.h>

#define PROGRAM_PATH_BYTES 4096

/* Where execvp() would find name. -ENOENT: nowhere; -EACCES: there, but not a program. */
int program_find(const char *name, char *ret_path, size_t size);

/* NULL: a library can be preloaded into the program at path, or the file cannot be read
 * and nobody knows. Else the reason why not, to stand behind "NAME ". A script is judged by
 * its interpreter. */
const char *program_refuses(const char *path);

#endif
