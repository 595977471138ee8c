/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a running service tells about itself: its files, its readers, and what it has let go
 * when it was told to. A program that looks maps no arena, and is no reader.
 *
 * Only the service's own user may look, and root. Root must not trust another user's service.
 * So each request ends after LOOK_TIMEOUT_MS, and the program checks each record. Text in a
 * record may hold any byte but NUL.
 *
 * A list comes in pages, so that no request holds the service up. What changes between two
 * pages may therefore stand in the list twice, or not at all.
 */
#ifndef LODIC_LIB_LOOK_H
#define LODIC_LIB_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "lodic/lodic.h"

/* A service that does not answer for so long is stopped, or busy beyond use. */
#define LOOK_TIMEOUT_MS 2000
/* Of the records in one page: room for the longest path, and for a hundred usual ones. */
#define LOOK_PAGE_BYTES 16384u
#define LOOK_END (~(uint64_t)0) /* a cursor: there is no further page */

enum look_state { LOOK_HELD, LOOK_REFUSED, LOOK_REVOKED };
enum look_knode { LOOK_KNODE_NONE, LOOK_KNODE_INACTIVE, LOOK_KNODE_ACTIVE };

/* Every record begins with its own length, a multiple of 8. */
struct look_file {
	uint32_t bytes;
	uint32_t state; /* enum look_state */
	int32_t reason; /* of a file that is not held: look_file_errno() and the next say it */
	uint32_t opens; /* by programs, now */
	uint64_t dev;   /* as stat(2) has it */
	uint64_t ino;   /* the same */
	uint64_t size;  /* bytes */
	uint64_t cached; /* blocks */
	uint64_t held;   /* bytes in holds that the service can give */
	uint64_t
		hits; /* visits collected: at most 3 a block, reader and round (sweep.c) */
	uint64_t ago_ns; /* of a file that is not held: when that was decided */
	uint64_t fast;   /* of the cached blocks, those in fast memory */
	uint32_t
		tier; /* enum look_tier_kind: where its new blocks go, without a policy */
	uint32_t knode;  /* enum look_knode: what the policy thinks of it */
	uint32_t direct; /* 1: read with O_DIRECT */
	char proof[20];  /* of a held file: its name */
	char path[];     /* as the service sees it; why it is not held stands behind */
};

/* A process that is attached, or that was and may still read. */
struct look_reader {
	uint32_t bytes;
	uint32_t pid;
	uint64_t serial; /* larger: came later */
	uint64_t age_ns;
	uint32_t files;   /* that it has open */
	uint32_t hung_up; /* 1: its socket is closed, and its contexts still count */
	char name[16];    /* of its program, as ps(1) shows it */
};

/* A context, and whose it is. */
struct look_context {
	uint32_t bytes;
	uint32_t place;
	uint64_t serial; /* of its reader */
	uint64_t quota;  /* blocks it may pin */
	uint64_t pinned; /* now; LOOK_UNKNOWN: shared counters do not tell */
	uint64_t hits;
	uint64_t soft_misses;
	uint64_t misses;
	uint64_t pins_refused;
};
#define LOOK_UNKNOWN (~(uint64_t)0)

/* A hold, and the processes that it was given to since nobody had it. The service cannot know
 * which of them still has it: only whether anybody has. */
#define LOOK_HOLD_PIDS 32u
struct look_hold {
	uint32_t bytes;
	uint32_t state; /* enum look_hold_state */
	uint64_t number;
	uint64_t dev, ino; /* of its file, as stat(2) has them */
	uint64_t offset, length;
	uint64_t memory; /* bytes that count */
	uint64_t huge_bytes;
	uint64_t age_ns;
	uint32_t had;     /* 1: somebody may have it */
	uint32_t nr_pids; /* that stand here */
	uint32_t more;    /* further processes */
	uint32_t pad;
	uint32_t pids[LOOK_HOLD_PIDS];
};
enum look_hold_state { LOOK_HOLD_LOADING, LOOK_HOLD_SHARED, LOOK_HOLD_PAST };

/* How long things took, since the start. Bucket i counts those of up to 2^i us that no bucket
 * before it has, and the last one all others. */
#define LOOK_TIME_BUCKETS 24u
enum look_times_kind {
	LOOK_TIMES_FILL, /* a read of a file into the cache, up to 32 blocks */
	LOOK_TIMES_MISS, /* from a reader's hint to the end of the read that it led to */
	LOOK_NR_TIMES
};
struct look_times {
	uint32_t bytes;
	uint32_t kind; /* enum look_times_kind */
	uint64_t sum_ns;
	uint64_t nr[LOOK_TIME_BUCKETS];
};

static inline uint32_t look_time_bucket(uint64_t ns)
{
	uint32_t bucket = 0;

	while (bucket < LOOK_TIME_BUCKETS - 1 && ns > (uint64_t)1000 << bucket)
		bucket++;
	return bucket;
}

/* A tier of memory. A service without tiers has one, the fast one. */
enum look_tier_kind { LOOK_TIER_FAST, LOOK_TIER_SLOW, LOOK_NR_TIERS };
struct look_tier {
	uint32_t bytes;
	uint32_t tier; /* enum look_tier_kind */
	int32_t node;  /* where its memory was asked for; -1: anywhere */
	uint32_t
		busy; /* 1: the service moves blocks or holds now, or some wait for that */
	uint64_t frames;
	uint64_t free_frames;
	uint64_t moved;   /* blocks that came from the other tier, since the start */
	uint64_t begun;   /* such moves, also those that were refused: */
	uint64_t refused; /* for a pin, an eviction, or a file that has gone */
	uint64_t no_room; /* never begun, for want of a free frame here */
	uint64_t asked;   /* blocks that came in and were wanted here, */
	uint64_t
		missed; /* and of these, those that went elsewhere for want of a free frame */
	uint64_t holds, hold_bytes; /* whose memory was asked for here, now */
	uint64_t holds_came;        /* moves of holds that brought them here */
	uint64_t holds_refused;     /* those that the kernel refused, also in part */
	char policy[24];            /* its name; "": users place and move */
};

/* What a drop has done. */
struct look_dropped {
	uint64_t files;
	uint64_t open; /* of these: files that programs have open */
	uint64_t blocks;
	uint64_t pinned; /* blocks that stay in memory until their readers unpin them */
	uint64_t busy;   /* not 0: files are still open, or blocks still to be freed */
};

/* A change of the cache's size. */
#define LOOK_WHY_BYTES 160
enum look_resize_state {
	LOOK_RESIZE_NONE, /* there has been none */
	LOOK_RESIZE_RUNS,
	LOOK_RESIZE_DONE,
	LOOK_RESIZE_FAILED /* the cache is as it was */
};
struct look_resize {
	uint64_t number;          /* of the resize: the service's first is 1 */
	uint32_t state;           /* enum look_resize_state */
	int32_t error;            /* -errno, if it failed */
	uint64_t from, to;        /* bytes */
	uint64_t had;             /* blocks that the cache held */
	uint64_t taken;           /* of these, those that it holds in the new memory */
	uint64_t ns;              /* how long it took, or has taken so far */
	char why[LOOK_WHY_BYTES]; /* a sentence, if it failed */
};

struct look;

/* Connects to the service at the socket, and maps nothing. ret_pid is the service's process,
 * or 0: also told when a service is there but the call fails.
 * -ENOENT, -ECONNREFUSED: no service, or a dead one.
 * -EACCES, -EPERM: another user's, and the caller is not root.
 * -ETIMEDOUT: its queue is full, and it accepts nobody.
 * -ENAMETOOLONG, -ENOMEM: the path is too long; there is no memory. */
int look_open(const char *socket, struct look **ret_look, int *ret_pid);
void look_close(struct look *look);

/* After an error of one of these, the look must be closed.
 * -ETIMEDOUT: no answer in time.  -ECONNRESET: the service has gone.
 * -EINTR: a signal came.  -EPROTO: the answer makes no sense: another version?
 * A service without memory for the answer says -ENOMEM. */
int look_stat(struct look *look, struct lodic_stat *ret_stat);

/* Calls each() with every record of the list, until it returns something else than 0, which
 * is then returned. The record is each()'s only while it runs. */
enum look_list {
	LOOK_FILES,
	LOOK_READERS,
	LOOK_CONTEXTS,
	LOOK_HOLDS,
	LOOK_TIMES,
	LOOK_TIERS
};
int look_list(struct look *look, enum look_list list,
              int (*each)(void *ctx, const void *record), void *ctx);

/* Why a file is not held: the errno of lodic_file_cached(), and the name of its reason. */
int look_file_errno(const struct look_file *file);
const char *look_file_reason(const struct look_file *file);
/* In words: why a file is not held. "": it is. */
const char *look_file_why(const struct look_file *file);

/* Makes the service let go the file (dev, ino), or all its files if ino is LOOK_ALL. With
 * LOOK_NOTHING it lets none go, and only says what it is still busy with. Adds to *total, but
 * for pinned and busy, which are as of now. */
#define LOOK_ALL ((uint64_t)0)
#define LOOK_NOTHING (~(uint64_t)0)
int look_drop(struct look *look, uint64_t dev, uint64_t ino,
              struct look_dropped *total);

/* Makes the service bring the cached blocks of the file (dev, ino) into a tier, as far as there is
 * room, and its later ones. The call does not wait for that: struct look_tier says busy.
 * -ENOENT: the service holds no such file.  -ENOTSUP: it has one tier.  -EPERM: a policy moves.
 * -EAGAIN: too many files wait. */
int look_move(struct look *look, uint64_t dev, uint64_t ino, enum look_tier_kind to);

/* Makes the service give its cache another size; bytes = 0: only asks how that goes. The call does
 * not wait for the end. *ret_resize is what goes on now, also with -EBUSY.
 * -EBUSY: another resize is under way.  -EINVAL: there is no cache of that size. */
int look_resize(struct look *look, uint64_t bytes, struct look_resize *ret_resize);
/* Asks for room for so many bytes of blocks in all, as far as the cache's size allows it. In the
 * rest as look_resize(); the state is LOOK_RESIZE_RUNS if there will be more. */
int look_room(struct look *look, uint64_t bytes, struct look_resize *ret_resize);

/* Makes the service keep the file (dev, ino), which it holds, also while no program has it open.
 * -ENOENT: it does not hold the file. The look is good for more. */
int look_keep(struct look *look, uint64_t dev, uint64_t ino);

/* Tells the service to end, and so a successor that is on its way. It answers first. -EBUSY: the
 * successor serves by now, and goes on. */
int look_stop(struct look *look);
/* Has the service hung up, or does it within ms milliseconds? It gives up memory and lock later. */
bool look_hung_up(struct look *look, int ms);

#endif
