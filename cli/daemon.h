/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How `lodic serve` leaves the program or the terminal that started it. A service outlives
 * both. What it kept of them would outlive them, too: an open pipe, a lock, a folder that
 * cannot be unmounted, one CPU of many.
 */
#ifndef LODIC_CLI_DAEMON_H
#define LODIC_CLI_DAEMON_H

#include <stdbool.h>

/* Closes all descriptors but the first three and fd, and returns fd's new number. It goes to
 * / and into a session of its own, and gives signals and umask their usual state. */
int daemon_leave(int fd);

/* From now on nothing is read, and what is printed is lost. With keep_log, stdout and stderr
 * stay where they are regular files. With journal, stderr stays in any case. */
void daemon_silence(bool keep_log, bool journal);

/* Gives up what the starting program has chosen for itself, as far as this process may:
 * CPUs, priority, policy of memory, soft limits. */
void daemon_forget_choices(void);

#endif
