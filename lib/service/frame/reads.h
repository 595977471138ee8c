/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Reads of files' blocks, for which the main thread does not wait. */
#ifndef LODIC_LIB_SERVICE_FRAME_READS_H
#define LODIC_LIB_SERVICE_FRAME_READS_H

#include "lib/service/base/base.h"

struct fill_op;
struct frames;

/* How often the service tries a read again that its file system has interrupted. The threads that
 * read take no signals, so that the file system says EINTR or EAGAIN of its own will, and perhaps
 * each time. Our choice. */
#define READ_TRIES 16u

/* ended: a read of op has come back with so many bytes, or -errno. */
int reads_init(struct frames *s,
               void (*ended)(struct frames *s, struct fill_op *op, int result));
void reads_fini(struct frames *s);
/* Begins to read what op describes. There are at most fill.most_busy ops. Returns how many
 * blocks the main thread will copy for that. */
u32 reads_begin(struct frames *s, struct fill_op *op);
/* Begins those that have waited for a description to read by, and sends all that were begun. Once a
 * turn, after fill_run(). */
void reads_turn(struct frames *s);
/* Begins another time if another way may help: the kernel refused O_DIRECT, or could not do
 * it in the ring. false: there is no other way. */
bool reads_again(struct frames *s, struct fill_op *op, int result);
/* Calls ended() for the reads that have come back in the ring. */
void reads_reap(struct frames *s);
/* Waits until no read is under way in the ring. */
void reads_wait(struct frames *s);

#endif
