/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The steps that are measured. Contract: bench/micro.h. */
#include "bench/micro.h"

#include "bench/rseq.h"

/* A line takes far less to come back: after so many turns the other worker has ended. */
#define PING_SPINS 4096u
#define OWN_LOCK 1u /* the lock's place in a CPU's line */

static u64 run_fetch_add(void *arg, u32 worker, u64 position, u64 nr)
{
	struct micro_ground *g = arg;

	(void)worker;
	(void)position;
	for (u64 i = 0; i < nr; i++)
		host_fetch_add(g->shared, 1);
	return 0;
}

static u64 run_cas(void *arg, u32 worker, u64 position, u64 nr)
{
	struct micro_ground *g = arg;
	u64 v;

	(void)worker;
	(void)position;
	/* Lock-free: only a success of another worker makes it retry. */
	for (u64 i = 0; i < nr; i++)
		do
			v = host_load_relaxed(g->shared);
		while (!host_cas(g->shared, v, v + 1));
	return 0;
}

/* Waits until the word says that it is worker's turn. */
static bool ping_wait(const u64 *word, u32 worker, u64 *ret_value)
{
	/* Without host_relax(): the step measures the way of the line, not a pause. */
	for (u32 spins = 0; spins < PING_SPINS; spins++) {
		*ret_value = host_load_acquire(word);
		if (*ret_value % MICRO_MOST_CPUS == worker)
			return true;
	}
	return false;
}

static u64 run_ping_pong(void *arg, u32 worker, u64 position, u64 nr)
{
	struct micro_ground *g = arg;
	u64 v;

	(void)position;
	for (u64 i = 0; i < nr; i++) {
		if (!ping_wait(g->shared, worker, &v))
			return nr - i;
		host_store_release(g->shared, v + 1);
	}
	return 0;
}

static u64 run_ping_pong_cas(void *arg, u32 worker, u64 position, u64 nr)
{
	struct micro_ground *g = arg;
	u64 v = host_load_relaxed(g->shared);

	(void)position;
	v += v % MICRO_MOST_CPUS != worker;
	/* The worker knows the next value and need not load first. So the line comes to be
	 * written at once. */
	for (u64 i = 0; i < nr; i++, v += MICRO_MOST_CPUS)
		for (u32 spins = 0; !host_cas(g->shared, v, v + 1); spins++)
			if (spins == PING_SPINS)
				return nr - i;
	return 0;
}

static u64 *own_line(struct micro_ground *g)
{
	return &g->own[(u64)host_cpu() * COUNT_LINE_WORDS];
}

/* Updates a per-CPU word without a lock: it asks for the CPU, loads, and commits. */
static u64 run_rseq(void *arg, u32 worker, u64 position, u64 nr)
{
	struct micro_ground *g = arg;
	u64 nr_failed = 0;

	(void)worker;
	(void)position;
	for (u64 i = 0; i < nr; i++)
		nr_failed += !rseq_increment(g->own, COUNT_LINE_WORDS);
	return nr_failed;
}

/* The same, as core/ does it on this host. */
static u64 run_percpu_cas(void *arg, u32 worker, u64 position, u64 nr)
{
	struct micro_ground *g = arg;
	u64 nr_failed = 0;

	(void)worker;
	(void)position;
	for (u64 i = 0; i < nr; i++) {
		u32 cpu = host_cpu();
		u64 *word = &g->own[(u64)cpu * COUNT_LINE_WORDS];
		u64 v = host_load_relaxed(word);

		nr_failed += !host_percpu_cas(word, cpu, v, v + 1);
	}
	return nr_failed;
}

static u64 run_percpu_add(void *arg, u32 worker, u64 position, u64 nr)
{
	struct micro_ground *g = arg;

	(void)worker;
	(void)position;
	for (u64 i = 0; i < nr; i++)
		host_percpu_add(g->own, COUNT_LINE_WORDS, 1);
	return 0;
}

static u64 run_spinlock(void *arg, u32 worker, u64 position, u64 nr)
{
	struct micro_ground *g = arg;

	(void)worker;
	(void)position;
	for (u64 i = 0; i < nr; i++) {
		u64 *line = own_line(g);

		host_lock(&line[OWN_LOCK]);
		host_store_relaxed(line, host_load_relaxed(line) + 1);
		host_unlock(&line[OWN_LOCK]);
	}
	return 0;
}

static u64 run_own_cas(void *arg, u32 worker, u64 position, u64 nr)
{
	struct micro_ground *g = arg;
	u64 nr_failed = 0;

	(void)worker;
	(void)position;
	for (u64 i = 0; i < nr; i++) {
		u64 *word = own_line(g), v = host_load_relaxed(word);

		nr_failed += !host_cas(word, v, v + 1);
	}
	return nr_failed;
}

/* The way to the word of this CPU, by itself. */
static u64 run_cpu(void *arg, u32 worker, u64 position, u64 nr)
{
	struct micro_ground *g = arg;
	u64 nr_failed = 0;

	(void)worker;
	(void)position;
	for (u64 i = 0; i < nr; i++)
		nr_failed += own_line(g) >= &g->own[(u64)g->nr_cpus * COUNT_LINE_WORDS];
	return nr_failed;
}

/* Two loops that touch no memory, for what the second CPU adds. CPUs that are threads of one
 * core share its units: they are idle for most of the first loop, and never in the second. */
static u64 run_multiply(void *arg, u32 worker, u64 position, u64 nr)
{
	u64 v = position | 1;

	(void)arg;
	(void)worker;
	for (u64 i = 0; i < nr; i++) {
		v *= 0x9e3779b97f4a7c15u;
		__asm__ volatile("" : "+r"(v)); /* each by itself */
	}
	return v % 2 ? 0 : nr; /* odd times odd */
}

static u64 run_add(void *arg, u32 worker, u64 position, u64 nr)
{
	u64 a = position, b = a, c = a, d = a, e = a, f = a, g = a, h = a;

	(void)arg;
	(void)worker;
	for (u64 i = 0; i < nr; i++) {
		a++, b++, c++, d++, e++, f++, g++, h++;
		__asm__ volatile(""
		                 : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f),
		                   "+r"(g), "+r"(h));
	}
	a -= position + nr;
	return a || b != h || c != g || d != f || e != h ? nr : 0;
}

const struct micro_step micro_steps[] = {
	{ .name = "fetch_add",
	  .what = "host_fetch_add() of one word by all",
	  .least_cpus = 1,
	  .counts = true,
	  .run = run_fetch_add },
	{ .name = "cas",
	  .what = "load and host_cas() of one word by all, until done",
	  .least_cpus = 1,
	  .counts = true,
	  .run = run_cas },
	{ .name = "ping_pong",
	  .what = "a word handed over by load and store, one way",
	  .least_cpus = MICRO_MOST_CPUS,
	  .one_way = true,
	  .counts = true,
	  .run = run_ping_pong },
	{ .name = "ping_pong_cas",
	  .what = "a word handed over by host_cas(), one way",
	  .least_cpus = MICRO_MOST_CPUS,
	  .one_way = true,
	  .counts = true,
	  .run = run_ping_pong_cas },
	{ .name = "pin",
	  .what = "a ref and an unref of lodic, each by a user of its own",
	  .least_cpus = 1 },
	{ .name = "rseq",
	  .what = "a restartable sequence adds to this CPU's word",
	  .least_cpus = 1,
	  .counts = true,
	  .usable = rseq_usable,
	  .run = run_rseq },
	{ .name = "percpu_cas",
	  .what = "host_cpu(), load, host_percpu_cas() of this CPU's word",
	  .least_cpus = 1,
	  .counts = true,
	  .run = run_percpu_cas },
	{ .name = "percpu_add",
	  .what = "host_percpu_add() of this CPU's word",
	  .least_cpus = 1,
	  .counts = true,
	  .run = run_percpu_add },
	{ .name = "spinlock",
	  .what = "host_cpu(), host_lock(), add, host_unlock() of this CPU's word",
	  .least_cpus = 1,
	  .counts = true,
	  .run = run_spinlock },
	{ .name = "own_cas",
	  .what = "host_cpu(), load, host_cas() of this CPU's word",
	  .least_cpus = 1,
	  .counts = true,
	  .run = run_own_cas },
	{ .name = "cpu",
	  .what = "host_cpu() and the way to this CPU's word",
	  .least_cpus = 1,
	  .run = run_cpu },
	{ .name = "multiply",
	  .what = "a multiplication that waits for the one before",
	  .least_cpus = 1,
	  .run = run_multiply },
	{ .name = "add",
	  .what = "8 additions that wait for nothing but their own last one",
	  .least_cpus = 1,
	  .run = run_add },
	/* Each with all promises of those before it. */
	{ .name = "copy",
	  .what = "64 bytes of a block whose address is known",
	  .least_cpus = 1,
	  .promise = true,
	  .run = micro_promise_copy },
	{ .name = "found",
	  .what = "the block is looked up, and has its name",
	  .least_cpus = 1,
	  .promise = true,
	  .run = micro_promise_found },
	{ .name = "whole",
	  .what = "no refill has come between: seq, twice",
	  .least_cpus = 1,
	  .promise = true,
	  .run = micro_promise_whole },
	{ .name = "fresh",
	  .what = "no writer has the file",
	  .least_cpus = 1,
	  .promise = true,
	  .run = micro_promise_fresh },
	{ .name = "alive",
	  .what = "the service lives",
	  .least_cpus = 1,
	  .promise = true,
	  .run = micro_promise_alive },
	{ .name = "noted",
	  .what = "the visit is noted, for eviction",
	  .least_cpus = 1,
	  .promise = true,
	  .run = micro_promise_noted },
	{ .name = "counted",
	  .what = "the hit is counted: lodic_read_inline()",
	  .least_cpus = 1,
	  .promise = true,
	  .run = micro_promise_counted },
	{ .name = "pinned",
	  .what = "the block is held meanwhile: a pin, light",
	  .least_cpus = 1,
	  .promise = true,
	  .run = micro_promise_pinned },
	{ .name = "locked",
	  .what = "the same with an exchange: a pin, locked",
	  .least_cpus = 1,
	  .promise = true,
	  .run = micro_promise_locked },
};
const u32 micro_nr_steps = sizeof(micro_steps) / sizeof(micro_steps[0]);

u64 micro_ground_sum(const struct micro_ground *g)
{
	u64 sum = host_load_relaxed(g->shared);

	for (u32 cpu = 0; cpu < g->nr_cpus; cpu++)
		sum += host_load_relaxed(&g->own[(u64)cpu * COUNT_LINE_WORDS]);
	return sum;
}
