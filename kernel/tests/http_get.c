// SPDX-License-Identifier: GPL-2.0
/*
 * http_get SOCKET CLIENTS REQUESTS PATH...: CLIENTS threads ask the server behind a socket of
 * the file system for the paths in turn. SOCKET may be a TCP port of this machine instead.
 * Each asks REQUESTS times on a connection that stays. Prints the bytes that came. For
 * observe.sh: most of its kernels have no TCP.
 */
#include "base.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#define HEAD_MOST 4096

static struct sockaddr_un local = { .sun_family = AF_UNIX };
static struct sockaddr_in tcp = { .sin_family = AF_INET };
static struct sockaddr *server = (struct sockaddr *)&local;
static socklen_t server_size = sizeof(local);
static u32 requests, nr_paths;
static char **paths;
static _Atomic u64 bytes;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* The answer's head and body; returns the bytes of the body. */
static u64 answer(int fd)
{
	static __thread char buf[1 << 16];
	size_t have = 0, body;
	char *end, *length;

	do {
		ssize_t n = read(fd, buf + have, HEAD_MOST - have);

		if (n <= 0)
			die("read");
		have += n;
		buf[have] = 0;
		end = strstr(buf, "\r\n\r\n");
	} while (!end);
	length = strstr(buf, "Content-Length: ");
	if (strncmp(buf, "HTTP/1.1 200", 12) || !length)
		die("the answer");
	body = strtoull(length + strlen("Content-Length: "), NULL, 10);
	for (have -= end + 4 - buf; have < body;) {
		ssize_t n = read(fd, buf, sizeof(buf));

		if (n <= 0)
			die("read");
		have += n;
	}
	return body;
}

static void *client(void *arg)
{
	int fd = socket(server->sa_family, SOCK_STREAM, 0);
	char text[512];
	u32 i;

	if (fd < 0 || connect(fd, server, server_size))
		die("connect");
	for (i = 0; i < requests; i++) {
		int n = snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n",
		                 paths[i % nr_paths]);

		if (write(fd, text, n) != n)
			die("write");
		bytes += answer(fd);
	}
	close(fd);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t threads[128];
	u32 i, nr = argc > 4 ? atoi(argv[2]) : 0;

	if (!nr || nr > NR(threads)) {
		fprintf(stderr, "usage: http_get SOCKET CLIENTS REQUESTS PATH...\n");
		return 2;
	}
	if (argv[1][0] == '/') {
		snprintf(local.sun_path, sizeof(local.sun_path), "%s", argv[1]);
	} else {
		tcp.sin_port = htons(atoi(argv[1]));
		tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		server = (struct sockaddr *)&tcp;
		server_size = sizeof(tcp);
	}
	requests = atoi(argv[3]);
	paths = argv + 4;
	nr_paths = argc - 4;
	for (i = 0; i < nr; i++)
		if (pthread_create(&threads[i], NULL, client, NULL))
			die("pthread_create");
	for (i = 0; i < nr; i++)
		pthread_join(threads[i], NULL);
	printf("%llu bytes in %u answers\n", (unsigned long long)bytes, nr * requests);
	return 0;
}
