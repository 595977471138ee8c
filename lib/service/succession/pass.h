/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What passes from a service to the one that takes its place, in the same process. */
#ifndef LODIC_LIB_SERVICE_SUCCESSION_PASS_H
#define LODIC_LIB_SERVICE_SUCCESSION_PASS_H

#include "lib/service/base/base.h"

struct service;

/* s's main loop hears of owner's signals and workers from now on. */
int pass_watch(struct service *s, const struct service *owner);
/* What may fail. -errno: nothing has changed. 0: it may be followed by pass_all(). */
int pass_prepare(const struct service *old, struct service *s);
/* Gives s all that the process has once: lock, socket, workers, connections, numbers. old's arena
 * is marked dead before. Afterwards old hears of nothing. service_shut() may end it on any thread,
 * once its reads are over and old->base.workers is NULL. */
void pass_all(struct service *old, struct service *s);

#endif
