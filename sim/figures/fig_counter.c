/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Threads of one program pin one object, do a little work, and unpin it, by each way of
 * core/counter/counter.h: bench/tree.cc with many CPUs. The work is what a look-up there takes
 * without any count. PAYGO has the same question in its Fig. 11, without the work.
 */
#include <errno.h>

#include "core/counter/counter.h"
#include "sim/figures/fig_read.h"

#define WARM_NS 20000u
#define WINDOW_NS 200000u
#define MOST_CPUS 96u
/* A look-up of bench_tree, way none, at one thread (doc/counter.md). */
#define WORK_PS 31000u
#define BUCKET_BITS 6u
#define LINE 64u

static const struct {
	const char *name;
	enum counter_scheme scheme;
	bool sequences, counts;
} counter_ways[] = {
	{ "paygo", COUNTER_PAYGO, true, true },
	{ "percpu", COUNTER_PERCPU, false, true },
	{ "atomic", COUNTER_ATOMIC, false, true },
	{ "none", COUNTER_ATOMIC, false, false },
};
#define NR_WAYS (sizeof(counter_ways) / sizeof(counter_ways[0]))

struct counter_world {
	struct counter_domain domain;
	u64 *word;
	u32 way, work_cycles;
};

static void counter_reader(void *arg)
{
	struct counter_world *w = arg;
	bool sequences = counter_ways[w->way].sequences;
	u64 token;

	while (!sim_stopping()) {
		if (counter_ways[w->way].counts &&
		    counter_try_ref(&w->domain, w->word, sequences, &token) !=
		            COUNTER_TAKEN)
			host_fail("a live object refused a reference", __FILE__,
			          __LINE__);
		sim_work(w->work_cycles);
		if (counter_ways[w->way].counts &&
		    counter_unref(&w->domain, w->word, token, sequences))
			host_fail("a live object was released", __FILE__, __LINE__);
		sim_op_done();
	}
}

static int counter_way(const struct sim_machine *machine, u64 seed, u32 way,
                       u32 nr_cpus, bool works, double *ret_mops)
{
	struct counter_world w = { .way = way };
	struct sim_result result;
	u32 i;

	sim_begin(machine, seed);
	w.work_cycles = works ? WORK_PS / machine->cycle_ps : 1;
	w.domain = (struct counter_domain){
		.stride = (COUNTER_WAYS << BUCKET_BITS) * sizeof(struct counter_entry),
		.nr_cpus = host_nr_cpus(),
		.mask = ((1u << BUCKET_BITS) - 1) * COUNTER_LINE,
		.scheme = counter_ways[way].scheme,
	};
	w.domain.entries = host_alloc(w.domain.nr_cpus * w.domain.stride, LINE);
	w.word = host_alloc(LINE, LINE);
	if (!w.domain.entries || !w.word)
		return -ENOMEM;
	for (i = 0; i < nr_cpus; i++)
		sim_task(i, counter_reader, &w);
	sim_run(WARM_NS, WINDOW_NS, &result);
	*ret_mops = result.mops;
	return result.mops > 0 ? 0 : -ETIME;
}

/* For each way: look-ups with work, the share of the counter in them, and pairs alone. */
#define VALUES_EACH 3u

static int counter_measure(struct fig_run *run, const struct sim_machine *machine,
                           u64 seed, void *arg, double *ret_values)
{
	u32 nr_cpus = *(const u32 *)arg, way;
	const u32 last = NR_WAYS - 1; /* without a counter */
	double none;
	int err = counter_way(machine, seed, last, nr_cpus, true, &none);

	(void)run;
	for (way = 0; way < NR_WAYS && !err; way++) {
		double *v = &ret_values[way * VALUES_EACH];

		v[0] = none;
		if (way != last)
			err = counter_way(machine, seed, way, nr_cpus, true, &v[0]);
		v[1] = v[0] < none ? 100 * (1 - v[0] / none) : 0;
		if (!err)
			err = counter_way(machine, seed, way, nr_cpus, false, &v[2]);
	}
	return err;
}

static int run_counter(struct fig_run *run)
{
	static const u32 cpus[] = { 1, 2, 8, 16, 32, 64, MOST_CPUS };
	struct fig_band bands[NR_WAYS * VALUES_EACH];
	u32 i, way;
	int err = 0;

	for (i = 0; i < sizeof(cpus) / sizeof(cpus[0]) && !err; i++) {
		u32 nr_cpus = cpus[i];

		if (run->options->quick && nr_cpus != 1 && nr_cpus != 64)
			continue;
		err = fig_measure(run, counter_measure, &nr_cpus, NR_WAYS * VALUES_EACH,
		                  bands);
		for (way = 0; way < NR_WAYS && !err; way++) {
			const struct fig_band *b = &bands[way * VALUES_EACH];
			const char *name = counter_ways[way].name;

			err = fig_add(run, "look-ups in a tree, all pin its root", name,
			              nr_cpus, "Mops/s", FIG_PREDICTED, &b[0],
			              FIG_NO_PAPER);
			if (!err)
				err = fig_add(run, "the counter's share of a look-up",
				              name, nr_cpus, "%", FIG_PREDICTED, &b[1],
				              FIG_NO_PAPER);
			if (!err && counter_ways[way].counts)
				err = fig_add(run, "a get and a put alone", name,
				              nr_cpus, "Mops/s", FIG_PREDICTED, &b[2],
				              FIG_NO_PAPER);
		}
	}
	return err;
}

const struct fig fig_counter = {
	.name = "counter",
	.paper = "PAYGO Fig. 11",
	.title = "Threads of one program pin one object",
	.x = "CPUs, a thread on each",
	.modelled =
		"core/counter/counter.h, whose text programs run, on 4 sockets of 24 CPUs; the "
		"work of a look-up is what bench_tree takes natively without a count",
	.left_out =
		"system calls, which PAYGO's figure has; migrations; kills; that an inline call "
		"is cheaper than the model's steps",
	.topology = "4x24",
	.simulated = true,
	.run = run_counter,
};
