/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A service that is told its settings by files, as `lodic serve' is. It reads them at its start
 * and at SIGHUP, and also what the last service has left beside the socket.
 */
#ifndef LODIC_CHECK_WHOLE_CONFIG_H
#define LODIC_CHECK_WHOLE_CONFIG_H

#include "check/whole/world.h"

/* Each service of this run is told so. Before anybody runs. wanted() hears each size that one
 * takes from the files; NULL: nobody does. idle_exit_ms: of those that no program has started. */
void config_begin(void (*wanted)(u64 bytes), u64 idle_exit_ms);

#endif
