/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a step does to memory.
 *
 * TSO is as in x86. A store goes into its CPU's buffer, first in, first out, and loads of
 * that CPU see it there first. An atomic operation that writes, a full fence, and a change
 * of the CPU's task empty the buffer. It belongs to the CPU, not to the task. In one point
 * this model is weaker than x86: a cas that fails leaves the buffer as it is.
 *
 * Under SC stores go to memory at once. So do a fault's stores under either model. A fault
 * is the kernel's doing, and a CPU that enters or leaves the kernel orders what it did.
 */
#include <string.h>

#include "host/check/engine.h"

/* A copy is so many steps, whatever its size; its pieces end at words. */
#define COPY_PIECES 8u
#define WHOLE (~(u64)0)

static void see(enum step_kind kind, u32 entity, u32 cpu, const void *p, u64 a, u64 b,
                u64 result, bool ok)
{
	struct step s = { .kind = (u8)kind,
		          .entity = (u8)entity,
		          .cpu = (u8)cpu,
		          .p = p,
		          .a = a,
		          .b = b,
		          .result = result,
		          .ok = ok };

	engine.seen(&s);
}

static bool has_buffer(u32 cpu)
{
	return engine.tso && cpu < CHECK_MAX_CPUS;
}

static void touch(const void *p, size_t n, bool writes)
{
	if (engine.stepped)
		footprint_add(&engine.foot, p, n, writes);
}

static void memory_set(u64 *p, u64 v, u64 mask)
{
	touch(p, 8, true);
	*p = (*p & ~mask) | v;
	if (engine.stepped)
		memory_accept(p);
}

void access_drain_one(u32 cpu)
{
	struct cpu *c = &engine.cpus[cpu];
	struct store s = c->buffer[0];

	memory_check_word(s.p, "store reaches memory");
	memory_set(s.p, s.v, s.mask);
	c->nr--;
	memmove(&c->buffer[0], &c->buffer[1], c->nr * sizeof(s));
	if (engine.seen)
		see(STEP_DRAIN, DRAIN_OF(cpu), cpu, s.p, s.v, 0, 0, true);
}

void access_drain_all(u32 cpu)
{
	if (has_buffer(cpu))
		engine.foot.empty |= 1u << cpu;
	while (engine.cpus[cpu].nr > 0)
		access_drain_one(cpu);
}

static u64 load(u32 cpu, const u64 *p)
{
	const struct cpu *c = &engine.cpus[cpu];
	u64 v = *p;

	touch(p, 8, false);
	for (u32 i = 0; i < c->nr; i++)
		if (c->buffer[i].p == p)
			v = (v & ~c->buffer[i].mask) | c->buffer[i].v;
	return v;
}

static void store(u32 cpu, u64 *p, u64 v, u64 mask)
{
	struct cpu *c = &engine.cpus[cpu];

	if (!has_buffer(cpu)) {
		memory_set(p, v, mask);
		return;
	}
	if (c->nr == BUFFER_MAX) {
		engine.foot.empty |= 1u << cpu;
		access_drain_one(cpu);
	}
	c->buffer[c->nr++] = (struct store){ .p = p, .v = v, .mask = mask };
}

/* cas, fetch_add, xchg: returns what was there. A cas that fails orders nothing
 * (host/host.h): it is a load, which sees the stores of its own CPU first. */
static u64 update(enum step_kind kind, u32 cpu, u64 *p, u64 a, u64 b, bool *ret_changed)
{
	u64 before;

	memory_check_word(p, "atomic operation");
	before = load(cpu, p);
	*ret_changed = kind != STEP_CAS || before == a;
	if (!*ret_changed)
		return before;
	access_drain_all(cpu);
	memory_set(p, kind == STEP_CAS ? b : kind == STEP_ADD ? before + a : a, WHOLE);
	return before;
}

static u64 access_byte(enum step_kind kind, u32 cpu, const u8 *p, u8 v)
{
	u64 *word = (u64 *)((uintptr_t)p & ~(uintptr_t)7);
	u32 shift = ((uintptr_t)p & 7) * 8;

	memory_check(p, 1, kind == STEP_LOAD_BYTE ? "load" : "store");
	if (kind == STEP_LOAD_BYTE)
		return load(cpu, word) >> shift & 0xff;
	store(cpu, word, (u64)v << shift, (u64)0xff << shift);
	return 0;
}

static u64 execute(enum step_kind kind, u32 cpu, u64 *p, u64 a, u64 b,
                   bool *ret_changed)
{
	*ret_changed = false;
	switch (kind) {
	case STEP_LOAD: memory_check_word(p, "load"); return load(cpu, p);
	case STEP_LOAD_BYTE: return access_byte(kind, cpu, (const u8 *)p, 0);
	case STEP_STORE:
		memory_check_word(p, "store");
		*ret_changed = true;
		store(cpu, p, a, WHOLE);
		return 0;
	case STEP_STORE_BYTE:
		*ret_changed = true;
		return access_byte(kind, cpu, (const u8 *)p, (u8)a);
	case STEP_CAS:
	case STEP_ADD:
	case STEP_XCHG: return update(kind, cpu, p, a, b, ret_changed);
	case STEP_PERCPU_ADD:
		memory_check_word(p, "per-CPU add");
		*ret_changed = true;
		store(cpu, p, load(cpu, p) + a, WHOLE);
		return cpu;
	case STEP_PERCPU_CAS:
		memory_check_word(p, "per-CPU compare-and-swap");
		*ret_changed = load(cpu, p) == a;
		if (*ret_changed)
			store(cpu, p, b, WHOLE);
		return *ret_changed;
	case STEP_FENCE: access_drain_all(cpu); return 0;
	case STEP_HEAVY:
		for (u32 i = 0; i < engine.nr_cpus; i++)
			access_drain_all(i);
		return 0;
	default: return 0;
	}
}

/* The CPU that a task is told it runs on. A fault runs on no CPU of the scenario; it is
 * told one of theirs, as if it had interrupted that CPU's task. */
static u32 home(u32 cpu)
{
	if (cpu < CHECK_MAX_CPUS)
		return cpu;
	cpu = engine.current % engine.nr_cpus;
	access_drain_all(cpu);
	return cpu;
}

u64 check_step(enum step_kind kind, const void *p, u64 a, u64 b)
{
	u32 cpu = 0;
	u64 result;
	bool changed;

	if (!engine.running) {
		/* setup() and finish(): alone, and nothing may stay behind. */
		result = execute(kind, 0, (u64 *)p, a, b, &changed);
		access_drain_all(0);
		return kind == STEP_CAS ? changed : result;
	}
	if (kind == STEP_RELAX)
		engine_spin();
	engine_point();
	cpu = engine.tasks[engine.current].cpu;
	if (kind == STEP_PERCPU_ADD) {
		p = (const u64 *)p + (size_t)home(cpu) * b;
		result = execute(kind, cpu, (u64 *)p, a, b, &changed);
		result = home(cpu);
	} else {
		result = execute(kind, cpu, (u64 *)p, a, b, &changed);
	}
	if (engine.seen)
		see(kind, engine.current, cpu, p, a, b, result, changed);
	return kind == STEP_CAS ? changed : result;
}

u32 host_cpu(void)
{
	u32 cpu;

	if (!engine.running)
		return engine.alone_on;
	engine_point();
	cpu = home(engine.tasks[engine.current].cpu);
	return cpu;
}

u32 host_nr_cpus(void)
{
	return engine.nr_cpus;
}

u32 host_percpu_add(u64 *p, u32 stride_words, u64 delta)
{
	return (u32)check_step(STEP_PERCPU_ADD, p, delta, stride_words);
}

bool host_percpu_cas(u64 *p, u32 cpu, u64 old, u64 new_value)
{
	bool changed = false;
	u32 here;

	if (!engine.running)
		return check_step(STEP_PERCPU_CAS, p, old, new_value);
	engine_point();
	here = engine.tasks[engine.current].cpu;
	if (home(here) == cpu)
		execute(STEP_PERCPU_CAS, here, p, old, new_value, &changed);
	if (engine.seen)
		see(STEP_PERCPU_CAS, engine.current, here, p, old, new_value, 0,
		    changed);
	return changed;
}

/* A sequence is two steps: the looks, and the commit. Between them all others may go on. But
 * where they disturb it the commit does not come. The commit is a store: what other CPUs have done
 * to the word meanwhile is lost. */
enum host_step host_percpu_step(const u64 *gate, const u64 *guard, u64 is, u64 *p,
                                u32 cpu, u64 old, u64 new_value)
{
	struct task *t = &engine.tasks[engine.current];
	bool changed = false;

	if (!engine.running) {
		if (*gate & HOST_STEP_CLOSED)
			return HOST_STEP_SHUT;
		changed =
			*guard == is && check_step(STEP_PERCPU_CAS, p, old, new_value);
		return changed ? HOST_STEP_DONE : HOST_STEP_OTHER;
	}
	engine_point();
	engine.foot.everything = true;
	if (home(t->cpu) != cpu)
		return HOST_STEP_OTHER;
	t->disturbed = false;
	memory_check_word(gate, "load");
	if (load(t->cpu, gate) & HOST_STEP_CLOSED)
		return HOST_STEP_SHUT;
	memory_check_word(guard, "load");
	memory_check_word(p, "load");
	if (load(t->cpu, guard) != is || load(t->cpu, p) != old)
		return HOST_STEP_OTHER;
	engine_point();
	engine.foot.everything = true;
	if (!t->disturbed)
		execute(STEP_STORE, t->cpu, p, new_value, 0, &changed);
	if (engine.seen)
		see(STEP_PERCPU_CAS, engine.current, t->cpu, p, old, new_value, 0,
		    changed);
	return changed ? HOST_STEP_DONE : HOST_STEP_OTHER;
}

bool host_fence_abort(void)
{
	u32 i;

	check_step(STEP_HEAVY, NULL, 0, 0);
	engine.foot.everything = true;
	for (i = 0; i < engine.nr_tasks; i++)
		engine.tasks[i].disturbed = true;
	return true;
}

void host_fence_heavy(void)
{
	check_step(STEP_HEAVY, NULL, 0, 0);
}

bool host_fence_global(void)
{
	host_fence_heavy();
	return true;
}

/* A holder gives the lock back after boundedly many steps. A holder that was killed, or
 * that waits for the caller, makes a livelock, and the engine reports it. */
void host_lock(u64 *lock)
{
	while (!host_cas(lock, 0, 1))
		host_relax();
}

void host_unlock(u64 *lock)
{
	host_store_release(lock, 0);
}

static void copy_piece(u8 *to, const u8 *from, size_t n)
{
	u32 cpu = engine.tasks[engine.current].cpu;
	bool shared = memory_is_shared(to);

	memory_check(from, n, "copy");
	touch(from, n, false);
	/* The copy must see this CPU's own stores to the source. A copy to shared memory
	 * would have to go through the buffer. Both are done as if a fence came first. */
	for (u32 i = 0; !shared && i < engine.cpus[cpu].nr; i++)
		shared = (const u8 *)engine.cpus[cpu].buffer[i].p + 8 > from &&
		         (const u8 *)engine.cpus[cpu].buffer[i].p < from + n;
	if (shared)
		access_drain_all(cpu);
	if (memory_is_shared(to)) {
		memory_check(to, n, "copy");
		touch(to, n, true);
	}
	memcpy(to, from, n);
	if (engine.seen)
		see(STEP_COPY, engine.current, cpu, from, n, 0, 0, true);
}

void check_copy(void *to, const void *from, size_t n)
{
	size_t piece = (n / COPY_PIECES + 7) & ~(size_t)7, at, part;

	if (!engine.running) {
		memcpy(to, from, n);
		return;
	}
	if (piece == 0)
		piece = 8;
	for (at = 0; at < n; at += part) {
		part = n - at < piece ? n - at : piece;
		engine_point();
		copy_piece((u8 *)to + at, (const u8 *)from + at, part);
	}
}

u64 host_now_ns(void)
{
	engine.foot.everything = true;
	return engine.executed;
}

u32 host_choose(u32 n)
{
	u32 number;

	if (!engine.choose_number || n < 2 || !engine.running)
		return 0;
	engine.foot.everything = true;
	number = engine.choose_number(n);
	if (engine.nr_numbers < NUMBERS_MAX) {
		engine.numbers[engine.nr_numbers].task = (u8)engine.current;
		engine.numbers[engine.nr_numbers++].number = number;
	}
	return number;
}
