/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the program does to its files, for `lodic run --record`: run_record.c. Each keeps errno. */
#ifndef LODIC_PRELOAD_RUN_RECORD_H
#define LODIC_PRELOAD_RUN_RECORD_H

#include "preload/run_state.h"

/* fd was opened; those from first to last go. */
void run_opened(int fd);
void run_closes(unsigned int first, unsigned int last);
/* A read begins. */
void run_record_reads(void);
/* It has read bytes at offset (-1: where the descriptor stood). Within calls_begin(). */
void run_record_read(int fd, uint64_t bytes, int64_t offset);
/* Only a constructor may call the first; the last one needs the lock. */
void run_record_start(void);
void run_record_forked(void);
void run_record_end(bool stderr_closing);

#endif
