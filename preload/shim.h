/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * All that the shim remembers outside of the tables of struct run_state and struct map_state: one
 * struct of a process, and one of each thread. Constants apart, the shim has no other variable.
 *
 * Three kinds of memory differ after a fork():
 *
 *   struct shim          the child has its parent's, and changes what is no longer true
 *                        (run_forked())
 *   struct shim_thread   the same, for the one thread of the child; a child of vfork() runs on
 *                        that of its parent (U18)
 *   the tables           the kernel wipes them in the child (fds.h)
 *
 * Each member says who writes it, and how it is read:
 *
 *   once      a constructor writes it, before the program has threads. All read it as it is.
 *   locked    the lock of the table (fds_lock()), for reads as well.
 *   atomic    any thread, by host_load_*() and host_store_*().
 *
 * The struct is zeroed, and must stay so: anything else would be part of the library's file.
 */
#ifndef LODIC_PRELOAD_SHIM_H
#define LODIC_PRELOAD_SHIM_H

#include <stdbool.h>
#include <stddef.h>

#include "host/host.h"
#include "lib/port.h"
#include "preload/map_environment.h"
#include "preload/next_names.h"
#include "preload/run_environment.h"
#include "preload/run_seen.h"

/* What every read looks at, in one line. */
struct shim_run {
	struct run_state *state; /* once (NULL: `lodic run` is not at work here) */
	u64 nr_places;           /* in shim.places. Atomic, written under the lock. */
	u64 filtered; /* atomic, only set: under a filter the shim makes no system call */
	u64 stopped; /* the same: run_stop() was called, perhaps before the constructor */
	u64 gone; /* the same, under the lock: the process has given up rights (U25) */
	bool records, reports; /* once */
	bool watches; /* once: for `lodic doctor` it counts, and serves nothing */
} __attribute__((aligned(64)));

/* next.c */
struct shim_next {
	u64 found[NEXT_NR]; /* atomic: functions as numbers; 0: not looked for yet */
};

/* map_options.c */
struct shim_map_options {
	u64 budget_bytes;
	u64 min_reads;
	char include[MAP_TEXT_BYTES]; /* globs, a line each; none: all */
	char exclude[MAP_TEXT_BYTES];
	char report[MAP_TEXT_BYTES]; /* none: stderr */
	bool json;
	bool verbose;
	bool kernel_has_lodic;
};

struct shim_map {
	struct map_state *state; /* once (NULL: `lodic map` is not at work here) */
	struct shim_map_options options; /* once */
};

/* fds.c */
struct shim_fds {
	struct fds *table;    /* once: of `lodic map` or of `lodic run` */
	bool (*forked)(void); /* once: fds_state()'s */
};

/* own.c: the shim's own descriptors. A child must close its copies, so it keeps the list. */
#define OWN_NR 64u /* a thread that has not read since the shim left keeps an event */
struct shim_own {
	struct {
		u64 fd;       /* atomic: 1 more than its number; 0: none */
		u64 dev, ino; /* of its file; OWN_LOST in dev: it is lost */
		u64 kept;     /* own_keep() */
	} list[OWN_NR];
	u64 nr; /* atomic: places from here on were never used */
};

/* line.c; locked. */
#define LINE_NAME_BYTES 64u
/* A path, with every byte escaped, and what stands around it. */
#define LINE_BYTES (8u * 4096)
#define LINE_STATUS_BYTES 4096u
struct shim_line {
	char program[LINE_NAME_BYTES]; /* once: the program's name */
	struct port_file first_stderr; /* once: what descriptor 2 is at the start */
	char text[LINE_BYTES];
	size_t text_n;
	bool nobody_reads; /* a write has waited for its reader in vain */
	bool said;         /* that the report's file is not complete */
	char status[LINE_STATUS_BYTES];
};

/* hooks_exec.c, loader.c; once. */
#define EXEC_PATH_BYTES 1024u
struct shim_exec {
	char own_path[EXEC_PATH_BYTES]; /* as LD_PRELOAD names it; "": it does not */
	const char *own_loader;         /* NULL: not known */
};

/* run_leave.c */
#define LEAVE_SOCKET_BYTES 108 /* a socket's path, with its end */
struct shim_leave {
	char first_socket[LEAVE_SOCKET_BYTES]; /* once ("": too long, or none) */
	char program[RUN_TEXT_BYTES];          /* once: `lodic` itself; "": not known */
	u64 memory_bytes; /* once: of services that are started; 0: by their settings */
	bool by_default; /* once: the socket is that of the user that the program runs as */
	u32 first_user;              /* once: the user of `lodic run` */
	u32 trusted; /* once: whose service that user believes, too, or LENT_NO_USER */
	char socket[RUN_TEXT_BYTES]; /* the service's now; locked */
};

/* run_map.c */
struct shim_mapping {
	bool on;     /* once: mmap() is served */
	u64 read_ns; /* once: it waits so long while the service reads */
	char promised[RUN_TEXT_BYTES]; /* once: globs, a line each */
	char path[RUN_TEXT_BYTES];     /* locked */
};

/* run_place.c. A forked child keeps them: PLACE_AS_IT_WAS finds what was half written. */
/* Each takes 136 bytes of memory once it is used. Our choice. */
#ifndef PLACES
#define PLACES 4096u
#endif
#define PLACE_SHOWN_BYTES 4096u
struct place {
	u64 at, bytes; /* whole pages; 0: free */
	u64 offset;
	u64 dev, ino;             /* of the file */
	u64 shown_dev, shown_ino; /* of what is mapped there */
	u64 name; /* of its file in the shim's table; 0: not looked for yet */
	u64 file;
	u64 id;   /* LENT: the file's at the service when the hold was read */
	u64 turn; /* lent_hold()'s */
	u64 again_ns, pause_ns, back_ns;
	int fd;
	int kind; /* as in struct run_mapping */
	bool lent;
	bool counted; /* in this process's report, as why */
	enum run_why why;
};

struct shim_places {
	struct place list[PLACES]; /* locked */
	u32 top;                   /* locked: no place from here on was ever used */
	u32 first; /* locked: it is asked about first, as an answer may be on its way */
	char shown[PLACE_SHOWN_BYTES]; /* locked: what the system says of mappings */
	u64 lowest, highest; /* all lie between; atomic, written under the lock */
	u64 look_at_ns;      /* the same */
};

/* run_record.c */
struct shim_record {
	struct recorded_head *head; /* once: the record, where all processes write */
	struct recorded *events;    /* once */
	u8 *has_memory;  /* atomic, by chunk: this process has asked for it */
	u64 *open_files; /* atomic, by descriptor: the file's number, or 0 */
	u64 top;         /* atomic: no descriptor from here on was open */
	u64 pid;         /* once, and in a forked child */
	bool says_end;   /* this process has found that the record ends; any thread */
};

/* run_report.c, run_print.c */
struct shim_report {
	/* Of this process. The kernel wipes it in a child, or the child gets another one. */
	struct seen_process *process; /* once: the counts in it are atomic */
	struct seen *seen;            /* once: its files */
	char path[RUN_TEXT_BYTES];    /* once ("": stderr) */
	/* The same, opened while the program might: 1 more than its number; 0: not yet. Only the
	 * thread that changes the program's rights writes it. */
	int fd;
	char folder[RUN_TEXT_BYTES]; /* once: for `lodic doctor`; "": not for it */
	bool json, every_file;       /* once */
	u64 reported_pid;            /* locked: the process that has reported */
	struct run_totals *totals;   /* once (NULL: there are none) */
	int totals_id;               /* once */
	/* The program that the user named, or one that it has become. Locked, and in a child. */
	bool is_first;
	u64 next_stripe;             /* atomic */
	struct seen_counts all;      /* locked: the sums of one report */
	u64 weights[SEEN_FILES + 1]; /* locked: of its files */

	/* For `lodic doctor`: a bit for each block that was read. Atomic, as the next three. */
	u64 *bits[SEEN_FILES];
	u64 bits_pid;         /* the process that they are of */
	u8 there[SEEN_FILES]; /* of seen: memory_is_there() has said so */
	u64 *ends; /* of each descriptor: where its last read by offset has ended */
};

struct shim {
	struct shim_run run;
	struct shim_next next;
	struct shim_fds fds;
	struct shim_own own;
	struct shim_exec exec;
	u64 has_ring; /* hooks_uring.c: the process may have one of io_uring; atomic */
	struct port_word reader_word; /* run_threads.c; once */
	struct shim_map map;
	struct shim_line line;
	struct shim_leave leave;
	struct shim_mapping mapping;
	struct shim_record record;
	struct shim_report report;
	struct shim_places places;
};

/* Only the thread itself reads and writes it, in signal handlers, too. */
struct shim_thread {
	/* run_threads.c */
	struct run_reader *reader; /* what it reads by; NULL: nothing now */
	u64 reader_pid; /* the process that it is of: after fork() another one */
	bool over;      /* the thread ends, and gets no reader any more */
	/* run.c. For `lodic doctor`: when the read began whose time is taken; 0: it is not. */
	u64 timed_ns;
	u32 nr_timed;
	/* run_record.c */
	u16 recorded_as;      /* from 1 on; 0: no number yet */
	u64 last_ns, read_ns; /* of its CPU time: at its last event; before a read */
	/* run_report.c, map_report.c: 1 more than the number of its stripe; 0: none yet */
	u32 report_stripe, map_stripe;
	u32 map_ticks; /* map.c */
};

extern struct shim shim;
extern __thread struct shim_thread shim_thread;

#endif
