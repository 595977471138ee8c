/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * See fake.h. It hands requests on to the true service, and changes what comes back: bytes, sizes,
 * descriptors. Or it answers with rubbish, closes, or says nothing. A program that has such a
 * service gets errors or a file's own bytes, comes to an end, and has nothing left.
 */
#include "check/whole/fake.h"

#include <string.h>

#include "check/whole/asker.h"
#include "check/whole/settle.h"
#include "lib/port.h"
#include "lib/port/listen.h"
#include "lib/port/pages.h"

#define FAKE_SOCKET "/run/fake.sock"
#define MOST_CLIENTS 6u
#define MOST_PAGES 300u
#define NS_PER_MS ((u64)1000000)
#define ANSWER_MS 1000

struct fake_client {
	struct asker client, service; /* socket: -1: none */
	u64 nr_pages;                 /* of lists that lead in a circle */
};

/* ---- memory that is not as it should be ---- */

/* It shrinks later; -1: none does. */
static int fake_shrinks;

/* The same bytes, but fewer, or not sealed. A sealed copy of all would be of this moment for good,
 * and nobody could tell. */
static int fake_memory(int fd)
{
	struct port_memory memory;
	int other = port_memory_file("fake");
	bool sealed = machine_draw(2);
	void *from, *to;
	u64 bytes;

	if (other < 0 || port_memory_look(fd, &memory) != 0)
		return other;
	bytes = sealed ? memory.bytes / 4096 * machine_draw(4) / 4 * 4096 : memory.bytes;
	if (port_set_bytes(other, bytes) == 0 && bytes > 0 &&
	    port_map(NULL, bytes, PORT_READ, PORT_SHARED, fd, 0, &from) == 0) {
		if (port_map(NULL, bytes, PORT_READ | PORT_WRITE, PORT_SHARED, other, 0, &to) ==
		    0) {
			memcpy(to, from, bytes);
			port_unmap(to, bytes);
		}
		port_unmap(from, bytes);
	}
	if (sealed)
		port_seal(other, PORT_SEAL_SHRINK | PORT_SEAL_GROW);
	else if (fake_shrinks < 0)
		fake_shrinks = port_dup(other);
	return other;
}

static void fake_cuts(void)
{
	if (fake_shrinks < 0)
		return;
	port_set_bytes(fake_shrinks, 0);
	port_close(fake_shrinks);
	fake_shrinks = -1;
}

/* Takes fd's place in an answer. */
static int fake_descriptor(int fd)
{
	int other;

	switch (machine_draw(5)) {
	case 0: other = port_open(world_paths[0]); break;
	case 1: other = port_event(); break;
	case 2: other = port_socket(); break;
	default: other = fake_memory(fd);
	}
	if (other < 0)
		return fd;
	port_close(fd);
	return other;
}

/* ---- answers ---- */

static void fake_changes(struct asker_answer *answer)
{
	u64 *words = (u64 *)&answer->page;
	u32 which;

	switch (machine_draw(8)) {
	case 0: answer->bytes = machine_draw((u32)sizeof(answer->page.reply) + 64); break;
	case 1: answer->page.reply.error = (int)machine_draw(UINT32_MAX); break;
	case 2:
	case 3: /* not what a file is, or where: it would be another's bytes */
		which = 1 + machine_draw(6);
		words[which] = machine_draw(UINT32_MAX);
		words[which] <<= machine_draw(2) * 32;
		break;
	case 4:
		if (answer->nr_fds > 0)
			port_close(answer->fds[--answer->nr_fds]);
		break;
	default:
		if (answer->nr_fds == 0)
			break;
		which = machine_draw(answer->nr_fds);
		answer->fds[which] = fake_descriptor(answer->fds[which]);
	}
}

/* A page of a list that leads to the one before, or in a circle. */
static void fake_circle(struct fake_client *c, struct asker_answer *answer, u64 cursor)
{
	memset(answer, 0, sizeof(*answer));
	answer->bytes = sizeof(answer->page.reply);
	answer->page.reply.page.next = cursor == 2 ? 1 : cursor == 1 ? 2 : 1 + machine_draw(2);
	if (++c->nr_pages > MOST_PAGES)
		machine_fail("a list that leads in a circle does not end");
}

static bool fake_lists(u32 op)
{
	return op == WIRE_FILES || op == WIRE_READERS || op == WIRE_CONTEXTS || op == WIRE_HOLDS ||
	       op == WIRE_TIMES || op == WIRE_TIERS;
}

/* What the true service says. */
static void fake_asks(struct fake_client *c, struct asker_answer *request, struct asker_answer *ret)
{
	int err;

	*ret = (struct asker_answer){ .error = -ECONNRESET };
	if (c->service.socket < 0 && asker_connect(&c->service, WORLD_SOCKET, false) != 0)
		return;
	err = asker_send(&c->service, &request->page, (u32)request->bytes, request->fds,
	                 request->nr_fds);
	if (!err)
		asker_receive(&c->service, ret, ANSWER_MS);
}

static void fake_answers(struct fake_client *c, struct asker_answer *request)
{
	const struct wire_request *wire = (const struct wire_request *)&request->page;
	struct asker_answer answer;

	if (fake_lists(wire->op) && (c->nr_pages > 0 || machine_draw(2))) {
		fake_circle(c, &answer, wire->a);
	} else {
		fake_asks(c, request, &answer);
		/* What it says of a file must be true, or that file's bytes are another's. */
		if (wire->op != WIRE_FILE_OPEN && machine_draw(4) == 0)
			fake_changes(&answer);
	}
	asker_drop(request);
	if (answer.bytes > 0)
		asker_send(&c->client, &answer.page, (u32)answer.bytes, answer.fds, answer.nr_fds);
	if (answer.bytes == 0 || (c->nr_pages == 0 && machine_draw(32) == 0)) {
		asker_close(&c->client);
		asker_close(&c->service);
	}
	asker_drop(&answer);
}

static void fake_serves(struct fake_client *c)
{
	struct asker_answer request;

	if (port_ready(c->client.socket, PORT_INPUT) != 1)
		return;
	asker_receive(&c->client, &request, 0);
	if (request.bytes >= sizeof(struct wire_request) &&
	    (c->nr_pages > 0 || machine_draw(32) > 0)) {
		fake_answers(c, &request);
		return;
	}
	asker_drop(&request);
	if (request.error == -ECONNRESET || machine_draw(2)) {
		asker_close(&c->client);
		asker_close(&c->service);
	}
}

static void fake_accepts(int listening, struct fake_client *clients)
{
	u32 i = 0;
	int fd;

	while (i < MOST_CLIENTS && clients[i].client.socket >= 0)
		i++;
	if (i == MOST_CLIENTS)
		return;
	fd = port_accept(listening);
	if (fd < 0)
		return;
	clients[i].client = (struct asker){ .socket = fd };
	clients[i].service.socket = -1;
	clients[i].nr_pages = 0;
}

static int fake_listens(void)
{
	int fd = port_socket();

	if (fd >= 0 && (port_bind(fd, FAKE_SOCKET) != 0 || port_listen(fd, 8) != 0)) {
		port_close(fd);
		fd = -1;
	}
	return fd;
}

static bool fake_is_wanted(void)
{
	for (u32 i = 0; i < machine.nr_processes; i++)
		if (strncmp(machine.processes[i].name, "victim", 6) == 0 &&
		    !machine.processes[i].dead)
			return true;
	return false;
}

static void fake_run(void *arg)
{
	struct fake_client clients[MOST_CLIENTS];
	int listening = fake_listens();

	(void)arg;
	fake_shrinks = -1;
	for (u32 i = 0; i < MOST_CLIENTS; i++)
		clients[i].client.socket = clients[i].service.socket = -1;
	while (listening >= 0 && fake_is_wanted()) {
		fake_accepts(listening, clients);
		for (u32 i = 0; i < MOST_CLIENTS; i++)
			if (clients[i].client.socket >= 0)
				fake_serves(&clients[i]);
		port_sleep(machine_draw(100) * NS_PER_MS / 100);
		if (machine_draw(32) == 0)
			fake_cuts();
	}
	fake_cuts();
	for (u32 i = 0; i < MOST_CLIENTS; i++) {
		asker_close(&clients[i].client);
		asker_close(&clients[i].service);
	}
	if (listening >= 0)
		port_close(listening);
}

/* ---- who believes it ---- */

static int victim_each(void *arg, const void *record)
{
	u32 *nr = arg;

	(void)record;
	return ++*nr > 5000 ? -E2BIG : 0;
}

static void victim_looks(void)
{
	struct look_dropped dropped = { 0 };
	struct lodic_stat stat;
	struct look *look;
	u32 nr = 0;
	int pid, err;

	if (look_open(FAKE_SOCKET, &look, &pid) != 0)
		return;
	switch (machine_draw(4)) {
	case 0: err = look_stat(look, &stat); break;
	case 1: err = look_drop(look, 0, LOOK_NOTHING, &dropped); break;
	default:
		err = look_list(look, (enum look_list)machine_draw(LOOK_TIERS + 1), victim_each,
		                &nr);
	}
	if (err == -E2BIG)
		machine_fail("a list does not end");
	machine_note("a look at a false service: %d", err);
	look_close(look);
}

static void victim_reads(struct lodic *lodic)
{
	struct lodic_context *context;
	struct lodic_hold *hold;
	struct world_open open;

	++*world_closed();
	if (lodic_context_open(lodic, &context) != 0) /* none of the true service's */
		return;
	if (world_open(lodic, world_paths[machine_draw(WORLD_FILES)], &open)) {
		world_rounds(context, &open, 1, machine_draw(40));
		lodic_prefetch(context, open.file, 0, WORLD_FILE_BYTES, 0);
		++*world_closed();
		if (lodic_hold(lodic, open.file, 0, 4096, 0, &hold) == 0)
			lodic_release(hold);
		world_close(&open);
	}
	lodic_context_close(context);
}

static void victim_run(void *arg)
{
	const struct lodic_options options = { .bytes = sizeof(options),
		                               .socket = FAKE_SOCKET,
		                               .service = "" };
	struct settle_has before = settle_look(process_now());
	struct lodic *lodic;
	int err;

	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		port_sleep(machine_draw(50) * NS_PER_MS);
		if (machine_draw(3) == 0) {
			victim_looks();
			continue;
		}
		err = lodic_attach(&options, &lodic);
		machine_note("lodic_attach() = %d", err);
		if (err)
			continue;
		victim_reads(lodic);
		lodic_detach(lodic);
	}
	settle_given_back_but(&before, *world_closed());
}

void fake_start(void)
{
	for (u32 i = 1 + machine_draw(2); i > 0; i--)
		settle_expect(process_start("victim", WORLD_USER, victim_run,
		                            (void *)(uintptr_t)(5 + machine_draw(40))));
	settle_expect(process_start("fake", WORLD_USER, fake_run, NULL));
}
