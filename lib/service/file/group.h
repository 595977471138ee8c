/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What all members of a group may do with a file (client/domain.h). Any thread may call these. */
#ifndef LODIC_LIB_SERVICE_FILE_GROUP_H
#define LODIC_LIB_SERVICE_FILE_GROUP_H

#include <sys/stat.h>

#include "host/host.h"

/* May each member of the group open the file, which is fd's, by this path? The call may wait as
 * long as its file system. */
bool group_admits(u32 group, const char *path, const struct stat *file);
/* May each member of the group read a file of that mode, owner and group? */
bool group_lets_read(u32 group, const struct stat *file);

#endif
