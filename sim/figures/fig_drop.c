/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * LODIC Fig. 10 once more, with named parts of the kernel and of the processor that the
 * figure `reclaim` does not have. There the schemes' own freeze runs on cold lines. PAYGO takes
 * 13 times the paper's half second then, and LODIC is never the slower one.
 *
 * What differs for PAYGO:
 *   the fence    PAYGO's Fig. 4 has no fence of all CPUs between flag and READ-ALL. Ours has
 *                (core/count/count_gate.h, G1). A full fence stands in its place here.
 *   the tables   1 GB has 262144 pages and a table 1024 buckets. So the reclaimer meets each
 *                bucket 256 times, and has its line the second time. It lies in the L3, because
 *                the tables of all CPUs are larger than an L2.
 *   overlap      READ-ALL's loads do not depend on each other. A processor has several such
 *                misses under way; as many as host_copy() has (copy_overlap).
 * What differs for LODIC:
 *   the walk     Linux's tree of vmas, levels of tables and their lock (kernel_rmap.h). Each
 *                load depends on the one before, and a locked operation waits for all. So no
 *                two of these misses overlap.
 *   the query    The paper measures a query: flag, then counters (LODIC s.4.5). `lodic` also
 *                takes the ptes away. Both are here.
 */
#include <errno.h>
#include <stdlib.h>

#include "sim/figures/fig_read.h"
#include "sim/figures/kernel_rmap.h"

#define BLOCKS 200u
#define BLOCKS_1GB 262144.0
#define BUCKETS 1024.0 /* of 4 entries each: COUNT_PAYGO_ENTRIES */
#define PAUSE_NS 20000u
#define WINDOW_NS 150000000u
#define STEP_USERS 45u
#define PAPER_MS 500.0    /* "over 500 msec" (LODIC s.5.2.2) */
#define PAPER_CROSSING 40 /* processes */

enum drop_way {
	DROP_FREEZE,
	DROP_FREEZE_AGAIN, /* the reclaimer has looked at all blocks before */
	DROP_QUERY,        /* through the kernel's reverse mapping */
	DROP_UNMAP,        /* the same, and takes the ptes away */
};

struct dropping {
	struct fig_world world;
	struct kernel_rmap rmap;
	enum drop_way way;
	u32 nr_users, nr_ready, nr_frozen;
	u64 ns;
};

struct dropper {
	struct dropping *dropping;
	u32 user;
};

/* Each user reads all blocks once, and rests. */
static void drop_reader_body(void *arg)
{
	struct dropper *d = arg;
	struct count *c = &d->dropping->world.count;
	u32 start = d->user * (BLOCKS / 8) % BLOCKS;
	u64 token;
	u32 i;

	for (i = 0; i < BLOCKS; i++) {
		u32 object = (start + i) % BLOCKS;

		if (count_ref(c, object, d->user, &token))
			count_unref(c, object, d->user, token);
	}
	d->dropping->nr_ready++;
}

static bool drop_block(struct dropping *g, u32 object)
{
	struct count *c = &g->world.count;

	if (g->way == DROP_FREEZE || g->way == DROP_FREEZE_AGAIN)
		return count_freeze(c, object);
	if (kernel_rmap_query(&g->rmap, c, object))
		return false;
	if (g->way == DROP_UNMAP)
		kernel_rmap_unmap(&g->rmap, c, object);
	return true;
}

static void drop_body(void *arg)
{
	struct dropper *d = arg;
	struct dropping *g = d->dropping;
	u32 object;
	u64 from;

	while (g->nr_ready < g->nr_users && !sim_stopping())
		sim_sleep(PAUSE_NS);
	for (object = 0; object < BLOCKS && g->way == DROP_FREEZE_AGAIN; object++)
		count_query(&g->world.count, object);
	from = host_now_ns();
	for (object = 0; object < BLOCKS; object++)
		g->nr_frozen += drop_block(g, object);
	g->ns = host_now_ns() - from;
}

/* Milliseconds for 1 GB of blocks, all like these. */
static int drop_run(const struct sim_machine *machine, u64 seed,
                    const struct count_scheme *scheme, u32 nr_users, enum drop_way way,
                    double *ret_ms)
{
	u32 nr_cpus = machine->nr_sockets * machine->cpus_per_socket;
	struct dropping g = { .way = way, .nr_users = nr_users };
	struct dropper *all = calloc(nr_users + 1, sizeof(*all));
	struct sim_result result;
	u32 user;
	int err = -ENOMEM;

	if (!all)
		return err;
	sim_begin(machine, seed);
	err = fig_world_make(&g.world, scheme, BLOCKS, 1, nr_users, 64);
	if (!err)
		err = kernel_rmap_make(&g.rmap, nr_users);
	for (user = 0; user < nr_users && !err; user++)
		err = fig_world_share(&g.world, user, BLOCKS);
	for (user = 0; user <= nr_users && !err; user++) {
		all[user] = (struct dropper){ &g, user };
		sim_task(user % nr_cpus,
		         user == nr_users ? drop_body : drop_reader_body, &all[user]);
	}
	if (!err)
		sim_run(0, WINDOW_NS, &result);
	if (!err && g.nr_frozen < BLOCKS)
		err = -ETIME;
	*ret_ms = (double)g.ns * BLOCKS_1GB / BLOCKS / 1e6;
	free(all);
	return err;
}

/* The processor on which a READ-ALL runs as PAYGO's Fig. 4 has it. */
static struct sim_machine drop_paygo_machine(const struct sim_machine *machine,
                                             bool overlap)
{
	struct sim_machine m = *machine;
	u32 i;

	m.fence_heavy_ns = m.fence * m.cycle_ps / 1000;
	for (i = 0; i < 3 && overlap; i++) {
		m.load_dirty[i] /= m.copy_overlap;
		m.load_shared[i] /= m.copy_overlap;
		m.load_memory[i] /= m.copy_overlap;
	}
	return m;
}

/* PAYGO's 1 GB: each bucket cold once, then from the L3. */
static int drop_paygo(const struct sim_machine *machine, u64 seed, u32 nr_users,
                      bool overlap, double *ret_ms)
{
	struct sim_machine m = drop_paygo_machine(machine, overlap);
	u32 nr_cpus = m.nr_sockets * m.cpus_per_socket;
	double l3_ms =
		nr_cpus * (double)m.load_shared[0] * m.cycle_ps / 1e9 * BLOCKS_1GB;
	double cold = 0, warm = 0;
	int err = drop_run(&m, seed, &count_paygo, nr_users, DROP_FREEZE, &cold);

	if (!err)
		err = drop_run(&m, seed, &count_paygo, nr_users, DROP_FREEZE_AGAIN,
		               &warm);
	*ret_ms =
		(cold * BUCKETS + (warm + l3_ms) * (BLOCKS_1GB - BUCKETS)) / BLOCKS_1GB;
	return err;
}

int fig_drop_of(const struct sim_machine *machine, u64 seed, u32 nr_users,
                double *ret_atomic, double *ret_paygo, double *ret_serial)
{
	int err = drop_run(machine, seed, &count_atomic, nr_users, DROP_FREEZE,
	                   ret_atomic);

	if (!err)
		err = drop_paygo(machine, seed, nr_users, true, ret_paygo);
	return err ? err : drop_paygo(machine, seed, nr_users, false, ret_serial);
}

/* ---- what each part does ---- */

static int drop_steps_measure(struct fig_run *run, const struct sim_machine *machine,
                              u64 seed, void *arg, double *ret_values)
{
	struct sim_machine m = drop_paygo_machine(machine, false);
	int err;

	(void)run;
	(void)arg;
	err = drop_run(machine, seed, &count_paygo, STEP_USERS, DROP_FREEZE,
	               &ret_values[0]);
	if (!err)
		err = drop_run(&m, seed, &count_paygo, STEP_USERS, DROP_FREEZE,
		               &ret_values[1]);
	if (!err)
		err = drop_paygo(machine, seed, STEP_USERS, false, &ret_values[2]);
	if (!err)
		err = drop_paygo(machine, seed, STEP_USERS, true, &ret_values[3]);
	if (!err)
		err = drop_run(machine, seed, &count_owned, STEP_USERS, DROP_FREEZE,
		               &ret_values[4]);
	if (!err)
		err = drop_run(machine, seed, &count_owned, STEP_USERS, DROP_QUERY,
		               &ret_values[5]);
	if (!err)
		err = drop_run(machine, seed, &count_owned, STEP_USERS, DROP_UNMAP,
		               &ret_values[6]);
	return err;
}

static int run_drop_steps(struct fig_run *run)
{
	static const char *const steps[] = {
		"paygo, as in reclaim",        "paygo, a fence of its CPU",
		"paygo, and tables in the L3", "paygo, and misses overlap",
		"lodic, as in reclaim",        "lodic, Linux's walk, query",
		"lodic, Linux's walk, unmap",
	};
	struct fig_band bands[7];
	u32 i;
	int err = fig_measure(run, drop_steps_measure, NULL, 7, bands);

	for (i = 0; i < 7 && !err; i++)
		err = fig_add(run, "1 GB mapped by 45 processes, part by part",
		              steps[i], 0, "ms", FIG_EXPLAINED, &bands[i],
		              i < 4 ? PAPER_MS : FIG_NO_PAPER);
	return err;
}

/* ---- the curves ---- */

static const u32 drop_users[] = { 4, 15, 30, 45, 80, 119 };
#define NR_USERS (sizeof(drop_users) / sizeof(*drop_users))

/* Of each number of processes. The crossings come after them. */
enum {
	DROP_ATOMIC,
	DROP_PAYGO,
	DROP_PAYGO_SERIAL,
	DROP_LODIC,
	DROP_LODIC_UNMAP,
	DROP_NR_CURVES
};
#define NR_CURVE_VALUES (NR_USERS * DROP_NR_CURVES)

static const struct {
	const char *name;
	u32 lodic, paygo;
} drop_crossings[] = {
	{ "query, misses overlap", DROP_LODIC, DROP_PAYGO },
	{ "query, one miss at a time", DROP_LODIC, DROP_PAYGO_SERIAL },
	{ "unmap, misses overlap", DROP_LODIC_UNMAP, DROP_PAYGO },
	{ "unmap, one miss at a time", DROP_LODIC_UNMAP, DROP_PAYGO_SERIAL },
};
#define NR_CROSSINGS (sizeof(drop_crossings) / sizeof(*drop_crossings))

/* Where one curve over drop_users passes the other, on a straight line between two points.
 * The first point: it is above from there on. The last one: it never is before. */
static double drop_crossing(const double *values, u32 curve, u32 other)
{
	double before = 0;
	size_t i;

	for (i = 0; i < NR_USERS; i++) {
		const double *v = &values[i * DROP_NR_CURVES];
		double above = v[curve] - v[other];
		u32 step = i == 0 ? 0 : drop_users[i] - drop_users[i - 1];

		if (above > 0)
			return drop_users[i] - step * above / (above - before);
		before = above;
	}
	return drop_users[NR_USERS - 1];
}

static int drop_measure(struct fig_run *run, const struct sim_machine *machine,
                        u64 seed, void *arg, double *ret_values)
{
	size_t i;
	int err = 0;

	(void)run;
	(void)arg;
	for (i = 0; i < NR_USERS && !err; i++) {
		double *v = &ret_values[i * DROP_NR_CURVES];
		u32 nr = drop_users[i];

		err = drop_run(machine, seed, &count_atomic, nr, DROP_FREEZE,
		               &v[DROP_ATOMIC]);
		if (!err)
			err = drop_paygo(machine, seed, nr, true, &v[DROP_PAYGO]);
		if (!err)
			err = drop_paygo(machine, seed, nr, false,
			                 &v[DROP_PAYGO_SERIAL]);
		if (!err)
			err = drop_run(machine, seed, &count_owned, nr, DROP_QUERY,
			               &v[DROP_LODIC]);
		if (!err)
			err = drop_run(machine, seed, &count_owned, nr, DROP_UNMAP,
			               &v[DROP_LODIC_UNMAP]);
	}
	for (i = 0; i < NR_CROSSINGS && !err; i++)
		ret_values[NR_CURVE_VALUES + i] = drop_crossing(
			ret_values, drop_crossings[i].lodic, drop_crossings[i].paygo);
	return err;
}

/* What is not mapped is one word to look at, as with atomic. */
static struct fig_band drop_mixed(const struct fig_band *bands, double share)
{
	const struct fig_band *a = &bands[DROP_ATOMIC], *l = &bands[DROP_LODIC];

	return (struct fig_band){ l->value * share + a->value * (1 - share),
		                  l->low * share + a->low * (1 - share),
		                  l->high * share + a->high * (1 - share) };
}

static int drop_add(struct fig_run *run, u32 nr_users, const struct fig_band *bands)
{
	static const char *const names[] = { "atomic", "paygo",
		                             "paygo, one miss at a time",
		                             "lodic (100%)", "lodic (100%), unmap" };
	const char *panel = "all blocks of 1 GB";
	struct fig_band mixed = drop_mixed(bands, 0.1);
	u32 i;
	int err = fig_add(run, panel, "lodic (10%)", nr_users, "ms", FIG_EXPLAINED,
	                  &mixed, FIG_NO_PAPER);

	for (i = 0; i < DROP_NR_CURVES && !err; i++)
		err = fig_add(run, panel, names[i], nr_users, "ms", FIG_EXPLAINED,
		              &bands[i], FIG_NO_PAPER);
	return err;
}

static int run_drop(struct fig_run *run)
{
	struct fig_band bands[NR_CURVE_VALUES + NR_CROSSINGS];
	size_t i;
	int err = fig_measure(run, drop_measure, NULL, NR_CURVE_VALUES + NR_CROSSINGS,
	                      bands);

	for (i = 0; i < NR_USERS && !err; i++)
		err = drop_add(run, drop_users[i], &bands[i * DROP_NR_CURVES]);
	for (i = 0; i < NR_CROSSINGS && !err; i++)
		err = fig_add(run, "lodic (100%) is slower than paygo from",
		              drop_crossings[i].name, 0, "processes", FIG_EXPLAINED,
		              &bands[NR_CURVE_VALUES + i], PAPER_CROSSING);
	return err ? err : run_drop_steps(run);
}

const struct fig fig_drop = {
	.name = "drop",
	.paper = "LODIC Fig. 10, explained",
	.title =
		"Dropping a 1 GB file, with Linux's reverse mapping and overlapping loads",
	.x = "processes that have read all of it | |",
	.modelled =
		"as `reclaim`; READ-ALL behind a fence of its own CPU, on tables that lie in "
		"the reclaimer's L3 after the first of 256 looks at a bucket, with as many "
		"misses under way as a copy has; LODIC's query down Linux's interval tree, "
		"three levels of tables and a lock for each pte; unmap: the ptes cleared too, "
		"and one flush of all TLBs for 32 pages",
	.left_out =
		"the freeing of pages, equal for all; RefCache, whose query waits and does "
		"not look at CPUs; what of LODIC's drop took the ptes away, which the paper "
		"does not say",
	.topology = "8x15",
	.simulated = true,
	.run = run_drop,
};
