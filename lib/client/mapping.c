/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See mapping.h. */
#include <errno.h>

#include "lib/client/mapping.h"

#include "lib/huge.h"
#include "lib/port.h"

void *mapping_alloc_wiped(size_t bytes)
{
	void *p;

	if (port_map(NULL, bytes, PORT_READ | PORT_WRITE, PORT_PRIVATE | PORT_ANONYMOUS,
	             -1, 0, &p) != 0)
		return NULL;
	if (port_advise(p, bytes, PORT_WIPE_IN_CHILD) != 0) {
		port_unmap(p, bytes);
		return NULL;
	}
	return p;
}

void mapping_free_wiped(void *p, size_t bytes)
{
	if (p)
		port_unmap(p, bytes);
}

int mapping_share(int fd, u64 bytes, int protection, void **ret_at)
{
	struct port_memory memory;
	int err;

	/* If a mapping is longer than its file, the first look behind the file's end
	 * kills the process. So the file must not become shorter, either. */
	if (port_memory_look(fd, &memory) != 0 || !(memory.seals & PORT_SEAL_SHRINK) ||
	    memory.bytes < bytes || bytes == 0)
		return -EPROTO;
	err = huge_map(fd, bytes, protection, ret_at);
	/* A forked child must not use it: see the note on fork() in lodic.h. */
	if (!err)
		port_advise(*ret_at, bytes, PORT_NOT_IN_CHILD);
	return err;
}

int mapping_zero(void *at, u64 bytes, int protection)
{
	/* Without a reserve, so that a strict kernel (vm.overcommit_memory) has no reason to refuse
	 * pages that nobody writes. */
	const int flags = PORT_PRIVATE | PORT_ANONYMOUS | PORT_FIXED | PORT_UNRESERVED;
	void *zeros;
	int err = port_map(at, bytes, protection, flags, -1, 0, &zeros);

	if (!err)
		port_advise(zeros, bytes, PORT_NOT_IN_CHILD);
	return err;
}
