/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Write protection by userfaultfd, of a mapping of shared memory: entries are changed that
 * stay present. Used by hold.c, where the kernel itself lets a write through, and by the
 * race uffd-wp.
 */
#ifndef LODIC_TESTS_UFFD_H
#define LODIC_TESTS_UFFD_H

#include "lib.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

/* Linux 6.7: a write to a protected page is not reported, it only ends its protection. */
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif

/* A descriptor by which [at, at + bytes) can be protected; at NULL: only to see whether
 * this kernel can. -1 with errno. */
static unused int uffd_wp_open(char *at, size_t bytes, u64 features)
{
	struct uffdio_api api = { .api = UFFD_API,
		                  .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP |
		                              UFFD_FEATURE_WP_HUGETLBFS_SHMEM |
		                              features };
	struct uffdio_register reg = { .range = { (u64)(uintptr_t)at, bytes },
		                       .mode = UFFDIO_REGISTER_MODE_WP };
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	int err;

	if (fd < 0)
		return -1;
	if (ioctl(fd, UFFDIO_API, &api) || (at && ioctl(fd, UFFDIO_REGISTER, &reg))) {
		err = errno;
		close(fd);
		errno = err;
		return -1;
	}
	return fd;
}

static unused int uffd_wp(int fd, char *at, size_t bytes, bool on)
{
	struct uffdio_writeprotect wp = {
		.range = { (u64)(uintptr_t)at, bytes },
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	return ioctl(fd, UFFDIO_WRITEPROTECT, &wp);
}

#endif
