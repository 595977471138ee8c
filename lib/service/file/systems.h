/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What kinds of file systems there are, and how many workers wait for one that may not answer.
 * Any thread may call this, and may have to wait for SYSTEMS_WAIT_NS; if the system is asked,
 * longer.
 */
#ifndef LODIC_LIB_SERVICE_FILE_SYSTEMS_H
#define LODIC_LIB_SERVICE_FILE_SYSTEMS_H

#include <stdbool.h>

#include "core/block.h"
#include "lib/port/inode.h"

/* How long somebody waits for another one's answer from the same system. Our choice: a local one
 * takes 1 us, and a worker on a loaded machine some milliseconds. */
#define SYSTEMS_WAIT_NS ((u64)100 * 1000000)

struct systems_kind {
	u64 dev;
	u64 mount; /* never used again; 0: the kernel has no such number (before Linux 6.8) */
	enum port_system system;
	bool away; /* another mount than that of / and of this program */
};

/* What kind of file system has fd? Only a system that is not known yet is asked itself.
 * -EBUSY: somebody has asked it, and it does not answer. */
PORT_HANGS int systems_find(int fd, struct systems_kind *ret_kind);
/* Before the system is asked anything else, if it may not answer; and afterwards.
 * -EBUSY: others wait for it already, as many as may. */
PORT_WAITS int systems_enter(const struct systems_kind *kind);
void systems_leave(const struct systems_kind *kind);

#endif
