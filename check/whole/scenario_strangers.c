/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Hostile programs, beside readers. Of another user: they get nothing. Of the same one:
 * they send rubbish, requests of another version, and descriptors; they never read, and keep
 * connections. And limits on descriptors that shrink and come back.
 */
#include <string.h>

#include "check/whole/scenarios.h"
#include "check/whole/settle.h"
#include "lib/port.h"
#include "lib/port/listen.h"
#include "lib/wire.h"

#define STRANGER_USER 2000u
#define MOST_SOCKETS 32u

static void stranger_pause(void)
{
	port_sleep(machine_draw(200) * (u64)1000000);
}

/* One request: a right one, one of another version or of no kind, or rubbish. */
static void stranger_sends(int socket)
{
	struct wire_request request = { .version = WIRE_VERSION,
		                        .op = machine_draw(WIRE_NR_OPS + 1),
		                        .a = machine_draw(4) ? machine_draw(16) : ~(u64)0,
		                        .b = machine_draw(4) ? machine_draw(16) : ~(u64)0,
		                        .c = machine_draw(2) ? machine_draw(16) : ~(u64)0,
		                        .cpu = machine_draw(8) };
	u8 rubbish[128];
	u32 bytes = sizeof(request);
	int fd = -1, fds[2];

	if (request.op == WIRE_STOP)
		request.op = WIRE_HELLO; /* its own user may end it */
	switch (machine_draw(4)) {
	case 0: request.version = WIRE_VERSION - 1; break;
	case 1: bytes = machine_draw(sizeof(rubbish) + 1); break;
	default: break;
	}
	memset(rubbish, (int)machine_draw(256), sizeof(rubbish));
	memcpy(rubbish, &request, sizeof(request));
	if (machine_draw(2))
		fd = port_open(machine_draw(2) ? WORLD_FAR
		                               : world_paths[machine_draw(WORLD_FILES)]);
	fds[0] = fds[1] = fd;
	port_send(socket, rubbish, bytes, fds, fd >= 0 ? 1 + machine_draw(2) : 0);
	if (fd >= 0)
		port_close(fd);
}

static void stranger_reads(int socket)
{
	struct wire_page page;
	int fds[WIRE_MAX_FDS];
	unsigned int nr = 0;

	if (wire_receive(socket, &page, sizeof(page), fds, &nr) == -EAGAIN)
		return;
	while (nr > 0)
		port_close(fds[--nr]);
}

static void stranger_run(void *arg)
{
	int sockets[MOST_SOCKETS];
	u32 nr = 0;

	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		if (nr < MOST_SOCKETS && (nr == 0 || machine_draw(4) == 0)) {
			sockets[nr] = port_socket();
			if (sockets[nr] >= 0)
				port_connect(sockets[nr++], WORLD_SOCKET);
		}
		if (nr > 0 && machine_draw(4) > 0)
			stranger_sends(sockets[machine_draw(nr)]);
		if (nr > 0 && machine_draw(4) == 0)
			stranger_reads(sockets[machine_draw(nr)]);
		if (nr > 0 && machine_draw(8) == 0) {
			u32 which = machine_draw(nr);

			port_close(sockets[which]);
			sockets[which] = sockets[--nr];
		}
		if (machine_draw(4) == 0)
			stranger_pause();
	}
}

/* Of another user: the socket is not for it, and no service of its own gets into the way. */
static void foreigner_run(void *arg)
{
	struct lodic *lodic;
	struct look *look;
	int pid;

	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		if (world_attach(&lodic) == 0)
			machine_fail("another user's program is attached");
		if (look_open(WORLD_SOCKET, &look, &pid) == 0)
			machine_fail("another user's program looks");
		stranger_pause();
	}
}

/* The limits of programs shrink, below what they have, and come back. */
static void limiter_run(void *arg)
{
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		struct process *p = &machine.processes[machine_draw(machine.nr_processes)];

		if (!p->mortal)
			continue;
		p->fd_limit = 8 + machine_draw(40);
		machine_note("%s may have %u descriptors", p->name, p->fd_limit);
		task_wait(NULL, machine.now_ns + machine_draw(3000) * (u64)1000000);
		p->fd_limit = MACHINE_MOST_FDS;
		machine_note("%s may have descriptors again", p->name);
		task_wait(NULL, machine.now_ns + machine_draw(1000) * (u64)1000000);
	}
}

static void strangers_start(const char *name, u32 uid, void (*run)(void *arg), u32 nr_rounds)
{
	settle_expect(process_start(name, uid, run, (void *)(uintptr_t)nr_rounds));
}

void scenario_strangers(void)
{
	for (u32 i = 1 + machine_draw(3); i > 0; i--)
		world_reader(50 + machine_draw(200));
	if (machine_draw(2))
		world_writer(1 + machine_draw(5));
	for (u32 i = machine_draw(3); i > 0; i--)
		strangers_start("stranger", WORLD_USER, stranger_run, 10 + machine_draw(150));
	if (machine_draw(2))
		strangers_start("foreigner", STRANGER_USER, foreigner_run, 1 + machine_draw(5));
	world.few_fds = machine_draw(2);
	if (world.few_fds)
		strangers_start("limiter", WORLD_USER, limiter_run, 1 + machine_draw(8));
}
