/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A service's life in pieces. service_run() puts them together, and so does trial.c. */
#ifndef LODIC_LIB_SERVICE_BASE_RUN_H
#define LODIC_LIB_SERVICE_BASE_RUN_H

#include "lib/service/base/state.h"

/* Clients can connect when it returns 0. The errors, and ret_why, are those of service_run(). */
int service_open(const struct service_options *options, struct service **ret_service,
                 const char **ret_why);
/* One turn of the main loop. It waits for something to do, for TICK_ALONE_MS at most while
 * files are held. */
void service_turn(struct service *s);
/* For resize.c, which makes a service beside one that runs.
 * service_make() describes a service like another one, but for its cache's size. It takes no
 * time. The errors are those of service_run(), and service_shut() frees it.
 * service_fill_arena() makes all that belongs to its arena, and nothing that the process has
 * once. It may take seconds, and any thread may call it.
 * service_watch_process() has s's main loop hear of owner's signals and workers. */
int service_make(const struct service *like, u64 cache_bytes,
                 struct service **ret_service, const char **ret_why);
int service_fill_arena(struct service *s, const char **ret_why);
int service_watch_process(struct service *s, const struct service *owner);
/* Ends the service and frees it. */
void service_shut(struct service *s);

#endif
