/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See peer.h. */
#define _GNU_SOURCE
#include "tests/fuzz/peer.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MOST_CLIENTS 16u

static struct {
	int listening;
	int clients[MOST_CLIENTS];
	u32 nr;
	void (*answer)(const struct wire_request *request, struct peer_answer *ret);
} peer = { .listening = -1 };

/* The linker's names: the real function, and the one that is called in its place. */
int __real_wire_send(int socket, const void *message, unsigned long bytes,
                     const int *fds, unsigned int nr_fds);
int __wrap_wire_send(int socket, const void *message, unsigned long bytes,
                     const int *fds, unsigned int nr_fds);

void peer_listen(const char *path, void (*answer)(const struct wire_request *request,
                                                  struct peer_answer *ret))
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	strcpy(address.sun_path, path);
	peer.answer = answer;
	peer.listening =
		socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	REQUIRE(peer.listening >= 0 &&
	                bind(peer.listening, (struct sockaddr *)&address,
	                     sizeof(address)) == 0 &&
	                listen(peer.listening, MOST_CLIENTS) == 0,
	        "%s", strerror(errno));
}

static void peer_hang_up(u32 i)
{
	close(peer.clients[i]);
	peer.clients[i] = peer.clients[--peer.nr];
}

/* false: nothing has come, or the client has gone. */
static bool peer_serve(u32 i)
{
	static struct peer_answer answer;
	struct wire_request request = { 0 };
	int fds[WIRE_MAX_FDS];
	u32 nr_fds = 0;
	int err =
		wire_receive(peer.clients[i], &request, sizeof(request), fds, &nr_fds);

	while (nr_fds > 0)
		close(fds[--nr_fds]);
	if (err == -EAGAIN)
		return false;
	memset(&answer.page.reply, 0, sizeof(answer.page.reply));
	answer.bytes = sizeof(answer.page.reply);
	answer.nr_fds = 0;
	answer.hangs_up = false;
	if (!err)
		peer.answer(&request, &answer);
	if (err || answer.hangs_up ||
	    __real_wire_send(peer.clients[i], &answer.page, answer.bytes, answer.fds,
	                     answer.nr_fds) != 0) {
		peer_hang_up(i);
		return false;
	}
	return true;
}

static void peer_serve_all(void)
{
	int socket;

	while (peer.nr < MOST_CLIENTS &&
	       (socket = accept4(peer.listening, NULL, NULL,
	                         SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
		peer.clients[peer.nr++] = socket;
	for (u32 i = peer.nr; i > 0; i--)
		while (i <= peer.nr && peer_serve(i - 1))
			;
}

int __wrap_wire_send(int socket, const void *message, unsigned long bytes,
                     const int *fds, unsigned int nr_fds)
{
	int err = __real_wire_send(socket, message, bytes, fds, nr_fds);

	if (!err)
		peer_serve_all();
	return err;
}

void peer_reset(void)
{
	peer_serve_all(); /* who waits in the queue is let in, and hung up on */
	while (peer.nr > 0)
		peer_hang_up(0);
}
