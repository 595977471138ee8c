/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Steps towards a file's being cached, and the one read that waits: run_await.c. */
#ifndef LODIC_PRELOAD_RUN_AWAIT_H
#define LODIC_PRELOAD_RUN_AWAIT_H

#include "preload/run_state.h"

/* A read was not served, because the file is not cached. Within calls_begin(). */
enum run_why run_step(struct run_state *s, struct run_reader *r, int fd, u64 slot,
                      const struct run_missed *m);
/* Such a read waits, perhaps (U14). */
void run_await(struct run_state *s, struct run_reader *r, int fd, u64 slot,
               const struct run_missed *m);

#endif
