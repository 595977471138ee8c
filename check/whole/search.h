/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A search: many schedules in several processes, and what they have found. */
#ifndef LODIC_CHECK_WHOLE_SEARCH_H
#define LODIC_CHECK_WHOLE_SEARCH_H

#include "check/whole/options.h"

/* What a process of the search has done; or all of them together. */
struct tally {
	u64 seed; /* that runs now, or the first that failed */
	bool failed;
	char scenario[24], what[200];
	u64 nr_schedules, nr_steps, nr_reads, nr_pins, nr_services;
	u64 nr_lives; /* services that somebody attached to, that filled, evicted and ended */
	u64 hash;     /* of all traces, in any order */
	u64 nr_faults[NR_FAULTS];
	u64 nr_called[NR_CALLS];
	u64 nr_failed_by[NR_CALLS][CALL_MOST_ERRNOS];
	u64 nr_messages[MESSAGE_MOST_KINDS][NR_MESSAGE_FATES];
};

/* Called for single schedules, in their process; NULL: nobody asks. wants(): does it run? */
struct search_watch {
	bool (*wants)(u64 seed);
	void (*ran)(u64 seed);
};
extern struct search_watch search_watch;

/* Runs the schedules. Of those that fail the first one is told, whichever process ran it. false:
 * the search was stopped before its end. */
bool search_run(const struct options *o, struct tally *ret_all);

/* report.c. To stdout, as the options say. */
void report_tally(const struct options *o, const struct tally *all, bool is_whole);

/* coverage.c. How many calls, and errors of calls, had no turn and have no reason for it. Calls
 * that were made in spite of a reason count as well. */
u32 coverage_print(const struct tally *all, FILE *to);

/* messages.c. Before the search: messages are counted. */
void messages_begin(void);
/* As coverage_print(): what has befallen no message of its kind, and has no reason. */
u32 messages_print(const struct tally *all, FILE *to);

#endif
