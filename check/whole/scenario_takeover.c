/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Successors that come to the same socket: one after the other, or two at once. They are stopped or
 * killed at any step, beside resizes, and while the service before them stands still or ends.
 * serving.h has the rules.
 */
#include "check/whole/heir.h"
#include "check/whole/scenarios.h"
#include "check/whole/serving.h"
#include "check/whole/settle.h"
#include "lib/look.h"
#include "lib/port.h"
#include "lib/service/service.h"

#define NS_PER_MS ((u64)1000000)
#define SILENT_MS 3000u
#define IDLE_MS 60000u
/* A takeover takes some milliseconds. Late calls are late for 100 ms at most. */
#define TAKES_MS 20000u
/* Shorter than SILENT_MS, so that a successor is not silent. */
#define PAUSE_MS 1000u
/* A resize takes less than so many seconds if nothing fails. */
#define TRIES 5u

static struct {
	bool quiet; /* nobody is stopped as it takes over */
	struct look *look;
} takeover;

static void takeover_adjust(struct service_options *options)
{
	options->place.successor_ms = SILENT_MS;
	options->place.idle_exit_ms = IDLE_MS;
}

/* Of all calls only those that send something fail. */
static void takeover_mute(void)
{
	world_no_faults();
	machine.fault_call = CALL_SEND;
	machine.rate[FAULT_ERRNO] = 2u << machine_draw(5);
}

static void takeover_sleep(u64 ns)
{
	task_wait(NULL, machine.now_ns + ns);
}

/* At the step from which on two processes have the socket. */
static void takeover_taking(void)
{
	struct process *self = process_now(), *old = serving_now();
	u64 ns = machine_draw(4 * SILENT_MS) * NS_PER_MS;

	if (takeover.quiet)
		return;
	switch (machine_draw(10)) {
	case 0:
	case 1: process_stop_for(self, ns % (PAUSE_MS * NS_PER_MS)); break;
	case 2:
	case 3:
		serving_disturbed();
		process_stop_for(self, ns);
		break;
	case 4:
		serving_disturbed();
		if (old)
			process_stop_for(old, ns);
		break;
	case 5:
		serving_disturbed();
		if (old)
			process_signal(old, SIGNAL_END);
		process_stop_for(self, ns % (PAUSE_MS * NS_PER_MS));
		break;
	case 7: /* it has begun to end, and stands still for longer than the answer is awaited */
		serving_disturbed();
		if (!old)
			break;
		process_signal(old, SIGNAL_END);
		takeover_sleep(machine_draw(300) * NS_PER_US);
		process_stop_for(old, SILENT_MS * NS_PER_MS);
		break;
	case 6:
		serving_disturbed();
		process_kill(machine_draw(2) && old ? old : self);
		break;
	default: return;
	}
	machine_yield();
}

/* Is there a service besides, or an heir? It may have the place, or get it. */
static bool takeover_any_other(const struct process *one)
{
	for (u32 i = 0; i < machine.nr_processes; i++) {
		const struct process *p = &machine.processes[i];

		if ((world_is_service(p) || world_is_heir(p)) && !p->dead && p != one)
			return true;
	}
	return false;
}

/* A successor comes. A resize may be in its way for a while. false: it has failed, or takes too
 * long. */
static bool takeover_succeeds(void)
{
	for (u32 i = 0; i < TRIES; i++) {
		u64 until = machine.now_ns + TAKES_MS * NS_PER_MS;
		const struct process *successor = world_service(true);

		while (!successor->dead && !serving_is(successor) &&
		       machine.now_ns < until)
			takeover_sleep(50 * NS_PER_MS);
		if (serving_is(successor))
			return true;
		takeover_sleep(1000 * NS_PER_MS);
	}
	return false;
}

/* A successor comes alone. If nothing fails it takes over. */
static void takeover_alone(void)
{
	struct process *old = serving_now();
	bool alone = old && !old->stopped && !takeover_any_other(old);

	takeover.quiet = true;
	if (!takeover_succeeds() && world.calm && alone && serving_is(old))
		machine_fail(
			"nobody is in the way, and a successor does not take over");
	takeover.quiet = false;
}

/* One stands still at some step, for good. The next one that comes late enough takes over. */
static void takeover_silent(void)
{
	struct process *old = serving_now(), *first;
	bool alone = old && !old->stopped && !takeover_any_other(old);

	takeover.quiet = true;
	first = world_service(true);
	takeover_sleep(machine_draw(6000) * NS_PER_US);
	if (!first->dead && !serving_is(first) && !first->resume) {
		serving_disturbed();
		serving_was_silent(first);
		process_stop(first, true);
		takeover_sleep((SILENT_MS + 1000) * NS_PER_MS);
		if (!takeover_succeeds() && world.calm && alone && serving_is(old))
			machine_fail("a successor that is silent keeps its place");
		if (machine_draw(2))
			process_kill(first);
		else
			process_stop(first, false);
	}
	takeover.quiet = false;
}

static void takeover_resizes(void)
{
	struct look_resize resize;
	int pid;

	if (!takeover.look && look_open(WORLD_SOCKET, &takeover.look, &pid) != 0)
		takeover.look = NULL;
	if (!takeover.look)
		return;
	for (u32 i = 1 + machine_draw(20); i > 0; i--) {
		int err = look_resize(takeover.look, (u64)64 << 10 << machine_draw(3),
		                      &resize);

		machine_note("a resize: %d", err);
		if (err && err != -EBUSY) {
			look_close(takeover.look);
			takeover.look = NULL;
			return;
		}
		port_sleep(machine_draw(50) * NS_PER_MS);
	}
}

/* The service ends, by a signal or at its user's request. */
static void takeover_stops(struct process *old)
{
	struct look *look;
	int pid;

	if (machine_draw(2)) {
		process_signal(old, SIGNAL_END);
		return;
	}
	if (look_open(WORLD_SOCKET, &look, &pid) != 0)
		return;
	machine_note("a stop: %d", look_stop(look));
	look_close(look);
}

static void takeover_acts(void)
{
	struct process *old = serving_now();

	switch (machine_draw(10)) {
	case 0: world_service(true); /* fallthrough */
	case 1: world_service(true); break;
	case 2: takeover_silent(); break;
	case 3:
		if (!old)
			break;
		serving_disturbed();
		process_stop_for(old, machine_draw(3 * SILENT_MS) * NS_PER_MS);
		break;
	case 4:
		if (!old)
			break;
		serving_disturbed();
		if (machine_draw(2))
			process_kill(old);
		else
			takeover_stops(old);
		break;
	case 5: world_heir(); break;
	case 6: takeover_alone(); break;
	default: takeover_resizes(); break;
	}
}

static void operator_run(void *arg)
{
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		takeover_acts();
		takeover_sleep(machine_draw(2) ? machine_draw(6000) * NS_PER_US
		                               : machine_draw(3000) * NS_PER_MS);
	}
	if (takeover.look)
		look_close(takeover.look);
}

void scenario_takeover(void)
{
	takeover.quiet = false;
	takeover.look = NULL;
	world.adjust = takeover_adjust;
	world.taking = takeover_taking;
	if (machine_draw(2))
		world_calm();
	else if (machine_draw(2))
		machine.longest_ns = 100 * NS_PER_MS;
	else if (machine_draw(2))
		takeover_mute();
	for (u32 i = 1 + machine_draw(3); i > 0; i--)
		world_reader(50 + machine_draw(200));
	if (machine_draw(2))
		world_writer(1 + machine_draw(5));
	settle_expect(process_start("operator", WORLD_USER, operator_run,
	                            (void *)(uintptr_t)(2 + machine_draw(10))));
	serving_judge();
}
