/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Child processes that prepare something and then wait to be killed. They die with the
 * process that started them.
 */
#ifndef LODIC_TESTS_WAITER_H
#define LODIC_TESTS_WAITER_H

#include "base.h"

/*
 * Starts a process that calls prepare(arg) once and then waits. prepare() has returned 0
 * when this returns the process; -1: it has not, and the process is gone.
 */
pid_t waiter_start(int (*prepare)(void *arg), void *arg);

/* Starts a process that maps the first bytes of the file with all their entries. */
pid_t waiter_map(int fd, size_t bytes);

void waiter_kill(pid_t pid);

#endif
