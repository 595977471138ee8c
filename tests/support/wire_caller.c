/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See wire_caller.h. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/reason.h"
#include "tests/support/wire_caller.h"

void caller_connect(struct wire_caller *c, const struct test_service *service)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	c->cpu = 0;
	c->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	REQUIRE(c->socket >= 0, "%s", strerror(errno));
	strcpy(address.sun_path, service->socket);
	REQUIRE(connect(c->socket, (struct sockaddr *)&address, sizeof(address)) == 0,
	        "%s", strerror(errno));
}

void caller_send(struct wire_caller *c, u32 op, u64 a, u64 b, u64 n, int fd)
{
	const struct wire_request request = {
		.version = WIRE_VERSION, .op = op, .a = a, .b = b, .c = n, .cpu = c->cpu
	};

	REQUIRE(wire_send(c->socket, &request, sizeof(request), &fd, fd >= 0) == 0,
	        "not sent");
}

int caller_receive(struct wire_caller *c)
{
	int err = 0;

	REQUIRE(WAIT_UNTIL((err = wire_receive(c->socket, &c->reply, sizeof(c->reply),
	                                       c->fds, &c->nr_fds)) != -EAGAIN),
	        "no answer");
	return err == -ECONNRESET ? err : reason_error(c->reply.error);
}

int caller_ask(struct wire_caller *c, u32 op, u64 a, u64 b, u64 n)
{
	caller_send(c, op, a, b, n, -1);
	return caller_receive(c);
}

void caller_hello(struct wire_caller *c, const struct test_service *service)
{
	caller_connect(c, service);
	REQUIRE(caller_ask(c, WIRE_HELLO, 0, 0, 0) == 0, "no HELLO");
	while (c->nr_fds > 0)
		close(c->fds[--c->nr_fds]);
}

int caller_open_lock(const struct test_service *service, int flags)
{
	char path[FIXTURE_PATH_BYTES + 8];

	snprintf(path, sizeof(path), "%s.lock", service->socket);
	return open(path, flags | O_CLOEXEC);
}

int caller_succeed(struct wire_caller *c, const struct test_service *service)
{
	int lock = caller_open_lock(service, O_RDWR), err;

	REQUIRE(lock >= 0, "%s", strerror(errno));
	caller_connect(c, service);
	caller_send(c, WIRE_SUCCEED, 0, 0, 0, lock);
	err = caller_receive(c);
	close(lock);
	close(c->socket);
	c->socket = -1;
	if (err)
		return err;
	REQUIRE(c->nr_fds == 1, "no channel");
	c->socket = c->fds[--c->nr_fds];
	return 0;
}

u64 caller_open(struct wire_caller *c, const char *path)
{
	int fd = fixture_open(path, O_RDONLY);

	caller_send(c, WIRE_FILE_OPEN, 0, 0, 0, fd);
	REQUIRE(caller_receive(c) == 0, "not opened");
	close(fd);
	return c->reply.file.id;
}

int caller_wait_settled(const struct test_service *service, u64 number)
{
	struct wire_caller c;
	int err;

	caller_connect(&c, service);
	err = caller_ask(&c, WIRE_HOLD_WAIT, number, 0, 0);
	close(c.socket);
	return err;
}

int caller_hold(struct wire_caller *c, const struct test_service *service, u64 id,
                u64 offset, u64 n)
{
	int err = caller_ask(c, WIRE_HOLD, id, offset, n);

	while (err == -EINPROGRESS) {
		err = caller_wait_settled(service, c->reply.hold.number);
		if (!err)
			err = caller_ask(c, WIRE_HOLD, id, offset, n);
	}
	if (err) {
		REQUIRE(c->nr_fds == 0, "a descriptor with an error");
		return err;
	}
	REQUIRE(c->nr_fds == 1, "no descriptor");
	return c->fds[0];
}

bool caller_error_is_named(int error)
{
	static const int named[] = {
		0,      EINPROGRESS, EINVAL,     ESTALE,   ENODATA,     EFBIG,  ENOSPC,
		ENFILE, EMFILE,      ENOMEM,     EAGAIN,   EBUSY,       EPROTO, EBADF,
		EISDIR, ENODEV,      EOPNOTSUPP, ETXTBSY,  EUSERS,      EACCES, EDQUOT,
		ENOENT, ECONNRESET,  EPERM,      EALREADY, EMEDIUMTYPE, ENOLCK
	};

	for (u32 i = 0; i < sizeof(named) / sizeof(*named); i++)
		if (named[i] == error)
			return true;
	return false;
}

struct lodic_stat caller_stat(struct wire_caller *c)
{
	REQUIRE(caller_ask(c, WIRE_STAT, 0, 0, 0) == 0, "no STAT");
	return c->reply.stat;
}

u32 caller_nr_descriptors(const struct test_service *service)
{
	char path[64];
	u32 nr = 0;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/fd", service->pid);
	folder = opendir(path);
	REQUIRE(folder, "%s", strerror(errno));
	while (readdir(folder))
		nr++;
	closedir(folder);
	return nr;
}

bool caller_holds_pattern(int fd, u64 file, u64 version, u64 offset, u64 bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	bool holds;

	REQUIRE(at != MAP_FAILED, "%s", strerror(errno));
	holds = pattern_holds(at, file, version, offset, bytes);
	munmap(at, bytes);
	return holds;
}
