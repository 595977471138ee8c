/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The files that the service holds, and which frames hold their blocks. */
#ifndef LODIC_LIB_SERVICE_FILE_FILES_H
#define LODIC_LIB_SERVICE_FILE_FILES_H

#include "host/host.h"
#include "lib/look.h"

struct passed_file;

struct held_file;

struct files;
struct lodic_stat;

int files_init(struct files *s);
void files_fini(struct files *s);
/* Admits the file that a worker has looked at, or finds it among those held. The file in
 * ret_slot then has one more open, by a program on that CPU. It takes or closes p's descriptor.
 * The errors are those of lodic_file_cached() and lodic_open(). -ENFILE: all slots are in use, or
 * nearly all descriptors; a file that no client has open makes room. */
int files_open(struct files *s, struct passed_file *p, u64 cpu, u32 *ret_slot);
/* Undoes nr such opens, if the slot still holds the file with this id. */
void files_close(struct files *s, u32 slot, u32 id, u32 nr);
/* The slot, whatever it holds; held_at() is for those that want a held file. */
struct held_file *files_at(const struct files *s, u32 slot);
u32 files_slot(const struct files *s, const struct held_file *f);
/* The held file with this id; NULL when it has gone. */
struct held_file *files_find(struct files *s, u32 id);
/* The held file with these numbers; NULL: there is none. */
struct held_file *files_find_held(struct files *s, u64 dev, u64 ino);
/* Does the service hold the file, and vouch for it now? */
bool files_is_live(const struct files *s, const struct held_file *f);
/* Lets go the files held under slots from, from + 1, ... that are (dev, ino), or all of them
 * if ino is LOOK_ALL; a bounded number of them in one call. Returns the slot to go on with, or
 * LOOK_END. A program that has such a file open gets it again when it next reads. The caller adds
 * to busy what is on its way out (evict_is_busy()). */
u64 files_drop(struct files *s, u64 from, u64 dev, u64 ino,
               struct look_dropped *ret_dropped);
/* The held file (dev, ino) stays, also for longer than keeping.keep_ms. Only a writer, a drop, or
 * another file that needs its slot makes it go. -ENOENT: there is none. */
int files_keep(struct files *s, u64 dev, u64 ino);
/* Lets the file held under slot go. */
void files_let_go(struct files *s, u32 slot);
/* Descriptors have run out: lets go some files that no client has open, if there are any. */
void files_spare_descriptors(struct files *s);
/* A read of the file begins, or has come back. */
void files_fill_begun(struct held_file *f);
void files_fill_ended(struct files *s, struct held_file *f);
/* The frame now holds a block of the file in slot; or is about to hold its block no
 * more. */
void files_link_frame(struct files *s, u32 slot, u32 frame);
void files_unlink_frame(struct files *s, u32 frame, u64 block);
/* A block of f has moved to frame `to`, at the same place of the list. */
void files_move_frame(struct files *s, struct held_file *f, u32 frame, u32 to);
/* The frame of the file that was looked at longest ago; it goes to the end of the list.
 * FRAME_NONE: the file has none. */
u32 files_next_frame(struct files *s, u32 slot);
/* From now on the file is read without O_DIRECT. */
void files_not_direct(struct files *s, struct held_file *f);
/* Readers came by a frame that holds block, so many times. Returns the CPU for which that counts:
 * there a program has opened the file last. */
u32 files_hit(struct files *s, u64 block, u32 visits);
/* Retires the files that the lease thread has revoked. */
void files_hear(struct files *s);
/* The orphan that was looked at longest ago, if this pass has not come to its end; it goes to
 * the end of the list. FRAME_NONE: there is none. */
u32 files_next_orphan(struct files *s);
/* Is there an orphan to look at in this pass? */
bool files_any_orphan(const struct files *s);
/* How many blocks of held files are not cached. */
u64 files_nr_uncached(const struct files *s);
void files_stat(const struct files *s, struct lodic_stat *stat);
/* Is there anything that files_tick() must look at? */
bool files_any(const struct files *s);
/* Is a file held that a user has loaded? */
bool files_any_kept(const struct files *s);
/* Takes over what old knows of files that are not held. */
void files_take_over(struct files *s, struct files *old);
/* The sweep of visits has come round. */
void files_swept(struct files *s);
/* The main loop calls it now and then: it looks after pinned orphans and warm files. */
void files_tick(struct files *s);

#endif
