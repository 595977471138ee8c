/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which descriptor is which file, and when a file is mapped and unmapped.
 *
 * A descriptor's slot says what the shim found behind it at its first read. That is a file,
 * by index and generation, or nothing that can be mapped. close() and its relatives empty
 * the slot. libc and bare system calls can close and open a descriptor without the shim; then
 * its slot is stale. The shim finds that out by looking again every MAP_TICK_READS reads.
 * Until then a stale slot does no harm, because nothing reads a mapping. The shim counts
 * reads for the wrong file, or asks for the wrong file's pages, within that file's
 * mapping and within the budget.
 *
 * The shim maps a file when the program has read it min_reads times, and not in one pass
 * from front to back. A pass reads each page once, and a pte for it would only cost. Any
 * of these shows that it was no pass:
 * - More bytes were read than the file has.
 * - min_reads of its pread()s did not begin where the one before ended.
 * - For read(): the file offset has moved by something quite different from what was
 *   read. To see that takes a system call, so the shim looks at min_reads, and again
 *   each time that the reads have doubled.
 */
#define _GNU_SOURCE
#include "preload/map.h"

#include <assert.h>
#include <errno.h>

#include "preload/go.h"
#include "preload/line.h"
#include "preload/map_options.h"
#include "preload/map_pages.h"
#include "preload/map_report.h"

/* How often a thread looks again at what it believes: once in so many reads, which takes 3
 * system calls. */
#define MAP_TICK_READS 1024u

/* statfs(2) */
#define EXT4_MAGIC 0xef53u
#define XFS_MAGIC 0x58465342u
#define BTRFS_MAGIC 0x9123683eu
#define TMPFS_MAGIC 0x01021994u
#define OVERLAY_MAGIC 0x794c7630u
#define F2FS_MAGIC 0xf2f52010u
#define RAMFS_MAGIC 0x858458f6u
#define SQUASHFS_MAGIC 0x73717368u
#define EROFS_MAGIC 0xe0f5e1e2u
#define ISOFS_MAGIC 0x9660u
#define MSDOS_MAGIC 0x4d44u
#define JFS_MAGIC 0x3153464au
#define BCACHEFS_MAGIC 0xca451a4eu

static_assert(MAP_FILES <= FDS_MAX_FILES, "an index has its bits in a slot");
static_assert(sizeof(u64) == sizeof(void *), "pointers are kept in words");

static u64 slot_of(const struct map_file *f)
{
	return fds_of_file(f->generation, (u64)(f - shim.map.state->files));
}

/* NULL: the slot names no file, or one that is gone. */
static struct map_file *slot_file(u64 slot)
{
	struct map_file *f = &shim.map.state->files[fds_index(slot) & (MAP_FILES - 1)];

	if ((slot & FDS_KIND) != FDS_FILE ||
	    host_load_relaxed(&f->generation) != fds_generation(slot))
		return NULL;
	return f;
}

static bool map_lock(struct fds_hold *hold, bool wait)
{
	return shim.map.state && fds_lock(&shim.map.state->fds, hold, wait);
}

static void map_unlock(const struct fds_hold *hold)
{
	fds_unlock(&shim.map.state->fds, hold);
}

/* File systems whose read(2) and mmap(2) both go by the page cache of this machine alone.
 * Elsewhere a mapping may have effects: ask a server, take huge pages, reach a device. */
static bool file_system_fits(int fd)
{
	static const u64 fit[] = {
		EXT4_MAGIC,  XFS_MAGIC,   BTRFS_MAGIC,    TMPFS_MAGIC, OVERLAY_MAGIC,
		F2FS_MAGIC,  RAMFS_MAGIC, SQUASHFS_MAGIC, EROFS_MAGIC, ISOFS_MAGIC,
		MSDOS_MAGIC, JFS_MAGIC,   BCACHEFS_MAGIC,
	};
	u64 kind;

	if (port_file_system(fd, &kind) != 0)
		return false;
	for (size_t i = 0; i < sizeof(fit) / sizeof(fit[0]); i++)
		if (kind == fit[i])
			return true;
	return false;
}

/* Judges what the open descriptor shows. true: its file may be mapped one day. */
static bool descriptor_fits(int fd, const struct port_file *is, enum map_skip *ret_skip)
{
	unsigned int mode = PORT_MAY_WRITE;

	port_mode(fd, &mode);
	if (is->kind != PORT_FILE_REGULAR)
		*ret_skip = MAP_NOT_REGULAR;
	else if (mode & PORT_MAY_WRITE)
		*ret_skip = MAP_WRITABLE;
	else if (mode & PORT_DIRECT)
		*ret_skip = MAP_DIRECT;
	else if (is->bytes == 0)
		*ret_skip = MAP_TOO_SMALL;
	else if (!file_system_fits(fd))
		*ret_skip = MAP_FILE_SYSTEM;
	else if (!map_options_want(fd))
		*ret_skip = MAP_EXCLUDED;
	else if (fds_address_space_limited())
		*ret_skip = MAP_LIMITED;
	else
		return true;
	return false;
}

static void file_start(struct map_file *f, const struct port_file *is)
{
	if (f->address)
		map_pages_unmap(f);
	host_store_relaxed(&f->generation, ++shim.map.state->last_generation);
	f->dev = is->dev;
	f->ino = is->ino;
	f->seen_mapped = 0;
	host_store_relaxed(&f->bytes, is->bytes);
	map_pages_prove(f);
}

/* The entry of this file: its own, else one that it takes over. It takes a free one
 * first, then that of the file read least. Last comes a mapping that no read has visited
 * since the last search. NULL: its set is full of files in use. */
static struct map_file *file_find(const struct port_file *is)
{
	u64 hash = (is->ino ^ is->dev << 32) * UINT64_C(0x9e3779b97f4a7c15);
	struct map_file *set =
		&shim.map.state->files[(hash >> 32) % MAP_SETS * MAP_SET_FILES];
	struct map_file *least = NULL;

	for (u32 i = 0; i < MAP_SET_FILES; i++) {
		struct map_file *f = &set[i];
		u64 reads = f->generation ? host_load_relaxed(&f->reads) : 0;

		if (f->generation && f->dev == is->dev && f->ino == is->ino)
			return f;
		if (f->address) {
			if (host_load_relaxed(&f->visited))
				continue;
			reads = MAP_NOWHERE - 1; /* any other entry goes first */
		}
		if (!least ||
		    (least->generation && (!f->generation || reads < least->reads)))
			least = f;
	}
	if (least)
		file_start(least, is);
	else
		for (u32 i = 0; i < MAP_SET_FILES; i++)
			host_store_relaxed(&set[i].visited, 0);
	return least;
}

static void skip(int fd, enum map_skip why)
{
	shim.map.state->skips[why]++;
	host_store_relaxed(&shim.map.state->fds.slots[fd], FDS_SKIP);
}

/* Looks at what is behind fd now, and fills its slot. */
static struct map_file *descriptor_look(int fd)
{
	struct map_state *s = shim.map.state;
	u64 before = host_load_relaxed(&s->fds.slots[fd]);
	enum map_skip why = MAP_TABLE_FULL;
	struct map_file *f = NULL;
	struct port_file is;
	struct fds_hold hold;

	if (!map_lock(&hold, false))
		return NULL;
	fds_saw(&s->fds, fd);
	if (s->off || port_look(fd, &is) != 0)
		goto out;
	if (descriptor_fits(fd, &is, &why))
		f = file_find(&is);
	if (!f) {
		/* Counted once, not at each look. */
		if ((before & FDS_KIND) != FDS_SKIP)
			skip(fd, why);
		goto out;
	}
	/* The file has grown beyond its mapping: begin again. A file that has shrunk
	 * costs nothing. */
	if (f->address && is.bytes > f->nr_pages << MAP_PAGE_SHIFT)
		map_pages_unmap(f);
	host_store_relaxed(&f->bytes, is.bytes);
	host_store_relaxed(&s->fds.slots[fd], slot_of(f));
out:
	map_unlock(&hold);
	return f;
}

/* Where a read() of n bytes that has just returned began. If another thread has moved the
 * offset meanwhile, the answer is still a place in the file. */
static u64 read_began(int fd, u64 n)
{
	int error = errno;
	int64_t at = port_position(fd);

	errno = error;
	return at < (int64_t)n ? 0 : (u64)at - n;
}

static bool read_jumped(struct map_file *f, int fd, u64 read_bytes)
{
	u64 first = host_load_relaxed(&f->first);
	u64 moved = read_began(fd, 0) - first;
	u64 differs = moved > read_bytes ? moved - read_bytes : read_bytes - moved;

	return first == MAP_NOWHERE || differs > read_bytes / 2;
}

/* Counts a read of a file that is not mapped. true: the file should be mapped now. */
static bool file_is_due(struct map_file *f, int fd, u64 n, int64_t offset)
{
	u64 reads = host_fetch_add(&f->reads, 1) + 1;
	u64 bytes = host_fetch_add(&f->read_bytes, n) + n;
	u64 jumps = host_load_relaxed(&f->jumps);

	if (offset >= 0) {
		if (host_load_relaxed(&f->next) != (u64)offset)
			jumps = host_fetch_add(&f->jumps, 1) + 1;
		host_store_relaxed(&f->next, (u64)offset + n);
	} else if (host_load_relaxed(&f->first) == MAP_NOWHERE) {
		host_store_relaxed(&f->first, read_began(fd, n));
	}
	if (reads < shim.map.options.min_reads)
		return false;
	if (bytes > host_load_relaxed(&f->bytes) || jumps >= shim.map.options.min_reads)
		return true;
	if (offset >= 0 || reads < host_load_relaxed(&f->look_again))
		return false;
	host_store_relaxed(&f->look_again, 2 * reads);
	return read_jumped(f, fd, bytes);
}

/* Maps a file that is due. The function looks at the descriptor once more, so that it maps
 * what is open there now. */
static void file_map(struct map_file *f, int fd)
{
	struct map_state *s = shim.map.state;
	struct port_file is;
	struct fds_hold hold;
	enum map_skip why;

	if (!map_lock(&hold, false))
		return;
	if (s->off || f->address || port_look(fd, &is) != 0)
		goto out;
	if (f->dev != is.dev || f->ino != is.ino || !descriptor_fits(fd, &is, &why)) {
		host_store_relaxed(&s->fds.slots[fd], 0);
		goto out;
	}
	host_store_relaxed(&f->bytes, is.bytes);
	if (map_pages_map(f, fd, &why)) {
		map_report_file("maps", fd, f);
	} else if (why == MAP_BUDGET_FULL) {
		s->skips[why]++;
		map_pages_prove(f); /* when it is due again there may be room */
	} else {
		skip(fd, why);
	}
out:
	map_unlock(&hold);
}

static void file_ask(struct map_file *f, u64 offset, u64 n)
{
	u64 generation = host_load_relaxed(&f->generation);
	struct fds_hold hold;

	if (!map_lock(&hold, false))
		return;
	if (f->address && f->generation == generation)
		map_pages_ask(f, offset, n);
	map_unlock(&hold);
}

/* After a read of a mapped file: marks it visited, and has ptes set for what was read,
 * unless they are there. again: the function believes no bit. */
static void file_visit(struct map_file *f, int fd, u64 n, int64_t offset, bool again)
{
	u64 at;

	if (!host_load_relaxed(&f->visited))
		host_store_relaxed(&f->visited, 1);
	if (host_load_relaxed(&f->pages_stand) && !again)
		return;
	at = offset >= 0 ? (u64)offset : read_began(fd, n);
	if (again || !map_pages_ready(f, at, n))
		file_ask(f, at, n);
}

void map_note(int fd, int64_t n, int64_t offset)
{
	struct map_state *s = shim.map.state;
	struct map_file *f;
	bool again;
	u64 slot;

	if (!s || n <= 0 || (u32)fd >= FDS_NR)
		return;
	slot = host_load_relaxed(&s->fds.slots[fd]);
	f = slot_file(slot);
	again = ++shim_thread.map_ticks % MAP_TICK_READS == 0;
	if (again || (!f && slot != FDS_SKIP))
		f = descriptor_look(fd);
	if (f && !host_load_relaxed(&f->address) && file_is_due(f, fd, (u64)n, offset))
		file_map(f, fd);
	if (!f || !host_load_relaxed(&f->address)) {
		map_count_read(false);
		return;
	}
	file_visit(f, fd, (u64)n, offset, again);
	map_count_read(true);
}

/* Unmaps the file behind fd; with made_from_it, only if the mapping was made from fd. */
static void unmap(struct map_file *f, int fd, bool made_from_it)
{
	struct fds_hold hold;

	if (!map_lock(&hold, true))
		return; /* a vfork() child closes a descriptor of its own */
	if (f->address && (f->fd == (u64)fd || !made_from_it)) {
		map_report_file("unmaps", fd, f);
		map_pages_unmap(f);
	}
	map_unlock(&hold);
}

void map_closing(int fd)
{
	struct map_state *s = shim.map.state;
	struct map_file *f;
	u64 slot;

	if (!s || (u32)fd >= FDS_NR)
		return;
	slot = host_load_relaxed(&s->fds.slots[fd]);
	if (slot == 0)
		return;
	f = slot_file(slot);
	if (f && host_load_relaxed(&f->address) && host_load_relaxed(&f->fd) == (u64)fd)
		unmap(f, fd, true);
	host_store_relaxed(&s->fds.slots[fd], 0);
}

void map_dropping(int fd)
{
	struct map_file *f;

	if (!shim.map.state || (u32)fd >= FDS_NR)
		return;
	f = slot_file(host_load_relaxed(&shim.map.state->fds.slots[fd]));
	if (f && host_load_relaxed(&f->address))
		unmap(f, fd, false);
}

void map_closing_from(unsigned int first, unsigned int last)
{
	u64 top = shim.map.state ? host_load_relaxed(&shim.map.state->fds.top) : 0;

	for (u64 fd = first; fd <= last && fd < top; fd++)
		map_closing((int)fd);
}

void map_stop(void)
{
	struct fds_hold hold;

	if (!map_lock(&hold, true))
		return;
	shim.map.state->off = 1;
	map_pages_unmap_all();
	map_unlock(&hold);
}

/* Unmaps everything, and writes the report. */
static void end(bool on_stderr_only)
{
	struct fds_hold hold;

	if (!map_lock(&hold, true))
		return;
	if (map_report_is_due(on_stderr_only)) {
		shim.map.state->off = !on_stderr_only;
		map_pages_unmap_all();
		map_report_end();
	}
	map_unlock(&hold);
}

void map_end(void)
{
	end(false);
}

void map_stderr_closing(void)
{
	end(true);
}

void map_start(void)
{
	struct map_state *s;

	if (!map_options_read() || go_in_process())
		return;
	s = fds_state(sizeof(*s), NULL);
	if (!s)
		return;
	line_start();
	shim.map.state = s;
}
