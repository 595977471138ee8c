/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A program that asks the service by its wire, without the library. A failure ends the test. */
#ifndef LODIC_TESTS_SUPPORT_WIRE_CALLER_H
#define LODIC_TESTS_SUPPORT_WIRE_CALLER_H

#include "lib/wire.h"
#include "tests/support/cache_fixture.h"

/* A connection to the service, and the answer to its last request. */
struct wire_caller {
	int socket;
	u64 cpu; /* what it says of itself; 0 at first */
	struct wire_reply reply;
	int fds[WIRE_MAX_FDS]; /* that came with it; the test closes them */
	unsigned int nr_fds;
};

void caller_connect(struct wire_caller *c, const struct test_service *service);
/* fd: to be sent; -1: none. */
void caller_send(struct wire_caller *c, u32 op, u64 a, u64 b, u64 n, int fd);
/* Both return the reply's error. -ECONNRESET: the service has hung up. */
int caller_receive(struct wire_caller *c);
int caller_ask(struct wire_caller *c, u32 op, u64 a, u64 b, u64 n);

/* Connects, and becomes a reader. */
void caller_hello(struct wire_caller *c, const struct test_service *service);
/* The service's lock file, or -1 with errno. */
int caller_open_lock(const struct test_service *service, int flags);
/* Announces itself as a successor. 0: c is the channel then. */
int caller_succeed(struct wire_caller *c, const struct test_service *service);
/* Opens the file at path, and returns its id. */
u64 caller_open(struct wire_caller *c, const char *path);
struct lodic_stat caller_stat(struct wire_caller *c);
/* Is it one that lib/wire.h, or a call of lodic.h, has a name for? error is positive, or 0. */
bool caller_error_is_named(int error);

/* HOLD_WAIT by a connection of its own, as the library does. */
int caller_wait_settled(const struct test_service *service, u64 number);
/* HOLD, and again until it is there: the descriptor, or -errno. */
int caller_hold(struct wire_caller *c, const struct test_service *service, u64 id,
                u64 offset, u64 n);
/* Has the memory behind fd these bytes of the pattern at its start? */
bool caller_holds_pattern(int fd, u64 file, u64 version, u64 offset, u64 bytes);

/* How many descriptors the service has. */
u32 caller_nr_descriptors(const struct test_service *service);

#endif
