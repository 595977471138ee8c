/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See asker.h. The rules are doc/authority.md's, and not those of the service's own table. */
#include "check/whole/asker.h"

#include <string.h>

#include "lib/port.h"
#include "lib/port/listen.h"
#include "lib/reason.h"

#define LOCK_PATH WORLD_SOCKET ".lock"
#define ANSWER_MS 3000

/* What a request needs of its sender, at connect() ("then") and by the message ("now"). */
enum asker_right {
	RIGHT_NONE,    /* there is no such request */
	RIGHT_ANY,     /* a program that was let in */
	RIGHT_ATTACH,  /* now: the same user as then, or the service's, or root */
	RIGHT_HOLD,    /* then: the service's user, or root */
	RIGHT_LOOK,    /* then and now: the service's user, or root */
	RIGHT_SUCCEED, /* then and now: the service's user */
};

#define NEW (1u << ASKER_NEW)
#define READER (1u << ASKER_READER)
#define VISITOR (1u << ASKER_VISITOR)
#define SUCCESSOR (1u << ASKER_SUCCESSOR)

static const struct {
	u8 kinds, right; /* enum asker_right */
} asker_rules[] = {
	[WIRE_HELLO] = { NEW, RIGHT_ATTACH },
	[WIRE_CONTEXT_OPEN] = { READER, RIGHT_ANY },
	[WIRE_CONTEXT_CLOSE] = { READER, RIGHT_ANY },
	[WIRE_FILE_OPEN] = { READER, RIGHT_ANY },
	[WIRE_FILE_CLOSE] = { READER, RIGHT_ANY },
	[WIRE_SYNC] = { NEW | READER | VISITOR, RIGHT_ANY },
	[WIRE_STAT] = { NEW | READER | VISITOR, RIGHT_ANY },
	[WIRE_FILES] = { NEW | VISITOR, RIGHT_LOOK },
	[WIRE_READERS] = { NEW | VISITOR, RIGHT_LOOK },
	[WIRE_CONTEXTS] = { NEW | VISITOR, RIGHT_LOOK },
	[WIRE_DROP] = { NEW | VISITOR, RIGHT_LOOK },
	[WIRE_HOLD] = { READER, RIGHT_HOLD },
	[WIRE_HOLD_FD] = { READER, RIGHT_LOOK },
	[WIRE_HOLD_WAIT] = { NEW | READER | VISITOR, RIGHT_HOLD },
	[WIRE_HOLDS] = { NEW | VISITOR, RIGHT_LOOK },
	[WIRE_RESIZE] = { NEW | VISITOR, RIGHT_LOOK },
	[WIRE_HAND_FILE] = { SUCCESSOR, RIGHT_SUCCEED },
	[WIRE_HAND_FRAMES] = { SUCCESSOR, RIGHT_SUCCEED },
	[WIRE_HAND_OVER] = { SUCCESSOR, RIGHT_SUCCEED },
	[WIRE_HANDED] = { SUCCESSOR, RIGHT_SUCCEED },
	[WIRE_TIMES] = { NEW | VISITOR, RIGHT_ANY },
	[WIRE_TIERS] = { NEW | VISITOR, RIGHT_LOOK },
	[WIRE_MOVE] = { NEW | VISITOR, RIGHT_LOOK },
	[WIRE_SUCCEED] = { NEW | VISITOR, RIGHT_SUCCEED },
	[WIRE_HAND_ARENA] = { SUCCESSOR, RIGHT_SUCCEED },
	[WIRE_HAND_STAY] = { SUCCESSOR, RIGHT_SUCCEED },
	[WIRE_KEEP] = { NEW | VISITOR, RIGHT_LOOK },
	[WIRE_STOP] = { NEW | VISITOR, RIGHT_LOOK },
	[WIRE_NR_OPS] = { 0, RIGHT_NONE },
};

static bool asker_is_ours(u32 uid)
{
	return uid == WORLD_USER || uid == 0;
}

static bool asker_is_let_in(const struct asker *a)
{
	return asker_is_ours(a->uid) ||
	       (a->for_group && a->group == ASKER_GROUP && a->pid_space == 0);
}

static bool asker_may(const struct asker *a, u32 op)
{
	u32 now = process_now()->real_uid;

	if (op > WIRE_NR_OPS || !(asker_rules[op].kinds & 1u << a->kind) || !asker_is_let_in(a))
		return false;
	switch (asker_rules[op].right) {
	case RIGHT_ANY: return true;
	case RIGHT_ATTACH: return now == a->uid || asker_is_ours(now);
	case RIGHT_HOLD: return asker_is_ours(a->uid);
	case RIGHT_LOOK: return asker_is_ours(a->uid) && asker_is_ours(now);
	case RIGHT_SUCCEED: return a->uid == WORLD_USER && now == WORLD_USER;
	default: return false;
	}
}

/* ---- a connection ---- */

int asker_connect(struct asker *a, const char *path, bool for_group)
{
	const struct process *p = process_now();
	int err;

	*a = (struct asker){ .uid = p->uid, .group = p->gid, .pid_space = p->pid_space,
		             .for_group = for_group };
	a->socket = port_socket();
	if (a->socket < 0)
		return a->socket;
	err = port_connect(a->socket, path);
	if (err)
		asker_close(a);
	return err;
}

void asker_close(struct asker *a)
{
	if (a->socket >= 0)
		port_close(a->socket);
	a->socket = -1;
}

int asker_send(const struct asker *a, const void *message, u32 bytes, const int *fds, u32 nr_fds)
{
	return port_send(a->socket, message, bytes, fds, nr_fds);
}

void asker_receive(struct asker *a, struct asker_answer *ret, int ms)
{
	struct port_message m = { .bytes = &ret->page,
		                  .room = sizeof(ret->page),
		                  .most_fds = WIRE_MAX_FDS };
	int err = port_wait(a->socket, PORT_INPUT, ms);

	ret->bytes = ret->nr_fds = 0;
	ret->error = err < 0 ? err : -ETIMEDOUT;
	memset(&ret->page.reply, 0, sizeof(ret->page.reply));
	if (err > 0)
		ret->error = port_receive(a->socket, &m);
	if (err <= 0 || ret->error) {
		a->owes = true;
		return;
	}
	memcpy(ret->fds, m.fds, m.nr_fds * sizeof(*m.fds));
	ret->nr_fds = m.nr_fds;
	ret->bytes = m.got;
	ret->error = m.got == 0 ? -ECONNRESET : reason_error(ret->page.reply.error);
}

void asker_drop(struct asker_answer *answer)
{
	while (answer->nr_fds > 0)
		port_close(answer->fds[--answer->nr_fds]);
}

/* ---- a request ---- */

struct asker_request {
	struct wire_request wire;
	int fd;     /* -1: none goes with it */
	bool proof; /* a successor's: the lock file, opened to read and to write */
	bool may;
};

static int asker_opens(u32 op, bool *ret_proof)
{
	const char *path = world_paths[machine_draw(WORLD_FILES)];

	*ret_proof = false;
	if (op == WIRE_FILE_OPEN)
		return port_open(path);
	if (op != WIRE_SUCCEED)
		return machine_draw(16) == 0 ? port_open(path) : -1;
	switch (machine_draw(4)) {
	case 0: return port_open(path);
	case 1: return port_open(LOCK_PATH);
	case 2: return program_open_to_write(path);
	default: *ret_proof = true; return port_open_to_write(LOCK_PATH);
	}
}

static u32 asker_draws_op(const struct asker *a)
{
	u32 op = machine_draw(WIRE_NR_OPS + 1);

	/* More often what leads on. */
	if (machine_draw(2) == 0)
		return op;
	switch (a->kind) {
	case ASKER_NEW: return machine_draw(2) ? WIRE_HELLO : WIRE_SUCCEED;
	case ASKER_READER:
		return a->number            ? WIRE_HOLD_FD
		       : a->id && machine_draw(2) ? WIRE_HOLD
		                                  : WIRE_FILE_OPEN;
	case ASKER_VISITOR: return WIRE_SUCCEED;
	default: return WIRE_HAND_FILE;
	}
}

static void asker_makes(const struct asker *a, struct asker_request *r)
{
	u32 op = asker_draws_op(a);

	/* Its own user may end it, or take its place: seldom. */
	if ((op == WIRE_STOP || op == WIRE_HAND_OVER || op == WIRE_HANDED) &&
	    machine_draw(16) > 0 && asker_may(a, op))
		op = WIRE_STAT;
	*r = (struct asker_request){ .wire = { .version = WIRE_VERSION, .op = op } };
	r->wire.a = machine_draw(16);
	r->wire.b = machine_draw(4) ? 0 : machine_draw(16);
	if (op == WIRE_HOLD)
		r->wire.a = a->id;
	if (op == WIRE_HOLD_FD || op == WIRE_HOLD_WAIT)
		r->wire.a = a->number;
	if (op == WIRE_FILE_CLOSE) {
		r->wire.a = a->slot;
		r->wire.b = a->id;
	}
	if (op == WIRE_CONTEXT_OPEN)
		r->wire.a = machine_draw(2);
	if (op == WIRE_RESIZE)
		r->wire.a = machine_draw(4) ? 0 : (u64)64 << 10 << machine_draw(3);
	r->fd = asker_opens(op, &r->proof);
}

/* Without seals and without /proc one user's memory can be written: there is no other user. */
static void asker_checks_memory(const struct asker *a, u32 op, int fd)
{
	void *at;

	if (machine.nr_faults[FAULT_ERRNO] > 0 && !a->for_group)
		return;
	if (port_map(NULL, 4096, PORT_READ | PORT_WRITE, PORT_SHARED, fd, 0, &at) != 0)
		return;
	port_unmap(at, 4096);
	machine_fail("request %u gives memory that can be written", op);
}

/* No descriptor is of a file that the program could not open itself, and none of the cache's memory
 * can be written. Of an arena the third part is for readers to write (core/cache/arena.h). */
static void asker_checks_fds(const struct asker *a, u32 op, const struct asker_answer *answer)
{
	for (u32 i = 0; i < answer->nr_fds; i++) {
		const struct description *d = fd_get(answer->fds[i]);

		if (fd_file_is(d) && op != WIRE_HAND_OVER &&
		    (op != WIRE_HAND_FILE || !(d->mode & PORT_NAMES_ONLY)))
			machine_fail("request %u is answered with a file", op);
		if (((op == WIRE_HELLO || op == WIRE_HAND_ARENA) && i < 2) || op == WIRE_HOLD ||
		    op == WIRE_HOLD_FD)
			asker_checks_memory(a, op, answer->fds[i]);
	}
}

/* Its descriptor was lost on its way: the service has not looked at the request. */
static bool asker_is_unread(const struct asker_request *r, const struct asker_answer *answer)
{
	return r->fd >= 0 && answer->error == -ENFILE;
}

static void asker_checks(const struct asker *a, const struct asker_request *r,
                         const struct asker_answer *answer)
{
	bool faulty = machine.nr_faults[FAULT_ERRNO] > 0;
	u32 op = r->wire.op, real = process_now()->real_uid;

	if (answer->bytes > 0 && !asker_is_let_in(a))
		machine_fail("user %u is not let in, and is answered", a->uid);
	if (!r->may && (answer->error == 0 || answer->nr_fds > 0))
		machine_fail("user %u, then %u, may not ask %u in kind %u", real, a->uid, op,
		             a->kind);
	/* It learns nothing, not even whether there is what it asks for. */
	if (!r->may && !faulty && answer->error != -EPERM && answer->error != -EINVAL &&
	    answer->error != -ECONNRESET && answer->error != -ETIMEDOUT &&
	    answer->error != -EMFILE && !asker_is_unread(r, answer))
		machine_fail("user %u, then %u, is told %d of %u", real, a->uid, answer->error,
		             op);
	if (r->may && !faulty && answer->error == -EPERM && op != WIRE_MOVE &&
	    op != WIRE_FILE_OPEN)
		machine_fail("user %u, then %u, may ask %u in kind %u", real, a->uid, op, a->kind);
	if (op == WIRE_SUCCEED && !r->proof && answer->error == 0)
		machine_fail("a successor has not shown that it may open the lock file");
	asker_checks_fds(a, op, answer);
}

static void asker_learns(struct asker *a, const struct asker_request *r,
                         struct asker_answer *answer, struct asker *ret_channel)
{
	const struct wire_reply *reply = &answer->page.reply;
	u32 op = r->wire.op;

	if (op == WIRE_HELLO && answer->error == 0)
		a->kind = ASKER_READER;
	else if (a->kind == ASKER_NEW && op < WIRE_NR_OPS && asker_may(a, op) &&
	         op != WIRE_HELLO && !asker_is_unread(r, answer))
		a->kind = ASKER_VISITOR;
	if (op == WIRE_FILE_OPEN && answer->error == 0) {
		a->slot = reply->file.slot;
		a->id = reply->file.id;
	}
	if (op == WIRE_HOLD && (answer->error == 0 || answer->error == -EINPROGRESS))
		a->number = reply->hold.number;
	if (op == WIRE_SUCCEED && answer->error == 0 && answer->nr_fds == 1) {
		*ret_channel = *a;
		ret_channel->kind = ASKER_SUCCESSOR;
		ret_channel->socket = answer->fds[--answer->nr_fds];
	}
}

bool asker_asks(struct asker *a, struct asker *ret_channel)
{
	struct asker_answer answer;
	struct asker_request r;
	int err;

	ret_channel->socket = -1;
	asker_makes(a, &r);
	r.may = asker_may(a, r.wire.op);
	err = asker_send(a, &r.wire, sizeof(r.wire), &r.fd, r.fd >= 0);
	if (r.fd >= 0)
		port_shut(r.fd);
	if (err)
		return false;
	asker_receive(a, &answer, ANSWER_MS);
	machine_note("request %u as user %u of %u: %d, %u descriptors", r.wire.op,
	             process_now()->real_uid, a->uid, answer.error, answer.nr_fds);
	asker_checks(a, &r, &answer);
	asker_learns(a, &r, &answer, ret_channel);
	asker_drop(&answer);
	return answer.bytes > 0;
}

/* ---- users ---- */

void asker_becomes(bool groups)
{
	static const u32 users[] = { WORLD_USER, WORLD_USER, 0, ASKER_MEMBER, ASKER_OTHER };
	struct process *p = process_now();
	u32 uid = users[machine_draw(5)];

	switch (machine_draw(4)) {
	case 0: p->uid = uid; break;      /* seteuid(), or a program of that user */
	case 1: p->real_uid = uid; break; /* setreuid() */
	default: p->uid = p->real_uid = uid;
	}
	p->gid = p->uid == ASKER_MEMBER && groups ? ASKER_GROUP : p->uid;
	machine_note("the process is user %u's, and acts for %u", p->real_uid, p->uid);
}
