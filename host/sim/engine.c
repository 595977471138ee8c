/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Clocks and turns. Every CPU has a clock. The next event is the first one in simulated
 * time; of two at the same time, the one known first comes first. So a run depends only
 * on the machine, the seed and the tasks.
 *
 * No thread schedules. A task that has to wait takes the next event itself, and
 * switches to the fiber that this event belongs to.
 */
#include <stdio.h>
#include <stdlib.h>

#include "host/fiber/fiber.h"
#include "host/sim/engine.h"

#define STACK_BYTES (64u * 1024)
#define MAX_TIMERS 4u
/* Tasks begin at different moments within this time; together they would run in step. */
#define START_SPREAD_NS 1000u

struct timer {
	u64 period;
	void (*tick)(void *, u32);
	void *arg;
	u32 first_task; /* tasks of CPU 0, 1, ... */
};

struct world world;
struct events engine_events;
struct task *engine_current;

static struct task **tasks;
static u32 nr_tasks, task_room;
static struct fiber **fibers; /* kept from run to run */
static u32 nr_fibers;
static struct timer timers[MAX_TIMERS];
static u32 nr_timers;

static void *grow(void *p, size_t bytes)
{
	p = realloc(p, bytes);
	if (!p) {
		perror("timing model");
		abort();
	}
	return p;
}

/* ---- events ---- */

static void events_push(u64 at, u32 kind, u32 id)
{
	if (engine_events.used == engine_events.room) {
		engine_events.room = engine_events.room ? 2 * engine_events.room : 1024;
		engine_events.all =
			grow(engine_events.all,
		             engine_events.room * sizeof(*engine_events.all));
	}
	events_add(&engine_events, at, kind, id);
}

/* ---- tasks of one CPU ---- */

static void cpu_add_first(struct cpu *cpu, struct task *t)
{
	t->next = cpu->first_ready;
	cpu->first_ready = t;
}

static void cpu_add_last(struct task **at, struct task *t)
{
	while (*at)
		at = &(*at)->next;
	t->next = NULL;
	*at = t;
}

/* Gives an idle CPU to the next task in its queue, if one is ready; not before now. */
static void cpu_choose(struct cpu *cpu, u64 now)
{
	struct task **from = cpu->first_tick ? &cpu->first_tick : &cpu->first_ready;
	struct task *t = *from;

	if (!t)
		return;
	*from = t->next;
	cpu->running = t;
	t->nr_relaxed = 0;
	if (cpu->clock < now)
		cpu->clock = now;
	/* A tick is an interrupt, so no switch is charged and no slice is used up. */
	if (!t->timer && t != cpu->last) {
		if (cpu->last)
			cpu->clock += (u64)world.machine.switch_ns * PS_PER_NS;
		cpu->slice_end = cpu->clock + (u64)world.machine.slice_ns * PS_PER_NS;
		cpu->last = t;
	}
	events_push(cpu->clock, EVENT_CPU, cpu->number);
}

static void task_wake(struct task *t, u64 now)
{
	struct cpu *cpu = t->cpu;

	if (t->timer) {
		cpu_add_last(&cpu->first_tick, t);
	} else {
		/* A task that has slept goes first, as in Linux. */
		cpu_add_first(cpu, t);
		cpu->slice_end = now;
	}
	if (!cpu->running)
		cpu_choose(cpu, now);
}

/* A tick task that still handles the last tick misses this one. */
static void timer_fire(u32 id, u64 now)
{
	struct timer *timer = &timers[id / SIM_MAX_CPUS];
	struct task *t = tasks[timer->first_task + id % SIM_MAX_CPUS];

	events_push(now + timer->period, EVENT_TICK, id);
	if (t->idle) {
		t->idle = false;
		task_wake(t, now);
	}
}

/* ---- taking turns ---- */

static void world_begin_window(void)
{
	memset(world.transfers, 0, sizeof(world.transfers));
	memset(world.wait_ps, 0, sizeof(world.wait_ps));
}

/* Takes events until one of them lets a CPU go on. NULL: the run is over. */
static struct task *engine_next(void)
{
	for (;;) { /* The loop ends because EVENT_STOP is among them. */
		struct event e = events_take(&engine_events);

		switch ((enum event_kind)e.kind) {
		case EVENT_CPU: return world.cpus[e.id].running;
		case EVENT_LINE: line_serve(e.id, e.at); break;
		case EVENT_WAKE: task_wake(tasks[e.id], e.at); break;
		case EVENT_TICK: timer_fire(e.id, e.at); break;
		case EVENT_WARM: world_begin_window(); break;
		case EVENT_STOP: return NULL;
		}
	}
}

static void engine_dispatch(void)
{
	struct task *self = engine_current;
	struct task *next = engine_next();

	if (next == self)
		return;
	engine_current = next;
	fiber_switch(self ? self->fiber : fiber_main(),
	             next ? next->fiber : fiber_main());
}

void engine_until(u64 at)
{
	engine_continue(engine_cpu(), at);
	engine_dispatch();
}

void engine_wait(void)
{
	engine_dispatch();
}

void engine_continue(struct cpu *cpu, u64 at)
{
	cpu->clock = at;
	events_push(at, EVENT_CPU, cpu->number);
}

void engine_line_due(u32 line, u64 at)
{
	events_push(at, EVENT_LINE, line);
}

/* The running task has noted what it waits for; it leaves its CPU to the next one. */
static void engine_leave(struct cpu *cpu)
{
	cpu->running = NULL;
	cpu_choose(cpu, cpu->clock);
	engine_dispatch();
}

void engine_preempt_now(void)
{
	struct task *t = engine_current;
	struct cpu *cpu = engine_cpu();

	if (t->timer || t->nr_locks)
		return;
	if (cpu->first_tick) {
		cpu_add_first(cpu, t);
		engine_leave(cpu);
	} else if (cpu->clock >= cpu->slice_end) {
		engine_give_way();
	}
}

void engine_give_way(void)
{
	struct cpu *cpu = engine_cpu();

	if (!cpu->first_ready)
		return;
	cpu_add_last(&cpu->first_ready, engine_current);
	engine_leave(cpu);
}

/* ---- worlds and runs ---- */

void sim_begin(const struct sim_machine *machine, u64 seed)
{
	u32 i;

	memset(&world, 0, sizeof(world));
	world.machine = *machine;
	world.random = seed;
	world.nr_cpus = machine->nr_sockets * machine->cpus_per_socket;
	if (world.nr_cpus == 0 || world.nr_cpus > SIM_MAX_CPUS)
		host_fail("a machine of 1 to 512 CPUs", __FILE__, __LINE__);
	for (i = 0; i < world.nr_cpus; i++) {
		world.cpus[i].number = i;
		world.cpus[i].socket = i / machine->cpus_per_socket;
	}
	engine_current = NULL;
	memory_reset(world.nr_cpus);
	caches_reset();
	events_clear(&engine_events);
	nr_tasks = 0;
	nr_timers = 0;
}

static void task_begin(void *arg)
{
	struct task *t = arg;

	t->body(t->arg);
	engine_leave(t->cpu);
	host_fail("a task goes on after its end", __FILE__, __LINE__);
}

static struct task *task_new(u32 cpu, void (*body)(void *), void *arg)
{
	struct task *t;

	if (cpu >= world.nr_cpus)
		host_fail("a task on a CPU of the machine", __FILE__, __LINE__);
	if (nr_tasks == task_room) {
		u32 i = task_room;

		task_room = task_room ? 2 * task_room : 128;
		tasks = grow(tasks, task_room * sizeof(*tasks));
		for (; i < task_room; i++)
			tasks[i] = NULL;
	}
	if (!tasks[nr_tasks])
		tasks[nr_tasks] = grow(NULL, sizeof(**tasks));
	if (nr_tasks == nr_fibers) {
		fibers = grow(fibers, (nr_fibers + 1) * sizeof(struct fiber *));
		fibers[nr_fibers] = fiber_new(STACK_BYTES);
		if (!fibers[nr_fibers++])
			host_fail("memory for the stacks of all tasks", __FILE__,
			          __LINE__);
	}
	t = tasks[nr_tasks];
	*t = (struct task){ .fiber = fibers[nr_tasks],
		            .body = body,
		            .arg = arg,
		            .cpu = &world.cpus[cpu],
		            .number = nr_tasks };
	fiber_reset(t->fiber, task_begin, t);
	nr_tasks++;
	return t;
}

u32 sim_task(u32 cpu, void (*body)(void *), void *arg)
{
	struct task *t = task_new(cpu, body, arg);

	cpu_add_last(&world.cpus[cpu].first_ready, t);
	return t->number;
}

static void timer_body(void *arg)
{
	struct timer *timer = arg;
	struct task *t = engine_current;

	for (;;) { /* Returns when the run is over. */
		timer->tick(timer->arg, t->cpu->number);
		t->idle = true;
		engine_leave(t->cpu);
	}
}

void sim_every(u64 period_ns, void (*tick)(void *, u32), void *arg)
{
	if (nr_timers == MAX_TIMERS || period_ns == 0)
		host_fail("room for a timer, and a period", __FILE__, __LINE__);
	timers[nr_timers++] = (struct timer){ period_ns * PS_PER_NS, tick, arg, 0 };
}

static void timers_start(u64 now)
{
	u32 i, cpu;

	for (i = 0; i < nr_timers; i++) {
		timers[i].first_task = nr_tasks;
		for (cpu = 0; cpu < world.nr_cpus; cpu++) {
			struct task *t = task_new(cpu, timer_body, &timers[i]);

			t->timer = i + 1;
			t->idle = true;
			/* The CPUs tick one after another. If all ticked at once they
			 * would meet at every line that ticks touch, which no real
			 * machine does. */
			events_push(now + timers[i].period * (cpu + 1) / world.nr_cpus,
			            EVENT_TICK, i * SIM_MAX_CPUS + cpu);
		}
	}
}

/* The queues of all lines are forgotten. */
static void world_end(void)
{
	size_t i;

	for (i = 0; i < engine_events.used; i++) {
		const struct event *e = &engine_events.all[i];

		if (e->kind == EVENT_LINE) {
			engine_line_at(e->id)->nr_queued = 0;
			engine_line_at(e->id)->due = false;
		}
	}
	events_clear(&engine_events);
	nr_tasks = 0;
	nr_timers = 0;
	for (i = 0; i < world.nr_cpus; i++) {
		struct cpu *cpu = &world.cpus[i];

		*cpu = (struct cpu){ .number = cpu->number, .socket = cpu->socket };
	}
}

static void world_report(u64 window_ns, struct sim_result *ret_result)
{
	struct sim_result r = { .ops = world.ops, .accesses = world.accesses };
	u32 i;

	r.mops = (double)world.ops * 1000.0 / (double)window_ns;
	r.nr_lines = memory_nr_names();
	for (i = 0; i < r.nr_lines; i++) {
		struct sim_line *l = &r.lines[i];
		u32 name = i + 1 < r.nr_lines ? i + 1 : NAME_OTHER;

		snprintf(l->name, sizeof(l->name), "%s", memory_name(name));
		l->transfers = world.transfers[name];
		l->wait_ns = world.wait_ps[name] / PS_PER_NS;
		r.transfers += l->transfers;
	}
	*ret_result = r;
}

void sim_run(u64 warm_ns, u64 window_ns, struct sim_result *ret_result)
{
	u64 start = world.end;
	u32 i;

	world.ops = 0;
	world.accesses = 0;
	world.warm_end = start + warm_ns * PS_PER_NS;
	world.end = world.warm_end + window_ns * PS_PER_NS;
	events_push(world.end, EVENT_STOP, 0);
	events_push(world.warm_end, EVENT_WARM, 0);
	timers_start(start);
	for (i = 0; i < world.nr_cpus; i++)
		cpu_choose(&world.cpus[i],
		           start + (u64)engine_random(START_SPREAD_NS) * PS_PER_NS);
	engine_dispatch();
	world_report(window_ns, ret_result);
	world_end();
}

/* ---- for tasks ---- */

void sim_work(u32 cycles)
{
	if (!engine_current)
		return;
	engine_preempt();
	engine_order((u64)world.machine.skew_ns * PS_PER_NS);
	engine_cpu()->clock += engine_jitter(engine_cycles_ps(cycles));
}

void sim_sleep(u64 ns)
{
	struct cpu *cpu = engine_cpu();

	events_push(cpu->clock + ns * PS_PER_NS, EVENT_WAKE, engine_current->number);
	engine_leave(cpu);
}

void sim_op_done(void)
{
	u64 clock = engine_cpu()->clock;

	if (clock >= world.warm_end && clock < world.end)
		world.ops++;
}

bool sim_stopping(void)
{
	return engine_cpu()->clock >= world.end;
}

u32 sim_self(void)
{
	return engine_current->number;
}
