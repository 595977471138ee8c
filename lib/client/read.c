/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Reading. The fast path serves one block, or a piece of one, from the arena without a
 * system call; everything else is the slow path below it: many blocks, misses, the end of
 * the file, a file that is not cached, a service that has gone.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/client/client.h"

/* A stretch of blocks that were not in the cache. */
struct gap {
	u64 from, to; /* byte offsets in the file */
};

void context_post(struct seat *seat, u64 block, u64 nr)
{
	u64 one = 1;

	if (context_hint(&seat->core, seat->segment->arena.header, block, nr) &&
	    write(seat->segment->wake, &one, sizeof(one)) < 0)
		return; /* a full eventfd has woken it already */
}

static void count_miss(struct lodic_context *context, u64 nr)
{
	u64 *p = context->seat->generation == GENERATION_NONE
	                 ? &context->past[CONTEXT_MISSES]
	                 : &context->seat->core.memory->counters[CONTEXT_MISSES];

	host_store_relaxed(p, host_load_relaxed(p) + nr);
}

static ssize_t read_kernel(struct lodic_context *context, struct lodic_file *file,
                           void *buffer, size_t n, off_t offset)
{
	ssize_t got = pread(file->fd, buffer, n, offset);

	count_miss(context,
	           ((u64)offset % BLOCK_BYTES + n + BLOCK_BYTES - 1) / BLOCK_BYTES);
	return got < 0 ? -errno : got;
}

/* Fills a gap from the kernel and asks the service for its blocks. */
static bool gap_fill(struct lodic_context *context, struct lodic_file *file, u32 id,
                     struct gap *gap, u8 *to)
{
	u64 first = gap->from >> BLOCK_SHIFT;
	u64 nr = ((gap->to - 1) >> BLOCK_SHIFT) - first + 1;
	u64 bytes = gap->to - gap->from;
	ssize_t got;

	if (bytes == 0)
		return true;
	context_post(context->seat, block_id(id, (u32)first), nr);
	got = pread(file->fd, to, bytes, (off_t)gap->from);
	count_miss(context, nr);
	gap->from = gap->to;
	/* Short only if the file has changed: then the proof has gone too. */
	return got == (ssize_t)bytes;
}

/* Copies [offset, offset + n), all of it inside the file; ret_hits: blocks that came from
 * the cache, if context_vouch() agrees. false: do it by the kernel. */
static bool read_blocks(struct lodic_context *context, struct lodic_file *file,
                        const struct claim *claim, u8 *to, u64 n, u64 offset,
                        u64 *ret_hits)
{
	struct gap gap = { offset, offset };
	u64 end = offset + n;
	u64 at, hits = 0;
	u32 within, bytes;

	for (at = offset; at < end; at += bytes) {
		within = (u32)(at % BLOCK_BYTES);
		bytes = (u32)(BLOCK_BYTES - within);
		if (bytes > end - at)
			bytes = (u32)(end - at);
		if (!context_read(&context->seat->core,
		                  claim->first + (at >> BLOCK_SHIFT), within,
		                  to + (at - offset), bytes)) {
			gap.to = at + bytes;
			continue;
		}
		hits++;
		if (!gap_fill(context, file, claim->id, &gap, to + (gap.from - offset)))
			return false;
		gap.from = gap.to = at + bytes;
	}
	if (!gap_fill(context, file, claim->id, &gap, to + (gap.from - offset)))
		return false;
	*ret_hits = hits;
	return true;
}

static __attribute__((noinline)) ssize_t read_slow(struct lodic_context *context,
                                                   struct lodic_file *file,
                                                   void *buffer, size_t n, off_t offset)
{
	const struct claim *claim;
	struct seat *seat;
	u64 *counter;
	u64 inside, hits;

	if (offset < 0)
		return -EINVAL;
	claim = file_tie(context, file);
	if (!claim)
		return read_kernel(context, file, buffer, n, offset);
	seat = context->seat;
	inside = (u64)offset < claim->size ? claim->size - (u64)offset : 0;
	if (inside > n)
		inside = n;
	if (!read_blocks(context, file, claim, buffer, inside, (u64)offset, &hits) ||
	    !context_vouch(&seat->core, claim->space, claim->id))
		return read_kernel(context, file, buffer, n, offset);
	counter = &seat->core.memory->counters[CONTEXT_HITS];
	host_store_relaxed(counter, host_load_relaxed(counter) + hits);
	return (ssize_t)inside;
}

/* The fast path. It calls nothing on the way (but memcpy, when n is large), and after the
 * first line goes by seat and claim alone, so that it needs few registers and saves none. */
static inline __attribute__((always_inline)) ssize_t
read_block(struct lodic_context *context, struct lodic_file *file, void *buffer,
           size_t n, off_t offset)
{
	struct seat *seat = context->seat;
	const struct claim *claim = file_claim(file);
	u32 within = (u32)offset % BLOCK_BYTES;

	if (unlikely(claim->generation != seat->generation))
		return read_slow(context, file, buffer, n, offset);
	/* One block; wholly inside the file (a negative offset is a huge one here);
	 * cached; and all that was still true afterwards. */
	if (unlikely(n > BLOCK_BYTES - within || (u64)offset + n > claim->size ||
	             !context_read_home(&seat->core,
	                                claim->first + ((u64)offset >> BLOCK_SHIFT),
	                                within, buffer, (u32)n) ||
	             !context_vouch(&seat->core, claim->space, claim->id)))
		return read_slow(seat->context, claim->file, buffer, n, offset);
	context_bump(&seat->core, CONTEXT_HITS);
	return (ssize_t)n;
}

static __attribute__((noinline)) ssize_t read_wide(struct lodic_context *context,
                                                   struct lodic_file *file,
                                                   void *buffer, size_t n, off_t offset)
{
	return read_block(context, file, buffer, n, offset);
}

EXPORT ssize_t lodic_read(struct lodic_context *context, struct lodic_file *file,
                          void *buffer, size_t n, off_t offset)
{
	/* Twice the same code: but without a call to memcpy it needs no stack. */
	if (n <= HOST_COPY_INLINE)
		return read_block(context, file, buffer, n, offset);
	return read_wide(context, file, buffer, n, offset);
}

EXPORT ssize_t lodic_readv(struct lodic_context *context, struct lodic_file *file,
                           const struct iovec *vectors, int nr_vectors, off_t offset)
{
	ssize_t total = 0;

	if (nr_vectors < 0 || nr_vectors > IOV_MAX || (nr_vectors > 0 && !vectors))
		return -EINVAL;
	for (int i = 0; i < nr_vectors; i++) {
		ssize_t got = lodic_read(context, file, vectors[i].iov_base,
		                         vectors[i].iov_len, offset + total);

		if (got < 0)
			return total > 0 ? total : got;
		total += got;
		if ((size_t)got < vectors[i].iov_len)
			break;
	}
	return total;
}
