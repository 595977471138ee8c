/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: host/host.h. The rest of it is in host_impl.h, and host_alloc() in heap.c. */
#include "host/whole/machine.h"

#include "host/host.h"

void machine_relax(void)
{
	if (machine.running)
		machine_yield();
}

void host_fence_heavy(void)
{
	host_fence_full();
}

bool host_fence_global(void)
{
	host_fence_full();
	return true;
}

bool host_fence_abort(void)
{
	return false;
}

u32 host_cpu(void)
{
	return machine.running ? machine.running->cpu : 0;
}

u32 host_nr_cpus(void)
{
	return machine.nr_cpus;
}

u32 host_percpu_add(u64 *p, u32 stride_words, u64 delta)
{
	u32 cpu;

	machine_step();
	cpu = host_cpu();
	p[(u64)cpu * stride_words] += delta;
	return cpu;
}

bool host_percpu_cas(u64 *p, u32 cpu, u64 old, u64 new_value)
{
	machine_step();
	if (host_cpu() != cpu || *p != old)
		return false;
	*p = new_value;
	return true;
}

enum host_step host_percpu_step(const u64 *gate, const u64 *guard, u64 is, u64 *p,
                                u32 cpu, u64 old, u64 new_value)
{
	machine_step();
	if (*gate & HOST_STEP_CLOSED)
		return HOST_STEP_SHUT;
	if (host_cpu() != cpu || *guard != is || *p != old)
		return HOST_STEP_OTHER;
	*p = new_value;
	return HOST_STEP_DONE;
}

u32 host_preempt_off(void)
{
	machine_step();
	machine.running->preempt_off++;
	return host_cpu();
}

void host_preempt_on(void)
{
	machine.running->preempt_off--;
}

void host_lock(u64 *lock)
{
	while (!host_cas(lock, 0, 1))
		host_relax();
}

void host_unlock(u64 *lock)
{
	host_store_release(lock, 0);
}

u64 host_now_ns(void)
{
	return machine.now_ns;
}

u32 host_choose(u32 n)
{
	return machine_draw(n);
}

void host_fail(const char *what, const char *file, u32 line)
{
	machine_fail("%s (%s:%u)", what, file, line);
}
