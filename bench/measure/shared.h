/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Memory that forked processes share, for everything that is measured. A scheme's state
 * has pointers and so is private to one process. But a mapping that was made before a fork
 * stands at the same address in all children. So the linker leads core's calls of
 * host_alloc() here (--wrap, bench/meson.build). Users can then be processes as well as
 * threads, and count in the same memory either way.
 */
#ifndef LODIC_BENCH_MEASURE_SHARED_H
#define LODIC_BENCH_MEASURE_SHARED_H

#include "host/host.h"

/* Reserves addresses; memory is taken when it is touched. The program must call it before
 * any host_alloc() and before it forks. -ENOMEM. */
int shared_open(void);

/* Zeroed memory. The caller touches it, so it is on the caller's NUMA node. NULL: all of it
 * is used up. Nothing is given back before the program ends. Any thread or process may
 * call. */
void *shared_alloc(size_t n, size_t align);

/* The number of bytes handed out so far. */
u64 shared_taken_bytes(void);

/* The linker puts these in the place of host_alloc() and host_free(). */
void *__wrap_host_alloc(size_t n, size_t align);
void __wrap_host_free(void *p, size_t n);

#endif
