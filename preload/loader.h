/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which loader does a program ask for? The shim is made for one, that of the program that it is in.
 * Another one (musl's, that of another machine or another libc) cannot load it, and the program
 * would die of that.
 *
 * A look opens the file, reads its head and closes it. It needs no memory but its own stack, so the
 * child of vfork() may look, too.
 */
#ifndef LODIC_PRELOAD_LOADER_H
#define LODIC_PRELOAD_LOADER_H

#include <stdbool.h>

/* Where a program's file is: at path from a folder, or (NULL) open as at. */
struct loader_file {
	int at;
	const char *path;
};

/* Will the program load a library by another loader than this process's own? false as well for
 * what is linked statically or cannot be looked at. A script is judged by its interpreter. errno
 * may change. */
bool loader_is_foreign(struct loader_file file);

#endif
