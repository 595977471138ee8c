/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See group.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "lib/service/file/group.h"

#define READ_BIT 4u
#define SEARCH_BIT 1u
#define GROUP_SHIFT 3

/* Does each member of the group have this right, whatever its other groups are? The owner may take
 * it from itself, and give it back. */
static bool group_may(u32 group, const struct stat *st, u32 bits)
{
	u32 of_group = st->st_mode >> GROUP_SHIFT & bits;

	return (st->st_gid == group ? of_group : of_group & st->st_mode) == bits;
}

/* An access list may refuse what the mode allows. */
static bool group_is_plain(const char *path)
{
	return getxattr(path, "system.posix_acl_access", NULL, 0) < 0 &&
	       (errno == ENODATA || errno == EOPNOTSUPP);
}

/* All folders on the way must let the group pass. */
static bool group_reaches(u32 group, const char *path)
{
	char folder[PATH_MAX];
	struct stat st;

	if (*path != '/' || strlen(path) >= sizeof(folder))
		return false;
	for (const char *at = path; at; at = strchr(at + 1, '/')) {
		size_t n = at == path ? 1 : (size_t)(at - path);

		memcpy(folder, path, n);
		folder[n] = '\0';
		if (lstat(folder, &st) != 0 || !S_ISDIR(st.st_mode) ||
		    !group_may(group, &st, SEARCH_BIT) || !group_is_plain(folder))
			return false;
	}
	return true;
}

bool group_lets_read(u32 group, const struct stat *file)
{
	return group_may(group, file, READ_BIT);
}

bool group_admits(u32 group, const char *path, const struct stat *file)
{
	struct stat st;

	return group_may(group, file, READ_BIT) && group_reaches(group, path) &&
	       lstat(path, &st) == 0 && st.st_dev == file->st_dev &&
	       st.st_ino == file->st_ino && group_is_plain(path);
}
