/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See others.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/reason.h"
#include "lib/wire.h"
#include "tests/outside/others.h"

#define BLOCK LODIC_BLOCK_BYTES

int raw_connect(const struct test_service *service)
{
	struct wire_request hello = { .version = WIRE_VERSION, .op = WIRE_HELLO };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct wire_reply reply;
	int fds[WIRE_MAX_FDS];
	u32 nr;

	strcpy(address.sun_path, service->socket);
	REQUIRE(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0, "%s",
	        strerror(errno));
	REQUIRE(wire_send(fd, &hello, sizeof(hello), NULL, 0) == 0, "not sent");
	REQUIRE(WAIT_UNTIL(wire_receive(fd, &reply, sizeof(reply), fds, &nr) == 0),
	        "no answer");
	while (nr > 0)
		close(fds[--nr]);
	return fd;
}

void raw_send(int socket, u32 op, int fd)
{
	struct wire_request request = { .version = WIRE_VERSION, .op = op };

	REQUIRE(wire_send(socket, &request, sizeof(request), &fd, 1) == 0, "not sent");
}

int raw_answer(int socket, int ms)
{
	struct pollfd wait = { .fd = socket, .events = POLLIN };
	struct wire_reply reply;
	int fds[WIRE_MAX_FDS];
	u32 nr;

	if (poll(&wait, 1, ms) == 0)
		return 1;
	REQUIRE(WAIT_UNTIL(wire_receive(socket, &reply, sizeof(reply), fds, &nr) == 0),
	        "no answer");
	return reason_error(reply.error);
}

static int other_run(const struct test_service *service, const char *path, int cached)
{
	struct lodic_context *context;
	struct lodic_file *file;
	struct lodic *lodic;
	u8 buffer[BLOCK];
	int fd = fixture_open(path, O_RDONLY);

	REQUIRE(test_service_attach(service, &lodic) == 0, "not attached");
	REQUIRE(lodic_context_open(lodic, &context) == 0, "no context");
	REQUIRE(lodic_open(lodic, fd, &file) == 0, "not opened");
	REQUIRE(lodic_file_cached(file) == cached, "%d", lodic_file_cached(file));
	if (cached == 0)
		REQUIRE(lodic_prefetch(context, file, 0, 0, LODIC_WAIT) == 0,
		        "not cached");
	REQUIRE(lodic_read(context, file, buffer, BLOCK, 0) == BLOCK, "not read");
	REQUIRE(pattern_holds(buffer, 1, 1, 0, BLOCK), "wrong bytes");
	lodic_close(file);
	lodic_context_close(context);
	lodic_detach(lodic);
	close(fd);
	return 0;
}

struct other other_start(const struct test_service *service, const char *path,
                         int cached)
{
	struct other o = { .go = fixture_shared(sizeof(*o.go)) };

	o.pid = fixture_fork();
	if (o.pid == 0) {
		while (!host_load_acquire(o.go))
			fixture_pause_us(100);
		_exit(other_run(service, path, cached));
	}
	return o;
}

void assert_other_is_served(const struct other *o)
{
	u64 start = host_now_ns();

	host_store_release(o->go, 1);
	assert_int_equal(fixture_wait(o->pid), 0);
	assert_true(host_now_ns() - start < (u64)SOON_MS * 1000000);
}

void assert_others_are_served(const struct test_service *service, const char *path,
                              int cached)
{
	struct other o = other_start(service, path, cached);

	assert_other_is_served(&o);
}

int hang_file(const char *path, u64 events)
{
	int fan = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY);

	if (fan < 0)
		fixture_skip("this kernel has no fanotify permission events");
	assert_int_equal(fanotify_mark(fan, FAN_MARK_ADD, events, AT_FDCWD, path), 0);
	return fan;
}
