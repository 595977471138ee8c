/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the files of the shim of `lodic run` speak of. Rules: run.h. */
#ifndef LODIC_PRELOAD_RUN_STATE_H
#define LODIC_PRELOAD_RUN_STATE_H

#include <stdbool.h>

#include "lib/client/lent.h"
#include "preload/fds.h"
#include "preload/run_seen.h"
#include "preload/shim.h"

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
	u64 alone; /* nobody listens at the socket; atomic */
	u64 refusal; /* why the service lets this process read nothing: an errno; atomic */
	u64 leaving; /* threads that are changing the program's rights: U23; atomic */
	u64 inside;  /* threads that may make system calls: U19; atomic */
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

/* The file that the slot names. */
static inline struct run_file *run_file_of(u64 slot)
{
	return &shim.run.state->files[fds_index(slot)];
}

/* For the report: a read, or a mapping. */
struct run_noted {
	int fd;
	bool known;        /* dev and ino are: it is a regular file */
	uint64_t dev, ino; /* the function finds them if not */
	int64_t offset;
	uint64_t bytes;
	enum run_why why;
	int error;
	uint64_t ns; /* what it took; 0: nobody has looked */
	bool map;    /* it is a mapping, and not a read */
	bool moved;  /* it was counted as was, and is as why from now on */
	enum run_why was;
};

/* A mapping of a file, as the program asks for it. */
struct run_mapping {
	void *address;
	size_t bytes;
	int protection, flags; /* for port_map(), as the program has them */
	int fd;
	int64_t offset;
	int kind;    /* PORT_SHARED, PORT_PRIVATE, or 0: another one */
	bool placed; /* address is where it must lie */
	bool usual; /* no other flag changes anything for a mapping that can only be read */
	int error; /* for RUN_REFUSED: an errno */
};

/* What the kernel reads for want of the cache: the shim's next step says so to the service. */
struct run_missed {
	u64 offset, bytes;
};

#endif
