/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port/pages.h. Memory that others map, and where it lies. */
#define _GNU_SOURCE
#include "lib/port/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <linux/mempolicy.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define FD_PATH_BYTES 32
#define WORD_BITS (8 * sizeof(unsigned long))

int port_memory_file_reserved(const char *name)
{
	unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB;
	int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
		fd = memfd_create(name, flags);
	return fd < 0 ? -errno : fd;
}

int port_set_bytes(int fd, uint64_t bytes)
{
	return ftruncate(fd, (off_t)bytes) == 0 ? 0 : -errno;
}

int port_commit(int fd, uint64_t offset, uint64_t bytes)
{
	return fallocate(fd, 0, (off_t)offset, (off_t)bytes) == 0 ? 0 : -errno;
}

int port_memory_again(int fd, bool writes)
{
	char path[FD_PATH_BYTES];
	int other;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	other = open(path, (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);
	if (other < 0)
		return -errno;
	/* The flag is about leases. Programs get such descriptors, and io_uring would take it for
	 * "do not wait". */
	fcntl(other, F_SETFL, fcntl(other, F_GETFL) & ~O_NONBLOCK);
	return other;
}

/* The kernel grants a write lease only while no other description is open, and a mapping keeps its
 * description open. It counts what open() made. If a process opens the memory just now the kernel
 * tells the lease's owner: by a signal that nobody minds. */
int port_memory_claim(int fd)
{
	fcntl(fd, F_SETSIG, SIGURG);
	return fcntl(fd, F_SETLEASE, F_WRLCK) == 0 ? 0 : -errno;
}

void port_memory_unclaim(int fd)
{
	fcntl(fd, F_SETLEASE, F_UNLCK);
}

int port_populate(void *at, uint64_t bytes)
{
	return madvise(at, bytes, MADV_POPULATE_WRITE) == 0 ? 0 : -errno;
}

int port_collapse(void *at, uint64_t bytes)
{
	return madvise(at, bytes, MADV_COLLAPSE) == 0 ? 0 : -errno;
}

int port_lock_pages(void *at, uint64_t bytes)
{
	return mlock(at, bytes) == 0 ? 0 : -errno;
}

/* MPOL_PREFERRED: a node that is full refuses nobody. */
static int pages_bind(void *at, uint64_t bytes, unsigned int node, unsigned int flags)
{
	unsigned long nodes[PORT_MOST_NODES / WORD_BITS] = { 0 };

	nodes[node / WORD_BITS] = 1ul << node % WORD_BITS;
	return syscall(SYS_mbind, at, bytes, MPOL_PREFERRED, nodes, PORT_MOST_NODES + 1,
	               flags) == 0
	               ? 0
	               : -errno;
}

int port_node_prefer(void *at, uint64_t bytes, unsigned int node)
{
	return pages_bind(at, bytes, node, 0);
}

int port_node_move(void *at, uint64_t bytes, unsigned int node)
{
	return pages_bind(at, bytes, node, MPOL_MF_MOVE | MPOL_MF_STRICT);
}
