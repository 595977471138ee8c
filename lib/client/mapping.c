/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See mapping.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "lib/client/mapping.h"

#include "lib/huge.h"

void *mapping_alloc_wiped(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	               -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	if (madvise(p, bytes, MADV_WIPEONFORK) != 0) {
		munmap(p, bytes);
		return NULL;
	}
	return p;
}

void mapping_free_wiped(void *p, size_t bytes)
{
	if (p)
		munmap(p, bytes);
}

int mapping_share(int fd, u64 bytes, int protection, void **ret_at)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	int err;

	/* If a mapping is longer than its file, the first look behind the file's end
	 * kills the process. So the file must not become shorter, either. */
	if (fstat(fd, &st) != 0)
		return -errno;
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || (u64)st.st_size < bytes ||
	    bytes == 0)
		return -EPROTO;
	err = huge_map(fd, bytes, protection, ret_at);
	/* A forked child must not use it: see the note on fork() in lodic.h. */
	if (!err)
		madvise(*ret_at, bytes, MADV_DONTFORK);
	return err;
}

int mapping_zero(void *at, u64 bytes, int protection)
{
	/* Without a reserve, so that a strict kernel (vm.overcommit_memory) has no reason to refuse
	 * pages that nobody writes. */
	void *zeros = mmap(
		at, bytes, protection,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);

	if (zeros == MAP_FAILED)
		return -errno;
	madvise(zeros, bytes, MADV_DONTFORK);
	return 0;
}
