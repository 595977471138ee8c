/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See waits.h. */
#include "check/whole/waits.h"

#include "host/whole/machine.h"

/* What names its own socket and lock has been there since the start. A successor's files are
 * local, but for 9p's. All files of this machine are local: a turn may close them. */
static bool waits_turn_may(enum call call)
{
	return call_marks[call] != CALL_MARK_HANGS || call == CALL_REMOVE ||
	       call == CALL_REOPEN_NAME || call == CALL_SHUT;
}

static bool waits_read_may(enum call call)
{
	return call_marks[call] == CALL_MARK_NONE || call == CALL_READ;
}

void waits_turns_begin(void)
{
	machine.running->may_call = waits_turn_may;
}

void waits_read_begin(void)
{
	machine.running->may_call = waits_read_may;
}

void waits_read_end(void)
{
	machine.running->may_call = NULL;
}
