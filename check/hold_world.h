/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A tiny service that makes holds, for the checker, and the oracle beside it. The service calls
 * core/cache/hold.h, as lib/service/ does. The world stands in for the kernel. It has the memory
 * of holds, and knows which process has it open, mapped or in a message. It has the file, its
 * writer, its lease, processes that fork and die, and workers that read. core/ knows nothing of
 * it.
 *
 * The oracle. Memory knows which bytes it must have, because a file's bytes never change under one
 * id. It knows who has it. Memory that nobody has any more is poisoned. At each step that makes
 * memory, or that changes what counts, the room must have at least what is really there (HD5).
 */
#ifndef LODIC_CHECK_HOLD_WORLD_H
#define LODIC_CHECK_HOLD_WORLD_H

#include "check/case.h"
#include "core/cache/arena.h"
#include "core/cache/hold.h"

#define HOLD_WORDS 2u    /* of a range */
#define HOLD_PIECES 2u   /* a word each */
#define HOLD_RANGES 2u   /* of the file: 0, 1 */
#define HOLD_MEMORIES 4u /* holds at a time */
#define HOLD_PROCESSES 3u
#define HOLD_ARENAS 2u
#define HOLD_RANGE_BYTES (HOLD_WORDS * 8)
#define HOLD_UNIT 2u /* what a range counts, in the room's bytes */

/* The file's id. In the second arena it is another file's. */
#define HOLD_FILE 1u

/* Which bytes: of the file as it was, of the file after the writer, of the other file. */
enum hold_version { HOLD_BEFORE = 1, HOLD_AFTER, HOLD_OTHER };

/* A scenario's arg. */
struct hold_case {
	void (*tasks)(void); /* makes the processes, and what ends the proof */
	u64 most;            /* of the room */
	u32 nr_workers;
	bool shared;   /* a hold of range 0 is there already */
	bool pressure; /* a hold that was given leaves as soon as nobody has it */
};

/* What a program asks for: a range of a file, or another description of hold number. */
struct hold_request {
	struct hold_file file;
	u32 version; /* what the oracle expects */
	u64 from, to;
	u64 number; /* 0: by file and range */
};

/* A memfd, and the hold in it. */
struct hold_memory {
	struct hold hold;
	u64 words[HOLD_WORDS];  /* by host_* */
	u64 ended[HOLD_PIECES]; /* by host_*: 0, or enum piece_end: the lock of a job */
	u64 number;             /* 0: no memory */
	u32 version, range;
	bool good;        /* nothing has spoilt it, as far as the service has seen */
	bool sealed;      /* F_SEAL_WRITE */
	bool was_given;   /* since it was made */
	bool service_has; /* the service's own descriptor */
	bool is_there;    /* a byte has been written, and somebody has it */
	u32 nr_had;       /* by others: open, mapped, in messages */
};

struct hold_process {
	u32 task;
	bool runs;               /* it was started or forked */
	bool dead;               /* the kernel has closed all it had */
	u32 has[HOLD_MEMORIES];  /* maps and descriptors */
	u32 sent[HOLD_MEMORIES]; /* in messages to it */
	/* Its request, and the reply. */
	bool asked, answered;
	struct hold_request request;
	enum hold_answer answer;
	u64 number;                /* HOLD_WAIT: of which */
	struct hold_memory *given; /* HOLD_GIVE */
};

struct hold_world {
	const struct hold_case *c;
	struct arena_header headers[HOLD_ARENAS];
	struct file_proof proofs[HOLD_ARENAS];
	u64 disk[HOLD_RANGES * HOLD_WORDS]; /* the file. By host_* */
	u64 calls;                          /* a word that hold_call() looks at */
	struct hold_memory memories[HOLD_MEMORIES];
	struct hold_room room;
	struct hold *first;
	struct hold_process processes[HOLD_PROCESSES];
	u64 last_number;
	/* Pieces that no worker has taken yet, as a stack. */
	struct {
		struct hold_memory *memory;
		u32 piece;
	} jobs[HOLD_MEMORIES * HOLD_PIECES];
	u32 nr_jobs;
	bool service_done;
	/* The lease, its writer, and what the lease thread tells the service. */
	bool break_asked, lease_given_back, writer_open, writer_closed;
	bool again;    /* the file is admitted again */
	u32 again_id;  /* under this id */
	bool broken;   /* the service must outdate the first arena's holds */
	bool unmapped; /* and then it has no such words any more */
	/* Faults. */
	bool disk_errs, mapping_left;
};

extern struct hold_world *hold_world;

void hold_setup(const void *arg);
void hold_finish(const void *arg);

/* Word i of the file. */
static inline u64 hold_truth(u32 version, u64 i)
{
	return (u64)version << 8 | (i + 1);
}

/* A system call: a step at which others may go on. It empties no store buffer. */
void hold_call(void);

/* ---- for setup ---- */

/* A process that runs, or one that hold_fork() starts. */
void hold_process(u32 number, const char *name, u32 cpu, void (*body)(void *),
                  bool runs);

/* ---- for processes: p is the caller's own ---- */

/* lodic_hold() of words [from, to) of the file as version: the memory, or NULL. */
struct hold_memory *hold_take(struct hold_process *p, u32 version, u64 from, u64 to);
/* Another description of hold number. */
struct hold_memory *hold_take_number(struct hold_process *p, u64 number);
/* Waits until the service has read that hold, or given it up. */
void hold_wait(u64 number);
/* Looks at all words of m's range from `from` to `to`. */
void hold_look_at(const struct hold_process *p, const struct hold_memory *m, u64 from,
                  u64 to);
/* munmap() or close(). */
void hold_release(struct hold_process *p, struct hold_memory *m);
void hold_fork(struct hold_process *p, struct hold_process *child);
/* Sends a description to another process; that one receives it, if it comes. */
void hold_send(struct hold_process *p, struct hold_process *to, struct hold_memory *m);
struct hold_memory *hold_receive(struct hold_process *p,
                                 const struct hold_process *from);
/* The kernel's part of a SIGKILL. */
void hold_kill(struct hold_process *p);

bool hold_flag(void *arg);

#endif
