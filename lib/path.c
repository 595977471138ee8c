/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Where a user's service listens by default; both halves of the library must agree. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/service/service.h"

#define FOLDER_BYTES 64

/* Only this user may enter the folder: otherwise another user could put a socket of their
 * own there. */
static int path_check_folder(const char *folder, bool make)
{
	struct stat st;

	if (make && mkdir(folder, 0700) != 0 && errno != EEXIST)
		return -errno;
	if (lstat(folder, &st) != 0)
		return errno == ENOENT && !make ? 0 : -errno;
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077)
		return -EPERM;
	return 0;
}

int path_default_socket(char *path, unsigned long bytes, bool make)
{
	unsigned int uid = geteuid();
	char folder[FOLDER_BYTES];
	struct stat st;
	int err;

	snprintf(folder, sizeof(folder), "/run/user/%u", uid);
	if (stat(folder, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == uid)
		snprintf(folder, sizeof(folder), "/run/user/%u/lodic", uid);
	else
		snprintf(folder, sizeof(folder), "/tmp/lodic-%u", uid);
	err = path_check_folder(folder, make);
	if (err)
		return err;
	if ((unsigned long)snprintf(path, bytes, "%s/cache.sock", folder) >= bytes)
		return -ENAMETOOLONG;
	return 0;
}
