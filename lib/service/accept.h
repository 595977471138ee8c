/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef LODIC_LIB_SERVICE_ACCEPT_H
#define LODIC_LIB_SERVICE_ACCEPT_H

#include "lib/service/state.h"

/* Makes a client of each program that waits for a connection. One that may not look at the service
 * is hung up on. */
void accept_clients(struct service *s);

#endif
