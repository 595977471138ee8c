/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What was served, and what not: run_report.c. Under the lock, but for the first two. */
#ifndef LODIC_PRELOAD_RUN_REPORT_H
#define LODIC_PRELOAD_RUN_REPORT_H

#include "preload/run_state.h"

bool run_report_start(void);
void run_report_note(struct run_noted *noted);
/* A mapping of that file has other memory now. */
void run_note_moved(const struct run_noted *moved);
void run_report_end(bool stderr_closing);
/* The program may not be able to open the report's file later. */
void run_report_keep(void);
void run_report_forked(void);
/* For `lodic doctor`: the process is about to become this user, or has changed its user. Only one
 * thread at a time may say so. */
void run_report_becomes(u32 user);
void run_report_left(void);
/* The same: the process has what no count shows (run_seen.h). */
void run_report_mark(uint64_t mark);
/* It says at once that the shim leaves this process alone. Only a constructor may call it. */
void run_report_left_alone(const char *why);

#endif
