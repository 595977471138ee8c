/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port/listen.h. */
#define _GNU_SOURCE
#include "lib/port/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define OWN_RIGHTS 0600

/* bind() gives the unbound socket's mode to the file, so that there is no moment at which others
 * could connect. */
int port_bind(int socket, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	return fchmod(socket, OWN_RIGHTS) == 0 &&
	                       bind(socket, (struct sockaddr *)&address,
	                            sizeof(address)) == 0
	               ? 0
	               : -errno;
}

int port_listen(int socket, unsigned int waiting)
{
	return listen(socket, (int)waiting) == 0 ? 0 : -errno;
}

int port_accept(int listening)
{
	int socket = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	return socket < 0 ? -errno : socket;
}

int port_set_rights(const char *path, uint32_t rights)
{
	return chmod(path, rights) == 0 ? 0 : -errno;
}

int port_set_group(const char *path, uint32_t group)
{
	return lchown(path, (uid_t)-1, group) == 0 ? 0 : -errno;
}

int port_channel(int ret_sockets[2])
{
	int type = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;

	return socketpair(AF_UNIX, type, 0, ret_sockets) == 0 ? 0 : -errno;
}

/* A socket that was passed in may ask for more. A descriptor of each sender, or its label, would
 * take the place of what a message brings. Old kernels have no such options. */
int port_ask_senders(int socket)
{
	const int on = 1, off = 0;

	setsockopt(socket, SOL_SOCKET, SO_PASSPIDFD, &off, sizeof(off));
	setsockopt(socket, SOL_SOCKET, SO_PASSSEC, &off, sizeof(off));
	return setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0
	               ? 0
	               : -errno;
}

bool port_peer_has_group(int socket, uint32_t group)
{
	struct ucred peer;
	socklen_t peer_bytes = sizeof(peer), bytes = 0;
	bool found = false;
	gid_t *groups;

	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) != 0)
		return false;
	/* The kernel says how much room the other groups need. */
	if (peer.gid == group ||
	    getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, NULL, &bytes) == 0 ||
	    errno != ERANGE)
		return peer.gid == group;
	groups = port_alloc(bytes);
	if (groups &&
	    getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups, &bytes) == 0)
		for (size_t i = 0; i < bytes / sizeof(*groups); i++)
			found |= groups[i] == group;
	port_free(groups);
	return found;
}

int port_peer_process(int socket)
{
	struct pollfd look = { .fd = socket, .events = POLLRDHUP };
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	int process;
	socklen_t process_bytes = sizeof(process);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &process, &process_bytes) == 0)
		return process;
	/* Before Linux 6.5. The number is the program's still if that has not hung up
	 * afterwards. */
	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
		return -errno;
	process = (int)syscall(SYS_pidfd_open, peer.pid, 0);
	if (process < 0)
		return -errno;
	if (poll(&look, 1, 0) != 0) {
		close(process);
		return -ESRCH;
	}
	return process;
}

int port_stop_receiving(int socket)
{
	return shutdown(socket, SHUT_RD) == 0 ? 0 : -errno;
}

int port_open_or_create(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, OWN_RIGHTS);

	return fd < 0 ? -errno : fd;
}

int port_open_to_write(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd;
}

int port_lock_file(int fd)
{
	return flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : -errno;
}

int port_truncate(int fd)
{
	return ftruncate(fd, 0) == 0 ? 0 : -errno;
}

bool port_leads_to(const char *path, int fd)
{
	struct stat ours, there;

	return fstat(fd, &ours) == 0 && lstat(path, &there) == 0 &&
	       ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

bool port_is_same_file(int a, int b)
{
	const int known = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
	struct statx first, second;

	return statx(a, "", known, STATX_INO, &first) == 0 &&
	       statx(b, "", known, STATX_INO, &second) == 0 &&
	       first.stx_dev_major == second.stx_dev_major &&
	       first.stx_dev_minor == second.stx_dev_minor &&
	       first.stx_ino == second.stx_ino;
}
