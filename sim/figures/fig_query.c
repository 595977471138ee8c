/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What it costs to ask whether any user holds a block (LODIC s.4.5, eq. 1; LODIC
 * s.5.2.2, Fig. 11). The figure counts the local counters that a query looks at until
 * one is not 0. It also times the query, while users hold references on CPUs of their
 * own.
 *
 * The number of counters is measured, from the host_* calls that a query makes. Objects
 * that one known user holds give the price of a counter in calls. Over all users, a
 * search that stops at the holder looks at (n + 1) / 2 counters on average.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/owned/count_owned.h"
#include "sim/figures/fig_read.h"

#define OBJECTS 64u /* as many files as there are lists of them (core/owned/rmap.h) */
#define SETTLE_NS 400000u
#define WINDOW_NS 60000000u
#define NEVER 1000000u

/* Which user holds what: one user per object in turn, or each with a probability. */
struct asking {
	struct fig_world world;
	u32 nr_users;
	u32 held_per_million; /* NEVER + 1: one holder per object */
	u32 nr_passes;
	u64 seed;
	double ns;
	u32 nr_asked, nr_used;
	bool done;
};

struct asker {
	struct asking *asking;
	u32 user;
};

static bool asking_holds(const struct asking *g, u32 user, u32 object)
{
	u64 state = g->seed ^ ((u64)user << 32 | object) * 0x9e3779b97f4a7c15u;

	if (g->held_per_million > NEVER)
		return object % g->nr_users == user;
	return fig_random(&state) % NEVER < g->held_per_million;
}

/* Every user takes a reference to every object once, and keeps some. */
static void holder_body(void *arg)
{
	struct asker *a = arg;
	struct asking *g = a->asking;
	u32 object;
	u64 token;

	for (object = 0; object < OBJECTS; object++) {
		if (!count_ref(&g->world.count, object, a->user, &token))
			host_fail("a live object refused a reference", __FILE__,
			          __LINE__);
		if (!asking_holds(g, a->user, object))
			count_unref(&g->world.count, object, a->user, token);
	}
}

static void asker_body(void *arg)
{
	struct asker *a = arg;
	struct asking *g = a->asking;
	u32 pass, object;
	u64 from;

	sim_sleep(SETTLE_NS);
	for (pass = 0; pass < g->nr_passes; pass++)
		for (object = 0; object < OBJECTS; object++) {
			from = host_now_ns();
			g->nr_used += count_query(&g->world.count, object);
			/* The first pass finds the lines where the users left them. */
			if (pass == 0) {
				g->ns += (double)(host_now_ns() - from);
				g->nr_asked++;
			}
		}
	g->done = true;
}

struct asked {
	double ns;       /* of a query, lines where the users left them */
	double accesses; /* host_* calls of a query */
	double used;     /* share of the objects that were in use */
};

static int asking_run(const struct sim_machine *machine, u64 seed,
                      const struct count_scheme *scheme, u32 nr_users,
                      u32 held_per_million, u32 nr_passes, struct asked *ret_asked)
{
	struct asking *g = calloc(1, sizeof(*g));
	struct asker *askers = calloc(nr_users + 1, sizeof(*askers));
	u32 nr_cpus = machine->nr_sockets * machine->cpus_per_socket;
	struct sim_result result;
	u32 user;
	int err = -ENOMEM;

	if (!g || !askers)
		goto out;
	sim_begin(machine, seed);
	g->nr_users = nr_users;
	g->held_per_million = held_per_million;
	g->nr_passes = nr_passes;
	g->seed = seed;
	err = fig_world_make(&g->world, scheme, OBJECTS, OBJECTS, nr_users, 64);
	if (!err && scheme->has_ptes)
		count_owned_set_share_min(&g->world.count, 1);
	for (user = 0; user < nr_users && !err; user++)
		err = fig_world_share(&g->world, user, OBJECTS);
	if (err)
		goto out;
	for (user = 0; user <= nr_users; user++) {
		askers[user] = (struct asker){ g, user };
		sim_task(user % nr_cpus, user == nr_users ? asker_body : holder_body,
		         &askers[user]);
	}
	sim_run(0, WINDOW_NS, &result);
	if (!g->done)
		host_fail("the window was too short for the queries", __FILE__,
		          __LINE__);
	ret_asked->ns = g->ns / g->nr_asked;
	ret_asked->accesses = (double)result.accesses;
	ret_asked->used = (double)g->nr_used / (nr_passes * OBJECTS);
out:
	free(askers);
	free(g);
	return err;
}

/* Calls of one query, from two runs that differ in one pass over all objects. */
static int asking_accesses(const struct sim_machine *machine, u64 seed,
                           const struct count_scheme *scheme, u32 nr_users, u32 held,
                           struct asked *ret_asked)
{
	struct asked twice;
	int err = asking_run(machine, seed, scheme, nr_users, held, 1, ret_asked);

	if (!err)
		err = asking_run(machine, seed, scheme, nr_users, held, 2, &twice);
	ret_asked->accesses = (twice.accesses - ret_asked->accesses) / OBJECTS;
	return err;
}

static double equation1(u32 n, double p)
{
	return p >= 1 ? n : (1 - pow(p, n)) / (1 - p);
}

/* A counter's price in calls, and what a query costs besides. Objects must be a
 * multiple of the users, so that each user is the holder equally often. */
static int counter_price(const struct sim_machine *machine, u64 seed, double *ret_each,
                         double *ret_besides)
{
	static const u32 users[2] = { OBJECTS / 4, OBJECTS };
	struct asked asked[2];
	u32 i;
	int err = 0;

	for (i = 0; i < 2 && !err; i++)
		err = asking_accesses(machine, seed, &count_owned, users[i], NEVER + 1,
		                      &asked[i]);
	*ret_each =
		(asked[1].accesses - asked[0].accesses) / ((users[1] - users[0]) / 2.0);
	*ret_besides = asked[0].accesses - *ret_each * (users[0] + 1) / 2.0;
	return err;
}

/* Draws of users, so that the average is near what the equation is about. */
#define DRAWS 6u

static int examined_point(struct fig_run *run, u32 nr_users, double p, double each,
                          double besides)
{
	char series[FIG_NAME_BYTES];
	double sum = 0;
	struct asked asked;
	u32 held = (u32)lround((1 - p) * NEVER);
	u32 draw;
	int err = 0;

	for (draw = 0; draw < DRAWS && !err; draw++) {
		err = asking_accesses(&run->machines[0], run->seed + draw, &count_owned,
		                      nr_users, held, &asked);
		sum += (asked.accesses - besides) / each;
	}
	snprintf(series, sizeof(series), "measured, p = %g", p);
	if (!err)
		err = fig_add_value(run, "local counters looked at", series, nr_users,
		                    "counters", FIG_ARITHMETIC, sum / DRAWS,
		                    equation1(nr_users, p));
	snprintf(series, sizeof(series), "eq. 1, p = %g", p);
	if (!err)
		err = fig_add_value(run, "local counters looked at", series, nr_users,
		                    "counters", FIG_ARITHMETIC, equation1(nr_users, p),
		                    FIG_NO_PAPER);
	return err;
}

struct query_point {
	const struct count_scheme *scheme;
	u32 nr_users;
};

static int query_measure(struct fig_run *run, const struct sim_machine *machine,
                         u64 seed, void *arg, double *ret_values)
{
	static const u32 held[] = { 0, NEVER / 2 };
	const struct query_point *point = arg;
	struct asked asked;
	u32 i;
	int err = 0;

	(void)run;
	for (i = 0; i < 2 && !err; i++) {
		err = asking_run(machine, seed, point->scheme, point->nr_users, held[i],
		                 1, &asked);
		ret_values[i] = asked.ns;
	}
	return err;
}

static int run_query_latency(struct fig_run *run, const u32 *users, u32 nr_points)
{
	struct fig_band bands[2];
	u32 scheme, i;
	int err = 0;

	for (scheme = 0; scheme < count_nr_schemes && !err; scheme++)
		for (i = 0; i < nr_points && !err; i++) {
			struct query_point point = { count_schemes[scheme], users[i] };

			if (!point.scheme->counts || point.scheme->is_rival)
				continue;
			err = fig_measure(run, query_measure, &point, 2, bands);
			if (!err)
				err = fig_add(run, "nobody holds it",
				              point.scheme->name, users[i], "ns",
				              FIG_PREDICTED, &bands[0], FIG_NO_PAPER);
			if (!err)
				err = fig_add(run, "each user holds it, p = 0.5",
				              point.scheme->name, users[i], "ns",
				              FIG_PREDICTED, &bands[1], FIG_NO_PAPER);
		}
	return err;
}

static int run_query(struct fig_run *run)
{
	static const u32 users[] = { 4, 15, 30, 60, 119 };
	static const double ps[] = { 0.5, 0.9 };
	double each, besides;
	u32 nr_points = run->options->quick ? 2 : 5;
	u32 i, j;
	int err = counter_price(&run->machines[0], run->seed, &each, &besides);

	for (i = 0; i < 2; i++)
		for (j = 0; j < nr_points && !err; j++)
			err = examined_point(run, users[j], ps[i], each, besides);
	if (!err)
		err = run_query_latency(run, users, nr_points);
	return err;
}

int fig_query_of(const struct sim_machine *machine, u64 seed,
                 const struct count_scheme *scheme, u32 nr_users, double *ret_ns)
{
	struct asked asked;
	int err = asking_run(machine, seed, scheme, nr_users, 0, 1, &asked);

	*ret_ns = err ? 0 : asked.ns;
	return err;
}

const struct fig fig_query = {
	.name = "query",
	.paper = "LODIC Fig. 11",
	.title = "Asking whether any user holds a block",
	.x = "users that share it",
	.modelled =
		"the schemes' queries, users' references dirty in their CPUs' caches; how "
		"many counters lodic looks at, against eq. 1 (shown in the column paper)",
	.left_out =
		"the kernel's own reverse-mapping tree. Eq. 1 as printed is a sum that "
		"leaves out the case that all counters are 0. The figure compares with "
		"its closed form, which has that case",
	.topology = "8x15",
	.simulated = true,
	.few_machines = true,
	.run = run_query,
};
