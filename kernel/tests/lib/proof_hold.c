// SPDX-License-Identifier: GPL-2.0
/* Paths of tests/proofs.c that reach the file's pages or blocks in other ways than a call. */
#include "proof.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/swap.h>
#include <sys/uio.h>

static _Alignas(PAGE) char new_bytes[PAGE];

static int result(ssize_t done)
{
	return done < 0 ? -errno : 0;
}

/* -- mappings -- */

/* Maps the file and closes it. */
static int map_file(struct scene *s, int flags, int prot)
{
	int fd = open(s->via, flags | O_CLOEXEC), err = 0;

	if (fd < 0)
		return -errno;
	s->map = mmap(NULL, PROOF_BYTES, prot, MAP_SHARED, fd, 0);
	if (s->map == MAP_FAILED)
		err = -errno;
	close(fd);
	return err;
}

int before_mmap(struct scene *s)
{
	return map_file(s, O_RDWR, PROT_READ | PROT_WRITE);
}

int path_store(struct scene *s)
{
	memset(s->map, 'Z', PAGE);
	return result(msync(s->map, PAGE, MS_SYNC));
}

int path_mmap(struct scene *s)
{
	int err = before_mmap(s);

	return err ? err : path_store(s);
}

int before_mmap_rdonly(struct scene *s)
{
	return map_file(s, O_RDONLY, PROT_READ);
}

int path_mprotect(struct scene *s)
{
	return result(mprotect(s->map, PAGE, PROT_READ | PROT_WRITE));
}

/* As a debugger does, past what the entries allow. */
int path_proc_mem(struct scene *s)
{
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	err = result(pwrite(fd, new_bytes, PAGE, (off_t)(uintptr_t)s->map));
	close(fd);
	return err;
}

/* -- descriptors that no table of a process shows -- */

int before_uring_file(struct scene *s)
{
	int fd = open(s->via, O_RDWR | O_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	err = uring_open(&s->ring);
	if (!err)
		err = result(syscall(SYS_io_uring_register, s->ring.fd,
		                     IORING_REGISTER_FILES, &fd, 1));
	close(fd);
	return err;
}

int path_uring_file(struct scene *s)
{
	ssize_t n = uring_run(&s->ring,
	                      &(struct io_uring_sqe){ .opcode = IORING_OP_WRITE,
	                                              .flags = IOSQE_FIXED_FILE,
	                                              .fd = 0,
	                                              .addr = (u64)(uintptr_t)new_bytes,
	                                              .len = PAGE });

	return n < 0 ? n : 0;
}

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int))];
};

/* The descriptor is in a message that nobody has received. s->fd is where it waits. */
int before_in_flight(struct scene *s)
{
	union control c = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)),
		                      .cmsg_level = SOL_SOCKET,
		                      .cmsg_type = SCM_RIGHTS } };
	struct iovec word = { "x", 1 };
	struct msghdr message = { .msg_iov = &word,
		                  .msg_iovlen = 1,
		                  .msg_control = &c,
		                  .msg_controllen = sizeof(c) };
	int fd = open(s->via, O_RDWR | O_CLOEXEC), ends[2], err;

	if (fd < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return -errno;
	memcpy(CMSG_DATA(&c.head), &fd, sizeof(fd));
	err = result(sendmsg(ends[0], &message, 0));
	close(fd);
	s->fd = ends[1];
	return err;
}

int path_in_flight(struct scene *s)
{
	union control c;
	char byte;
	struct iovec word = { &byte, 1 };
	struct msghdr message = { .msg_iov = &word,
		                  .msg_iovlen = 1,
		                  .msg_control = &c,
		                  .msg_controllen = sizeof(c) };
	int fd;

	if (recvmsg(s->fd, &message, 0) < 0)
		return -errno;
	memcpy(&fd, CMSG_DATA(&c.head), sizeof(fd));
	return result(pwrite(fd, new_bytes, PAGE, 0));
}

/* Pages of the file are a ring's buffer. Mapping and descriptor are gone. */
int before_uring_pinned(struct scene *s)
{
	struct iovec buffer;
	int err = before_mmap(s);

	if (!err)
		err = uring_open(&s->ring);
	if (err)
		return err;
	s->map[0] = s->map[0]; /* a page that somebody may write to is there */
	buffer = (struct iovec){ s->map, PAGE };
	err = result(syscall(SYS_io_uring_register, s->ring.fd, IORING_REGISTER_BUFFERS,
	                     &buffer, 1));
	munmap(s->map, PROOF_BYTES);
	return err;
}

int path_uring_pinned(struct scene *s)
{
	int from = open(s->other, O_RDONLY | O_CLOEXEC);
	ssize_t n = uring_run(&s->ring,
	                      &(struct io_uring_sqe){ .opcode = IORING_OP_READ_FIXED,
	                                              .fd = from,
	                                              .addr = (u64)(uintptr_t)s->map,
	                                              .len = PAGE });

	close(from);
	return n < 0 ? n : 0;
}

/* -- loop devices -- */

/* s->fd becomes the device. */
static int attach(struct scene *s, int flags)
{
	struct loop_config how = { 0 };
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), number, err;
	char name[40];

	if (control < 0)
		return -errno;
	number = ioctl(control, LOOP_CTL_GET_FREE);
	close(control);
	snprintf(name, sizeof(name), "/dev/loop%d", number);
	how.fd = open(s->via, flags | O_CLOEXEC);
	if ((int)how.fd < 0)
		return -errno;
	s->fd = open(name, O_RDWR | O_CLOEXEC);
	err = s->fd < 0 ? -errno : result(ioctl(s->fd, LOOP_CONFIGURE, &how));
	close(how.fd);
	return err;
}

int path_loop_write(struct scene *s)
{
	int err;

	memset(new_bytes, 'Z', PAGE);
	err = result(pwrite(s->fd, new_bytes, PAGE, 0));
	if (!err)
		err = result(fsync(s->fd));
	ioctl(s->fd, LOOP_CLR_FD, 0);
	close(s->fd);
	return err;
}

int before_loop(struct scene *s)
{
	return attach(s, O_RDWR);
}

int path_loop(struct scene *s)
{
	int err = attach(s, O_RDWR);

	return err ? err : path_loop_write(s);
}

int path_loop_rdonly(struct scene *s)
{
	int err = attach(s, O_RDONLY);

	return err ? err : path_loop_write(s);
}

/* -- swap -- */

int path_swapoff(struct scene *s)
{
	return result(swapoff(s->via));
}

int before_swapon(struct scene *s)
{
	return result(swapon(s->via, 0));
}

int path_swapon(struct scene *s)
{
	int err = before_swapon(s);

	return err ? err : path_swapoff(s);
}

/* -- the disk below -- */

static int first_block(struct scene *s, u64 *ret_at)
{
	union {
		struct fiemap map;
		char room[sizeof(struct fiemap) + sizeof(struct fiemap_extent)];
	} ask = { .map = { .fm_length = PAGE,
		           .fm_extent_count = 1,
		           .fm_flags = FIEMAP_FLAG_SYNC } };

	if (ioctl(s->fd, FS_IOC_FIEMAP, &ask.map))
		return -errno;
	if (!ask.map.fm_mapped_extents ||
	    ask.map.fm_extents[0].fe_flags &
	            (FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DATA_INLINE))
		return -ENODATA;
	*ret_at = ask.map.fm_extents[0].fe_physical;
	return 0;
}

/* What the file reads from its disk afterwards: its pages leave memory. */
int path_raw_disk(struct scene *s)
{
	int disk, err;
	u64 at = 0;

	if (!s->device)
		return -ENODEV;
	s->fd = open(s->via, O_RDONLY | O_CLOEXEC);
	disk = open(s->device, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (s->fd < 0 || disk < 0)
		return -errno;
	err = first_block(s, &at);
	memset(new_bytes, 'Z', PAGE);
	if (!err)
		err = result(pwrite(disk, new_bytes, PAGE, at));
	posix_fadvise(s->fd, 0, 0, POSIX_FADV_DONTNEED);
	close(disk);
	close(s->fd);
	return err;
}
