/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See channel.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/check.h"
#include "lib/client/channel.h"

#define NS_PER_MS 1000000u
/* poll(2) may wake late, and takes an int: it is asked again. */
#define MAX_POLL_MS 60000u

void channel_init(struct channel *c)
{
	*c = (struct channel){ .socket = -1 };
}

int channel_connect(struct channel *c, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	int fd, err = 0;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
		err = -errno;
	else if (peer.uid != geteuid())
		err = -EPERM;
	if (err) {
		close(fd);
		return err == -EPROTOTYPE ? -EPERM : err; /* some other socket */
	}
	c->socket = fd;
	return 0;
}

/* Ends the request under way, and lets its owner know. */
static void channel_finish(struct channel *c, const struct channel_reply *reply)
{
	void (*done)(void *owner, const struct channel_reply *reply) = c->done;

	c->done = NULL;
	if (done)
		done(c->owner, reply);
	for (u32 i = 0; i < reply->nr_fds; i++)
		close(reply->fds[i]);
}

void channel_close(struct channel *c, int error)
{
	const struct channel_reply reply = { .error = error };

	if (c->socket >= 0)
		close(c->socket);
	c->socket = -1;
	c->error = error;
	channel_finish(c, &reply);
}

int channel_ask(struct channel *c, const struct wire_request *request, int fd,
                u64 deadline_ns,
                void (*done)(void *owner, const struct channel_reply *reply),
                void *owner)
{
	int err = c->socket < 0 ? -ECONNRESET
	                        : wire_send(c->socket, request, sizeof(*request), &fd,
	                                    fd >= 0);

	DCHECK(!c->done, "one request at a time");
	if (err == -ECONNRESET)
		channel_close(c, err);
	if (err)
		return err;
	c->deadline_ns = deadline_ns;
	c->done = done;
	c->owner = owner;
	return 0;
}

bool channel_poll(struct channel *c)
{
	struct channel_reply reply = { 0 };
	struct wire_reply wire;
	int fds[WIRE_MAX_FDS];
	int err;

	if (!c->done)
		return true;
	err = wire_receive(c->socket, &wire, sizeof(wire), fds, &reply.nr_fds);
	if (err == -EAGAIN && host_now_ns() < c->deadline_ns)
		return false;
	if (err && err != -EMFILE) {
		channel_close(c, err == -EAGAIN ? -ETIMEDOUT : err);
		return !c->done;
	}
	reply.error = err ? err : wire.error;
	reply.wire = &wire;
	reply.fds = fds;
	channel_finish(c, &reply);
	return !c->done;
}

void channel_wait(struct channel *c)
{
	struct pollfd wait = { .events = POLLIN };
	u64 now, ms;

	while (!channel_poll(c)) {
		wait.fd = c->socket;
		now = host_now_ns();
		ms = now < c->deadline_ns ? (c->deadline_ns - now) / NS_PER_MS + 1 : 0;
		poll(&wait, 1, (int)(ms < MAX_POLL_MS ? ms : MAX_POLL_MS));
	}
}

void channel_ignore(void *owner, const struct channel_reply *reply)
{
	(void)owner;
	(void)reply;
}
