/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Memory for small holds: copies of a range, in this process. Many of them share a chunk, so
 * that a million copies need few mappings and no descriptor.
 *
 *   chunk: | head | copy | copy | ... | not given yet |      each piece is whole pages
 *
 * Rules
 * - Pages are given in order, and never a second time. copy_free() gives them back to the
 *   kernel. So MSG_ZEROCOPY and vmsplice(2) may have them. A socket or a pipe counts the
 *   physical page, and the kernel gives that to nobody else while it is counted. If a place
 *   were given again, the next copy would change what the kernel still has to send.
 * - A chunk goes when it is full and each of its copies is freed. Its count of users says so:
 *   each copy is one, and the chunk's being the current one is another.
 * - copy_free() takes no lock and never waits. So it may run in a forked child, whose parent
 *   had other threads. The child has chunks of its own: the kernel has copied them.
 */
#ifndef LODIC_LIB_CLIENT_COPY_H
#define LODIC_LIB_CLIENT_COPY_H

#include "lib/client/client.h"

/* Our choice: a million copies of a page each need 245 of them. */
#define COPY_CHUNK_BYTES ((u64)16 << 20)
/* The largest range that is copied is below this. */
#define COPY_LIMIT_BYTES ((u64)1 << 20)

struct copy_chunk;

/* An attachment's chunk for the next copies. */
struct copies {
	struct copy_chunk *current; /* NULL: none yet */
};

struct copy {
	struct copy_chunk *chunk;
	u8 *at;
	u64 bytes;
};

/* Gives zeroed memory for bytes bytes, below COPY_LIMIT_BYTES. They begin at within in their
 * page. One thread at a time may call it. -ENOMEM: there is no memory, or no room for another
 * mapping. */
int copy_alloc(struct copies *copies, u64 bytes, u64 within, struct copy *ret_copy);
/* Gives the memory back. Any thread may call it, also in a forked child, and after
 * copy_end(). */
void copy_free(struct copy *copy);
/* No further copy will be made. */
void copy_end(struct copies *copies);

/* A memfd with the same bytes at the same place in a page, which is ret_at. It cannot change,
 * and the descriptor can only be read. -EOPNOTSUPP: there is no /proc. -EMFILE, -ENFILE,
 * -ENOMEM, or what else memfd_create(2) says. */
int copy_descriptor(const struct copy *copy, int *ret_fd, u64 *ret_at);

#endif
