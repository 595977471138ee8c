/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A restartable sequence (rseq(2)), as glibc has registered it for each thread. It loads,
 * compares and stores a word of this CPU, and the kernel aborts it when the thread was
 * switched out or moved in between. bench_micro measures it against host_percpu_cas() of
 * the posix host. It is only a measurement: no debugger can step through it, and other
 * programs must not rely on it.
 */
#ifndef LODIC_BENCH_RSEQ_H
#define LODIC_BENCH_RSEQ_H

#include "host/host.h"

/* Do this processor, kernel and C library have restartable sequences? */
bool rseq_usable(void);

/* Adds one to this CPU's word. p points to CPU 0's word; the words lie stride_words apart.
 * false: the thread was disturbed, and nothing has changed. rseq_usable() must hold. */
bool rseq_increment(u64 *p, u32 stride_words);

#endif
