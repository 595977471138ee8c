/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See machine.h: turns, time, tasks, processes. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/whole/group.h"
#include "host/whole/machine.h"

#include "host/random.h"

#define STACK_BYTES ((size_t)256 << 10)
/* A task that gets its turn may be on another CPU. */
#define MOVES_ONE_IN 8u
/* A service begins with fewer descriptors. */
#define MOST_BEFORE_ZERO 64u
#define HASH_PRIME 0x100000001b3u

struct machine machine;

u32 machine_draw(u32 n)
{
	return n > 1 ? (u32)(random_next(&machine.random) % n) : 0;
}

static void machine_hash(u64 value)
{
	machine.hash = (machine.hash ^ value) * HASH_PRIME;
}

void machine_note(const char *format, ...)
{
	char line[256];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	for (const char *at = line; *at; at++)
		machine_hash((u8)*at);
	if (machine.tracing)
		fprintf(stderr, "%12.6f ms  %-12s %-10s %s\n",
		        (double)machine.now_ns / 1e6,
		        machine.running ? machine.running->process->name : "-",
		        machine.running ? machine.running->name : "-", line);
}

/* ---- events ---- */

void event_drop(struct event *event)
{
	struct event **at = &machine.events;

	if (!event->pending)
		return;
	while (*at != event)
		at = &(*at)->next;
	*at = event->next;
	event->pending = false;
}

void event_at(struct event *event, u64 at_ns, void (*happens)(void *of), void *of)
{
	struct event **at = &machine.events;

	event_drop(event);
	*event = (struct event){ at_ns, happens, of, NULL, true };
	while (*at && (*at)->at_ns <= at_ns)
		at = &(*at)->next;
	event->next = *at;
	*at = event;
}

static void events_due(void)
{
	while (machine.events && machine.events->at_ns <= machine.now_ns) {
		struct event *event = machine.events;

		event_drop(event);
		machine.in_event = true;
		event->happens(event->of);
		machine.in_event = false;
	}
}

/* ---- turns ---- */

static void task_off(struct task *t)
{
	struct task **at;

	if (!t->on)
		return;
	/* A lock may be a static variable, and another process may have its own there now. */
	if (image_has(t->on))
		image_switch(t->process);
	for (at = &t->on->first; *at != t; at = &(*at)->next_on)
		;
	*at = t->next_on;
	if (image_has(t->on) && machine.running)
		image_switch(machine.running->process);
	t->on = NULL;
}

static void task_ready(struct task *t)
{
	task_off(t);
	t->state = TASK_READY;
	t->until_ns = NS_NEVER;
}

void waiters_wake_one(struct waiters *on)
{
	struct task *last = on->first;

	while (last && last->next_on) /* who has waited longest */
		last = last->next_on;
	if (last)
		task_ready(last);
}

void waiters_wake(struct waiters *on)
{
	while (on->first)
		task_ready(on->first);
}

static bool task_can_run(struct task *t)
{
	if (t->state == TASK_WAITS && t->until_ns <= machine.now_ns) {
		image_switch(t->process); /* what it waits for may be a static variable */
		t->timed_out = true;
		task_ready(t);
	}
	return t->state == TASK_READY && !t->process->stopped && !t->process->frozen;
}

static struct task *machine_choose(void)
{
	struct task *ready[MACHINE_MOST_TASKS];
	u32 nr = 0;

	for (u32 i = 0; i < machine.nr_tasks; i++)
		if (task_can_run(&machine.tasks[i]))
			ready[nr++] = &machine.tasks[i];
	return nr > 0 ? ready[machine_draw(nr)] : NULL;
}

/* When nobody can run: the next moment at which somebody may. false: there is none. */
static bool machine_advance(void)
{
	u64 next = machine.events ? machine.events->at_ns : NS_NEVER;

	for (u32 i = 0; i < machine.nr_tasks; i++) {
		const struct task *t = &machine.tasks[i];

		if (t->state == TASK_WAITS && !t->process->stopped && !t->process->frozen &&
		    t->until_ns < next)
			next = t->until_ns;
	}
	if (next == NS_NEVER)
		return false;
	if (next > machine.now_ns)
		machine.now_ns = next;
	events_due();
	return true;
}

static void machine_switch(struct task *to)
{
	struct task *from = machine.running;
	int error;

	if (to)
		image_switch(to->process);
	if (to == from)
		return;
	machine.running = to;
	guest_switch(from, to);
	error = errno;
	fiber_switch(from ? from->fiber : machine.main, to ? to->fiber : machine.main);
	errno = error;
}

void machine_yield(void)
{
	struct task *next;

	machine.turn = 1 + machine_draw(machine.turn_most);
	events_due();
	next = machine_choose();
	while (!next && machine_advance())
		next = machine_choose();
	if (next && next->preempt_off == 0 && machine_draw(MOVES_ONE_IN) == 0)
		next->cpu = machine_draw(machine.nr_cpus);
	machine_switch(next);
}

void machine_count(void)
{
	if (++machine.steps > machine.most_steps)
		machine_fail("it does not end: %llu steps",
		             (unsigned long long)machine.steps);
}

void machine_step(void)
{
	if (!machine.running)
		return; /* before the first turn, and after the last */
	machine_count();
	if (machine.running->preempt_off == 0 && --machine.turn == 0)
		machine_yield();
}

bool task_wait(struct waiters *on, u64 until_ns)
{
	struct task *t = machine.running;

	t->state = TASK_WAITS;
	t->until_ns = until_ns;
	t->timed_out = false;
	t->on = on;
	if (on) {
		t->next_on = on->first;
		on->first = t;
	}
	machine_yield();
	return !t->timed_out;
}

/* ---- tasks and processes ---- */

static void task_ends(struct task *t)
{
	task_off(t);
	mark_end(t);
	leases_end(t);
	description_release(t);
	t->state = TASK_OVER;
	t->process->nr_tasks--;
	waiters_wake(&t->over);
}

void task_exit(void)
{
	struct task *t = machine.running;

	words_end(t);
	if (t->process->tasks == t && !t->next)
		process_exit(0);
	task_ends(t);
	machine_yield();
	abort(); /* nobody goes on here */
}

static void task_body(void *arg)
{
	struct task *t = arg;

	t->run(t->arg);
	task_exit();
}

struct task *task_start(struct process *process, const char *name,
                        void (*run)(void *arg), void *arg)
{
	struct task *t = NULL;

	if (machine.nr_tasks == MACHINE_MOST_TASKS)
		machine_fail("too many tasks for the machine");
	t = &machine.tasks[machine.nr_tasks];
	*t = (struct task){ .fiber = t->fiber, .process = process, .run = run,
		            .arg = arg, .until_ns = NS_NEVER,
		            .number = ++machine.nr_tasks,
		            .cpu = machine_draw(machine.nr_cpus) };
	snprintf(t->name, sizeof(t->name), "%s", name);
	if (!t->fiber)
		t->fiber = fiber_new(STACK_BYTES);
	if (!t->fiber)
		machine_fail("there is no memory for a stack");
	fiber_reset(t->fiber, task_body, t);
	t->next = process->tasks;
	process->tasks = t;
	process->nr_tasks++;
	return t;
}

/* A program may close 0 at any time, and then any descriptor may get that number. */
static u32 process_nr_before_zero(void)
{
	return (u32)(random_mix(machine.seed + machine.nr_processes) % MOST_BEFORE_ZERO);
}

struct process *process_start(const char *name, u32 uid, void (*run)(void *arg),
                              void *arg)
{
	struct process *p;

	if (machine.nr_processes == MACHINE_MOST_PROCESSES)
		machine_fail("too many processes for the machine");
	p = &machine.processes[machine.nr_processes++];
	*p = (struct process){ .number = machine.nr_processes, .uid = uid,
		               .real_uid = uid, .gid = uid,
		               .images = { image_new(IMAGE_PRODUCT) },
		               .fd_limit = MACHINE_MOST_FDS,
		               .nr_before_zero = process_nr_before_zero(),
		               .group = machine.running ? process_now()->group : NULL };
	snprintf(p->name, sizeof(p->name), "%s-%u", name, p->number);
	machine_note("process %s starts", p->name);
	task_start(p, "main", run, arg);
	return p;
}

void process_stop(struct process *process, bool stopped)
{
	if (process->dead)
		return;
	process->stopped = stopped;
	machine_note("process %s %s", process->name, stopped ? "stops" : "goes on");
}

/* The kernel promises none: what an entry's close puts off may come in any order. */
enum close_order { CLOSE_ANY, CLOSE_UP, CLOSE_DOWN, NR_CLOSE_ORDERS };

/* Of a dead process; -1: all are closed. */
static int process_next_close(const struct process *p)
{
	int open[MACHINE_MOST_FDS];
	u32 nr = 0;

	for (u32 i = 0; i < MACHINE_MOST_FDS; i++)
		if (p->fds[i])
			open[nr++] = (int)i;
	if (nr == 0)
		return -1;
	switch (p->close_order) {
	case CLOSE_UP: return open[0];
	case CLOSE_DOWN: return open[nr - 1];
	case CLOSE_ANY:
	default: return open[machine_draw(nr)];
	}
}

/* The kernel marks what a thread held, then it closes the descriptors one after the other. Then
 * those hear that watch the process. */
static void process_closes(void *of)
{
	struct process *p = of;
	int fd = process_next_close(p);

	if (fd >= 0) {
		fd_close(p, fd);
		event_at(&p->closes, machine.now_ns + machine_draw(CALL_NS),
		         process_closes, p);
		return;
	}
	p->closed = true;
	process_watched(p);
	waiters_wake(&p->ended);
}

static void process_ends(struct process *p, int status)
{
	p->dead = true;
	p->status = status;
	p->close_order = machine_draw(NR_CLOSE_ORDERS);
	socket_process_ends(p);
	image_switch(p); /* a task may wait for a static variable */
	for (struct task *t = p->tasks; t; t = t->next)
		if (t->state != TASK_OVER)
			task_ends(t);
	if (machine.running)
		image_switch(machine.running->process);
	heap_end(p);
	mappings_end(p);
	event_at(&p->closes, machine.now_ns + machine_draw(CALL_NS), process_closes, p);
}

void process_exit(int status)
{
	machine_note("process ends with %d", status);
	process_ends(process_now(), status);
	machine_yield();
	abort();
}

void process_kill(struct process *process)
{
	machine_note("process %s is killed", process->name);
	process_ends(process, -1);
	if (process == process_now())
		machine_yield();
}

/* ---- a run ---- */

/* What the run before has left. */
static void machine_end(void)
{
	machine.running = NULL;
	machine.tracing = false;
	while (machine.events)
		event_drop(machine.events);
	for (u32 i = 0; i < machine.nr_processes; i++) {
		struct process *p = &machine.processes[i];

		heap_end(p);
		mappings_end(p);
		for (int fd = 0; fd < (int)MACHINE_MOST_FDS; fd++)
			if (p->fds[fd])
				fd_close(p, fd);
		free(p->resume);
		for (u32 k = 0; k < NR_IMAGES; k++)
			if (p->images[k])
				image_free(k, p->images[k]);
	}
}

void machine_begin(u64 seed)
{
	struct fiber *fibers[MACHINE_MOST_TASKS];

	machine_end();
	group_begin();
	for (u32 i = 0; i < MACHINE_MOST_TASKS; i++)
		fibers[i] = machine.tasks[i].fiber;
	memset(&machine, 0, sizeof(machine));
	for (u32 i = 0; i < MACHINE_MOST_TASKS; i++)
		machine.tasks[i].fiber = fibers[i];
	machine.seed = seed;
	machine.random = random_mix(seed + 1);
	machine.main = fiber_main();
	machine.now_ns = 1000000000;
	machine.most_steps = (u64)1 << 24;
	machine.nr_cpus = 1 + machine_draw(4);
	machine.turn_most = (u32)1 << machine_draw(12);
	machine.turn = 1;
	machine.fault_call = NR_CALLS;
	machine.fault_which = CALL_MOST_ERRNOS;
	machine.fault_also = NR_CALLS;
}

void machine_run(void)
{
	machine_yield();
}

void machine_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(machine.what, sizeof(machine.what), format, args);
	va_end(args);
	machine.failed = true;
	machine_note("FAILS: %s", machine.what);
	machine_switch(NULL);
	abort(); /* main does not come back here */
}
