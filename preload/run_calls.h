/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Which threads of the program are in the shim (U19), and the lock. */
#ifndef LODIC_PRELOAD_RUN_CALLS_H
#define LODIC_PRELOAD_RUN_CALLS_H

#include "preload/run_state.h"

/* The thread makes system calls of the shim's until it says calls_end(). false: it must not. */
bool calls_begin(struct run_state *s);
void calls_end(struct run_state *s);
/* The lock, while the shim is at work. */
bool run_lock(struct run_state *s, struct fds_hold *hold, bool wait);
void run_unlock(struct run_state *s, const struct fds_hold *hold);

#endif
