/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * See world.h.
 *
 * Each word of a file says whose it is, where it stands and which version it is of. A writer makes
 * one version of a whole file, then the next. Of each word a reader may
 * see the last version that was complete when its read began. It may also see a later one that was
 * begun before the read was over.
 */
#include "check/whole/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/whole/programs.h"
#include "lib/port.h"
#include "lib/service/service.h"

#define FILE_BYTES ((u64)64 << 10)
#define READ_BYTES 4096u

struct world world;

static struct {
	char path[32];
	struct inode *inode;
	u64 begun, complete; /* versions */
} files[WORLD_FILES];

static u64 world_word(u32 file, u64 offset, u64 version)
{
	return version << 40 | (u64)file << 32 | offset;
}

static void world_fill(u32 file, u64 version, u64 offset, u64 *words, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		words[i] = world_word(file, offset + i * sizeof(u64), version);
}

void world_begin(u64 seed)
{
	machine_begin(seed);
	files_begin();
	program_make_folder("/run", WORLD_USER, 0700);
	program_make_folder("/bin", 0, 0755);
	program_make_file("/bin/lodic", 0, 0755, 1);
	for (u32 i = 0; i < WORLD_FILES; i++) {
		struct inode *inode;

		snprintf(files[i].path, sizeof(files[i].path), "/data%u", i);
		inode = program_make_file(files[i].path, WORLD_USER, 0644, FILE_BYTES);
		world_fill(i, 1, 0, (u64 *)inode->data, FILE_BYTES / sizeof(u64));
		files[i].inode = inode;
		files[i].begun = files[i].complete = 1;
	}
}

/* ---- the service ---- */

struct serve {
	char socket[108];
	int report;
	u64 cache_bytes;
};

static void serve_ready(void *arg)
{
	const struct serve *serve = arg;
	const int ok = 0;

	pipe_write(serve->report, &ok, sizeof(ok));
	fd_close(process_now(), serve->report);
	world.nr_services++;
}

static void serve_say(void *arg, enum service_level level, const char *event,
                      const char *line)
{
	(void)arg;
	(void)level;
	machine_note("the service says %s: %s", event, line);
}

static void serve_run(void *arg)
{
	struct serve serve = *(struct serve *)arg;
	bool fast = world.wide && machine_draw(3) == 0;
	const struct service_options options = {
		.socket = serve.socket,
		.cache_bytes = serve.cache_bytes,
		.nr_files = world.wide ? 1 + machine_draw(6) : 16,
		.idle_exit_ms = 2000,
		.lease_pause_ms = machine_draw(2) * 1000,
		.say = serve_say,
		.scheme = world.wide ? machine_draw(4) : 0,
		.barrier = world.wide ? machine_draw(3) : 0,
		.buffered = world.wide ? machine_draw(2) : 0,
		.watch_groups = world.wide ? machine_draw(2) : 0,
		.hold_bytes = world.wide && machine_draw(2) ? 1 << 20 : 0,
		.fast_bytes = fast ? serve.cache_bytes / 2 : 0,
		.policy = fast && machine_draw(2) ? "kloc" : NULL,
		.policy_record = world.wide && machine_draw(4) == 0 ? "/run/record" : NULL,
		.pressure = world.wide && machine_draw(2) ? "/proc/pressure/memory" : NULL,
		.keep_ms = world.wide ? machine_draw(5) * 1000 : 0,
		.nr_entries = world.wide && machine_draw(2) ? 16 : 0,
	};
	const char *why = "";
	char text[256];
	int err, n;

	free(arg);
	world.cache_bytes[process_now()->number] = serve.cache_bytes;
	err = service_run(&options, serve_ready, &serve, &why);
	if (err) {
		machine_note("the service cannot run: %d %s", err, why ? why : "");
		n = snprintf(text, sizeof(text), "%.*s%s\n", (int)sizeof(err), "....",
		             why ? why : "");
		err = -err;
		memcpy(text, &err, sizeof(err));
		pipe_write(serve.report, text, (size_t)n);
	}
	process_exit(err ? 1 : 0);
}

static void serve_inherit(struct process *to, int fd, int number)
{
	struct description *d = fd_get(fd);

	description_keep(d);
	to->fds[number] = d;
}

int programs_start(const struct port_program *program)
{
	struct serve *serve;
	struct process *p;

	if (machine.nr_processes == MACHINE_MOST_PROCESSES)
		return -EAGAIN; /* those that have ended count */
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

/* ---- a reader ---- */

static void reader_check(u32 file, u64 offset, const u64 *words, u32 nr, u64 least)
{
	u64 most = files[file].begun;

	/* The service stood still for longer than the kernel waits: lodic.h says so. */
	if (files[file].inode->forced)
		least = 1;

	for (u32 i = 0; i < nr; i++) {
		u64 at = offset + i * sizeof(u64), version = words[i] >> 40;

		if (words[i] != world_word(file, at, version) || version < least ||
		    version > most)
			machine_fail("%s has version %llu at %llu, %llx; it may be %llu to %llu",
			             files[file].path, (unsigned long long)version,
			             (unsigned long long)at, (unsigned long long)words[i],
			             (unsigned long long)least, (unsigned long long)most);
	}
}

static void reader_read(struct lodic_context *context, struct lodic_file *file, u32 number)
{
	static u64 words[MACHINE_MOST_PROCESSES][READ_BYTES / sizeof(u64)];
	u64 *to = words[process_now()->number - 1];
	u64 offset = machine_draw(FILE_BYTES / 512) * (u64)512;
	u32 bytes = 8 + 8 * machine_draw(READ_BYTES / 8 - 1);
	u64 least = files[number].complete;
	ssize_t n = lodic_read(context, file, to, bytes, (off_t)offset);

	if (n < 0) {
		machine_note("lodic_read() = %zd", n);
		return;
	}
	if ((u64)n > bytes || (n < bytes && offset + (u64)n < FILE_BYTES && n % 8 != 0))
		machine_note("lodic_read() = %zd of %u", n, bytes);
	reader_check(number, offset, to, (u32)(n / 8), least);
	world.nr_reads++;
}

static void reader_pin(struct lodic_context *context, struct lodic_file *file, u32 number)
{
	u64 offset = machine_draw(FILE_BYTES / 4096) * (u64)4096;
	u64 least = files[number].complete;
	struct lodic_pin pin;

	if (lodic_pin(context, file, (off_t)offset, &pin) != 0)
		return;
	reader_check(number, offset, pin.data, 512, least);
	machine_yield();
	reader_check(number, offset, pin.data, 512, least);
	lodic_unpin(context, &pin);
	world.nr_pins++;
}

static void reader_rounds(struct lodic_context *context, struct lodic_file *const *open,
                          u32 nr_rounds)
{
	for (u32 i = 0; i < nr_rounds; i++) {
		u32 file = machine_draw(WORLD_FILES);

		if (!open[file])
			continue;
		if (machine_draw(4) > 0)
			reader_read(context, open[file], file);
		else
			reader_pin(context, open[file], file);
		if (machine_draw(32) == 0)
			port_sleep((u64)machine_draw(200) * 1000000);
	}
}

static void reader_run(void *arg)
{
	const struct lodic_options options = { .bytes = sizeof(options),
		                               .socket = WORLD_SOCKET,
		                               .service = "/bin/lodic" };
	struct lodic_file *open[WORLD_FILES] = { NULL };
	struct lodic_context *context;
	struct lodic *lodic;
	int err = lodic_attach(&options, &lodic), fd;

	machine_note("lodic_attach() = %d", err);
	if (err)
		return;
	if (lodic_context_open(lodic, &context) == 0) {
		for (u32 i = 0; i < WORLD_FILES; i++) {
			fd = port_open(files[i].path);
			if (fd < 0)
				continue;
			if (lodic_open(lodic, fd, &open[i]) != 0)
				open[i] = NULL;
			port_close(fd);
		}
		reader_rounds(context, open, (u32)(uintptr_t)arg);
		for (u32 i = 0; i < WORLD_FILES; i++)
			if (open[i])
				lodic_close(open[i]);
		lodic_context_close(context);
	}
	lodic_detach(lodic);
}

struct process *world_reader(u32 nr_rounds)
{
	struct process *p = process_start("reader", WORLD_USER, reader_run,
	                                  (void *)(uintptr_t)nr_rounds);

	p->mortal = true;
	return p;
}

/* ---- a writer ---- */

static void writer_run(void *arg)
{
	u64 words[512];

	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		u32 file = machine_draw(WORLD_FILES);
		int fd = program_open_to_write(files[file].path);
		u64 version;

		if (fd >= 0) {
			version = ++files[file].begun;
			for (u64 at = 0; at < FILE_BYTES; at += sizeof(words)) {
				world_fill(file, version, at, words, 512);
				program_write(fd, at, words, sizeof(words));
			}
			files[file].complete = version;
			fd_close(process_now(), fd);
		}
		task_wait(NULL, machine.now_ns + machine_draw(2000) * (u64)1000000);
	}
}

struct process *world_writer(u32 nr_rounds)
{
	return process_start("writer", WORLD_USER, writer_run,
	                     (void *)(uintptr_t)nr_rounds);
}
