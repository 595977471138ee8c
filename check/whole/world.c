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

#include "check/whole/said.h"
#include "check/whole/serving.h"
#include "check/whole/settle.h"
#include "check/whole/waits.h"
#include "check/whole/world_files.h"
#include "lib/port.h"

#define FILE_BYTES WORLD_FILE_BYTES
#define READ_BYTES 4096u
#define BLOCK_BYTES 4096u

struct world world;

const char *const world_paths[WORLD_FILES] = { "/data0", "/data1", "/data2", "/data3" };

struct world_file world_files[WORLD_MOST_FILES];
u32 world_nr;
static u32 nr_closed[MACHINE_MOST_PROCESSES];
static u32 nr_contexts[MACHINE_MOST_PROCESSES];

static u64 world_word(u32 file, u64 offset, u64 version)
{
	return version << 40 | (u64)file << 32 | offset;
}

void world_fill(u32 file, u64 version, u64 offset, u64 *words, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		words[i] = world_word(file, offset + i * sizeof(u64), version);
}

void world_make(const char *path, u64 bytes)
{
	struct inode *inode = program_make_file(path, WORLD_USER, 0644, bytes);

	if (world_nr == WORLD_MOST_FILES)
		machine_fail("too many files for the world");
	snprintf(world_files[world_nr].path, sizeof(world_files[world_nr].path), "%s", path);
	world_files[world_nr].inode = inode;
	world_files[world_nr].begun = world_files[world_nr].complete = 1;
	world_files[world_nr].cuts = world_files[world_nr].sure_ns = 0;
	world_files[world_nr].cut_version = 1; /* its length may be any */
	inode_keep(inode);
	world_fill(world_nr, 1, 0, (u64 *)inode->data, (u32)(bytes / sizeof(u64)));
	world_nr++;
}

void world_begin(u64 seed)
{
	machine_begin(seed);
	for (u32 i = 0; i < world_nr; i++)
		inode_put(world_files[i].inode);
	world_nr = 0;
	memset(nr_closed, 0, sizeof(nr_closed));
	memset(nr_contexts, 0, sizeof(nr_contexts));
	files_begin();
	world.hold_bytes = 0;
	world.adjust = NULL;
	world.configure = NULL;
	world.serves = world.ends = NULL;
	world.few_fds = world.servers = false;
	world.start_call_ns = world.least_serves_ns = 0;
	world.taking = NULL;
	world.calm = false;
	serving_begin();
	world.refused = NULL;
	world.few_files = world.leaks_pins = false;
	program_make_folder("/run", WORLD_USER, 0700);
	program_make_folder("/bin", 0, 0755);
	program_make_file("/bin/lodic", 0, 0755, 1);
	for (u32 i = 0; i < WORLD_FILES; i++)
		world_make(world_paths[i], FILE_BYTES);
	world_make(WORLD_BIG, WORLD_BIG_BYTES);
	world_make(WORLD_FAR, WORLD_FAR_BYTES);
	files_find(WORLD_FAR)->server = 1;
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
	if (err == -EPERM && machine.nr_faults[FAULT_ERRNO] == 0 &&
	    process_now()->uid == WORLD_USER)
		machine_fail("a program is not let in by its own user's service");
	return err;
}

u32 *world_closed(void)
{
	return &nr_closed[process_now()->number - 1];
}

int world_context_open(struct lodic *lodic, struct lodic_context **ret_context)
{
	int err;

	++*world_closed();
	err = lodic_context_open(lodic, ret_context);
	nr_contexts[process_now()->number - 1] += !err;
	return err;
}

void world_context_close(struct lodic_context *context)
{
	lodic_context_close(context);
	nr_contexts[process_now()->number - 1]--;
}

void world_context_by_hand(void)
{
	nr_contexts[process_now()->number - 1]++;
}

u32 world_nr_contexts(void)
{
	u32 nr = 0;

	for (u32 i = 0; i < machine.nr_processes; i++)
		nr += machine.processes[i].dead ? 0 : nr_contexts[i];
	return nr;
}

bool world_open(struct lodic *lodic, const char *path, struct world_open *ret_open)
{
	int fd = port_open(path), err;
	u32 number = 0;

	if (fd < 0)
		return false;
	while (world_files[number].inode != fd_file_of(fd)->inode)
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
	return world_nr;
}

const char *world_path(const struct world_open *open)
{
	return world_files[open->number].path;
}

u64 world_bytes(const struct world_open *open)
{
	return world_files[open->number].inode->bytes;
}

bool world_has_cuts(const struct world_open *open)
{
	return world_files[open->number].cuts > 0;
}

u64 world_version(const struct world_open *open)
{
	return world_files[open->number].complete;
}

void world_check(const struct world_open *open, u64 offset, const void *bytes, u64 nr_bytes,
                 u64 least)
{
	u64 most = world_files[open->number].begun;
	const u64 *words = bytes;

	/* The service stood still for longer than the kernel waits: lodic.h says so. */
	if (world_files[open->number].inode->forced)
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
	const struct world_file *file = &world_files[open->number];

	return (struct world_length){ open->number, file->inode->bytes, file->cuts,
		                      file->sure_ns <= machine.now_ns &&
		                              !file->inode->forced };
}

static void world_check_length(const struct world_length *before, u64 offset, u64 bytes,
                               u64 got)
{
	u64 left = before->bytes > offset ? before->bytes - offset : 0;
	u64 most = left < bytes ? left : bytes;
	bool faulty = machine.rate[FAULT_SHORT] > 0 || machine.rate[FAULT_ERRNO] > 0;

	if (!before->sure || world_files[before->number].cuts != before->cuts)
		return;
	if (got > most || (got < most && (got == 0 || !faulty)))
		machine_fail("%s: %llu bytes at %llu; there are %llu",
		             world_files[before->number].path, (unsigned long long)got,
		             (unsigned long long)offset, (unsigned long long)most);
}

/* A version is written a block at a time. So a file that has a word of it has the rest of that
 * word's block, unless somebody has cut it since. A read that ends before the block does has an
 * older length than its bytes. */
static void world_check_end(const struct world_open *open, u64 end, u64 version)
{
	const struct world_file *file = &world_files[open->number];

	if (end % BLOCK_BYTES == 0 || version <= file->cut_version || file->inode->forced ||
	    machine.rate[FAULT_SHORT] > 0)
		return;
	machine_fail("%s: a read ends at %llu, in the middle of version %llu", file->path,
	             (unsigned long long)end, (unsigned long long)version);
}

static struct lodic_context_stat world_stat(const struct lodic_context *context)
{
	struct lodic_context_stat stat = { 0 };

	lodic_context_stat(context, &stat, sizeof(stat));
	return stat;
}

/* A block of a read is a hit or a miss. What the kernel reads once more counts twice as a miss, but
 * then nothing is a hit. */
static void world_check_hits(const struct lodic_context *context,
                             const struct lodic_context_stat *before, u64 offset, u64 bytes)
{
	struct lodic_context_stat now = world_stat(context);
	u64 hits = now.hits - before->hits, misses = now.misses - before->misses;
	u64 blocks = (offset % BLOCK_BYTES + bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;

	if (hits > 0 && hits + misses > blocks)
		machine_fail("%llu hits and %llu misses in a read of %llu blocks",
		             (unsigned long long)hits, (unsigned long long)misses,
		             (unsigned long long)blocks);
}

/* The version that a writer writes, who has the file open; 0: nobody does. A service that was
 * stopped for too long may have lost its lease. */
static u64 world_being_written(const struct world_open *open)
{
	const struct world_file *file = &world_files[open->number];

	return file->begun != file->complete && !file->inode->forced ? file->begun : 0;
}

void world_read_at(struct lodic_context *context, const struct world_open *open, u64 offset,
                   u32 bytes)
{
	u64 to[READ_BYTES / sizeof(u64)];
	u64 least = world_version(open), begun;
	struct world_length before = world_length(open);
	struct lodic_context_stat stat;
	ssize_t n;

	begun = world_being_written(open);
	stat = world_stat(context);
	waits_read_begin();
	n = lodic_read(context, open->file, to, bytes, (off_t)offset);
	waits_read_end();
	if (begun > 0 && world_being_written(open) == begun &&
	    world_stat(context).hits != stat.hits)
		machine_fail("%s has hits while a writer has it open", world_path(open));
	if (n < 0) {
		machine_note("lodic_read() = %zd", n);
		return;
	}
	world_check_hits(context, &stat, offset, bytes);
	world_check_length(&before, offset, bytes, (u64)n);
	world_check(open, offset, to, (u64)n, least);
	if (n >= 8 && n < bytes)
		world_check_end(open, offset + (u64)n, to[n / 8 - 1] >> 40);
	world.nr_reads++;
}

void world_read(struct lodic_context *context, const struct world_open *open)
{
	u64 offset = machine_draw(FILE_BYTES / 512) * (u64)512;
	u32 bytes = 8 + 8 * machine_draw(READ_BYTES / 8 - 1);

	world_read_at(context, open, offset, bytes);
}

void world_compare(struct lodic_context *context, const struct world_open *open)
{
	const struct inode *inode = world_files[open->number].inode;
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
	int err = lodic_pin(context, open->file, (off_t)offset, &pin);

	said_pin(err);
	if (err)
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

void world_works(void (*work)(struct lodic *lodic, u32 nr_rounds), void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct lodic *lodic;

	if (world_attach(&lodic) == 0) {
		work(lodic, (u32)(uintptr_t)arg);
		lodic_detach(lodic);
	}
	settle_given_back_but(&before, *world_closed());
}

void world_works_in(void (*work)(struct lodic *lodic, struct lodic_context *context,
                                 u32 nr_rounds),
                    void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct lodic_context *context;
	struct lodic *lodic;

	if (world_attach(&lodic) == 0) {
		if (world_context_open(lodic, &context) == 0) {
			work(lodic, context, (u32)(uintptr_t)arg);
			world_context_close(context);
		}
		lodic_detach(lodic);
	}
	settle_given_back_but(&before, *world_closed());
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
	world_context_close(context);
}

static void reader_run(void *arg)
{
	world_works(reader_reads, arg);
}

struct process *world_reader(u32 nr_rounds)
{
	struct process *p = process_start("reader", WORLD_USER, reader_run,
	                                  (void *)(uintptr_t)nr_rounds);

	p->mortal = true;
	settle_expect(p);
	return p;
}
