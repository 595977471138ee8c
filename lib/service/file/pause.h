/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Files that somebody has written to lately, and that the service lets alone for a while. Each
 * lease that a writer breaks costs that writer some 100 us, and one that may not wait
 * (O_NONBLOCK) gets EAGAIN. So after a break there is a pause, and the next break within as long
 * after it doubles it, up to PAUSE_MOST times the first. A file that stays quiet for longer
 * begins again with the first.
 *
 * The list is the process's, and survives a resize. A successor in another process begins with an
 * empty one. It is bounded: the file whose pause ends first gives its place to another. It knows
 * files by their numbers, so a new file may get the pause of one that has been deleted.
 */
#ifndef LODIC_LIB_SERVICE_FILE_PAUSE_H
#define LODIC_LIB_SERVICE_FILE_PAUSE_H

#include "lib/service/base/base.h"

struct files;

/* 10 s double to five minutes. Our choice. */
#define PAUSE_MOST 30u
/* How many files it knows. Ours: they cost 32 KiB, and a look at one reads 128 bytes. */
#define PAUSE_FILES 1024u

int pause_init(struct files *s);
void pause_fini(struct files *s);
/* A writer has come to the file, whose lease is gone. */
void pause_begin(struct files *s, u64 dev, u64 ino);
/* For how long the service lets the file alone; 0: it may have a lease. */
u64 pause_left_ns(const struct files *s, u64 dev, u64 ino);

/* The same at a moment that the caller names, with a first pause that is not 0. */
struct pauses *pause_make(void);
void pause_begin_at(struct pauses *p, u64 first_ns, u64 dev, u64 ino, u64 now_ns);
u64 pause_left_at(const struct pauses *p, u64 dev, u64 ino, u64 now_ns);

#endif
