/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How long it takes to freeze all blocks of a file. One figure is LODIC's fadvise() of a
 * 1 GB file, by the number of processes that share it (LODIC s.5.2.2, Fig. 10). The
 * other is PAYGO's drop of a 4 GiB file, with and without readers (PAYGO s.6, Fig. 13).
 *
 * A few hundred blocks stand for the file. The time of one block is multiplied. A wait for
 * epochs or for other CPUs does not grow with the blocks, so it is added once.
 *
 * Where an entry of a CPU's table owns a reference, readers have made an entry for every
 * block that there is room for. The reclaimer first has every CPU fold its entries, as
 * lru_add_drain_all() does in Linux, and again when it gets no further.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/count/paygo_table.h"
#include "sim/figures/fig_read.h"

#define BLOCKS 200u
#define EPOCH_NS 10000000u /* RefCache's epoch; the papers' kernels tick so */
#define PAUSE_NS 20000u
#define WINDOW_NS 150000000u
#define ROUNDS_MAX 20000u
/* A reader that goes on needs this time for a read, and holds its block this long. */
#define READ_NS 600.0
#define HOLD_CYCLES 300u
#define BLOCKS_1GB 262144.0
#define BLOCKS_4GIB 1048576.0

struct reclaim_point {
	const struct count_scheme *scheme;
	u32 nr_users, shared_percent;
	bool readers_go_on;
	double nr_blocks; /* of the whole file */
};

struct reclaiming {
	const struct reclaim_point *point;
	struct fig_world world;
	u32 nr_objects, nr_ready, nr_cpus;
	u32 nr_drains, nr_drained; /* asked for; CPUs that have done the last one */
	u64 ns, busy_ns;           /* in all; freezing, not waiting */
	bool done;
};

struct reclaimer {
	struct reclaiming *reclaiming;
	u32 user;
	u64 random;
};

/* Each user reads all blocks once, from a place of its own. Then it rests, or goes on
 * with random blocks until all are frozen. */
static void reclaim_reader_body(void *arg)
{
	struct reclaimer *r = arg;
	struct reclaiming *g = r->reclaiming;
	u32 start = (u32)(fig_random(&r->random) % g->nr_objects);
	u64 gap_ns, token;
	u32 i;

	for (i = 0; i < g->nr_objects; i++) {
		u32 object = (start + i) % g->nr_objects;

		if (count_ref(&g->world.count, object, r->user, &token))
			count_unref(&g->world.count, object, r->user, token);
	}
	g->nr_ready++;
	/* Most of the file is not in the model; time passes while the user reads that
	 * part. */
	gap_ns = (u64)(g->point->nr_blocks / g->nr_objects * READ_NS);
	while (g->point->readers_go_on && !g->done && !sim_stopping()) {
		u32 object = (u32)(fig_random(&r->random) % g->nr_objects);

		sim_sleep(fig_random(&r->random) % (2 * gap_ns));
		if (!count_ref(&g->world.count, object, r->user, &token))
			continue;
		sim_work(HOLD_CYCLES);
		count_unref(&g->world.count, object, r->user, token);
	}
}

static struct paygo_table *reclaim_table(struct reclaiming *g)
{
	const struct count_scheme *scheme = g->point->scheme;

	return scheme->table ? scheme->table(&g->world.count) : NULL;
}

/* One on each CPU: folds when the reclaimer asks for it. */
static void drainer_body(void *arg)
{
	struct reclaimer *r = arg;
	struct reclaiming *g = r->reclaiming;
	u32 nr_done = 0;

	while (!g->done && !sim_stopping()) {
		if (nr_done < g->nr_drains) {
			nr_done = g->nr_drains;
			paygo_table_fold(reclaim_table(g), r->user);
			g->nr_drained++;
		}
		sim_sleep(PAUSE_NS);
	}
}

static void reclaimer_drain(struct reclaiming *g)
{
	if (!reclaim_table(g))
		return;
	g->nr_drained = 0;
	g->nr_drains++;
	while (g->nr_drained < g->nr_cpus && !sim_stopping())
		sim_sleep(PAUSE_NS);
}

/* Freezes one block after the other. Blocks in use, or not yet known to be unused, get
 * another turn. */
static void reclaimer_body(void *arg)
{
	struct reclaimer *r = arg;
	struct reclaiming *g = r->reclaiming;
	bool *frozen = calloc(g->nr_objects, sizeof(*frozen));
	u32 nr_left = g->nr_objects;
	/* With epochs, asking sooner changes nothing. */
	bool epochs = g->point->scheme->tick && !reclaim_table(g);
	u64 pause_ns = epochs ? EPOCH_NS : PAUSE_NS;
	u32 rounds, object;
	u64 from;

	while (g->nr_ready < g->point->nr_users && !sim_stopping())
		sim_sleep(PAUSE_NS);
	from = host_now_ns();
	reclaimer_drain(g);
	for (rounds = 0; nr_left > 0 && rounds < ROUNDS_MAX && !sim_stopping();
	     rounds++) {
		u32 nr_before = nr_left;
		u64 begin = host_now_ns();

		for (object = 0; object < g->nr_objects; object++) {
			if (frozen[object])
				continue;
			frozen[object] = count_freeze(&g->world.count, object);
			nr_left -= frozen[object];
		}
		g->busy_ns += host_now_ns() - begin;
		if (nr_left == nr_before) {
			reclaimer_drain(g);
			sim_sleep(pause_ns);
		}
	}
	g->ns = host_now_ns() - from;
	g->done = nr_left == 0;
	free(frozen);
}

static void reclaim_tick(void *arg, u32 cpu)
{
	count_tick(&((struct reclaiming *)arg)->world.count, cpu);
}

static int reclaim_run(const struct sim_machine *machine, u64 seed,
                       const struct reclaim_point *point, u32 nr_objects,
                       double *ret_ns, double *ret_busy_ns)
{
	u32 nr_cpus = machine->nr_sockets * machine->cpus_per_socket;
	struct reclaiming *g = calloc(1, sizeof(*g));
	struct reclaimer *all = calloc(point->nr_users + 1 + nr_cpus, sizeof(*all));
	struct sim_result result;
	u32 user, cpu;
	int err = -ENOMEM;

	if (!g || !all)
		goto out;
	sim_begin(machine, seed);
	g->point = point;
	g->nr_objects = nr_objects;
	g->nr_cpus = nr_cpus;
	/* Blocks that are not shared lie in files of their own, as if the reverse
	 * mapping knew at once that no process maps that part. Linux's does. */
	err = fig_world_make(&g->world, point->scheme, nr_objects,
	                     100 / point->shared_percent, point->nr_users, 64);
	for (user = 0; user < point->nr_users && !err; user++)
		err = fig_world_share(&g->world, user,
		                      nr_objects * point->shared_percent / 100);
	if (err)
		goto out;
	if (reclaim_table(g))
		reclaim_table(g)->eager = true;
	for (user = 0; user <= point->nr_users; user++) {
		all[user] = (struct reclaimer){ g, user, seed * 1000 + user };
		sim_task(user % nr_cpus,
		         user == point->nr_users ? reclaimer_body : reclaim_reader_body,
		         &all[user]);
	}
	for (cpu = 0; cpu < nr_cpus && reclaim_table(g); cpu++) {
		all[user + cpu] = (struct reclaimer){ g, cpu, 0 };
		sim_task(cpu, drainer_body, &all[user + cpu]);
	}
	if (point->scheme->tick)
		sim_every(EPOCH_NS, reclaim_tick, g);
	sim_run(0, WINDOW_NS, &result);
	*ret_ns = (double)g->ns;
	*ret_busy_ns = (double)g->busy_ns;
	if (!g->done)
		err = -ETIME;
out:
	free(all);
	free(g);
	return err;
}

static int reclaim_measure(struct fig_run *run, const struct sim_machine *machine,
                           u64 seed, void *arg, double *ret_values)
{
	const struct reclaim_point *point = arg;
	double times = point->nr_blocks / BLOCKS;
	double ns, busy_ns;
	int err = reclaim_run(machine, seed, point, BLOCKS, &ns, &busy_ns);

	(void)run;
	/* The wait comes once, however many blocks there are. */
	if (!err)
		ret_values[0] = point->scheme->tick
		                        ? (ns - busy_ns + busy_ns * times) / 1e6
		                        : ns * times / 1e6;
	return err;
}

int fig_freeze_of(const struct sim_machine *machine, u64 seed,
                  const struct count_scheme *scheme, u32 nr_users, u32 nr_blocks,
                  double *ret_ns)
{
	struct reclaim_point point = { .scheme = scheme,
		                       .nr_users = nr_users,
		                       .shared_percent = 100,
		                       .nr_blocks = nr_blocks };
	double unused;

	return reclaim_run(machine, seed, &point, nr_blocks, ret_ns, &unused);
}

/* Adds the row, or says that some blocks could not be frozen within the window. */
static int reclaim_add(struct fig_run *run, struct reclaim_point *point,
                       const char *panel, const char *series, double x)
{
	struct fig_band band;
	int err = fig_measure(run, reclaim_measure, point, 1, &band);

	if (err == -ETIME) {
		fprintf(stderr,
		        "lodic-sim: %s, %s at %g: not done in %u ms, left out\n", panel,
		        series, x, WINDOW_NS / 1000000);
		return 0;
	}
	if (!err)
		err = fig_add(run, panel, series, x, "ms", FIG_PREDICTED, &band,
		              FIG_NO_PAPER);
	return err;
}

static int run_reclaim(struct fig_run *run)
{
	static const u32 users[] = { 4, 15, 45, 80, 119 };
	static const u32 percents[] = { 10, 20, 100 };
	u32 nr_points = run->options->quick ? 2 : 5;
	char series[FIG_NAME_BYTES];
	u32 s, i, p;
	int err = 0;

	for (s = 0; s < FIG_NR_COMPARED; s++)
		for (i = 0; i < nr_points; i++)
			for (p = 0; p < 3 && !err; p++) {
				struct reclaim_point point = {
					.scheme = count_scheme_find(fig_compared[s]),
					.nr_users = users[i],
					.shared_percent = percents[p],
					.nr_blocks = BLOCKS_1GB,
				};

				if (!point.scheme)
					continue;
				if (!point.scheme->has_ptes && p != 2)
					continue;
				if (point.scheme->has_ptes)
					snprintf(series, sizeof(series), "%s (%u%%)",
					         fig_compared[s], percents[p]);
				else
					snprintf(series, sizeof(series), "%s",
					         fig_compared[s]);
				err = reclaim_add(run, &point, "all blocks of 1 GB",
				                  series, users[i]);
			}
	return err;
}

static int run_reclaim_paygo(struct fig_run *run)
{
	u32 i, readers;
	int err = 0;

	for (i = 0; i < count_nr_schemes; i++)
		for (readers = 0; readers < 2 && !err; readers++) {
			struct reclaim_point point = {
				.scheme = count_schemes[i],
				.nr_users = 95,
				.shared_percent = 100,
				.readers_go_on = readers,
				.nr_blocks = BLOCKS_4GIB,
			};

			if (!point.scheme->counts)
				continue;
			err = reclaim_add(run, &point,
			                  readers ? "with readers" : "without readers",
			                  point.scheme->name, readers);
		}
	return err;
}

const struct fig fig_reclaim = {
	.name = "reclaim",
	.paper = "LODIC Fig. 10",
	.title = "Freezing all blocks of a 1 GB file, by how many share it",
	.x = "processes that have read all of it",
	.modelled =
		"one reclaimer freezes, by the schemes' own freeze, blocks whose counters "
		"lie dirty in the sharers' caches; RefCache's epochs of 10 ms; a fold on "
		"every CPU where entries own references, of as many entries as can be",
	.left_out =
		"unmapping cost in hardware (TLB shootdowns), the LRU lists, the freeing "
		"of pages. 200 blocks stand for 262144",
	.topology = "8x15",
	.simulated = true,
	.few_machines = true,
	.run = run_reclaim,
};

const struct fig fig_reclaim_paygo = {
	.name = "reclaim-paygo",
	.paper = "PAYGO Fig. 13",
	.title = "Freezing all blocks of a 4 GiB file, with and without readers",
	.x = "0: the 95 readers have finished; 1: they go on",
	.modelled = "as LODIC Fig. 10, on PAYGO's machine; readers that go on "
		    "read random blocks of the whole file, a read in 600 ns",
	.left_out =
		"what dropping a page costs beyond its count. The text gives order only: "
		"with readers RefCache first; without, vanilla before RefCache",
	.topology = "4x24",
	.simulated = true,
	.few_machines = true,
	.run = run_reclaim_paygo,
};
