/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Somebody changes the service's configuration, and says so by SIGHUP. Meanwhile services start,
 * end, resize and replace each other.
 *
 * Some editors put a whole new file in the place of the old one. Others write into it, so that it
 * is half there for a while, or take it away. In the end the service has the size that the file has
 * said last. Under the first kind of editor it never has one that no file has said.
 */
#include <stdio.h>
#include <string.h>

#include "check/whole/config.h"
#include "check/whole/scenarios.h"
#include "check/whole/settle.h"
#include "lib/look.h"
#include "lib/port.h"
#include "lib/settings.h"

#define FRESH SETTINGS_SYSTEM_FILE ".new"
#define MOST_BYTES 8192u
#define MOST_SIZES 64u
/* As lib/lines.h has it: a file is read in pieces of it. */
#define PIECE_BYTES 4096u
/* Decimal digits: one that is cut off leaves a smaller size, which is valid, too. */
#define LEAST_SIZE 1000000u
#define SIZE_STEPS 3000u
#define SETTLED_NS ((u64)120 * 1000000000)
#define NS_PER_MS ((u64)1000000)

static struct {
	bool replaces; /* it never writes into the file */
	u64 sizes[MOST_SIZES], wanted; /* that files have said; the last one */
	u32 nr_sizes;
	char text[MOST_BYTES];
	u32 bytes;
} config;

static void config_hears(u64 bytes)
{
	for (u32 i = 0; i < config.nr_sizes; i++)
		if (config.sizes[i] == bytes)
			return;
	/* A fault may have said that there is no file. */
	if (config.replaces && machine.nr_failed[CALL_OPEN] == 0)
		machine_fail("the service takes %llu bytes from its configuration, which "
		             "never said so", (unsigned long long)bytes);
}

/* The next text of the file, with a size that it has not said before. Half of them lie across two
 * pieces, and the last line may have no end. */
static void config_draw(void)
{
	u32 before = machine_draw(2) ? PIECE_BYTES - 1 - machine_draw(20) : machine_draw(200);
	u32 n = 0;

	if (config.nr_sizes == MOST_SIZES)
		machine_fail("too many sizes for the scenario");
	config.wanted = LEAST_SIZE + (u64)config.nr_sizes * SIZE_STEPS * 10 +
	                machine_draw(SIZE_STEPS);
	config.sizes[config.nr_sizes++] = config.wanted;
	n += (u32)sprintf(config.text, "lease-pause = %u\n", machine_draw(2));
	config.text[n++] = '#';
	while (n < before)
		config.text[n++] = '.';
	config.text[n++] = '\n';
	n += (u32)sprintf(config.text + n, "memory = %llu", (unsigned long long)config.wanted);
	if (machine_draw(4) > 0)
		n += (u32)sprintf(config.text + n, "\nkeep = 5\n");
	config.bytes = n;
	machine_note("the configuration shall say %llu bytes",
	             (unsigned long long)config.wanted);
}

static void config_make(const char *path)
{
	struct inode *inode = program_make_file(path, WORLD_USER, 0600, config.bytes);

	memcpy(inode->data, config.text, config.bytes);
}

static void config_replace(void)
{
	config_make(FRESH);
	program_rename(FRESH, SETTINGS_SYSTEM_FILE);
}

static void editor_pauses(void)
{
	u64 ns = machine_draw(2) ? machine_draw(200) * NS_PER_US
	                         : machine_draw(500) * NS_PER_MS;

	if (machine_draw(4) > 0)
		task_wait(NULL, machine.now_ns + ns);
}

static void config_write_into(void)
{
	u32 half = machine_draw(config.bytes);
	int fd = program_open_to_write(SETTINGS_SYSTEM_FILE);

	if (fd < 0) { /* somebody has removed it */
		config_replace();
		return;
	}
	program_cut(fd, 0);
	program_write(fd, 0, config.text, half);
	editor_pauses();
	program_write(fd, half, config.text + half, config.bytes - half);
	fd_close(process_now(), fd);
}

static void config_spoil(void)
{
	static const char bad[] = "memory 1000000\n";

	config_draw();
	memcpy(config.text + machine_draw(2) * (config.bytes - (sizeof(bad) - 1)), bad,
	       sizeof(bad) - 1);
	config_replace();
}

static void editor_changes(bool replaces)
{
	config_draw();
	if (replaces)
		config_replace();
	else
		config_write_into();
}

/* ---- signals ---- */

static void services_signal(enum process_signal signal)
{
	for (u32 i = 0; i < machine.nr_processes; i++)
		if (world_is_service(&machine.processes[i]) && !machine.processes[i].dead)
			process_signal(&machine.processes[i], signal);
}

static void editor_tells(void)
{
	for (u32 i = 1 + machine_draw(4); i > 0; i--) {
		services_signal(SIGNAL_HANG_UP);
		editor_pauses();
	}
}

static void editor_resizes(void)
{
	struct look_resize resize;
	struct look *look;
	int pid;

	if (look_open(WORLD_SOCKET, &look, &pid) != 0)
		return;
	/* Other sizes than those of the file. */
	look_resize(look, (LEAST_SIZE + SIZE_STEPS) + machine_draw(1000) * (u64)2000, &resize);
	look_close(look);
}

static void editor_step(void)
{
	switch (machine_draw(10)) {
	case 0: world_service(true); break;
	case 1: world_service(false); break;
	case 2: services_signal(SIGNAL_END); break;
	case 3: editor_resizes(); break;
	case 4:
		if (!config.replaces) {
			program_remove(SETTINGS_SYSTEM_FILE);
			editor_tells();
		}
		break;
	case 5:
		config_spoil();
		editor_tells();
		break;
	default:
		editor_changes(config.replaces || machine_draw(2));
		editor_tells();
		break;
	}
}

/* ---- the end ---- */

/* 0: nobody answers. */
static u64 service_size(void)
{
	struct lodic_stat stat = { 0 };
	struct look *look;
	int pid;

	if (look_open(WORLD_SOCKET, &look, &pid) != 0)
		return 0;
	if (look_stat(look, &stat) != 0)
		stat.memory_limit = 0;
	look_close(look);
	return stat.memory_limit;
}

static void editor_waits(void)
{
	u64 until = machine.now_ns + SETTLED_NS, now;

	while ((now = service_size()) != config.wanted) {
		if (machine.now_ns > until)
			machine_fail("the configuration has said %llu bytes for long, and the "
			             "service has %llu", (unsigned long long)config.wanted,
			             (unsigned long long)now);
		port_sleep(100 * NS_PER_MS);
	}
}

/* Nothing fails any more. */
static void editor_settles(void)
{
	struct lodic *lodic;

	editor_changes(true);
	if (world_attach(&lodic) != 0)
		machine_fail("the configuration is right, and nobody can attach");
	for (u32 i = machine_draw(4); i > 0; i--) {
		editor_tells();
		if (machine_draw(4) == 0)
			editor_resizes();
		editor_changes(true);
	}
	editor_tells();
	editor_waits();
	lodic_detach(lodic);
}

/* No program is connected, and nothing fails. The service sleeps, and takes the size all the
 * same. */
static void editor_alone(void *arg)
{
	(void)arg;
	world_service(false);
	for (u32 i = 1 + machine_draw(6); i > 0; i--) {
		editor_changes(true);
		editor_tells();
	}
	task_wait(NULL, machine.now_ns + SETTLED_NS);
	if (service_size() != config.wanted)
		machine_fail("the service sleeps, and has not taken %llu bytes",
		             (unsigned long long)config.wanted);
	services_signal(SIGNAL_END);
	settle_here();
}

static void editor_run(void *arg)
{
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		editor_step();
		if (machine_draw(3) == 0)
			task_wait(NULL, machine.now_ns + machine_long() / 10);
		else
			editor_pauses();
	}
	editor_changes(true);
	settle_here();
	editor_settles();
}

void scenario_config(void)
{
	u32 nr = 1 + machine_draw(12);

	memset(&config, 0, sizeof(config));
	config.replaces = machine_draw(2);
	program_make_folder("/etc", WORLD_USER, 0755);
	config_draw();
	config_make(SETTINGS_SYSTEM_FILE);
	if (machine_draw(8) == 0) {
		world_no_faults();
		config_begin(config_hears, 0);
		settle_expect(process_start("editor", WORLD_USER, editor_alone, NULL));
		return;
	}
	config_begin(config_hears, 2000);
	if (machine.rate[FAULT_ERRNO] > 0 && machine_draw(4) == 0) { /* a disk that is bad */
		machine.fault_call = CALL_READ;
		machine.fault_which = CALL_MOST_ERRNOS;
		machine.rate[FAULT_ERRNO] = 1 + machine_draw(8);
	}
	for (u32 i = 1 + machine_draw(2); i > 0; i--)
		world_reader(50 + machine_draw(100));
	settle_expect(process_start("editor", WORLD_USER, editor_run, (void *)(uintptr_t)nr));
}
