/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The processes of a run in chaos: programs, which are started again when they have died, commands
 * of `lodic`, and services. A service that a program started becomes a child of this process.
 */
#ifndef LODIC_TESTS_CHAOS_CREW_H
#define LODIC_TESTS_CHAOS_CREW_H

#include "tests/chaos/chaos.h"

#define NR_CLIENTS (CHAOS_WATCHERS + CHAOS_HOLDERS + CHAOS_SHIMS + 2)
#define MOST_SERVICES 16u
#define MOST_COMMANDS 24u

struct client {
	enum chaos_role role;
	u32 number;
	pid_t pid;    /* 0: it does not run */
	bool doomed;  /* it has been killed here */
	u64 go_on_ns; /* it is stopped until then; 0: it is not */
};

struct command {
	pid_t pid; /* 0: none */
	const char *what;
	u64 since_ns;
};

extern struct crew {
	struct chaos_world *world;
	char world_path[FIXTURE_PATH_BYTES];
	char log_path[FIXTURE_PATH_BYTES]; /* what services and commands say */
	char self[256];                    /* this program */
	struct client clients[NR_CLIENTS];
	struct command commands[MOST_COMMANDS];
	pid_t frozen;  /* the service that is stopped; 0: none */
	u64 frozen_ns; /* until then */
	u64 births;    /* programs started */
	u64 failed;    /* whatever should not have happened, but for wrong bytes */
} crew;

void crew_fail(const char *what, const char *which, int status);
void crew_client_start(struct client *c);
/* Collects who has ended. A program that nobody killed has failed, and so has one that crashed. */
void crew_collect(void);
/* `lodic COMMAND --socket S MORE...`; nobody waits for it. The last argument is NULL. */
void crew_command(const char *const *arguments);
#define COMMAND(...) crew_command((const char *const[]){ __VA_ARGS__, NULL })
/* All services that run: one may be about to take another's place. Returns how many. */
u32 crew_services(pid_t found[MOST_SERVICES]);
/* Prints what the kernel tells of a process. */
void crew_show(pid_t pid);

#endif
