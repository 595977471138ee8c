/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The functions of liburing's shared library that make a ring, or enter one that exists (U30 in
 * run.h). That library makes its system calls by instructions of its own, so its rings open and
 * close descriptors past every other hook.
 *
 * The shim does not link against liburing. It stands in front of it, because the loader looks among
 * what is preloaded first. That holds for a library that dlopen() loads with RTLD_LOCAL, too. The
 * next function is then not in the shim's own scope, but in its caller's.
 *
 * Not seen: a liburing that is linked statically, and a program that asks dlsym() for the
 * function in the library's handle.
 */
#define _GNU_SOURCE
#include "preload/hooks.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

#include "preload/run.h"
#include "preload/shim.h"

#define LIBRARY_NAME "liburing"

typedef int (*ring_fn)(unsigned long a, unsigned long b, unsigned long c,
                       unsigned long d, unsigned long e);

EXPORT int hooks_ring_init(unsigned long a, unsigned long b, unsigned long c)
	HOOKS_AS("io_uring_queue_init");
EXPORT int hooks_ring_init_params(unsigned long a, unsigned long b, unsigned long c)
	HOOKS_AS("io_uring_queue_init_params");
EXPORT int hooks_ring_init_mem(unsigned long a, unsigned long b, unsigned long c,
                               unsigned long d, unsigned long e)
	HOOKS_AS("io_uring_queue_init_mem");
EXPORT int hooks_ring_map(unsigned long a, unsigned long b, unsigned long c)
	HOOKS_AS("io_uring_queue_mmap");
EXPORT int hooks_ring_setup(unsigned long a, unsigned long b)
	HOOKS_AS("io_uring_setup");

/* The child's state is new, and would serve. */
static void ring_inherited(void)
{
	run_stop(); /* U30 */
}

void hooks_ring_comes(void)
{
	if (!host_load_relaxed(&shim.has_ring) && !host_xchg(&shim.has_ring, 1))
		pthread_atfork(NULL, NULL, ring_inherited);
	run_report_mark(SEEN_RING);
	run_stop();
}

/* Looks for name in a library that is loaded, and in what that one needs. */
static void *find_in(const char *library, const char *name)
{
	void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
	void *found = handle ? dlsym(handle, name) : NULL;

	if (handle)
		dlclose(handle);
	return found;
}

struct search {
	const char *name;
	void *found;
};

static int search_one(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *s = arg;

	(void)size;
	if (strstr(info->dlpi_name, LIBRARY_NAME))
		s->found = find_in(info->dlpi_name, s->name);
	return s->found != NULL;
}

/* The function of this name that the caller would have got without the shim. NULL: none, and the
 * caller only has our name from us. */
static ring_fn ring_next(const char *name, void *caller)
{
	struct search s = { name, dlsym(RTLD_NEXT, name) };
	Dl_info of_caller;

	if (!s.found && dladdr(caller, &of_caller))
		s.found = find_in(of_caller.dli_fname, name);
	if (!s.found)
		dl_iterate_phdr(search_one, &s);
	return (ring_fn)(u64)s.found;
}

/* As it answers on a kernel without rings. */
static int ring_none(unsigned long a, unsigned long b, unsigned long c, unsigned long d,
                     unsigned long e)
{
	(void)a, (void)b, (void)c, (void)d, (void)e;
	return -ENOSYS;
}

static ring_fn ring_comes(const char *name, void *caller)
{
	ring_fn next;

	hooks_ring_comes();
	next = ring_next(name, caller);
	return next ? next : ring_none;
}

int hooks_ring_init(unsigned long a, unsigned long b, unsigned long c)
{
	return ring_comes("io_uring_queue_init", __builtin_return_address(0))(a, b, c,
	                                                                      0, 0);
}

int hooks_ring_init_params(unsigned long a, unsigned long b, unsigned long c)
{
	return ring_comes("io_uring_queue_init_params",
	                  __builtin_return_address(0))(a, b, c, 0, 0);
}

int hooks_ring_init_mem(unsigned long a, unsigned long b, unsigned long c,
                        unsigned long d, unsigned long e)
{
	return ring_comes("io_uring_queue_init_mem",
	                  __builtin_return_address(0))(a, b, c, d, e);
}

/* Maps a ring that came from another process. */
int hooks_ring_map(unsigned long a, unsigned long b, unsigned long c)
{
	return ring_comes("io_uring_queue_mmap", __builtin_return_address(0))(a, b, c,
	                                                                      0, 0);
}

int hooks_ring_setup(unsigned long a, unsigned long b)
{
	return ring_comes("io_uring_setup", __builtin_return_address(0))(a, b, 0, 0, 0);
}
