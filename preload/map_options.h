/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What `lodic map` says: map_options.c. */
#ifndef LODIC_PRELOAD_MAP_OPTIONS_H
#define LODIC_PRELOAD_MAP_OPTIONS_H

#include "preload/map_state.h"

/* Reads the environment. false: this is no run under `lodic map`. */
bool map_options_read(void);
/* Does the descriptor's path match what was asked for? Under the lock. */
bool map_options_want(int fd);
/* The descriptor's path, in a place of its own under the lock; "": it is not known. */
const char *map_path(int fd);

#endif
