/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A service that is short of descriptors. Nothing else fails, so each rule is strict:
 *
 *   warm   files that no program has open make room for one that comes
 *   crowd  programs that have hung up make room for those that come
 *   gone   when there are descriptors again, the first request is served at once
 *   deaf   with no descriptors at all, a writer still gets its file
 */
#include <stdio.h>

#include "check/whole/said.h"
#include "check/whole/scenarios.h"
#include "check/whole/settle.h"
#include "check/whole/world_files.h"
#include "lib/port.h"
#include "lib/port/listen.h"
#include "lib/service/service.h"
#include "lib/wire.h"

#define NS_PER_MS ((u64)1000000)
#define NR_OWN 24u
/* More than the service keeps free for programs (base.c). */
#define NR_WARM 16u
#define MOST_CROWD 48u
/* A few ticks of the service's. */
#define LATE_NS (1000 * NS_PER_MS)
/* As domain.c has it: half of the descriptors, two a connection. */
#define FDS_EACH 4u

enum short_kind { SHORT_WARM, SHORT_CROWD, SHORT_GONE, SHORT_DEAF, NR_SHORT };

static struct {
	enum short_kind kind;
	bool over; /* those that keep the service busy end */
} scarce;

static void short_adjust(struct service_options *options)
{
	options->keeping.nr_files = 64;
	options->keeping.keep_ms = 0; /* minutes */
	options->keeping.lease_pause_ms = 100;
}

/* From now on the service may have so many more descriptors than it has, or as many as there are
 * numbers free below those. */
static void short_leave(struct process *service, u32 nr)
{
	u32 limit = MACHINE_MOST_FDS;

	while (limit > 0 && !service->fds[limit - 1])
		limit--;
	service->fd_limit = limit + nr;
	machine_note("%s may have %u descriptors", service->name, service->fd_limit);
}

static void short_end(struct process *service)
{
	service->fd_limit = MACHINE_MOST_FDS;
	machine_note("%s may have descriptors again", service->name);
}

static struct lodic *short_attaches(const char *when)
{
	struct lodic *lodic;
	int err = world_attach(&lodic);

	if (err)
		machine_fail("%s, and a program does not attach: %d", when, err);
	return lodic;
}

static void short_opens(struct lodic *lodic, u32 number, u64 ns, const char *when)
{
	u64 until = machine.now_ns + ns;
	struct world_open open;
	char path[16];
	int why;

	snprintf(path, sizeof(path), "/own%u", number);
	do {
		if (!world_open(lodic, path, &open))
			machine_fail("%s, and %s cannot be opened", when, path);
		why = lodic_file_cached(open.file);
		said_cached(why);
		world_close(&open);
		if (why)
			port_sleep(LATE_NS / 16);
	} while (why && machine.now_ns < until);
	if (why)
		machine_fail("%s, and %s is not cached: %d", when, path, why);
}

/* ---- warm ---- */

static void warm_run(struct lodic *lodic)
{
	struct process *service = world_youngest_service();

	for (u32 i = 0; i < NR_WARM; i++)
		short_opens(lodic, i, 0, "nothing is short");
	short_leave(service, machine_draw(4));
	for (u32 i = 1 + machine_draw(NR_OWN - NR_WARM); i > 0; i--)
		short_opens(lodic, NR_WARM + i - 1, LATE_NS,
		            "warm files can make room");
	short_end(service);
}

/* ---- crowd ---- */

static void crowd_asks(const int sockets[MOST_CROWD], u32 nr)
{
	const struct wire_request stat = { .version = WIRE_VERSION, .op = WIRE_STAT };

	for (u32 i = 0; i < nr; i++)
		wire_send(sockets[i], &stat, sizeof(stat), NULL, 0);
}

static u32 crowd_comes(int sockets[MOST_CROWD], u32 most)
{
	const struct wire_request hello = { .version = WIRE_VERSION, .op = WIRE_HELLO };
	u32 nr = 0;

	while (nr < most && (sockets[nr] = port_socket()) >= 0) {
		int err = port_connect(sockets[nr], WORLD_SOCKET);

		if (!err && machine_draw(8) > 0)
			wire_send(sockets[nr], &hello, sizeof(hello), NULL, 0);
		nr++;
	}
	return nr;
}

static void crowd_leaves(int sockets[MOST_CROWD], u32 nr)
{
	while (nr > 0)
		port_close(sockets[--nr]);
}

/* As many as the service may have. While it stands still some ask it for something, all others
 * leave, and as many come. */
static void crowd_changes(struct process *service)
{
	u32 most = service->fd_limit / FDS_EACH, nr, nr_stay, nr_others;
	int old[MOST_CROWD], others[MOST_CROWD];

	nr = crowd_comes(old, most - 1);
	port_sleep(100 * NS_PER_MS);
	/* So the service has heard of each of them since it last heard of one that came. */
	crowd_asks(old, nr);
	port_sleep(100 * NS_PER_MS);
	if (!service->resume)
		process_stop_for(service, 100 * NS_PER_MS);
	nr_stay = machine_draw(nr - 2);
	nr_others = crowd_comes(others, machine_draw(nr - nr_stay - 1));
	crowd_asks(old, nr_stay);
	crowd_leaves(old + nr_stay, nr - nr_stay);
	lodic_detach(short_attaches("there is room for all that have not hung up"));
	crowd_leaves(old, nr_stay);
	crowd_leaves(others, nr_others);
}

static void crowd_comes_and_leaves(struct process *service)
{
	u32 nr = service->fd_limit / FDS_EACH;
	int sockets[MOST_CROWD];

	nr = crowd_comes(sockets, nr / 2 + machine_draw(nr));
	if (machine_draw(2))
		port_sleep((1 + machine_draw(300)) * NS_PER_MS);
	crowd_leaves(sockets, nr);
	lodic_detach(short_attaches("all others have hung up"));
}

static void crowd_run(void)
{
	struct process *service = world_youngest_service();

	for (u32 i = 1 + machine_draw(4); i > 0; i--) {
		service->fd_limit = 64 + machine_draw(64);
		if (machine_draw(2))
			crowd_changes(service);
		else
			crowd_comes_and_leaves(service);
		port_sleep(machine_draw(2) * 100 * NS_PER_MS);
	}
	short_end(service);
}

/* ---- gone ---- */

static void gone_run(void)
{
	struct process *service = world_youngest_service();

	for (u32 i = 1 + machine_draw(4); i > 0; i--) {
		struct lodic *lodic;

		if (machine_draw(2))
			short_leave(service, machine_draw(8));
		else
			service->fd_limit = machine_draw(32);
		port_sleep((1 + machine_draw(5000)) * NS_PER_MS);
		short_end(service);
		lodic = short_attaches("there are descriptors again");
		short_opens(lodic, machine_draw(NR_OWN), LATE_NS,
		            "there are descriptors again");
		lodic_detach(lodic);
	}
}

/* It asks while there is a shortage, and may get anything. */
static void asker_run(void *arg)
{
	(void)arg;
	while (!scarce.over) {
		struct lodic *lodic;
		struct world_open open;

		if (world_attach(&lodic) == 0) {
			if (world_open(lodic, world_paths[machine_draw(WORLD_FILES)],
			               &open)) {
				said_few_files(lodic_file_cached(open.file));
				world_close(&open);
			}
			lodic_detach(lodic);
		}
		port_sleep((1 + machine_draw(500)) * NS_PER_MS);
	}
}

/* ---- deaf ---- */

static void deaf_writes(const char *path)
{
	u64 begun = machine.now_ns;

	world_rewrite(path, false);
	if (machine.now_ns - begun > LATE_NS)
		machine_fail("a writer has waited %llu ms for %s",
		             (unsigned long long)((machine.now_ns - begun) / NS_PER_MS),
		             path);
}

static void deaf_run(struct lodic *lodic)
{
	struct process *service = world_youngest_service();

	for (u32 i = 1 + machine_draw(4); i > 0; i--) {
		for (u32 number = 0; number < 3; number++)
			short_opens(lodic, number, 2 * LATE_NS, "nothing is short");
		service->fd_limit = 0;
		machine_note("%s may have no descriptors", service->name);
		port_sleep(machine_draw(2000) * NS_PER_MS);
		deaf_writes("/own0"); /* it may wait for that since before */
		deaf_writes("/own1");
		deaf_writes("/own2");
		short_end(service);
	}
}

/* ---- all ---- */

static void short_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct lodic *lodic = short_attaches("nothing is short");

	(void)arg;
	switch (scarce.kind) {
	case SHORT_WARM: warm_run(lodic); break;
	case SHORT_CROWD: crowd_run(); break;
	case SHORT_GONE: gone_run(); break;
	case SHORT_DEAF: deaf_run(lodic); break;
	case NR_SHORT: break;
	}
	scarce.over = true;
	lodic_detach(lodic);
	settle_given_back_but(&before, *world_closed());
}

void scenario_short(void)
{
	char path[16];

	world_no_faults();
	world.adjust = short_adjust;
	world.few_fds = true;
	scarce.kind = machine_draw(NR_SHORT);
	scarce.over = false;
	for (u32 i = 0; i < NR_OWN; i++) {
		snprintf(path, sizeof(path), "/own%u", i);
		world_make(path, WORLD_FILE_BYTES);
	}
	settle_expect(process_start("scarce", WORLD_USER, short_run, NULL));
	for (u32 i = scarce.kind == SHORT_GONE ? machine_draw(4) : 0; i > 0; i--)
		settle_expect(process_start("asker", WORLD_USER, asker_run, NULL));
}
