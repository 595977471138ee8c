/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port.h. Sockets: SOCK_SEQPACKET of AF_UNIX, which carry descriptors. */
#define _GNU_SOURCE
#include "lib/port.h"

#include <errno.h>
#include <string.h>
#include <sys/time.h>
#include <sys/un.h>
#include <os_impl.h>

#define WHO_BYTES CMSG_SPACE(sizeof(struct ucred))
#define FDS_BYTES CMSG_SPACE(PORT_MOST_FDS * sizeof(int))

_Static_assert(sizeof(((struct sockaddr_un *)NULL)->sun_path) == PORT_SOCKET_PATH_BYTES,
               "a socket's path");

/* Room for PORT_MOST_FDS descriptors. If more come the kernel drops them and says so. Credentials
 * come before them, on a socket that asks for those. */
union socket_ancillary {
	struct cmsghdr align;
	char bytes[WHO_BYTES + FDS_BYTES];
};

int port_socket(void)
{
	int fd = os_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? -errno : fd;
}

int port_connect(int socket, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	return connect(socket, (struct sockaddr *)&address, sizeof(address)) == 0
	               ? 0
	               : -errno;
}

int port_connect_within(int socket, const char *path, unsigned int ms)
{
	const struct timeval within = { .tv_sec = ms / 1000,
		                        .tv_usec = ms % 1000 * 1000 };

	os_fcntl(socket, F_SETFL, 0);
	setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &within, sizeof(within));
	return port_connect(socket, path);
}

int port_peer(int socket, struct port_peer *ret)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
		return -errno;
	*ret = (struct port_peer){ peer.pid, peer.uid };
	return 0;
}

static int socket_error(int error)
{
	return error == EPIPE ? -ECONNRESET : -error;
}

int port_send(int socket, const void *message, size_t bytes, const int *fds,
              unsigned int nr_fds)
{
	union socket_ancillary ancillary;
	struct iovec piece = { (void *)message, bytes };
	struct msghdr header = { .msg_iov = &piece, .msg_iovlen = 1 };
	struct cmsghdr *c;
	ssize_t n;

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
		n = os_sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? socket_error(errno) : 0;
}

/* Collects the descriptors of a message: the kernel has installed them already, so each
 * must be found, whatever else is wrong with the message. */
static void socket_take_fds(struct msghdr *header, struct port_message *m)
{
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		size_t bytes = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
			if (m->nr_fds < m->most_fds)
				m->fds[m->nr_fds++] = fd;
			else
				os_close(fd); /* room for credentials, and none came */
		}
	}
}

static void socket_take_sender(struct msghdr *header, struct port_message *m)
{
	struct ucred told;
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS ||
		    c->cmsg_len != CMSG_LEN(sizeof(told)))
			continue;
		memcpy(&told, CMSG_DATA(c), sizeof(told));
		m->said = true;
		m->sender = (struct port_peer){ told.pid, told.uid };
	}
}

int port_receive(int socket, struct port_message *m)
{
	union socket_ancillary ancillary;
	struct iovec piece = { m->bytes, m->room };
	struct msghdr header = { .msg_iov = &piece,
		                 .msg_iovlen = 1,
		                 .msg_control = &ancillary };
	ssize_t n;

	if (m->most_fds > 0)
		header.msg_controllen = CMSG_SPACE(m->most_fds * sizeof(int));
	if (m->ask_who)
		header.msg_controllen += WHO_BYTES;
	m->nr_fds = 0;
	m->said = false;
	do
		n = os_recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return socket_error(errno);
	m->got = (size_t)n;
	m->cut = header.msg_flags & MSG_TRUNC;
	m->fds_cut = header.msg_flags & MSG_CTRUNC;
	socket_take_fds(&header, m);
	if (m->ask_who)
		socket_take_sender(&header, m);
	return 0;
}
