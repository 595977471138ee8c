/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A cache of another size takes over (ADR-0023). Only the main thread calls these.
 *
 * An arena is sealed and cannot change its size. So the service makes another one beside it,
 * takes along what is worth keeping, and marks the old one dead. Readers then do what they do
 * when a service dies: they go to the kernel and attach again, by the same socket. What they
 * have pinned stays readable in the old memory, which the kernel keeps for them.
 */
/* It calls three files that call it. For when to resize, the other half is budget.h, and
 * the other half is pressure.h. For how another service comes to be, the other half is make.h. */
#ifndef LODIC_LIB_SERVICE_SUCCESSION_RESIZE_H
#define LODIC_LIB_SERVICE_SUCCESSION_RESIZE_H

#include "lib/look.h"
#include "lib/service/base/base.h"

struct service;

/* Begins to give the arena another size; change.resized says how that goes on. asked: what somebody
 * wants the budget to be for good, or the arena where there is no budget; 0: nobody has asked.
 * -EBUSY: a resize is under way. -EINVAL: no cache has that size. -ENOMEM: there is no memory. */
int resize_begin(struct service *s, u64 cache_bytes, u64 asked);
/* What somebody has asked for. The errors are the same. */
int resize_ask(struct service *s, u64 bytes);
bool resize_is_under_way(const struct service *s);
/* What is, or was the last one. Its number is 0: there was none. */
const struct look_resize *resize_last(const struct service *s);
/* Bytes of the arena, or of the larger one while there are two. */
u64 resize_larger(const struct service *s);
/* WIRE_RESIZE. block_bytes: see budget_ask(). */
int resize_request(struct service *s, u64 cache_bytes, u64 block_bytes,
                   struct look_resize *ret);

/* A drop has let go what stands under the slots from ... to: it must not come along. */
void resize_drop(struct service *s, u64 from, u64 to, u64 dev, u64 ino);
/* A user has moved a file: so it shall be after the resize. */
void resize_move(struct service *s, u64 to, u64 dev, u64 ino);
/* One turn's work. true: there is more to do at once. */
bool resize_run(struct service *s);
/* Must fills wait? At the end they do, so that nothing is left behind. */
bool resize_stops_fills(const struct service *s);
/* The main loop calls it now and then. */
void resize_tick(struct service *s);
/* The service whose turn comes next: s, or the one that takes over now. */
struct service *resize_next(struct service *s);
/* The workers end: the other service has them no more. */
void resize_stop(struct service *s);
/* The service ends. Its workers and its lease thread have. */
void resize_fini(struct service *s);

#endif
