/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One call at a time through io_uring, by raw system calls. A read that would block goes on
 * in a worker thread of the same process, so references are taken and given back there.
 */
#ifndef LODIC_TESTS_URING_H
#define LODIC_TESTS_URING_H

#include "base.h"

#include <linux/io_uring.h>

struct uring {
	int fd;
	size_t ring_bytes;
	char *ring; /* both queues' heads, tails and the completions */
	struct io_uring_sqe *sqe;
	struct io_uring_params params;
	bool async; /* every second read is sent to a worker at once */
};

/* Returns 0 or -errno. */
int uring_open(struct uring *r);

void uring_close(struct uring *r);

/* Carries one entry out and waits for its end. Returns its result, or -errno. */
ssize_t uring_run(struct uring *r, const struct io_uring_sqe *sqe);

/* Reads as pread() does. Returns bytes or -errno. */
ssize_t uring_read(struct uring *r, int fd, void *to, size_t len, u64 offset);

#endif
