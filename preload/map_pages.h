/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A mapping's pages: map_pages.c. Under the lock. */
#ifndef LODIC_PRELOAD_MAP_PAGES_H
#define LODIC_PRELOAD_MAP_PAGES_H

#include "preload/map_state.h"

/* Has the shim asked for [offset, offset + n), or need it not? Without the lock: a hint. */
bool map_pages_ready(const struct map_file *f, u64 offset, u64 n);
/* Maps the file behind fd. false: *ret_skip says why not. */
bool map_pages_map(struct map_file *f, int fd, enum map_skip *ret_skip);
/* Asks the kernel for the ptes of what was just read. */
void map_pages_ask(struct map_file *f, u64 offset, u64 n);
void map_pages_unmap(struct map_file *f);
/* Forgets that the file was read: it has to show anew that it is read again and again. */
void map_pages_prove(struct map_file *f);
void map_pages_unmap_all(void);

#endif
