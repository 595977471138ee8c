/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the process has, whatever arena it serves: options, workers, the socket and the events of
 * the main loop. A resize hands most of it on (succession/pass.h).
 */
#ifndef LODIC_LIB_SERVICE_BASE_STATE_H
#define LODIC_LIB_SERVICE_BASE_STATE_H

#include "lib/service/base/base.h"
#include "lib/service/service.h"
#include "lodic/lodic.h"
#include "lib/service/base/source.h"

struct base {
	const struct service_place *place;
	const struct service_sharing *sharing;
	const struct service_events *events;
	struct workers *workers; /* the service that is being made has them, too */
	void *owners[NR_WORKER_OWNERS]; /* who hears of jobs */
	u64 started_ns;
	bool stopping;
	bool replaced; /* another one has taken over, and this one ends beside it */
	/* What is counted as it happens, under its public name; client/stat.c adds the rest. */
	struct lodic_stat stat;

	/* The socket. */
	char lock_path[PORT_SOCKET_PATH_BYTES + 8];
	char socket_path[PORT_SOCKET_PATH_BYTES];
	int lock;
	int listening;
	int unheard; /* it was that, until the end began */
	bool lent; /* the listening socket: its path is another's, who removes it */
	bool succeeded; /* another process has taken over: lock and path stay as they are */

	/* The main loop's. */
	int epoll, wake;
	struct source sources[NR_SOURCES];
};

#endif
