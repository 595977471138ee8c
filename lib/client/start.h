/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Starting the service program, so that a user has nothing to set up. */
#ifndef LODIC_LIB_CLIENT_START_H
#define LODIC_LIB_CLIENT_START_H

#include "lib/client/client.h"

/* What a service that this process starts is told. */
struct start {
	char *program; /* "": start none */
	char *socket_path;
	u64 cache_bytes; /* 0: the service chooses */
	u32 idle_exit_ms;
	u32 scheme; /* enum lodic_scheme */
};

/* The `lodic` that belongs to this library: a string for free(), "" if there is none, NULL
 * without memory. */
char *start_find_program(void);

/* Starts the service; returns when it listens (0) or has failed (-errno). 0 also means
 * that another process's service was faster. */
int start_service(const struct start *start);

#endif
