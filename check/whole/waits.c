/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See waits.h. */
#include "check/whole/waits.h"

#include <string.h>

#include "host/whole/files.h"

/* What a turn may do at most. The rooms say how much each of them does. 64 programs may come, and
 * 16 may have 16 requests each. There are 128 steps of reads, and 256 idle files. Ten calls each.
 */
#define TURN_CALLS 10000u

static struct turn {
	u32 nr;
	u16 nr_of[NR_CALLS];
} turns[MACHINE_MOST_PROCESSES + 1];
static u32 turn_most[NR_CALLS]; /* 0: any number */

/* port_set_wait() ends a turn. */
static void waits_turn_count(enum call call)
{
	struct turn *t = &turns[process_now()->number];

	if (call == CALL_SET_WAIT) {
		memset(t, 0, sizeof(*t));
		return;
	}
	if (++t->nr > TURN_CALLS)
		machine_fail("a turn of %s makes more than %u calls", process_now()->name,
		             TURN_CALLS);
	if (turn_most[call] > 0 && ++t->nr_of[call] > turn_most[call])
		machine_fail("a turn of %s makes %s more than %u times", process_now()->name,
		             call_names[call], turn_most[call]);
}

void waits_begin(void)
{
	memset(turn_most, 0, sizeof(turn_most));
}

void waits_turn_most(enum call call, u32 most)
{
	turn_most[call] = most;
}

/* As WAITS in tools/tidy_waits.py says. What names its own socket and lock has been there since the
 * start. A successor's files are local, but for 9p's. Which files it may shut, see below. */
static bool waits_turn_may(enum call call)
{
	waits_turn_count(call);
	switch (call) {
	case CALL_SET_WAIT:
	case CALL_LOCK_TAKE:
	case CALL_REMOVE:
	case CALL_REOPEN_NAME:
	case CALL_SHUT: return true;
	default: return call_marks[call] == CALL_MARK_NONE;
	}
}

/* A close of a local file asks nobody. What was sent goes to a worker, unless a fault kept it from
 * being received. */
static bool waits_turn_may_close(const struct description *d, bool unread)
{
	if (!fd_file_is(d))
		return true;
	if (unread)
		return d->nr > 1 || machine.nr_failed[CALL_RECEIVE] > 0 ||
		       machine.nr_failed[CALL_STOP_RECEIVING] > 0 ||
		       machine.nr_failed[CALL_ACCEPT] > 0;
	return !inode_is_far(((const struct fd_file *)d)->inode) || (d->mode & PORT_NAMES_ONLY);
}

/* At the end a worker closes it, or the kernel does so with the process. */
static bool waits_end_may_close(const struct description *d, bool unread)
{
	return unread || !fd_file_is(d) || (d->mode & PORT_NAMES_ONLY) ||
	       !inode_is_far(((const struct fd_file *)d)->inode);
}

static bool waits_read_may(enum call call)
{
	return call_marks[call] == CALL_MARK_NONE || call == CALL_READ;
}

void waits_turns_begin(void)
{
	memset(&turns[process_now()->number], 0, sizeof(turns[0]));
	machine.running->may_call = waits_turn_may;
	machine.running->may_close = waits_turn_may_close;
}

void waits_turns_end(void)
{
	machine.running->may_call = NULL;
	machine.running->may_close = waits_end_may_close;
}

void waits_read_begin(void)
{
	machine.running->may_call = waits_read_may;
}

void waits_read_end(void)
{
	machine.running->may_call = NULL;
}

static bool waits_guest_may(enum call call)
{
	return call_marks[call] == CALL_MARK_NONE || call == CALL_LOOK || call == CALL_SLEEP ||
	       call == CALL_LOCK_TAKE;
}

void waits_guest_begin(void)
{
	machine.running->may_call = waits_guest_may;
	machine.running->waits_for_no_lock = true;
}

void waits_guest_end(void)
{
	machine.running->waits_for_no_lock = false;
	machine.running->may_call = NULL;
}
