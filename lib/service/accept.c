/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Programs that connect. Only the main thread comes here. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/service/accept.h"
#include "lib/service/client.h"
#include "lib/service/domain.h"
#include "lib/service/socket.h"

static void accept_add(struct service *s, int socket)
{
	struct ucred peer;
	bool foreign;
	struct client *c = domain_takes_peer(s, socket, &peer, &foreign)
	                           ? calloc(1, sizeof(*c))
	                           : NULL;

	if (!c) {
		close(socket);
		return;
	}
	c->socket = socket;
	c->process = c->wake = -1;
	c->newest = c->reap_at = FRAME_NONE;
	c->socket_source = (struct source){ SOURCE_CLIENT, c };
	c->process_source = (struct source){ SOURCE_PROCESS, c };
	if (service_watch(s, socket, EPOLLIN, &c->socket_source) != 0) {
		close(socket);
		free(c);
		return;
	}
	c->pid = peer.pid;
	c->uid = peer.uid;
	c->foreign = foreign;
	c->since_ns = host_now_ns();
	c->serial = ++s->last_serial;
	c->next = s->clients;
	s->clients = c;
}

void accept_clients(struct service *s)
{
	int socket;

	for (;;) {
		socket =
			accept4(s->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (socket >= 0) {
			accept_add(s, socket);
			continue;
		}
		if (errno == ECONNABORTED || errno == EINTR)
			continue;
		if ((errno != EMFILE && errno != ENFILE) || s->spare < 0)
			return;
		/* No descriptor is left: hang up on the program, instead of spinning. */
		service_close(&s->spare);
		socket = accept4(s->listening, NULL, NULL, SOCK_CLOEXEC);
		service_close(&socket);
		s->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
}
