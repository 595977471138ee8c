/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Starting the service program, so that a user has nothing to set up. */
#ifndef LODIC_LIB_CLIENT_START_H
#define LODIC_LIB_CLIENT_START_H

#include "lib/client/error.h"

/* What a service that this process starts is told. */
struct start {
	char *program;     /* "": start none */
	char *socket_path; /* NULL: the default one of the user that it runs as */
	u32 trusted; /* a user whose service may listen there, beside this process's */
	/* 0: what the service's own settings say, see lib/settings.h. */
	u64 cache_bytes, hold_bytes;
	u32 idle_exit_ms;
	u32 scheme;  /* enum lodic_scheme */
	u32 wait_ms; /* how long start_service() waits for the service; 0: not at all */
	/* It becomes this user, and keeps the right to lease files of others (CAP_LEASE). */
	bool for_user;
	u32 user;
};

/* The `lodic` that belongs to this library: a string for port_free(), "" if there is none, NULL
 * without memory. */
char *start_find_program(void);

/* Why a service does not start. */
struct start_failure {
	enum lodic_reason reason;
	char words[ERROR_WORDS_BYTES]; /* the last ones of the service; "": none */
};

/* Starts the service; returns when it listens (0) or has failed (-errno). Without wait_ms it
 * returns when the program has been executed. 0 also means that another process's service was
 * faster. The service is no child of this process, unless this process collects orphans
 * (PR_SET_CHILD_SUBREAPER, or process 1). ret is set if the call fails.
 * -ETIMEDOUT: it has not said within wait_ms how it fares; it may still come up.
 * -ECONNRESET: the program has ended, and has not said which errno is to blame. */
int start_service(const struct start *start, struct start_failure *ret);

#endif
