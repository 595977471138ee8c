/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Reading. The fast path serves one block, or a piece of one, from the arena without a
 * system call. The slow path does everything else: many blocks, misses, the end of the file,
 * a file that is not cached, a service that has gone.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>

#include "lib/client/file.h"
#include "lib/client/layout.h"
#include "lib/port.h"

/* The read under way, for what is not cached. */
struct gap_reader {
	struct lodic_context *context;
	struct lodic_file *file;
	u32 id;
};

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
	ssize_t got = port_read(file->fd, buffer, n, (u64)offset);

	count_miss(context,
	           ((u64)offset % BLOCK_BYTES + n + BLOCK_BYTES - 1) / BLOCK_BYTES);
	return got;
}

/* Reads [offset, offset + n) from the kernel, and asks the service for its blocks. */
static bool gap_fill(void *ctx, u8 *to, u64 n, u64 offset)
{
	const struct gap_reader *g = ctx;
	u64 first = offset >> BLOCK_SHIFT;
	u64 nr = ((offset + n - 1) >> BLOCK_SHIFT) - first + 1;
	ssize_t got;

	seat_hint(g->context->seat, block_id(g->id, (u32)first), nr);
	got = port_read(g->file->fd, to, n, offset);
	count_miss(g->context, nr);
	/* Short only if the file has changed. Then the proof has gone too. */
	return got == (ssize_t)n;
}

static __attribute__((noinline)) ssize_t read_slow(struct lodic_context *context,
                                                   struct lodic_file *file,
                                                   void *buffer, size_t n, off_t offset)
{
	struct gap_reader gaps = { context, file, FILE_NONE };
	struct cache_read wanted;
	struct cache_file core;
	const struct claim *claim;
	struct seat *seat;
	u64 *counter;
	u64 first, size, inside, hits;

	if (offset < 0)
		return -EINVAL;
	/* Its end cannot be told in an off_t: the kernel says what that means. */
	if (n > (u64)INT64_MAX - (u64)offset)
		return read_kernel(context, file, buffer, n, offset);
	claim = file_tie(context, file);
	if (!claim)
		return read_kernel(context, file, buffer, n, offset);
	seat = context->seat;
	first = claim_first(claim);
	size = claim_size(claim);
	core = claim_core(claim, first);
	inside = (u64)offset < size ? size - (u64)offset : 0;
	if (inside > n)
		inside = n;
	gaps.id = core.id;
	wanted = (struct cache_read){ &core,       buffer,   inside,
		                      (u64)offset, gap_fill, &gaps };
	if (!cache_read(&seat->core, &wanted, &hits))
		return read_kernel(context, file, buffer, n, offset);
	counter = &seat->core.memory->counters[CONTEXT_HITS];
	host_store_relaxed(counter, host_load_relaxed(counter) + hits);
	return (ssize_t)inside;
}

/* The fast path. It calls nothing on the way, but for memcpy when n is large. After its
 * first lines it uses seat and claim alone, so that it needs few registers and saves none. */
static inline __attribute__((always_inline)) ssize_t
read_block(struct lodic_context *context, struct lodic_file *file, void *buffer,
           size_t n, off_t offset)
{
	struct seat *seat = context->seat;
	const struct claim *claim = file_claim(file);
	u32 within = (u32)offset % BLOCK_BYTES;
	struct cache_file core;
	u64 block, size;

	if (unlikely(claim->generation != seat->generation))
		return read_slow(context, file, buffer, n, offset);
	block = claim_first(claim) + ((u64)offset >> BLOCK_SHIFT);
	size = claim_size(claim);
	/* The fast path takes one block, wholly inside the file, that is cached. A negative
	 * offset is a huge one here. */
	if (unlikely(n > BLOCK_BYTES - within || (u64)offset + n > size ||
	             !context_read_home(&seat->core, block, within, buffer, (u32)n)))
		return read_slow(seat->context, claim->file, buffer, n, offset);
	core = claim_core(claim, block); /* late: no register has it during the copy */
	if (unlikely(!cache_vouch(&seat->core, &core))) /* O22 */
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
	ssize_t got;

	misuse_context_enter(&context->misuse);
	misuse_file(&file->misuse);
	/* Twice the same code, because without a call to memcpy it needs no stack. */
	if (n <= HOST_COPY_INLINE)
		got = read_block(context, file, buffer, n, offset);
	else
		got = read_wide(context, file, buffer, n, offset);
	misuse_context_leave(&context->misuse);
	return got;
}

EXPORT ssize_t lodic_readv(struct lodic_context *context, struct lodic_file *file,
                           const struct iovec *vectors, int nr_vectors, off_t offset)
{
	ssize_t total = 0;
	size_t wanted = 0;

	if (nr_vectors < 0 || nr_vectors > IOV_MAX || (nr_vectors > 0 && !vectors) ||
	    offset < 0)
		return -EINVAL;
	for (int i = 0; i < nr_vectors; i++) {
		if (vectors[i].iov_len > SSIZE_MAX - wanted)
			return -EINVAL;
		wanted += vectors[i].iov_len;
	}
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
