/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The shim behind `lodic map` runs inside a program that knows nothing of it. The shim
 * maps the files that the program reads again and again. The program's own process then
 * has a pte for each page that it reads. In these ptes a kernel with LODIC counts the
 * references of read(2). The program's bytes still come from its own read(2): nothing
 * ever touches the mapping.
 *
 *   hooks*.c       the functions of libc that the shim stands in for; shared with `lodic run`
 *   fds.c          what is known of descriptors, line.c how lines are written: shared as well
 *   map.c          which descriptor is which file; when a file is mapped and unmapped
 *   map_pages.c    a mapping's pages, what they may cost, which file goes first
 *   map_options.c  what `lodic map` says, through the environment
 *   map_report.c   what it cost
 *
 * The program must not notice the shim. Seven rules follow:
 *
 * M1 The shim makes no system call on a mapping unless this process made the mapping. A
 *    vfork() child shares this memory, but has descriptors of its own. A child of a bare
 *    clone() has a copy: there the mapping is missing, and its addresses may belong to
 *    something else.
 * M2 A mapping does not outlive the descriptor that it was made from. It holds the open
 *    file, and with it flock() locks, leases, a deleted file's space and a mount.
 *    (Opening the file a second time would be worse: that descriptor's close() drops
 *    the program's fcntl() locks.)
 * M3 No descriptor stays open. The shim opens one for a moment: in close() and at exit,
 *    to look at VmPTE, and for the report. Before an exec it looks at the program so.
 * M4 A thread that holds the lock has its signals blocked and cannot be cancelled. So
 *    close(), which a signal handler may call, can wait for the lock. read() does not
 *    wait for it: the next read() will do.
 * M5 The shim calls neither malloc nor stdio, and leaves errno as it was.
 * M6 The shim asks for a file's pages only just after the program has read them, so that
 *    it causes no I/O.
 * M7 Once a file is mapped, a read of it writes no line that another thread writes. A
 *    shared counter here would undo what LODIC is for.
 */
#ifndef LODIC_PRELOAD_MAP_H
#define LODIC_PRELOAD_MAP_H

#include "preload/fds.h"
#include "preload/map_environment.h"

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

/* NULL: the shim does nothing. */
extern struct map_state *map_state;

/* map_options.c. Set before the program's first line, then only read. */
struct map_options {
	u64 budget_bytes;
	u64 min_reads;
	char include[MAP_TEXT_BYTES]; /* globs, a line each; none: all */
	char exclude[MAP_TEXT_BYTES];
	char report[MAP_TEXT_BYTES]; /* none: stderr */
	bool json;
	bool verbose;
	bool kernel_has_lodic;
};

extern struct map_options map_options;

/* Reads the environment. false: this is no run under `lodic map`. */
bool map_options_read(void);
/* Does the descriptor's path match what was asked for? Under the lock. */
bool map_options_want(int fd);
/* The descriptor's path, in a place of its own under the lock; "": it is not known. */
const char *map_path(int fd);

/* map.c */

/* n > 0 bytes were read from fd at offset, or where it stood (-1). Keeps errno. */
void map_note(int fd, ssize_t n, off_t offset);
/* The program is about to close fd, or to put another file in its place. Keeps errno. */
void map_closing(int fd);
void map_closing_from(unsigned int first, unsigned int last);
/* The program wants the file's pages out of memory, so that no mapping may hold them.
 * Keeps errno. */
void map_dropping(int fd);
/* Unmaps everything, for good. Keeps errno. */
void map_stop(void);
/* The program ends, in a way that the shim can see. Keeps errno. */
void map_end(void);
/* The program is about to close stderr. Keeps errno. */
void map_stderr_closing(void);

/* M4, M5: as fds_lock(). */
bool map_lock(struct fds_hold *hold, bool wait);
void map_unlock(const struct fds_hold *hold);

/* map_pages.c; under the lock. */

/* Has the shim asked for [offset, offset + n), or need it not? Without the lock: a hint. */
bool map_pages_ready(const struct map_file *f, u64 offset, u64 n);
/* Maps the file behind fd. false: *ret_skip says why not. */
bool map_pages_map(struct map_file *f, int fd, enum map_skip *ret_skip);
/* Asks the kernel for the ptes of what was just read. */
void map_pages_ask(struct map_file *f, u64 offset, u64 n);
void map_pages_unmap(struct map_file *f);
/* Forgets that the file was read: it has to show anew that it is read again and again. */
void map_pages_prove(struct map_file *f);
void map_pages_unmap_all(void);

/* map_report.c; under the lock, but for the first two. */
void map_count_read(bool mapped);
bool map_report_wants_tables(void);
/* VmPTE in bytes; 0: not known. */
u64 map_report_tables(void);
void map_report_file(const char *what, int fd, const struct map_file *f);
void map_report_end(bool on_stderr_only);

#endif
