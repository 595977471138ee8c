/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which files one client has open, by slot: a table of pages, of which only those exist that
 * have something in them. So each step takes constant time, no step moves what is there, and
 * the memory follows what the client has open.
 *
 * A slot has one entry. When its file has gone and another came, an open of the new file
 * replaces that of the old one, which means nothing any more.
 */
#ifndef LODIC_LIB_SERVICE_FILE_OPENS_H
#define LODIC_LIB_SERVICE_FILE_OPENS_H

#include <stdbool.h>

#include "host/host.h"

#define OPENS_PAGE_SLOTS 256u

struct opens_page;

struct opens {
	u32 nr;       /* entries */
	u32 nr_pages; /* that pages has room for; 0: nothing was ever open */
	u32 next;     /* where opens_take() looks first */
	struct opens_page **pages;
};

/* The client has opened the file with this id, in one of nr_slots slots. 0 or -ENOMEM. */
int opens_add(struct opens *o, u32 nr_slots, u32 slot, u32 id);
/* Does the client have it open? */
bool opens_have(const struct opens *o, u64 slot, u64 id);
/* Undoes one opens_add(). false: the client does not have it open. */
bool opens_remove(struct opens *o, u64 slot, u64 id);
/* Takes one entry out and returns how often the file is open; 0: there is none left. */
u32 opens_take(struct opens *o, u32 *ret_slot, u32 *ret_id);
void opens_fini(struct opens *o);

#endif
