/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What all members of a group may do with a file (client/domain.h). Any thread may call these. */
#ifndef LODIC_LIB_SERVICE_FILE_GROUP_H
#define LODIC_LIB_SERVICE_FILE_GROUP_H

#include "host/host.h"
#include "lib/port.h"

/* May each member of the group open the file by this path? It must be open. */
PORT_HANGS bool group_admits(u32 group, const char *path, const struct port_file *file);
/* May each member of the group read a file of that mode, owner and group? */
bool group_lets_read(u32 group, const struct port_file *file);

#endif
