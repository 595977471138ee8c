/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See machine.h: turns, time, faults. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/whole/group.h"
#include "host/whole/machine.h"

#include "host/random.h"

#define STACK_BYTES ((size_t)256 << 10)
/* A call takes so long at most, if nothing delays it. */
#define CALL_NS 4000u
/* A task that gets its turn may be on another CPU. */
#define MOVES_ONE_IN 8u
#define HASH_PRIME 0x100000001b3u
/* A task that makes one call in a row more often than that, and fails each time, does not give up.
 * A loop of lib/ has 100 tries at most. */
#define MOST_TRIES 1024u
/* What fails each time fails no more after so many times in a run. */
#define MOST_FAILED 8192u

struct machine machine;

const char *const fault_names[NR_FAULTS] = {
	[FAULT_ERRNO] = "errno", [FAULT_SHORT] = "short", [FAULT_DELAY] = "delay",
	[FAULT_DEATH] = "death", [FAULT_STOP] = "stop",   [FAULT_HANG] = "hang",
};

u32 machine_draw(u32 n)
{
	return n > 1 ? (u32)(random_next(&machine.random) % n) : 0;
}

bool machine_draws(enum fault fault)
{
	u32 rate = machine.rate[fault];

	if (rate == 0 || machine.faults_end || machine_draw(rate) != 0)
		return false;
	machine.nr_faults[fault]++;
	return true;
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

static void machine_count(void)
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

/* ---- calls ---- */

static void machine_resume(void *of)
{
	struct process *process = of;

	process_stop(process, false);
	free(process->resume);
	process->resume = NULL;
}

void process_stop_for(struct process *process, u64 ns)
{
	if (process->dead || process->resume)
		return;
	process_stop(process, true);
	process->resume = calloc(1, sizeof(*process->resume));
	event_at(process->resume, machine.now_ns + ns, machine_resume, process);
}

/* Somebody whom the scenario lets die, or stop: each second time the one that makes the call. It
 * may be about to send something, and dies seldom enough then. */
static struct process *machine_victim(void)
{
	struct process *mortal[MACHINE_MOST_PROCESSES], *now = process_now();
	u32 nr = 0;

	if (machine_draw(2) == 0 && now->mortal && !now->dead)
		return now;
	for (u32 i = 0; i < machine.nr_processes; i++)
		if (machine.processes[i].mortal && !machine.processes[i].dead)
			mortal[nr++] = &machine.processes[i];
	return nr > 0 ? mortal[machine_draw(nr)] : NULL;
}

u64 machine_long(void)
{
	u64 ns = NS_PER_US;

	for (u32 i = machine_draw(9); i > 0; i--)
		ns *= 10;
	return ns + ns * machine_draw(9);
}

u64 machine_delay(void)
{
	u64 ns = machine_long();

	return machine.longest_ns && ns > machine.longest_ns ? machine.longest_ns : ns;
}

static void machine_disturb(enum call call)
{
	/* A turn calls none of these, but for files that answer. */
	bool may_hang = call_marks[call] == CALL_MARK_HANGS && !machine.running->may_close;
	struct process *victim;

	if ((!machine.deaths_at_send || machine.running->sends) &&
	    machine_draws(FAULT_DEATH)) {
		victim = machine_victim();
		if (victim)
			process_kill(victim);
	}
	if (machine_draws(FAULT_STOP)) {
		victim = machine_victim();
		if (victim && !victim->resume)
			process_stop_for(victim, machine_long());
	}
	if (machine_draws(FAULT_DELAY) || (may_hang && machine_draws(FAULT_HANG)))
		task_wait(NULL, machine.now_ns + machine_delay());
}

void machine_pass(enum call call)
{
	const struct task *t = machine.running;

	if (t->may_call && !t->may_call(call))
		machine_fail("%s %s calls %s, which may wait", t->process->name, t->name,
		             call_names[call]);
	machine_count();
	if (machine.running->tried != call)
		machine.running->nr_tries = 0;
	machine.running->tried = call;
	machine.now_ns += 1 + machine_draw(t->process->call_ns ? t->process->call_ns : CALL_NS);
	machine.nr_called[call]++;
	if (machine.running->preempt_off == 0) {
		machine_disturb(call);
		machine_yield();
	}
	machine.running->call = call;
	task_cancel_point(call);
}

bool machine_fails(enum call call)
{
	return (machine.fault_call == NR_CALLS || machine.fault_call == (u32)call ||
	        machine.fault_also == (u32)call) &&
	       machine_draws(FAULT_ERRNO);
}

/* A call of many errors has as many chances: each error is seen. */
void machine_one_error(bool guest)
{
	u32 nr = 0;

	for (u32 i = 0; i < NR_CALLS; i++)
		nr += call_is_guest[i] == guest ? (u32)call_errnos[i].nr : 0;
	nr = (u32)(machine.seed / 2 % nr);
	for (u32 i = 0; i < NR_CALLS; i++) {
		if (call_is_guest[i] != guest)
			continue;
		if (nr < (u32)call_errnos[i].nr) {
			machine.fault_call = i;
			machine.fault_which = nr;
			return;
		}
		nr -= (u32)call_errnos[i].nr;
	}
}

/* failed: the running task's call does; else it goes through. A call that waits has another bound:
 * its time. */
static void task_tries(enum call call, bool failed)
{
	struct task *t = machine.running;

	t->nr_tries = failed ? t->nr_tries + 1 : 0;
	if (t->nr_tries > MOST_TRIES && call_marks[call] != CALL_MARK_WAITS)
		machine_fail("%s %s tries %s again for ever", t->process->name, t->name,
		             call_names[call]);
}

int machine_call(enum call call)
{
	int err;

	machine_pass(call);
	err = machine_fault(call);
	task_tries(call, err != 0);
	return err;
}

int machine_fault(enum call call)
{
	const struct call_errnos *can = &call_errnos[call];
	u32 which;

	if (can->nr == 0 || machine.nr_failed[call] >= MOST_FAILED || !machine_fails(call))
		return 0;
	which = machine.fault_which < CALL_MOST_ERRNOS && machine.fault_call == (u32)call
	                ? machine.fault_which
	                : machine_draw((u32)can->nr);
	machine.nr_failed[call]++;
	machine.nr_failed_by[call][which]++;
	machine_note("%s: fault %d", call_names[call], can->errnos[which]);
	if (!machine.in_event)
		errno = can->errnos[which];
	return -can->errnos[which];
}

long machine_result(long result)
{
	machine_note("%s = %ld", call_names[machine.running->call], result);
	if (result < 0 && !machine.in_event)
		errno = (int)-result; /* as the system's function leaves it */
	return result;
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
