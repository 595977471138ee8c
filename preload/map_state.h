/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the files of the shim of `lodic map` speak of. Rules: map.h. */
#ifndef LODIC_PRELOAD_MAP_STATE_H
#define LODIC_PRELOAD_MAP_STATE_H

#include "preload/fds.h"
#include "preload/map_environment.h"
#include "preload/shim.h"

/* How many files the shim knows at once, in sets of a few. */
#define MAP_SET_FILES 8u
#define MAP_SETS 128u
#define MAP_FILES (MAP_SETS * MAP_SET_FILES)
/* Beyond so many threads, several share a place to count in. */
#define MAP_STRIPES 64u

#define MAP_PAGE_SHIFT 12
#define MAP_PAGE_BYTES (1u << MAP_PAGE_SHIFT)
/* A span: what one page of ptes leads to. */
#define MAP_SPAN_SHIFT 21
#define MAP_SPAN_BYTES ((u64)1 << MAP_SPAN_SHIFT)
#define MAP_SPAN_PAGES (1u << (MAP_SPAN_SHIFT - MAP_PAGE_SHIFT))
#define MAP_SPAN_WORDS (MAP_SPAN_PAGES / 64)

/* Why a file, or that of a descriptor, is not mapped. map_report.c has the names. */
enum map_skip {
	MAP_NOT_REGULAR,
	MAP_WRITABLE,
	MAP_TOO_SMALL,
	MAP_DIRECT,
	MAP_FILE_SYSTEM,
	MAP_EXCLUDED,
	MAP_LIMITED, /* the address space is (RLIMIT_AS) */
	MAP_FAILED_MMAP,
	MAP_BUDGET_FULL,
	MAP_TABLE_FULL,
	MAP_NR_SKIPS
};

/* How the pages of a mapping stand. */
#define MAP_PAGES_WHOLE 1u /* all have been asked for */
#define MAP_PAGES_FULL 2u  /* the budget has no room for more of them */

/* Threads read all words without the lock, as hints, and write them under it, but for
 * those that say otherwise. */
struct map_file {
	u64 generation; /* 0: of no file. Else it says which file an index means */
	u64 dev, ino;
	u64 bytes; /* its size, as last seen */
	u64 seen_mapped;

	/* Until it is mapped; any thread. */
	u64 reads, read_bytes;
	u64 jumps;      /* pread()s that did not begin where the one before ended */
	u64 next;       /* where that was */
	u64 first;      /* where read() began, MAP_NOWHERE: not known */
	u64 look_again; /* number of reads */

	/* Of the mapping. */
	u64 address; /* 0: not mapped */
	u64 nr_pages;
	u64 nr_asked;    /* pages asked for */
	u64 pages_stand; /* MAP_PAGES_* */
	u64 visited; /* any thread sets it; a thread that looks for a victim clears it */
	u64 fd;      /* which it was made from (M2) */
	u64 cost_bytes; /* of the budget */
	u64 nr_tables;  /* pages of ptes, at most */

	/* Where its bits are: a word that says how many, then a bit for each page, set once
	 * the page was asked for. Memory that was bits stays readable for good, because
	 * another thread may be about to look. */
	u64 bits;
	u64 few_bits[1 + MAP_SPAN_WORDS];
	u64 *many_bits;
	u64 many_bytes;
};

#define MAP_NOWHERE (~(u64)0)

struct map_stripe {
	u64 reads_mapped, reads_other;
	u64 pad[6];
};

struct map_totals {
	u64 files, bytes, tables;
};

/* All that changes. The kernel wipes it in a child, where nothing is mapped, nothing is
 * counted, and the lock is free. */
struct map_state {
	struct fds fds; /* M1 */
	u64 off;        /* nothing is mapped any more */

	u64 last_generation;
	u64 hand; /* the next file to look at for a victim */
	u64 next_stripe;

	struct map_totals now, peak;
	u64 mapped, unmapped, evicted, nr_files, asked, ask_failed;
	u64 skips[MAP_NR_SKIPS];
	u64 measured, measured_bytes, measured_tables;
	u64 reported; /* on stderr */

	char path[MAP_TEXT_BYTES]; /* not on the stack: a signal's may be small */
	struct map_stripe stripes[MAP_STRIPES] __attribute__((aligned(64)));
	struct map_file files[MAP_FILES] __attribute__((aligned(64)));
};

#endif
