/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A library that is linked to liburing, as a plugin of a program may be. It closes a file's
 * descriptor and opens another file by a ring, so that no function of libc is called.
 */
#include <fcntl.h>
#include <liburing.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))
#define ENTRIES 8

EXPORT void *ring_make(const char *how);
EXPORT int ring_replace(void *ring, int fd, const char *path);

static void *early_ring;

/* how: "init", "params" or "setup"; "early": the one that was made before main(). NULL: this kernel
 * has no rings, or they are forbidden. */
EXPORT void *ring_make(const char *how)
{
	struct io_uring *ring = how[0] == 'e' ? early_ring : calloc(1, sizeof(*ring));
	struct io_uring_params params = { 0 };
	int error = -1, fd;

	if (how[0] == 'e')
		return ring;
	if (how[0] == 'i') {
		error = io_uring_queue_init(ENTRIES, ring, 0);
	} else if (how[0] == 'p') {
		error = io_uring_queue_init_params(ENTRIES, ring, &params);
	} else {
		fd = io_uring_setup(ENTRIES, &params);
		if (fd >= 0)
			error = io_uring_queue_mmap(fd, &params, ring);
		/* Some versions of the library leave these to the caller. */
		ring->enter_ring_fd = fd;
		for (unsigned int i = 0; error == 0 && i < params.sq_entries; i++)
			ring->sq.array[i] = i;
	}
	if (!error)
		return ring;
	free(ring);
	return NULL;
}

__attribute__((constructor)) static void ring_start(void)
{
	if (getenv("RING_EARLY"))
		early_ring = ring_make("init");
}

static int result(struct io_uring *ring)
{
	struct io_uring_cqe *end;
	int value;

	io_uring_submit(ring);
	if (io_uring_wait_cqe(ring, &end) != 0)
		return -1;
	value = end->res;
	io_uring_cqe_seen(ring, end);
	return value;
}

/* Returns the new descriptor. */
EXPORT int ring_replace(void *arg, int fd, const char *path)
{
	struct io_uring *ring = arg;

	io_uring_prep_close(io_uring_get_sqe(ring), fd);
	if (result(ring) != 0)
		return -1;
	io_uring_prep_openat(io_uring_get_sqe(ring), AT_FDCWD, path, O_RDONLY, 0);
	return result(ring);
}
