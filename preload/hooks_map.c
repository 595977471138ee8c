/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * mmap(), and what ends or changes a mapping. See hooks.h. What the shim serves is the kernel's
 * mapping of another file (run_map.c), so these calls do their work on it as on any. The shim only
 * has to know before which places are as the program has mapped them no longer (run_place.c).
 */
#define _GNU_SOURCE
#include "preload/hooks.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include "preload/run.h"

#ifndef MADV_COLD
#define MADV_COLD 20
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

typedef void *(*mmap_fn)(void *address, size_t n, int protection, int flags, int fd,
                         off_t offset);
typedef int (*munmap_fn)(void *address, size_t n);
typedef void *(*mremap_fn)(void *old, size_t old_n, size_t n, int flags, void *address);
typedef int (*mprotect_fn)(void *address, size_t n, int protection);
typedef int (*pkey_mprotect_fn)(void *address, size_t n, int protection, int key);
typedef int (*madvise_fn)(void *address, size_t n, int advice);
typedef int (*mlock_fn)(const void *address, size_t n);
typedef int (*mlock2_fn)(const void *address, size_t n, unsigned int flags);

EXPORT void *hooks_mremap(void *old, size_t old_n, size_t n, int flags, void *address)
	HOOKS_AS("mremap");

/* What changes nothing for a mapping that can only be read; and MAP_POPULATE, which the kernel
 * does there as well. */
#define USUAL_FLAGS \
	(MAP_TYPE | MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_POPULATE | MAP_NONBLOCK | \
	 MAP_NORESERVE | MAP_DENYWRITE | MAP_EXECUTABLE | MAP_STACK)

/* What the flags say. */
static void take_apart(struct run_mapping *m)
{
	int type = m->flags & MAP_TYPE;

	m->kind = type == MAP_SHARED    ? PORT_SHARED
	          : type == MAP_PRIVATE ? PORT_PRIVATE
	                                : 0;
	m->placed = m->flags & (MAP_FIXED | MAP_FIXED_NOREPLACE);
	m->usual = !(m->flags & ~USUAL_FLAGS);
}

static void *mmap_by(enum next which, struct run_mapping *m)
{
	enum run_why why;
	void *at;

	run_enters();
	if (m->flags & MAP_FIXED)
		run_places_change(m->address, m->bytes, false);
	if (m->flags & MAP_ANONYMOUS || m->fd < 0 || !run_maps())
		return ((mmap_fn)next_of(which))(m->address, m->bytes, m->protection,
		                                 m->flags, m->fd, m->offset);
	take_apart(m);
	why = run_map(m, &at);
	if (why != RUN_SERVED)
		at = ((mmap_fn)next_of(which))(m->address, m->bytes, m->protection,
		                               m->flags, m->fd, m->offset);
	if (at == MAP_FAILED)
		return at;
	run_note_map(m, why);
	run_place_waits(m, at, why);
	return at;
}

EXPORT void *mmap(void *address, size_t n, int protection, int flags, int fd,
                  off_t offset)
{
	struct run_mapping m = { .address = address,
		                 .bytes = n,
		                 .protection = protection,
		                 .flags = flags,
		                 .fd = fd,
		                 .offset = offset };

	return mmap_by(NEXT_MMAP, &m);
}

EXPORT void *mmap64(void *address, size_t n, int protection, int flags, int fd,
                    off_t offset)
{
	struct run_mapping m = { .address = address,
		                 .bytes = n,
		                 .protection = protection,
		                 .flags = flags,
		                 .fd = fd,
		                 .offset = offset };

	return mmap_by(NEXT_MMAP64, &m);
}

EXPORT int munmap(void *address, size_t n)
{
	run_places_change(address, n, false);
	return ((munmap_fn)next_of(NEXT_MUNMAP))(address, n);
}

static void moves(void *old, size_t old_n, size_t n, int flags, void *address)
{
	run_places_change(old, old_n, true);
	if (flags & MREMAP_FIXED)
		run_places_change(address, n, false);
}

void *hooks_mremap(void *old, size_t old_n, size_t n, int flags, void *address)
{
	moves(old, old_n, n, flags, address);
	return ((mremap_fn)next_of(NEXT_MREMAP))(old, old_n, n, flags, address);
}

EXPORT int mprotect(void *address, size_t n, int protection)
{
	run_places_change(address, n, true);
	return ((mprotect_fn)next_of(NEXT_MPROTECT))(address, n, protection);
}

EXPORT int pkey_mprotect(void *address, size_t n, int protection, int key)
{
	run_places_change(address, n, true);
	return ((pkey_mprotect_fn)next_of(NEXT_PKEY_MPROTECT))(address, n, protection,
	                                                       key);
}

/* Advice that leaves nothing behind, or only says how the program reads. */
static bool is_hint(int advice)
{
	switch (advice) {
	case MADV_NORMAL:
	case MADV_RANDOM:
	case MADV_SEQUENTIAL:
	case MADV_WILLNEED:
	case MADV_DONTNEED:
	case MADV_COLD:
	case MADV_PAGEOUT:
	case MADV_POPULATE_READ: return true;
	default: return false;
	}
}

EXPORT int madvise(void *address, size_t n, int advice)
{
	if (!is_hint(advice))
		run_places_change(address, n, true);
	run_enters();
	return ((madvise_fn)next_of(NEXT_MADVISE))(address, n, advice);
}

EXPORT int mlock(const void *address, size_t n)
{
	run_places_change(address, n, true);
	return ((mlock_fn)next_of(NEXT_MLOCK))(address, n);
}

EXPORT int mlock2(const void *address, size_t n, unsigned int flags)
{
	run_places_change(address, n, true);
	return ((mlock2_fn)next_of(NEXT_MLOCK2))(address, n, flags);
}

void hooks_map_syscall(long number, const unsigned long a[6])
{
	switch (number) {
	case SYS_mmap:
		if (a[3] & MAP_FIXED)
			run_places_change((void *)a[0], a[1], false);
		return;
	case SYS_munmap: run_places_change((void *)a[0], a[1], false); return;
	case SYS_mremap:
		moves((void *)a[0], a[1], a[2], (int)a[3], (void *)a[4]);
		return;
	case SYS_madvise:
		if (is_hint((int)a[2]))
			return;
		/* fall through */
	case SYS_mprotect:
	case SYS_pkey_mprotect:
	case SYS_mbind:
	case SYS_mlock:
	case SYS_mlock2: run_places_change((void *)a[0], a[1], true); return;
	default: return;
	}
}
