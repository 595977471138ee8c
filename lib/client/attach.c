/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Attaching to a service: connect, make sure whose it is, map its arena. And doing so
 * again when it has died: nothing is repaired, a successor has an arena of its own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "lib/client/client.h"
#include "lib/service/service.h"

#define START_POLL_NS 5000000
#define START_WAIT_NS 10000000000u

bool retry_due(struct retry *r)
{
	u64 now = host_now_ns();

	if (now < r->at_ns)
		return false;
	r->step_ns = r->step_ns ? r->step_ns * 2 : RETRY_FIRST_NS;
	if (r->step_ns > RETRY_LAST_NS)
		r->step_ns = RETRY_LAST_NS;
	host_store_relaxed(&r->at_ns, now + r->step_ns);
	return true;
}

void retry_reset(struct retry *r)
{
	r->step_ns = 0;
	host_store_relaxed(&r->at_ns, 0);
}

void *wiped_alloc(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
	               0);

	if (p == MAP_FAILED)
		return NULL;
	if (madvise(p, n, MADV_WIPEONFORK) != 0) {
		munmap(p, n);
		return NULL;
	}
	return p;
}

void wiped_free(void *p, size_t n)
{
	if (p)
		munmap(p, n);
}

static int connect_to(const char *path, int *ret_socket)
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

static void close_all(const int *fds, u32 nr)
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
		close_all(fds, nr);
	} else if (ret_fds) {
		memcpy(ret_fds, fds, nr * sizeof(*fds));
		*ret_nr = nr;
	} else {
		close_all(fds, nr);
	}
out_unlock:
	pthread_mutex_unlock(&s->socket_lock);
	return err;
}

void *map_shared(int fd, u64 bytes, int protection)
{
	struct stat st;
	void *p;

	/* A map that is larger than its file is a trap: the first look behind the end
	 * kills the process. */
	if (fstat(fd, &st) != 0 || (u64)st.st_size < bytes)
		return NULL;
	p = mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return NULL;
	/* A child has no business here; see the note on fork in lodic.h. */
	madvise(p, bytes, MADV_DONTFORK);
	return p;
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
	s->control = map_shared(fds[0], s->control_bytes, PROT_READ);
	s->data = map_shared(fds[1], s->data_bytes, PROT_READ);
	if (s->count_bytes)
		s->counts = map_shared(fds[3], s->count_bytes, PROT_READ | PROT_WRITE);
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
	int self, err;

	if (!s)
		return -ENOMEM;
	s->socket = s->wake = -1;
	s->users = 1;
	pthread_mutex_init(&s->socket_lock, NULL);
	err = connect_to(path, &s->socket);
	if (err)
		goto out_free;
	self = (int)syscall(SYS_pidfd_open, getpid(), 0);
	err = segment_request(s, &hello, self, REQUEST_TIMEOUT_MS, &reply, fds,
	                      &nr_fds);
	if (self >= 0)
		close(self);
	if (err)
		goto out_free;
	err = segment_map(s, &reply, fds, nr_fds);
	close_all(fds, nr_fds);
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

static bool nobody_listens(int err)
{
	return err == -ENOENT || err == -ECONNREFUSED;
}

/* Opens the service's segment, starting the service when nobody listens. With wait,
 * stays until somebody else who is starting it has come up. */
static int segment_open_or_start(struct lodic *lodic, bool wait,
                                 struct segment **ret_segment)
{
	struct timespec pause = { .tv_nsec = START_POLL_NS };
	u64 deadline = host_now_ns() + START_WAIT_NS;
	int err = segment_open(lodic->socket_path, ret_segment);

	if (!nobody_listens(err) || !*lodic->program)
		return err;
	err = service_start(lodic);
	if (err)
		return err;
	do {
		err = segment_open(lodic->socket_path, ret_segment);
		if (!nobody_listens(err))
			return err;
		nanosleep(&pause, NULL);
	} while (wait && host_now_ns() < deadline);
	return -ETIMEDOUT;
}

struct segment *segment_get(struct lodic *lodic)
{
	struct segment *s = lodic->segment;

	if (s && !segment_alive(s)) {
		lodic->segment = NULL;
		segment_put(s);
		s = NULL;
	}
	if (!s && retry_due(&lodic->retry) &&
	    segment_open_or_start(lodic, false, &s) == 0) {
		lodic->segment = s;
		retry_reset(&lodic->retry);
	}
	if (s)
		s->users++;
	return s;
}

static int options_take(struct lodic *lodic, const struct lodic_options *o)
{
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	int err;

	if (o->scheme > LODIC_HAZARD)
		return -EINVAL;
	if (o->socket) {
		lodic->socket_path = strdup(o->socket);
	} else {
		err = service_socket_path(path, sizeof(path), true);
		if (err)
			return err;
		lodic->socket_path = strdup(path);
	}
	lodic->program = o->service ? strdup(o->service) : service_program();
	lodic->cache_bytes = o->cache_bytes;
	lodic->scheme = o->scheme;
	lodic->idle_exit_ms = o->idle_exit_ms ? o->idle_exit_ms : 10000;
	return lodic->socket_path && lodic->program ? 0 : -ENOMEM;
}

static void lodic_free(struct lodic *lodic)
{
	pthread_mutex_destroy(&lodic->lock);
	wiped_free(lodic->mark, sizeof(*lodic->mark));
	free(lodic->socket_path);
	free(lodic->program);
	free(lodic);
}

EXPORT int lodic_attach(const struct lodic_options *options, struct lodic **ret_lodic)
{
	struct lodic_options o = { 0 };
	struct lodic *lodic;
	int err;

	if (!ret_lodic || (options && (options->bytes == 0 || options->bytes > 4096)))
		return -EINVAL;
	if (options)
		memcpy(&o, options,
		       options->bytes < sizeof(o) ? options->bytes : sizeof(o));
	lodic = calloc(1, sizeof(*lodic));
	if (!lodic)
		return -ENOMEM;
	pthread_mutex_init(&lodic->lock, NULL);
	lodic->mark = wiped_alloc(sizeof(*lodic->mark));
	err = lodic->mark ? options_take(lodic, &o) : -ENOMEM;
	if (!err) {
		*lodic->mark = 1;
		err = segment_open_or_start(lodic, true, &lodic->segment);
	}
	if (err) {
		lodic_free(lodic);
		return err;
	}
	*ret_lodic = lodic;
	return 0;
}

EXPORT void lodic_detach(struct lodic *lodic)
{
	/* In a forked child the segment's memory is not there to be unmapped, and the
	 * socket is the parent's. */
	if (lodic && lodic->segment && !lodic_forked(lodic))
		segment_put(lodic->segment);
	if (lodic)
		lodic_free(lodic);
}
