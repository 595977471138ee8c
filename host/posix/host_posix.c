/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The posix host's functions that are too slow or too rare to inline.
 * Per-CPU words are updated by an atomic add on the current CPU's word: right on any
 * kernel, if not the fastest; restartable sequences can replace it behind this name.
 */
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "host/host.h"

#define SPINS_BEFORE_YIELD 64

void host_fence_heavy(void)
{
	if (syscall(__NR_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) != 0)
		syscall(__NR_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	host_fence_full();
}

u32 host_nr_cpus(void)
{
	long n = sysconf(_SC_NPROCESSORS_CONF);

	return n > 0 ? (u32)n : 1;
}

u32 host_cpu(void)
{
	int cpu = sched_getcpu();

	return cpu > 0 ? (u32)cpu : 0;
}

u32 host_percpu_add(u64 *p, u32 stride_words, u64 delta)
{
	u32 cpu = host_cpu();

	host_fetch_add(p + (size_t)cpu * stride_words, delta);
	return cpu;
}

void host_lock(u64 *lock)
{
	u32 spins = 0;

	/* Bounded by the holder, who does bounded work; the waiter gives way. */
	while (!host_cas(lock, 0, 1)) {
		host_relax();
		if (++spins % SPINS_BEFORE_YIELD == 0)
			sched_yield();
	}
}

void host_unlock(u64 *lock)
{
	host_store_release(lock, 0);
}

void *host_alloc(size_t n, size_t align)
{
	void *p = NULL;

	if (align < sizeof(void *))
		align = sizeof(void *);
	if (posix_memalign(&p, align, n ? n : 1) != 0)
		return NULL;
	memset(p, 0, n);
	return p;
}

void host_free(void *p, size_t n)
{
	(void)n;
	free(p);
}

u64 host_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec;
}

u32 host_choose(u32 n)
{
	/* splitmix64, one stream per thread. */
	static _Thread_local u64 state = 1;
	u64 z = state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (u32)((z ^ (z >> 31)) % n);
}

void host_fail(const char *what, const char *file, u32 line)
{
	fprintf(stderr, "lodic: broken rule at %s:%u: %s\n", file, line, what);
	abort();
}
