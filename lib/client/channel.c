/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See channel.h. */
#include <errno.h>
#include <string.h>

#include "core/check.h"
#include "lib/client/channel.h"
#include "lib/port.h"
#include "lib/reason.h"

#define NS_PER_MS 1000000u
/* port_wait() may wake late, and takes an int: it is asked again. */
#define MAX_POLL_MS 60000u
/* How long channel_wait() looks for a reply before it sleeps. Our choice: an open takes 40 to 60 us
 * while its program spins, and with 60 us one spin in ten was in vain. */
#define SPIN_NS 100000u
#define SPIN_LOOK_RELAXES 20u
/* Of so many waits, so many go the other way, to see which is quicker now. Our choice. */
#define WAYS_TURN 256u
#define WAYS_TRIES 8u
/* A wait counts as at most so long: one of seconds says nothing of either way. */
#define WAYS_MOST_NS (4 * (u64)SPIN_NS)
/* A mean is over about so many waits. */
#define WAYS_MEAN 16u

void channel_init(struct channel *c)
{
	*c = (struct channel){ .socket = -1 };
}

int channel_connect(struct channel *c, const char *path, u32 trusted)
{
	struct port_peer peer;
	int err, fd = port_socket();

	if (fd < 0)
		return fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM
		               ? fd
		               : reason_join(LODIC_REASON_NO_SOCKETS, fd);
	err = port_connect(fd, path);
	if (!err)
		err = port_peer(fd, &peer);
	if (!err && peer.uid != port_user() && peer.uid != trusted)
		err = -EPERM;
	if (err) {
		port_close(fd);
		return err == -EPROTOTYPE ? -EPERM : err; /* some other socket */
	}
	c->socket = fd;
	return 0;
}

/* The oldest of the requests behind the one under way takes its place. */
static void channel_next(struct channel *c)
{
	c->done = NULL;
	if (c->nr_more == 0)
		return;
	c->deadline_ns = c->more[0].deadline_ns;
	c->done = c->more[0].done;
	c->owner = c->more[0].owner;
	c->nr_more--;
	memmove(&c->more[0], &c->more[1], c->nr_more * sizeof(c->more[0]));
}

/* Ends the request under way, and lets its owner know. */
static void channel_finish(struct channel *c, const struct channel_reply *reply)
{
	void (*done)(void *owner, const struct channel_reply *reply) = c->done;
	void *owner = c->owner;

	channel_next(c);
	if (done)
		done(owner, reply);
	for (u32 i = 0; i < reply->nr_fds; i++)
		port_close(reply->fds[i]);
}

void channel_close(struct channel *c, int error)
{
	const struct channel_reply reply = { .error = error, .because = error };

	if (c->socket >= 0)
		port_close(c->socket);
	c->socket = -1;
	c->error = error;
	/* Each turn ends one; nothing new can be asked of a closed channel. */
	do
		channel_finish(c, &reply);
	while (c->done && c->socket < 0);
}

bool channel_has_room(const struct channel *c)
{
	return c->socket >= 0 && c->nr_more < CHANNEL_MOST - 1;
}

int channel_ask(struct channel *c, const struct wire_request *request, int fd,
                u64 deadline_ns,
                void (*done)(void *owner, const struct channel_reply *reply),
                void *owner)
{
	struct wire_request told = *request;
	int err = -ECONNRESET;

	told.cpu = host_cpu();
	if (c->socket >= 0)
		err = wire_send(c->socket, &told, sizeof(told), &fd, fd >= 0);
	DCHECK(c->nr_more < CHANNEL_MOST - 1, "requests have room");
	if (err == -ECONNRESET)
		channel_close(c, err);
	if (err)
		return err;
	if (c->done) {
		c->more[c->nr_more++] =
			(struct channel_request){ deadline_ns, done, owner };
		return 0;
	}
	c->deadline_ns = deadline_ns;
	c->done = done;
	c->owner = owner;
	return 0;
}

/* Takes one reply. false: it is not there, and has time. */
static bool channel_take(struct channel *c)
{
	struct channel_reply reply = { 0 };
	struct wire_reply wire;
	int fds[WIRE_MAX_FDS];
	int err;

	err = wire_receive(c->socket, &wire, sizeof(wire), fds, &reply.nr_fds);
	if (err == -EAGAIN && host_now_ns() < c->deadline_ns)
		return false;
	if (err && err != -EMFILE) {
		channel_close(c, err == -EAGAIN ? -ETIMEDOUT : err);
		return true;
	}
	/* What is no error's name is no answer. */
	reply.because = err ? err : reason_is_error(wire.error) ? wire.error : -EPROTO;
	reply.error = reason_error(reply.because);
	reply.wire = &wire;
	reply.fds = fds;
	channel_finish(c, &reply);
	return true;
}

bool channel_poll(struct channel *c)
{
	/* Each turn ends a request, and those that are asked meanwhile have no reply yet. */
	while (c->done)
		if (!channel_take(c))
			return false;
	return true;
}

/* Looks for the reply again and again. false: it has not come by end_ns. */
static bool channel_spin(struct channel *c, u64 end_ns)
{
	while (!channel_poll(c)) {
		if (host_now_ns() >= end_ns)
			return false;
		for (u32 i = 0; i < SPIN_LOOK_RELAXES; i++)
			host_relax();
	}
	return true;
}

static void channel_sleep(struct channel *c)
{
	u64 now, ms;

	while (!channel_poll(c)) {
		now = host_now_ns();
		ms = now < c->deadline_ns ? (c->deadline_ns - now) / NS_PER_MS + 1 : 0;
		/* It fails at once in a program that has set RLIMIT_NOFILE to 0. */
		if (port_wait(c->socket, PORT_INPUT,
		              (int)(ms < MAX_POLL_MS ? ms : MAX_POLL_MS)) < 0)
			port_sleep(NS_PER_MS);
	}
}

/* The way to wait that was quicker lately, or the other one, to try it. */
static u32 channel_way(struct channel *c)
{
	u32 quicker = c->mean_ns[CHANNEL_SPIN] <= c->mean_ns[CHANNEL_SLEEP]
	                      ? CHANNEL_SPIN
	                      : CHANNEL_SLEEP;

	return c->nr_waits++ % WAYS_TURN < WAYS_TRIES ? !quicker : quicker;
}

/* Why spin. It takes 30 us to wake an idle CPU of a virtual machine. While the program sleeps, its
 * CPU is idle, and the service's threads wake each other there and on the other CPUs. While it
 * spins, they meet on a CPU that is awake.
 * Where the service's threads want the program's own CPU, because no other one is free, a spin
 * is in their way. So the channel measures which way is quicker. That also covers a process that
 * may use one CPU only.
 * These are medians of 5 runs on 2 CPUs of such a machine. An open took 117 us by sleep alone, and
 * takes 41 us this way. An open and a close took 122 us of CPU time by sleep alone, of program and
 * service together. They take 117 us this way, of which the program has 73 us instead of 43. With
 * one CPU busy, or both, the noise is larger than the difference. Tries of the slower way cost
 * 3 us a wait at most.
 * A request without a deadline waits for work, and sleeps. */
void channel_wait(struct channel *c)
{
	u64 begun, took;
	u32 way;

	if (channel_poll(c))
		return;
	if (c->deadline_ns == DEADLINE_NEVER) {
		channel_sleep(c);
		return;
	}
	way = channel_way(c);
	begun = host_now_ns();
	if (way == CHANNEL_SLEEP || !channel_spin(c, begun + SPIN_NS))
		channel_sleep(c);
	took = host_now_ns() - begun;
	if (took > WAYS_MOST_NS)
		took = WAYS_MOST_NS;
	c->mean_ns[way] = (c->mean_ns[way] * (WAYS_MEAN - 1) + took) / WAYS_MEAN;
}

void channel_ignore(void *owner, const struct channel_reply *reply)
{
	(void)owner;
	(void)reply;
}
