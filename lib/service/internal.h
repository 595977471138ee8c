/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The service's inside.
 *
 *   service.c         start, main loop, end
 *   service_socket.c  the one place: lock, listening socket
 *   service_memory.c  the segments that readers map
 *   service_client.c  who is there: requests, contexts, reaping
 *   service_file.c    files held: admission, sharing, retiring, their frames
 *   service_proof.c   why a file is believed not to change
 *   service_lease.c   the second thread: leases, revocation, the alive mark
 *   service_fill.c    hints in, blocks read, frames filled and taken back
 *
 * Threads. All of struct service belongs to the main thread. The lease thread has its
 * own struct lease_thread and touches two shared things: file_proof.live, an atomic
 * word (both write, see service_lease.c), and header->alive (it alone writes). The main
 * thread speaks to it by orders, one at a time, each answered; it speaks to the main
 * thread by an eventfd that says "look at the files again".
 */
#ifndef LODIC_LIB_SERVICE_INTERNAL_H
#define LODIC_LIB_SERVICE_INTERNAL_H

#include <liburing.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "core/cache/arena.h"
#include "core/cache/reclaim.h"
#include "lib/service/service.h"
#include "lib/wire.h"

#define NS_PER_MS ((u64)1000000)

/* How often the main thread looks around by itself: pinned orphans, unlinked files. */
#define TICK_MS 100u
/* The same while nobody is connected, but files are kept warm. */
#define TICK_ALONE_MS 1000u

/* In flight at once, and blocks in one read: enough for a fast disk (128 KiB reads, 8
 * MiB under way), and one op stays a page of memory. */
#define FILL_OPS 64u
#define FILL_RUN 32u
/* Hints that wait; a power of two. What comes on top is dropped: it will be asked for
 * again. */
#define FILL_QUEUE 4096u

/* Memory shared with readers. */
struct shared_memory {
	int fd;        /* ours */
	int reader_fd; /* what readers get: fd, or a description that cannot write */
	void *at;      /* NULL: there is none */
	u64 bytes;
};

/* Why a file is believed not to change. */
enum proof {
	PROOF_LEASE,     /* the kernel asks us before a writer gets through */
	PROOF_VERITY,    /* fs-verity: it cannot be written */
	PROOF_READ_ONLY, /* its whole file system is mounted read-only */
	PROOF_PROMISE    /* the user said so (options.immutable) */
};

enum file_state { FILE_FREE, FILE_HELD, FILE_RETIRING };

/* What the service knows about file slot i; the readers' part is arena.files[i].
 *
 *          admit            retire                     last read comes back
 *   FREE ---------> HELD ------------> RETIRING or FREE -----------------> FREE
 */
struct held_file {
	u32 state; /* enum file_state */
	u32 proof; /* enum proof */
	u32 id;
	u32 next_id;   /* of the file that comes here next; FILE_NONE: none any more */
	int fd;        /* our own description; carries the lease */
	int direct_fd; /* another one, O_DIRECT; -1: none */
	bool direct;   /* reads through direct_fd work, as far as we know */
	u32 nr_opens;  /* by clients */
	u32 nr_in_flight; /* reads */
	u32 nr_frames;    /* that hold its blocks */
	u64 dev, ino, size;
	u64 last_used; /* of a clock that ticks at every open and close */
};

/* A frame's neighbours in the list of its file, or in that of the orphans: frames whose
 * file has gone and that were pinned when they should have been taken. */
struct frame_link {
	u32 older, newer;
};

/* Blocks that somebody wants. */
struct fill_range {
	u32 id;
	u64 next, end; /* block numbers in the file */
	u64 ticket;    /* grows with each hint, see fill_is_past() */
};

/* A read under way. */
struct fill_op {
	bool busy;
	u32 slot, id;
	u32 nr;
	u64 first, ticket;
	u32 frames[FILL_RUN];
	struct iovec pieces[FILL_RUN];
};

struct fill {
	struct io_uring ring;
	bool has_ring;
	u32 nr_busy;
	u32 head, nr_queued;  /* of queue */
	u32 rotor;            /* the context that is asked first for hints */
	u64 ticket;           /* of the newest hint */
	u64 starved_until_ns; /* all frames were pinned: no use in looking before */
	u32 *free_frames;
	u32 nr_free;
	struct fill_op ops[FILL_OPS];
	struct fill_range queue[FILL_QUEUE];
};

/* What an epoll event is about. A client's sources lie inside the client. */
enum source_kind {
	SOURCE_LISTEN,
	SOURCE_SIGNAL,
	SOURCE_WAKE,   /* readers post hints */
	SOURCE_BROKEN, /* the lease thread has revoked something */
	SOURCE_RING,
	SOURCE_MOUNTS,
	SOURCE_CLIENT,
	SOURCE_PROCESS, /* a client's pidfd */
	NR_SOURCES
};

struct source {
	u32 kind;
	struct client *client;
};

struct client_open {
	u32 slot, id, nr;
};

struct client {
	struct client *next;
	struct source socket_source, process_source;
	int socket;  /* -1: hung up; its contexts stay until the process is dead */
	int process; /* pidfd, -1: none */
	bool greeted;
	bool gone;  /* to be freed after this round of events */
	bool waits; /* for what was asked before sync_ticket */
	u64 sync_ticket;
	u32 nr_contexts;
	u32 nr_opens, max_opens;
	struct client_open *opens;
};

/* Who has the context at a place of the walk list. */
struct seat_owner {
	struct client *client;
	void *memory;
	u64 quota; /* frames it may pin */
};

struct service {
	struct service_options options;
	struct arena_shape shape;
	struct arena arena;
	struct shared_memory control, data, counts;
	u64 context_bytes;
	u64 started_ns;
	bool huge_pages;

	char lock_path[sizeof(((struct sockaddr_un *)0)->sun_path) + 8];
	char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	int lock;
	int listening;
	int spare; /* given up for a moment when descriptors run out */
	int epoll, wake, signals, mounts;
	bool stopping;
	struct source sources[NR_SOURCES];

	struct client *clients;
	u32 nr_clients;
	u64 idle_since_ns;
	struct seat_owner seats[ARENA_MAX_CONTEXTS];
	u64 quota_given;
	u64 past_counters[CONTEXT_NR_COUNTERS];

	struct held_file *files;
	u32 next_slot;  /* where to look for a free one: all are used in turn */
	u32 next_check; /* which warm file to look at next */
	u32 nr_held;
	u64 use_clock;
	/* Frames, then a sentinel for each file slot, then one for the orphans. */
	struct frame_link *links;
	u64 nr_orphans;
	u64 orphans_left; /* to look at in this pass */

	struct lease_thread *lease;
	struct reclaim reclaim;
	struct fill fill;
};

/* service.c */
__attribute__((format(printf, 2, 3))) void service_say(const struct service *s,
                                                       const char *format, ...);
/* A sentence for ret_why; it stays until the thread's next one. */
__attribute__((format(printf, 1, 2))) const char *service_why(const char *format, ...);
int service_watch(struct service *s, int fd, u32 events, struct source *source);
void service_close(int *fd); /* if it is open; then -1 */
static inline void service_count(u64 *statistic, u64 delta)
{
	/* Relaxed: the main thread alone writes, others may read a little behind. */
	host_store_relaxed(statistic, host_load_relaxed(statistic) + delta);
}

/* service_socket.c. service_lock() makes us the only service here, or says why not;
 * service_listen() lets clients come. service_unlisten() and service_unlock() undo. */
int service_lock(struct service *s, const char **ret_why);
int service_listen(struct service *s, const char **ret_why);
void service_unlisten(struct service *s);
void service_unlock(struct service *s);

/* service_memory.c */
int memory_make(struct service *s, const char **ret_why);
void memory_free(struct service *s);
/* A context's memory, mapped here; ret_fd is for its reader. */
int memory_make_context(struct service *s, void **ret_memory, int *ret_fd);

/* service_client.c */
void client_accept(struct service *s);
void client_ready(struct service *s, struct client *c);        /* its socket */
void client_process_died(struct service *s, struct client *c); /* its pidfd */
void client_answer_waiting(struct service *s);
void client_free_gone(struct service *s);
void client_free_all(struct service *s);

/* service_file.c */
int files_init(struct service *s);
void files_fini(struct service *s);
/* Admits the file behind a client's descriptor, or finds it. ret_slot: with one more
 * open. The errors are those of lodic_file_cached() and lodic_open(). */
int files_open(struct service *s, int fd, u32 *ret_slot);
void files_close(struct service *s, u32 slot, u32 id);
/* The held file with this id, NULL when it has gone. */
struct held_file *files_find(struct service *s, u32 id);
bool files_is_live(const struct service *s, const struct held_file *f);
void files_fill_begun(struct held_file *f);
void files_fill_ended(struct held_file *f);
/* A frame now holds a block of the file in slot; is about to hold it no more. */
void files_link_frame(struct service *s, u32 slot, u32 frame);
void files_unlink_frame(struct service *s, u32 frame, u64 block);
void files_retire_broken(struct service *s);
void files_mounts_changed(struct service *s);
/* Takes some orphans back. true: there are more to look at now. */
bool files_clear_orphans(struct service *s);
void files_tick(struct service *s);

/* service_proof.c */
/* Does the file system of fd keep leases dependably? */
bool proof_by_lease_possible(int fd);
/* Some proof that needs no lease, or -EACCES. */
int proof_without_lease(const struct service *s, int fd, u64 dev, u32 *ret_proof);
bool proof_superblock_is_read_only(u64 dev);
bool proof_by_verity(int fd);
int proof_path(int fd, char *path, size_t bytes);

/* service_lease.c. lease_start() marks the service alive, lease_stop() dead; both
 * return when it is done. lease_take() takes a lease on fd and, under it, begins to
 * vouch for file id in slot; ret_size is its size under the lease. lease_drop() ends
 * that, if a writer has not done so; the lease thread then has forgotten fd. */
int lease_start(struct service *s);
void lease_stop(struct service *s);
int lease_take(struct service *s, int fd, u32 slot, u32 id, u64 *ret_size);
void lease_drop(struct service *s, u32 slot);
int lease_broken_event(const struct service *s);

/* service_fill.c */
int fill_init(struct service *s);
void fill_fini(struct service *s);
void fill_take_hints(struct service *s, u32 most);
/* Begins reads. true: there is more to do at once. */
bool fill_run(struct service *s);
/* Reads that are done. */
void fill_reap(struct service *s);
void fill_wait_all(struct service *s);
/* Is everything done that was asked for up to ticket? */
bool fill_is_past(const struct service *s, u64 ticket);
/* Takes a cached frame away from readers, out of its file and of the policy. */
bool fill_take_back(struct service *s, u32 frame);
void fill_check(struct service *s);

#endif
