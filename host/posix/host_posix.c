/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The posix host's functions that are too slow or too rare to inline. Words of one CPU are
 * updated by restartable sequences (host/posix/rseq.h) where the C library has registered
 * them. Elsewhere atomics update them, which is right on any kernel but slower.
 */
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "host/posix/rseq.h"
#include "host/random.h"

#define SPINS_BEFORE_YIELD 64
#define CPUS_POSSIBLE "/sys/devices/system/cpu/possible"

/* It waits until each CPU has gone through the scheduler. */
bool host_fence_global(void)
{
	host_fence_full();
	return syscall(__NR_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0;
}

#define GUESSED ((u64)1 << 32)

/* The largest number of a CPU, plus one. Numbers begin at 0 and may have holes. */
static u64 nr_cpus_possible(void)
{
	FILE *f = fopen(CPUS_POSSIBLE, "r");
	long configured = sysconf(_SC_NPROCESSORS_CONF);
	u32 nr = configured > 0 ? (u32)configured : 1;
	u32 last;

	if (!f)
		return nr | GUESSED;
	/* "0-3,8-11" */
	while (fscanf(f, "%u", &last) == 1) {
		if (last >= nr)
			nr = last + 1;
		if (fgetc(f) == EOF)
			break;
	}
	fclose(f);
	return nr;
}

/* The first answer stays, also if it was a guess. */
static u64 nr_cpus(void)
{
	static u64 nr; /* every thread finds the same */
	u64 v = host_load_relaxed(&nr);

	if (v == 0) {
		v = nr_cpus_possible();
		host_store_relaxed(&nr, v);
	}
	return v;
}

u32 host_nr_cpus(void)
{
	return (u32)nr_cpus();
}

u32 host_cpu(void)
{
	int cpu;

#if RSEQ_HAVE
	if (rseq_usable())
		return rseq_cpu();
#endif
	cpu = sched_getcpu();
	return cpu > 0 ? (u32)cpu : 0;
}

#if RSEQ_HAVE
/* A thread that glibc could not register would retry for ever: it runs on no CPU. */
static void rseq_check(void)
{
	if ((int)rseq_self()->cpu_id < 0)
		host_fail("this thread has no restartable sequences", __FILE__,
		          __LINE__);
}
#endif

u32 host_percpu_add(u64 *p, u32 stride_words, u64 delta)
{
	u32 cpu;

#if RSEQ_HAVE
	if (rseq_usable()) {
		/* Retried when the thread was switched out or moved inside a sequence. */
		for (;;) {
			cpu = rseq_cpu();
			if (rseq_add(p + (size_t)cpu * stride_words, cpu, delta) ==
			    RSEQ_DONE)
				return cpu;
			rseq_check();
		}
	}
#endif
	cpu = host_cpu();
	host_fetch_add(p + (size_t)cpu * stride_words, delta);
	return cpu;
}

bool host_percpu_cas(u64 *p, u32 cpu, u64 old, u64 new_value)
{
#if RSEQ_HAVE
	if (rseq_usable()) {
		enum rseq_end end;

		/* Retried when the thread was switched out or moved inside a sequence. */
		do {
			end = rseq_compare_store(p, cpu, old, new_value);
			if (end == RSEQ_DONE)
				return true;
			rseq_check();
		} while (end == RSEQ_AGAIN);
		return false;
	}
#endif
	return host_cpu() == cpu && host_cas(p, old, new_value);
}

enum host_step host_percpu_step(const u64 *gate, const u64 *guard, u64 is, u64 *p,
                                u32 cpu, u64 old, u64 new_value)
{
#if RSEQ_HAVE
	switch (rseq_step(gate, guard, is, p, cpu, old, new_value)) {
	case RSEQ_DONE: return HOST_STEP_DONE;
	case RSEQ_SHUT: return HOST_STEP_SHUT;
	default: return HOST_STEP_OTHER;
	}
#else
	(void)gate, (void)guard, (void)is, (void)p, (void)cpu, (void)old,
		(void)new_value;
	host_fail("this host has no restartable sequences", __FILE__, __LINE__);
#endif
}

/* Registering twice is as good as once, and then it is short. A child of fork inherits it.
 * Where the number of CPUs is a guess, a sequence could run on one that has no words. */
bool host_fence_abort(void)
{
#if RSEQ_HAVE
	static u64 registered;

	if (!rseq_usable() || nr_cpus() & GUESSED)
		return false;
	if (!host_load_relaxed(&registered)) {
		if (syscall(__NR_membarrier,
		            MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0) != 0)
			return false;
		host_store_relaxed(&registered, 1);
	}
	host_fence_full();
	return syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0) ==
	       0;
#else
	return false;
#endif
}

/*
 * A program cannot switch preemption off. A lock for each CPU stands in for it. A thread
 * that is moved meanwhile keeps the number of the CPU, and no other thread has it. That is
 * right for tests, and far too slow for anything else.
 */
#define PREEMPT_CPUS 1024u /* CPUs above share them, which is as right */

static struct {
	u64 lock;
	u64 unused[7];
} preempt[PREEMPT_CPUS] __attribute__((aligned(64)));
static _Thread_local u32 preempt_cpu;

u32 host_preempt_off(void)
{
	preempt_cpu = host_cpu();
	host_lock(&preempt[preempt_cpu % PREEMPT_CPUS].lock);
	return preempt_cpu;
}

void host_preempt_on(void)
{
	host_unlock(&preempt[preempt_cpu % PREEMPT_CPUS].lock);
}

void host_lock(u64 *lock)
{
	u32 spins = 0;

	/* Bounded by the holder, which does bounded work; the waiter gives way to it. */
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
	static _Thread_local u64 state = 1; /* one sequence per thread */

	return (u32)(random_next(&state) % n);
}

void host_fail(const char *what, const char *file, u32 line)
{
	fprintf(stderr, "lodic: broken rule at %s:%u: %s\n", file, line, what);
	abort();
}
