/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See odd_message.h. */
#define _GNU_SOURCE
#include "tests/support/odd_message.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/cache_fixture.h"

#define MOST_PARTS 3u
#define MOST_FDS 40u /* in a part; the kernel allows 253 in all */

union odd_ancillary {
	struct cmsghdr align;
	char bytes[MOST_PARTS * CMSG_SPACE(MOST_FDS * sizeof(int))];
};

/* A new descriptor of a random kind. What goes with the message is closed here afterwards. */
static int odd_fd(int socket, u64 *random)
{
	int ends[2];

	switch (random_below(random, 10)) {
	case 0: return epoll_create1(EPOLL_CLOEXEC);
	case 1: return eventfd(1, EFD_CLOEXEC);
	case 2: return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	case 3: return memfd_create("odd", MFD_CLOEXEC);
	case 4: return open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	case 5: return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	case 6: return open("/dev/null", O_PATH | O_CLOEXEC);
	case 7: return fcntl(socket, F_DUPFD_CLOEXEC, 0); /* itself, in its own queue */
	case 8:
		if (pipe2(ends, O_CLOEXEC) != 0)
			return -1;
		close(ends[1]);
		return ends[0];
	default: return open("/dev/zero", O_RDWR | O_CLOEXEC);
	}
}

/* One part at to: descriptors, this process's credentials, or a part of unknown kind. Returns how
 * much room it takes. */
static size_t odd_part(struct cmsghdr *to, int socket, int *fds, u32 *nr_fds,
                       u64 *random)
{
	const struct ucred self = { getpid(), geteuid(), getegid() };
	u32 nr = (u32)random_below(random, random_below(random, 4) ? 6 : MOST_FDS);
	size_t bytes = nr * sizeof(int);

	to->cmsg_level = SOL_SOCKET;
	to->cmsg_type = SCM_RIGHTS;
	switch (random_below(random, 6)) {
	case 0:
		to->cmsg_type = SCM_CREDENTIALS;
		bytes = sizeof(self);
		memcpy(CMSG_DATA(to), &self, bytes);
		break;
	case 1: to->cmsg_type = (int)random_below(random, 100); break;
	case 2: to->cmsg_level = (int)random_below(random, 100); break;
	default:
		for (u32 i = 0; i < nr; i++) {
			int fd = odd_fd(socket, random);

			if (fd >= 0)
				fds[(*nr_fds)++] = fd;
			memcpy(CMSG_DATA(to) + i * sizeof(int), &fd, sizeof(int));
		}
	}
	to->cmsg_len = CMSG_LEN(bytes);
	if (random_below(random, 20) == 0)
		to->cmsg_len = random_next(random) >> random_below(random, 64);
	return CMSG_SPACE(bytes);
}

int odd_message_send(int socket, const void *message, u64 bytes, u64 *random)
{
	static union odd_ancillary ancillary;
	struct iovec pieces[2] = { { (void *)message, bytes / 2 },
		                   { (char *)message + bytes / 2, bytes - bytes / 2 } };
	struct msghdr header = { .msg_iov = pieces,
		                 .msg_iovlen = 2,
		                 .msg_control = &ancillary };
	int fds[MOST_PARTS * MOST_FDS];
	u32 nr_fds = 0;
	int err = 0;

	memset(&ancillary, 0, sizeof(ancillary));
	for (u64 left = 1 + random_below(random, MOST_PARTS); left > 0; left--)
		header.msg_controllen += odd_part(
			(struct cmsghdr *)(ancillary.bytes + header.msg_controllen),
			socket, fds, &nr_fds, random);
	if (random_below(random, 20) == 0)
		header.msg_controllen = random_below(random, sizeof(ancillary));
	if (sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		err = errno == EPIPE ? -ECONNRESET : -errno;
	while (nr_fds > 0)
		close(fds[--nr_fds]);
	/* The kernel's own verdict on what was odd. */
	return err == -EAGAIN || err == -ECONNRESET || !err ? err : -EAGAIN;
}
