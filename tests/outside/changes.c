/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See changes.h. */
#define _GNU_SOURCE
#include "tests/outside/changes.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <unistd.h>

#define BLOCK LODIC_BLOCK_BYTES

static void fill(char bytes[BLOCK])
{
	memset(bytes, 'B', BLOCK);
}

static void write_into(int fd)
{
	char bytes[BLOCK];

	fill(bytes);
	REQUIRE(pwrite(fd, bytes, BLOCK, 0) == BLOCK, "%s", strerror(errno));
}

void change_write(const struct spot *s)
{
	int fd = fixture_open(s->via, O_WRONLY);

	write_into(fd);
	close(fd);
}

void change_direct(const struct spot *s)
{
	char bytes[BLOCK] __attribute__((aligned(4096)));
	int fd = fixture_open(s->via, O_WRONLY | O_DIRECT);

	fill(bytes);
	REQUIRE(pwrite(fd, bytes, BLOCK, 0) == BLOCK, "%s", strerror(errno));
	close(fd);
}

void change_open(const struct spot *s)
{
	close(fixture_open(s->via, O_RDWR));
}

void change_trunc_written(const struct spot *s)
{
	close(fixture_open(s->via, O_WRONLY | O_TRUNC));
}

void change_trunc_readonly(const struct spot *s)
{
	close(fixture_open(s->via, O_RDONLY | O_TRUNC));
}

void change_truncate(const struct spot *s)
{
	REQUIRE(truncate(s->via, 5) == 0, "%s", strerror(errno));
}

void change_ftruncate(const struct spot *s)
{
	REQUIRE(ftruncate(s->writer, 5) == 0, "%s", strerror(errno));
}

void change_writer(const struct spot *s)
{
	write_into(s->writer);
}

void change_store(const struct spot *s)
{
	memset(s->mapped, 'B', BLOCK);
}

void change_map(const struct spot *s)
{
	int fd = fixture_open(s->via, O_RDWR);
	char *at = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	REQUIRE(at != MAP_FAILED, "%s", strerror(errno));
	memset(at, 'B', BLOCK);
	munmap(at, BLOCK);
	close(fd);
}

static void space(const struct spot *s, int mode)
{
	int fd = fixture_open(s->via, O_RDWR);

	REQUIRE(fallocate(fd, mode, 0, BLOCK) == 0, "%s", strerror(errno));
	close(fd);
}

void change_punch(const struct spot *s)
{
	space(s, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
}

void change_zero(const struct spot *s)
{
	space(s, FALLOC_FL_ZERO_RANGE);
}

void change_collapse(const struct spot *s)
{
	space(s, FALLOC_FL_COLLAPSE_RANGE);
}

void change_insert(const struct spot *s)
{
	space(s, FALLOC_FL_INSERT_RANGE);
}

/* A file that has other bytes. */
static int other_open(const struct spot *s)
{
	int fd = fixture_open(s->other, O_RDWR | O_CREAT | O_TRUNC);

	write_into(fd);
	return fd;
}

void change_copy_range(const struct spot *s)
{
	int from = other_open(s), to = fixture_open(s->via, O_WRONLY);

	REQUIRE(copy_file_range(from, NULL, to, NULL, BLOCK, 0) == BLOCK, "%s",
	        strerror(errno));
	close(to);
	close(from);
}

void change_clone(const struct spot *s)
{
	int from = other_open(s), to = fixture_open(s->via, O_WRONLY);

	REQUIRE(ioctl(to, FICLONE, from) == 0, "%s", strerror(errno));
	close(to);
	close(from);
}

void change_sendfile(const struct spot *s)
{
	int from = other_open(s), to = fixture_open(s->via, O_WRONLY);
	off_t at = 0;

	REQUIRE(sendfile(to, from, &at, BLOCK) == BLOCK, "%s", strerror(errno));
	close(to);
	close(from);
}

void change_splice(const struct spot *s)
{
	char bytes[BLOCK];
	struct iovec piece = { bytes, BLOCK };
	int ends[2], to = fixture_open(s->via, O_WRONLY);

	fill(bytes);
	REQUIRE(pipe(ends) == 0 && vmsplice(ends[1], &piece, 1, 0) == BLOCK, "%s",
	        strerror(errno));
	REQUIRE(splice(ends[0], NULL, to, NULL, BLOCK, 0) == BLOCK, "%s",
	        strerror(errno));
	close(to);
}

/* The ring opens and writes; none of it is a system call of this process. */
void change_uring(const struct spot *s)
{
	struct io_uring_cqe *done;
	struct io_uring ring;
	char bytes[BLOCK];
	int fd;

	fill(bytes);
	REQUIRE(io_uring_queue_init(2, &ring, 0) == 0, "no ring");
	io_uring_prep_openat(io_uring_get_sqe(&ring), AT_FDCWD, s->via, O_WRONLY, 0);
	REQUIRE(io_uring_submit(&ring) == 1 && io_uring_wait_cqe(&ring, &done) == 0,
	        "not opened");
	fd = done->res;
	REQUIRE(fd >= 0, "%s", strerror(-fd));
	io_uring_cqe_seen(&ring, done);
	io_uring_prep_write(io_uring_get_sqe(&ring), fd, bytes, BLOCK, 0);
	REQUIRE(io_uring_submit(&ring) == 1 && io_uring_wait_cqe(&ring, &done) == 0 &&
	                done->res == BLOCK,
	        "not written");
	io_uring_queue_exit(&ring);
	close(fd);
}

/* The kernel opens it as a swap file does, and finds that it is none. */
void change_swapon(const struct spot *s)
{
	REQUIRE(swapon(s->via, 0) < 0 && errno == EINVAL, "%s", strerror(errno));
}

void change_rename_over(const struct spot *s)
{
	close(other_open(s));
	REQUIRE(rename(s->other, s->via) == 0, "%s", strerror(errno));
}

void change_unlink(const struct spot *s)
{
	REQUIRE(unlink(s->via) == 0, "%s", strerror(errno));
}

void change_attributes(const struct spot *s)
{
	REQUIRE(chmod(s->via, 0600) == 0 && chown(s->via, 1, 1) == 0 &&
	                utimensat(AT_FDCWD, s->via, NULL, 0) == 0,
	        "%s", strerror(errno));
}

void change_flags(const struct spot *s)
{
	int fd = fixture_open(s->via, O_RDONLY), flags;

	REQUIRE(ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0, "%s", strerror(errno));
	flags |= FS_NODUMP_FL;
	REQUIRE(ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0, "%s", strerror(errno));
	close(fd);
}

/* Would the kernel pin pages of the file for a ring, whatever becomes of the mapping? */
void change_register(const struct spot *s)
{
	int fd = fixture_open(s->via, O_RDWR), err;
	void *at = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct iovec piece = { at, BLOCK };
	struct io_uring ring;

	REQUIRE(at != MAP_FAILED && io_uring_queue_init(2, &ring, 0) == 0, "no ring");
	err = io_uring_register_buffers(&ring, &piece, 1);
	REQUIRE(err == -EFAULT, "%s", strerror(-err));
	io_uring_queue_exit(&ring);
	munmap(at, BLOCK);
	close(fd);
}

void change_prepare_writer(struct spot *s)
{
	s->writer = fixture_open(s->via, O_RDWR);
}

void change_prepare_mapping(struct spot *s)
{
	int fd = fixture_open(s->via, O_RDWR);

	s->mapped = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	REQUIRE(s->mapped != MAP_FAILED, "%s", strerror(errno));
	close(fd);
}
