/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The CPUs' store buffers.
 *
 * Under TSO a buffer is first in, first out. Under PSO and weak memory any store in it may be the
 * next to reach memory, unless it waits for an older one. It waits for those to its own word. A
 * release waits for all, and every store waits for those before a release fence.
 *
 * A heavy fence empties a buffer under TSO. Under the weaker memories it takes the stores before
 * the last light fence. The compiler may put what comes after that one behind the heavy fence.
 */
#include <string.h>

#include "host/check/engine.h"

static bool is_weaker_than_tso(void)
{
	return engine.memory == CHECK_PSO || engine.memory == CHECK_WEAK;
}

/* Must a, which is older, reach memory before b does? */
static bool goes_before(const struct store *a, const struct store *b)
{
	return a->p == b->p || b->is_release || a->fences != b->fences;
}

static bool may_go(const struct cpu *c, u32 i)
{
	for (u32 older = 0; older < i; older++)
		if (goes_before(&c->buffer[older], &c->buffer[i]))
			return false;
	return true;
}

static void drain(u32 cpu, u32 i)
{
	struct cpu *c = &engine.cpus[cpu];
	struct store s = c->buffer[i];

	memory_check_word(s.p, "store reaches memory");
	access_commit(&s);
	c->nr--;
	if (c->nr_light > i)
		c->nr_light--;
	memmove(&c->buffer[i], &c->buffer[i + 1], (c->nr - i) * sizeof(s));
	if (engine.seen)
		access_seen(&(struct step){ .kind = STEP_DRAIN,
		                            .entity = (u8)DRAIN_OF(cpu),
		                            .cpu = (u8)cpu,
		                            .p = s.p,
		                            .a = s.v,
		                            .ok = true });
}

bool buffer_has(u32 cpu)
{
	return engine.memory != CHECK_SC && cpu < CHECK_MAX_CPUS;
}

void buffer_reset(u32 cpu)
{
	engine.cpus[cpu].nr = engine.cpus[cpu].nr_light = engine.cpus[cpu].fences = 0;
}

void buffer_add(u32 cpu, const struct store *s)
{
	struct cpu *c = &engine.cpus[cpu];

	if (c->nr == BUFFER_MAX) {
		engine.foot.empty |= 1u << cpu;
		drain(cpu, 0);
	}
	c->buffer[c->nr] = *s;
	c->buffer[c->nr++].fences = c->fences;
}

u64 buffer_overlay(u32 cpu, const u64 *p, u64 v)
{
	const struct cpu *c = &engine.cpus[cpu];

	for (u32 i = 0; i < c->nr; i++)
		if (c->buffer[i].p == p)
			v = (v & ~c->buffer[i].mask) | c->buffer[i].v;
	return v;
}

bool buffer_has_word(u32 cpu, const u64 *p)
{
	const struct cpu *c = &engine.cpus[cpu];

	for (u32 i = 0; i < c->nr; i++)
		if (c->buffer[i].p == p)
			return true;
	return false;
}

void buffer_drain_one(u32 cpu)
{
	const struct cpu *c = &engine.cpus[cpu];
	u32 ready[BUFFER_MAX], nr = 0;

	if (!is_weaker_than_tso()) {
		drain(cpu, 0);
		return;
	}
	for (u32 i = 0; i < c->nr; i++)
		if (may_go(c, i))
			ready[nr++] = i;
	drain(cpu, ready[access_choose_for(DRAIN_OF(cpu), nr)]);
}

void buffer_drain_all(u32 cpu)
{
	if (buffer_has(cpu))
		engine.foot.empty |= 1u << cpu;
	while (engine.cpus[cpu].nr > 0)
		drain(cpu, 0);
}

void buffer_drain_heavy(u32 cpu)
{
	if (!is_weaker_than_tso())
		buffer_drain_all(cpu);
	while (engine.cpus[cpu].nr_light > 0)
		drain(cpu, 0);
}

void buffer_fence_release(u32 cpu)
{
	engine.cpus[cpu].fences++;
}

void buffer_fence_light(u32 cpu)
{
	engine.cpus[cpu].nr_light = engine.cpus[cpu].nr;
}
