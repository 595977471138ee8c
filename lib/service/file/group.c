/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See group.h. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "lib/port/inode.h"
#include "lib/service/file/group.h"

#define READ_BIT 4u
#define SEARCH_BIT 1u
#define GROUP_SHIFT 3

/* Does each member of the group have this right, whatever its other groups are? The owner may take
 * it from itself, and give it back. */
static bool group_may(u32 group, const struct port_file *f, u32 bits)
{
	u32 of_group = f->rights >> GROUP_SHIFT & bits;

	return (f->gid == group ? of_group : of_group & f->rights) == bits;
}

/* An access list may refuse what the mode allows. */
static bool group_is_plain(const char *path)
{
	int bytes = port_access_list(path);

	return bytes == -ENODATA || bytes == -EOPNOTSUPP;
}

/* All folders on the way must let the group pass. */
static bool group_reaches(u32 group, const char *path)
{
	char folder[PATH_MAX];
	struct port_file f;

	if (*path != '/' || strlen(path) >= sizeof(folder))
		return false;
	for (const char *at = path; at; at = strchr(at + 1, '/')) {
		size_t n = at == path ? 1 : (size_t)(at - path);

		memcpy(folder, path, n);
		folder[n] = '\0';
		if (port_look_at(folder, false, &f) != 0 ||
		    f.kind != PORT_FILE_FOLDER || !group_may(group, &f, SEARCH_BIT) ||
		    !group_is_plain(folder))
			return false;
	}
	return true;
}

bool group_lets_read(u32 group, const struct port_file *file)
{
	return group_may(group, file, READ_BIT);
}

bool group_admits(u32 group, const char *path, const struct port_file *file)
{
	struct port_file f;

	return group_may(group, file, READ_BIT) && group_reaches(group, path) &&
	       port_look_at(path, false, &f) == 0 && f.dev == file->dev &&
	       f.ino == file->ino && group_is_plain(path);
}
