/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port.h. Memory. */
#define _GNU_SOURCE
#include "lib/port.h"

#include <errno.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <os_impl.h>

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

_Static_assert(PORT_NONE == PROT_NONE && PORT_READ == PROT_READ &&
                       PORT_WRITE == PROT_WRITE && PORT_SHARED == MAP_SHARED &&
                       PORT_PRIVATE == MAP_PRIVATE && PORT_FIXED == MAP_FIXED &&
                       PORT_ANONYMOUS == MAP_ANONYMOUS &&
                       PORT_UNRESERVED == MAP_NORESERVE,
               "how memory is mapped");
_Static_assert((int)PORT_SEAL_SEALS == F_SEAL_SEAL &&
                       (int)PORT_SEAL_SHRINK == F_SEAL_SHRINK &&
                       (int)PORT_SEAL_GROW == F_SEAL_GROW &&
                       (int)PORT_SEAL_WRITE == F_SEAL_WRITE &&
                       (int)PORT_SEAL_NEW_WRITERS == F_SEAL_FUTURE_WRITE,
               "seals");

void *port_alloc(size_t bytes)
{
	return os_calloc(1, bytes);
}

void port_free(void *p)
{
	os_free(p);
}

char *port_text(const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *copy = os_calloc(1, bytes);

	return copy ? memcpy(copy, text, bytes) : NULL;
}

uint64_t port_page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

int port_map(void *at, uint64_t bytes, int protection, int flags, int fd,
             uint64_t offset, void **ret_at)
{
	void *p = os_mmap(at, bytes, protection, flags, fd, (off_t)offset);

	if (p == MAP_FAILED)
		return -errno;
	*ret_at = p;
	return 0;
}

int port_unmap(void *at, uint64_t bytes)
{
	return os_munmap(at, bytes) == 0 ? 0 : -errno;
}

int port_advise(void *at, uint64_t bytes, enum port_advice advice)
{
	static const int advices[] = {
		[PORT_WIPE_IN_CHILD] = MADV_WIPEONFORK,
		[PORT_NOT_IN_CHILD] = MADV_DONTFORK,
		[PORT_NOT_IN_DUMP] = MADV_DONTDUMP,
		[PORT_HUGE_PAGES] = MADV_HUGEPAGE,
		[PORT_SMALL_PAGES] = MADV_NOHUGEPAGE,
		[PORT_DROP] = MADV_DONTNEED,
		[PORT_DROP_LOCKED] = MADV_DONTNEED_LOCKED,
	};

	return os_madvise(at, bytes, advices[advice]) == 0 ? 0 : -errno;
}

int port_memory_file(const char *name)
{
	unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
		fd = memfd_create(name, flags);
	return fd < 0 ? -errno : fd;
}

int port_seal(int fd, unsigned int seals)
{
	return os_fcntl(fd, F_ADD_SEALS, (int)seals) == 0 ? 0 : -errno;
}

/* Only memory files have seals, and these answer at once. */
int port_memory_look(int fd, struct port_memory *ret)
{
	int seals = os_fcntl(fd, F_GET_SEALS, 0);
	struct stat st;

	if (seals < 0 || fstat(fd, &st) != 0)
		return -errno;
	*ret = (struct port_memory){ (uint64_t)st.st_size, (unsigned int)seals };
	return 0;
}

uint64_t port_machine_bytes(void)
{
	struct sysinfo info;

	return sysinfo(&info) == 0 ? (uint64_t)info.totalram * info.mem_unit : 0;
}
