/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The ways to count that `lodic bench counter` compares. Contract: bench/command/counter.h. All are
 * inline, as a program has them. */
#include "bench/command/counter.h"

#define LINE_WORDS 8u

/* A word of a CPU's or thread's own, for an object. */
static uint64_t *own_word(struct bench_ground *g, uint32_t cpu, uint32_t object)
{
	return &g->own[((uint64_t)cpu * BENCH_COUNTER_OBJECTS + object) * LINE_WORDS];
}

/* The floor: a word of the thread's own, by plain adds. */
static u64 run_private(void *arg, u32 worker, u64 position, u64 nr)
{
	struct bench_ground *g = arg;

	for (u64 i = 0; i < nr; i++) {
		volatile uint64_t *word =
			own_word(g, worker, (uint32_t)(position + i) & g->mask);

		*word = *word + 1;
		*word = *word - 1;
	}
	return 0;
}

#ifdef LODIC_COUNTER_INLINE
/* A restartable add with no look at anything but the CPU. */
static inline __attribute__((__always_inline__)) bool
bare_add(struct lodic_counter_rseq *self, uint64_t *word, uint32_t cpu, uint64_t delta)
{
	__asm__ goto(".pushsection __rseq_cs, \"aw\"\n\t"
	             ".balign 32\n"
	             "3:\n\t"
	             ".long 0, 0\n\t"
	             ".quad 1f, 2f - 1f, 4f\n\t"
	             ".popsection\n\t"
	             "leaq 3b(%%rip), %%rax\n\t"
	             "movq %%rax, %[descriptor]\n"
	             "1:\n\t"
	             "cmpl %[cpu], %[cpu_id]\n\t"
	             "jne %l[other]\n\t"
	             "addq %[delta], %[word]\n"
	             "2:\n\t"
	             ".pushsection __rseq_failure, \"ax\"\n\t"
	             ".byte 0x0f, 0xb9, 0x3d\n\t"
	             ".long 0x53053053\n"
	             "4:\n\t"
	             "jmp %l[other]\n\t"
	             ".popsection"
	             :
	             : [descriptor] "m"(self->rseq_cs), [cpu_id] "m"(self->cpu_id),
	               [cpu] "r"(cpu), [word] "m"(*word), [delta] "er"(delta)
	             : "memory", "cc", "rax"
	             : other);
	return true;
other:
	return false;
}

static struct lodic_counter_rseq *self_of(void)
{
	return (uintptr_t)lodic_counter_self_1 > 1 ? lodic_counter_self_1 : NULL;
}

/* A thread has sequences after its first call of the library. */
static void enter(const struct bench_ground *g)
{
	struct lodic_domain_stat stat;

	if (!self_of())
		lodic_domain_stat(g->paygo, &stat);
}

static inline __attribute__((__always_inline__)) u64
run_adds(struct bench_ground *g, u64 position, u64 nr, bool apart)
{
	enter(g);
	for (u64 i = 0; i < nr; i++) {
		LODIC_COUNTER_SELF;
		uint32_t cpu = LODIC_COUNTER_CPU;
		uint64_t *word = own_word(g, cpu, (uint32_t)(position + i) & g->mask);

		while (!bare_add(self, word, cpu, 1))
			cpu = LODIC_COUNTER_CPU;
		if (apart) /* in another register, as where the two adds are two calls */
			__asm__ volatile("mov %1, %0" : "=&r"(word) : "r"(word));
		while (!bare_add(self, word, cpu, -(uint64_t)1))
			cpu = LODIC_COUNTER_CPU;
	}
	return 0;
}

static u64 run_bare(void *arg, u32 worker, u64 position, u64 nr)
{
	(void)worker;
	return run_adds(arg, position, nr, false);
}

static u64 run_bare_apart(void *arg, u32 worker, u64 position, u64 nr)
{
	(void)worker;
	return run_adds(arg, position, nr, true);
}

/* An atomic on a word of this CPU's: the add and the sub, no look at anything else. */
static u64 run_percpu_bare(void *arg, u32 worker, u64 position, u64 nr)
{
	struct bench_ground *g = arg;

	(void)worker;
	enter(g);
	for (u64 i = 0; i < nr; i++) {
		uint32_t object = (uint32_t)(position + i) & g->mask;
		LODIC_COUNTER_SELF;
		uint32_t cpu = LODIC_COUNTER_CPU;

		host_fetch_add(own_word(g, cpu, object), 1);
		cpu = LODIC_COUNTER_CPU;
		host_fetch_add(own_word(g, cpu, object), -(u64)1);
	}
	return 0;
}

static bool has_self(void)
{
	return self_of() != NULL;
}
#else
#define run_bare run_private
#define run_bare_apart run_private
#define run_percpu_bare run_private
static bool has_self(void)
{
	return false;
}
#endif

static inline __attribute__((__always_inline__)) u64
run_domain(struct bench_ground *g, struct lodic_domain *d, u64 position, u64 nr)
{
	u64 nr_failed = 0;

	for (u64 i = 0; i < nr; i++) {
		struct lodic_counter *c = &g->objects[(position + i) & g->mask].counter;
		uint64_t token;

		if (__builtin_expect(lodic_counter_try_get(d, c, &token), 1))
			lodic_counter_put(d, c, token);
		else
			nr_failed++;
	}
	return nr_failed;
}

static u64 run_paygo(void *arg, u32 worker, u64 position, u64 nr)
{
	struct bench_ground *g = arg;

	(void)worker;
	return run_domain(g, g->paygo, position, nr);
}

static u64 run_percpu(void *arg, u32 worker, u64 position, u64 nr)
{
	struct bench_ground *g = arg;

	(void)worker;
	return run_domain(g, g->percpu, position, nr);
}

static u64 run_atomic(void *arg, u32 worker, u64 position, u64 nr)
{
	struct bench_ground *g = arg;

	(void)worker;
	return run_domain(g, g->atomic, position, nr);
}

static u64 run_guard(void *arg, u32 worker, u64 position, u64 nr)
{
	struct bench_ground *g = arg;
	u64 nr_failed = 0;

	(void)worker;
	for (u64 i = 0; i < nr; i++) {
		struct lodic_guard *guard = lodic_guard_take(
			g->paygo, &g->objects[(position + i) & g->mask].counter);

		if (guard)
			lodic_guard_drop(guard);
		else
			nr_failed++;
	}
	return nr_failed;
}

static u64 run_fetch_add(void *arg, u32 worker, u64 position, u64 nr)
{
	struct bench_ground *g = arg;

	(void)worker;
	for (u64 i = 0; i < nr; i++) {
		uint64_t *word = &g->objects[(position + i) & g->mask].word;

		host_fetch_add(word, 1);
		host_fetch_add(word, -(u64)1);
	}
	return 0;
}

/* Up and down by compare-and-swap, as the paper's CAS (PAYGO s.6.2.4, Fig. 11). */
static u64 run_cas(void *arg, u32 worker, u64 position, u64 nr)
{
	struct bench_ground *g = arg;

	(void)worker;
	for (u64 i = 0; i < nr; i++) {
		uint64_t *word = &g->objects[(position + i) & g->mask].word;
		u64 v;

		/* Bounded by the others' successful steps. */
		do
			v = host_load_relaxed(word);
		while (!host_cas(word, v, v + 1));
		do
			v = host_load_relaxed(word);
		while (!host_cas(word, v, v - 1));
	}
	return 0;
}

const struct bench_way bench_ways[BENCH_COUNTER_WAYS] = {
	[WAY_PRIVATE] = { "private", "plain adds on words of the thread's own",
	                  run_private, NULL },
	[WAY_BARE] = { "bare", "two restartable adds, no looks", run_bare, has_self },
	[WAY_BARE_APART] = { "bare_apart",
	                     "the same, each add by a register of its own",
	                     run_bare_apart, has_self },
	[WAY_PAYGO] = { "paygo", "lodic/counter.h", run_paygo, NULL },
	[WAY_GUARD] = { "guard", "lodic/counter.h, a guard", run_guard, NULL },
	[WAY_PERCPU] = { "percpu", "lodic/counter.h by atomics", run_percpu, NULL },
	[WAY_PERCPU_BARE] = { "percpu_bare", "two atomics on words of the CPU's own",
	                      run_percpu_bare, has_self },
	[WAY_ATOMIC] = { "atomic", "lodic/counter.h by the object's word", run_atomic,
	                 NULL },
	[WAY_FETCH_ADD] = { "fetch_add", "two fetch-and-adds on the object",
	                    run_fetch_add, NULL },
	[WAY_CAS] = { "cas", "two compare-and-swap loops on the object", run_cas,
	              NULL },
};
