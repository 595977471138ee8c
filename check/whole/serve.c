/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The service in a scenario: as `lodic serve' starts it, with settings that the run draws. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/whole/serving.h"
#include "check/whole/settle.h"
#include "check/whole/waits.h"
#include "host/whole/programs.h"
#include "lib/port.h"
#include "lib/service/service.h"

struct serve {
	char socket[108];
	int report;
	u64 cache_bytes;
	u64 ready_ns, idle_ms;
	bool takeover;
	bool said_stopping;
	int listening; /* 0: it makes its socket */
};

static void serve_ready(void *arg)
{
	struct serve *serve = arg;
	const int ok = 0;

	process_now()->call_ns = 0;
	serve->ready_ns = machine.now_ns;
	if (world.serves)
		world.serves();
	if (serve->report >= 0) {
		pipe_write(serve->report, &ok, sizeof(ok));
		fd_close(process_now(), serve->report);
	}
	world.nr_services++;
	settle_service_starts(serve->idle_ms);
	serving_starts();
	waits_turns_begin();
}

static void serve_stops(const struct serve *serve)
{
	if (world.least_serves_ns && machine.now_ns < serve->ready_ns + world.least_serves_ns)
		machine_fail("a service ends %llu us after programs could connect",
		             (unsigned long long)((machine.now_ns - serve->ready_ns) / NS_PER_US));
	settle_service_stops();
	waits_turns_end();
}

static void serve_stops_for_good(void *arg)
{
	struct serve *serve = arg;

	serve->said_stopping = true;
	serving_stops_for_good();
	serve_stops(serve);
}

static void serve_taking(void *arg)
{
	(void)arg;
	serving_takes();
}

static void serve_say(void *arg, enum service_level level, const char *event,
                      const char *line)
{
	(void)level;
	machine_note("the service says %s: %s", event, line);
	if (strcmp(event, "handed_over") != 0)
		return;
	if (((struct serve *)arg)->said_stopping)
		machine_fail("a service has said that nobody goes on, and a successor does");
	serving_stops();
	serve_stops(arg);
}

/* Each draw stands alone, so that compilers agree on their order. */
static void serve_draw_more(struct service_options *options)
{
	bool fast = machine_draw(3) == 0;

	options->keeping.nr_files = 1 + machine_draw(6);
	options->keeping.buffered = machine_draw(2);
	options->keeping.keep_ms = machine_draw(5) * 1000;
	options->tables.scheme = machine_draw(4);
	options->tables.barrier = machine_draw(3);
	options->tables.nr_entries = machine_draw(2) ? 16 : 0;
	options->sizes.watch_groups = machine_draw(2);
	options->sizes.pressure = machine_draw(2) ? "/proc/pressure/memory" : NULL;
	if (!world.hold_bytes && machine_draw(2))
		options->sizes.hold_bytes = 1 << 20;
	if (fast)
		options->sizes.fast_bytes = options->sizes.cache_bytes / 2;
	options->placing.policy = fast && machine_draw(2) ? "kloc" : NULL;
	options->placing.policy_record = machine_draw(4) == 0 ? "/run/record" : NULL;
}

static void serve_run(void *arg)
{
	struct serve serve = *(struct serve *)arg;
	struct service_options options = {
		.place = { .socket = serve.socket,
		           .idle_exit_ms = 2000,
		           .takeover = serve.takeover,
		           .listening = serve.listening },
		.sizes = { .cache_bytes = serve.cache_bytes, .hold_bytes = world.hold_bytes },
		.keeping = { .nr_files = 16, .lease_pause_ms = machine_draw(2) * 1000 },
		.events = { .say = serve_say,
		            .say_arg = &serve,
		            .taking = serve_taking,
		            .stopping = serve_stops_for_good },
	};
	struct settle_has before = settle_look(process_now());
	const char *why = "";
	char text[256];
	int err = 0, n;

	free(arg);
	process_now()->call_ns = world.start_call_ns;
	if (world.wide)
		serve_draw_more(&options);
	if (world.adjust)
		world.adjust(&options);
	if (world.configure)
		err = world.configure(&options, serve.report >= 0, &why);
	serve.idle_ms = options.place.idle_exit_ms;
	world.cache_bytes[process_now()->number] = options.sizes.cache_bytes
	                                                   ? options.sizes.cache_bytes
	                                                   : options.sizes.budget_bytes;
	world.few_files |= options.keeping.nr_files < 16;
	world.leaks_pins |= options.tables.scheme == LODIC_ATOMIC ||
	                    options.tables.scheme == LODIC_FROZEN;
	if (!err)
		err = service_run(&options, serve_ready, &serve, &why);
	if (world.ends)
		world.ends();
	if (err && world.refused)
		world.refused(err);
	if (err) {
		machine_note("the service cannot run: %d %s", err, why ? why : "");
		snprintf(world.why, sizeof(world.why), "%s", why ? why : "");
		serving_fails(err);
		n = snprintf(text, sizeof(text), "%.*s%s\n", (int)sizeof(err), "....",
		             why ? why : "");
		err = -err;
		memcpy(text, &err, sizeof(err));
		if (serve.report >= 0)
			pipe_write(serve.report, text, (size_t)n);
	}
	settle_service_ends(&before);
	process_exit(err ? 1 : 0);
}

static void serve_inherit(struct process *to, int fd, int number)
{
	struct description *d = fd_get(fd);

	description_keep(d);
	/* As dup2(2): a program that has closed 2 may have passed that number already. */
	if (to->fds[number])
		description_put(to->fds[number]);
	to->fds[number] = d;
}

/* Those that have ended count, and the auditor needs some. */
static bool serve_has_room(void)
{
	if (machine.faults_end)
		return machine.nr_processes < MACHINE_MOST_PROCESSES;
	return machine.nr_processes < MACHINE_MOST_PROCESSES * 3 / 4 &&
	       machine.nr_tasks < MACHINE_MOST_TASKS * 3 / 4;
}

int programs_start(const struct port_program *program)
{
	struct serve *serve;
	struct process *p;

	if (!serve_has_room())
		return -EAGAIN;
	serve = calloc(1, sizeof(*serve));
	serve->cache_bytes = (u64)64 << 10 << machine_draw(3);
	serve->report = program->kept;
	for (char **at = program->arguments; *at; at++)
		if (strcmp(*at, "--socket") == 0)
			snprintf(serve->socket, sizeof(serve->socket), "%s", at[1]);
	p = process_start("service", process_now()->uid, serve_run, serve);
	p->mortal = true;
	serve_inherit(p, program->kept, program->kept);
	serve_inherit(p, program->errors, 2);
	return 0;
}

struct process *world_service(bool takeover)
{
	struct serve *serve = calloc(1, sizeof(*serve));
	struct process *p;

	*serve = (struct serve){ .socket = WORLD_SOCKET,
		                 .report = -1,
		                 .cache_bytes = (u64)64 << 10 << machine_draw(3),
		                 .takeover = takeover };
	p = process_start("service", WORLD_USER, serve_run, serve);
	p->mortal = true;
	return p;
}

struct process *world_youngest_service(void)
{
	struct process *found = NULL;

	for (u32 i = 0; i < machine.nr_processes; i++)
		if (world_is_service(&machine.processes[i]) && !machine.processes[i].dead)
			found = &machine.processes[i];
	return found;
}

struct process *world_service_lent(int fd)
{
	struct serve *serve;
	struct process *p;

	if (!serve_has_room())
		return NULL;
	serve = calloc(1, sizeof(*serve));
	*serve = (struct serve){ .socket = WORLD_SOCKET,
		                 .report = -1,
		                 .cache_bytes = (u64)64 << 10 << machine_draw(3),
		                 .listening = 3 };
	p = process_start("service", process_now()->uid, serve_run, serve);
	p->mortal = true;
	serve_inherit(p, fd, serve->listening);
	return p;
}

bool world_is_service(const struct process *process)
{
	return strncmp(process->name, "service", 7) == 0;
}
