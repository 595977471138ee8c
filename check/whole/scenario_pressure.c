/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Memory that is short: a control group with a limit, holds that want it all, and pressure.
 *
 * "pressure": services and programs live in one group. If what other programs have stays as it is,
 * a service never makes the kernel kill, and its holds leave a part of the limit. In 1 of 16 runs
 * many holds come at once, some of them while an arena of another size is made. "budget": blocks
 * and holds share one. They are never more than it together, and a successor that has come in is
 * not sent away because the cache grows.
 */
#include <string.h>

#include "check/whole/scenarios.h"
#include "check/whole/settle.h"
#include "check/whole/world_files.h"
#include "host/whole/group.h"
#include "lib/look.h"
#include "lib/port.h"
#include "lib/service/service.h"

#define MIB ((u64)1 << 20)
#define KIB ((u64)1 << 10)
#define NS_PER_MS ((u64)1000000)
#define NS_PER_S ((u64)1000000000)
#define LARGE "/large"
#define LARGE_BYTES (2 * MIB)
#define MOST_HOLDS 72u
/* Holds leave an eighth. A context or two may come between the look and the pages. */
#define HOLDS_LEAVE 16u
/* A new arena may have taken the room that a hold has just seen. */
#define ALONE_NS NS_PER_S
#define RUSH_HOLDERS 6u
#define RUSH_US 300u /* a resize has its memory by then */
#define RUSH_SEED 8u /* even: these have no single error */
#define SETTLED_NS (120 * NS_PER_S)

static struct {
	struct group *box, *outer;
	bool steady; /* other programs have what they have */
	u64 budget, hold, cache;
	u64 arena_ns; /* when somebody got pages that are of no hold */
	u32 nr_holds; /* of a program at a time */
	bool rush;    /* holds are wanted when an arena is */
	struct waiters begins;
	bool calm;    /* nothing but the budget gives the cache another size */
} pressure;

static bool pressure_is_quiet(void)
{
	for (u32 i = 0; i < NR_FAULTS; i++)
		if (machine.rate[i] > 0)
			return false;
	return true;
}

static void pressure_adjust(struct service_options *o)
{
	o->sizes.fast_bytes = 0;
	o->placing.policy = NULL;
	o->sizes.hold_bytes = pressure.hold;
	o->sizes.budget_bytes = pressure.budget;
	o->sizes.cache_bytes = pressure.cache;
	o->sizes.watch_groups = true;
	o->sizes.pressure = memory_says.has_pressure ? "/proc/pressure/memory" : NULL;
}

/* ---- programs that hold ---- */

static void holder_takes(struct lodic *lodic, const struct world_open *open,
                         struct lodic_hold **hold)
{
	u64 most = (world_bytes(open) - MIB) / 4096, offset = machine_draw((u32)most) * (u64)4096;
	int err;

	if (pressure.nr_holds == MOST_HOLDS) /* no two of them are one */
		offset = (*world_closed() % most) * 4096;
	++*world_closed();
	err = lodic_hold(lodic, open->file, (off_t)offset, MIB, LODIC_WAIT, hold);
	machine_note("lodic_hold() = %d", err);
	if (err)
		*hold = NULL;
}

static void holder_waits(struct lodic_hold **hold)
{
	int ready = 0;

	while (*hold && (ready = lodic_hold_ready(*hold)) == 0)
		port_sleep(10 * NS_PER_MS);
	if (*hold && ready < 0) {
		lodic_release(*hold);
		*hold = NULL;
	}
}

static void holder_releases(struct lodic_hold *holds[])
{
	for (u32 i = 0; i < MOST_HOLDS; i++) {
		if (holds[i])
			lodic_release(holds[i]);
		holds[i] = NULL;
	}
}

static struct look *budget_looks(struct lodic_stat *ret_stat)
{
	struct look *look;
	int pid;

	if (look_open(WORLD_SOCKET, &look, &pid) != 0)
		return NULL;
	if (look_stat(look, ret_stat) == 0)
		return look;
	look_close(look);
	return NULL;
}

/* All holds are in use, and memory is short: the cache becomes smaller. */
static void holder_sees_less(void)
{
	u64 until = machine.now_ns + SETTLED_NS, bytes = pressure.cache;
	struct lodic_stat stat;

	memory_says.pressure = 2000;
	while (bytes == pressure.cache) {
		struct look *look = budget_looks(&stat);

		if (look) {
			bytes = stat.frames * 4096;
			look_close(look);
		}
		if (machine.now_ns > until)
			machine_fail("memory is short, and the cache keeps its %llu bytes beside "
			             "%llu holds", (unsigned long long)bytes,
			             (unsigned long long)stat.holds);
		port_sleep(500 * NS_PER_MS);
	}
}

static void holder_rushes(void)
{
	task_wait(&pressure.begins, machine.now_ns + machine_draw(2000) * NS_PER_MS);
	port_sleep(machine_draw(RUSH_US) * NS_PER_US);
}

static void holder_work(struct lodic *lodic, u32 nr_rounds)
{
	struct lodic_hold *holds[MOST_HOLDS] = { NULL };
	const char *path = pressure.nr_holds == MOST_HOLDS ? LARGE : WORLD_BIG;
	struct world_open open;

	if (world_open(lodic, path, &open)) {
		for (u32 i = nr_rounds; i > 0; i--) {
			if (pressure.rush)
				holder_rushes();
			for (u32 k = 0; k < pressure.nr_holds; k++)
				if (!holds[k])
					holder_takes(lodic, &open, &holds[k]);
			for (u32 k = 0; k < pressure.nr_holds; k++)
				holder_waits(&holds[k]);
			if (pressure.nr_holds == MOST_HOLDS)
				holder_sees_less();
			port_sleep(machine_draw(2000) * NS_PER_MS);
			holder_releases(holds);
		}
		world_close(&open);
	}
	lodic_detach(lodic);
}

static void holder_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct lodic *lodic;

	if (world_attach(&lodic) == 0)
		holder_work(lodic, (u32)(uintptr_t)arg);
	settle_given_back_but(&before, *world_closed());
}

static void pressure_holder(u32 nr_rounds)
{
	struct process *p = process_start("holder", WORLD_USER, holder_run,
	                                  (void *)(uintptr_t)nr_rounds);

	p->group = pressure.box;
	p->mortal = true;
	settle_expect(p);
}

/* ---- the group ---- */

static bool pressure_knows(void)
{
	return machine.nr_failed[CALL_SYSTEM_OPEN] == 0 && machine.nr_failed[CALL_SYSTEM_READ] == 0;
}

static void pressure_hears(const struct group *group, const char *name)
{
	bool hold = strcmp(name, "lodic-hold") == 0;
	u64 least = group->high > 0 && group->high < group->limit ? group->high : group->limit;

	if (!hold)
		pressure.arena_ns = machine.now_ns;
	if (!pressure.steady || !world_is_service(process_now()) || !pressure_knows())
		return;
	if (group_left(group) == 0)
		machine_fail("a service takes the last memory of %s for %s", group->path, name);
	if (hold && pressure_is_quiet() && machine.now_ns > pressure.arena_ns + ALONE_NS &&
	    group->charged + group->others > least - least / HOLDS_LEAVE)
		machine_fail("a hold leaves %llu of %llu bytes of %s",
		             (unsigned long long)group_left(group), (unsigned long long)least,
		             group->path);
}

/* What other programs have, and what the kernel says of the last 10 s. */
static void weather_run(void *arg)
{
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		struct group *g = pressure.box;
		u64 room = g->limit - g->charged < g->limit ? g->limit - g->charged : 0;

		if (!pressure.steady)
			g->others = machine_draw((u32)(room / KIB) + 1) * KIB;
		g->files = machine_draw((u32)(group_left(g) / KIB) + 1) * KIB;
		memory_says.pressure = machine_draw(2) ? machine_draw(3000) : 0;
		if (machine_draw(8) == 0) {
			group_freeze(g, true);
			task_wait(NULL, machine.now_ns + machine_long() / 8);
			group_freeze(g, false);
		}
		task_wait(NULL, machine.now_ns + machine_draw(20000) * NS_PER_MS);
	}
	pressure.steady = false; /* the auditor's service lives elsewhere */
	pressure.box->others = pressure.box->files = 0;
	memory_says.pressure = 0;
}

static void pressure_group(void)
{
	u32 limit = 24 + machine_draw(24);

	if (machine_draw(2)) {
		pressure.outer = group_new(NULL, "/outer");
		pressure.box = group_new(pressure.outer, "/outer/box");
	} else {
		pressure.box = group_new(NULL, "/box");
	}
	pressure.box->first = machine_draw(4) == 0;
	if (pressure.outer)
		pressure.outer->first = pressure.box->first;
	pressure.box->limit = limit * (u64)256 * KIB;
	if (pressure.outer && machine_draw(2)) { /* that one is the narrow one */
		pressure.outer->limit = pressure.box->limit;
		pressure.box->limit *= 4;
	}
	if (!pressure.box->first && machine_draw(4) == 0)
		pressure.box->high = pressure.box->limit / 2;
	pressure.steady = machine_draw(2);
	pressure.box->others = machine_draw(limit * 128) * KIB;
}

/* Larger and smaller again: while one is made holds are wanted. */
static void resizer_run(void *arg)
{
	struct look_resize resize;
	struct lodic_stat stat;
	struct look *look;

	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		u64 left = group_left(pressure.box);

		look = budget_looks(&stat);
		waiters_wake(&pressure.begins);
		if (look && left > MIB)
			look_resize(look, i % 2 ? 64 * KIB : left - MIB, &resize);
		if (look)
			look_close(look);
		task_wait(NULL, machine.now_ns + machine_draw(2000) * NS_PER_MS);
	}
}

/* Holds and arenas that come at once: for each alone there is room. */
static void pressure_rush(void)
{
	struct process *p;

	world_no_faults();
	pressure.rush = true;
	pressure.steady = true;
	pressure.cache = 64 * KIB;
	pressure.hold = 16 * MIB;
	pressure.nr_holds = 1;
	for (u32 i = 0; i < RUSH_HOLDERS; i++)
		pressure_holder(8 + machine_draw(8));
	if (machine_draw(2) == 0)
		return;
	p = process_start("resizer", WORLD_USER, resizer_run,
	                  (void *)(uintptr_t)(8 + machine_draw(16)));
	p->group = pressure.box;
	settle_expect(p);
}

void scenario_pressure(void)
{
	struct process *p;

	memset(&pressure, 0, sizeof(pressure));
	groups_heard = pressure_hears;
	world.adjust = pressure_adjust;
	pressure_group();
	if (machine.seed % 16 == RUSH_SEED) { /* a draw would change all other runs */
		pressure_rush();
		return;
	}
	if (machine_draw(3) == 0)
		world_no_faults();
	memory_says.has_pressure = machine_draw(2);
	pressure.budget = machine_draw(2) ? (4 + machine_draw(8)) * MIB : 0;
	pressure.cache = pressure.budget ? 0 : 64 * KIB << machine_draw(5);
	pressure.hold = pressure.budget ? SERVICE_HOLDS_ANY : 16 * MIB;
	pressure.nr_holds = 1 + machine_draw(8);
	for (u32 i = 1 + machine_draw(2); i > 0; i--)
		pressure_holder(1 + machine_draw(8));
	for (u32 i = machine_draw(3); i > 0; i--)
		world_reader(50 + machine_draw(200))->group = pressure.box;
	p = process_start("weather", WORLD_USER, weather_run,
	                  (void *)(uintptr_t)(1 + machine_draw(10)));
	settle_expect(p);
}

/* ---- budget ---- */

static void budget_refused(int err)
{
	if (pressure.calm && err == -EBUSY && process_now()->nr_memory_files > 0)
		machine_fail("a successor that had come in is refused");
}

static void budget_check(void)
{
	struct lodic_stat stat;
	struct look *look = budget_looks(&stat);

	if (!look)
		return;
	look_close(look);
	if (stat.frames * 4096 + stat.hold_bytes > stat.memory_limit)
		machine_fail("blocks have %llu bytes and holds %llu, of %llu",
		             (unsigned long long)stat.frames * 4096,
		             (unsigned long long)stat.hold_bytes,
		             (unsigned long long)stat.memory_limit);
}

/* Nothing fails any more. A user wants less, and what nobody has goes. */
static void budget_shrinks(void)
{
	u64 until = machine.now_ns + SETTLED_NS, bytes = pressure.budget / 2, used;
	struct look_resize resize;
	struct lodic_stat stat = { 0 };
	struct lodic *lodic;
	struct look *look;

	if (world_attach(&lodic) != 0)
		machine_fail("nothing fails, and nobody can attach");
	do {
		used = UINT64_MAX;
		look = budget_looks(&stat);
		if (look) {
			used = stat.frames * 4096 + stat.hold_bytes;
			if (stat.memory_limit != bytes)
				look_resize(look, bytes, &resize);
			look_close(look);
		}
		if (machine.now_ns > until)
			machine_fail("the cache shall have %llu bytes for long, and has %llu",
			             (unsigned long long)bytes, (unsigned long long)used);
		port_sleep(500 * NS_PER_MS);
	} while (!look || stat.memory_limit != bytes || used > bytes);
	lodic_detach(lodic);
}

/* It stands still for a while, but not so long that it loses its place. The cache would like to
 * grow meanwhile. */
static void keeper_replaces(void)
{
	struct process *p = world_service(true);

	task_wait(NULL, machine.now_ns + (1 + machine_draw(1500)) * NS_PER_US);
	if (pressure.calm) {
		process_stop(p, true);
		task_wait(NULL, machine.now_ns + machine_draw(1000) * NS_PER_MS);
		process_stop(p, false);
	}
	port_sleep(1000 * NS_PER_MS);
}

static void keeper_run(void *arg)
{
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		budget_check();
		if (machine_draw(6) == 0)
			keeper_replaces();
		port_sleep(machine_draw(200) * NS_PER_MS);
	}
	settle_here();
	budget_shrinks();
}

/* So many holds that one look cannot ask for all of them. */
static void budget_crowd(void)
{
	world_no_faults();
	world_make(LARGE, LARGE_BYTES);
	memory_says.has_pressure = true;
	pressure.nr_holds = MOST_HOLDS;
	pressure.cache = MIB;
	pressure.hold = 128 * MIB;
	pressure_holder(1);
}

void scenario_budget(void)
{
	memset(&pressure, 0, sizeof(pressure));
	world.adjust = pressure_adjust;
	world.refused = budget_refused;
	if (machine_draw(16) == 0) {
		budget_crowd();
		return;
	}
	pressure.calm = machine_draw(3) == 0;
	if (pressure.calm)
		world_no_faults();
	/* The holds fit beside a small arena only. */
	pressure.nr_holds = 1 + machine_draw(4);
	pressure.budget = pressure.nr_holds * MIB + (64 + machine_draw(192)) * KIB;
	pressure.hold = pressure.budget - 64 * KIB;
	for (u32 i = 1 + machine_draw(3); i > 0; i--)
		world_reader(200 + machine_draw(pressure.calm ? 3000 : 800));
	if (!pressure.calm)
		pressure_holder(1 + machine_draw(8));
	settle_expect(process_start("keeper", WORLD_USER, keeper_run,
	                            (void *)(uintptr_t)(1 + machine_draw(30))));
}
