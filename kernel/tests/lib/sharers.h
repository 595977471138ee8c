/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Processes that map a file, each with an entry for each page. One of them may also hold
 * references on the file's first pages. Its threads read into memory whose faults nobody
 * answers, until the process is killed.
 */
#ifndef LODIC_TESTS_SHARERS_H
#define LODIC_TESTS_SHARERS_H

#include "base.h"

#define SHARERS_MOST 64
#define HOLD_THREADS 4
/* One call of filemap_read() holds so many folios at a time (PAGEVEC_SIZE). */
#define HOLD_EACH 31
#define HOLD_PAGES (HOLD_THREADS * HOLD_EACH)
/* Those that reclaim meets: a read marks its first page, which goes to the active list. */
#define HOLD_MET (HOLD_PAGES - HOLD_THREADS)
#define NO_HOLDER UINT32_MAX

struct sharers {
	int fd;
	u32 pages;
	u32 nr;
	u32 holder; /* which of them holds HOLD_PAGES, or NO_HOLDER */
	pid_t pids[SHARERS_MOST];
};

/* Reads the file into the page cache, and starts s->nr processes, one after the other. */
void sharers_start(struct sharers *s);

/* Takes away what says that the pages were used. See proactive_age(). */
void sharers_age(const struct sharers *s);

/* Present entries of all sharers; in_held: only those of the pages that are held. */
u64 sharers_entries(const struct sharers *s, bool in_held);

/* Pages of the file in the page cache. */
u32 sharers_resident(const struct sharers *s);

void sharers_stop(struct sharers *s);

#endif
