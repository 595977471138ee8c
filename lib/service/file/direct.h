/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A second description of a held file, for reads with O_DIRECT. A worker opens it: open() may
 * wait for a program, such as a virus scanner, that looks at each file that is opened.
 */
#ifndef LODIC_LIB_SERVICE_FILE_DIRECT_H
#define LODIC_LIB_SERVICE_FILE_DIRECT_H

#include "host/host.h"

struct held_file;

struct files;

enum direct_state {
	DIRECT_NONE,  /* read by the other description */
	DIRECT_COMES, /* ask again in the next turn */
	DIRECT_READY  /* direct_fd() */
};

/* Do reads with O_DIRECT work, as far as we know? */
bool direct_works(const struct held_file *f);
/* -1: there is no such description. */
int direct_fd(const struct held_file *f);
/* Wants the description; a worker begins to open it if need be. A read of f is under way, and
 * direct_fd() stays open as long as one is. It waits for nobody. */
enum direct_state direct_want(struct files *s, struct held_file *f);
/* The same for one who has asked before: nothing is begun. */
enum direct_state direct_look(const struct held_file *f);
/* No read of f is under way any more. Its description may stay for a moment. */
void direct_rest(struct files *s, struct held_file *f);
/* Closes descriptions that rest. */
void direct_tick(struct files *s);
void direct_spare_descriptors(struct files *s);
/* f goes: what a worker still opens for it is closed. */
void direct_forget_file(struct held_file *f);
/* What a worker still opens is for none of s's files. Only the main thread may call it. */
void direct_forget(struct files *s);

#endif
