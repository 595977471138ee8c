// SPDX-License-Identifier: GPL-2.0
#include "uring.h"

void uring_close(struct uring *r)
{
	munmap(r->ring, r->ring_bytes);
	munmap(r->sqe, r->params.sq_entries * sizeof(*r->sqe));
	close(r->fd);
}

int uring_open(struct uring *r)
{
	size_t sq_bytes, cq_bytes;

	memset(r, 0, sizeof(*r));
	r->fd = syscall(SYS_io_uring_setup, 1, &r->params);
	if (r->fd < 0)
		return -errno;
	sq_bytes = r->params.sq_off.array + r->params.sq_entries * sizeof(u32);
	cq_bytes = r->params.cq_off.cqes +
	           r->params.cq_entries * sizeof(struct io_uring_cqe);
	r->ring_bytes = sq_bytes > cq_bytes ? sq_bytes : cq_bytes;
	r->ring = mmap(NULL, r->ring_bytes, PROT_READ | PROT_WRITE,
	               MAP_SHARED | MAP_POPULATE, r->fd, IORING_OFF_SQ_RING);
	r->sqe = mmap(NULL, r->params.sq_entries * sizeof(*r->sqe),
	              PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd,
	              IORING_OFF_SQES);
	if (r->ring == MAP_FAILED || (void *)r->sqe == MAP_FAILED) {
		close(r->fd);
		return -ENOMEM;
	}
	return 0;
}

ssize_t uring_run(struct uring *r, const struct io_uring_sqe *sqe)
{
	_Atomic u32 *sq_tail = (void *)(r->ring + r->params.sq_off.tail);
	u32 sq_mask = *(u32 *)(r->ring + r->params.sq_off.ring_mask);
	u32 *sq_array = (void *)(r->ring + r->params.sq_off.array);
	_Atomic u32 *cq_head = (void *)(r->ring + r->params.cq_off.head);
	_Atomic u32 *cq_tail = (void *)(r->ring + r->params.cq_off.tail);
	u32 cq_mask = *(u32 *)(r->ring + r->params.cq_off.ring_mask);
	struct io_uring_cqe *cqes = (void *)(r->ring + r->params.cq_off.cqes);
	u32 tail = atomic_load(sq_tail), head = atomic_load(cq_head);
	ssize_t n;

	*r->sqe = *sqe;
	sq_array[tail & sq_mask] = 0;
	/* Release of the entry; its partner is the kernel's acquire of the tail. */
	atomic_store(sq_tail, tail + 1);
	n = syscall(SYS_io_uring_enter, r->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
	if (n < 0)
		return -errno;
	while (atomic_load(cq_tail) == head)
		syscall(SYS_io_uring_enter, r->fd, 0, 1, IORING_ENTER_GETEVENTS, NULL,
		        0);
	n = cqes[head & cq_mask].res;
	atomic_store(cq_head, head + 1);
	return n;
}

ssize_t uring_read(struct uring *r, int fd, void *to, size_t len, u64 offset)
{
	struct io_uring_sqe sqe = {
		.opcode = IORING_OP_READ,
		.fd = fd,
		.addr = (u64)(uintptr_t)to,
		.len = len,
		.off = offset,
	};

	r->async = !r->async;
	sqe.flags = r->async ? IOSQE_ASYNC : 0;
	return uring_run(r, &sqe);
}
