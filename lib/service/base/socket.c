/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One service for one socket. The process that holds the lock file's lock is the service. If
 * it finds a socket at which nothing answers, a dead service has left that socket.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/port/listen.h"
#include "lib/service/base/socket.h"
#include "lib/service/base/state.h"
#include "lib/service/base/base.h"

/* A service that ends just now replaces the lock file while this one opens it. That this
 * happens more than a few times in a row is a fault. */
#define LOCK_TRIES 16
/* The kernel closes a killed service's descriptors one after the other. So its lock may be
 * free a moment before its socket is dead, or after. The numbers are ours: the first took
 * under 1 ms. The second took 10 to 80 ms on two busy CPUs, because the watches wait for the
 * kernel's own readers. */
#define STALE_TRIES 20
#define ENDING_TRIES 400
#define STALE_PAUSE_NS 5000000
#define BACKLOG 128u
#define RIGHTS_OF_USER 0600u
#define RIGHTS_OF_GROUP 0660u
#define NUMBERS_BYTES 64
#define OVERFLOW_UID 65534 /* where /proc does not tell */

static int socket_take_lock(struct base *s, const char **ret_why)
{
	int err = port_lock_file(s->lock);
	char holder[32] = "";

	if (err != -EAGAIN)
		return err;
	if (port_read(s->lock, holder, sizeof(holder) - 1, 0) <= 0)
		strcpy(holder, "unknown");
	holder[strcspn(holder, "\n")] = '\0';
	*ret_why = service_why("process %s serves there already", holder);
	return -EADDRINUSE;
}

/* Does the path lead to the file that this process has locked, now that it has? The last
 * holder removes the file, and then its lock keeps nobody out. */
static bool socket_lock_is_current(const struct base *s)
{
	return port_leads_to(s->lock_path, s->lock);
}

int socket_sign_lock(const struct base *s)
{
	char holder[32];
	int n = snprintf(holder, sizeof(holder), "%d\n", port_process());
	int err = port_truncate(s->lock);
	int64_t written;

	if (err)
		return err;
	written = port_write(s->lock, holder, (size_t)n, 0);
	return written == n ? 0 : written < 0 ? (int)written : -EIO;
}

static int socket_lock(struct base *s, const char **ret_why)
{
	int err, tries;

	for (tries = 0; tries < LOCK_TRIES; tries++) {
		s->lock = port_open_or_create(s->lock_path);
		if (s->lock < 0) {
			err = s->lock;
			*ret_why = service_why("%s cannot be opened: %s", s->lock_path,
			                       strerror(-err));
			return err == -ELOOP || err == -EISDIR ? -EEXIST : err;
		}
		err = socket_take_lock(s, ret_why);
		if (!err && socket_lock_is_current(s)) {
			err = socket_sign_lock(s);
			if (err)
				*ret_why = service_why("%s cannot be written: %s",
				                       s->lock_path, strerror(-err));
			return err;
		}
		service_close(&s->lock);
		if (err)
			return err;
	}
	*ret_why = service_why("%s keeps being replaced", s->lock_path);
	return -EADDRINUSE;
}

/* Does any program answer there? */
static bool socket_answers(const char *path)
{
	int fd = port_socket(), err;

	if (fd < 0)
		return true;
	err = port_connect(fd, path);
	port_close(fd);
	return err != -ECONNREFUSED && err != -ENOENT;
}

/* Has the holder of the lock given the socket up already, or does it not listen yet? */
static bool socket_is_quiet(const struct base *s)
{
	return !socket_answers(s->socket_path);
}

int socket_lock_soon(struct base *s, bool died, const char **ret_why)
{
	int err = socket_lock(s, ret_why);

	for (int tries = 0; err == -EADDRINUSE && tries < ENDING_TRIES &&
	                    ((died && tries < STALE_TRIES) || socket_is_quiet(s));
	     tries++) {
		port_sleep(STALE_PAUSE_NS);
		err = socket_lock(s, ret_why);
	}
	return err;
}

void socket_unlock(struct base *s)
{
	if (s->lock < 0)
		return;
	if (!s->succeeded) /* HO4 */
		port_remove(s->lock_path);
	service_close(&s->lock);
}

/* Makes the path free, if what stands there is a dead socket of this user's. */
static int socket_clear(const char *path, const char **ret_why)
{
	struct port_file file;
	int err = port_look_at(path, false, &file);

	if (err)
		return err == -ENOENT ? 0 : err;
	if (file.kind != PORT_FILE_SOCKET || file.uid != port_user()) {
		*ret_why =
			service_why("%s is %s; remove it or choose another path", path,
		                    file.kind == PORT_FILE_SOCKET
		                            ? "another user's socket"
		                            : "not a socket");
		return -EEXIST;
	}
	for (int tries = 0; socket_answers(path); tries++) {
		if (tries == STALE_TRIES) {
			*ret_why = service_why(
				"%s belongs to some other running program", path);
			return -EEXIST;
		}
		port_sleep(STALE_PAUSE_NS);
	}
	err = port_remove(path);
	return err == -ENOENT ? 0 : err;
}

int socket_adopt(struct base *s, int listening, const char **ret_why)
{
	/* First: what was sent before says nothing of its sender. */
	int err = port_ask_senders(listening);

	if (!err)
		err = port_listen(listening, BACKLOG);
	if (err) {
		*ret_why = service_why("the socket that was passed in does not listen");
		return err;
	}
	err = service_watch(s, listening, PORT_INPUT, &s->sources[SOURCE_LISTEN]);
	if (!err)
		s->listening = listening;
	return err;
}

static int socket_listen_passed(struct base *s, const char **ret_why)
{
	s->lent = true;
	return socket_adopt(s, s->place->listening, ret_why);
}

int socket_give(const struct base *s)
{
	const char *path = s->socket_path;
	int err = 0;

	if (s->lent)
		return 0;
	if (s->sharing->for_group)
		err = port_set_group(path, s->sharing->group);
	if (err)
		return err;
	return port_set_rights(path,
	                       s->sharing->for_group ? RIGHTS_OF_GROUP : RIGHTS_OF_USER);
}

int socket_listen(struct base *s, const char **ret_why)
{
	int err;

	if (s->place->listening > 0)
		return socket_listen_passed(s, ret_why);
	err = socket_clear(s->socket_path, ret_why);
	if (err)
		return err;
	s->listening = err = port_socket();
	if (err >= 0)
		err = port_bind(s->listening, s->socket_path);
	if (!err)
		err = socket_give(s);
	if (err) {
		service_close(&s->listening);
		*ret_why = service_why("%s cannot be made: %s", s->socket_path,
		                       strerror(-err));
		return err;
	}
	err = port_ask_senders(s->listening);
	if (!err)
		err = port_listen(s->listening, BACKLOG);
	if (!err)
		err = service_watch(s, s->listening, PORT_INPUT,
		                    &s->sources[SOURCE_LISTEN]);
	return err;
}

void socket_unlisten(struct base *s)
{
	if (s->listening < 0)
		return;
	if (!s->lent && !s->succeeded)
		port_remove(s->socket_path);
	s->unheard = s->listening;
	s->listening = -1;
}

int socket_unheard(const struct base *s)
{
	return s->lent || s->succeeded ? -1 : s->unheard;
}

void socket_close(struct base *s)
{
	service_close(&s->unheard);
}

int socket_listening(const struct base *s)
{
	return s->listening;
}

int socket_listen_for(struct base *s, u32 what)
{
	return service_watch_again(s, s->listening, what, &s->sources[SOURCE_LISTEN]);
}

/* ---- who is at the other end ---- */

/* The first line of a file of numbers, as many as it has. */
static int socket_read_numbers(const char *path, u32 numbers[3])
{
	char text[NUMBERS_BYTES];

	if (port_system_text(path, text, sizeof(text)) < 0)
		return 0;
	return sscanf(text, "%u %u %u", &numbers[0], &numbers[1], &numbers[2]);
}

/* The number that stands for all users that have none here. */
static u32 socket_overflow(void)
{
	static u32
		overflow; /* 0: not asked yet. No administrator makes root that user. */
	u32 numbers[3];

	if (!overflow)
		overflow = socket_read_numbers("/proc/sys/kernel/overflowuid",
		                               numbers) >= 1
		                   ? numbers[0]
		                   : OVERFLOW_UID;
	return overflow;
}

/* Has each user a number here, so that none needs that one? It is so outside of all user
 * namespaces. */
static bool socket_maps_all(void)
{
	u32 map[3];

	return socket_read_numbers("/proc/self/uid_map", map) == 3 &&
	       map[2] == UINT32_MAX;
}

static bool socket_is_nobody(u32 uid)
{
	return uid == socket_overflow() && !socket_maps_all();
}

bool socket_says_who(const struct wire_sender *sender)
{
	return sender->said && (sender->pid != 0 || sender->uid != socket_overflow());
}

bool socket_is_own(u32 uid)
{
	return uid == port_user() && !socket_is_nobody(uid);
}

bool socket_is_ours(u32 uid)
{
	return uid == 0 || socket_is_own(uid);
}

bool socket_is_lock(const struct base *s, int fd)
{
	const unsigned int both = PORT_MAY_READ | PORT_MAY_WRITE;
	unsigned int mode;

	if (port_mode(fd, &mode) != 0)
		return false;
	if ((mode & both) != both)
		return false;
	return port_is_same_file(s->lock, fd);
}

bool socket_peer_is_ours(int socket, struct port_peer *ret_peer)
{
	return port_peer(socket, ret_peer) == 0 && socket_is_ours(ret_peer->uid);
}

bool socket_peer_is_own(int socket)
{
	struct port_peer peer;

	return socket_peer_is_ours(socket, &peer) && socket_is_own(peer.uid);
}
