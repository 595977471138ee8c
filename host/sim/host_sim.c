/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The functions of host/host.h that the timing model does not inline. */
#include <stdio.h>
#include <stdlib.h>

#include "host/sim/engine.h"

/* A loop that waits for a task without a CPU must give that task a CPU. */
#define RELAXES_BEFORE_GIVING_WAY 64u

void sim_relax(void)
{
	struct task *t = engine_current;

	if (!t)
		return;
	engine_cpu()->clock += engine_cycles_ps(world.machine.relax);
	if (++t->nr_relaxed % RELAXES_BEFORE_GIVING_WAY == 0 && t->nr_locks == 0)
		engine_give_way();
}

void host_fence_heavy(void)
{
	if (!engine_current)
		return;
	engine_cpu()->clock += (u64)world.machine.fence_heavy_ns * PS_PER_NS;
}

/* What it costs all others, milliseconds later, the model does not know. */
bool host_fence_global(void)
{
	host_fence_heavy();
	return true;
}

u32 host_nr_cpus(void)
{
	return world.nr_cpus ? world.nr_cpus : 1;
}

u32 host_cpu(void)
{
	return engine_current ? engine_current->cpu->number : 0;
}

/* Tasks do not move between CPUs, so a plain update commits at once. */
u32 host_percpu_add(u64 *p, u32 stride_words, u64 delta)
{
	u32 cpu = host_cpu();
	u64 *word = p + (size_t)cpu * stride_words;

	sim_access(word, SIM_STORE);
	*word += delta;
	return cpu;
}

bool host_percpu_cas(u64 *p, u32 cpu, u64 old, u64 new_value)
{
	if (host_cpu() != cpu)
		return false;
	sim_access(p, SIM_STORE);
	if (*p != old)
		return false;
	*p = new_value;
	return true;
}

enum host_step host_percpu_step(const u64 *gate, const u64 *guard, u64 is, u64 *p,
                                u32 cpu, u64 old, u64 new_value)
{
	if (host_cpu() != cpu)
		return HOST_STEP_OTHER;
	sim_access(gate, SIM_LOAD);
	if (*gate & HOST_STEP_CLOSED)
		return HOST_STEP_SHUT;
	sim_access(guard, SIM_LOAD);
	if (*guard != is)
		return HOST_STEP_OTHER;
	sim_access(p, SIM_STORE);
	if (*p != old)
		return HOST_STEP_OTHER;
	*p = new_value;
	return HOST_STEP_DONE;
}

bool host_fence_abort(void)
{
	host_fence_heavy();
	return true;
}

/* Linux counts the sections in a word of the CPU's own: a store when one begins and when it
 * ends. */
u32 host_preempt_off(void)
{
	if (!engine_current)
		return 0;
	engine_current->nr_locks++;
	engine_cpu()->clock += engine_cycles_ps(world.machine.store);
	return engine_current->cpu->number;
}

void host_preempt_on(void)
{
	if (!engine_current)
		return;
	engine_cpu()->clock += engine_cycles_ps(world.machine.store);
	engine_current->nr_locks--;
}

void host_lock(u64 *lock)
{
	/* The holder bounds this loop: it does bounded work and is not preempted
	 * (nr_locks). */
	while (!host_cas(lock, 0, 1))
		while (host_load_relaxed(lock))
			host_relax();
	if (engine_current)
		engine_current->nr_locks++;
}

void host_unlock(u64 *lock)
{
	if (engine_current)
		engine_current->nr_locks--;
	host_store_release(lock, 0);
}

u64 host_now_ns(void)
{
	return (engine_current ? engine_cpu()->clock : world.end) / PS_PER_NS;
}

u32 host_choose(u32 n)
{
	return engine_random(n);
}

void host_fail(const char *what, const char *file, u32 line)
{
	fprintf(stderr, "lodic: broken rule at %s:%u: %s\n", file, line, what);
	abort();
}
