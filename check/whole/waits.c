/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See waits.h. */
#include "check/whole/waits.h"

#include "host/whole/files.h"

/* As WAITS in tools/tidy_waits.py says. What names its own socket and lock has been there since the
 * start. A successor's files are local, but for 9p's. Which files it may shut, see below. */
static bool waits_turn_may(enum call call)
{
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
	return !((const struct fd_file *)d)->inode->far || (d->mode & PORT_NAMES_ONLY);
}

static bool waits_read_may(enum call call)
{
	return call_marks[call] == CALL_MARK_NONE || call == CALL_READ;
}

void waits_turns_begin(void)
{
	machine.running->may_call = waits_turn_may;
	machine.running->may_close = waits_turn_may_close;
}

void waits_turns_end(void)
{
	machine.running->may_call = NULL;
	machine.running->may_close = NULL;
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
