/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Which descriptor is which file: run_files.c. The lock is held, unless it says otherwise. */
#ifndef LODIC_PRELOAD_RUN_FILES_H
#define LODIC_PRELOAD_RUN_FILES_H

#include "preload/run_state.h"

/* Judges what the open descriptor shows. RUN_SERVED: it may be served. Without the lock, too. */
enum run_why run_fits(int fd, struct port_file *ret);
/* Finds out what is behind fd, if nobody knows. Returns its slot. */
u64 run_look(struct run_state *s, int fd);
/* A read of a descriptor whose slot names no file yet. Takes the lock, if that is free. Returns
 * RUN_NOT_CACHED for a file that may be served from now on. */
enum run_why run_look_new(struct run_state *s, int fd, u64 slot);
/* The program is about to lock the open file behind fd: U17. Takes the lock. */
void run_locks(int fd);
/* A slot or a place less names the file. Without the lock, too. A shim that has stepped aside reads
 * no clock here: that is a system call on some machines. */
void run_file_unnamed(struct run_state *s, struct run_file *f);
/* Gives back the files that nobody has had open for a while. false: the service is busy. */
bool files_sweep(struct run_state *s, u64 now);

/* The user whose service this process believes beside its own user's, or LENT_NO_USER. Without the
 * lock, too. */
u32 run_trusted(void);
/* This process's attachment; NULL: there is no memory. */
struct lodic *run_attach(struct run_state *s);
/* A step has been made: is there a service? */
void run_is_alone(struct run_state *s);

#endif
