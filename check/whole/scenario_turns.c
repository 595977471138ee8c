/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Much that comes at once: many files that are deleted together, many ranges that wait for one big
 * one to leave, many programs that connect. A turn of the service does a part of it.
 */
#include <stdio.h>
#include <string.h>

#include "check/whole/scenarios.h"
#include "check/whole/settle.h"
#include "check/whole/waits.h"
#include "check/whole/world_files.h"
#include "lib/port.h"
#include "lib/service/service.h"

#define NS_PER_S ((u64)1000000000)
#define MANY_FILES 56u
#define MANY_BYTES ((u64)4096)
#define CROWD_NS (20 * NS_PER_S)
/* A range leaves, and others have waited for its memory. */
#define HUGE_MIB 20u
#define HOLD_MIB (HUGE_MIB + 4)
#define RANGERS 3u
#define RANGES_EACH 12u
/* Or each range has its own memory, and the one that leaves had all of it: so all of them wait.
 * A smaller range than 1 MiB is the program's copy. */
#define ALL_RANGERS 4u
#define ALL_MIB (ALL_RANGERS * RANGES_EACH)
#define WAIT_NS (60 * NS_PER_S)
/* As nameless.c and holds.c have it; and a few for other reasons. */
#define GO_PER_TURN 32u
#define BEGINS_PER_TURN 16u
/* A turn of the service begins behind its wait. Requests come before holds_run() has counted anew:
 * they begin what the last turn has left, and then it begins as many. */
#define BEGINS_MOST (2 * BEGINS_PER_TURN)
#define OTHERS 8u

static const char huge[] = "/huge", ranges[] = "/ranges";

static struct {
	bool begun;
	u32 huge_mib, hold_mib;
	struct waiters waiters;
} turns;

static void turns_adjust(struct service_options *options)
{
	options->keeping.nr_files = 128;
	/* Longer than a call may take: a turn lets files go for one reason only. */
	options->keeping.keep_ms = 3600000;
	options->sizes.hold_bytes = (u64)turns.hold_mib << 20;
}

static void many_path(char path[16], u32 i)
{
	snprintf(path, 16, "/many%u", i);
}

/* ---- many files ---- */

/* The service keeps them when nobody has them open any more. */
static void crowd_opens(struct lodic *lodic)
{
	u64 until = machine.now_ns + CROWD_NS;
	struct world_open open;
	char path[16];

	for (u32 i = 0; i < MANY_FILES && machine.now_ns < until; i++) {
		many_path(path, i);
		if (world_open(lodic, path, &open))
			world_close(&open);
	}
}

/* In one moment: no other program runs meanwhile. */
static void crowd_removes(void)
{
	char path[16];

	machine.running->preempt_off++;
	for (u32 i = 0; i < MANY_FILES; i++) {
		many_path(path, i);
		program_remove(path);
	}
	machine.running->preempt_off--;
}

static void crowd_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct lodic *lodic;

	(void)arg;
	if (world_attach(&lodic) == 0) {
		crowd_opens(lodic);
		crowd_removes();
		port_sleep(machine_draw(4) * NS_PER_S / 2);
		lodic_detach(lodic);
	}
	settle_given_back_but(&before, *world_closed());
}

/* ---- many ranges ---- */

static struct lodic_file *turns_open(struct lodic *lodic, const char *path)
{
	struct lodic_file *file;
	int fd = port_open(path), err;

	if (fd < 0)
		return NULL;
	++*world_closed();
	err = lodic_open(lodic, fd, &file);
	port_close(fd);
	return err ? NULL : file;
}

static void holds_wait(struct lodic_hold *hold)
{
	u64 until = machine.now_ns + WAIT_NS;

	while (lodic_hold_ready(hold) == 0 && machine.now_ns < until)
		port_sleep(10000000);
}

/* Holds all of a file, and gives it back. The others begin then. */
static void big_holds(struct lodic *lodic)
{
	struct lodic_file *file = turns_open(lodic, huge);
	struct lodic_hold *hold;

	if (!file)
		return;
	++*world_closed();
	if (lodic_hold(lodic, file, 0, 0, 0, &hold) == 0) {
		holds_wait(hold);
		lodic_release(hold);
	}
	lodic_close(file);
}

static void turns_tell(bool *what)
{
	*what = true;
	waiters_wake(&turns.waiters);
}

static void big_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct lodic *lodic;

	(void)arg;
	if (world_attach(&lodic) == 0) {
		big_holds(lodic);
		turns_tell(&turns.begun);
		lodic_detach(lodic);
	}
	turns_tell(&turns.begun);
	settle_given_back_but(&before, *world_closed());
}

static void ranger_holds(struct lodic *lodic, u32 which)
{
	struct lodic_file *file = turns_open(lodic, ranges);
	struct lodic_hold *hold[RANGES_EACH];
	u32 nr = 0;

	if (!file)
		return;
	while (!turns.begun)
		task_wait(&turns.waiters, machine.now_ns + WAIT_NS);
	for (u32 i = 0; i < RANGES_EACH; i++) {
		off_t offset = (off_t)((which * RANGES_EACH + i) % turns.huge_mib) << 20;

		++*world_closed();
		nr += lodic_hold(lodic, file, offset, (u64)1 << 20, 0, &hold[nr]) == 0;
	}
	for (u32 i = 0; i < nr; i++) {
		holds_wait(hold[i]);
		lodic_release(hold[i]);
	}
	lodic_close(file);
}

static void ranger_run(void *arg)
{
	world_works(ranger_holds, arg);
}

static void turns_start(const char *name, void (*run)(void *arg), u32 arg)
{
	settle_expect(process_start(name, WORLD_USER, run, (void *)(uintptr_t)arg));
}

static void turns_start_holds(u32 rangers, u32 huge_mib, u32 hold_mib)
{
	turns.huge_mib = huge_mib;
	turns.hold_mib = hold_mib;
	program_make_file(huge, WORLD_USER, 0644, (u64)huge_mib << 20);
	program_make_file(ranges, WORLD_USER, 0644, (u64)huge_mib << 20);
	turns_start("big", big_run, 0);
	for (u32 i = 0; i < rangers; i++)
		turns_start("ranger", ranger_run, i);
}

void scenario_turns(void)
{
	bool holds;
	char path[16];

	memset(&turns, 0, sizeof(turns));
	turns.hold_mib = HOLD_MIB;
	world.adjust = turns_adjust;
	waits_turn_most(CALL_WATCH_REMOVE, GO_PER_TURN + OTHERS);
	waits_turn_most(CALL_MEMORY_FILE, BEGINS_MOST + OTHERS);
	for (u32 i = 0; i < MANY_FILES; i++) {
		many_path(path, i);
		world_make(path, MANY_BYTES);
	}
	if (machine_draw(2))
		world_no_faults();
	if (machine_draw(3) > 0)
		turns_start("crowd", crowd_run, 0);
	holds = machine_draw(2);
	if (holds)
		turns_start_holds(RANGERS, HUGE_MIB, HOLD_MIB);
	for (u32 i = machine_draw(3); i > 0; i--)
		world_reader(50 + machine_draw(100));
	if (!holds && machine_draw(8) == 0)
		turns_start_holds(ALL_RANGERS, ALL_MIB, ALL_MIB);
}
