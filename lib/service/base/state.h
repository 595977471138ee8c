/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What all files of the service share: struct service, and a few helpers.
 *
 *   trial     a service that a program measures piece by piece
 *   service   start, main loop, end
 *   pressure  what goes when the machine's memory is short
 *   takeover  this process takes the place of another service, with what that has cached
 *   hand      what such a successor is given
 *   succession  how it asks the service before it
 *   reread    the configuration has changed
 *   resize    a cache of another size takes over
 *   move      what goes over then, at once
 *   carry     what comes along before: files and blocks
 *   hold_move what becomes of holds then
 *   accept    programs that connect
 *   answer    what they hear when their work is done
 *   client    which programs are connected: requests, contexts, reaping
 *   opening   a file that one opens, while a worker looks at it
 *   authority who may ask what
 *   hold_request  what they ask about holds
 *   domain    whom one arena is for: a user, or a group
 *   place     contexts, and when one is over
 *   stat      the numbers behind lodic_stat()
 *   list      what a look is told: files, readers, contexts
 *   holds     ranges of files in memory of their own, given to who asks
 *   hold_load   how such a range is read
 *   hold_tier   where their memory lies, and how it moves
 *   hold_table  which ranges there are, who has them, who waits for them
 *   hold_queue  in which order they leave
 *   fill      blocks read, frames filled
 *   fill_hints  hints in, and the ranges that are read ahead
 *   admission which missed blocks come into a full cache
 *   reads     reads of files, for which the main thread does not wait
 *   mover     blocks moved from tier to tier
 *   evict     frames taken back: victims, orphans, the stock of free frames
 *   fence     the heavy fence, and the thread that makes it
 *   sweep     readers' visits, collected and counted
 *   nameless  files that go early, so that their disk does not wait
 *   files_wishes  files that a user has loaded or dropped
 *   files     files held: admission, sharing, retiring, their frames
 *   direct    second descriptions of files, for reads with O_DIRECT
 *   admit     how a file comes under a proof
 *   pause     which files were written to lately
 *   lease     leases, and the second thread: revocation, the alive mark
 *   mark      what the kernel writes when the service is killed
 *   watch     what the kernel tells of changes that break no lease
 *   slot_set  slots that one thread notes, and the other takes
 *   proof     why a file is believed not to change
 *   systems   kinds of file systems, and who waits for one that may not answer
 *   worker    threads that touch what clients pass
 *   refused   which files are not cached, and why
 *   opens     which files a client has open
 *   room      how much memory control groups leave
 *   policy    where blocks begin and which move, if a policy of core/kloc decides
 *   policy_record  the file that it writes of that
 *   tier      which frames are fast and which are slow; free frames
 *   memory    the segments that readers map
 *   nodes     which nodes of memory there are, and whose CPUs
 *   pages     huge pages for them
 *   socket    one service for one socket: lock, listening socket
 *   state     this one
 *
 * A file calls only what stands below it in this list. place, list
 * and hold_request also look into struct client, and hold_load calls holds when it is done, and
 * opening calls client.
 *
 * Threads. All of struct service belongs to the main thread. Workers have their jobs, and
 * read the options. Struct lease_thread belongs to the main thread and the lease thread: its
 * lock guards the table of leases (see lease.c). The lease thread touches two more words.
 * file_proof.live is atomic, and both threads write it, for a file under a lease with that lock
 * held. The lease thread alone writes header->alive. By an eventfd it tells the main thread to
 * look at the files again.
 *
 * The functions declared here are named after struct service.
 */
#ifndef LODIC_LIB_SERVICE_BASE_STATE_H
#define LODIC_LIB_SERVICE_BASE_STATE_H

#include <liburing.h>
#include <pthread.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "core/cache/batch.h"
#include "core/cache/reclaim.h"
#include "lib/look.h"
#include "lib/service/file/opens.h"
#include "lib/service/frame/admission.h"
#include "lib/service/loop/budget.h"
#include "lib/service/loop/pressure.h"
#include "lib/service/service.h"
#include "lodic/lodic.h"

#define NS_PER_MS ((u64)1000000)

/* Reads under way at once, and blocks in one read. 128 KiB a read and 8 MiB under way are
 * enough for a fast disk, and one op stays a page of memory. */
#define FILL_OPS 64u
#define FILL_RUN 32u
/* How many ranges wait; a power of two. What comes on top stays in the readers' rings. */
#define FILL_QUEUE 4096u
/* How many cache lines one piece of the main loop's work may touch before the loop looks at
 * its clients again. Eviction and all else that goes over contexts, frames or blocks keeps
 * to it. A take from 1024 contexts was measured at 25 ns a line. So a piece ends after about
 * 0.4 ms, a fifth of the 2 ms that a client may have to wait. */
#define TURN_LINES 16384u

/* Memory shared with readers. */
struct shared_memory {
	int fd;        /* ours */
	int reader_fd; /* what readers get: fd, or a description that cannot write */
	void *at;      /* NULL: there is none */
	u64 bytes;
	int refused; /* why the kernel gave fewer huge pages than it was asked for; 0 */
};

/* Blocks that a reader wants. */
struct fill_range {
	u32 id;
	bool spare;    /* for free frames only: it pushes nothing out */
	bool ahead;    /* nobody has asked for it, or missed it */
	u64 next, end; /* block numbers in the file */
	u64 ticket;    /* grows with each hint, see fill_sync_is_done() */
	u64 hinted_ns; /* when the service took it */
};

/* A read under way. */
struct fill_op {
	bool busy;
	bool direct, in_ring; /* how it is being read (reads.c) */
	bool waits;           /* for a description to be read by */
	bool ahead;           /* as its range */
	u32 slot, id;
	u32 nr;
	u64 first, ticket;
	u64 since_ns, hinted_ns;
	u32 frames[FILL_RUN];
	struct iovec pieces[FILL_RUN];
};

/* Somebody waits until what was asked for before is done. */
struct fill_sync {
	u64 round;  /* in which all hints of before are taken; 0: they are */
	u64 ticket; /* of the newest of them */
};

struct service;
struct fill {
	struct io_uring ring;
	bool has_ring;
	void (*ended)(struct service *s, struct fill_op *op, int result);
	u32 nr_busy, most_busy;
	u32 nr_waiting;      /* of the busy ones: for a description */
	u32 head, nr_queued; /* of queue */
	/* A round asks each context once for hints, over several turns if it must. It begins
	 * again when contexts come or go. */
	struct admission admission;
	u64 now_ns;     /* when this turn began to take hints */
	u64 hinted_ns;  /* the same of the last turn that found some */
	u32 nr_filling; /* blocks, by the reads under way */
	u64 nr_rounds;  /* that are over */
	u32 round_contexts, round_asked;
	u64 ticket;           /* of the newest hint */
	u64 starved_until_ns; /* all frames were pinned: do not ask before */
	u32 lines;            /* that this turn may still touch */
	struct fill_op ops[FILL_OPS];
	struct fill_range queue[FILL_QUEUE];
};

/* Frames on their way out (evict.c). */
struct evict {
	struct batch batches[2];
	struct batch *open;    /* hidden frames go there */
	struct batch *away;    /* its fence or its walk is under way; NULL: none */
	bool waits;            /* away waits for its fence */
	u64 fence;             /* which is that one */
	struct walk_list list; /* who had pins lately */
	struct reclaim_ops ops;
	u32 lines;                          /* that this turn may still touch */
	u32 nr_rescued;                     /* since the last batch came to its end */
	u32 stock, stock_least, stock_most; /* free and hidden frames to have */
	bool starved;                       /* a fill has waited since the last tick */
	u64 none_until_ns;                  /* all were pinned: do not look before */
	bool said;
};

/* The heavy fence, one after the other, by number. Where it takes milliseconds a thread makes it:
 * asked by one event, and it answers by another. */
struct fence {
	u64 begun, over;
	u64 good;   /* the newest that has ordered anything */
	u64 wanted; /* begun, or the next */
	pthread_t thread;
	bool running;
	int ask, done;
	u64 stop, ok;
};

/* The machine's nodes of memory (nodes.h). */
#define NODES_MOST_CPUS 4096u
struct nodes {
	int fast, slow; /* for the two tiers; -1: there is none */
	u32 nr_near;    /* that have memory and CPUs */
	u32 nr_cpus;    /* the highest number of one, plus 1 */
	bool stands_in; /* a test's */
	u16 of_cpu[NODES_MOST_CPUS];
};

/* Where a frame lies. Without tiers all are in the first. */
enum tier { TIER_FAST, TIER_SLOW, NR_TIERS };

struct tiers {
	bool two;
	u32 slow_from; /* the first slow frame; nr_frames: there are none */
	u32 nr_free;   /* of both */
	/* Free ones that moves have set aside. As many are free again when the moves end. */
	u32 nr_aside;
	struct {
		u32 *free; /* a stack */
		u32 nr_free;
		u32 nr_frames;
		int node; /* its memory is asked for there; -1: anywhere */
		/* Moves to here that have begun, and what became of them; and those that have not,
		 * for want of a free frame. */
		u64 begun, moved, refused, no_room;
		u64 asked;  /* frames that fills wanted here */
		u64 missed; /* of these: got in the other tier, for want of a free one */
	} of[NR_TIERS];
};

/* What an epoll event is about. A client's sources lie inside the client. */
enum source_kind {
	SOURCE_LISTEN,
	SOURCE_SIGNAL,
	SOURCE_WAKE,   /* readers post hints */
	SOURCE_BROKEN, /* the lease thread has revoked something, or heard of a change */
	SOURCE_WORKER, /* a worker has done a job */
	SOURCE_FENCE,  /* the heavy fence is over */
	SOURCE_RING,
	SOURCE_CLIENT,
	SOURCE_PROCESS, /* a client's pidfd */
	NR_SOURCES
};

struct source {
	u32 kind;
	struct client *client;
};

/* The owner of the context at a place of the walk list. */
struct seat_owner {
	struct client *client;
	u32 older, newer; /* the client's other places; FRAME_NONE: there are no more */
	void *memory;
	u64 bytes;
	int fd; /* memory_ask() asks it who has the memory; -1: the kernel does not tell */
	u64 quota; /* frames it may pin */
};

/* Second descriptions of files (direct.c): those that workers open, and those that rest. */
#define NR_DIRECT_RESTING 32u
struct direct_opening;
struct direct {
	struct direct_opening *openings;
	u32 nr_resting;
	struct {
		u32 slot;
		u64 since_ns;
	} resting[NR_DIRECT_RESTING];
};

/* Workers look whether files still have names (nameless.c): local ones, and others. */
struct nameless_job;
struct nameless {
	struct nameless_job *jobs[2]; /* NULL: none is under way */
	struct nameless_job
		*heard;     /* that is being made for files that a watch has told of */
	bool due[2];        /* the next slots wait for the job to end */
	u32 at[2], away_at; /* which slot is next */
	u64 hurries_until_ns;
};

/* The frames that are pinned, counted piece by piece (stat.c). */
struct stat_count {
	u64 wanted, begun, done; /* counts, by number */
	u64 pinned;              /* what the last one found that is done */
	u64 found;               /* what this one has found so far */
	u32 place;               /* where it goes on: the context, and the entry */
	u32 at;                  /* (or the frame, where frames have shared counters) */
	u8 *seen;                /* a bit for each frame */
};

struct resize;
struct mover;
struct policy;

/* A resize makes another one of these. The first part is the process's, and goes over to it
 * (move.c). The rest belongs to one arena, and ends with that. */
struct service {
	/* ---- the process's ---- */
	struct service_options options; /* but for cache_bytes, which is this arena's */
	char lock_path[sizeof(((struct sockaddr_un *)0)->sun_path) + 8];
	char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	int lock;
	int listening;
	bool lent; /* the listening socket: its path is another's, who removes it */
	/* The client that may take this one's place, and has that socket and the lock at the end;
	 * NULL: none. HO5, HO7. */
	struct client *successor;
	bool succeeded; /* it has done so: lock and path stay as they are */
	int spare; /* accept_hang_up() gives it up for a moment when descriptors run out */
	int signals;
	u64 started_ns;
	u64 last_serial; /* of the newest client */
	struct refused_list *refused;
	struct pauses *pauses;
	struct workers *workers;    /* the service that is being made has them, too */
	struct holds *holds;        /* NULL: there are none */
	struct resize *resize;      /* under way; NULL: none is */
	struct look_resize resized; /* the last one, or that one */
	bool rereads;               /* a worker reads the configuration */
	bool rereads_again;         /* and must do so once more after that */
	u64 reread_bytes;           /* the size that it asks for; 0: none */
	struct pressure pressure;
	struct budget budget;
	struct look_times times[LOOK_NR_TIMES];

	/* ---- one arena's ---- */
	struct nodes nodes;
	struct arena_shape shape;
	u32 quota; /* entries that a context may pin */
	struct arena arena;
	struct shared_memory control, data, shared;
	/* What is counted as it happens, under its public name; stat.c adds the rest. */
	struct lodic_stat stat;

	int epoll, wake;
	bool stopping;
	bool replaced; /* another one has taken over, and this one ends beside it */
	u64 next_tick_ns;
	struct source sources[NR_SOURCES];

	struct client *clients;
	u32 nr_clients;     /* that are attached; those who only ask do not count */
	u32 nr_silent;      /* of all: the other side of the socket is closed */
	u32 nr_reaping;     /* of these: there are contexts to ask about */
	u32 nr_waiting;     /* requests that are answered when their work is done */
	u32 nr_connections; /* clients that are not gone */
	u32 nr_unasked;     /* of these: they have not asked for anything yet */
	u32 nr_turned_away; /* since the last tick: there was no room for them */
	struct domain_user *users; /* whose they are (domain.c) */
	bool accept_paused;        /* the listening socket is not watched (accept.c) */
	u32 accept_turns; /* in which nobody was let in, to hear of hang-ups first */
	u64 idle_since_ns;
	struct seat_owner seats[ARENA_MAX_CONTEXTS];
	u64 quota_given;
	u64 past_counters[CONTEXT_NR_COUNTERS];

	struct held_file *files;
	u32 *chains; /* of held files, by a hash of their numbers: the first slot */
	u32 nr_held;
	u32 nr_kept;     /* of these: those that a user has loaded */
	u64 held_blocks; /* that these have, cached or not */
	u32 nr_direct;   /* of these: read with O_DIRECT */
	/* Frames, then a sentinel for each file slot, one for the orphans, one for the idle
	 * files, and one for the free slots. Then a link for each file slot: its place among
	 * the idle files, or the free slots. */
	struct frame_link *links;
	u64 nr_orphans;
	u64 orphans_left; /* to look at in this pass */
	/* Files that programs had open in the arena before, open here for a while. */
	struct opens handed;
	u64 handed_until_ns;

	struct direct direct;
	struct nameless nameless;
	struct lease_thread *lease;
	struct reclaim reclaim;
	u32 sweep_at;    /* the frame where the sweep goes on */
	u64 sweep_round; /* counted from 1 */
	u32 sweep_due;   /* lines of visits to collect, in parts of SWEEP_TICKS */
	struct fill fill;
	struct evict evict;
	struct fence fence;
	struct tiers tiers;
	struct mover *mover;   /* NULL: there is one tier */
	struct policy *policy; /* NULL: users place and move */
	struct stat_count count;
};

/* One line for the user, by way of options.say. doc/service.md has the events. */
__attribute__((format(printf, 4, 5))) void service_say(const struct service *s,
                                                       enum service_level level,
                                                       const char *event,
                                                       const char *format, ...);
/* A sentence for ret_why; it stays until the thread's next one. */
__attribute__((format(printf, 1, 2))) const char *service_why(const char *format, ...);
/* From now on the main loop handles events of fd as source says. */
int service_watch(struct service *s, int fd, u32 events, struct source *source);
/* The same for fd, which it handles already. Without events it still hears of a hang-up. */
int service_watch_again(struct service *s, int fd, u32 events, struct source *source);
/* Have files taken nearly all descriptors, of which fd is the newest? The kernel gives the lowest
 * number that is free, so a high one says that all below it are in use. The limit may change
 * while the service runs. */
bool service_is_crowded(int fd);
/* Closes *fd if it is open, and makes it -1. */
void service_close(int *fd);
static inline void service_count(u64 *statistic, u64 delta)
{
	/* Relaxed: the main thread alone writes. Other threads may read a little behind. */
	host_store_relaxed(statistic, host_load_relaxed(statistic) + delta);
}

#endif
