/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Asking a service without attaching to it. See lib/look.h. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "lib/port.h"
#include "lib/reason.h"
#include "lib/wire.h"

struct look {
	int socket;
	uint32_t nr_owed; /* answers that have not come yet */
	struct wire_page page; /* the last answer */
};

static int look_connect(const char *path, int *ret_socket, int *ret_pid)
{
	struct port_peer peer;
	int err, fd = port_socket();

	if (fd < 0)
		return fd;
	/* A full backlog must not hang the caller. */
	err = port_connect_within(fd, path, LOOK_TIMEOUT_MS);
	if (err == -EAGAIN)
		err = -ETIMEDOUT;
	if (!err)
		err = port_peer(fd, &peer);
	if (!err && peer.uid != port_user() && port_user() != 0)
		err = -EPERM;
	if (!err)
		*ret_pid = peer.pid;
	if (err)
		port_close(fd);
	else
		*ret_socket = fd;
	return err;
}

int look_open(const char *socket, struct look **ret_look, int *ret_pid)
{
	struct look *l = port_alloc(sizeof(*l));
	int err;

	if (!l)
		return -ENOMEM;
	err = look_connect(socket, &l->socket, ret_pid);
	if (err)
		port_free(l);
	else
		*ret_look = l;
	return err;
}

void look_close(struct look *look)
{
	if (!look)
		return;
	port_close(look->socket);
	port_free(look);
}

/* Sends a request and waits for the answer, which is then in look->page, with *ret_bytes of
 * records behind it. Descriptors that come with the answer are not taken. */
static int look_ask(struct look *l, const struct wire_request *request,
                    uint64_t *ret_bytes)
{
	struct port_message m = { .bytes = &l->page, .room = sizeof(l->page) };
	int err = wire_send(l->socket, request, sizeof(*request), NULL, 0);
	int ready;

	if (err)
		return err == -EAGAIN ? -ETIMEDOUT : err;
	l->nr_owed++;
	do { /* an answer that was not waited for comes first */
		ready = port_wait(l->socket, PORT_INPUT, LOOK_TIMEOUT_MS);
		if (ready <= 0)
			return ready ? ready : -ETIMEDOUT;
		err = port_receive(l->socket, &m);
		if (err || m.got == 0)
			return err ? err : -ECONNRESET;
	} while (--l->nr_owed > 0);
	if (m.got < sizeof(l->page.reply) || m.cut)
		return -EPROTO;
	err = reason_is_error(l->page.reply.error) ? reason_error(l->page.reply.error)
	                                           : -EPROTO;
	*ret_bytes = m.got - sizeof(l->page.reply);
	return err;
}

int look_stat(struct look *look, struct lodic_stat *ret_stat)
{
	struct wire_request request = { .version = WIRE_VERSION, .op = WIRE_STAT };
	uint64_t bytes;
	int err = look_ask(look, &request, &bytes);

	if (!err)
		*ret_stat = look->page.reply.stat;
	return err;
}

/* Each kind of record: how one asks for it, how long it is at least, and where its text must
 * have come to its end. Its cursor rises from page to page, or falls. */
static const struct look_kind {
	uint32_t op;
	size_t least;
	size_t text_end;
	bool falls;
} look_kinds[] = {
	[LOOK_FILES] = { WIRE_FILES, sizeof(struct look_file) + 1,
	                 offsetof(struct look_file, path) - 1, false },
	[LOOK_READERS] = { WIRE_READERS, sizeof(struct look_reader),
	                   sizeof(struct look_reader) - 1, true },
	[LOOK_CONTEXTS] = { WIRE_CONTEXTS, sizeof(struct look_context), 0, false },
	[LOOK_HOLDS] = { WIRE_HOLDS, sizeof(struct look_hold), 0, false },
	[LOOK_TIMES] = { WIRE_TIMES, sizeof(struct look_times), 0, false },
	[LOOK_TIERS] = { WIRE_TIERS, sizeof(struct look_tier),
	                 sizeof(struct look_tier) - 1, false },
};
_Static_assert(offsetof(struct look_file, path) ==
                       offsetof(struct look_file, proof) +
                               sizeof(((struct look_file *)0)->proof),
               "a proof's name ends where the path begins");
_Static_assert(sizeof(struct look_reader) ==
                       offsetof(struct look_reader, name) +
                               sizeof(((struct look_reader *)0)->name),
               "a reader's name ends its record");

_Static_assert(sizeof(struct look_tier) ==
                       offsetof(struct look_tier, policy) +
                               sizeof(((struct look_tier *)0)->policy),
               "a policy's name ends its record");

/* Hands over the records of a page. They may lie: nothing is believed but what is checked. */
static int look_hand_over(struct look *l, const struct look_kind *kind, uint64_t bytes,
                          int (*each)(void *ctx, const void *record), void *ctx)
{
	unsigned char *at = l->page.records;
	uint32_t length;
	int err = 0;

	if (bytes != l->page.reply.page.bytes)
		return -EPROTO;
	while (bytes > 0 && !err) {
		if (bytes < kind->least)
			return -EPROTO;
		memcpy(&length, at, sizeof(length));
		if (length < kind->least || length > bytes || length % 8 != 0)
			return -EPROTO;
		if (kind->text_end)
			at[kind->text_end] = at[length - 1] = '\0';
		err = each(ctx, at);
		at += length;
		bytes -= length;
	}
	return err;
}

/* Otherwise the pages could lead round in a circle. */
static bool look_goes_on(const struct look_kind *kind, uint64_t now, uint64_t next)
{
	if (kind->falls && now && next != LOOK_END)
		return next < now;
	return next > now;
}

int look_list(struct look *look, enum look_list list,
              int (*each)(void *ctx, const void *record), void *ctx)
{
	const struct look_kind *kind = &look_kinds[list];
	struct wire_request request = { .version = WIRE_VERSION, .op = kind->op };
	uint64_t bytes;
	int err;

	do {
		err = look_ask(look, &request, &bytes);
		if (!err)
			err = look_hand_over(look, kind, bytes, each, ctx);
		if (!err && !look_goes_on(kind, request.a, look->page.reply.page.next))
			err = -EPROTO;
		request.a = look->page.reply.page.next;
	} while (!err && request.a != LOOK_END);
	return err;
}

int look_file_errno(const struct look_file *file)
{
	return -reason_error(file->reason);
}

const char *look_file_reason(const struct look_file *file)
{
	return reason_name_of(file->reason);
}

const char *look_file_why(const struct look_file *file)
{
	const char *why = file->path + strlen(file->path) + 1;

	return why < (const char *)file + file->bytes ? why : "";
}

int look_drop(struct look *look, uint64_t dev, uint64_t ino, struct look_dropped *total)
{
	struct wire_request request = {
		.version = WIRE_VERSION, .op = WIRE_DROP, .b = dev, .c = ino
	};
	const struct look_dropped *d = &look->page.reply.drop.dropped;
	uint64_t bytes;
	int err;

	total->busy = 0;
	do {
		err = look_ask(look, &request, &bytes);
		if (err)
			break;
		if (look->page.reply.drop.next <= request.a)
			return -EPROTO;
		request.a = look->page.reply.drop.next;
		total->files += d->files;
		total->open += d->open;
		total->blocks += d->blocks;
		total->pinned = d->pinned;
		total->busy += d->busy;
	} while (request.a != LOOK_END);
	return err;
}

static int look_ask_resize(struct look *look, uint64_t bytes, uint64_t block_bytes,
                           struct look_resize *ret_resize)
{
	struct wire_request request = {
		.version = WIRE_VERSION, .op = WIRE_RESIZE, .a = bytes, .b = block_bytes
	};
	uint64_t more;
	int err = look_ask(look, &request, &more);

	if (err && err != -EBUSY)
		return err;
	*ret_resize = look->page.reply.resize;
	ret_resize->why[LOOK_WHY_BYTES - 1] = '\0';
	return err;
}

int look_resize(struct look *look, uint64_t bytes, struct look_resize *ret_resize)
{
	return look_ask_resize(look, bytes, 0, ret_resize);
}

int look_room(struct look *look, uint64_t bytes, struct look_resize *ret_resize)
{
	return look_ask_resize(look, 0, bytes, ret_resize);
}

int look_move(struct look *look, uint64_t dev, uint64_t ino, enum look_tier_kind to)
{
	struct wire_request request = {
		.version = WIRE_VERSION, .op = WIRE_MOVE, .a = to, .b = dev, .c = ino
	};
	uint64_t more;

	return look_ask(look, &request, &more);
}

int look_keep(struct look *look, uint64_t dev, uint64_t ino)
{
	const struct wire_request request = {
		.version = WIRE_VERSION, .op = WIRE_KEEP, .a = dev, .b = ino
	};
	uint64_t bytes;

	return look_ask(look, &request, &bytes);
}

int look_stop(struct look *look)
{
	static const struct wire_request request = { .version = WIRE_VERSION,
		                                     .op = WIRE_STOP };
	uint64_t bytes;

	return look_ask(look, &request, &bytes);
}

bool look_hung_up(struct look *look, int ms)
{
	return port_wait(look->socket, PORT_HANG_UP, ms) > 0;
}
