/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A service that is none, in the same thread as the program that asks it. It answers each request
 * as soon as that is sent, so that the same seed makes the same run. For that the program is linked
 * with --wrap=wire_send (tests/fuzz/meson.build).
 */
#ifndef LODIC_TESTS_FUZZ_PEER_H
#define LODIC_TESTS_FUZZ_PEER_H

#include "lib/wire.h"
#include "tests/support/cache_fixture.h"

/* What the peer answers; the program fills it in. */
struct peer_answer {
	struct wire_page page; /* the reply, and records behind it */
	u64 bytes;             /* to send of it */
	int fds[WIRE_MAX_FDS]; /* the program keeps them */
	u32 nr_fds;
	bool hangs_up; /* instead */
};

/* Listens at path. answer() is called with each request that came whole. */
void peer_listen(const char *path, void (*answer)(const struct wire_request *request,
                                                  struct peer_answer *ret));
/* Hangs up on everybody. */
void peer_reset(void);

#endif
