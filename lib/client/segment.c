/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A segment's life: connect, make sure whose service it is, map its arena, unmap it. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/client/mapping.h"
#include "lib/client/segment.h"

static int segment_connect(const char *path, int *ret_socket)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct timeval timeout = { .tv_sec = REQUEST_TIMEOUT_MS / 1000 };
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	int fd, err = 0;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* A full backlog must not hang the caller. */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
		err = -errno;
	else if (peer.uid != geteuid())
		err = -EPERM;
	if (err) {
		close(fd);
		return err == -EPROTOTYPE ? -EPERM : err; /* some other socket */
	}
	*ret_socket = fd;
	return 0;
}

static void segment_close_fds(const int *fds, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		close(fds[i]);
}

int segment_request(struct segment *s, const struct wire_request *request, int fd,
                    int timeout_ms, struct wire_reply *ret_reply, int *ret_fds,
                    u32 *ret_nr)
{
	struct pollfd wait = { .fd = s->socket, .events = POLLIN };
	int fds[WIRE_MAX_FDS];
	u32 nr = 0;
	int err, ready;

	pthread_mutex_lock(&s->socket_lock);
	err = s->socket < 0
	              ? -ECONNRESET
	              : wire_send(s->socket, request, sizeof(*request), &fd, fd >= 0);
	if (err)
		goto out_unlock;
	do
		ready = poll(&wait, 1, timeout_ms);
	while (ready < 0 && errno == EINTR);
	if (ready > 0)
		err = wire_receive(s->socket, ret_reply, sizeof(*ret_reply), fds, &nr);
	else
		err = ready ? -errno : -ETIMEDOUT;
	if (err) {
		/* A late answer must not be taken for the next one's. */
		close(s->socket);
		s->socket = -1;
	} else if (ret_reply->error) {
		err = ret_reply->error;
		segment_close_fds(fds, nr);
	} else if (ret_fds) {
		memcpy(ret_fds, fds, nr * sizeof(*fds));
		*ret_nr = nr;
	} else {
		segment_close_fds(fds, nr);
	}
out_unlock:
	pthread_mutex_unlock(&s->socket_lock);
	return err;
}

static int segment_map(struct segment *s, const struct wire_reply *reply,
                       const int *fds, u32 nr_fds)
{
	s->control_bytes = reply->hello.control_bytes;
	s->data_bytes = reply->hello.data_bytes;
	s->count_bytes = reply->hello.count_bytes;
	s->alive_value = reply->hello.alive;
	if (nr_fds != (s->count_bytes ? 4u : 3u))
		return -EPROTO;
	s->control = mapping_share(fds[0], s->control_bytes, PROT_READ);
	s->data = mapping_share(fds[1], s->data_bytes, PROT_READ);
	if (s->count_bytes)
		s->counts =
			mapping_share(fds[3], s->count_bytes, PROT_READ | PROT_WRITE);
	if (!s->control || !s->data || (s->count_bytes && !s->counts))
		return -EPROTO;
	if (!arena_view(&s->arena, s->control, s->control_bytes, s->data, s->data_bytes,
	                s->counts))
		return -EPROTO;
	s->generation = s->arena.header->generation;
	s->wake = dup(fds[2]);
	return s->wake < 0 ? -errno : 0;
}

static void segment_free(struct segment *s)
{
	if (s->control)
		munmap(s->control, s->control_bytes);
	if (s->data)
		munmap(s->data, s->data_bytes);
	if (s->counts)
		munmap(s->counts, s->count_bytes);
	if (s->socket >= 0)
		close(s->socket);
	if (s->wake >= 0)
		close(s->wake);
	pthread_mutex_destroy(&s->socket_lock);
	free(s);
}

int segment_open(const char *path, struct segment **ret_segment)
{
	struct wire_request hello = { .version = WIRE_VERSION, .op = WIRE_HELLO };
	struct wire_reply reply;
	struct segment *s = calloc(1, sizeof(*s));
	int fds[WIRE_MAX_FDS];
	u32 nr_fds = 0;
	int err;

	if (!s)
		return -ENOMEM;
	s->socket = s->wake = -1;
	s->users = 1;
	pthread_mutex_init(&s->socket_lock, NULL);
	err = segment_connect(path, &s->socket);
	if (err)
		goto out_free;
	err = segment_request(s, &hello, -1, REQUEST_TIMEOUT_MS, &reply, fds, &nr_fds);
	if (err)
		goto out_free;
	err = segment_map(s, &reply, fds, nr_fds);
	segment_close_fds(fds, nr_fds);
	if (err)
		goto out_free;
	*ret_segment = s;
	return 0;
out_free:
	segment_free(s);
	return err == -ECONNRESET ? -ECONNREFUSED : err; /* it died just now */
}

void segment_put(struct segment *segment)
{
	if (--segment->users == 0)
		segment_free(segment);
}

int segment_sync(struct segment *segment)
{
	struct wire_request request = { .version = WIRE_VERSION, .op = WIRE_SYNC };
	struct wire_reply reply;

	return segment_request(segment, &request, -1, -1, &reply, NULL, NULL);
}
