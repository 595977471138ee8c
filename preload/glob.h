/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Which files an option of `lodic map` or `lodic run` is about. */
#ifndef LODIC_PRELOAD_GLOB_H
#define LODIC_PRELOAD_GLOB_H

#include <stdbool.h>

/* Does one of these globs match, a line each? A glob with a slash is about the whole path, any
 * other is about the name. */
bool glob_lists(const char *globs, const char *path);

#endif
