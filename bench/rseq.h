/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A restartable sequence (rseq(2)), as glibc has registered it for each thread: load,
 * compare, store on a word of this CPU's, which the kernel starts over when the thread was
 * switched out or moved between. It is here to be measured against what the posix host
 * does behind host_percpu_cas(), a getcpu and a locked instruction. Only a measurement:
 * no debugger can step through it, and other programs must not rely on it.
 */
#ifndef LODIC_BENCH_RSEQ_H
#define LODIC_BENCH_RSEQ_H

#include "host/host.h"

/* Is there one on this processor, kernel and C library? */
bool rseq_usable(void);

/* Adds one to this CPU's word; p: one word per CPU, stride_words apart. False: the thread
 * was disturbed, and nothing has changed. Only where it is usable. */
bool rseq_increment(u64 *p, u32 stride_words);

#endif
