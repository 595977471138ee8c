/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * LODIC's own weak point: threads of one process count in one pte (LODIC s.5.2.4, Table
 * 3). Beside it stands what liblodic does: each thread has a context, and so a pte, by
 * the library's own pin and unpin.
 *
 * The pte's line alone explains a third of what the paper lost with two threads. So the kernel
 * that is modelled takes the lock of the process's address space around each ref and unref
 * (sim/kernel.h says why we infer that). The paper does not say on which CPUs a process's
 * threads ran: they sit side by side or far apart. The lock is there because of this table, so
 * its rows are explained, and predict nothing. The pte alone stands beside them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/cache/cache.h"
#include "sim/figures/fig_read.h"

#define BLOCK_COPY_BYTES 4096u
#define MAPS_ABOVE 4u
#define NR_THREADS 120u
#define FILE_ID 1u
#define WARM_NS 50000u
#define WINDOW_NS 100000u

static const struct {
	u32 threads;
	double paper;
} table3[] = { { 1, 164.16 }, { 2, 58.87 }, { 4, 32.54 }, { 8, 19.61 }, { 16, 8.79 } };

struct threads_point {
	u32 threads;
	bool scatter, no_lock;
	const struct count_scheme *scheme;
};

static int threads_measure(struct fig_run *run, const struct sim_machine *machine,
                           u64 seed, void *arg, double *ret_values)
{
	const struct threads_point *point = arg;
	struct fig_read setup = {
		.scheme = point->scheme,
		.nr_objects = 1,
		.nr_users = NR_THREADS / point->threads,
		.threads_per_user = point->threads,
		.scatter = point->scatter,
		.no_space_lock = point->no_lock,
		.copy_bytes = BLOCK_COPY_BYTES,
		.nr_maps_above = MAPS_ABOVE,
	};
	struct fig_read_result result;
	int err = fig_read_run(machine, seed, &setup, &result);

	(void)run;
	ret_values[0] = result.mops;
	ret_values[1] = result.transfers_per_op;
	return err;
}

/* ---- a context for each thread ---- */

struct pinning {
	struct arena arena;
	struct context_table *tables;
	u64 *root;
	u64 block;
	u64 nr_failed;
	u32 base_work;
};

struct pinner {
	struct pinning *pinning;
	struct context context;
	u8 *buffer;
};

/* A read as the other schemes do it, except that one look finds and pins the block. */
static void pinner_read(struct pinner *p)
{
	struct pinning *g = p->pinning;
	const struct cache_file file = { &g->arena.files[0], FILE_ID };
	u32 frame;
	u64 *pte;
	bool pinned;

	sim_work(g->base_work / 2);
	pinned = cache_pin_home(&p->context, &file, g->block, false, &frame, &pte) ||
	         cache_pin(&p->context, &file, g->block, &frame, &pte) == 0;
	if (!pinned) {
		g->nr_failed++;
		return;
	}
	/* Nobody looks at the bytes. */
	sim_copy(p->buffer, arena_frame_bytes(&g->arena, frame), BLOCK_COPY_BYTES);
	cache_unpin(&p->context, pte);
	sim_work(g->base_work - g->base_work / 2);
	sim_op_done();
}

static void pinner_body(void *arg)
{
	while (!sim_stopping())
		pinner_read(arg);
}

static int pinning_make(struct pinning *g)
{
	struct arena_shape shape = { .nr_frames = 4,
		                     .nr_files = 1,
		                     .scheme = ARENA_SCANNED };
	u64 data_bytes = (u64)shape.nr_frames << BLOCK_SHIFT;
	void *control, *data, *shared;

	arena_shape_default(&shape);
	control = host_alloc(arena_control_bytes(&shape), BLOCK_BYTES);
	data = host_alloc(data_bytes, BLOCK_BYTES);
	shared = host_alloc(arena_shared_bytes(&shape), BLOCK_BYTES);
	if (!control || !data || !shared)
		return -ENOMEM;
	arena_format(control, &shape, 1);
	if (!arena_open(&g->arena, control, arena_control_bytes(&shape), data,
	                data_bytes, shared))
		return -EINVAL;
	g->arena.contexts = g->tables;
	g->block = block_id(FILE_ID, 0);
	file_proof_admit(&g->arena.files[0], FILE_ID, BLOCK_BYTES);
	arena_fill_begin(&g->arena, FRAME_FIRST);
	return arena_publish(&g->arena, FRAME_FIRST, g->block) ? 0 : -EINVAL;
}

static int pinning_start(struct pinning *g, struct pinner *pinners)
{
	u64 bytes = arena_context_bytes(g->arena.nr_entries, 1);
	struct context_table table;
	void *memory;
	u32 i;

	for (i = 0; i < NR_THREADS; i++) {
		memory = host_alloc(bytes, BLOCK_BYTES);
		pinners[i].pinning = g;
		pinners[i].buffer = host_alloc(BLOCK_COPY_BYTES, BLOCK_BYTES);
		if (!memory || !pinners[i].buffer)
			return -ENOMEM;
		arena_context_table(&table, memory);
		if (arena_join(&g->arena, &table) == FRAME_NONE)
			return -ENOMEM;
		context_init(&pinners[i].context, &g->arena, memory,
		             g->arena.header->alive, g->arena.nr_entries);
		sim_task(i, pinner_body, &pinners[i]);
	}
	return 0;
}

static int pinning_measure(struct fig_run *run, const struct sim_machine *machine,
                           u64 seed, void *arg, double *ret_values)
{
	struct pinner *pinners = calloc(NR_THREADS, sizeof(*pinners));
	struct pinning *g = calloc(1, sizeof(*g));
	struct sim_result result;
	int err = -ENOMEM;

	(void)run;
	(void)arg;
	if (!pinners || !g)
		goto out;
	g->tables = calloc(ARENA_MAX_CONTEXTS, sizeof(*g->tables));
	if (!g->tables)
		goto out;
	g->base_work = machine->base_work;
	sim_begin(machine, seed);
	err = pinning_make(g);
	if (!err)
		err = pinning_start(g, pinners);
	if (err)
		goto out;
	sim_run(WARM_NS, WINDOW_NS, &result);
	if (g->nr_failed)
		host_fail("a cached block could not be pinned", __FILE__, __LINE__);
	ret_values[0] = result.mops;
	ret_values[1] = result.ops ? (double)result.transfers / (double)result.ops : 0;
out:
	free(g ? g->tables : NULL);
	free(g);
	free(pinners);
	return err;
}

/* ---- the figure ---- */

static int add_both(struct fig_run *run, const char *series, double threads,
                    enum fig_kind kind, const struct fig_band *bands, double paper)
{
	int err = fig_add(run, "120 threads read one block", series, threads, "Mops/s",
	                  kind, &bands[0], paper);

	if (!err)
		err = fig_add(run, "line transfers of an operation", series, threads,
		              "transfers", kind, &bands[1], FIG_NO_PAPER);
	return err;
}

static int run_threads(struct fig_run *run)
{
	struct fig_band bands[2], context[2], atomic[2];
	char series[FIG_NAME_BYTES];
	u32 t, i;
	struct threads_point global = { .threads = 1, .scheme = &count_atomic };
	int err = fig_measure(run, pinning_measure, NULL, 2, context);

	if (!err)
		err = fig_measure(run, threads_measure, &global, 2, atomic);

	for (t = 0; t < sizeof(table3) / sizeof(*table3) && !err; t++) {
		struct threads_point point = { .threads = table3[t].threads };

		err = add_both(run, "atomic", point.threads, FIG_FITTED, atomic,
		               FIG_NO_PAPER);
		point.scheme = &count_owned;
		for (i = 0; i < 4 && !err; i++) {
			point.no_lock = i / 2;
			point.scatter = i % 2;
			err = fig_measure(run, threads_measure, &point, 2, bands);
			snprintf(series, sizeof(series), "pte%s, %s",
			         point.no_lock ? "" : " and lock",
			         point.scatter ? "far apart" : "side by side");
			/* One thread in each process stands in `scaling`. */
			if (!err)
				err = add_both(run, series, point.threads,
				               FIG_EXPLAINED, bands,
				               point.no_lock || t == 0
				                       ? FIG_NO_PAPER
				                       : table3[t].paper);
		}
		if (!err)
			err = add_both(run, "a context each (liblodic)", point.threads,
			               FIG_PREDICTED, context, FIG_NO_PAPER);
	}
	return err;
}

const struct fig fig_threads = {
	.name = "threads",
	.paper = "LODIC Table 3",
	.title = "Threads of one process on one pte, and with a context each",
	.x = "threads in each process; 120 in all (112 at 16)",
	.modelled =
		"the pte's line between the threads of a process, side by side or spread "
		"over the sockets; the address-space lock, taken for reading around "
		"each ref and unref, or not",
	.left_out =
		"which CPUs the paper's threads ran on, and which other lines of a "
		"process they met: not stated. That LODIC took the lock is inferred",
	.topology = "8x15",
	.simulated = true,
	.run = run_threads,
};
