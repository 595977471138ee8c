/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Files of eight servers that fall silent, one or all, for a while. Their user may have promised
 * that they do not change: then they are cached. Programs with local files must not notice.
 */
#include <stdio.h>
#include <string.h>

#include "check/whole/scenarios.h"
#include "check/whole/settle.h"
#include "check/whole/world_files.h"
#include "lib/port.h"
#include "lib/service/service.h"
#include "lib/wire.h"

#define NS_PER_S ((u64)1000000000)
#define FILES_EACH 2u
#define FAR_FILES (FILES_SERVERS * FILES_EACH)
/* Of these servers the first file is a big one, so that the service has holds of it. */
#define BIG_SERVERS 3u
#define MOST_OPEN 6u
/* Nobody has it before the hogger. */
#define HOGGED "/hogged"
/* As systems.c has it: workers that a silent server keeps. */
#define LOOKS_EACH 2u
/* Half of the reads are for files that may be silent, and each has 32 blocks: here others have room
 * beside them. */
#define ROOMY_BYTES ((u64)6 << 20)
/* A worker waits 100 ms for others that wait for a server, and a read that is stuck is waited for
 * 2 s. A program waits 2 s for an answer. */
#define PROMPT_NS (10 * NS_PER_S)
/* A hold that is refused, as all memory is in use, or ready. */
#define HOLD_NS (60 * NS_PER_S)

static struct {
	bool promised, promised_all, quiet, few_watches;
	u32 keep_ms;
	u64 cache_bytes;
	struct process *hogger; /* NULL: there is none */
	char paths[FAR_FILES][16];
} far;

static const char *const promise_far[] = { "/far*", NULL };
static const char *const promise_all[] = { "/*", NULL };

static void far_adjust(struct service_options *options)
{
	options->keeping.nr_files = 64;
	options->keeping.immutable = far.promised_all ? promise_all
	                     : far.promised   ? promise_far
	                                      : NULL;
	options->keeping.keep_ms = far.keep_ms;
	options->sizes.hold_bytes = (u64)2 << 20;
	options->sizes.cache_bytes = far.cache_bytes;
	options->sizes.fast_bytes = 0;
}

static void far_make_files(void)
{
	for (u32 i = 0; i < FAR_FILES; i++) {
		u32 server = 1 + i / FILES_EACH;
		bool big = server <= BIG_SERVERS && i % FILES_EACH == 0;

		snprintf(far.paths[i], sizeof(far.paths[i]), "/far%u%c", server,
		         'a' + (int)(i % FILES_EACH));
		world_make(far.paths[i], big ? WORLD_BIG_BYTES : WORLD_FILE_BYTES);
		files_find(far.paths[i])->server = server;
	}
	world_make(HOGGED, WORLD_FILE_BYTES);
}

/* ---- servers ---- */

static void servers_all(bool silent)
{
	for (u32 i = 1; i <= FILES_SERVERS; i++)
		server_silence(i, silent);
}

static void servers_end_service(void)
{
	for (u32 i = 0; i < machine.nr_processes; i++)
		if (world_is_service(&machine.processes[i]) && !machine.processes[i].dead)
			process_signal(&machine.processes[i], SIGNAL_END);
}

static void servers_run(void *arg)
{
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		u32 what = machine_draw(4), server = 1 + machine_draw(FILES_SERVERS);
		u64 ns = NS_PER_S / 1000;

		if (what == 0)
			servers_all(machine_draw(2));
		else
			server_silence(server, what < 3);
		if (!far.quiet && machine_draw(4) == 0)
			servers_end_service();
		for (u32 k = machine_draw(5); k > 0; k--)
			ns *= 10;
		task_wait(NULL, machine.now_ns + ns);
	}
	servers_all(false);
	machine.most_watches = 0;
	/* It silences servers, too, and may die before they answer again. */
	while (far.hogger && !far.hogger->dead)
		task_wait(NULL, machine.now_ns + NS_PER_S / 10);
	servers_all(false);
}

/* ---- who has files of servers ---- */

/* then: this server falls silent when the service has been asked; 0: none. */
static void far_hold(struct lodic *lodic, const struct world_open *open, u32 then)
{
	struct lodic_hold *hold;
	u64 until = machine.now_ns + machine_draw(3) * NS_PER_S;
	int err;

	++*world_closed();
	err = lodic_hold(lodic, open->file, 0, 0, 0, &hold);
	machine_note("lodic_hold() = %d", err);
	if (then > 0)
		server_silence(then, true);
	if (err)
		return;
	while (lodic_hold_ready(hold) == 0 && machine.now_ns < until)
		port_sleep(50000000);
	lodic_release(hold);
}

static void far_work(struct lodic *lodic, struct lodic_context *context,
                     const struct world_open *open)
{
	switch (machine_draw(4)) {
	case 0: far_hold(lodic, open, 0); break;
	case 1: lodic_prefetch(context, open->file, 0, 0, machine_draw(2) ? LODIC_WAIT : 0); break;
	default: world_rounds(context, open, 1, 1 + machine_draw(10)); break;
	}
}

static void farer_reads(struct lodic *lodic, u32 nr_rounds)
{
	struct world_open open[MOST_OPEN];
	struct lodic_context *context;
	u32 nr = 0;

	if (world_context_open(lodic, &context) != 0)
		return;
	for (u32 i = 0; i < nr_rounds; i++) {
		u32 which = nr > 0 ? machine_draw(nr) : 0;

		if (nr == MOST_OPEN || (nr > 0 && machine_draw(3) == 0)) {
			world_close(&open[which]);
			open[which] = open[--nr];
		}
		nr += world_open(lodic, far.paths[machine_draw(FAR_FILES)], &open[nr]);
		if (nr > 0)
			far_work(lodic, context, &open[machine_draw(nr)]);
	}
	settle_here();
	for (u32 i = 0; i < nr; i++) {
		if (far.promised)
			settle_file(context, &open[i]);
		world_close(&open[i]);
	}
	lodic_context_close(context);
}

static void farer_run(void *arg)
{
	world_works(farer_reads, arg);
}

/* Has all files open since a time when the servers answered. So the service asks them. */
static void asker_run(void *arg)
{
	struct lodic_file *file;
	int fds[FAR_FILES];
	struct lodic *lodic;

	for (u32 i = 0; i < FAR_FILES; i++)
		fds[i] = port_open(far.paths[i]);
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		u32 which = machine_draw(FAR_FILES);

		if (world_attach(&lodic) == 0) {
			++*world_closed();
			if (fds[which] >= 0 && lodic_open(lodic, fds[which], &file) == 0)
				lodic_close(file);
			lodic_detach(lodic);
		}
		port_sleep(machine_draw(300) * (u64)1000000);
	}
	for (u32 i = 0; i < FAR_FILES; i++)
		if (fds[i] >= 0)
			port_close(fds[i]);
}

/* Sends descriptors, and leaves before anybody has looked at them. */
static void sender_run(void *arg)
{
	const struct wire_request request = { .version = WIRE_VERSION, .op = WIRE_FILE_OPEN };

	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		int socket = port_socket(), fd = port_open(far.paths[machine_draw(FAR_FILES)]);

		if (socket >= 0 && port_connect(socket, WORLD_SOCKET) == 0)
			for (u32 k = 1 + machine_draw(3); fd >= 0 && k > 0; k--)
				port_send(socket, &request, sizeof(request), &fd, 1);
		if (fd >= 0)
			port_close(fd);
		port_sleep(machine_draw(4) * (u64)1000);
		if (socket >= 0)
			port_close(socket);
		port_sleep(machine_draw(500) * (u64)1000000);
	}
}

/* ---- who has local ones ---- */

static void steady_is_prompt(u64 since_ns, const char *what)
{
	if (far.quiet && machine.now_ns > since_ns + PROMPT_NS)
		machine_fail("a server is silent, and %s takes %llu ms", what,
		             (unsigned long long)((machine.now_ns - since_ns) / 1000000));
}

static void steady_hold(struct lodic *lodic, const struct world_open *open)
{
	u64 until = machine.now_ns + HOLD_NS;
	struct lodic_hold *hold;
	int err;

	++*world_closed();
	err = lodic_hold(lodic, open->file, 0, 0, 0, &hold);
	machine_note("lodic_hold() = %d", err);
	if (err)
		return;
	while (lodic_hold_ready(hold) == 0) {
		if (far.quiet && machine.now_ns > until)
			machine_fail("a server is silent, and a hold is neither there nor refused");
		if (machine.now_ns > until)
			break;
		port_sleep(50000000);
	}
	port_sleep(machine_draw(2) * 5 * NS_PER_S);
	lodic_release(hold);
}

/* Its blocks come in. */
static void steady_hits(struct lodic_context *context, const struct world_open *open)
{
	struct lodic_context_stat before = { 0 }, now = { 0 };
	u64 since = machine.now_ns;

	lodic_context_stat(context, &before, sizeof(before));
	do {
		world_read(context, open);
		lodic_context_stat(context, &now, sizeof(now));
		if (now.hits != before.hits || !far.quiet || far.few_watches ||
		    far.cache_bytes < ROOMY_BYTES)
			return;
		port_sleep(20000000);
		steady_is_prompt(since, "a block of a local file");
	} while (true);
}

static void steady_visits(struct lodic *lodic, struct lodic_context *context, const char *path)
{
	u64 since = machine.now_ns;
	struct world_open open;

	if (!world_open(lodic, path, &open))
		return;
	while (far.quiet && !far.few_watches && lodic_file_cached(open.file) != 0) {
		world_read(context, &open);
		port_sleep(20000000);
		steady_is_prompt(since, "a local file");
	}
	since = machine.now_ns;
	lodic_prefetch(context, open.file, 0, WORLD_FILE_BYTES, LODIC_WAIT);
	steady_is_prompt(since, "a prefetch of a local file");
	steady_hits(context, &open);
	world_rounds(context, &open, 1, 1 + machine_draw(10));
	if (machine_draw(2))
		steady_hold(lodic, &open);
	world_close(&open);
}

static void steady_works(struct lodic *lodic, struct lodic_context *context, u32 nr_rounds)
{
	for (u32 i = nr_rounds; i > 0; i--) {
		u32 which = machine_draw(WORLD_FILES + 2);

		steady_visits(lodic, context,
		              which < WORLD_FILES ? world_paths[which] : WORLD_BIG);
		port_sleep(machine_draw(1000) * (u64)1000000);
	}
}

static void steady_run(void *arg)
{
	world_works_in(steady_works, arg);
}

/* A read for a hold never comes back, and nobody wants it any more. Its memory is nobody's. */
static void hogger_hold(struct lodic *lodic, const struct world_open *open, u32 server)
{
	struct world_open local;

	far_hold(lodic, open, server);
	if (world_open(lodic, WORLD_BIG, &local)) {
		steady_hold(lodic, &local);
		world_close(&local);
	}
}

/* More reads of a silent server are wanted than may be under way at once, and then a local file. */
static void hogger_fill(struct lodic *lodic, struct lodic_context *context,
                        const struct world_open *open, u32 server)
{
	server_silence(server, true);
	lodic_prefetch(context, open->file, 0, 0, 0);
	port_sleep(NS_PER_S / 10);
	steady_visits(lodic, context, HOGGED);
}

static void hogger_hogs(struct lodic *lodic, struct lodic_context *context, u32 server)
{
	const char *path = far.paths[(server - 1) * FILES_EACH];
	struct world_open open;

	if (!world_open(lodic, path, &open))
		return;
	while (far.quiet && far.promised && lodic_file_cached(open.file) != 0 &&
	       !server_is_silent(server)) {
		world_read(context, &open);
		port_sleep(20000000);
	}
	if (machine_draw(2))
		hogger_hold(lodic, &open, server);
	else
		hogger_fill(lodic, context, &open, server);
	server_silence(server, false);
	world_close(&open);
}

static void hogger_works(struct lodic *lodic, struct lodic_context *context, u32 nr_rounds)
{
	for (u32 i = nr_rounds; i > 0; i--)
		hogger_hogs(lodic, context, 1 + machine_draw(BIG_SERVERS));
}

static void hogger_run(void *arg)
{
	world_works_in(hogger_works, arg);
}

/* Does a service have that file? */
static bool service_has(const char *path)
{
	const struct inode *inode = files_find(path);

	for (u32 i = 0; i < machine.nr_processes; i++) {
		const struct process *p = &machine.processes[i];

		for (u32 fd = 0; world_is_service(p) && fd < MACHINE_MOST_FDS; fd++)
			if (p->fds[fd] && fd_file_is(p->fds[fd]) &&
			    ((const struct fd_file *)p->fds[fd])->inode == inode)
				return true;
	}
	return false;
}

/* The service has a promised file that nobody has open. It has no watch, so its leaving gives none
 * to others. */
static void keeper_visits(struct lodic *lodic, const char *path)
{
	struct world_open open;
	bool cached;

	if (!world_open(lodic, path, &open))
		return;
	cached = lodic_file_cached(open.file) == 0;
	world_close(&open);
	for (u32 i = 0; cached && i < WORLD_FILES; i++) {
		if (world_open(lodic, world_paths[i], &open))
			world_close(&open);
		if (!service_has(path))
			machine_fail("a promised file has left, and others want a watch");
	}
}

static void keeper_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct lodic *lodic;

	if (world_attach(&lodic) == 0) {
		for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
			keeper_visits(lodic, far.paths[machine_draw(FAR_FILES)]);
			port_sleep(machine_draw(500) * (u64)1000000);
		}
		lodic_detach(lodic);
	}
	settle_given_back_but(&before, *world_closed());
}

static struct process *far_start(const char *name, void (*run)(void *arg), u32 nr_rounds,
                                 bool mortal)
{
	struct process *p = process_start(name, WORLD_USER, run, (void *)(uintptr_t)nr_rounds);

	p->mortal = mortal;
	settle_expect(p);
	return p;
}

void scenario_far(void)
{
	memset(&far, 0, sizeof(far));
	far_make_files();
	far.quiet = machine_draw(2);
	if (far.quiet)
		world_no_faults();
	far.promised = machine_draw(4) > 0;
	far.promised_all = far.promised && machine_draw(3) == 0;
	machine.no_leases = far.promised_all && machine_draw(2);
	machine.no_reads = machine_draw(2);
	far.keep_ms = machine_draw(3) * 1000;
	far.cache_bytes = machine_draw(2) ? ROOMY_BYTES : (u64)64 << 10 << machine_draw(3);
	far.few_watches = far.quiet && far.promised && !machine.no_leases && machine_draw(4) == 0;
	if (far.few_watches) {
		machine.most_watches = 1 + machine_draw(3);
		far.keep_ms = 3600000;
	}
	world.adjust = far_adjust;
	world.servers = true;
	machine.most_looks = LOOKS_EACH;
	far_start("servers", servers_run, 5 + machine_draw(20), false);
	for (u32 i = 1 + machine_draw(4); i > 0; i--)
		far_start("farer", farer_run, 5 + machine_draw(30), true);
	for (u32 i = machine_draw(8); i > 0; i--)
		far_start("asker", asker_run, 5 + machine_draw(20), true);
	if (machine_draw(2))
		far.hogger = far_start("hogger", hogger_run, 1 + machine_draw(3), true);
	if (far.few_watches)
		far_start("keeper", keeper_run, 5 + machine_draw(10), true);
	for (u32 i = machine_draw(3); i > 0; i--)
		far_start("sender", sender_run, 5 + machine_draw(20), true);
	for (u32 i = 1 + machine_draw(2); i > 0; i--)
		far_start("steady", steady_run, 5 + machine_draw(20), true);
}
