// SPDX-License-Identifier: GPL-2.0
#include "uffd.h"

#include <sys/ioctl.h>

int uffd_open(char *at, size_t bytes, u64 features)
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

int uffd_protect(int fd, char *at, size_t bytes, bool on)
{
	struct uffdio_writeprotect wp = {
		.range = { (u64)(uintptr_t)at, bytes },
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	return ioctl(fd, UFFDIO_WRITEPROTECT, &wp);
}
