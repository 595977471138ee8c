/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the world knows of its files: world.c and writers.c have it. */
#ifndef LODIC_CHECK_WHOLE_WORLD_FILES_H
#define LODIC_CHECK_WHOLE_WORLD_FILES_H

#include "check/whole/world.h"

struct world_file {
	char path[32];
	struct inode *inode; /* kept */
	u64 begun, complete; /* versions */
	u64 cuts;            /* how often its length has changed */
	u64 cut_version;     /* begun when it was last cut, or was about to be */
	u64 sure_ns;         /* from when on a read sees its length; NS_NEVER: nobody knows */
};
extern struct world_file world_files[WORLD_MOST_FILES];
extern u32 world_nr;

/* The words of that version of a file, from an offset on. */
void world_fill(u32 file, u64 version, u64 offset, u64 *words, u32 nr);
/* It is about to be cut: nobody knows when a read sees its length. */
void world_cuts(u32 number);
/* A new file at path, of version 1. */
void world_make(const char *path, u64 bytes);

#endif
