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
#include "preload/run_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/line.h"
#include "preload/own.h"
#include "preload/run_environment.h"
#include "preload/run_recorded.h"

#define CHUNK_EVENTS 2048u
#define NS_PER_S UINT64_C(1000000000)

bool run_records;

static struct recorded_head *head; /* the record; all processes write there */
static struct recorded *events;
static u8 *has_memory;  /* by chunk: this process has asked for it; atomic */
static u64 *open_files; /* by descriptor: the file's number, or 0; atomic */
static u64 top;         /* no descriptor from here on was open; atomic */
static u64 record_pid;
static bool says_end; /* this process has found that the record ends */

static __thread u16 thread; /* from 1 on; 0: none yet */
static __thread u64 last_ns,
	read_ns; /* of its CPU time: at its last event; before a read */

static u64 cpu_ns(void)
{
	struct timespec t;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0)
		return 0;
	return (u64)t.tv_sec * NS_PER_S + (u64)t.tv_nsec;
}

static void record_ends(u64 why)
{
	if (host_cas(&head->ended, 0, why))
		says_end = true;
}

/* The next place. NULL: the record has ended. */
static struct recorded *record_take(void)
{
	u64 i, chunk;

	if (host_load_relaxed(&head->ended))
		return NULL;
	i = host_fetch_add(&head->nr, 1);
	if (i >= head->room) {
		record_ends(RECORDED_NO_ROOM);
		return NULL;
	}
	chunk = i / CHUNK_EVENTS;
	if (!host_load_byte(&has_memory[chunk])) {
		u64 first = chunk * CHUNK_EVENTS, nr = head->room - first;

		if (nr > CHUNK_EVENTS)
			nr = CHUNK_EVENTS;
		if (!own_has_memory(&events[first], nr * sizeof(*events))) {
			record_ends(RECORDED_NO_DISK);
			return NULL;
		}
		host_store_byte(&has_memory[chunk], 1);
	}
	return &events[i];
}

static void record_put(enum recorded_op op, u64 file, u64 offset, u64 bytes)
{
	u64 now = read_ns ? read_ns : cpu_ns();
	u64 ns = now > last_ns ? now - last_ns : 0;
	struct recorded *r = record_take();

	if (r) {
		if (!thread)
			thread = (u16)(host_fetch_add(&head->nr_threads, 1) %
			               UINT16_MAX) +
			         1;
		r->file = file;
		r->offset = offset;
		r->bytes = (u32)bytes;
		r->cpu_ns = ns > UINT32_MAX ? UINT32_MAX : (u32)ns;
		host_store_release(&r->who, recorded_who((u32)record_pid, thread, op));
	}
	read_ns = 0;
	last_ns = cpu_ns(); /* the record's own time is not the program's */
}

/* A number for what is open there. An inode that is used again has another time of birth. 0: it is
 * no regular file. */
static u64 file_number(int fd)
{
	struct statx st;
	u64 h;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_INO | STATX_BTIME, &st) !=
	            0 ||
	    !S_ISREG(st.stx_mode))
		return 0;
	h = st.stx_ino ^ ((u64)st.stx_dev_major << 32 | st.stx_dev_minor) *
	                         UINT64_C(0xc2b2ae3d27d4eb4f);
	if (st.stx_mask & STATX_BTIME)
		h ^= ((u64)st.stx_btime.tv_sec * NS_PER_S + st.stx_btime.tv_nsec) *
		     UINT64_C(0x9e3779b97f4a7c15);
	h = (h ^ h >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
	h ^= h >> 32;
	return h ? h : 1;
}

/* Does the shim still see what this process does? A child of vfork() has descriptors of its own,
 * and only a system call tells. */
static bool record_is_on(bool of_descriptors)
{
	struct run_state *s = run_state;

	return run_records && s && !host_load_relaxed(&s->off) &&
	       host_load_relaxed(&s->fds.pid) == record_pid &&
	       (!of_descriptors || fds_is_ours());
}

static void opened(int fd)
{
	u64 file = file_number(fd);

	if (!file)
		return;
	host_store_relaxed(&open_files[fd], file);
	if ((u64)fd >= host_load_relaxed(&top))
		host_store_relaxed(&top, (u64)fd + 1);
	record_put(RECORDED_OPEN, file, 0, 0);
}

static void closes(int fd)
{
	u64 file =
		host_load_relaxed(&open_files[fd]) ? host_xchg(&open_files[fd], 0) : 0;

	if (file)
		record_put(RECORDED_CLOSE, file, 0, 0);
}

void run_opened(int fd)
{
	int error = errno;

	if (likely(!run_records) || (u32)fd >= FDS_NR || !record_is_on(true) ||
	    !calls_begin(run_state))
		return;
	closes(fd); /* what was there was closed unseen */
	opened(fd);
	calls_end(run_state);
	errno = error;
}

void run_closes(unsigned int first, unsigned int last)
{
	int error = errno;
	u64 end;

	if (likely(!run_records) || !record_is_on(true) || !calls_begin(run_state))
		return;
	end = host_load_relaxed(&top);
	for (u64 fd = first; fd <= last && fd < end; fd++)
		closes((int)fd);
	calls_end(run_state);
	errno = error;
}

void run_record_reads(void)
{
	int error = errno;

	if (record_is_on(false))
		read_ns = cpu_ns();
	errno = error;
}

void run_record_read(int fd, u64 bytes, off_t offset)
{
	if (!record_is_on(false) || (u32)fd >= FDS_NR || bytes == 0)
		return;
	if (!host_load_relaxed(&open_files[fd]))
		opened(fd);
	if (!host_load_relaxed(&open_files[fd]))
		return;
	if (offset < 0)
		offset = lseek(fd, 0, SEEK_CUR) - (off_t)bytes;
	if (offset >= 0)
		record_put(RECORDED_READ, host_load_relaxed(&open_files[fd]),
		           (u64)offset, bytes);
}

void run_record_forked(void)
{
	u64 end = host_load_relaxed(&top);

	if (!run_records || host_load_relaxed(&run_filtered))
		return;
	record_pid = (u64)getpid();
	says_end = false;
	thread = 0;
	last_ns = read_ns = 0;
	record_put(RECORDED_PROCESS, 0, 0, 0);
	for (u64 fd = 0; fd < end; fd++)
		if (open_files[fd])
			record_put(RECORDED_OPEN, open_files[fd], 0, 0);
}

void run_record_end(bool stderr_closing)
{
	if (says_end) {
		line_begin("lodic run", false);
		line_put(
			host_load_relaxed(&head->ended) == RECORDED_NO_DISK
				? "the record is not complete: there is no room on its disk"
				: "the record is not complete: it is full; --record-size "
				  "makes it larger");
		line_end("", -1);
		says_end = false;
	}
	if (!stderr_closing && record_is_on(false))
		record_put(RECORDED_END, 0, 0, 0);
}

static void *zeroed(u64 bytes)
{
	void *p = own_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* The record at path, mapped. NULL: it cannot be had, or is another file by now. */
static struct recorded_head *record_map(const char *path)
{
	int fd = (int)own_call(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
	struct recorded_head *h = MAP_FAILED;
	struct stat st;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && st.st_size >= (off_t)RECORDED_HEAD_BYTES)
		h = own_mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE,
		             MAP_SHARED, fd, 0);
	own_call(SYS_close, fd);
	if (h == MAP_FAILED)
		return NULL;
	if (memcmp(h->magic, RECORDED_MAGIC, sizeof(h->magic)) == 0 &&
	    h->event_bytes == sizeof(*events) &&
	    h->room <= ((u64)st.st_size - RECORDED_HEAD_BYTES) / sizeof(*events))
		return h;
	own_munmap(h, (size_t)st.st_size);
	return NULL;
}

void run_record_start(void)
{
	const char *path = getenv(RUN_RECORD);

	if (!path || !*path)
		return;
	head = record_map(path);
	if (!head)
		return;
	events = (struct recorded *)((char *)head + RECORDED_HEAD_BYTES);
	has_memory = zeroed(head->room / CHUNK_EVENTS + 1);
	open_files = zeroed(FDS_NR * sizeof(*open_files));
	if (!has_memory || !open_files)
		return;
	record_pid = (u64)getpid();
	run_records = true;
	last_ns = cpu_ns(); /* before an exec() this was another program */
	record_put(RECORDED_PROCESS, 0, 0, 0);
}
