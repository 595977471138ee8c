/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A program that announces itself as a successor, by the wire alone: with the lock file or with
 * something else. It asks for what a successor is given, is silent, and goes. It never says that
 * it serves. So the service before it must go on.
 */
#include "check/whole/heir.h"

#include <string.h>

#include "check/whole/serving.h"
#include "check/whole/settle.h"
#include "lib/port.h"
#include "lib/port/listen.h"
#include "lib/wire.h"

#define ANSWER_MS 2000

struct heir {
	int socket;
	struct wire_page page;
	int fds[WIRE_MAX_FDS];
	u32 nr_fds;
};

static void heir_close_fds(struct heir *h)
{
	while (h->nr_fds > 0)
		port_close(h->fds[--h->nr_fds]);
}

/* Asks, and waits for the answer, with so many bytes of records. fd < 0: none goes with it. */
static int heir_ask(struct heir *h, u32 op, u64 a, u64 records, int fd)
{
	struct wire_request request = { .version = WIRE_VERSION, .op = op, .a = a };
	int err;

	heir_close_fds(h);
	h->page.reply.error = 0;
	err = wire_send(h->socket, &request, sizeof(request), &fd, fd >= 0);
	if (err)
		return err;
	if (port_wait(h->socket, PORT_INPUT, ANSWER_MS) != 1)
		return -ETIMEDOUT;
	err = wire_receive(h->socket, &h->page, sizeof(h->page.reply) + records, h->fds,
	                   &h->nr_fds);
	return err ? err : h->page.reply.error;
}

/* The lock file as it should be opened, or not, or another file. */
static int heir_lock(bool *ret_right)
{
	u32 how = machine_draw(6);

	*ret_right = how > 2;
	switch (how) {
	case 0: return port_open(SERVING_LOCK);
	case 1: return port_open(world_paths[0]);
	case 2: return -1;
	default: return port_open_to_write(SERVING_LOCK);
	}
}

/* false: it is no successor. */
static bool heir_announces(struct heir *h)
{
	bool right;
	int lock = heir_lock(&right);
	int err = heir_ask(h, WIRE_SUCCEED, 0, 0, lock);

	machine_note("the heir is told %d", err);
	if (lock >= 0)
		port_close(lock);
	if (err || h->nr_fds != 1)
		return false;
	if (!right)
		machine_fail("a successor comes in that has not passed the lock file");
	port_close(h->socket);
	h->socket = h->fds[--h->nr_fds];
	return true;
}

/* What it is given must be no right. */
static void heir_checks(const struct heir *h, u32 op)
{
	unsigned int mode;

	for (u32 i = 0; i < h->nr_fds; i++) {
		if (port_mode(h->fds[i], &mode) != 0)
			continue;
		if (op == WIRE_HAND_FILE && !(mode & PORT_NAMES_ONLY))
			machine_fail("a successor is given a right to read a file");
		/* Behind these two come counters, which readers may write to. Where the service
		 * could not open them again, its own descriptor goes, and the seal must do. */
		if (op == WIRE_HAND_ARENA && i < 2 && (mode & PORT_MAY_WRITE) &&
		    machine.nr_failed[CALL_MEMORY_AGAIN] == 0)
			machine_fail(
				"a successor is given a right to write to the cache");
	}
}

static void heir_asks(struct heir *h)
{
	static const u32 ops[] = { WIRE_HAND_ARENA,  WIRE_HAND_FILE, WIRE_HAND_FILE,
		                   WIRE_HAND_FRAMES, WIRE_HAND_STAY, WIRE_HAND_OVER };
	bool had_place = false;

	for (u32 i = machine_draw(12); i > 0; i--) {
		u32 op = ops[machine_draw(sizeof(ops) / sizeof(ops[0]))];
		u64 a = machine_draw(8);
		int err;

		if (!had_place && machine_draw(8) == 0)
			op = WIRE_HANDED;
		err = heir_ask(h, op, a, 0, -1);
		if (op == WIRE_HANDED && err == 0)
			machine_fail("a successor serves that has no socket");
		if (err && err != -ENOENT && err != -EINVAL && err != -EPROTO)
			return;
		heir_checks(h, op);
		had_place |= op == WIRE_HAND_OVER;
		if (machine_draw(4) == 0)
			port_sleep(machine_draw(8000) * (u64)1000000);
	}
}

static void heir_run(void *arg)
{
	struct heir h = { .nr_fds = 0 };

	(void)arg;
	h.socket = port_socket();
	if (h.socket < 0)
		return;
	if (port_connect(h.socket, WORLD_SOCKET) == 0 && heir_announces(&h))
		heir_asks(&h);
	heir_close_fds(&h);
	port_close(h.socket);
}

bool world_is_heir(const struct process *process)
{
	return strncmp(process->name, "heir", 4) == 0;
}

struct process *world_heir(void)
{
	struct process *p = process_start("heir", WORLD_USER, heir_run, NULL);

	p->mortal = true;
	settle_expect(p);
	return p;
}
