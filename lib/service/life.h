/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A service's life in pieces. service_run() puts them together, and so does trial.c. */
#ifndef LODIC_LIB_SERVICE_LIFE_H
#define LODIC_LIB_SERVICE_LIFE_H

#include "lib/service/state.h"

/* Clients can connect when it returns 0. The errors, and ret_why, are those of service_run(). */
int service_open(const struct service_options *options, struct service **ret_service,
                 const char **ret_why);
/* One turn of the main loop. It waits for something to do, for TICK_ALONE_MS at most while
 * files are held. */
void service_turn(struct service *s);
/* Ends the service and frees it. */
void service_shut(struct service *s);

#endif
