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

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/whole/settle.h"
#include "check/whole/waits.h"
#include "host/whole/programs.h"
#include "lib/port.h"
#include "lib/service/service.h"

#define FILE_BYTES WORLD_FILE_BYTES
#define READ_BYTES 4096u

struct world world;

const char *const world_paths[WORLD_FILES] = { "/data0", "/data1", "/data2", "/data3" };

/* Only a watch hears of some cuts: a machine without faults needs so long at most. */
#define LATE_NS ((u64)1000000000)

static struct {
	char path[32];
	struct inode *inode; /* kept */
	u64 begun, complete; /* versions */
	u64 cuts;            /* how often its length has changed */
	u64 sure_ns;         /* from when on a read sees its length; NS_NEVER: nobody knows */
} files[WORLD_MOST_FILES];
static u32 nr_files;
static u32 nr_closed[MACHINE_MOST_PROCESSES];

static u64 world_word(u32 file, u64 offset, u64 version)
{
	return version << 40 | (u64)file << 32 | offset;
}

static void world_fill(u32 file, u64 version, u64 offset, u64 *words, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		words[i] = world_word(file, offset + i * sizeof(u64), version);
}

static void world_make(const char *path, u64 bytes)
{
	struct inode *inode = program_make_file(path, WORLD_USER, 0644, bytes);

	if (nr_files == WORLD_MOST_FILES)
		machine_fail("too many files for the world");
	snprintf(files[nr_files].path, sizeof(files[nr_files].path), "%s", path);
	files[nr_files].inode = inode;
	files[nr_files].begun = files[nr_files].complete = 1;
	files[nr_files].cuts = files[nr_files].sure_ns = 0;
	inode_keep(inode);
	world_fill(nr_files, 1, 0, (u64 *)inode->data, (u32)(bytes / sizeof(u64)));
	nr_files++;
}

void world_begin(u64 seed)
{
	machine_begin(seed);
	for (u32 i = 0; i < nr_files; i++)
		inode_put(files[i].inode);
	nr_files = 0;
	memset(nr_closed, 0, sizeof(nr_closed));
	files_begin();
	world.hold_bytes = 0;
	world.few_fds = false;
	world.few_files = world.leaks_pins = false;
	program_make_folder("/run", WORLD_USER, 0700);
	program_make_folder("/bin", 0, 0755);
	program_make_file("/bin/lodic", 0, 0755, 1);
	for (u32 i = 0; i < WORLD_FILES; i++)
		world_make(world_paths[i], FILE_BYTES);
	world_make(WORLD_BIG, WORLD_BIG_BYTES);
	world_make(WORLD_FAR, WORLD_FAR_BYTES);
	files_find(WORLD_FAR)->far = true;
}

/* ---- the service ---- */

struct serve {
	char socket[108];
	int report;
	u64 cache_bytes;
	bool takeover;
};

static void serve_ready(void *arg)
{
	const struct serve *serve = arg;
	const int ok = 0;

	if (serve->report >= 0) {
		pipe_write(serve->report, &ok, sizeof(ok));
		fd_close(process_now(), serve->report);
	}
	world.nr_services++;
	settle_service_starts();
	waits_turns_begin();
}

static void serve_stops(void *arg)
{
	(void)arg;
	settle_service_stops();
	waits_turns_end();
}

static void serve_say(void *arg, enum service_level level, const char *event,
                      const char *line)
{
	(void)level;
	machine_note("the service says %s: %s", event, line);
	if (strcmp(event, "handed_over") == 0)
		serve_stops(arg);
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
		.takeover = serve.takeover,
		.lease_pause_ms = machine_draw(2) * 1000,
		.say = serve_say,
		.stopping = serve_stops,
		.scheme = world.wide ? machine_draw(4) : 0,
		.barrier = world.wide ? machine_draw(3) : 0,
		.buffered = world.wide ? machine_draw(2) : 0,
		.watch_groups = world.wide ? machine_draw(2) : 0,
		.hold_bytes = world.hold_bytes                  ? world.hold_bytes
		              : world.wide && machine_draw(2) ? 1 << 20
		                                              : 0,
		.fast_bytes = fast ? serve.cache_bytes / 2 : 0,
		.policy = fast && machine_draw(2) ? "kloc" : NULL,
		.policy_record = world.wide && machine_draw(4) == 0 ? "/run/record" : NULL,
		.pressure = world.wide && machine_draw(2) ? "/proc/pressure/memory" : NULL,
		.keep_ms = world.wide ? machine_draw(5) * 1000 : 0,
		.nr_entries = world.wide && machine_draw(2) ? 16 : 0,
	};
	struct settle_has before = settle_look(process_now());
	const char *why = "";
	char text[256];
	int err, n;

	free(arg);
	world.cache_bytes[process_now()->number] = serve.cache_bytes;
	world.few_files |= options.nr_files < 16;
	world.leaks_pins |= options.scheme == LODIC_ATOMIC || options.scheme == LODIC_FROZEN;
	err = service_run(&options, serve_ready, &serve, &why);
	if (err) {
		machine_note("the service cannot run: %d %s", err, why ? why : "");
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
	to->fds[number] = d;
}

int programs_start(const struct port_program *program)
{
	struct serve *serve;
	struct process *p;

	/* Those that have ended count, and the auditor needs some. */
	if (machine.nr_processes == MACHINE_MOST_PROCESSES ||
	    (machine.nr_processes >= MACHINE_MOST_PROCESSES * 3 / 4 && !machine.faults_end) ||
	    (machine.nr_tasks >= MACHINE_MOST_TASKS * 3 / 4 && !machine.faults_end))
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

bool world_is_service(const struct process *process)
{
	return strncmp(process->name, "service", 7) == 0;
}

/* ---- a reader ---- */

int world_attach(struct lodic **ret_lodic)
{
	const struct lodic_options options = { .bytes = sizeof(options),
		                               .socket = WORLD_SOCKET,
		                               .service = "/bin/lodic" };
	int err = lodic_attach(&options, ret_lodic);

	machine_note("lodic_attach() = %d", err);
	/* A descriptor that the kernel says nothing of may be anything. */
	if (err == -EPROTO && machine.nr_failed[CALL_MEMORY_LOOK] == 0)
		machine_fail("a service that is one does not speak as such");
	return err;
}

u32 *world_closed(void)
{
	return &nr_closed[process_now()->number - 1];
}

int world_context_open(struct lodic *lodic, struct lodic_context **ret_context)
{
	++*world_closed();
	return lodic_context_open(lodic, ret_context);
}

bool world_open(struct lodic *lodic, const char *path, struct world_open *ret_open)
{
	int fd = port_open(path), err;
	u32 number = 0;

	if (fd < 0)
		return false;
	while (files[number].inode != fd_file_of(fd)->inode)
		number++;
	ret_open->number = number;
	err = lodic_open(lodic, fd, &ret_open->file);
	++*world_closed();
	port_close(fd);
	return err == 0;
}

void world_close(const struct world_open *open)
{
	lodic_close(open->file);
}

u32 world_nr_files(void)
{
	return nr_files;
}

const char *world_path(const struct world_open *open)
{
	return files[open->number].path;
}

u64 world_bytes(const struct world_open *open)
{
	return files[open->number].inode->bytes;
}

u64 world_version(const struct world_open *open)
{
	return files[open->number].complete;
}

void world_check(const struct world_open *open, u64 offset, const void *bytes, u64 nr_bytes,
                 u64 least)
{
	u64 most = files[open->number].begun;
	const u64 *words = bytes;

	/* The service stood still for longer than the kernel waits: lodic.h says so. */
	if (files[open->number].inode->forced)
		least = 1;

	for (u32 i = 0; i < nr_bytes / sizeof(u64); i++) {
		u64 at = offset + i * sizeof(u64), version = words[i] >> 40;

		if (words[i] != world_word(open->number, at, version) ||
		    version < least || version > most)
			machine_fail("%s has version %llu at %llu, %llx; it may be %llu to %llu",
			             world_path(open), (unsigned long long)version,
			             (unsigned long long)at, (unsigned long long)words[i],
			             (unsigned long long)least, (unsigned long long)most);
	}
}

/* What a read knows of the length when it begins. */
struct world_length {
	u32 number;
	u64 bytes, cuts;
	bool sure;
};

static struct world_length world_length(const struct world_open *open)
{
	return (struct world_length){
		open->number, files[open->number].inode->bytes, files[open->number].cuts,
		files[open->number].sure_ns <= machine.now_ns &&
			!files[open->number].inode->forced
	};
}

static void world_check_length(const struct world_length *before, u64 offset, u64 bytes,
                               u64 got)
{
	u64 left = before->bytes > offset ? before->bytes - offset : 0;
	u64 most = left < bytes ? left : bytes;
	bool faulty = machine.rate[FAULT_SHORT] > 0 || machine.rate[FAULT_ERRNO] > 0;

	if (!before->sure || files[before->number].cuts != before->cuts)
		return;
	if (got > most || (got < most && (got == 0 || !faulty)))
		machine_fail("%s: %llu bytes at %llu; there are %llu",
		             files[before->number].path, (unsigned long long)got,
		             (unsigned long long)offset, (unsigned long long)most);
}

static u64 world_hits(const struct lodic_context *context)
{
	struct lodic_context_stat stat = { 0 };

	lodic_context_stat(context, &stat, sizeof(stat));
	return stat.hits;
}

/* The version that a writer writes, who has the file open; 0: nobody does. A service that was
 * stopped for too long may have lost its lease. */
static u64 world_being_written(const struct world_open *open)
{
	u64 begun = files[open->number].begun;

	return begun != files[open->number].complete && !files[open->number].inode->forced
	               ? begun
	               : 0;
}

void world_read(struct lodic_context *context, const struct world_open *open)
{
	u64 to[READ_BYTES / sizeof(u64)];
	u64 offset = machine_draw(FILE_BYTES / 512) * (u64)512;
	u32 bytes = 8 + 8 * machine_draw(READ_BYTES / 8 - 1);
	u64 least = world_version(open), begun, hits;
	struct world_length before = world_length(open);
	ssize_t n;

	begun = world_being_written(open);
	hits = world_hits(context);
	waits_read_begin();
	n = lodic_read(context, open->file, to, bytes, (off_t)offset);
	waits_read_end();
	if (begun > 0 && world_being_written(open) == begun && world_hits(context) != hits)
		machine_fail("%s has hits while a writer has it open", world_path(open));
	if (n < 0) {
		machine_note("lodic_read() = %zd", n);
		return;
	}
	world_check_length(&before, offset, bytes, (u64)n);
	world_check(open, offset, to, (u64)n, least);
	world.nr_reads++;
}

void world_compare(struct lodic_context *context, const struct world_open *open)
{
	const struct inode *inode = files[open->number].inode;
	u8 to[READ_BYTES];
	ssize_t n;

	for (u64 at = 0; at <= inode->bytes; at += (u64)n) {
		n = lodic_read(context, open->file, to, sizeof(to), (off_t)at);
		if (n < 0 || (n == 0) != (at == inode->bytes))
			machine_fail("%s: %zd bytes at %llu of %llu", world_path(open), n,
			             (unsigned long long)at,
			             (unsigned long long)inode->bytes);
		if (memcmp(to, inode->data + at, (size_t)n) != 0)
			machine_fail("%s has other bytes at %llu", world_path(open),
			             (unsigned long long)at);
		if (n == 0)
			break;
	}
}

static void world_pin(struct lodic_context *context, const struct world_open *open)
{
	u64 offset = machine_draw(FILE_BYTES / 4096) * (u64)4096;
	u64 least = world_version(open);
	struct lodic_pin pin;

	if (lodic_pin(context, open->file, (off_t)offset, &pin) != 0)
		return;
	world_check(open, offset, pin.data, pin.bytes, least);
	machine_yield();
	/* It may be kept for longer than the service answers, or has the file. */
	for (u32 i = machine_draw(4) > 0 ? 0 : machine_draw(16); i > 0; i--)
		world_read(context, open);
	world_check(open, offset, pin.data, pin.bytes, least);
	lodic_unpin(context, &pin);
	world.nr_pins++;
}

void world_rounds(struct lodic_context *context, const struct world_open *open, u32 nr_open,
                  u32 nr_rounds)
{
	for (u32 i = 0; i < nr_rounds && nr_open > 0; i++) {
		u32 which = machine_draw(nr_open);

		if (machine_draw(4) > 0)
			world_read(context, &open[which]);
		else
			world_pin(context, &open[which]);
		if (machine_draw(32) == 0)
			port_sleep((u64)machine_draw(200) * 1000000);
	}
}

static void reader_reads(struct lodic *lodic, u32 nr_rounds)
{
	struct world_open open[WORLD_FILES];
	struct lodic_context *context;
	u32 nr_open = 0;

	if (world_context_open(lodic, &context) != 0)
		return;
	for (u32 i = 0; i < WORLD_FILES; i++)
		nr_open += world_open(lodic, world_paths[i], &open[nr_open]);
	if (machine_draw(4) == 0)
		world_visit_far(lodic, context);
	world_rounds(context, open, nr_open, nr_rounds);
	settle_here();
	for (u32 i = 0; i < nr_open; i++)
		settle_file(context, &open[i]);
	for (u32 i = 0; i < nr_open; i++)
		world_close(&open[i]);
	lodic_context_close(context);
}

static void reader_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct lodic *lodic;

	if (world_attach(&lodic) == 0) {
		reader_reads(lodic, (u32)(uintptr_t)arg);
		lodic_detach(lodic);
	}
	settle_given_back_but(&before, *world_closed());
}

struct process *world_reader(u32 nr_rounds)
{
	struct process *p = process_start("reader", WORLD_USER, reader_run,
	                                  (void *)(uintptr_t)nr_rounds);

	p->mortal = true;
	settle_expect(p);
	return p;
}

/* ---- writers ---- */

static u32 world_find(const char *path)
{
	const struct inode *inode = files_find(path);
	u32 number = 0;

	while (number < nr_files && files[number].inode != inode)
		number++;
	return number;
}

void world_cut(const char *path)
{
	static const enum fault late[] = { FAULT_ERRNO, FAULT_DELAY, FAULT_DEATH, FAULT_STOP,
		                           FAULT_HANG };
	u32 number = world_find(path);
	bool quiet = true;
	int fd;

	for (u32 i = 0; i < sizeof(late) / sizeof(late[0]); i++)
		quiet = quiet && machine.rate[late[i]] == 0;
	fd = number < nr_files ? port_open(path) : -1;
	if (fd < 0)
		return;
	files[number].cuts++;
	files[number].sure_ns = NS_NEVER;
	program_cut(fd, machine_draw((u32)(files[number].inode->bytes / 8) + 1) * (u64)8);
	files[number].cuts++;
	if (quiet)
		files[number].sure_ns = machine.now_ns + LATE_NS;
	port_close(fd);
}

void world_unsure(const char *path)
{
	u32 number = world_find(path);

	if (number == nr_files)
		return;
	files[number].cuts++;
	files[number].sure_ns = NS_NEVER;
}

void world_replace(const char *path)
{
	static const char made[] = "/made";

	if (nr_files == WORLD_MOST_FILES || files_find(made))
		return;
	world_make(made, FILE_BYTES);
	snprintf(files[nr_files - 1].path, sizeof(files[0].path), "%s", path);
	program_rename(made, path);
}

static void world_write_all(u32 number, int fd, u64 bytes)
{
	u64 version = ++files[number].begun, words[512];

	for (u64 at = 0; at < bytes; at += sizeof(words)) {
		world_fill(number, version, at, words, 512);
		program_write(fd, at, words, sizeof(words));
	}
	files[number].complete = version;
}

void world_rewrite(const char *path, bool anew)
{
	int fd = program_open_to_write(path);
	u32 number;

	if (fd < 0)
		return;
	for (number = 0; files[number].inode != fd_file_of(fd)->inode; number++)
		;
	files[number].cuts++;
	if (anew)
		program_cut(fd, 0);
	world_write_all(number, fd, number == WORLD_FILES ? WORLD_BIG_BYTES : FILE_BYTES);
	files[number].cuts++;
	files[number].sure_ns = machine.now_ns;
	fd_close(process_now(), fd);
}

static void writer_run(void *arg)
{
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		world_rewrite(world_paths[machine_draw(WORLD_FILES)], false);
		task_wait(NULL, machine.now_ns + machine_draw(2000) * (u64)1000000);
	}
}

struct process *world_writer(u32 nr_rounds)
{
	struct process *p = process_start("writer", WORLD_USER, writer_run,
	                                  (void *)(uintptr_t)nr_rounds);

	settle_expect(p);
	return p;
}
