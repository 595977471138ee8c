/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A service's life in pieces. service_run() puts them together, and so does trial.c. The end is
 * service_shut() (succession/make.h). */
#ifndef LODIC_LIB_SERVICE_LOOP_RUN_H
#define LODIC_LIB_SERVICE_LOOP_RUN_H

#include "lib/service/base/base.h"

struct service;

/* Clients can connect when it returns 0. The errors, and ret_why, are those of service_run(). */
int service_open(const struct service_options *options, struct service **ret_service,
                 const char **ret_why);
/* One turn of the main loop. It waits for something to do, for TICK_ALONE_MS at most while
 * files are held. */
void service_turn(struct service *s);

#endif
