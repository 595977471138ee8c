/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A reader that never stays. In each visit it attaches, reads and pins in two threads, and
 * forks a child that reads and exits. Then it goes: half of the time in order, else by exec()
 * with everything open. It compares all that it reads with pread(2).
 */
#ifndef LODIC_TESTS_SUPPORT_VISITOR_H
#define LODIC_TESTS_SUPPORT_VISITOR_H

#include "tests/support/cache_fixture.h"

struct visitor_tally {
	u64 stop; /* the test writes */
	u64 visits, execs, pins, wrong;
};

struct visitor {
	struct visitor_tally *tally;
	int tally_fd;
	pid_t pid;
};

/* Starts a visitor of the service that reads the file at path, which nobody changes. */
void visitor_start(struct visitor *v, const struct test_service *service,
                   const char *path);
/* Waits until it has pinned and called exec(), and has gone. The service must be there, with
 * room for its pins. The test fails when the visitor hangs, or when a byte was wrong. */
void visitor_stop(struct visitor *v);
/* A test's main() calls it first: it does not return in a visitor that has called exec(). */
void visitor_begin(int argc, char **argv);

#endif
