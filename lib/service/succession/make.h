/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How a service comes to be, and ends: the first one, and one that a resize makes beside it. */
/* The two call each other: the other half is resize.h. */
#ifndef LODIC_LIB_SERVICE_SUCCESSION_MAKE_H
#define LODIC_LIB_SERVICE_SUCCESSION_MAKE_H

#include "lib/service/service.h"

struct service;

/* The arena's shape from the options. -EINVAL: there is none; *ret_why says why. */
int service_shape(struct service *s, const char **ret_why);
/* Describes a service like another one, but for its cache's size. It takes no time. The errors are
 * those of service_run(), and service_shut() frees it. */
int service_make(const struct service *like, u64 cache_bytes,
                 struct service **ret_service, const char **ret_why);
/* Makes all that belongs to its arena, and nothing that the process has once. It may take seconds,
 * and any thread may call it. */
int service_fill_arena(struct service *s, const char **ret_why);
/* Ends the service and frees it: also one that was begun half-way. */
void service_shut(struct service *s);

#endif
