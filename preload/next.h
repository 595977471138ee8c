/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The next function of a name: libc's, or another shim's. The program's calls come by the shim's
 * function of that name first (hooks.h).
 */
#ifndef LODIC_PRELOAD_NEXT_H
#define LODIC_PRELOAD_NEXT_H

#include "host/host.h"
#include "preload/next_names.h"
#include "preload/shim.h"

u64 next_find(enum next which);

/* The next function, as a number. Any thread may ask, before any constructor has run, too. */
static inline u64 next_of(enum next which)
{
	u64 found = host_load_relaxed(&shim.next.found[which]);

	return found ? found : next_find(which);
}

#endif
