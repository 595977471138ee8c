/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Services that start. Nothing fails here, so each rule is strict:
 *
 *   slow     a start takes seconds; then the service serves, and it is idle from that moment on
 *   refused  a service that cannot start says why, and the program hears these words
 *   killed   the next call that may wait starts another one
 *   heirs    one service ends, and the next one waits for that
 *   late     a file system does not answer, and a service ends before its worker
 *   unmarked one call is refused: the one that makes the kernel tell of a service's death
 */
#include <string.h>

#include "check/whole/said.h"
#include "check/whole/scenarios.h"
#include "check/whole/settle.h"
#include "lib/port.h"
#include "lib/port/listen.h"
#include "lib/service/service.h"

#define NS_PER_MS ((u64)1000000)
/* As serve.c has it: a service that nobody uses ends after so long. */
#define IDLE_NS (2000 * NS_PER_MS)
/* A call of a service that starts. A start takes seconds then, and less than attach.c waits. */
#define SLOW_NS ((u32)40000000)
/* A service that is there, or that the call starts, has the file by then. */
#define CACHED_NS (1000 * NS_PER_MS)
/* A service that ends is followed within it. */
#define HEIR_NS (3000 * NS_PER_MS)

/* ---- refused ---- */

static bool starts_are_refused;

static void refused_adjust(struct service_options *options)
{
	if (!starts_are_refused)
		return;
	options->sizes.fast_bytes = 0;
	options->placing.policy = "nonsense";
}

static void refused_compare(int err)
{
	enum lodic_reason reason = lodic_reason(err);
	const char *said = lodic_strerror(err);

	if (reason != LODIC_REASON_REFUSED_START || strcmp(said, world.why) != 0)
		machine_fail("a service does not start: %s. A program hears: %s",
		             world.why, said);
}

static void refused_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	bool by_path = machine_draw(2);
	struct lodic *lodic;
	int err;

	(void)arg;
	if (by_path)
		program_make_file(WORLD_SOCKET, WORLD_USER, 0600, 0);
	starts_are_refused = !by_path;
	for (u32 i = 1 + machine_draw(3); i > 0; i--) {
		world.why[0] = '\0';
		err = world_attach(&lodic);
		if (!err)
			machine_fail("no service can start, and a program attaches");
		refused_compare(err);
		port_sleep(machine_draw(1000) * NS_PER_MS);
	}
	starts_are_refused = false;
	if (by_path)
		program_remove(WORLD_SOCKET);
	err = world_attach(&lodic);
	if (err)
		machine_fail(
			"a service can start again, and a program does not attach: %d",
			err);
	lodic_detach(lodic);
	settle_given_back_but(&before, *world_closed());
}

/* ---- killed ---- */

static void killed_opens(struct lodic *lodic)
{
	const char *path = world_paths[machine_draw(WORLD_FILES)];
	u64 until = machine.now_ns + CACHED_NS;
	struct world_open open;
	int why;

	do {
		if (!world_open(lodic, path, &open))
			machine_fail("nothing fails, and %s cannot be opened", path);
		why = lodic_file_cached(open.file);
		said_cached(why);
		world_close(&open);
		port_sleep(10 * NS_PER_MS);
	} while (why && machine.now_ns < until);
	if (why)
		machine_fail("the service was killed, and %s is not cached again: %d",
		             path, why);
}

static void killed_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct lodic_context *context;
	struct lodic *lodic;

	if (world_attach(&lodic) != 0 || world_context_open(lodic, &context) != 0)
		machine_fail("nothing fails, and a program does not attach");
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		if (machine_draw(2))
			killed_opens(lodic);
		port_sleep(machine_draw(3000) * NS_PER_MS);
		if (world_youngest_service())
			process_kill(world_youngest_service());
		if (machine_draw(2))
			port_sleep(machine_draw(3000) * NS_PER_MS);
		killed_opens(lodic);
		port_sleep(20 * IDLE_NS);
	}
	world_context_close(context);
	lodic_detach(lodic);
	settle_given_back_but(&before, *world_closed());
}

/* ---- heirs ---- */

static bool heirs_find_a_service(void)
{
	int socket = port_socket(), err;

	err = port_connect(socket, WORLD_SOCKET);
	port_close(socket);
	return err == 0;
}

static void heirs_await(const struct process *p)
{
	u64 until = machine.now_ns + HEIR_NS;

	while (!heirs_find_a_service()) {
		if (p->dead)
			machine_fail("nothing fails, and %s does not start: %s",
			             p->name, world.why);
		if (machine.now_ns > until)
			machine_fail("%s is not there after so long", p->name);
		port_sleep(machine_draw(5) * NS_PER_MS + NS_PER_US);
	}
}

static void heirs_run(void *arg)
{
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		struct process *p = world_service(false);

		heirs_await(p);
		/* It may end by itself meanwhile, as nobody uses it. */
		task_wait(NULL, machine.now_ns + machine_draw(2500) * NS_PER_MS);
		if (!p->dead)
			process_signal(p, SIGNAL_END);
		while (heirs_find_a_service())
			port_sleep(machine_draw(100) * NS_PER_US + NS_PER_US);
	}
}

/* ---- unmarked ---- */

static void unmarked_run(void *arg)
{
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		task_wait(NULL, machine.now_ns + (1 + machine_draw(500)) * NS_PER_MS);
		if (world_youngest_service())
			process_kill(world_youngest_service());
	}
}

static void unmarked_begin(void)
{
	machine.fault_call = CALL_MARK_SET;
	machine.fault_which = CALL_MOST_ERRNOS;
	machine.rate[FAULT_ERRNO] = 1 + machine_draw(4);
	for (u32 i = 1 + machine_draw(2); i > 0; i--)
		world_reader(100 + machine_draw(400));
	world_writer(10 + machine_draw(30));
	settle_expect(process_start("killer", WORLD_USER, unmarked_run,
	                            (void *)(uintptr_t)(1 + machine_draw(6))));
}

/* ---- late ---- */

static void late_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct lodic_context *context;
	struct lodic *lodic;

	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		if (world_attach(&lodic) != 0)
			continue;
		if (world_context_open(lodic, &context) == 0) {
			world_visit_far(lodic, context);
			world_context_close(context);
		}
		lodic_detach(lodic);
	}
	settle_given_back_but(&before, *world_closed());
}

static void late_ends(void *arg)
{
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		task_wait(NULL, machine.now_ns + (1 + machine_draw(20000)) * NS_PER_US);
		if (world_youngest_service())
			process_signal(world_youngest_service(), SIGNAL_END);
	}
}

static void late_begin(void)
{
	machine.rate[FAULT_HANG] = 1 + machine_draw(4);
	for (u32 i = 1 + machine_draw(3); i > 0; i--)
		settle_expect(process_start("visitor", WORLD_USER, late_run,
		                            (void *)(uintptr_t)(1 + machine_draw(10))));
	settle_expect(process_start("ender", WORLD_USER, late_ends,
	                            (void *)(uintptr_t)(1 + machine_draw(20))));
}

/* ---- all ---- */

static void starts_one(const char *name, void (*run)(void *arg))
{
	u32 nr = 1 + machine_draw(4);

	settle_expect(process_start(name, WORLD_USER, run, (void *)(uintptr_t)nr));
}

void scenario_starts(void)
{
	u32 which = machine_draw(6);

	world_no_faults();
	starts_are_refused = false;
	switch (which) {
	case 0:
		world.start_call_ns = 1 + machine_draw(SLOW_NS);
		world.least_serves_ns = IDLE_NS;
		for (u32 i = 1 + machine_draw(2); i > 0; i--)
			world_comer(1 + machine_draw(6));
		break;
	case 1:
		world.adjust = refused_adjust;
		starts_one("refused", refused_run);
		break;
	case 2: starts_one("orphan", killed_run); break;
	case 3: starts_one("heirs", heirs_run); break;
	case 4: late_begin(); break;
	default: unmarked_begin(); break;
	}
}
