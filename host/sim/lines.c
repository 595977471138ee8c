/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What an access costs. Each line of 64 bytes is in memory, or clean in some caches, or
 * in one cache that may write it. A CPU that lacks the line waits until the line may
 * leave its place, and then for the transfer. CPUs that want the same line stand in a
 * queue.
 *
 * Three rules decide about a contended line. They are assumed, not known of the
 * hardware.
 *
 *   who is next   drawn at random. A fixed order would keep CPUs that are neighbours in the
 *                 queue neighbours for ever, and hand-overs cheap.
 *   hold          a new owner keeps the line for a moment. A cas that failed has fetched the
 *                 line, and the moment lets its retry find it still there. Without the moment,
 *                 a loop of load and cas almost never succeeds under contention.
 *   queued        a transfer that follows another may cost less than a lone one, because requests
 *                 are already at the line's home when the line gets free. By default it does not:
 *                 a line rather stays in its socket (ADR-0035).
 *
 * A line that only one CPU ever used cannot make another CPU wait. Its accesses are
 * charged without waiting for the other clocks, within skew_ns. When a second CPU uses
 * the line, that ends for good: from then on every access to the line is in exact order.
 *
 * A line's memory is at one socket, its home: that of the CPU that used the line first, as
 * Linux places pages.
 *
 * The model has no prefetching, and no links or home agents that fill up. It has no store
 * buffers either: a task waits for a store that misses, as if a fence followed. Caches forget
 * lines only if the machine has caches (caches.c).
 */
#include "host/sim/engine.h"

static bool access_writes(enum sim_access access)
{
	return access >= SIM_STORE;
}

static u64 hit_ps(enum sim_access access)
{
	const struct sim_machine *m = &world.machine;

	switch (access) {
	case SIM_LOAD: return engine_cycles_ps(m->hit);
	case SIM_LOAD_DEP: return engine_cycles_ps(m->hit_dep);
	case SIM_STORE: return engine_cycles_ps(m->store);
	case SIM_RMW: break;
	}
	return engine_cycles_ps(m->hit + m->rmw_extra);
}

static bool sharers_have(u32 number, u32 cpu)
{
	return engine_sharers(number)[cpu / 64] >> cpu % 64 & 1;
}

static void sharers_add(struct line *l, u32 number, u32 cpu)
{
	engine_sharers(number)[cpu / 64] |= (u64)1 << cpu % 64;
	l->sockets |= (u8)(1u << world.cpus[cpu].socket);
}

static void sharers_clear(struct line *l, u32 number)
{
	memset(engine_sharers(number), 0, engine_arena.sharer_words * sizeof(u64));
	l->sockets = 0;
}

static bool line_hits(const struct line *l, u32 number, u32 cpu, bool writes)
{
	if (l->state == LINE_OWNED)
		return l->owner == cpu;
	return l->state == LINE_SHARED && !writes && sharers_have(number, cpu);
}

/* To the nearest copy or to the farthest: one copy serves a reader, and a writer needs
 * an answer from all. */
static u32 line_hops(const struct line *l, u32 socket, bool farthest)
{
	u32 best = farthest ? 0 : 2;
	u32 s;

	for (s = 0; s < world.machine.nr_sockets; s++) {
		u32 hops = world.machine.hops[socket][s];

		if (l->sockets >> s & 1 && (farthest ? hops > best : hops < best))
			best = hops;
	}
	return best;
}

/* How long the line takes to reach cpu when no other CPU is in the way. */
static u64 line_latency_ps(const struct line *l, const struct cpu *cpu, bool writes)
{
	const struct sim_machine *m = &world.machine;
	u32 hops, cycles;

	if (l->state == LINE_OWNED) {
		hops = m->hops[cpu->socket][world.cpus[l->owner].socket];
		cycles = writes ? m->rmw_dirty[hops] : m->load_dirty[hops];
	} else if (l->state == LINE_SHARED) {
		hops = line_hops(l, cpu->socket, writes);
		cycles = writes ? m->rmw_shared[hops] : m->load_shared[hops];
	} else {
		cycles = m->load_memory[m->hops[cpu->socket][l->home]];
	}
	return engine_cycles_ps(cycles);
}

static void line_used(u32 number, const struct cpu *cpu, bool came)
{
	if (world.machine.has_caches)
		caches_use(number, cpu, came);
}

static void line_move(struct line *l, u32 number, const struct cpu *cpu, bool writes)
{
	world.transfers[l->name]++;
	if (writes || l->state == LINE_IN_MEMORY) {
		sharers_clear(l, number);
		l->state = LINE_OWNED;
		l->owner = (u16)cpu->number;
	} else {
		if (l->state == LINE_OWNED) {
			sharers_add(l, number, l->owner);
			l->state = LINE_SHARED;
		}
		sharers_add(l, number, cpu->number);
	}
	line_used(number, cpu, true);
}

void line_forget(u32 number, const struct cpu *cpu)
{
	struct line *l = engine_line_at(number);

	if (l->state == LINE_SHARED) {
		engine_sharers(number)[cpu->number / 64] &=
			~((u64)1 << cpu->number % 64);
	} else if (l->state == LINE_OWNED && l->owner == cpu->number) {
		l->state = LINE_SHARED;
		l->sockets = (u8)(1u << cpu->socket);
	}
}

void line_forget_socket(u32 number, u32 socket)
{
	struct line *l = engine_line_at(number);
	u32 first = socket * world.machine.cpus_per_socket, i;

	if (l->state == LINE_OWNED && world.cpus[l->owner].socket == socket) {
		l->state = LINE_IN_MEMORY;
		return;
	}
	if (l->state != LINE_SHARED || !(l->sockets >> socket & 1))
		return;
	for (i = first; i < first + world.machine.cpus_per_socket; i++)
		engine_sharers(number)[i / 64] &= ~((u64)1 << i % 64);
	l->sockets &= (u8) ~(1u << socket);
	if (l->sockets == 0)
		l->state = LINE_IN_MEMORY;
}

/* Sends the line to cpu, starting now. Returns the time of its arrival. */
static u64 line_grant(struct line *l, u32 number, struct cpu *cpu, u64 now, bool queued)
{
	const struct sim_machine *m = &world.machine;
	bool writes = access_writes(cpu->waits_for);
	bool was_shared = l->state == LINE_SHARED;
	u64 latency = engine_jitter(line_latency_ps(l, cpu, writes));
	u64 arrival;

	if (queued)
		latency = latency * m->queued_percent / 100;
	arrival = now + latency;
	line_move(l, number, cpu, writes);
	if (writes)
		l->free_at = arrival + (u64)m->hold_ns * PS_PER_NS;
	else if (was_shared)
		l->free_at = now + (u64)m->shared_busy_ns * PS_PER_NS;
	else
		l->free_at = arrival;
	world.wait_ps[l->name] += arrival - cpu->waits_since;
	return arrival;
}

/* Draws whose turn it is; sometimes only among the CPUs of the line's socket. */
static u32 line_choose(const struct line *l)
{
	u32 at = engine_random(l->nr_queued);
	u32 i, socket;

	if (l->state != LINE_OWNED ||
	    engine_random(100) >= world.machine.same_socket_percent)
		return at;
	socket = world.cpus[l->owner].socket;
	for (i = 0; i < l->nr_queued; i++) {
		u32 other = (at + i) % l->nr_queued;

		if (world.cpus[l->queue[other]].socket == socket)
			return other;
	}
	return at;
}

static void line_make_due(struct line *l, u32 number)
{
	if (l->due || l->nr_queued == 0)
		return;
	l->due = true;
	engine_line_due(number, l->free_at);
}

void line_serve(u32 number, u64 now)
{
	struct line *l = engine_line_at(number);
	struct cpu *cpu;
	u32 at;

	l->due = false;
	at = line_choose(l);
	cpu = &world.cpus[l->queue[at]];
	l->queue[at] = l->queue[--l->nr_queued];
	engine_continue(cpu, line_grant(l, number, cpu, now, true));
	line_make_due(l, number);
}

static void line_fetch(struct line *l, u32 number, struct cpu *cpu,
                       enum sim_access access)
{
	cpu->waits_since = cpu->clock;
	cpu->waits_for = access;
	if (l->nr_queued == 0 && l->free_at <= cpu->clock) {
		engine_until(line_grant(l, number, cpu, cpu->clock, false));
		return;
	}
	if (!l->queue)
		l->queue = memory_queue();
	l->queue[l->nr_queued++] = (u16)cpu->number;
	line_make_due(l, number);
	engine_wait();
}

/* cpu is about to use the line of p. With caches, all that is noted of lines is more than the
 * caches of the computer that runs this hold. So it fetches early what it will look at. */
static void line_expect(const void *p, const struct cpu *cpu)
{
	u32 number;
	const struct line *l = engine_line(p, &number);

	if (!l)
		return;
	__builtin_prefetch(l);
	caches_expect(number, cpu);
}

/* No other CPU ever had it. */
static bool line_is_private(struct line *l, const struct cpu *cpu)
{
	if (!l->touched) {
		l->touched = true;
		l->toucher = (u16)cpu->number;
		l->home = (u8)cpu->socket;
	}
	return l->toucher == cpu->number;
}

void sim_charge(const void *p, enum sim_access access)
{
	struct line *l;
	struct cpu *cpu;
	u32 number;

	world.accesses++;
	cpu = engine_cpu();
	if (world.machine.has_caches)
		line_expect(p, cpu);
	engine_preempt();
	engine_order((u64)world.machine.skew_ns * PS_PER_NS);
	l = engine_line(p, &number);
	if (l && !line_is_private(l, cpu)) {
		l->toucher = NO_CPU;
		engine_order(0);
		if (!line_hits(l, number, cpu->number, access_writes(access))) {
			line_fetch(l, number, cpu, access);
			return;
		}
	} else if (l && !line_hits(l, number, cpu->number, true)) {
		/* It comes from memory, or from the socket's cache. */
		u64 latency = line_latency_ps(l, cpu, access_writes(access));

		line_move(l, number, cpu, true);
		world.wait_ps[l->name] += latency;
		cpu->clock += latency;
		return;
	}
	if (l)
		line_used(number, cpu, false);
	cpu->clock += hit_ps(access);
}

/* One line of a copy. Copies do not queue: they take the line as it is. Returns how
 * long the line is on its way. */
static u64 line_copy(const u8 *p, struct cpu *cpu, bool writes)
{
	u32 number;
	struct line *l = engine_line(p, &number);
	u64 latency;

	if (!l)
		return 0;
	if (!line_is_private(l, cpu))
		l->toucher = NO_CPU;
	if (line_hits(l, number, cpu->number, writes)) {
		line_used(number, cpu, false);
		return 0;
	}
	latency = line_latency_ps(l, cpu, writes);
	line_move(l, number, cpu, writes);
	world.wait_ps[l->name] += latency / world.machine.copy_overlap;
	return latency;
}

void sim_copy(void *to, const void *from, size_t n)
{
	const struct sim_machine *m = &world.machine;
	struct cpu *cpu;
	u64 missing = 0;
	size_t at;

	if (!engine_current || n == 0)
		return;
	world.accesses++;
	engine_preempt();
	cpu = engine_cpu();
	for (at = 0; at < n && world.machine.has_caches; at += LINE_BYTES)
		line_expect((const u8 *)from + at, cpu);
	engine_order(0);
	for (at = 0; at < n; at += LINE_BYTES) {
		missing += line_copy((const u8 *)from + at, cpu, false);
		missing += line_copy((const u8 *)to + at, cpu, true);
	}
	cpu->clock += missing / m->copy_overlap;
	cpu->clock += engine_cycles_ps(
		(u32)((n + m->copy_bytes_per_cycle - 1) / m->copy_bytes_per_cycle));
}

void sim_fence(void)
{
	if (engine_current)
		engine_cpu()->clock += engine_cycles_ps(world.machine.fence);
}
