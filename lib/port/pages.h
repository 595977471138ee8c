/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The door to the system (port.h): memory that the service makes and others map. Are all its pages
 * there, how large are they, at which node do they lie, and has anybody else the memory? Only the
 * service has this.
 *
 * Memory files do not hang, so that no function here has a mark. But the system may take long to
 * find pages: up to 18 ms for a huge one.
 */
#ifndef LODIC_LIB_PORT_PAGES_H
#define LODIC_LIB_PORT_PAGES_H

#include "lib/port.h"

/* ---- memory files ---- */

/* A memory file as port_memory_file() makes it, but of the huge pages that the administrator has
 * set aside. Nobody takes them before port_map(), which says -ENOMEM if there are too few. Returns
 * its descriptor. -EMFILE -ENFILE -ENOMEM -EACCES -EPERM. -EINVAL -ENODEV -ENOSYS -ENOENT: this
 * system has none. */
int port_memory_file_reserved(const char *name);
/* A memory file has so many bytes. New ones are zeros, and take no memory yet. -EFBIG: files may
 * not be so large here. -EPERM: that is sealed. -EINVAL -ENOMEM -EBADF. */
int port_set_bytes(int fd, uint64_t bytes);
/* From now on the memory for these bytes is there; what they say stays. -ENOSPC, -ENOMEM: there is
 * none. -EINTR: this process was stopped meanwhile. -EFBIG -EPERM -EBADF. */
int port_commit(int fd, uint64_t offset, uint64_t bytes);

/* Opens the memory file behind fd once more: a description of its own, to read it, and to write it
 * too if it shall. Returns a descriptor. -ENOENT: there is no /proc, or no fd. -EWOULDBLOCK: some
 * other description has claimed it, or has a lease of it. -EACCES: its rights do not allow it.
 * -EMFILE -ENFILE -EPERM -ENOMEM. */
int port_memory_again(int fd, bool writes);
/* Has nobody else a memory file? fd is from port_memory_again(). Those descriptions count, and
 * each mapping counts as its description. The one that port_memory_file() has made does not count,
 * and neither do its mappings. 0: nobody has it, and nobody can open it until
 * port_memory_unclaim(fd), or until fd is closed. A process that tries may wait for that. -EAGAIN:
 * somebody has it. -EINVAL -EACCES -ENOMEM -EBADF: nobody can say. */
int port_memory_claim(int fd);
void port_memory_unclaim(int fd);

/* ---- pages of mappings ---- */

/* All of them are there, as if somebody had written to each. -EINVAL: this kernel cannot do that.
 * -ENOMEM -EFAULT: it could not make all. */
int port_populate(void *at, uint64_t bytes);
/* Makes huge pages of what lies there, for which a first small page must be there. -ENOMEM: there
 * is no memory in one piece. -EBUSY: the limit of the control group is reached. -EINVAL: it may
 * not have them, or this kernel cannot do that. -EAGAIN: pages are in use. In each case it has
 * made none, or fewer. */
int port_collapse(void *at, uint64_t bytes);
/* No disk has to answer before a page of them can be touched. -ENOMEM -EPERM: this process may not
 * lock so much. -EAGAIN: some pages could not be read. */
int port_lock_pages(void *at, uint64_t bytes);

/* ---- nodes of memory ---- */

#define PORT_MOST_NODES 1024u

/* Pages of a shared mapping that are still to come shall lie at node, below PORT_MOST_NODES. Where
 * that is full they come at another one. All processes that map the memory have the same pages.
 * -EINVAL: there is no such node. -ENOSYS -EPERM: this system has no nodes, or does not let this
 * process choose. -EFAULT -ENOMEM. */
int port_node_prefer(void *at, uint64_t bytes, unsigned int node);
/* The same, and what this process alone has mapped and touched moves there. A thread that
 * touches a page meanwhile waits for it. Also -EIO: some pages stay where they are. */
int port_node_move(void *at, uint64_t bytes, unsigned int node);

#endif
