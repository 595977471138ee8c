/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The log of `lodic serve`: a line on stderr for each event, as text or as JSON. doc/service.md
 * has the form.
 *
 * A thread of its own writes. So the service never waits for a pipe that nobody reads, a terminal
 * that is stopped, or a disk that does not answer. What finds no room in the queue meanwhile is
 * lost, and counted. The same event comes LOG_BURST times in LOG_PERIOD_NS at
 * most. The log says how many lines are missing as soon as it can.
 */
#ifndef LODIC_CLI_LOG_H
#define LODIC_CLI_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/service/service.h"

#define LOG_QUEUE 128u
#define LOG_BURST 100u
#define LOG_PERIOD_NS UINT64_C(10000000000)

/* Is stderr the journal's (JOURNAL_STREAM)? It must be called before clearenv(). */
bool log_is_journal(void);

/* From now on lines have this form, and those above the level are left out. At first the form is
 * text and the level SERVICE_INFO. Any thread may call it. */
void log_configure(bool json, enum service_level level);

/* Starts the thread. What was said before waits for it. 0 or -errno. */
int log_start(void);

/* Says something, from any thread. It never waits, but for a thread that does the same. event is a
 * constant. */
__attribute__((format(printf, 3, 4))) void
log_say(enum service_level level, const char *event, const char *format, ...);

/* The last line that was said as an error; "": there is none. For the thread that ends the
 * program. */
const char *log_last_error(void);

/* Says where the service listens: as text on stdout, for people and scripts that wait for it. */
__attribute__((format(printf, 1, 2))) void log_ready(const char *format, ...);

/* Waits until all is written that was said, but no longer than 0.2 s. Without a thread it writes
 * by itself. */
void log_flush(void);

#endif
