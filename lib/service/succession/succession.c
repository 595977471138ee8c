/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See succession.h. It waits no longer than SUCCESSION_WAIT_MS for each answer. */
#include <errno.h>
#include <string.h>

#include "lib/port/listen.h"
#include "lib/reason.h"
#include "lib/service/base/socket.h"
#include "lib/service/succession/succession.h"
#include "lib/service/base/base.h"

/* One answer takes the old service a turn. If it takes so long it hangs. */
#define SUCCESSION_WAIT_MS LOOK_TIMEOUT_MS
/* A part of SERVICE_SUCCESSOR_MS that leaves room for a busy machine. */
#define STAY_NS (1000 * NS_PER_MS)
#define MOST_ERRNO 4095

void succession_close_fds(struct succession *a)
{
	while (a->nr_fds > 0)
		port_close(a->fds[--a->nr_fds]);
}

void succession_end(struct succession *a)
{
	succession_close_fds(a);
	service_close(&a->socket);
}

/* What lies in the socket. bytes: of records. */
static int succession_take(struct succession *a, u64 bytes)
{
	int err;

	a->page.reply.error = 0;
	err = wire_receive(a->socket, &a->page, sizeof(a->page.reply) + bytes, a->fds,
	                   &a->nr_fds);
	/* An error comes without records, so that the answer is too short. */
	if (!err || (err == -EPROTO && bytes > 0 && a->page.reply.error))
		err = reason_error(a->page.reply.error);
	return err > 0 || err < -MOST_ERRNO ? -EPROTO : err;
}

/* HO6, HO7: the service says when it takes the place away, or ends. What was sent and not read
 * makes the kernel report a reset before that. */
static int succession_verdict(struct succession *a, int err)
{
	int said = err == -ECONNRESET ? succession_take(a, 0) : err;

	if (said == -ECANCELED)
		return -EBUSY;
	return said == -ESHUTDOWN ? said : err;
}

/* fd < 0: none goes with it. */
static int succession_tell(struct succession *a, u32 op, u64 arg, int fd, u64 bytes,
                           u32 nr_fds)
{
	struct wire_request request = { .version = WIRE_VERSION, .op = op, .a = arg };
	int err = wire_send(a->socket, &request, sizeof(request), &fd, fd >= 0);

	a->asked_ns = host_now_ns();
	if (err)
		return succession_verdict(a, err);
	if (port_wait(a->socket, PORT_INPUT, SUCCESSION_WAIT_MS) != 1)
		return -ETIMEDOUT;
	err = succession_verdict(a, succession_take(a, bytes));
	if (!err && a->nr_fds != nr_fds)
		err = -EPROTO;
	if (err)
		succession_close_fds(a);
	return err;
}

int succession_ask(struct succession *a, u32 op, u64 arg, u64 bytes, u32 nr_fds)
{
	return succession_tell(a, op, arg, -1, bytes, nr_fds);
}

int succession_stay(struct succession *a)
{
	if (host_now_ns() - a->asked_ns < STAY_NS)
		return 0;
	return succession_ask(a, WIRE_HAND_STAY, 0, 0, 0);
}

static int succession_connect(struct succession *a, const char *path)
{
	int err;

	a->socket = err = port_socket();
	if (err >= 0)
		err = port_connect(a->socket, path);
	if (err)
		return err;
	return socket_peer_is_own(a->socket) ? 0 : -EACCES;
}

/* The channel takes the place of the connection. Without a lock file the service may be of another
 * version, or at its end: it says so itself. */
static int succession_announce(struct succession *a, const char *lock_path)
{
	int lock = port_open_to_write(lock_path);
	int err;

	if (lock < 0 && lock != -ENOENT)
		return -EACCES;
	err = succession_tell(a, WIRE_SUCCEED, 0, lock, 0, 1);
	service_close(&lock);
	if (err)
		return err;
	service_close(&a->socket);
	a->socket = a->fds[--a->nr_fds];
	return 0;
}

int succession_begin(struct succession *a, const char *socket_path,
                     const char *lock_path)
{
	int err;

	a->nr_fds = 0;
	err = succession_connect(a, socket_path);
	return err ? err : succession_announce(a, lock_path);
}
