/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The files that the service holds, and which frames hold their blocks. */
#ifndef LODIC_LIB_SERVICE_FILE_FILES_H
#define LODIC_LIB_SERVICE_FILE_FILES_H

#include "lib/look.h"
#include "lib/service/file/proof.h"

/* Whether a glob or a user says where a file's new blocks go. */
enum tier_sayer { TIER_SAID_BY_NOBODY, TIER_SAID_BY_GLOB, TIER_SAID_BY_USER };

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
	bool direct;      /* reads with O_DIRECT work, as far as we know */
	bool away;        /* on a mount that may go while the service lives */
	bool kept;        /* a user has loaded it: it stays, though no program has it open */
	u32 nr_opens;     /* by clients */
	u32 nr_in_flight; /* reads */
	u32 nr_frames;    /* that hold its blocks */
	u32 nr_fast;      /* of these, in the fast tier */
	u32 tier;         /* enum tier: where its new blocks go, if no policy decides */
	u32 tier_said;    /* enum tier_sayer */
	u32 cpu;          /* on which a program has opened it last */
	bool replicates;  /* its holds have a copy on each node */
	u32 knode;        /* of the policy */
	u32 chain;        /* the next slot in service.chains; shape.nr_files: none */
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

/* A frame's neighbours in the list of its file, or in that of the orphans. An orphan is a
 * frame whose file has gone and that has not been taken back yet. */
struct frame_link {
	u32 older, newer;
};

int files_init(struct service *s);
void files_fini(struct service *s);
/* Admits the file that a worker has looked at, or finds it among those held. The file in
 * ret_slot then has one more open, by a program on that CPU. It takes or closes p's descriptor.
 * The errors are those of lodic_file_cached() and lodic_open(). -ENFILE: all slots are in use, or
 * nearly all descriptors; a file that no client has open makes room. */
int files_open(struct service *s, struct passed_file *p, u64 cpu, u32 *ret_slot);
/* Undoes nr such opens, if the slot still holds the file with this id. */
void files_close(struct service *s, u32 slot, u32 id, u32 nr);
/* The held file with this id; NULL when it has gone. */
struct held_file *files_find(struct service *s, u32 id);
/* The held file with these numbers; NULL: there is none. */
struct held_file *files_find_held(struct service *s, u64 dev, u64 ino);
/* Does the service vouch for the file now? */
bool files_is_live(const struct service *s, const struct held_file *f);
/* Lets go the files held under slots from, from + 1, ... that are (dev, ino), or all of them
 * if ino is LOOK_ALL; a bounded number of them in one call. Returns the slot to go on with, or
 * LOOK_END. A program that has such a file open gets it again when it next reads. */
u64 files_drop(struct service *s, u64 from, u64 dev, u64 ino,
               struct look_dropped *ret_dropped);
/* The held file (dev, ino) stays, also for longer than options.keep_ms. Only a writer, a drop, or
 * another file that needs its slot makes it go. -ENOENT: there is none. */
int files_keep(struct service *s, u64 dev, u64 ino);
/* Lets the file held under slot go. */
void files_let_go(struct service *s, u32 slot);
/* Descriptors have run out: lets go some files that no client has open, if there are any. */
void files_spare_descriptors(struct service *s);
/* A read of the file begins, or has come back. */
void files_fill_begun(struct held_file *f);
void files_fill_ended(struct service *s, struct held_file *f);
/* The frame now holds a block of the file in slot; or is about to hold its block no
 * more. */
void files_link_frame(struct service *s, u32 slot, u32 frame);
void files_unlink_frame(struct service *s, u32 frame, u64 block);
/* A block of f has moved to frame `to`, at the same place of the list. */
void files_move_frame(struct service *s, struct held_file *f, u32 frame, u32 to);
/* The frame of the file that was looked at longest ago; it goes to the end of the list. The file
 * has one at least. */
u32 files_next_frame(struct service *s, u32 slot);
/* From now on the file is read without O_DIRECT. */
void files_not_direct(struct service *s, struct held_file *f);
/* Readers came by a frame that holds block, so many times. */
void files_hit(struct service *s, u64 block, u32 visits);
/* Retires the files that the lease thread has revoked. */
void files_hear(struct service *s);
/* The orphan that was looked at longest ago, if this pass has not come to its end; it goes to
 * the end of the list. FRAME_NONE: there is none. */
u32 files_next_orphan(struct service *s);
/* The main loop calls it now and then: it looks after pinned orphans and warm files. */
void files_tick(struct service *s);

#endif
