/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a program does to its files, for `lodic run --record`: opens, closes, and reads with their
 * offsets, served or not. The format is that of run_recorded.h.
 *
 * All processes of the run share one mapping of the record. So events of threads and processes
 * stand in one order, nothing is buffered, and nobody waits for another. The kernel has what a
 * process has recorded, also if it is killed. Before the first event of a chunk each process asks
 * the kernel for the chunk's memory. When the disk is full, that ends the record: a store would
 * end the program.
 *
 * A descriptor is an open. One that the shim has not seen being opened counts from its first read.
 */
#define _GNU_SOURCE
#include "preload/run_record.h"

#include <errno.h>
#include <string.h>

#include "lib/port/guest.h"
#include "preload/line.h"
#include "preload/memory.h"
#include "preload/run_calls.h"
#include "preload/run_environment.h"
#include "preload/run_recorded.h"

#define CHUNK_EVENTS 2048u

static void record_ends(u64 why)
{
	if (host_cas(&shim.record.head->ended, 0, why))
		shim.record.says_end = true;
}

/* The next place. NULL: the record has ended. */
static struct recorded *record_take(void)
{
	u64 i, chunk;

	if (host_load_relaxed(&shim.record.head->ended))
		return NULL;
	i = host_fetch_add(&shim.record.head->nr, 1);
	if (i >= shim.record.head->room) {
		record_ends(RECORDED_NO_ROOM);
		return NULL;
	}
	chunk = i / CHUNK_EVENTS;
	if (!host_load_byte(&shim.record.has_memory[chunk])) {
		u64 first = chunk * CHUNK_EVENTS, nr = shim.record.head->room - first;

		if (nr > CHUNK_EVENTS)
			nr = CHUNK_EVENTS;
		if (!memory_is_there(&shim.record.events[first],
		                     nr * sizeof(*shim.record.events))) {
			record_ends(RECORDED_NO_DISK);
			return NULL;
		}
		host_store_byte(&shim.record.has_memory[chunk], 1);
	}
	return &shim.record.events[i];
}

static void record_put(enum recorded_op op, u64 file, u64 offset, u64 bytes)
{
	u64 now = shim_thread.read_ns ? shim_thread.read_ns : port_thread_cpu_ns();
	u64 ns = now > shim_thread.last_ns ? now - shim_thread.last_ns : 0;
	struct recorded *r = record_take();
	u16 *thread = &shim_thread.recorded_as;

	if (r) {
		if (!*thread)
			*thread =
				(u16)(host_fetch_add(&shim.record.head->nr_threads, 1) %
			              UINT16_MAX) +
				1;
		r->file = file;
		r->offset = offset;
		r->bytes = (u32)bytes;
		r->cpu_ns = ns > UINT32_MAX ? UINT32_MAX : (u32)ns;
		host_store_release(&r->who,
		                   recorded_who((u32)shim.record.pid, *thread, op));
	}
	shim_thread.read_ns = 0;
	/* The record's own time is not the program's. */
	shim_thread.last_ns = port_thread_cpu_ns();
}

/* A number for what is open there. An inode that is used again has another time of birth. 0: it is
 * no regular file. */
static u64 file_number(int fd)
{
	struct port_birth birth;
	u64 h;

	if (port_birth(fd, &birth) != 0 || !birth.regular)
		return 0;
	h = birth.ino ^ birth.dev * UINT64_C(0xc2b2ae3d27d4eb4f);
	h ^= birth.ns * UINT64_C(0x9e3779b97f4a7c15);
	h = (h ^ h >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
	h ^= h >> 32;
	return h ? h : 1;
}

/* Does the shim still see what this process does? A child of vfork() has descriptors of its own,
 * and only a system call tells. */
static bool record_is_on(bool of_descriptors)
{
	struct run_state *s = shim.run.state;

	return shim.run.records && s && !host_load_relaxed(&s->off) &&
	       host_load_relaxed(&s->fds.pid) == shim.record.pid &&
	       (!of_descriptors || fds_is_ours());
}

static void opened(int fd)
{
	u64 file = file_number(fd);

	if (!file)
		return;
	host_store_relaxed(&shim.record.open_files[fd], file);
	if ((u64)fd >= host_load_relaxed(&shim.record.top))
		host_store_relaxed(&shim.record.top, (u64)fd + 1);
	record_put(RECORDED_OPEN, file, 0, 0);
}

static void closes(int fd)
{
	u64 file = host_load_relaxed(&shim.record.open_files[fd])
	                   ? host_xchg(&shim.record.open_files[fd], 0)
	                   : 0;

	if (file)
		record_put(RECORDED_CLOSE, file, 0, 0);
}

void run_opened(int fd)
{
	int error = errno;

	if (likely(!shim.run.records) || (u32)fd >= FDS_NR || !record_is_on(true) ||
	    !calls_begin(shim.run.state))
		return;
	closes(fd); /* what was there was closed unseen */
	opened(fd);
	calls_end(shim.run.state);
	errno = error;
}

void run_closes(unsigned int first, unsigned int last)
{
	int error = errno;
	u64 end;

	if (likely(!shim.run.records) || !record_is_on(true) ||
	    !calls_begin(shim.run.state))
		return;
	end = host_load_relaxed(&shim.record.top);
	for (u64 fd = first; fd <= last && fd < end; fd++)
		closes((int)fd);
	calls_end(shim.run.state);
	errno = error;
}

void run_record_reads(void)
{
	int error = errno;

	if (record_is_on(false))
		shim_thread.read_ns = port_thread_cpu_ns();
	errno = error;
}

void run_record_read(int fd, u64 bytes, int64_t offset)
{
	if (!record_is_on(false) || (u32)fd >= FDS_NR || bytes == 0)
		return;
	if (!host_load_relaxed(&shim.record.open_files[fd]))
		opened(fd);
	if (!host_load_relaxed(&shim.record.open_files[fd]))
		return;
	if (offset < 0)
		offset = port_position(fd) - (int64_t)bytes;
	if (offset >= 0)
		record_put(RECORDED_READ,
		           host_load_relaxed(&shim.record.open_files[fd]), (u64)offset,
		           bytes);
}

void run_record_forked(void)
{
	u64 end = host_load_relaxed(&shim.record.top);

	if (!shim.run.records || host_load_relaxed(&shim.run.filtered))
		return;
	shim.record.pid = (u64)port_process();
	shim.record.says_end = false;
	shim_thread.recorded_as = 0;
	shim_thread.last_ns = shim_thread.read_ns = 0;
	record_put(RECORDED_PROCESS, 0, 0, 0);
	for (u64 fd = 0; fd < end; fd++)
		if (shim.record.open_files[fd])
			record_put(RECORDED_OPEN, shim.record.open_files[fd], 0, 0);
}

void run_record_end(bool stderr_closing)
{
	if (shim.record.says_end) {
		line_begin("lodic run", false);
		line_put(
			host_load_relaxed(&shim.record.head->ended) == RECORDED_NO_DISK
				? "the record is not complete: there is no room on its disk"
				: "the record is not complete: it is full; --record-size "
				  "makes it larger");
		line_end("", -1);
		shim.record.says_end = false;
	}
	if (!stderr_closing && record_is_on(false))
		record_put(RECORDED_END, 0, 0, 0);
}

/* The record at path, mapped. NULL: it cannot be had, or is another file by now. */
static struct recorded_head *record_map(const char *path)
{
	struct recorded_head *h;
	int fd = port_open_both(path);
	struct port_file is;
	void *p = NULL;

	if (fd < 0)
		return NULL;
	if (port_look(fd, &is) == 0 && is.bytes >= RECORDED_HEAD_BYTES)
		port_map(NULL, is.bytes, PORT_READ | PORT_WRITE, PORT_SHARED, fd, 0,
		         &p);
	port_shut(fd);
	h = p;
	if (!h)
		return NULL;
	if (memcmp(h->magic, RECORDED_MAGIC, sizeof(h->magic)) == 0 &&
	    h->event_bytes == sizeof(*shim.record.events) &&
	    h->room <= (is.bytes - RECORDED_HEAD_BYTES) / sizeof(*shim.record.events))
		return h;
	port_unmap(h, is.bytes);
	return NULL;
}

void run_record_start(void)
{
	const char *path = port_variable(RUN_RECORD);

	if (!path || !*path)
		return;
	shim.record.head = record_map(path);
	if (!shim.record.head)
		return;
	shim.record.events =
		(struct recorded *)((char *)shim.record.head + RECORDED_HEAD_BYTES);
	shim.record.has_memory =
		memory_zeros(shim.record.head->room / CHUNK_EVENTS + 1);
	shim.record.open_files = memory_zeros(FDS_NR * sizeof(*shim.record.open_files));
	if (!shim.record.has_memory || !shim.record.open_files)
		return;
	shim.record.pid = (u64)port_process();
	shim.run.records = true;
	/* Before an exec() this was another program. */
	shim_thread.last_ns = port_thread_cpu_ns();
	record_put(RECORDED_PROCESS, 0, 0, 0);
}
