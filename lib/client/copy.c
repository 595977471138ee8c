/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See copy.h. */
#include <errno.h>

#include "lib/client/copy.h"
#include "lib/port.h"

/* The first page of a chunk. */
struct copy_chunk {
	u64 users; /* atomic: its copies, and 1 while it is the current one */
	u64 given; /* bytes from its start on; only copy_alloc() looks */
};

static u64 copy_round_up(u64 n)
{
	return (n + port_page_bytes() - 1) & ~(port_page_bytes() - 1);
}

static struct copy_chunk *copy_chunk_make(void)
{
	struct copy_chunk *chunk;
	void *at;

	if (port_map(NULL, COPY_CHUNK_BYTES, PORT_READ | PORT_WRITE,
	             PORT_PRIVATE | PORT_ANONYMOUS | PORT_UNRESERVED, -1, 0, &at) != 0)
		return NULL;
	/* The kernel would fill a huge page up with what has been given back already. */
	port_advise(at, COPY_CHUNK_BYTES, PORT_SMALL_PAGES);
	chunk = at;
	chunk->users = 1;
	chunk->given = port_page_bytes();
	return chunk;
}

/* The last one unmaps it. The atomic step is a full fence on both sides. So what each user has
 * done with the chunk, its PORT_DROP too, comes before that. */
static void copy_chunk_put(struct copy_chunk *chunk)
{
	if (host_fetch_add(&chunk->users, -(u64)1) == 1)
		port_unmap(chunk, COPY_CHUNK_BYTES);
}

int copy_alloc(struct copies *copies, u64 bytes, u64 within, struct copy *ret_copy)
{
	u64 room = copy_round_up(within + bytes);
	struct copy_chunk *chunk = copies->current;

	if (!chunk || chunk->given + room > COPY_CHUNK_BYTES) {
		chunk = copy_chunk_make();
		if (!chunk)
			return -ENOMEM;
		copy_end(copies);
		copies->current = chunk;
	}
	ret_copy->chunk = chunk;
	ret_copy->at = (u8 *)chunk + chunk->given + within;
	ret_copy->bytes = bytes;
	chunk->given += room;
	host_fetch_add(&chunk->users, 1);
	return 0;
}

void copy_free(struct copy *copy)
{
	u64 within = (u64)(uintptr_t)copy->at % port_page_bytes();
	u8 *from = copy->at - within;
	u64 bytes = copy_round_up(within + copy->bytes);

	/* Locked memory (mlockall) needs the other advice; before Linux 5.18 it goes with its
	 * chunk only. */
	if (port_advise(from, bytes, PORT_DROP) == -EINVAL)
		port_advise(from, bytes, PORT_DROP_LOCKED);
	copy_chunk_put(copy->chunk);
}

void copy_end(struct copies *copies)
{
	if (copies->current)
		copy_chunk_put(copies->current);
	copies->current = NULL;
}

static int copy_write(const struct copy *copy, int fd, u64 at)
{
	u64 done = 0;
	int64_t n;

	/* Ends: each turn writes something, or a signal has come. */
	while (done < copy->bytes) {
		n = port_write(fd, copy->at + done, copy->bytes - done, at + done);
		if (n > 0)
			done += (u64)n;
		else if (n != -EINTR)
			return n < 0 && n != -ENOSPC ? (int)n : -ENOMEM;
	}
	return port_seal(fd, PORT_SEAL_WRITE | PORT_SEAL_SHRINK | PORT_SEAL_GROW |
	                             PORT_SEAL_SEALS);
}

int copy_descriptor(const struct copy *copy, int *ret_fd, u64 *ret_at)
{
	u64 within = (u64)(uintptr_t)copy->at % port_page_bytes();
	int writer, fd, err;

	writer = port_memory_file("lodic-hold");
	if (writer < 0)
		return writer;
	err = copy_write(copy, writer, within);
	/* Before Linux 6.7 mmap(2) refuses the description that made it. */
	fd = err ? err : port_reopen(writer);
	port_close(writer);
	if (fd < 0)
		return !err && fd == -ENOENT ? -EOPNOTSUPP : fd;
	*ret_fd = fd;
	*ret_at = within;
	return 0;
}
