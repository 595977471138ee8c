/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the service knows of a file that it holds. */
#ifndef LODIC_LIB_SERVICE_FILE_HELD_H
#define LODIC_LIB_SERVICE_FILE_HELD_H

#include "core/block.h"
#include "host/host.h"
#include "lib/service/tier/where.h"

struct direct_opening;

enum file_state { FILE_FREE, FILE_HELD, FILE_RETIRING };

/* How readers go through a file (fill_hints.c). All are blocks. */
struct file_order {
	u64 run;   /* so many were missed in order, or served between two misses */
	u64 at;    /* where the last one ended */
	u64 ahead; /* up to here they are being read, or were */
};

/* What the service knows about file slot i; the readers' part is arena.files[i].
 *
 *          admit            retire                     last read comes back
 *   FREE ---------> HELD ------------> RETIRING or FREE -----------------> FREE
 */
struct held_file {
	u32 state; /* enum file_state */
	u32 proof; /* enum proof */
	u32 id;
	u32 next_id;   /* of the file that comes here next; FILE_NONE: none any more */
	int fd;        /* our own description; carries the lease */
	int direct_fd; /* another one, O_DIRECT, while reads need it; -1: none */
	struct direct_opening *opening; /* of that one; NULL: it is not under way */
	bool local;                     /* its file system asks nobody else */
	bool direct; /* reads with O_DIRECT work, as far as we know */
	bool away;   /* on a mount that may go while the service lives */
	bool kept;   /* a user has loaded it: it stays, though no program has it open */
	u32 nr_opens;     /* by clients */
	u32 nr_in_flight; /* reads */
	u32 nr_frames;    /* that hold its blocks */
	u32 nr_fast;      /* of these, in the fast tier */
	struct tier_file where;
	u32 chain; /* the next slot in files.chains; shape.nr_files: none */
	u64 dev, ino, size;
	u64 idle_since_ns; /* while no client has it open */
	u64 gone_round; /* of the sweep, when it was seen to have no name; 0: it has one */
	u64 gone_hits; /* its hits then */
	u64 gone_since_ns;
	u64 hits; /* visits that were collected for its frames: fewer than reads */
	struct file_order order;
};

static inline u64 files_nr_blocks(const struct held_file *f)
{
	return (f->size + BLOCK_BYTES - 1) >> BLOCK_SHIFT;
}

#endif
