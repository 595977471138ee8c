/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port.h and port/listen.h. Sockets that carry whole messages and descriptors. */
#include <stdlib.h>
#include <string.h>

#include "host/whole/files.h"
#include "host/whole/socket.h"
#include "lib/port/guest.h"
#include "lib/port/listen.h"

/* How many messages wait at one side: few, so that they are soon too many. */
#define MOST_MESSAGES 16u

static unsigned int socket_ready(const struct description *d)
{
	const struct socket *s = (const struct socket *)d;

	if (s->listening)
		return s->waiting ? PORT_INPUT : 0;
	if (!s->connected)
		return READY_HANG_UP;
	return (s->first || !s->other || s->deaf ? PORT_INPUT : 0) |
	       (!s->other ? READY_HANG_UP : 0);
}

static void message_end(struct message *m, bool unread)
{
	for (u32 i = 0; i < m->nr_fds; i++) {
		if (!m->fds[i])
			continue;
		if (unread)
			description_closes(m->fds[i], true);
		description_put(m->fds[i]);
	}
	free(m);
}

static void messages_fates(const struct socket *s, enum message_fate fate)
{
	for (const struct message *m = s->first; m; m = m->next)
		messages_fate(m->name.kind, fate);
}

/* Somebody who lives hangs up. */
static void socket_gives_up(const struct socket *s, const struct socket *other)
{
	messages_owed_fate(&other->messages, MESSAGE_GIVEN_UP);
	messages_fates(other, MESSAGE_GIVEN_UP);
	messages_fates(s, MESSAGE_GIVEN_UP);
}

static void socket_leaves(struct socket *s)
{
	struct socket *other = s->other;

	if (!other)
		return;
	if (!s->ended)
		socket_gives_up(s, other);
	other->reset = s->first || s->not_accepted;
	other->other = NULL;
	s->other = NULL;
	description_changed(&other->d);
}

/* A service that ends in order sends away those that nobody lets in any more: it may take long
 * until it closes the socket. */
static void socket_leaves_waiting(const struct socket *s)
{
	const struct task *t = machine.running;

	if (s->waiting && s->at && s->at->nr_names == 0 && t && !machine.in_event &&
	    t->may_close && machine.nr_failed[CALL_ACCEPT] == 0)
		machine_fail("%s lets a program wait until its socket closes", t->process->name);
}

static void socket_end(struct description *d)
{
	struct socket *s = (struct socket *)d;

	socket_leaves_waiting(s);
	socket_leaves(s);
	while (s->first) {
		struct message *m = s->first;

		s->first = m->next;
		message_end(m, true);
	}
	while (s->waiting) {
		struct socket *next = s->waiting;

		s->waiting = next->next_waiting;
		description_put(&next->d);
	}
	if (s->at) {
		s->at->socket = NULL;
		inode_put(s->at);
	}
}

static const struct kind socket_kind = { "socket", socket_ready, socket_end };

struct socket *socket_of(int fd)
{
	return fd_of(fd, &socket_kind);
}

int port_socket(void)
{
	int err = machine_call(CALL_SOCKET), fd;
	struct socket *s;

	if (err)
		return err;
	s = description_new(&socket_kind, sizeof(*s));
	s->owner = peer_of(process_now());
	fd = fd_new(process_now(), &s->d);
	if (fd < 0)
		description_put(&s->d);
	return (int)machine_result(fd);
}

int port_channel(int ret_sockets[2])
{
	int err = machine_call(CALL_CHANNEL);
	struct socket *s[2];

	if (err)
		return err;
	for (u32 i = 0; i < 2; i++) {
		s[i] = description_new(&socket_kind, sizeof(*s[i]));
		s[i]->owner = s[i]->peer = peer_of(process_now());
		s[i]->owner_group = s[i]->peer_group = process_now()->gid;
		s[i]->peer_process = process_now();
		s[i]->connected = true;
	}
	s[0]->other = s[1];
	s[1]->other = s[0];
	ret_sockets[0] = fd_new(process_now(), &s[0]->d);
	ret_sockets[1] = ret_sockets[0] < 0 ? -EMFILE : fd_new(process_now(), &s[1]->d);
	if (ret_sockets[1] >= 0)
		return (int)machine_result(0);
	if (ret_sockets[0] >= 0)
		fd_close(process_now(), ret_sockets[0]);
	else
		description_put(&s[0]->d);
	description_put(&s[1]->d);
	return (int)machine_result(-EMFILE);
}

/* The other side may have it, too: then this is not the end of its messages. */
static void socket_ends_with_process(struct socket *s)
{
	s->ended = true;
	messages_fates(s, MESSAGE_TAKER_FIRST);
	messages_owed_fate(&s->messages, MESSAGE_TAKER_AFTER);
	if (s->messages.answer)
		messages_fate(s->messages.answer, MESSAGE_TAKER_AFTER);
	if (!s->other)
		return;
	messages_fates(s->other, MESSAGE_SENDER_AFTER);
	messages_owed_fate(&s->other->messages, MESSAGE_SENDER_AFTER);
}

void socket_process_ends(struct process *process)
{
	for (const struct task *t = process->tasks; t; t = t->next)
		if (t->sends)
			messages_fate(t->sends, MESSAGE_SENDER_FIRST);
	for (u32 i = 0; i < MACHINE_MOST_FDS; i++) {
		struct description *d = process->fds[i];

		if (d && d->kind == &socket_kind && d->nr == 1)
			socket_ends_with_process((struct socket *)d);
	}
}

/* ---- connections ---- */

static int socket_find(const char *path, struct socket **ret_listening)
{
	struct inode *at = files_find(path);

	if (strlen(path) >= PORT_SOCKET_PATH_BYTES)
		return -ENAMETOOLONG;
	if (!at)
		return -ENOENT;
	if (at->kind != PORT_FILE_SOCKET)
		return -ECONNREFUSED;
	if (files_may(path, PORT_MAY_READ) ||
	    !inode_allows(at, process_now()->uid, PORT_MAY_WRITE))
		return -EACCES;
	*ret_listening = at->socket;
	if (!*ret_listening || !(*ret_listening)->listening)
		return -ECONNREFUSED;
	return (*ret_listening)->nr_waiting >= (*ret_listening)->most_waiting ? -EAGAIN
	                                                                      : 0;
}

static void socket_connect(struct socket *s, struct socket *listening)
{
	struct socket *there = description_new(&socket_kind, sizeof(*there)), **end;

	there->owner = listening->owner;
	there->peer = peer_of(process_now());
	there->peer_group = process_now()->gid;
	there->peer_process = process_now();
	there->asks_senders = listening->asks_senders;
	there->connected = s->connected = there->not_accepted = true;
	there->other = s;
	s->other = there;
	s->peer = listening->owner;
	s->peer_group = listening->owner_group;
	s->peer_process = &machine.processes[listening->owner.pid - 1];
	for (end = &listening->waiting; *end; end = &(*end)->next_waiting)
		;
	*end = there;
	listening->nr_waiting++;
	description_changed(&listening->d);
}

static int socket_try(int fd, const char *path)
{
	struct socket *s = socket_of(fd), *listening;
	int err;

	if (!s)
		return -EBADF;
	if (s->connected)
		return -EISCONN;
	err = socket_find(path, &listening);
	if (!err)
		socket_connect(s, listening);
	return err;
}

int port_connect(int fd, const char *path)
{
	int err = machine_call(CALL_CONNECT);

	return err ? err : (int)machine_result(socket_try(fd, path));
}

int port_connect_within(int fd, const char *path, unsigned int ms)
{
	u64 until = machine.now_ns + (u64)ms * 1000000;
	int err = machine_call(CALL_CONNECT_WITHIN);

	if (err)
		return err;
	do {
		err = socket_try(fd, path);
	} while (err == -EAGAIN && machine.now_ns < until &&
	         (task_wait(NULL, machine.now_ns + 1000000), true));
	return (int)machine_result(err);
}

int port_bind(int fd, const char *path)
{
	int err = machine_call(CALL_BIND);
	struct socket *s = socket_of(fd);

	if (err || !s)
		return err ? err : -EBADF;
	if (s->at)
		return -EINVAL;
	err = files_make(path, PORT_FILE_SOCKET, process_now()->uid, 0600, &s->at);
	if (err)
		return (int)machine_result(err == -EEXIST ? -EADDRINUSE : err);
	inode_keep(s->at);
	s->at->socket = s;
	return (int)machine_result(0);
}

int port_listen(int fd, unsigned int waiting)
{
	int err = machine_call(CALL_LISTEN);
	struct socket *s = socket_of(fd);

	if (err || !s)
		return err ? err : -EBADF;
	if (!s->at || s->connected)
		return -EINVAL;
	s->listening = true;
	s->most_waiting = waiting;
	s->owner = peer_of(process_now());
	s->owner_group = process_now()->gid;
	return (int)machine_result(0);
}

static int socket_abort(struct socket *listening)
{
	struct socket *gone = listening->waiting;

	if (!gone)
		return 0;
	listening->waiting = gone->next_waiting;
	listening->nr_waiting--;
	description_put(&gone->d);
	return -ECONNABORTED;
}

int port_accept(int fd)
{
	int err = machine_call(CALL_ACCEPT), number;
	struct socket *s = socket_of(fd), *next;

	/* One that waited has gone meanwhile. So it cannot be if nobody waits. */
	if (s && err == -ECONNABORTED)
		err = socket_abort(s);
	if (err || !s)
		return err ? err : -EBADF;
	/* accept4(2) takes a number before it looks whether anybody waits. */
	number = fd_new(process_now(), &s->d);
	if (number < 0)
		return (int)machine_result(number);
	process_now()->fds[number] = NULL;
	if (!s->listening)
		return -EINVAL;
	next = s->waiting;
	if (!next)
		return (int)machine_result(-EAGAIN);
	s->waiting = next->next_waiting;
	next->next_waiting = NULL;
	next->not_accepted = false;
	s->nr_waiting--;
	process_now()->fds[number] = &next->d;
	process_now()->nr_accepted++;
	return (int)machine_result(number);
}

bool program_is_accepted(int fd)
{
	const struct socket *s = socket_of(fd);

	return s && (!s->other || !s->other->not_accepted);
}

/* ---- messages ---- */

static struct message *message_new(const void *from, size_t bytes)
{
	struct message *m = calloc(1, sizeof(*m) + bytes);

	memcpy(m->data, from, bytes);
	m->bytes = bytes;
	return m;
}

/* What the running task is about to send. */
static struct message_name socket_sends(int fd, const void *message, size_t bytes)
{
	const struct socket *s = socket_of(fd);
	struct message_name name = { 0, false, false };

	if (s)
		name = messages_name(&s->messages, message, bytes);
	machine.running->sends = name.kind;
	return name;
}

/* A guest's program may close a descriptor meanwhile. */
static bool socket_may_send(const int *fds, unsigned int nr)
{
	while (nr > 0 && fd_get(fds[nr - 1]))
		nr--;
	if (nr > 0 && !process_now()->images[IMAGE_GUEST])
		machine_fail("%s sends descriptor %d, which is not open", process_now()->name,
		             fds[nr - 1]);
	return nr == 0;
}

int port_send(int fd, const void *message, size_t bytes, const int *fds,
              unsigned int nr_fds)
{
	struct message_name name = socket_sends(fd, message, bytes);
	int err = machine_call(CALL_SEND);
	struct socket *s = socket_of(fd), *to;
	struct message *m, **end;

	machine.running->sends = 0;
	if (err || !s)
		return err ? err : -EBADF;
	to = s->other;
	if (!s->connected)
		return (int)machine_result(-ENOTCONN);
	if (!to || to->deaf) {
		s->reset = false; /* it is told so */
		messages_fate(name.kind, MESSAGE_LOST_PEER);
		return (int)machine_result(-ECONNRESET);
	}
	if (to->nr_messages >= MOST_MESSAGES) {
		messages_fate(name.kind, MESSAGE_FULL);
		return (int)machine_result(-EAGAIN);
	}
	if (!socket_may_send(fds, nr_fds))
		return (int)machine_result(-EBADF);
	m = message_new(message, bytes);
	m->name = name;
	m->sent_ns = machine.now_ns;
	messages_sent(&s->messages, &name);
	for (unsigned int i = 0; i < nr_fds; i++) {
		m->fds[m->nr_fds++] = fd_get(fds[i]);
		description_keep(fd_get(fds[i]));
	}
	/* The kernel notes it where one of both sides asks, and while nobody has accepted. */
	m->sender = to->asks_senders || s->asks_senders || to->not_accepted
	                    ? peer_sender_of(process_now())
	                    : NOBODY;
	for (end = &to->first; *end; end = &(*end)->next)
		;
	*end = m;
	to->nr_messages++;
	description_changed(&to->d);
	return (int)machine_result(0);
}

/* Descriptors are the receiver's, as far as it can have more: a fault leaves it no room at this
 * moment. The sender's name comes first. If the receiver has forgotten to make room for it, it
 * takes that of the descriptors. */
static void message_take_fds(struct message *m, const struct socket *s,
                             struct port_message *ret)
{
	u32 most = s->asks_senders && !ret->ask_who ? 0 : ret->most_fds;

	if (m->nr_fds > 0 && machine_draws(FAULT_SHORT))
		most = machine_draw(m->nr_fds);
	for (u32 i = 0; i < m->nr_fds; i++) {
		int fd = i < most ? fd_new(process_now(), m->fds[i]) : -1;

		if (fd < 0) {
			ret->fds_cut = true;
			continue;
		}
		m->fds[i] = NULL;
		process_now()->received[fd] = true;
		ret->fds[ret->nr_fds++] = fd;
	}
}

static void socket_wake_sender(struct socket *s)
{
	if (s->other)
		description_changed(&s->other->d);
}

int port_receive(int fd, struct port_message *ret)
{
	int err = machine_call(CALL_RECEIVE);
	struct socket *s = socket_of(fd);
	struct message *m;

	ret->got = 0;
	ret->nr_fds = 0;
	ret->cut = ret->fds_cut = ret->said = false;
	if (err || !s)
		return err ? err : -EBADF;
	if (!s->connected)
		return (int)machine_result(-ENOTCONN);
	if (s->reset) {
		s->reset = false;
		return (int)machine_result(-ECONNRESET);
	}
	m = s->first;
	if (!m)
		return (int)machine_result(s->other && !s->deaf ? -EAGAIN : 0);
	s->first = m->next;
	s->nr_messages--;
	ret->got = m->bytes < ret->room ? m->bytes : ret->room;
	ret->cut = m->bytes > ret->room;
	memcpy(ret->bytes, m->data, ret->got);
	message_take_fds(m, s, ret);
	messages_taken(&s->messages, &m->name, machine.now_ns - m->sent_ns);
	if (ret->fds_cut)
		messages_fate(m->name.kind, MESSAGE_FDS_LOST);
	ret->said = ret->ask_who && s->asks_senders;
	ret->sender = peer_seen(&m->sender);
	message_end(m, s->asks_senders && !ret->ask_who);
	socket_wake_sender(s);
	return (int)machine_result(0);
}

/* What was sent can still be received. */
void port_hang_up(int socket)
{
	struct socket *s, *other;

	machine_pass(CALL_HANG_UP);
	s = socket_of(socket);
	other = s ? s->other : NULL;
	if (!s)
		return;
	s->other = NULL;
	description_changed(&s->d);
	if (!other)
		return;
	other->other = NULL;
	description_changed(&other->d);
}

int port_stop_receiving(int fd)
{
	int err = machine_call(CALL_STOP_RECEIVING);
	struct socket *s = socket_of(fd);

	if (err || !s)
		return err ? err : -EBADF;
	if (!s->connected)
		return -ENOTCONN;
	s->deaf = true;
	description_changed(&s->d);
	return (int)machine_result(0);
}
