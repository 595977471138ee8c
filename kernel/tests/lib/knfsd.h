/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's own server of NFS, on the loopback device, with none of its programs: what
 * exportfs, mountd and rpcbind would say, this process says. It exports one directory to
 * 127.0.0.1.
 */
#ifndef LODIC_TESTS_KNFSD_H
#define LODIC_TESTS_KNFSD_H

#include "base.h"

/* Starts it. Returns 0 or -errno; -ENODEV: this kernel has no server. */
int knfsd_start(const char *dir);

/* Mounts what it exports, by version 3 or 4 of the protocol. Returns 0 or -errno. */
int knfsd_mount(u32 version, const char *at);

/* Stops it. Nobody may have anything of it mounted. */
void knfsd_stop(void);

#endif
