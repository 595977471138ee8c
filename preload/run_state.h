/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the files of the shim of `lodic run` share. Rules: run.h. */
#ifndef LODIC_PRELOAD_RUN_STATE_H
#define LODIC_PRELOAD_RUN_STATE_H

#include "lib/client/lent.h"
#include "preload/fds.h"
#include "preload/run.h"

#include <sys/stat.h>

#define RUN_SET_FILES 8u
#define RUN_SETS 512u
#define RUN_FILES (RUN_SETS * RUN_SET_FILES)
/* What nobody uses is given back after so long. */
#define RUN_KEEP_NS UINT64_C(1000000000)

struct run_file {
	struct lent_file lent;
	u64 nr_fds;        /* slots and places that name it; atomic */
	u64 idle_since_ns; /* while there is none */
	u64 locked;        /* U17; atomic */
	u64 nr_unanswered; /* reads of it while the service owes an answer; atomic */
	u64 pad;           /* so that readers of two files share no line */
};

_Static_assert(RUN_FILES <= FDS_MAX_FILES, "an index has its bits in a slot");

/* What a thread reads by. When the thread ends, another one may take it over. */
struct run_reader {
	struct lodic_context *context;
	struct run_reader *next;
	struct run_reader *made_before; /* of all that there are */
	u64 busy;                       /* U16; atomic */
	u64 idle_since_ns;              /* when its thread has given it away */
	bool seated;                    /* it may have a seat then */
};

/* All that changes. The kernel wipes it in a child. */
struct run_state {
	struct fds fds;
	u64 off;
	u64 alone;           /* nobody listens at the socket; atomic */
	u64 refusal; /* why the service lets this process read nothing: an errno; atomic */
	u64 leaving;         /* threads that are changing the program's rights: U23; atomic */
	u64 inside;          /* threads that may make system calls: U19; atomic */
	struct lodic *lodic; /* NULL: none yet */
	struct run_reader *free_readers;
	struct run_reader *readers; /* all of them, also those; added under the lock */
	u64 last_name, last_look;
	u64 unanswered; /* a mapping or a read has waited for the service in vain; atomic */
	u64 awaited_ns; /* by reads, all together; atomic */
	u64 generation; /* of the service at the last sweep after a step */
	u64 nr_idle;    /* not 0: a sweep may find something to give back; atomic */
	u64 sweep_at_ns;
	u32 sweep_from; /* the file where it goes on */
	/* U24, U26 */
	u32 left_attached; /* the shim was attached when it left */
	u64 left_at_ns, left_step_ns;
	u64 start_at_ns, start_step_ns;
	struct run_file files[RUN_FILES] __attribute__((aligned(64)));
};

extern struct run_state *run_state; /* NULL: the shim does nothing */
extern char run_socket[];
extern bool run_reports;
/* Under a filter the shim makes no system call. A child inherits the filter, and this. */
extern u64 run_filtered; /* atomic */
/* run_stop() was called: by some library's constructor, the shim's own has not run yet. Atomic. */
extern u64 run_stopped;
/* The process has given up rights: U25. A child inherits that, and this. */
extern u64 run_gone; /* atomic */

/* Only a constructor may call it. */
bool run_threads_start(void);

/* The thread makes system calls of the shim's until it says calls_end(). false: it must not. */
bool calls_begin(struct run_state *s);
void calls_end(struct run_state *s);
/* The lock, while the shim is at work. */
bool run_lock(struct run_state *s, struct fds_hold *hold, bool wait);
void run_unlock(struct run_state *s, const struct fds_hold *hold);

/* Judges what the open descriptor shows. RUN_SERVED: it may be served. */
enum run_why run_fits(int fd, struct stat *ret_st);
/* Finds out what is behind fd, if nobody knows. Returns its slot. The lock is held. */
u64 run_look(struct run_state *s, int fd);
/* A slot or a place less names the file. */
void run_file_unnamed(struct run_state *s, struct run_file *f);
/* The file that the slot names. */
static inline struct run_file *run_file_of(u64 slot)
{
	return &run_state->files[fds_index(slot)];
}
/* Gives back what nobody uses. The service takes one request at a time, and this does not wait for
 * it. The lock is held. */
void run_sweep(struct run_state *s, u64 now);
/* What the kernel reads for want of the cache: the shim's next step says so to the service. */
struct run_missed {
	u64 offset, bytes;
};
/* run_await.c: a read was not served, because the file is not cached. Within calls_begin(). */
enum run_why run_step(struct run_state *s, struct run_reader *r, int fd, u64 slot,
                      const struct run_missed *m);
/* Such a read waits, perhaps (U14). */
void run_await(struct run_state *s, struct run_reader *r, int fd, u64 slot,
               const struct run_missed *m);
/* This process's attachment; NULL: there is no memory. The lock is held. */
struct lodic *run_attach(struct run_state *s);

/* run_leave.c. Only a constructor may call the first. */
void run_leave_start(const char *socket);
/* Nothing of the service's stays in this process. The lock is held. */
void run_let_go(struct run_state *s);
/* A step has been made: is there a service? The lock is held. */
void run_is_alone(struct run_state *s);
/* run_may_start(), where it is likely. */
void run_may_start_now(void);

/* run_map.c: what the user wants. Only a constructor may call it. */
void run_map_start(void);

/* From now on the shim serves nothing, and the service has all back. The lock is held. */
void run_step_aside(struct run_state *s);

/* What this thread reads by. NULL: it has nothing now. */
struct run_reader *reader_mine(struct run_state *s);

/* Gives back the seats of readers that no thread has; those of a service that has gone at once.
 * false: the service is busy. The lock is held. */
bool readers_sweep(struct run_state *s, u64 now);

#endif
