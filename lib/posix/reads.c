/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port/reads.h. Reads, plain and by io_uring. */
#define _GNU_SOURCE
#include "lib/port/reads.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)
#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

_Static_assert(sizeof(struct port_piece) == sizeof(struct iovec) &&
                       offsetof(struct port_piece, at) ==
                               offsetof(struct iovec, iov_base) &&
                       offsetof(struct port_piece, bytes) ==
                               offsetof(struct iovec, iov_len),
               "a piece is an iovec");

struct port_reads {
	struct io_uring ring;
};

static const struct iovec *reads_pieces(const struct port_piece *pieces)
{
	return (const struct iovec *)pieces;
}

int64_t port_read_pieces(int fd, const struct port_piece *pieces,
                         unsigned int nr_pieces, uint64_t offset)
{
	ssize_t n = preadv(fd, reads_pieces(pieces), (int)nr_pieces, (off_t)offset);

	return n < 0 ? -errno : n;
}

bool port_is_cached(int fd, uint64_t offset, uint64_t bytes)
{
	struct {
		uint64_t offset, bytes;
	} range = { offset, bytes };
	struct {
		uint64_t cached, dirty, writeback, evicted, recently_evicted;
	} pages;
	uint64_t page_bytes = port_page_bytes();

	return syscall(SYS_cachestat, fd, &range, &pages, 0) == 0 &&
	       pages.cached >= (bytes + page_bytes - 1) / page_bytes;
}

void port_drop_cached(int fd, uint64_t offset, uint64_t bytes)
{
	posix_fadvise(fd, (off_t)offset, (off_t)bytes, POSIX_FADV_DONTNEED);
}

int port_reads_make(unsigned int most, struct port_reads **ret_reads)
{
	struct port_reads *reads = port_alloc(sizeof(*reads));
	int err;

	if (!reads)
		return -ENOMEM;
	err = io_uring_queue_init(most, &reads->ring, 0);
	if (err) {
		port_free(reads);
		return err;
	}
	*ret_reads = reads;
	return 0;
}

void port_reads_end(struct port_reads *reads)
{
	io_uring_queue_exit(&reads->ring);
	port_free(reads);
}

int port_reads_event(const struct port_reads *reads)
{
	return reads->ring.ring_fd;
}

bool port_reads_add(struct port_reads *reads, const struct port_read *read)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&reads->ring);

	if (!sqe)
		return false;
	io_uring_prep_readv(sqe, read->fd, reads_pieces(read->pieces), read->nr_pieces,
	                    read->offset);
	io_uring_sqe_set_data(sqe, read->of);
	if (read->elsewhere)
		sqe->flags |= IOSQE_ASYNC;
	return true;
}

/* liburing before 2.2 would ask the kernel even if there is nothing. */
void port_reads_send(struct port_reads *reads)
{
	if (io_uring_sq_ready(&reads->ring) > 0)
		io_uring_submit(&reads->ring);
}

bool port_reads_next(struct port_reads *reads, void **ret_of, int *ret_result)
{
	struct io_uring_cqe *cqe;

	if (io_uring_peek_cqe(&reads->ring, &cqe) != 0)
		return false;
	*ret_of = io_uring_cqe_get_data(cqe);
	*ret_result = cqe->res;
	io_uring_cqe_seen(&reads->ring, cqe);
	return true;
}

void port_reads_wait(struct port_reads *reads, uint64_t ns)
{
	struct __kernel_timespec most = { .tv_sec = (long long)(ns / NS_PER_S),
		                          .tv_nsec = (long long)(ns % NS_PER_S) };
	struct io_uring_cqe *cqe;

	io_uring_wait_cqe_timeout(&reads->ring, &cqe, &most);
}
