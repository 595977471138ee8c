/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The client half of liblodic: how a process is tied to a service. The service may die, and
 * the process may fork; this says what becomes of the ties.
 *
 *   lodic -----> segment        one service's arena, mapped here (attach.h, segment.h)
 *   context ---> seat ------+   a thread's context memory in a segment (context.h, seat.h)
 *   file ------> claim -----+   a file's slot and id in a segment (file.h, claim.h)
 *
 * Segments, seats and claims carry the generation of their service. A read or a pin goes
 * to the cache only when the generations of seat and claim agree. This one comparison
 * also covers "no service", "not cached" and "forked". A seat lies in memory that the
 * kernel wipes in a child (MADV_WIPEONFORK), so its generation is 0 there.
 *
 * Locks. lodic.lock guards which segment is current, the channel to its service, and the
 * making of every seat and claim. A function that may block can hold it for as long as a
 * request takes. So the functions that read, pin or unpin only ever try to take it. The
 * paths that serve from the cache do not look at it.
 *
 * A file includes only files above its line.
 *   client.h
 *   error
 *   retry, mapping, start, channel, misuse, copy
 *   segment
 *   attach, seat, claim
 *   context, stat
 *   file, lent
 *   layout
 *   read, view, hold
 *   pin
 */
#ifndef LODIC_LIB_CLIENT_CLIENT_H
#define LODIC_LIB_CLIENT_CLIENT_H

#include <string.h>

#include "host/host.h"
#include "lodic/lodic.h"

#define EXPORT __attribute__((visibility("default")))

#define GENERATION_NONE ((u64)0)       /* of a seat without a segment */
#define GENERATION_UNCLAIMED (~(u64)0) /* of a claim without one */

/* Hands from, a struct of ours, to a program whose struct has to_bytes: it may have been
 * compiled with an older or a newer lodic.h. What only the program knows becomes 0. */
static inline void client_copy_out(void *to, size_t to_bytes, const void *from,
                                   size_t from_bytes)
{
	memset(to, 0, to_bytes);
	memcpy(to, from, to_bytes < from_bytes ? to_bytes : from_bytes);
}

#endif
