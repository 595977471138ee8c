/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: cli/notify.h. */
#define _GNU_SOURCE
#include "cli/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/cli.h"

#define PASSED_FD 3 /* the first one, as the protocol has it */
#define MESSAGE_BYTES 512
#define NS_PER_US 1000u

static struct {
	struct sockaddr_un address;
	socklen_t bytes; /* 0: nobody wants to be told */
	uint64_t watchdog_ns;
	uint64_t told_ns; /* that this process is alive */
} manager;

/* Is the number in this variable this process's? */
static bool notify_is_ours(const char *name, bool or_none)
{
	const char *text = getenv(name);
	uint64_t pid;

	if (!text)
		return or_none;
	return cli_parse_number(text, 1, INT_MAX, &pid) == 0 && (int)pid == getpid();
}

/* A path, or the name of an abstract socket behind '@'. */
static void notify_find_manager(void)
{
	const char *name = getenv("NOTIFY_SOCKET");
	uint64_t us;

	if (name && (*name == '/' || *name == '@') &&
	    strlen(name) < sizeof(manager.address.sun_path)) {
		manager.address.sun_family = AF_UNIX;
		memcpy(manager.address.sun_path, name, strlen(name));
		if (*name == '@')
			manager.address.sun_path[0] = '\0';
		manager.bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
		                            strlen(name));
	}
	name = getenv("WATCHDOG_USEC");
	if (name && notify_is_ours("WATCHDOG_PID", true) &&
	    cli_parse_number(name, 1, UINT64_MAX / NS_PER_US, &us) == 0)
		manager.watchdog_ns = us * NS_PER_US;
}

/* What is missing in the socket that was passed in; NULL: nothing. */
static const char *notify_check_socket(int fd, char path[108])
{
	struct sockaddr_un address = { 0 };
	socklen_t bytes = sizeof(address);
	int type = 0, listens = 0;
	socklen_t type_bytes = sizeof(type), listens_bytes = sizeof(listens);

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_bytes) != 0)
		return "it is no socket";
	if (type != SOCK_SEQPACKET)
		return "it must be a SOCK_SEQPACKET one (ListenSequentialPacket=)";
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_bytes) != 0 ||
	    !listens)
		return "it does not listen (Accept=no)";
	if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0 ||
	    address.sun_family != AF_UNIX || address.sun_path[0] != '/' ||
	    bytes > sizeof(address))
		return "it has no path";
	memcpy(path, address.sun_path, sizeof(address.sun_path));
	path[sizeof(address.sun_path) - 1] = '\0';
	return NULL;
}

static int notify_take_socket(struct notify_passed *passed)
{
	const char *text = getenv("LISTEN_FDS");
	const char *wrong;
	uint64_t nr;

	if (!text || !notify_is_ours("LISTEN_PID", false))
		return 0;
	if (cli_parse_number(text, 0, INT_MAX, &nr) != 0 || nr > 1)
		wrong = "there must be one (LISTEN_FDS)";
	else if (nr == 0)
		return 0;
	else
		wrong = notify_check_socket(PASSED_FD, passed->path);
	if (wrong) {
		snprintf(passed->why, sizeof(passed->why),
		         "the service manager's socket cannot be used: %s", wrong);
		return -EINVAL;
	}
	fcntl(PASSED_FD, F_SETFD, FD_CLOEXEC);
	fcntl(PASSED_FD, F_SETFL, fcntl(PASSED_FD, F_GETFL) | O_NONBLOCK);
	passed->socket = PASSED_FD;
	return 0;
}

int notify_begin(struct notify_passed *passed)
{
	static const char *const names[] = { "NOTIFY_SOCKET", "WATCHDOG_USEC",
		                             "WATCHDOG_PID",  "LISTEN_FDS",
		                             "LISTEN_PID",    "LISTEN_FDNAMES" };
	int err;

	memset(passed, 0, sizeof(*passed));
	notify_find_manager();
	err = notify_take_socket(passed);
	for (unsigned int i = 0; i < sizeof(names) / sizeof(*names); i++)
		unsetenv(names[i]);
	return err;
}

void notify_send(const char *format, ...)
{
	char message[MESSAGE_BYTES];
	va_list args;
	int fd, n;

	if (manager.bytes == 0)
		return;
	va_start(args, format);
	n = vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || n < 0)
		return;
	/* What does not fit is a long path in STATUS, which comes last. */
	sendto(fd, message, n < MESSAGE_BYTES ? (size_t)n : MESSAGE_BYTES - 1,
	       MSG_NOSIGNAL | MSG_DONTWAIT, (const struct sockaddr *)&manager.address,
	       manager.bytes);
	close(fd);
}

bool notify_is_watched(void)
{
	return manager.bytes > 0 && manager.watchdog_ns > 0;
}

void notify_alive(void)
{
	uint64_t now = cli_now_ns();

	if (!notify_is_watched() || now - manager.told_ns < manager.watchdog_ns / 2)
		return;
	manager.told_ns = now;
	notify_send("WATCHDOG=1");
}
