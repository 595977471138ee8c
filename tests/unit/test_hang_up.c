/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A connection ends, and what came by it is unread: a descriptor whose close waits for WAIT_S. The
 * main thread does not close it. One that cannot pass to a resized cache ends, too, and is not
 * heard of there. The service is this process's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/service/loop/run.h"
#include "lib/service/succession/make.h"
#include "lib/port/listen.h"
#include "lib/port/set.h"
#include "lib/reason.h"
#include "lib/service/base/socket.h"
#include "lib/service/base/worker.h"
#include "lib/service/client/accept.h"
#include "lib/service/client/client.h"
#include "lib/service/client/domain.h"
#include "lib/service/succession/whole.h"
#include "tests/support/cache_fixture.h"

#define WAIT_S 5

/* A connection whose other end reads nothing, and that wants to send more first. */
static int lingering(void)
{
	static char bytes[1 << 16];
	struct sockaddr_in at = { .sin_family = AF_INET,
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct linger linger = { 1, WAIT_S };
	socklen_t n = sizeof(at);
	int server = socket(AF_INET, SOCK_STREAM, 0);
	int client = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(server, (struct sockaddr *)&at, n), 0);
	assert_int_equal(listen(server, 1), 0);
	assert_int_equal(getsockname(server, (struct sockaddr *)&at, &n), 0);
	assert_int_equal(connect(client, (struct sockaddr *)&at, n), 0);
	assert_int_equal(
		setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	while (send(client, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	return client;
}

static struct service *begin(void)
{
	static char path[FIXTURE_PATH_BYTES];
	struct service_options options = { .place.socket = path,
		                           .sizes.cache_bytes = 1 << 20,
		                           .tables.barrier = SERVICE_BARRIER_LOCK,
		                           .keeping.nr_files = 64 };
	const char *why = NULL;
	struct service *s;
	sigset_t all, old;

	fixture_path(path, "hang_up");
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	assert_int_equal(service_open(&options, &s, &why), 0);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return s;
}

/* Sends what the service will not read. Its descriptor is nobody else's then. */
static void send_lingering(int socket)
{
	const struct wire_request request = { .version = WIRE_VERSION };
	int fd = lingering();

	assert_int_equal(wire_send(socket, &request, sizeof(request), &fd, 1), 0);
	close(fd);
}

static struct client *client_make(struct service *s, int *ret_program)
{
	struct client *c = calloc(1, sizeof(*c));
	int ends[2];

	assert_non_null(c);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends),
	                 0);
	assert_int_equal(port_ask_senders(ends[0]), 0);
	c->asked = true;
	c->socket = ends[0];
	c->process = c->wake = -1;
	c->newest = c->reap_at = FRAME_NONE;
	s->clients.first = c;
	*ret_program = ends[1];
	return c;
}

static struct client *client_with_unread(struct service *s)
{
	int program;
	struct client *c = client_make(s, &program);

	/* An empty message looks like the end, but has a sender. */
	assert_int_equal(send(program, "", 0, 0), 0);
	send_lingering(program);
	close(program);
	return c;
}

/* A worker has the descriptor, and the main thread has not waited for its close. */
static void assert_soon(const struct service *s, u64 since_ns)
{
	assert_int_equal(worker_nr_closing(&s->base), 1);
	assert_true(host_now_ns() - since_ns < (u64)WAIT_S * 1000000000 / 2);
}

static void unread_descriptor_is_a_workers(void **state)
{
	struct service *s = begin();
	struct client *c = client_with_unread(s);
	u64 since_ns = host_now_ns();

	(void)state;
	client_hang_up(&s->clients, c);
	assert_soon(s, since_ns);
	service_shut(s);
}

/* The program has not read an answer. Then the kernel tells of a reset first. */
static void unread_descriptor_after_a_reset_is_a_workers(void **state)
{
	struct service *s = begin();
	u64 since_ns;
	int program;
	struct client *c = client_make(s, &program);

	(void)state;
	assert_int_equal(send(c->socket, "", 1, 0), 1);
	send_lingering(program);
	close(program);
	since_ns = host_now_ns();
	client_hang_up(&s->clients, c);
	assert_soon(s, since_ns);
	service_shut(s);
}

/* A worker still looks at a file for this client when a resize ends. */
static void unread_descriptor_at_a_resize_is_a_workers(void **state)
{
	struct service *s = begin(), *to;
	struct client *c = client_with_unread(s);
	void *opening = calloc(1, 1 << 16); /* as large as a struct opening, and more */
	const char *why = NULL;
	u64 since_ns;

	(void)state;
	assert_int_equal(service_make(s, 1 << 20, &to, &why), 0);
	assert_int_equal(service_fill_arena(to, &why), 0);
	to->base.workers = s->base.workers;
	c->opening = opening;
	since_ns = host_now_ns();
	accept_take_over(&to->clients, &s->clients);
	assert_soon(s, since_ns);
	assert_int_equal(c->socket, -1);
	to->base.workers = NULL;
	service_shut(to);
	service_shut(s);
	free(opening);
}

/* Its socket can be watched, and its process cannot: epoll takes no regular file. */
static void client_that_cannot_pass_at_a_resize_is_not_heard_of(void **state)
{
	struct service *s = begin(), *to;
	int program;
	struct client *c = client_make(s, &program);
	const char *why = NULL;
	void *heard;

	(void)state;
	assert_int_equal(service_make(s, 1 << 20, &to, &why), 0);
	assert_int_equal(service_fill_arena(to, &why), 0);
	c->process = fixture_open("/proc/self/exe", O_RDONLY);
	accept_take_over(&to->clients, &s->clients);
	assert_null(to->clients.first);
	assert_true(c->socket >= 0);
	close(program);
	assert_int_equal(port_set_wait(to->base.epoll, &heard, 1, 0), 0);
	service_shut(to);
	service_shut(s);
}

bool __wrap_socket_peer_is_ours(int socket, struct port_peer *ret_peer);

static bool strangers;

/* May programs look at this service? */
bool __wrap_socket_peer_is_ours(int socket, struct port_peer *ret_peer)
{
	(void)socket;
	*ret_peer = (struct port_peer){ .pid = getpid(), .uid = getuid() };
	return !strangers;
}

static int connect_to(const struct service *s)
{
	int socket = port_socket();

	assert_true(socket >= 0);
	assert_int_equal(port_connect(socket, s->base.socket_path), 0);
	return socket;
}

static void descriptor_of_a_stranger_is_a_workers(void **state)
{
	struct service *s = begin();
	int socket = connect_to(s);
	u64 since_ns;

	(void)state;
	strangers = true;
	send_lingering(socket);
	since_ns = host_now_ns();
	accept_clients(&s->clients, true);
	assert_soon(s, since_ns);
	assert_null(s->clients.first);
	close(socket);
	service_shut(s);
}

static void descriptor_of_one_without_room_is_a_workers(void **state)
{
	struct service *s = begin();
	int socket = connect_to(s), fds[WIRE_MAX_FDS];
	struct wire_reply reply;
	u64 since_ns;
	u32 nr_fds;

	(void)state;
	strangers = false;
	s->clients.nr_connections = UINT32_MAX / 2; /* more than there can be */
	send_lingering(socket);
	since_ns = host_now_ns();
	accept_clients(&s->clients, true);
	assert_soon(s, since_ns);
	assert_null(s->clients.first);
	assert_int_equal(wire_receive(socket, &reply, sizeof(reply), fds, &nr_fds), 0);
	assert_int_equal(reason_error(reply.error), -EMFILE);
	s->clients.nr_connections = 0;
	close(socket);
	service_shut(s);
}

/* Their messages are taken out before their sockets close, and other programs wait. */
static void strangers_with_many_messages_are_for_several_turns(void **state)
{
	const struct wire_request request = { .version = WIRE_VERSION };
	struct service *s = begin();
	int sockets[2];

	(void)state;
	strangers = true;
	for (u32 i = 0; i < 2; i++) {
		sockets[i] = connect_to(s);
		for (u32 n = 0; n < 100; n++)
			assert_int_equal(wire_send(sockets[i], &request,
			                           sizeof(request), NULL, 0),
			                 0);
	}
	for (u32 turn = 0; turn < 2; turn++) {
		accept_clients(&s->clients, true);
		for (u32 i = 0; i < 2; i++)
			assert_int_equal(port_ready(sockets[i], PORT_HANG_UP),
			                 i <= turn);
	}
	for (u32 i = 0; i < 2; i++)
		close(sockets[i]);
	service_shut(s);
}

/* A size that no arena has is refused, and nothing is given that was freed. */
static void arena_of_any_size_is_not_made(void **state)
{
	struct service *s = begin(), *to = NULL;
	const char *why = NULL;

	(void)state;
	assert_int_equal(service_make(s, UINT64_MAX, &to, &why), -EINVAL);
	assert_null(to);
	assert_non_null(why);
	service_shut(s);
}

/* A connection has two descriptors, and connections have half of them. */
static void connections_end_where_descriptors_do(void **state)
{
	struct service *s = begin();
	struct rlimit limit, few;
	bool fits, crowded;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	few = limit;
	few.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	s->clients.nr_connections = 15;
	fits = !domain_is_crowded(&s->clients, 1);
	s->clients.nr_connections = 16;
	crowded = domain_is_crowded(&s->clients, 1);
	s->clients.nr_connections = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_true(fits);
	assert_true(crowded);
	service_shut(s);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unread_descriptor_is_a_workers),
		cmocka_unit_test(unread_descriptor_after_a_reset_is_a_workers),
		cmocka_unit_test(unread_descriptor_at_a_resize_is_a_workers),
		cmocka_unit_test(client_that_cannot_pass_at_a_resize_is_not_heard_of),
		cmocka_unit_test(descriptor_of_a_stranger_is_a_workers),
		cmocka_unit_test(descriptor_of_one_without_room_is_a_workers),
		cmocka_unit_test(strangers_with_many_messages_are_for_several_turns),
		cmocka_unit_test(arena_of_any_size_is_not_made),
		cmocka_unit_test(connections_end_where_descriptors_do),
	};

	fixture_begin(argc, argv, NULL);
	return cmocka_run_group_tests_name("hang_up", tests, NULL, NULL);
}
