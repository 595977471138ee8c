/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Memory that forked processes share, for everything that is measured. A scheme's state
 * has pointers and so is private to one process; but a mapping that was made before a
 * fork stands at the same address in all children. So host_alloc(), as core/ calls it, is
 * led here by the linker (--wrap, bench/meson.build), and users can be processes as well
 * as threads, with no difference in what memory they count in.
 */
#ifndef LODIC_BENCH_SHARED_H
#define LODIC_BENCH_SHARED_H

#include "host/host.h"

/* Reserves addresses; memory is taken when it is touched. Before any host_alloc(), and
 * before the fork. -ENOMEM. */
int shared_open(void);

/* Zeroed, and touched by the caller, so on his NUMA node. NULL: used up. Nothing is ever
 * given back before the program ends. Any thread or process may call. */
void *shared_alloc(size_t n, size_t align);

/* Bytes handed out so far. */
u64 shared_taken_bytes(void);

/* What the linker puts in the place of host_alloc() and host_free(). */
void *__wrap_host_alloc(size_t n, size_t align);
void __wrap_host_free(void *p, size_t n);

#endif
