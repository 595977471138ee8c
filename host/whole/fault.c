/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See machine.h: a call of the door, and what a fault makes of it. */
#include <stdlib.h>

#include "host/whole/machine.h"

/* A task that makes one call in a row more often than that, and fails each time, does not give up.
 * A loop of lib/ has 100 tries at most. */
#define MOST_TRIES 1024u
/* A call that fails whenever it is made succeeds after so many failures in a run. */
#define MOST_FAILED 8192u

const char *const fault_names[NR_FAULTS] = {
	[FAULT_ERRNO] = "errno", [FAULT_SHORT] = "short", [FAULT_DELAY] = "delay",
	[FAULT_DEATH] = "death", [FAULT_STOP] = "stop",   [FAULT_HANG] = "hang",
};

bool machine_draws(enum fault fault)
{
	u32 rate = machine.rate[fault];

	if (rate == 0 || machine.barred[fault] || machine.faults_end || machine_draw(rate) != 0)
		return false;
	machine.nr_faults[fault]++;
	return true;
}

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
