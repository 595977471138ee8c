/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A file that one process, the outsider, changes in every way there is. Other processes, the
 * watchers, read and pin it through the cache. They know at each moment what they may see.
 *
 * The outsider keeps in shared memory what the file should hold (shadow), and a phase:
 *
 *   QUIET s --> OPENING s --> OPEN s --> CLOSING s --> QUIET s+1
 *             about to open   open returned           the change is complete
 *
 * A watcher looks at the phase before and after each read and pin, and asks:
 * - QUIET both times, and the same: exactly the shadow's bytes, length and errors.
 * - OPEN both times, and the same: nothing came from the cache, and no pin succeeded. A
 *   file that a process has open for writing has no lease.
 * - otherwise: each word is of a version that is not older than floor said before. The
 *   outsider raises a block's floor when its write() has returned.
 * A pin keeps its bytes until the watcher gives it back, whatever happens to the file.
 */
#ifndef LODIC_TESTS_SUPPORT_WATCHED_FILE_H
#define LODIC_TESTS_SUPPORT_WATCHED_FILE_H

#include "tests/support/cache_fixture.h"

#define WATCHED_MAX_BLOCKS 20u
#define WATCHED_MAX_BYTES ((u64)WATCHED_MAX_BLOCKS * LODIC_BLOCK_BYTES)
#define WATCHED_MAX_FILES 8u
#define WATCHED_MAX_WATCHERS 4u
#define WATCHER_PINS 12u

enum watched_phase { WATCHED_QUIET, WATCHED_OPENING, WATCHED_OPEN, WATCHED_CLOSING };

enum watched_change {
	CHANGE_OVERWRITE, /* a stretch of bytes in place */
	CHANGE_TRUNCATE,  /* truncate(), ftruncate(), or O_TRUNC and new bytes */
	CHANGE_RENAME,    /* another file takes the name */
	CHANGE_EXTEND,    /* append, or grow by a hole */
	CHANGE_MMAP,      /* stores through a shared mapping, the descriptor closed */
	CHANGE_PUNCH,     /* a hole in the middle */
	NR_CHANGES
};
extern const char *const watched_change_names[NR_CHANGES];

/* In shared memory. The outsider writes it; only watcher i writes heat[i] and seen_open[i]. */
struct watched_file {
	u64 number; /* for the pattern */
	u64 nr_watchers;
	char path[FIXTURE_PATH_BYTES];
	u64 phase; /* stamp * 4 + enum watched_phase */
	u64 epoch; /* how often the name came to mean another file */
	u64 bytes;
	u64 floor[WATCHED_MAX_BLOCKS]; /* no word of the block is of an older version */
	u64 heat[WATCHED_MAX_WATCHERS]; /* stamp << 32 | hits verified while it lasts */
	u64 seen_open[WATCHED_MAX_WATCHERS]; /* looks while a writer had it open */
	u8 shadow[WATCHED_MAX_BYTES];
};

/* What a watcher has seen. In shared memory; only the watcher writes it. */
struct watcher_tally {
	u64 progress; /* grows at each step */
	u64 reads, views, pins, hits;
	u64 exact;     /* compared byte by byte with the shadow */
	u64 open;      /* looks while a writer had the file open */
	u64 raced;     /* looks during which the file changed */
	u64 snapshots; /* pins that outlived a change, unchanged */
	u64 wrong;
	u64 stop; /* the parent sets it: the watcher must end in order */
};

struct watcher_pin {
	struct lodic_pin pin;
	u32 file;
	u64 stamp;
	u8 copy[LODIC_BLOCK_BYTES];
};

struct watcher {
	struct lodic *lodic;
	struct lodic_context *context;
	struct watched_file *watched; /* an array */
	struct watcher_tally *tally;
	u32 nr_files;
	u32 number;
	bool meddles; /* with leases and locks on the descriptors that it passes */
	u64 random;
	int fds[WATCHED_MAX_FILES];
	u64 epochs[WATCHED_MAX_FILES];
	struct lodic_file *files[WATCHED_MAX_FILES];
	struct watcher_pin pins[WATCHER_PINS];
};

/* The outsider calls these. */
void watched_file_init(struct watched_file *w, u64 number, u32 nr_watchers,
                       u64 *random);
/* Makes one change. The outsider keeps the file open for writing until every watcher has
 * looked at it so often. */
void watched_file_change(struct watched_file *w, enum watched_change change, u64 looks,
                         u64 *random);
/* Has every watcher seen so many hits since the last change? */
bool watched_file_is_hot(const struct watched_file *w, u32 hits);

/* A watcher calls these. Its lodic, watched, tally, nr_files, number and meddles are set. */
void watcher_begin(struct watcher *w);
/* One read, pin or unpin. */
void watcher_step(struct watcher *w);
void watcher_end(struct watcher *w);

#endif
