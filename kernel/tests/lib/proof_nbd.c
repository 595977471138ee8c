// SPDX-License-Identifier: GPL-2.0
/*
 * A direct read whose destination is the file's own pages, and whose disk answers late. The disk is
 * a network block device (nbd), which this process serves itself. While the read is under way the
 * process has neither the mapping nor a descriptor of the file.
 */
#include "proof.h"

#include <linux/aio_abi.h>
#include <linux/nbd.h>
#include <arpa/inet.h>
#include <endian.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define DEVICE "/dev/nbd0"
#define DEVICE_BLOCKS 16
#define LATE_AT (8 * PAGE) /* the block that waits */

static struct {
	int device, client, server;
	pthread_t runner, answerer;
	int asked[2], go[2]; /* pipes: the late request is here; answer it */
	aio_context_t context;
} nbd;

/* The kernel's side: works until the device is disconnected. */
static void *nbd_run(void *arg)
{
	ioctl(nbd.device, NBD_DO_IT);
	return arg;
}

static bool answer(const struct nbd_request *r, u32 bytes)
{
	struct nbd_reply reply = { .magic = htonl(NBD_REPLY_MAGIC) };
	static char zeds[DEVICE_BLOCKS * PAGE];

	memset(zeds, 'Z', sizeof(zeds));
	memcpy(reply.handle, r->handle, sizeof(reply.handle));
	return send(nbd.server, &reply, sizeof(reply), 0) == sizeof(reply) &&
	       send(nbd.server, zeds, bytes, 0) == (ssize_t)bytes;
}

/* The server's side: reads alone. */
static void *nbd_answer(void *arg)
{
	struct nbd_request r;
	char byte = 1;
	u32 bytes;

	while (recv(nbd.server, &r, sizeof(r), MSG_WAITALL) == sizeof(r)) {
		if (ntohl(r.type) != NBD_CMD_READ)
			break;
		bytes = ntohl(r.len);
		if (be64toh(r.from) == LATE_AT && bytes == PAGE &&
		    (write(nbd.asked[1], &byte, 1) != 1 ||
		     read(nbd.go[0], &byte, 1) != 1))
			break;
		if (bytes > DEVICE_BLOCKS * PAGE || !answer(&r, bytes))
			break;
	}
	return arg;
}

static int nbd_start(void)
{
	int ends[2];

	nbd.device = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (nbd.device < 0)
		return -errno;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || pipe(nbd.asked) ||
	    pipe(nbd.go))
		return -errno;
	nbd.client = ends[0];
	nbd.server = ends[1];
	if (ioctl(nbd.device, NBD_SET_BLKSIZE, PAGE) ||
	    ioctl(nbd.device, NBD_SET_SIZE_BLOCKS, DEVICE_BLOCKS) ||
	    ioctl(nbd.device, NBD_SET_SOCK, nbd.client))
		return -errno;
	pthread_create(&nbd.answerer, NULL, nbd_answer, NULL);
	pthread_create(&nbd.runner, NULL, nbd_run, NULL);
	return 0;
}

static void nbd_stop(void)
{
	ioctl(nbd.device, NBD_CLEAR_QUE);
	ioctl(nbd.device, NBD_DISCONNECT);
	ioctl(nbd.device, NBD_CLEAR_SOCK);
	shutdown(nbd.server, SHUT_RDWR);
	pthread_join(nbd.runner, NULL);
	pthread_join(nbd.answerer, NULL);
	close(nbd.device);
}

/* The kernel knows the device's size only once NBD_DO_IT runs. */
static int open_device(void)
{
	unsigned long long size = 0;
	u32 tries;
	int fd;

	for (tries = 0; tries < 3000; tries++) {
		fd = open(DEVICE, O_RDONLY | O_DIRECT | O_CLOEXEC);
		if (fd >= 0 && !ioctl(fd, BLKGETSIZE64, &size) && size)
			return fd;
		if (fd >= 0)
			close(fd);
		usleep(10000);
	}
	return -ETIMEDOUT;
}

int before_direct_read(struct scene *s)
{
	struct iocb cb = { .aio_lio_opcode = IOCB_CMD_PREAD,
		           .aio_nbytes = PAGE,
		           .aio_offset = LATE_AT };
	struct iocb *list = &cb;
	char byte;
	int err;

	err = before_mmap(s);
	if (!err)
		err = nbd_start();
	if (err)
		return err;
	s->fd = open_device();
	if (s->fd < 0)
		return s->fd;
	s->map[0] = s->map[0]; /* a page that somebody may write to is there */
	cb.aio_fildes = s->fd;
	cb.aio_buf = (u64)(uintptr_t)s->map;
	if (syscall(SYS_io_setup, 1, &nbd.context) ||
	    syscall(SYS_io_submit, nbd.context, 1, &list) != 1)
		return -errno;
	if (read(nbd.asked[0], &byte, 1) != 1)
		return -EIO;
	munmap(s->map, PROOF_BYTES);
	return 0;
}

int path_direct_read(struct scene *s)
{
	struct io_event event;
	char byte = 1;

	if (write(nbd.go[1], &byte, 1) != 1 ||
	    syscall(SYS_io_getevents, nbd.context, 1, 1, &event, NULL) != 1)
		return -errno;
	close(s->fd);
	nbd_stop();
	return event.res == PAGE ? 0 : -EIO;
}
