/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One schedule: tasks take turns at their host_* calls. Before each step the running task
 * asks what is next. That may be the task itself, another one, or a store on its way from
 * a CPU's buffer to memory. engine.choose decides it, in another file, and access.c knows
 * what a step does to memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/check/engine.h"
#include "host/check/mover.h"

#define STACK_BYTES (64u << 10)
#define STEPS_DEFAULT 5000u
/* By so many steps a look may be longer than the last one in the same loop. */
#define SPIN_STEPS 8u
/* After so many vain looks the steps to wait for are doubled no more. */
#define SPINS_DOUBLED 8u

struct engine engine;
u32 check_mutant_now;

static jmp_buf finish_failed;
static bool in_finish;

/* Back to engine_schedule(); this stack is not used again. */
static _Noreturn void schedule_end(void)
{
	struct task *self = &engine.tasks[engine.current];

	engine.running = false;
	fiber_switch(self->fiber, fiber_main());
	abort();
}

_Noreturn void engine_fail(const char *what)
{
	engine.failed = true;
	snprintf(engine.what, sizeof(engine.what), "%s", what);
	if (engine.running) {
		check_note("BREAKS A RULE: %s", what);
		schedule_end();
	}
	if (in_finish)
		longjmp(finish_failed, 1);
	fprintf(stderr, "lodic-check: %s, in setup()\n", what);
	abort();
}

_Noreturn void host_fail(const char *what, const char *file, u32 line)
{
	static const char *const rooms[] = { "/check/", "/core/" };
	char text[sizeof(engine.what)];
	const char *slash;

	/* Builds elsewhere have other paths to the same file. */
	for (u32 i = 0; i < 2; i++)
		while ((slash = strstr(file, rooms[i])))
			file = slash + 1;
	snprintf(text, sizeof(text), "%s (%s:%u)", what, file, line);
	engine_fail(text);
}

/* ---- who can be next ---- */

/* Another task of its CPU has switched preemption off. */
static bool is_kept_out(u32 i)
{
	u32 keeper = engine.cpus[engine.tasks[i].cpu].kept_by;

	return keeper != CHECK_MAX_TASKS && keeper != i;
}

static bool runnable(u32 i)
{
	struct task *t = &engine.tasks[i];

	if (t->is_fault && !t->begun && engine.executed < t->starts_at)
		return false;
	if (is_kept_out(i))
		return false;
	switch (t->state) {
	case TASK_READY: return true;
	case TASK_SPINNING: return engine.executed >= t->spins_until;
	case TASK_WAITING: return t->ready(t->ready_arg);
	default: return false;
	}
}

static u32 entities_now(u32 *entities)
{
	u32 nr = 0, i;

	for (i = 0; i < engine.nr_tasks; i++)
		if (runnable(i))
			entities[nr++] = i;
	for (i = 0; i < engine.nr_cpus; i++)
		if (engine.cpus[i].nr > 0)
			entities[nr++] = DRAIN_OF(i);
	if (nr > 0)
		return nr;
	/* None: of those that spin, the one whose turn is soonest looks again; else a fault
	 * comes early. */
	for (i = 0; i < engine.nr_tasks; i++) {
		const struct task *t = &engine.tasks[i];

		if (t->state != TASK_SPINNING || is_kept_out(i))
			continue;
		if (nr == 0 || t->spins_until < engine.tasks[entities[0]].spins_until)
			entities[0] = i;
		nr = 1;
	}
	for (i = 0; nr == 0 && i < engine.nr_tasks; i++)
		if (engine.tasks[i].is_fault && !engine.tasks[i].begun &&
		    engine.tasks[i].state == TASK_READY) {
			engine.tasks[i].starts_at = 0;
			entities[nr++] = i;
		}
	return nr;
}

static _Noreturn void nobody_left(void)
{
	char text[sizeof(engine.what)] = "deadlock: nobody can go on; waiting:";
	size_t n = strlen(text);
	bool any = false;

	for (u32 i = 0; i < engine.nr_tasks; i++) {
		if (engine.tasks[i].state == TASK_DONE)
			continue;
		any = true;
		n += (size_t)snprintf(text + n, sizeof(text) - n, " %s",
		                      engine.tasks[i].name);
		if (n >= sizeof(text))
			break;
	}
	if (any)
		engine_fail(text);
	schedule_end();
}

static u32 ask(u32 *entities, u32 nr)
{
	u32 e, i;

	for (i = 0; check_is_flipped(CHECK_FLIP_ORDER) && i < nr / 2; i++) {
		e = entities[i];
		entities[i] = entities[nr - 1 - i];
		entities[nr - 1 - i] = e;
	}
	e = engine.choose(entities, nr);

	if (engine.nr_chosen < CHOICES_MAX)
		engine.chosen[engine.nr_chosen++] = (u8)e;
	return e;
}

/* The step that was under way has ended: an access and the plain work after it. */
static void report_step(void)
{
	if (memory_has_changed())
		engine.foot.everything = true;
	engine.stepped(&engine.foot);
}

static void begin_footprint(u32 e)
{
	u32 cpu = e < CHECK_MAX_TASKS ? engine.tasks[e].cpu : e - CHECK_MAX_TASKS;

	if (!buffer_has(cpu))
		cpu = FOOTPRINT_NO_CPU;
	footprint_begin(&engine.foot, cpu, e >= CHECK_MAX_TASKS);
	/* Whether it can go on at all is for others to say. */
	if (e < CHECK_MAX_TASKS && engine.tasks[e].state != TASK_READY)
		engine.foot.everything = true;
}

/* Until a task is next: stores that go first reach memory here. */
static u32 next_task(void)
{
	u32 entities[ENTITY_MAX];
	u32 nr, e;

	for (;;) {
		if (engine.stepped)
			report_step();
		nr = entities_now(entities);
		if (nr == 0)
			nobody_left();
		if (engine.executed >= engine.max_steps)
			engine_fail("livelock: no end after the most steps allowed");
		e = ask(entities, nr);
		if (e == NOBODY) {
			engine.cut = true;
			schedule_end();
		}
		engine.executed++;
		if (engine.stepped)
			begin_footprint(e);
		if (e < CHECK_MAX_TASKS)
			return e;
		buffer_drain_one(e - CHECK_MAX_TASKS);
	}
}

/* self is on its CPU, which may have run another task until now. */
static void arrive(u32 self)
{
	struct task *t = &engine.tasks[self];
	struct cpu *c = &engine.cpus[t->cpu];

	t->begun = true;
	t->state = TASK_READY;
	if (c->last_task != self) {
		access_switch(t->cpu, c->last_task, self);
		t->disturbed = true;
	}
	c->last_task = self;
}

void engine_point(void)
{
	u32 self = engine.current;
	u32 next = next_task();

	if (next != self) {
		engine.current = next;
		fiber_switch(engine.tasks[self].fiber, engine.tasks[next].fiber);
	}
	arrive(self);
	engine.tasks[self].nr_steps++;
}

/*
 * A task that spins waits for another one. It may look again when others have made a step,
 * and after each vain look when they have made twice as many. So it keeps its place among
 * the others; yet several tasks that spin cannot keep the one that they wait for from
 * running. No behaviour is lost: a schedule in which the task had looked less often lets it
 * look at any moment.
 */
void engine_spin(void)
{
	struct task *t = &engine.tasks[engine.current];

	if (t->nr_steps > t->nr_steps_spin + SPIN_STEPS)
		t->nr_spins = 0; /* another loop */
	t->nr_steps_spin = t->nr_steps;
	t->nr_steps = 0;
	t->spins_until = engine.executed + (1u << t->nr_spins);
	if (t->nr_spins < SPINS_DOUBLED)
		t->nr_spins++;
	t->state = TASK_SPINNING;
	engine.foot.everything = true; /* it ends with giving way */
}

/* ---- tasks ---- */

static void task_main(void *arg)
{
	struct task *t = arg;
	u32 next;

	arrive(engine.current);
	t->body(t->arg);
	if (t->stays)
		engine_fail("a task ends with preemption off");
	t->state = TASK_DONE;
	next = next_task();
	engine.current = next;
	fiber_switch(t->fiber, engine.tasks[next].fiber);
}

static u32 task_add(const char *name, u32 cpu, void (*body)(void *), void *arg,
                    bool fault)
{
	struct task *t = &engine.tasks[engine.nr_tasks];

	if (engine.nr_tasks == CHECK_MAX_TASKS)
		engine_fail("more tasks than CHECK_MAX_TASKS");
	if (!t->fiber)
		t->fiber = fiber_new(STACK_BYTES);
	if (!t->fiber)
		engine_fail("no memory for a task's stack");
	snprintf(t->name, sizeof(t->name), "%s", name);
	t->body = body;
	t->arg = arg;
	t->first_cpu = fault ? cpu : check_cpu(cpu);
	t->is_fault = fault;
	t->is_pinned = false;
	return engine.nr_tasks++;
}

u32 check_task(const char *name, u32 cpu, void (*body)(void *), void *arg)
{
	if (cpu >= engine.nr_cpus)
		engine_fail("a task on a CPU that the scenario does not have");
	return task_add(name, cpu, body, arg, false);
}

u32 check_fault(const char *name, void (*body)(void *), void *arg)
{
	return task_add(name, CHECK_MAX_CPUS + engine.nr_tasks, body, arg, true);
}

void check_pin_task(u32 task)
{
	engine.tasks[task].is_pinned = true;
}

u32 check_self(void)
{
	return engine.current;
}

bool check_is_done(u32 task)
{
	engine.foot.everything = true;
	return engine.tasks[task].state == TASK_DONE;
}

void check_kill(u32 task)
{
	engine.foot.everything = true;
	if (engine.tasks[task].stays)
		engine_fail("a task is killed with preemption off, which none can be");
	if (engine.tasks[task].state != TASK_DONE)
		check_note("kills %s", engine.tasks[task].name);
	if (engine.memory == CHECK_WEAK)
		history_fence_full(task); /* exit() */
	engine.tasks[task].state = TASK_DONE;
}

bool check_is_flipped(enum check_flip flip)
{
	return engine.flip & flip;
}

u32 check_cpu(u32 cpu)
{
	return check_is_flipped(CHECK_FLIP_CPU) ? engine.nr_cpus - 1 - cpu : cpu;
}

void check_migrate(u32 task, u32 cpu)
{
	engine_migrate(task, check_cpu(cpu));
}

void engine_migrate(u32 task, u32 cpu)
{
	struct task *t = &engine.tasks[task];

	engine.foot.everything = true;
	if (t->state == TASK_DONE)
		return;
	t->moves_to = cpu;
	if (t->stays)
		return;
	check_note("moves %s to CPU %u", t->name, cpu);
	access_switch(t->cpu, task, task);
	t->cpu = cpu;
	t->disturbed = true;
}

u32 check_cpu_of(u32 task)
{
	engine.foot.everything = true;
	return engine.tasks[task].cpu;
}

void check_draw(u64 *to, u32 n)
{
	if (engine.nr_draws == DRAWS_MAX || !memory_is_shared(to))
		engine_fail("a draw too many, or outside the checker's memory");
	engine.draws[engine.nr_draws].to = to;
	engine.draws[engine.nr_draws++].n = n;
}

void check_alone_on(u32 cpu)
{
	engine.alone_on = check_cpu(cpu);
}

u32 host_preempt_off(void)
{
	struct task *t;

	if (!engine.running)
		return engine.alone_on;
	engine_point();
	engine.foot.everything = true; /* who can be next changes */
	t = &engine.tasks[engine.current];
	if (t->is_fault || t->stays)
		engine_fail(t->is_fault ? "a fault has no CPU to stay on"
		                        : "preemption is switched off twice");
	check_note("preemption off on CPU %u", t->cpu);
	t->stays = true;
	t->moves_to = t->cpu;
	engine.cpus[t->cpu].kept_by = engine.current;
	check_fence(FENCE_LIGHT);
	return t->cpu;
}

void host_preempt_on(void)
{
	struct task *t = &engine.tasks[engine.current];

	if (!engine.running)
		return;
	engine.foot.everything = true;
	if (!t->stays)
		engine_fail("preemption is switched on twice");
	check_note("preemption on");
	check_fence(FENCE_LIGHT);
	t->stays = false;
	engine.cpus[t->cpu].kept_by = CHECK_MAX_TASKS;
	if (t->moves_to != t->cpu)
		engine_migrate(engine.current, t->moves_to);
}

void check_tell(void)
{
	if (!engine.running)
		return;
	buffer_drain_all(engine.tasks[engine.current].cpu);
	if (engine.memory == CHECK_WEAK)
		history_fence_full(engine.current);
}

void check_told(void)
{
	if (engine.memory == CHECK_WEAK && engine.running)
		history_told(engine.current);
}

void check_wait(bool (*ready)(void *), void *arg)
{
	struct task *t = &engine.tasks[engine.current];

	engine.foot.everything = true;
	if (t->stays)
		engine_fail("a task waits with preemption off");
	while (!ready(arg)) {
		t->ready = ready;
		t->ready_arg = arg;
		t->state = TASK_WAITING;
		engine_point();
		engine.foot.everything = true;
	}
	check_told();
}

void check_note(const char *format, ...)
{
	char text[sizeof(engine.what)];
	va_list args;

	if (!engine.noted)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	engine.noted(text);
}

/* ---- a schedule ---- */

/* A schedule that broke a rule ends with stores still in buffers. */
static void reset_cpus(void)
{
	u32 i;

	for (i = 0; i < CHECK_MAX_CPUS + CHECK_MAX_TASKS; i++) {
		buffer_reset(i);
		engine.cpus[i].last_task = CHECK_MAX_TASKS;
		engine.cpus[i].kept_by = CHECK_MAX_TASKS;
	}
}

void engine_setup(const struct check_scenario *s)
{
	memory_reset();
	reset_cpus();
	engine.nr_tasks = 0;
	engine.nr_cpus = s->nr_cpus;
	engine.running = engine.failed = false;
	check_alone_on(0);
	engine.aborted = NULL;
	engine.nr_draws = 0;
	memset(engine.refuse_most, 0, sizeof(engine.refuse_most));
	engine.stepped = NULL;
	s->setup(s->arg);
	if (engine.movers)
		mover_add_all();
	memory_snapshot();
}

static void draw_all(void)
{
	u32 i;

	for (i = 0; i < engine.nr_draws; i++) {
		u32 *drawn = &engine.draws[i].drawn;

		*drawn = engine.choose_draw(*drawn, engine.draws[i].n);
		*engine.draws[i].to = check_is_flipped(CHECK_FLIP_DRAWS)
		                              ? engine.draws[i].n - 1 - *drawn
		                              : *drawn;
		if (engine.stepped)
			memory_accept(engine.draws[i].to);
	}
}

static void reset(void)
{
	u32 i;

	memory_restore();
	draw_all();
	reset_cpus();
	history_reset();
	for (i = 0; i < engine.nr_tasks; i++) {
		struct task *t = &engine.tasks[i];

		t->cpu = t->first_cpu;
		t->state = TASK_READY;
		t->begun = t->stays = false;
		t->nr_spins = t->nr_steps = t->nr_steps_spin = 0;
		fiber_reset(t->fiber, task_main, t);
	}
	engine.failed = engine.cut = false;
	engine.executed = 0;
	engine.nr_chosen = engine.nr_numbers = 0;
	memset(engine.nr_refused, 0, sizeof(engine.nr_refused));
	engine.what[0] = '\0';
	if (engine.max_steps == 0)
		engine.max_steps = STEPS_DEFAULT;
	engine.current = CHECK_MAX_TASKS; /* nobody yet */
}

static void finish(const struct check_scenario *s)
{
	void (*stepped)(const struct footprint *) = engine.stepped;

	engine.stepped = NULL;
	check_alone_on(0);
	in_finish = true;
	if (setjmp(finish_failed) == 0) {
		for (u32 i = 0; i < engine.nr_cpus; i++)
			buffer_drain_all(i);
		if (s->finish)
			s->finish(s->arg);
	}
	in_finish = false;
	engine.stepped = stepped;
}

bool engine_schedule(const struct check_scenario *s)
{
	u32 entities[ENTITY_MAX], nr;

	reset();
	nr = entities_now(entities);
	if (nr > 0) {
		engine.current = ask(entities, nr);
		begin_footprint(engine.current);
		engine.executed++;
		engine.running = true;
		fiber_switch(fiber_main(), engine.tasks[engine.current].fiber);
		engine.running = false;
	}
	if (!engine.failed && !engine.cut)
		finish(s);
	return !engine.failed;
}
