/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What an event is of. A client's sources lie inside the client. */
#ifndef LODIC_LIB_SERVICE_BASE_SOURCE_H
#define LODIC_LIB_SERVICE_BASE_SOURCE_H

#include "lib/service/base/base.h"

struct client;

struct source {
	u32 kind;
	struct client *client;
};

#endif
