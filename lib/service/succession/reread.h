/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* SIGHUP: the user has changed the configuration. Only the main thread calls these. */
#ifndef LODIC_LIB_SERVICE_SUCCESSION_REREAD_H
#define LODIC_LIB_SERVICE_SUCCESSION_REREAD_H

#include "lib/service/base/base.h"

struct service;

/* Lets a worker read it. */
void reread_begin(struct service *s);
/* The main loop calls it now and then: a size that has waited for another resize. */
void reread_tick(struct service *s);

#endif
