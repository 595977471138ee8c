/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * struct service: all rooms together. A resize makes another one. Part of what a room has is the
 * process's, and goes over to it (succession/pass.c). The rest belongs to one arena, and ends with
 * that.
 *
 * Threads. All of it belongs to the main thread. Workers have their jobs, and read the options.
 * struct lease_thread belongs to the main thread and the lease thread (file/README.md).
 */
#ifndef LODIC_LIB_SERVICE_SUCCESSION_WHOLE_H
#define LODIC_LIB_SERVICE_SUCCESSION_WHOLE_H

#include "lib/service/base/state.h"
#include "lib/service/client/state.h"
#include "lib/service/file/state.h"
#include "lib/service/frame/state.h"
#include "lib/service/hold/state.h"
#include "lib/service/succession/budget.h"
#include "lib/service/succession/pressure.h"
#include "lib/service/succession/reread.h"
#include "lib/service/memory/state.h"
#include "lib/service/succession/state.h"
#include "lib/service/tier/state.h"

struct service {
	struct service_options options; /* but for cache_bytes, which is this arena's */
	struct base base;
	struct memory memory;
	struct tiers tiers;
	struct files files;
	struct frames frames;
	struct holding holding;
	struct clients clients;
	struct change change;
	struct pressure pressure;
	struct budget budget;
	struct reread reread;
	int signals;
	u64 next_tick_ns;
};

#endif
