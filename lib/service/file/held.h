/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What other rooms may know of a file that the service holds. Its struct is in state.h. Only the
 * main thread calls these. */
#ifndef LODIC_LIB_SERVICE_FILE_HELD_H
#define LODIC_LIB_SERVICE_FILE_HELD_H

#include "core/block.h"
#include "host/host.h"

struct files;
struct held_file;
struct look_file;
struct tier_file;

/* What was found when the file was admitted. It stays so until the file goes. */
struct file_facts {
	u32 id;
	bool local; /* its file system asks nobody else */
	u64 dev, ino, size;
};

/* How readers go through a file (fill_hints.c). All are blocks. */
struct file_order {
	u64 run;   /* so many were missed in order, or served between two misses */
	u64 at;    /* where the last one ended */
	u64 ahead; /* up to here they are being read, or were */
};

/* The file that is held under slot; NULL: none is. */
struct held_file *held_at(const struct files *s, u32 slot);
struct file_facts held_facts(const struct held_file *f);
/* Its blocks have this id in their names. */
u32 held_id(const struct held_file *f);
/* In bytes, and in blocks. */
u64 held_size(const struct held_file *f);
u64 held_nr_blocks(const struct held_file *f);
/* Does its file system ask nobody else? */
bool held_is_local(const struct held_file *f);
/* Frames that hold its blocks. */
u32 held_nr_frames(const struct held_file *f);
/* The description that carries the lease. It stays open while the file is held, or a read of it is
 * under way. */
int held_fd(const struct held_file *f);
/* Where its blocks belong. */
const struct tier_file *held_where(const struct held_file *f);
/* A user has said where its blocks go: tier is an enum tier. */
void held_set_tier(struct held_file *f, u32 tier);
/* The frames' room writes it. A file that is admitted has none: all is 0. */
struct file_order *held_order(struct held_file *f);
/* What a look is told of a held file, but for its path, its holds and ret->bytes. */
void held_look(const struct files *s, const struct held_file *f, struct look_file *ret);

#endif
