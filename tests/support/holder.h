/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A program that holds ranges of files that others change, and looks at every byte of what it has,
 * all the time. It waits for holds, or asks when they are ready. It passes descriptors on, forks,
 * detaches and keeps what it has, and sometimes calls exec(). The test kills it at any moment.
 *
 * The service that it attaches to is the test's own program once more. A holder starts it, as it
 * would start `lodic`.
 */
#ifndef LODIC_TESTS_SUPPORT_HOLDER_H
#define LODIC_TESTS_SUPPORT_HOLDER_H

#include "tests/support/generations.h"

#define HOLDER_FILES 3u

enum holder_stage { STAGE_REST, STAGE_ASKS, STAGE_WAITS, STAGE_HOLDS, NR_STAGES };
extern const char *const holder_stage_names[NR_STAGES];

/* What a holder has done. In shared memory; only the holder and its children write it. */
struct holder_life {
	u64 progress;
	u64 stage;  /* enum holder_stage */
	u64 has;    /* holds */
	u64 execed; /* it only waits for its death */
	u64 began, ready, refused, given_up;
	u64 looks, words, outlived; /* outlived: looks at what its file shows no more */
	u64 forks, execs, descriptors, detached;
	u64 wrong;
};

/* What all holders share. */
struct holder_world {
	char socket[FIXTURE_PATH_BYTES];
	struct gen_file files[HOLDER_FILES]; /* in shared memory, with the world */
	bool resized; /* the cache may be too small for a hold */
};

/* A test's main() calls it first. It does not return in the service, nor in a holder that has
 * called exec(). options.place.socket is set here. The service writes to SOCKET.log: s when it is
 * ready, e when it ends in order, L when it has leaked. */
void holder_begin_program(int argc, char **argv, struct service_options *options);
/* How often does SOCKET.log have this letter? */
u64 holder_log_count(const struct holder_world *world, char letter);

/* Attaches and detaches, so that there is a service. */
void holder_start_service(struct holder_world *world);
/* A child runs it until it is killed. birth numbers its random choices. */
_Noreturn void holder_run(struct holder_world *world, struct holder_life *life,
                          u64 birth);

#endif
