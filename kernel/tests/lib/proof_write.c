// SPDX-License-Identifier: GPL-2.0
/*
 * Paths of tests/proofs.c through a descriptor for writing. Each works on s->fd where before_open()
 * has opened it before the lease, and opens the file itself otherwise.
 */
#include "proof.h"

#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>

#define EXT4_IOC_SWAP_BOOT _IO('f', 17)

static _Alignas(PAGE) char new_bytes[PAGE];

static int result(ssize_t done)
{
	return done < 0 ? -errno : 0;
}

int before_open(struct scene *s)
{
	s->fd = open(s->via, O_RDWR | O_CLOEXEC);
	return result(s->fd);
}

/* Opens the file, does the thing, closes. Closing shows what a client of NFS has kept back. */
static int with_fd(struct scene *s, int flags, int (*does)(struct scene *s))
{
	int err;

	memset(new_bytes, 'Z', PAGE);
	s->fd = open(s->via, O_RDWR | O_CLOEXEC | flags);
	if (s->fd < 0)
		return -errno;
	err = does(s);
	if (close(s->fd) && !err)
		err = -errno;
	return err;
}

/* Through the descriptor that is open already. */
int path_write_open(struct scene *s)
{
	memset(new_bytes, 'Z', PAGE);
	return result(pwrite(s->fd, new_bytes, PAGE, 0));
}

int path_write(struct scene *s)
{
	return with_fd(s, 0, path_write_open);
}

int path_direct(struct scene *s)
{
	return with_fd(s, O_DIRECT, path_write_open);
}

static int do_aio(struct scene *s)
{
	struct iocb cb = { .aio_lio_opcode = IOCB_CMD_PWRITE,
		           .aio_fildes = s->fd,
		           .aio_buf = (u64)(uintptr_t)new_bytes,
		           .aio_nbytes = PAGE };
	struct iocb *list = &cb;
	struct io_event event;
	aio_context_t context = 0;

	if (syscall(SYS_io_setup, 1, &context) ||
	    syscall(SYS_io_submit, context, 1, &list) != 1)
		return -errno;
	if (syscall(SYS_io_getevents, context, 1, 1, &event, NULL) != 1)
		return -errno;
	return (long long)event.res < 0 ? (int)event.res : 0;
}

int path_aio(struct scene *s)
{
	return with_fd(s, O_DIRECT, do_aio);
}

static int do_uring(struct scene *s)
{
	int err = uring_open(&s->ring);
	ssize_t n;

	if (err)
		return err;
	n = uring_run(&s->ring,
	              &(struct io_uring_sqe){ .opcode = IORING_OP_WRITE,
	                                      .fd = s->fd,
	                                      .addr = (u64)(uintptr_t)new_bytes,
	                                      .len = PAGE });
	uring_close(&s->ring);
	return n < 0 ? n : 0;
}

int path_uring(struct scene *s)
{
	return with_fd(s, 0, do_uring);
}

static int do_ftruncate(struct scene *s)
{
	return result(ftruncate(s->fd, PAGE));
}

int path_ftruncate(struct scene *s)
{
	return with_fd(s, 0, do_ftruncate);
}

static int do_punch(struct scene *s)
{
	return result(fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE,
	                        PAGE));
}

int path_punch(struct scene *s)
{
	return with_fd(s, 0, do_punch);
}

static int do_zero(struct scene *s)
{
	return result(fallocate(s->fd, FALLOC_FL_ZERO_RANGE, PAGE, PAGE));
}

int path_zero(struct scene *s)
{
	return with_fd(s, 0, do_zero);
}

static int do_collapse(struct scene *s)
{
	return result(fallocate(s->fd, FALLOC_FL_COLLAPSE_RANGE, PAGE, PAGE));
}

int path_collapse(struct scene *s)
{
	return with_fd(s, 0, do_collapse);
}

static int do_insert(struct scene *s)
{
	return result(fallocate(s->fd, FALLOC_FL_INSERT_RANGE, PAGE, PAGE));
}

int path_insert(struct scene *s)
{
	return with_fd(s, 0, do_insert);
}

/* does(s->fd, a descriptor of the other file). */
static int with_other(struct scene *s, int (*does)(int to, int from))
{
	int from = open(s->other, O_RDONLY | O_CLOEXEC), err;

	if (from < 0)
		return -errno;
	err = does(s->fd, from);
	close(from);
	return err;
}

static int copy_range(int to, int from)
{
	return result(copy_file_range(from, NULL, to, NULL, PAGE, 0));
}

static int do_copy_range(struct scene *s)
{
	return with_other(s, copy_range);
}

int path_copy_range(struct scene *s)
{
	return with_fd(s, 0, do_copy_range);
}

static int share(int to, int from)
{
	return result(ioctl(to, FICLONE, from));
}

static int do_clone(struct scene *s)
{
	return with_other(s, share);
}

int path_clone(struct scene *s)
{
	return with_fd(s, 0, do_clone);
}

/* The other file becomes a clone of this one, and is written. */
int path_clone_source(struct scene *s)
{
	int fd = open(s->other, O_RDWR | O_CLOEXEC);
	int from = open(s->via, O_RDONLY | O_CLOEXEC), err;

	if (fd < 0 || from < 0)
		return -errno;
	err = share(fd, from);
	memset(new_bytes, 'Z', PAGE);
	if (!err)
		err = result(pwrite(fd, new_bytes, PAGE, 0));
	close(fd);
	close(from);
	return err;
}

/* The extents of equal bytes become one. The file is only open for reading. */
int path_dedupe(struct scene *s)
{
	union {
		struct file_dedupe_range range;
		char room[sizeof(struct file_dedupe_range) +
		          sizeof(struct file_dedupe_range_info)];
	} ask = { .range = { .src_length = PAGE, .dest_count = 1 } };
	int fd = open(s->via, O_RDONLY | O_CLOEXEC);
	int from = open(s->other, O_RDWR | O_CLOEXEC), err;

	if (fd < 0 || from < 0)
		return -errno;
	err = result(pread(fd, new_bytes, PAGE, 0));
	if (!err)
		err = result(pwrite(from, new_bytes, PAGE, 0));
	fsync(from);
	ask.range.info[0].dest_fd = fd;
	if (!err)
		err = result(ioctl(from, FIDEDUPERANGE, &ask.range));
	if (!err)
		err = ask.range.info[0].status;
	close(fd);
	close(from);
	return err;
}

static int send_over(int to, int from)
{
	return result(sendfile(to, from, NULL, PAGE));
}

static int do_sendfile(struct scene *s)
{
	return with_other(s, send_over);
}

int path_sendfile(struct scene *s)
{
	return with_fd(s, 0, do_sendfile);
}

static int do_splice(struct scene *s)
{
	int ends[2];

	if (pipe(ends) || write(ends[1], new_bytes, PAGE) != (ssize_t)PAGE)
		return -errno;
	return result(splice(ends[0], NULL, s->fd, NULL, PAGE, 0));
}

int path_splice(struct scene *s)
{
	return with_fd(s, 0, do_splice);
}

/* ext4 exchanges the file's blocks with those of a hidden inode. */
static int do_swap_boot(struct scene *s)
{
	return result(ioctl(s->fd, EXT4_IOC_SWAP_BOOT));
}

int path_swap_boot(struct scene *s)
{
	return with_fd(s, 0, do_swap_boot);
}
