/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Programs of several users, which change their user beside honest ones. The service is one user's,
 * or a group's. It may listen at a socket that a manager has made, as systemd does: then programs
 * connect before it is there.
 */
#include <string.h>

#include "check/whole/asker.h"
#include "check/whole/scenarios.h"
#include "check/whole/settle.h"
#include "check/whole/world_files.h"
#include "lib/port.h"
#include "lib/port/listen.h"
#include "lib/service/service.h"

#define MEMBER_READS 60u
#define HOARD 64u
#define MOST_PAUSE_MS 10000u
#define PRIVATE "/private"
#define NS_PER_MS ((u64)1000000)

static struct {
	bool for_group;
} users;

static void users_adjust(struct service_options *options)
{
	if (!users.for_group)
		return;
	options->sharing.for_group = true;
	options->sharing.group = ASKER_GROUP;
	options->sizes.hold_bytes = 0;
	options->keeping.nr_files = 16;
	if (options->tables.scheme == LODIC_ATOMIC || options->tables.scheme == LODIC_FROZEN)
		options->tables.scheme = LODIC_LODIC;
}

/* ---- programs that change their user ---- */

static void asker_talks(struct asker *a)
{
	struct asker channel = { .socket = -1 }, next;
	bool good = true;

	if (machine_draw(2))
		while (!program_is_accepted(a->socket) && machine_draw(512) > 0)
			port_sleep(1000);
	for (u32 i = 1 + machine_draw(8); i > 0 && good; i--) {
		if (machine_draw(4) == 0)
			asker_becomes(users.for_group);
		good = asker_asks(a, &next);
		if (next.socket >= 0) {
			asker_close(&channel);
			channel = next;
		}
		if (channel.socket >= 0 && !asker_asks(&channel, &next))
			asker_close(&channel);
		if (machine_draw(4) == 0)
			port_sleep(machine_draw(100) * NS_PER_MS);
	}
	asker_close(&channel);
	asker_close(a);
}

static void asker_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct asker a;

	process_now()->pid_space = machine_draw(4) == 0; /* a sibling of the service's */
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		asker_becomes(users.for_group);
		if (asker_connect(&a, WORLD_SOCKET, users.for_group) == 0)
			asker_talks(&a);
		port_sleep(machine_draw(200) * NS_PER_MS);
	}
	settle_given_back(&before);
}

/* ---- members of the group, who only read ---- */

static int member_attaches(struct lodic **ret_lodic)
{
	const struct lodic_options options = { .bytes = sizeof(options),
		                               .socket = WORLD_SOCKET,
		                               .service = "" };
	int err;

	for (u32 i = 0; i < 64; i++) {
		err = lodic_attach(&options, ret_lodic);
		machine_note("lodic_attach() = %d", err);
		if (!err)
			return 0;
		if (err == -EPERM && machine.nr_faults[FAULT_ERRNO] == 0)
			machine_fail("a member of the group is not let in");
		port_sleep(100 * NS_PER_MS);
	}
	return err;
}

static void member_reads(struct lodic *lodic)
{
	struct world_open open[WORLD_FILES];
	struct lodic_context *context;
	u32 nr = 0;

	if (world_context_open(lodic, &context) != 0)
		return;
	for (u32 i = 0; i < WORLD_FILES; i++)
		nr += world_open(lodic, world_paths[i], &open[nr]);
	world_rounds(context, open, nr, MEMBER_READS);
	settle_here();
	for (u32 i = 0; i < nr; i++)
		world_close(&open[i]);
	world_context_close(context);
}

static void member_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct lodic *lodic;

	(void)arg;
	process_now()->gid = ASKER_GROUP;
	if (member_attaches(&lodic) == 0) {
		member_reads(lodic);
		lodic_detach(lodic);
	}
	settle_given_back_but(&before, *world_closed());
}

/* As many connections as it gets, and it keeps them until all others have done their work. */
static void hoarder_run(void *arg)
{
	static const struct wire_request stat = { .version = WIRE_VERSION, .op = WIRE_STAT };
	struct asker hoard[HOARD];
	u32 nr = 0;

	(void)arg;
	process_now()->gid = ASKER_GROUP;
	for (u32 i = 0; i < 2 * HOARD && nr < HOARD; i++) {
		if (asker_connect(&hoard[nr], WORLD_SOCKET, true) != 0) {
			port_sleep(50 * NS_PER_MS);
			continue;
		}
		asker_send(&hoard[nr], &stat, sizeof(stat), NULL, 0);
		nr++;
	}
	settle_here();
	port_sleep(100 * 1000 * NS_PER_MS);
	while (nr > 0)
		asker_close(&hoard[--nr]);
}

/* The owner of a file that the group must not read. */
static void keeper_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct lodic_context_stat stat = { 0 };
	struct lodic_context *context;
	struct world_open open;
	struct lodic *lodic;

	if (world_attach(&lodic) == 0) {
		if (world_context_open(lodic, &context) == 0) {
			for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
				if (!world_open(lodic, PRIVATE, &open))
					continue;
				world_rounds(context, &open, 1, 10);
				world_close(&open);
			}
			lodic_context_stat(context, &stat, sizeof(stat));
			world_context_close(context);
		}
		lodic_detach(lodic);
	}
	if (stat.hits > 0)
		machine_fail("a group's cache has a file that the group may not read");
	settle_given_back_but(&before, *world_closed());
}

/* ---- the manager ---- */

static bool manager_is_wanted(void)
{
	for (u32 i = 0; i < machine.nr_processes; i++)
		if (strncmp(machine.processes[i].name, "auditor", 7) == 0)
			return !machine.processes[i].dead;
	return false;
}

/* A socket that listens; < 0: there is none. */
static int manager_listens(void)
{
	int fd = port_socket(), err;

	if (fd < 0)
		return fd;
	err = port_bind(fd, WORLD_SOCKET);
	if (err) { /* another service has come first */
		port_close(fd);
		return err;
	}
	if (users.for_group)
		err = port_set_group(WORLD_SOCKET, ASKER_GROUP);
	/* It may be everybody's. */
	if (!err)
		err = port_set_rights(WORLD_SOCKET, machine_draw(2)   ? 0666
		                                    : users.for_group ? 0660
		                                                      : 0600);
	if (!err)
		err = port_listen(fd, 16);
	if (!err)
		return fd;
	program_remove(WORLD_SOCKET);
	port_close(fd);
	return err;
}

/* Makes the socket, and starts a service whenever somebody waits there and none runs. */
static void manager_run(void *arg)
{
	struct process *service = NULL;
	int fd = manager_listens();
	u64 pause = 1;

	(void)arg;
	if (fd < 0)
		return;
	while (manager_is_wanted()) {
		if ((!service || service->dead) && port_wait(fd, PORT_INPUT, 500) == 1) {
			/* Each start in a row waits longer: another service may be in its way. */
			pause = pause < MOST_PAUSE_MS ? pause * 2 : pause;
			service = world_service_lent(fd);
		}
		port_sleep(pause * NS_PER_MS);
	}
	port_close(fd);
}

/* ---- the scenario ---- */

static void users_start(const char *name, u32 uid, void (*run)(void *arg), u32 nr)
{
	settle_expect(process_start(name, uid, run, (void *)(uintptr_t)nr));
}

static void users_trust(void)
{
	static const char text[] = "trust = 1000\n";
	struct inode *file;

	program_make_folder("/", 0, 0755);
	program_make_folder("/etc", 0, 0755);
	file = program_make_file("/etc/lodic.conf", 0, 0644, sizeof(text) - 1);
	memcpy(file->data, text, sizeof(text) - 1);
	files_find("/run")->rights = 0755;
	world_make(PRIVATE, WORLD_FILE_BYTES);
	files_find(PRIVATE)->rights = 0600;
}

void scenario_users(void)
{
	users.for_group = machine_draw(2);
	world.adjust = users_adjust;
	users_trust();
	if (machine_draw(2))
		process_start("manager", WORLD_USER, manager_run, NULL);
	for (u32 i = 1 + machine_draw(2); i > 0; i--)
		world_reader(50 + machine_draw(100));
	for (u32 i = 1 + machine_draw(3); i > 0; i--)
		users_start("asker", WORLD_USER, asker_run, 4 + machine_draw(20));
	if (!users.for_group)
		return;
	for (u32 i = machine_draw(3); i > 0; i--)
		users_start("member", ASKER_MEMBER, member_run, 0);
	if (machine_draw(3) == 0)
		users_start("hoarder", ASKER_MEMBER, hoarder_run, 0);
	if (machine_draw(2))
		users_start("keeper", WORLD_USER, keeper_run, 1 + machine_draw(5));
}
