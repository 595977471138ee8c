/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port.h and port/listen.h. The process at the other end of a socket. */
#include "host/whole/socket.h"
#include "lib/port/listen.h"

struct port_peer peer_of(const struct process *p)
{
	return (struct port_peer){ .pid = (int)p->number, .uid = p->uid };
}

struct port_peer peer_sender_of(const struct process *p)
{
	return (struct port_peer){ .pid = (int)p->number, .uid = p->real_uid };
}

/* A process of another space has no number here. */
static bool peer_is_here(const struct port_peer *peer)
{
	return peer->pid != 0 && machine.processes[peer->pid - 1].pid_space ==
	                                 process_now()->pid_space;
}

struct port_peer peer_seen(const struct port_peer *peer)
{
	return (struct port_peer){ .pid = peer_is_here(peer) ? peer->pid : 0,
		                   .uid = peer->uid };
}

int port_ask_senders(int fd)
{
	int err = machine_call(CALL_ASK_SENDERS);
	struct socket *s = socket_of(fd);

	if (err || !s)
		return err ? err : -EBADF;
	s->asks_senders = true;
	return (int)machine_result(0);
}

int port_peer(int fd, struct port_peer *ret)
{
	struct socket *s;

	machine_pass(CALL_PEER);
	s = socket_of(fd);
	if (!s)
		return -EBADF;
	*ret = peer_seen(s->connected ? &s->peer : &s->owner);
	return (int)machine_result(0);
}

bool port_peer_has_group(int fd, uint32_t group)
{
	struct socket *s;

	machine_pass(CALL_PEER_HAS_GROUP);
	s = socket_of(fd);
	return machine_result(s && s->connected && s->peer_group == group &&
	                      !machine_fails(CALL_PEER_HAS_GROUP));
}

int port_peer_process(int fd)
{
	int err = machine_call(CALL_PEER_PROCESS);
	struct socket *s = socket_of(fd);

	if (err || !s)
		return err ? err : -EBADF;
	if (!s->connected || s->peer_process->dead)
		return (int)machine_result(-ESRCH);
	if (!peer_is_here(&s->peer))
		return (int)machine_result(-EINVAL);
	return (int)machine_result(process_watch(s->peer_process));
}
