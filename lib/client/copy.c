/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See copy.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/client/copy.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* The first page of a chunk. */
struct copy_chunk {
	u64 users; /* atomic: its copies, and 1 while it is the current one */
	u64 given; /* bytes from its start on; only copy_alloc() looks */
};

static u64 copy_page_bytes(void)
{
	return (u64)sysconf(_SC_PAGESIZE);
}

static u64 copy_round_up(u64 n)
{
	return (n + copy_page_bytes() - 1) & ~(copy_page_bytes() - 1);
}

static struct copy_chunk *copy_chunk_make(void)
{
	struct copy_chunk *chunk =
		mmap(NULL, COPY_CHUNK_BYTES, PROT_READ | PROT_WRITE,
	             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (chunk == MAP_FAILED)
		return NULL;
	/* The kernel would fill a huge page up with what has been given back already. */
	madvise(chunk, COPY_CHUNK_BYTES, MADV_NOHUGEPAGE);
	chunk->users = 1;
	chunk->given = copy_page_bytes();
	return chunk;
}

/* The last one unmaps it. The atomic step is a full fence on both sides: what each user has
 * done with the chunk, its madvise(2) too, comes before the munmap(2). */
static void copy_chunk_put(struct copy_chunk *chunk)
{
	if (host_fetch_add(&chunk->users, -(u64)1) == 1)
		munmap(chunk, COPY_CHUNK_BYTES);
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
	u64 within = (u64)(uintptr_t)copy->at % copy_page_bytes();
	u8 *from = copy->at - within;
	u64 bytes = copy_round_up(within + copy->bytes);

	/* Locked memory (mlockall) needs the other advice; before Linux 5.18 it goes with its
	 * chunk only. */
	if (madvise(from, bytes, MADV_DONTNEED) != 0 && errno == EINVAL)
		madvise(from, bytes, MADV_DONTNEED_LOCKED);
	copy_chunk_put(copy->chunk);
}

void copy_end(struct copies *copies)
{
	if (copies->current)
		copy_chunk_put(copies->current);
	copies->current = NULL;
}

static int copy_write(const struct copy *copy, int fd, off_t at)
{
	u64 done = 0;
	ssize_t n;

	/* Ends: each turn writes something, or a signal has come. */
	while (done < copy->bytes) {
		n = pwrite(fd, copy->at + done, copy->bytes - done, at + (off_t)done);
		if (n > 0)
			done += (u64)n;
		else if (n == 0 || errno != EINTR)
			return n < 0 && errno != ENOSPC ? -errno : -ENOMEM;
	}
	if (fcntl(fd, F_ADD_SEALS,
	          F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
		return -errno;
	return 0;
}

int copy_descriptor(const struct copy *copy, int *ret_fd, u64 *ret_at)
{
	u64 within = (u64)(uintptr_t)copy->at % copy_page_bytes();
	char path[32];
	int writer, fd, err;

	writer = memfd_create("lodic-hold",
	                      MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	if (writer < 0 && errno == EINVAL) /* before Linux 6.3 */
		writer = memfd_create("lodic-hold", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (writer < 0)
		return -errno;
	err = copy_write(copy, writer, (off_t)within);
	if (!err) {
		/* Before Linux 6.7 mmap(2) refuses the description that made it. */
		snprintf(path, sizeof(path), "/proc/self/fd/%d", writer);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		err = fd >= 0 ? 0 : errno == ENOENT ? -EOPNOTSUPP : -errno;
	}
	close(writer);
	if (err)
		return err;
	*ret_fd = fd;
	*ret_at = within;
	return 0;
}
