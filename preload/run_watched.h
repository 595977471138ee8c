/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Where the counts of a process lie for `lodic doctor`: run_watched.c. */
#ifndef LODIC_PRELOAD_RUN_WATCHED_H
#define LODIC_PRELOAD_RUN_WATCHED_H

#include <stddef.h>
#include <stdint.h>

#include "preload/run_seen.h"

/* A file for this process's counts in that folder, for port_shut(); -1: there can be none. */
int run_watched_file(const char *folder, size_t bytes);
/* The process is about to end. It notes what the kernel has counted. */
void run_watched_end(struct seen_process *process);
/* Makes it possible for a process of that user. Keeps errno. */
void run_watched_becomes(const char *folder, uint32_t user);

#endif
