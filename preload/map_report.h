/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What it cost: map_report.c. Under the lock, but for the first two. */
#ifndef LODIC_PRELOAD_MAP_REPORT_H
#define LODIC_PRELOAD_MAP_REPORT_H

#include "preload/map_state.h"

void map_count_read(bool mapped);
bool map_report_wants_tables(void);
/* VmPTE in bytes; 0: not known. */
u64 map_report_tables(void);
void map_report_file(const char *what, int fd, const struct map_file *f);
/* Is it time for the report? on_stderr_only: the program is about to close its stderr, which is not
 * its end. */
bool map_report_is_due(bool on_stderr_only);
void map_report_end(void);

#endif
