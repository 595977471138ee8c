/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Where a user's service listens by default; both halves of the library must agree. */
#ifndef LODIC_LIB_PATH_H
#define LODIC_LIB_PATH_H

#include <stdbool.h>

/* The default socket of this user: /run/user/UID/lodic/cache.sock where that folder is,
 * else /tmp/lodic-UID/cache.sock. With make, it makes the folder (mode 0700). In either
 * case it checks whose folder it is.
 * -EPERM: the folder belongs to another user, or others may enter it; -ENAMETOOLONG: the
 * path has more than bytes bytes; else what mkdir(2) or lstat(2) says. */
int path_default_socket(char *path, unsigned long bytes, bool make);

#endif
