/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One service for one socket. The process that holds the lock file's lock is the service. If
 * it finds a socket at which nothing answers, a dead service has left that socket.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lib/service/base/socket.h"
#include "lib/service/base/state.h"
#include "lib/service/base/base.h"

#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

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
#define BACKLOG 128
#define OVERFLOW_UID 65534 /* where /proc does not tell */

static int socket_take_lock(struct base *s, const char **ret_why)
{
	char holder[32] = "";

	if (flock(s->lock, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno != EWOULDBLOCK)
		return -errno;
	if (read(s->lock, holder, sizeof(holder) - 1) <= 0)
		strcpy(holder, "unknown");
	holder[strcspn(holder, "\n")] = '\0';
	*ret_why = service_why("process %s serves there already", holder);
	return -EADDRINUSE;
}

/* Does the path lead to the file that this process has locked, now that it has? The last
 * holder removes the file, and then its lock keeps nobody out. */
static bool socket_lock_is_current(const struct base *s)
{
	struct stat ours, there;

	return fstat(s->lock, &ours) == 0 && lstat(s->lock_path, &there) == 0 &&
	       ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

int socket_sign_lock(const struct base *s)
{
	char holder[32];
	int n = snprintf(holder, sizeof(holder), "%d\n", (int)getpid());

	if (ftruncate(s->lock, 0) != 0 || pwrite(s->lock, holder, (size_t)n, 0) != n)
		return -errno;
	return 0;
}

static int socket_lock(struct base *s, const char **ret_why)
{
	int err, tries;

	for (tries = 0; tries < LOCK_TRIES; tries++) {
		s->lock = open(s->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
		               0600);
		if (s->lock < 0) {
			err = -errno;
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
static bool socket_answers(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool answers;

	if (fd < 0)
		return true;
	answers =
		connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
		(errno != ECONNREFUSED && errno != ENOENT);
	close(fd);
	return answers;
}

/* Has the holder of the lock given the socket up already, or does it not listen yet? */
static bool socket_is_quiet(const struct base *s)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	strcpy(address.sun_path, s->socket_path);
	return !socket_answers(&address);
}

int socket_lock_soon(struct base *s, bool died, const char **ret_why)
{
	const struct timespec pause = { .tv_nsec = STALE_PAUSE_NS };
	int err = socket_lock(s, ret_why);

	for (int tries = 0; err == -EADDRINUSE && tries < ENDING_TRIES &&
	                    ((died && tries < STALE_TRIES) || socket_is_quiet(s));
	     tries++) {
		nanosleep(&pause, NULL);
		err = socket_lock(s, ret_why);
	}
	return err;
}

void socket_unlock(struct base *s)
{
	if (s->lock < 0)
		return;
	if (!s->succeeded) /* HO4 */
		unlink(s->lock_path);
	service_close(&s->lock);
}

/* Makes the path free, if what stands there is a dead socket of this user's. */
static int socket_clear(const struct sockaddr_un *address, const char **ret_why)
{
	const struct timespec pause = { .tv_nsec = STALE_PAUSE_NS };
	const char *path = address->sun_path;
	struct stat st;
	int tries;

	if (lstat(path, &st) != 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid()) {
		*ret_why =
			service_why("%s is %s; remove it or choose another path", path,
		                    S_ISSOCK(st.st_mode) ? "another user's socket"
		                                         : "not a socket");
		return -EEXIST;
	}
	for (tries = 0; socket_answers(address); tries++) {
		if (tries == STALE_TRIES) {
			*ret_why = service_why(
				"%s belongs to some other running program", path);
			return -EEXIST;
		}
		nanosleep(&pause, NULL);
	}
	return unlink(path) == 0 || errno == ENOENT ? 0 : -errno;
}

int socket_adopt(struct base *s, int listening, const char **ret_why)
{
	int err;

	/* First: what was sent before says nothing of its sender. */
	if (socket_ask_senders(listening) != 0 || listen(listening, BACKLOG) != 0) {
		*ret_why = service_why("the socket that was passed in does not listen");
		return -errno;
	}
	err = service_watch(s, listening, EPOLLIN, &s->sources[SOURCE_LISTEN]);
	if (!err)
		s->listening = listening;
	return err;
}

static int socket_listen_passed(struct base *s, const char **ret_why)
{
	s->lent = true;
	return socket_adopt(s, s->options->listening, ret_why);
}

int socket_give(const struct base *s)
{
	const char *path = s->socket_path;

	if (s->lent)
		return 0;
	if (s->options->for_group && lchown(path, (uid_t)-1, s->options->group) != 0)
		return -errno;
	return chmod(path, s->options->for_group ? 0660 : 0600) != 0 ? -errno : 0;
}

int socket_listen(struct base *s, const char **ret_why)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int err;

	if (s->options->listening > 0)
		return socket_listen_passed(s, ret_why);
	strcpy(address.sun_path, s->socket_path);
	err = socket_clear(&address, ret_why);
	if (err)
		return err;
	s->listening =
		socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* bind() gives the unbound socket's mode to the file, so that there is no moment
	 * at which others could connect. */
	if (s->listening < 0 || fchmod(s->listening, 0600) != 0 ||
	    bind(s->listening, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    socket_give(s) != 0) {
		err = -errno;
		service_close(&s->listening);
		*ret_why = service_why("%s cannot be made: %s", s->socket_path,
		                       strerror(-err));
		return err;
	}
	if (socket_ask_senders(s->listening) != 0 || listen(s->listening, BACKLOG) != 0)
		return -errno;
	return service_watch(s, s->listening, EPOLLIN, &s->sources[SOURCE_LISTEN]);
}

void socket_unlisten(struct base *s)
{
	if (s->listening < 0)
		return;
	if (!s->lent && !s->succeeded)
		unlink(s->socket_path);
	service_close(&s->listening);
}

int socket_listening(const struct base *s)
{
	return s->listening;
}

int socket_listen_for(struct base *s, u32 events)
{
	return service_watch_again(s, s->listening, events, &s->sources[SOURCE_LISTEN]);
}

/* ---- who is at the other end ---- */

int socket_ask_senders(int socket)
{
	const int on = 1, off = 0;

	/* A socket that was passed in may ask for more. A descriptor of each sender, or its label,
	 * would take the place of what a message brings. Old kernels have no such options. */
	setsockopt(socket, SOL_SOCKET, SO_PASSPIDFD, &off, sizeof(off));
	setsockopt(socket, SOL_SOCKET, SO_PASSSEC, &off, sizeof(off));
	return setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) ? -errno
	                                                                    : 0;
}

/* The first line of a file of numbers, as many as it has. */
static int socket_read_numbers(const char *path, u32 numbers[3])
{
	FILE *file = fopen(path, "re");
	int nr = 0;

	if (!file)
		return 0;
	nr = fscanf(file, "%u %u %u", &numbers[0], &numbers[1], &numbers[2]);
	fclose(file);
	return nr;
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
	return uid == geteuid() && !socket_is_nobody(uid);
}

bool socket_is_ours(u32 uid)
{
	return uid == 0 || socket_is_own(uid);
}

bool socket_is_lock(const struct base *s, int fd)
{
	int flags = fcntl(fd, F_GETFL);
	struct statx ours, theirs;

	if (flags < 0 || (flags & O_ACCMODE) != O_RDWR)
		return false;
	return statx(s->lock, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO,
	             &ours) == 0 &&
	       statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &theirs) ==
	               0 &&
	       ours.stx_dev_major == theirs.stx_dev_major &&
	       ours.stx_dev_minor == theirs.stx_dev_minor &&
	       ours.stx_ino == theirs.stx_ino;
}

bool socket_peer_is_ours(int socket, struct ucred *ret_peer)
{
	socklen_t bytes = sizeof(*ret_peer);

	return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, ret_peer, &bytes) == 0 &&
	       socket_is_ours(ret_peer->uid);
}

bool socket_peer_is_own(int socket)
{
	struct ucred peer;

	return socket_peer_is_ours(socket, &peer) && socket_is_own(peer.uid);
}

int socket_peer_process(int socket)
{
	struct pollfd look = { .fd = socket, .events = POLLRDHUP };
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	int fd = -1;
	socklen_t fd_bytes = sizeof(fd);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &fd_bytes) == 0)
		return fd;
	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
		return -1;
	fd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
	if (fd >= 0 && poll(&look, 1, 0) != 0)
		service_close(&fd);
	return fd;
}
