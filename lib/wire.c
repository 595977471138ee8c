/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One message over a SOCK_SEQPACKET socket, with descriptors. Both halves of the library use
 * it. A message arrives whole or not at all, and no descriptor is ever lost.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/wire.h"

#define CREDENTIALS_BYTES CMSG_SPACE(sizeof(struct ucred))
#define FDS_BYTES CMSG_SPACE(WIRE_MAX_FDS * sizeof(int))

/* Room for WIRE_MAX_FDS descriptors. If more come the kernel drops them and says so. Credentials
 * come before them, on a socket that asks for those. */
union wire_ancillary {
	struct cmsghdr align;
	char bytes[CREDENTIALS_BYTES + FDS_BYTES];
};

static int wire_error(int error)
{
	return error == EPIPE ? -ECONNRESET : -error;
}

int wire_send(int socket, const void *message, unsigned long bytes, const int *fds,
              unsigned int nr_fds)
{
	union wire_ancillary ancillary;
	struct iovec piece = { (void *)message, bytes };
	struct msghdr header = { .msg_iov = &piece, .msg_iovlen = 1 };
	struct cmsghdr *c;
	ssize_t n;

	if (nr_fds > WIRE_MAX_FDS)
		return -EINVAL;
	if (nr_fds > 0) {
		memset(&ancillary, 0, sizeof(ancillary));
		header.msg_control = &ancillary;
		header.msg_controllen = CMSG_SPACE(nr_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&header);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(nr_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, nr_fds * sizeof(int));
	}
	do
		n = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? wire_error(errno) : 0;
}

/* Collects the descriptors of a message: the kernel has installed them already, so each
 * must be found, whatever else is wrong with the message. */
static unsigned int wire_take_fds(struct msghdr *header, int *fds)
{
	unsigned int nr = 0;
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		size_t bytes = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
			if (nr < WIRE_MAX_FDS)
				fds[nr++] = fd;
			else
				close(fd); /* room for credentials, and none came */
		}
	}
	return nr;
}

static void wire_take_sender(struct msghdr *header, struct wire_sender *sender)
{
	struct ucred told;
	struct cmsghdr *c;

	*sender = (struct wire_sender){ .said = false };
	for (c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS ||
		    c->cmsg_len != CMSG_LEN(sizeof(told)))
			continue;
		memcpy(&told, CMSG_DATA(c), sizeof(told));
		*sender = (struct wire_sender){ true, told.pid, told.uid };
	}
}

int wire_receive_all(int socket, void *message, unsigned long bytes, int *ret_fds,
                     unsigned int *ret_nr_fds, struct wire_sender *ret_sender)
{
	union wire_ancillary ancillary;
	struct iovec piece = { message, bytes };
	struct msghdr header = { .msg_iov = &piece,
		                 .msg_iovlen = 1,
		                 .msg_control = &ancillary,
		                 .msg_controllen =
		                         ret_sender ? sizeof(ancillary) : FDS_BYTES };
	ssize_t n;

	do
		n = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	*ret_nr_fds = 0;
	if (n < 0)
		return wire_error(errno);
	*ret_nr_fds = wire_take_fds(&header, ret_fds);
	if (ret_sender)
		wire_take_sender(&header, ret_sender);
	if ((size_t)n == bytes && !(header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return 0;
	if ((size_t)n == bytes && !(header.msg_flags & MSG_TRUNC))
		return -EMFILE; /* the kernel had no room for its descriptors */
	/* No side sends empty messages: without descriptors this is the end. */
	return n == 0 && *ret_nr_fds == 0 ? -ECONNRESET : -EPROTO;
}

int wire_receive(int socket, void *message, unsigned long bytes, int *ret_fds,
                 unsigned int *ret_nr_fds)
{
	int err = wire_receive_all(socket, message, bytes, ret_fds, ret_nr_fds, NULL);

	while (err && *ret_nr_fds > 0)
		close(ret_fds[--*ret_nr_fds]);
	return err;
}
