/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Which calls of the door were made, and which of their errors were drawn. See search.h. */
#define _GNU_SOURCE
#include <string.h>

#include "check/whole/search.h"

#define NOT_COUNTED "it cannot fail and takes no turn: the machine does not count it"
#define NO_HUGE "the machine has no huge pages, and one node"
#define NO_PATHS "the scenarios name their socket and their program by paths"
#define NO_REPORT "no program with the shim reports, records or is watched"
/* A call that has gone through more often has had each of its errors. */
#define SELDOM 100000u

/* Calls that no schedule makes, with the reason. */
static const struct reason {
	enum call call;
	const char *why;
} reasons[] = {
	{ CALL_CANCEL_AS, NOT_COUNTED },
	{ CALL_CANCEL_OFF, NOT_COUNTED },
	{ CALL_APPEND, NO_REPORT },
	{ CALL_BIRTH, NO_REPORT },
	{ CALL_CANCEL_POINT, NOT_COUNTED },
	{ CALL_CONDITION_END, NOT_COUNTED },
	{ CALL_CONDITION_INIT, NOT_COUNTED },
	{ CALL_CONDITION_WAIT, "counted as port_condition_wait_until()" },
	{ CALL_CREATE_BOTH, NO_REPORT },
	{ CALL_FAULT_IN, NO_REPORT },
	{ CALL_FILE_SYSTEM, "no scenario runs the shim of `lodic map`" },
	{ CALL_FOLDER, "no scenario says a path from the folder that it is in" },
	{ CALL_FREE, NOT_COUNTED },
	{ CALL_GIVE, NO_REPORT },
	{ CALL_IS_FILTERED, NOT_COUNTED },
	{ CALL_IS_PRIVILEGED, NOT_COUNTED },
	{ CALL_IS_READ_ONLY, NO_PATHS },
	{ CALL_LISTENS, "counted as port_socket() and port_connect()" },
	{ CALL_LOCK_END, NOT_COUNTED },
	{ CALL_LOCK_INIT, NOT_COUNTED },
	{ CALL_MAKE_FOLDER, NO_PATHS },
	{ CALL_MAPPED_AT, "no program with the shim maps files" },
	{ CALL_MAY_RUN, NO_PATHS },
	{ CALL_MEMORY_FILE_RESERVED, NO_HUGE },
	{ CALL_NODE_MOVE, NO_HUGE },
	{ CALL_NODE_PREFER, NO_HUGE },
	{ CALL_PAGE_BYTES, NOT_COUNTED },
	{ CALL_OPEN_BOTH, NO_REPORT },
	{ CALL_POSITION, NO_REPORT },
	{ CALL_PUT, NO_REPORT },
	{ CALL_QUIET_DROP, NO_REPORT },
	{ CALL_QUIET_SIGNALS, NO_REPORT },
	{ CALL_REMOVE_FOLDER, NO_REPORT },
	{ CALL_RESIZE, NO_REPORT },
	{ CALL_SEGMENT_BYTES, NO_REPORT },
	{ CALL_SEGMENT_END, NO_REPORT },
	{ CALL_SEGMENT_MAP, NO_REPORT },
	{ CALL_SEGMENT_UNMAP, NO_REPORT },
	{ CALL_VARIABLE_EMPTY, "no program with the shim runs another one" },
	{ CALL_PROGRAM_NAME, NOT_COUNTED },
	{ CALL_PROCESS, NOT_COUNTED },
	{ CALL_READS_EVENT, NOT_COUNTED },
	{ CALL_SEQUENCES, NOT_COUNTED },
	{ CALL_SIGNALS_AS, NOT_COUNTED },
	{ CALL_SIGNALS_BLOCK, NOT_COUNTED },
	{ CALL_SYSTEM_TEXT, "counted as port_system_open()" },
	{ CALL_THREAD_CPU_NS, "of a program that measures a service" },
	{ CALL_THREAD_NUMBER, NOT_COUNTED },
	{ CALL_USER, NOT_COUNTED },
	{ CALL_USER_NAMED, "no scenario names a user" },
	{ CALL_VARIABLE, NOT_COUNTED },
	{ CALL_WORD_GET, NOT_COUNTED },
};

static const char *reason_of(u32 call)
{
	for (u32 i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].call == call)
			return reasons[i].why;
	return NULL;
}

static u32 print_never(const char *name, const char *error, const char *why, FILE *to)
{
	fprintf(to, "%-26s %-16s %10s  %s\n", name, error, "never",
	        why ? why : "AND THERE IS NO REASON");
	return why == NULL;
}

/* How many reasons are wrong. */
static u32 print_made(const struct tally *all, u32 call, FILE *to)
{
	bool has_reason = reason_of(call) != NULL;

	fprintf(to, "%-26s %-16s %10llu%s\n", call_names[call], "",
	        (unsigned long long)all->nr_called[call],
	        has_reason ? "  AND A REASON SAYS NEVER" : "");
	return has_reason;
}

static u32 print_errors(const struct tally *all, u32 call, FILE *to)
{
	u64 nr = all->nr_called[call];
	const char *seldom;
	u32 nr_empty = 0;

	for (int k = 0; k < call_errnos[call].nr; k++)
		nr -= all->nr_failed_by[call][k];
	seldom = nr < SELDOM ? "the call is rare" : NULL;

	for (int k = 0; k < call_errnos[call].nr; k++) {
		const char *error = strerrorname_np(call_errnos[call].errnos[k]);

		if (all->nr_failed_by[call][k] == 0)
			nr_empty += print_never("", error, seldom, to);
		else
			fprintf(to, "%-26s %-16s %10llu\n", "", error,
			        (unsigned long long)all->nr_failed_by[call][k]);
	}
	return nr_empty;
}

u32 coverage_print(const struct tally *all, FILE *to)
{
	u32 nr_wrong = 0;

	for (u32 i = 0; i < NR_CALLS; i++) {
		if (all->nr_called[i] == 0) {
			nr_wrong += print_never(call_names[i], "", reason_of(i), to);
			continue;
		}
		nr_wrong += print_made(all, i, to);
		nr_wrong += print_errors(all, i, to);
	}
	return nr_wrong;
}
