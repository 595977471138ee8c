/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * mmap(). See hooks.h. The shim stands in for nothing that ends or changes a mapping: what it
 * serves is the kernel's mapping of another file (run_map.c).
 */
#define _GNU_SOURCE
#include "preload/hooks.h"

#include <sys/mman.h>

#include "preload/run.h"

typedef void *(*mmap_fn)(void *address, size_t n, int protection, int flags, int fd,
                         off_t offset);

static void *mmap_by(enum next which, struct run_mapping *m)
{
	enum run_why why;
	void *at;

	if (m->flags & MAP_ANONYMOUS || m->fd < 0 || !run_maps())
		return ((mmap_fn)hooks_next(which))(m->address, m->bytes, m->protection,
		                                    m->flags, m->fd, m->offset);
	why = run_map(m, &at);
	if (why != RUN_SERVED)
		at = ((mmap_fn)hooks_next(which))(m->address, m->bytes, m->protection,
		                                  m->flags, m->fd, m->offset);
	if (at != MAP_FAILED)
		run_note_map(m, why);
	return at;
}

EXPORT void *mmap(void *address, size_t n, int protection, int flags, int fd,
                  off_t offset)
{
	struct run_mapping m = { address, n, protection, flags, fd, offset, 0 };

	return mmap_by(NEXT_MMAP, &m);
}

EXPORT void *mmap64(void *address, size_t n, int protection, int flags, int fd,
                    off_t offset)
{
	struct run_mapping m = { address, n, protection, flags, fd, offset, 0 };

	return mmap_by(NEXT_MMAP64, &m);
}
