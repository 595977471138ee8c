/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* mmap() of a cached file: run_map.c. */
#ifndef LODIC_PRELOAD_RUN_MAP_H
#define LODIC_PRELOAD_RUN_MAP_H

#include "preload/run_state.h"

/* Is mmap() served? */
bool run_maps(void);
/* Maps the file's hold, or says why the kernel must map the file. Keeps errno. *ret_at is set for
 * RUN_SERVED. */
enum run_why run_map(struct run_mapping *m, void **ret_at);
/* What the user wants. Only a constructor may call it. */
void run_map_start(void);

#endif
