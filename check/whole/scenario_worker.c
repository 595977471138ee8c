/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The queue of a service's workers, as programs see it. Many programs open, close, read, prefetch
 * and hold files at once, local ones and those of servers that fall silent. For a while no thread
 * can be started. Services get other sizes, end and are replaced while jobs wait.
 *
 * In 1 of 16 runs nothing else happens than that many programs ask for a file of one server, which
 * has just fallen silent. In as many one program is alone with a worker that sticks.
 */
#include <stdio.h>
#include <string.h>

#include "check/whole/said.h"
#include "check/whole/scenarios.h"
#include "check/whole/serving.h"
#include "check/whole/settle.h"
#include "check/whole/world_files.h"
#include "lib/look.h"
#include "lib/port.h"
#include "lib/service/service.h"
#include "lib/wire.h"

#define NS_PER_MS ((u64)1000000)
#define NS_PER_S ((u64)1000000000)
#define NR_SERVERS 7u /* more than may keep workers that look at their files, two each */
#define MOST_OPEN 6u
#define MOST_SENT 16u
/* Descriptors that a request and what it opens need. */
#define FEW_FREE 8u
#define CACHE_BYTES ((u64)6 << 20)
#define BLOCK_BYTES 4096u
/* As scenario_far.c has it: a program with local files waits for so long at most. */
#define PROMPT_NS (10 * NS_PER_S)
/* A worker is awaited for 200 ms, a read that is stuck for 2 s. */
#define ENDS_NS (5 * NS_PER_S)
/* Beside workers: the main one, and those of leases and of fences. A resize has both once more. */
#define MOST_THREADS (18u + 5)
/* Of the file's server, as systems.c has it. */
#define LOOKS_EACH 2u
/* Programs that ask for a file of one server at once. A program may have two workers stuck, so
 * these could keep all 18. */
#define NR_ASKERS 9u
#define ASKS_EACH 3u
#define ASKED_SERVER 1u
#define ASKED_NS (30 * NS_PER_S)
/* Even: these have no single error. */
#define ASKED_SEED 8u
#define LONELY_SEED 4u

enum worker_kind { WORKER_SILENT, WORKER_REPLACED, WORKER_ANY_FAULT, NR_KINDS };

static struct {
	enum worker_kind kind;
	char paths[NR_SERVERS][16];
	u64 calm_ns; /* the last time at which a service or its threads were disturbed */
	bool no_threads;
	u32 nr_ready; /* askers that have the file open */
	bool ended[MACHINE_MOST_PROCESSES + 1];
} worker;

static const char *const promise_far[] = { "/slow*", NULL };

static void worker_adjust(struct service_options *options)
{
	options->keeping.nr_files = 64;
	options->keeping.immutable = promise_far;
	options->keeping.keep_ms = machine_draw(3) * 500;
	options->sizes.cache_bytes = CACHE_BYTES;
	options->sizes.hold_bytes = (u64)2 << 20;
	options->sizes.fast_bytes = 0;
	options->placing.policy = NULL;
	options->sizes.pressure = NULL;
	options->sizes.watch_groups = false;
}

static void worker_disturbed(void)
{
	worker.calm_ns = machine.now_ns;
}

static bool worker_any_silent(void)
{
	for (u32 i = 0; i < NR_SERVERS; i++)
		if (server_is_silent(1 + i))
			return true;
	return false;
}

/* Its threads end, too, unless a server keeps them. */
static void worker_ends(void)
{
	u64 until = machine.now_ns + PROMPT_NS;

	worker.ended[process_now()->number] = true;
	while (worker.kind != WORKER_ANY_FAULT && process_now()->nr_tasks > 1 &&
	       !worker_any_silent()) {
		if (machine.now_ns > until)
			machine_fail("%s has ended, and %u of its threads have not",
			             process_now()->name, process_now()->nr_tasks - 1);
		task_wait(NULL, machine.now_ns + 100 * NS_PER_MS);
	}
}

static void worker_make_files(void)
{
	for (u32 i = 0; i < NR_SERVERS; i++) {
		snprintf(worker.paths[i], sizeof(worker.paths[i]), "/slow%u", i);
		world_make(worker.paths[i], WORLD_FILE_BYTES);
		files_find(worker.paths[i])->server = 1 + i;
	}
}

static void worker_start(const char *name, void (*run)(void *arg), u32 nr_rounds, bool mortal)
{
	struct process *p = process_start(name, WORLD_USER, run, (void *)(uintptr_t)nr_rounds);

	p->mortal = mortal;
	settle_expect(p);
}

/* ---- what disturbs ---- */

static void servers_turn(void)
{
	u32 what = machine_draw(4), which = machine_draw(NR_SERVERS);

	for (u32 i = 0; i < NR_SERVERS; i++)
		if (i == which || what == 0 || what == 3)
			server_silence(1 + i, what < 3);
}

static void servers_run(void *arg)
{
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		u64 ns = NS_PER_MS;

		servers_turn();
		for (u32 k = machine_draw(5); k > 0; k--)
			ns *= 10;
		task_wait(NULL, machine.now_ns + ns);
	}
	for (u32 i = 0; i < NR_SERVERS; i++)
		server_silence(1 + i, false);
}

/* For a while none starts, or one in two. */
static void threads_run(void *arg)
{
	u32 rate = machine.rate[FAULT_ERRNO];

	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		machine.fault_call = CALL_THREAD_START_ALONE;
		machine.fault_which = CALL_MOST_ERRNOS;
		machine.rate[FAULT_ERRNO] = 1 + machine_draw(2);
		worker.no_threads = true;
		task_wait(NULL, machine.now_ns + machine_draw(4000) * NS_PER_MS);
		machine.rate[FAULT_ERRNO] = rate;
		worker.no_threads = false;
		worker_disturbed();
		task_wait(NULL, machine.now_ns + machine_draw(4000) * NS_PER_MS);
	}
}

static void boss_ends(struct process *service)
{
	u64 until = machine.now_ns + ENDS_NS;

	process_signal(service, SIGNAL_END);
	while (!service->dead && !worker.ended[service->number]) {
		if (machine.now_ns > until && worker.kind == WORKER_REPLACED)
			machine_fail("%s does not end", service->name);
		if (machine.now_ns > until)
			break;
		task_wait(NULL, machine.now_ns + 10 * NS_PER_MS);
	}
}

static void boss_asks(void)
{
	struct look_dropped dropped = { 0 };
	struct look_resize resize;
	struct look *look;
	int pid;

	if (look_open(WORLD_SOCKET, &look, &pid) != 0)
		return;
	if (machine_draw(2))
		look_drop(look, 0, LOOK_ALL, &dropped);
	else
		look_resize(look, CACHE_BYTES + machine_draw(4) * ((u64)1 << 20), &resize);
	look_close(look);
}

static void boss_run(void *arg)
{
	struct settle_has before = settle_look(process_now());

	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		struct process *service = world_youngest_service();
		u32 what = machine_draw(4);

		if (what == 0 && service)
			boss_ends(service);
		else if (what == 1)
			world_service(true);
		else
			boss_asks();
		worker_disturbed();
		task_wait(NULL, machine.now_ns + machine_draw(3000) * NS_PER_MS);
	}
	settle_given_back(&before);
}

/* ---- programs with files of servers ---- */

static void crowd_asks(struct lodic *lodic, struct lodic_context *context,
                       const struct world_open *open)
{
	struct lodic_hold *hold;

	switch (machine_draw(5)) {
	case 0:
		++*world_closed();
		if (lodic_hold(lodic, open->file, 0, 4096, 0, &hold) == 0)
			lodic_release(hold);
		break;
	case 1: lodic_prefetch(context, open->file, 0, 0, 0); break;
	case 2: said_cached(lodic_file_cached(open->file)); break;
	default: world_read(context, open); break;
	}
}

static const char *crowd_path(void)
{
	u32 which = machine_draw(NR_SERVERS + WORLD_FILES);

	return which < NR_SERVERS ? worker.paths[which] : world_paths[which - NR_SERVERS];
}

static void crowd_works(struct lodic *lodic, struct lodic_context *context, u32 nr_rounds)
{
	struct world_open open[MOST_OPEN];
	u32 nr = 0;

	for (u32 i = 0; i < nr_rounds; i++) {
		u32 which = nr > 0 ? machine_draw(nr) : 0;

		if (nr == MOST_OPEN || (nr > 0 && machine_draw(2) == 0)) {
			world_close(&open[which]);
			open[which] = open[--nr];
		}
		nr += world_open(lodic, crowd_path(), &open[nr]);
		if (nr > 0)
			crowd_asks(lodic, context, &open[machine_draw(nr)]);
		if (machine_draw(16) == 0)
			port_sleep(machine_draw(500) * NS_PER_MS);
	}
	settle_here();
	for (u32 i = 0; i < nr; i++) {
		settle_file(context, &open[i]);
		world_close(&open[i]);
	}
}

static void crowd_run(void *arg)
{
	world_works_in(crowd_works, arg);
}

/* Has files open since a time when their servers answered. It sends them, and closes them: the
 * service's descriptors are the last ones. */
static void sender_sends(int socket, int fds[MOST_SENT])
{
	const struct wire_request request = { .version = WIRE_VERSION, .op = WIRE_FILE_OPEN };

	for (u32 i = 0; i < MOST_SENT; i++) {
		if (fds[i] < 0)
			continue;
		if (socket >= 0)
			port_send(socket, &request, sizeof(request), &fds[i], 1);
		fd_close(process_now(), fds[i]);
		fds[i] = -1;
	}
}

static void sender_run(void *arg)
{
	int fds[MOST_SENT], socket;

	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		for (u32 k = 0; k < MOST_SENT; k++) {
			u32 which = machine_draw(NR_SERVERS);

			fds[k] = server_is_silent(1 + which) ? -1 : port_open(worker.paths[which]);
		}
		if (machine_draw(2))
			port_sleep(machine_draw(2000) * NS_PER_MS);
		socket = port_socket();
		if (socket >= 0 && port_connect(socket, WORLD_SOCKET) != 0) {
			port_close(socket);
			socket = -1;
		}
		sender_sends(socket, fds);
		port_sleep(machine_draw(500) * NS_PER_MS);
		if (socket >= 0)
			port_close(socket);
	}
}

/* ---- one with local files ---- */

/* Each thread that the service may have counts. */
static void steady_counts(void)
{
	const struct process *service = world_youngest_service();

	if (service && service->nr_tasks > MOST_THREADS)
		machine_fail("%s has %u threads", service->name, service->nr_tasks);
}

/* Files whose close hangs wait for their close, one after the other (worker.h). They may have taken
 * nearly all descriptors: then nothing more is cached, and nobody can mend that. */
static bool steady_is_crowded(void)
{
	const struct process *service = world_youngest_service();
	u32 nr = FEW_FREE;

	if (!service)
		return false;
	for (u32 i = 0; i < MACHINE_MOST_FDS; i++)
		nr += service->fds[i] != NULL;
	return nr >= service->fd_limit;
}

static void steady_is_prompt(u64 since_ns, const char *what)
{
	u64 since;

	steady_counts();
	if (!serving_now() || steady_is_crowded())
		worker_disturbed();
	since = since_ns > worker.calm_ns ? since_ns : worker.calm_ns;
	if (worker.kind != WORKER_ANY_FAULT && !worker.no_threads &&
	    machine.now_ns > since + PROMPT_NS)
		machine_fail("a server is silent, and %s takes %llu ms", what,
		             (unsigned long long)((machine.now_ns - since) / NS_PER_MS));
}

static void steady_visits(struct lodic *lodic, struct lodic_context *context, const char *path)
{
	u64 since = machine.now_ns;
	struct world_open open;

	if (!world_open(lodic, path, &open))
		return;
	/* Reads start no service. */
	while (worker.kind != WORKER_ANY_FAULT && serving_now() &&
	       lodic_file_cached(open.file) != 0) {
		world_read(context, &open);
		port_sleep(20 * NS_PER_MS);
		steady_is_prompt(since, "a local file");
	}
	since = machine.now_ns;
	lodic_prefetch(context, open.file, 0, WORLD_FILE_BYTES, LODIC_WAIT);
	steady_is_prompt(since, "a prefetch of a local file");
	world_rounds(context, &open, 1, 1 + machine_draw(6));
	since = machine.now_ns;
	world_close(&open);
	steady_is_prompt(since, "the close of a local file");
}

static void steady_works(struct lodic *lodic, struct lodic_context *context, u32 nr_rounds)
{
	for (u32 i = nr_rounds; i > 0; i--) {
		u32 which = machine_draw(WORLD_FILES);

		steady_visits(lodic, context, world_paths[which]);
		port_sleep(machine_draw(1000) * NS_PER_MS);
	}
}

static void steady_run(void *arg)
{
	world_works_in(steady_works, arg);
}

/* ---- many programs that ask for one server's file ---- */

static void asker_sends(int socket, u32 op, int fd)
{
	const struct wire_request request = { .version = WIRE_VERSION, .op = op };

	port_send(socket, &request, sizeof(request), &fd, fd >= 0);
}

/* Several requests at once: a program of liblodic would look at the file itself, and wait. */
static void asker_asks(int fd)
{
	int sockets[ASKS_EACH];

	for (u32 i = 0; i < ASKS_EACH; i++) {
		sockets[i] = port_socket();
		if (sockets[i] < 0 || port_connect(sockets[i], WORLD_SOCKET) != 0)
			continue;
		asker_sends(sockets[i], WIRE_HELLO, -1);
		asker_sends(sockets[i], WIRE_FILE_OPEN, fd);
	}
	while (server_is_silent(ASKED_SERVER))
		port_sleep(100 * NS_PER_MS);
	for (u32 i = 0; i < ASKS_EACH; i++)
		if (sockets[i] >= 0)
			port_close(sockets[i]);
}

/* It opens the file while the server answers. The service learns then of what kind the server's
 * file system is: so later its workers ask about the file itself. */
static void asker_run(void *arg)
{
	const char *path = worker.paths[ASKED_SERVER - 1];
	struct world_open open;
	struct lodic *lodic;
	int fd = port_open(path);

	(void)arg;
	if (world_attach(&lodic) == 0) {
		if (world_open(lodic, path, &open))
			world_close(&open);
		lodic_detach(lodic);
	}
	worker.nr_ready++;
	while (!server_is_silent(ASKED_SERVER))
		port_sleep(10 * NS_PER_MS);
	if (fd < 0)
		return;
	asker_asks(fd);
	port_close(fd);
}

static void silencer_run(void *arg)
{
	(void)arg;
	while (worker.nr_ready < NR_ASKERS)
		task_wait(NULL, machine.now_ns + 10 * NS_PER_MS);
	server_silence(ASKED_SERVER, true);
	task_wait(NULL, machine.now_ns + ASKED_NS);
	server_silence(ASKED_SERVER, false);
}

/* ---- one program alone ---- */

static u64 lonely_hits(const struct lodic_context *context)
{
	struct lodic_context_stat stat = { 0 };

	lodic_context_stat(context, &stat, sizeof(stat));
	return stat.hits;
}

/* A read that is wanted waits for a worker, and nothing else comes that wants one. */
static void lonely_reads(struct lodic_context *context, const struct world_open *open)
{
	u64 since = machine.now_ns, hits = lonely_hits(context);

	while (lonely_hits(context) == hits) {
		world_read_at(context, open, 0, BLOCK_BYTES);
		port_sleep(20 * NS_PER_MS);
		steady_is_prompt(since, "a block of a local file");
	}
}

/* The service's only worker sticks, and no other thread starts for a while. */
static void lonely_works(struct lodic *lodic, struct lodic_context *context, u32 nr_rounds)
{
	struct world_open local, slow;

	(void)nr_rounds;
	if (!world_open(lodic, worker.paths[ASKED_SERVER - 1], &slow))
		return;
	if (world_open(lodic, world_paths[0], &local)) {
		while (lodic_file_cached(slow.file) != 0 || lodic_file_cached(local.file) != 0)
			port_sleep(20 * NS_PER_MS);
		worker_start("threads", threads_run, 1, false);
		while (machine.fault_call != CALL_THREAD_START_ALONE)
			port_sleep(NS_PER_MS);
		server_silence(ASKED_SERVER, true);
		lodic_prefetch(context, slow.file, 0, BLOCK_BYTES, 0);
		port_sleep(100 * NS_PER_MS);
		lonely_reads(context, &local);
		server_silence(ASKED_SERVER, false);
		world_close(&local);
	}
	world_close(&slow);
}

static void lonely_run(void *arg)
{
	world_works_in(lonely_works, arg);
}

/* The seed itself says so: a draw would change all other runs. */
static bool worker_is(u32 seed)
{
	return machine.seed % 16 == seed;
}

/* In half of these runs the machine does not count threads that look at one server's files. Then
 * the program with local files has to notice. */
static void worker_asked(void)
{
	if (machine_draw(2))
		machine.most_looks = 0;
	worker_start("silencer", silencer_run, 0, false);
	for (u32 i = 0; i < NR_ASKERS; i++)
		worker_start("asker", asker_run, 0, false);
	worker_start("steady", steady_run, 20 + machine_draw(20), false);
}

void scenario_worker(void)
{
	bool asked = worker_is(ASKED_SEED), lonely = worker_is(LONELY_SEED);

	memset(&worker, 0, sizeof(worker));
	worker.kind = asked || lonely ? WORKER_SILENT : machine_draw(NR_KINDS);
	worker_make_files();
	if (worker.kind != WORKER_ANY_FAULT)
		world_no_faults();
	machine.no_reads = lonely || machine_draw(2);
	machine.most_looks = LOOKS_EACH;
	world.adjust = worker_adjust;
	world.ends = worker_ends;
	world.servers = true;
	if (asked) {
		worker_asked();
		return;
	}
	if (lonely) {
		worker_start("lonely", lonely_run, 0, false);
		return;
	}
	worker_start("servers", servers_run, 5 + machine_draw(20), false);
	if (machine_draw(4) > 0)
		worker_start("threads", threads_run, 1 + machine_draw(6), false);
	if (worker.kind != WORKER_SILENT)
		worker_start("boss", boss_run, 3 + machine_draw(12), false);
	for (u32 i = machine_draw(3); i > 0; i--)
		worker_start("sender", sender_run, 2 + machine_draw(12), true);
	for (u32 i = machine_draw(6); i > 0; i--)
		worker_start("crowd", crowd_run, 10 + machine_draw(50), true);
	for (u32 i = 1 + machine_draw(2); i > 0; i--)
		worker_start("steady", steady_run, 5 + machine_draw(20), true);
}
