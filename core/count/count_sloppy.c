/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * sloppy: a central count, and on each CPU a few spare references that it includes.
 * Source: Boyd-Wickizer et al., "An Analysis of Linux Scalability to Many Cores" (OSDI
 * 2010), s.4.3: sloppy counters.
 *
 * Idea. A reader takes a spare of its CPU, and leaves one on its CPU when it is done. The
 * central count does not change. Without a spare, the reader adds to the central count. A
 * CPU with too many spares gives half of them back.
 *
 * Words
 *   spares   one per object and CPU, 0 to COUNT_SLOPPY_SPARES. Only that CPU, by
 *            host_percpu_cas().
 *   central  in the object's gate (core/count/count_gate.h): references held and all
 *            spares. Anybody, by cas and atomic add.
 *
 *      spare --taken--> held --left here, or on another CPU--> spare
 *                        ^|
 *              central + 1|- 1 (and half of the spares, when there are too many)
 *
 * Invariants
 * U1 central >= references held + sum of spares; equal when nothing moves. So central is
 *    raised before and lowered after what it stands for.
 * U2 A query or freeze reads central first and the spares afterwards. A reader that fails
 *    lowers central for the spare that it took. The other way round:
 *
 *       freezer                      reader
 *       spares: 1
 *                                    spares: 1 -> 0
 *                                    gate is CLOSED: central 2 -> 1
 *       central is 1: all spare      (and the other one is held)
 *
 * U3 A reader that fails never leaves its spare on a CPU. The freezer may have read the
 *    spares of the CPU that it came from, and not yet those of the CPU that it goes to.
 *
 * Otherwise G1 to G3 of core/count/count_gate.h. A spare left during the look had been
 * held, and central counts it. So it lowers what is left of central by one, once.
 *
 * Progress: ref and unref are lock-free. A retry means that the task was moved, or that
 * another task of this CPU counted. query and freeze: one step per CPU.
 * Not here: taking spares out of central at a freeze. They survive it.
 * Worse than atomic: memory, a word per object and CPU.
 */
#include "core/count/count_gate.h"

/* Ours. A CPU gives half of them back at a time. So a CPU on which tasks only ever end goes
 * to the central count every ninth time. */
#define COUNT_SLOPPY_SPARES 16u
#define COUNT_SLOPPY_BATCH (COUNT_SLOPPY_SPARES / 2)

struct sloppy {
	u64 *gates;  /* a line per object */
	u64 *spares; /* per CPU: a word per object */
	u32 nr_cpus;
	u32 stride_words; /* from one CPU's spares to the next one's */
};

static u64 *count_sloppy_gate(struct count *c, u32 object)
{
	struct sloppy *s = c->state;

	return &s->gates[(u64)object * COUNT_LINE_WORDS];
}

static u64 *count_sloppy_spares(struct count *c, u32 cpu, u32 object)
{
	struct sloppy *s = c->state;

	return &s->spares[(u64)cpu * s->stride_words + object];
}

static u64 count_sloppy_gates_bytes(const struct count *c)
{
	return (u64)c->nr_objects * COUNT_LINE_BYTES;
}

static u64 count_sloppy_spares_bytes(const struct sloppy *s)
{
	return (u64)s->nr_cpus * s->stride_words * sizeof(u64);
}

static void count_sloppy_fini(struct count *c)
{
	struct sloppy *s = c->state;

	if (s->gates)
		host_free(s->gates, count_sloppy_gates_bytes(c));
	if (s->spares)
		host_free(s->spares, count_sloppy_spares_bytes(s));
	host_free(s, sizeof(*s));
}

static int count_sloppy_init(struct count *c)
{
	struct sloppy *s = host_alloc(sizeof(*s), COUNT_LINE_BYTES);

	if (!s)
		return -ENOMEM;
	c->state = s;
	s->nr_cpus = host_nr_cpus();
	s->stride_words = count_round_to_line(c->nr_objects);
	s->gates = host_alloc(count_sloppy_gates_bytes(c), COUNT_LINE_BYTES);
	s->spares = host_alloc(count_sloppy_spares_bytes(s), COUNT_LINE_BYTES);
	if (s->gates && s->spares)
		return 0;
	count_sloppy_fini(c);
	c->state = NULL;
	return -ENOMEM;
}

static bool count_sloppy_ref(struct count *c, u32 object, u32 user, u64 *ret_token)
{
	u64 *gate = count_sloppy_gate(c, object);
	u64 *spares;
	u64 v;
	u32 cpu;

	(void)user;
	do {
		cpu = host_cpu();
		spares = count_sloppy_spares(c, cpu, object);
		v = host_load_relaxed(spares);
		if (v == 0) {
			*ret_token = 0;
			return count_gate_central_ref(gate);
		}
	} while (!host_percpu_cas(spares, cpu, v, v - 1));
	if (likely(count_gate_pass(gate))) {
		*ret_token = 0;
		return true;
	}
	count_gate_central_unref(gate, 1);
	return false;
}

static void count_sloppy_unref(struct count *c, u32 object, u32 user, u64 token)
{
	(void)user;
	(void)token;
	host_fence_release(); /* G3 */
	for (;;) {
		u32 cpu = host_cpu();
		u64 *spares = count_sloppy_spares(c, cpu, object);
		u64 v = host_load_relaxed(spares);

		if (likely(v < COUNT_SLOPPY_SPARES)) {
			if (host_percpu_cas(spares, cpu, v, v + 1))
				return;
		} else if (host_percpu_cas(spares, cpu, v, v - COUNT_SLOPPY_BATCH)) {
			/* This reference and those spares (U1: afterwards). */
			count_gate_central_unref(count_sloppy_gate(c, object),
			                         COUNT_SLOPPY_BATCH + 1);
			return;
		}
	}
}

static u64 count_sloppy_all_spares(struct count *c, u32 object)
{
	struct sloppy *s = c->state;
	u64 sum = 0;
	u32 cpu;

	for (cpu = 0; cpu < s->nr_cpus; cpu++)
		sum += host_load_acquire(count_sloppy_spares(c, cpu, object)); /* G3 */
	return sum;
}

static bool count_sloppy_used(struct count *c, u32 object)
{
	u64 *gate = count_sloppy_gate(c, object);
	u64 central, spares;

	/* U2 */
	central = count_gate_central(host_load_acquire(gate));
	spares = count_sloppy_all_spares(c, object);
	return central != spares;
}

static bool count_sloppy_query(struct count *c, u32 object)
{
	return count_gate_query(c, object, count_sloppy_gate(c, object),
	                        count_sloppy_used);
}

static bool count_sloppy_freeze(struct count *c, u32 object)
{
	return count_gate_freeze(c, object, count_sloppy_gate(c, object),
	                         count_sloppy_used);
}

static void count_sloppy_thaw(struct count *c, u32 object)
{
	count_gate_thaw(count_sloppy_gate(c, object));
}

static u64 count_sloppy_sum(struct count *c, u32 object)
{
	u64 v = host_load_relaxed(count_sloppy_gate(c, object));

	return count_gate_central(v) - count_sloppy_all_spares(c, object);
}

static void count_sloppy_cost(const struct count *c, struct count_cost *ret_cost)
{
	const struct sloppy *s = c->state;

	*ret_cost = (struct count_cost){ .object_bytes = COUNT_LINE_BYTES,
		                         .cpu_bytes = s->stride_words * sizeof(u64) };
}

static void count_sloppy_check(struct count *c, const struct count_held *held,
                               u32 nr_held)
{
	struct sloppy *s = c->state;
	u32 object, cpu;

	for (object = 0; object < c->nr_objects; object++) {
		u32 nr = count_held_on(held, nr_held, object);

		count_gate_check(count_sloppy_gate(c, object), nr);
		CHECK(count_sloppy_sum(c, object) == nr,
		      "U1: central is what is held and spare");
		for (cpu = 0; cpu < s->nr_cpus; cpu++)
			CHECK(host_load_relaxed(count_sloppy_spares(c, cpu, object)) <=
			              COUNT_SLOPPY_SPARES,
			      "a CPU keeps few spares");
	}
}

const struct count_scheme count_sloppy = {
	.name = "sloppy",
	.counts = true,
	.init = count_sloppy_init,
	.fini = count_sloppy_fini,
	.ref = count_sloppy_ref,
	.unref = count_sloppy_unref,
	.query = count_sloppy_query,
	.freeze = count_sloppy_freeze,
	.thaw = count_sloppy_thaw,
	.sum = count_sloppy_sum,
	.cost = count_sloppy_cost,
	.check = count_sloppy_check,
};
