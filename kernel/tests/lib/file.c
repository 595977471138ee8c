// SPDX-License-Identifier: GPL-2.0
#include "file.h"
#include "clock.h"
#include "ktap.h"
#include "text.h"

#include <linux/kernel-page-flags.h>

#define MOVABLE_MOST 1024

int file_make(const char *path, const u8 *expect, size_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	size_t at, n;
	int err = 0;

	if (fd < 0)
		return -errno;
	/* In pieces: a folio of 2 MiB could be mapped whole, without entries for pages. */
	for (at = 0; at < bytes && !err; at += n) {
		n = bytes - at < 16 * PAGE ? bytes - at : 16 * PAGE;
		if (pwrite(fd, expect + at, n, at) != (ssize_t)n)
			err = errno ? -errno : -EIO;
	}
	if (!err && fsync(fd))
		err = -errno;
	/* Pages that are read in anew have no buffers that hold them as well. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
	return err;
}

/* Pages of the file in the page cache, or -1 when the kernel does not say. */
static long file_resident(int fd)
{
	static unsigned char present[8192];
	struct stat st;
	size_t pages, i;
	long nr = 0;
	void *map;

	if (fstat(fd, &st) || !st.st_size)
		return -1;
	pages = (st.st_size + PAGE - 1) / PAGE;
	map = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED || pages > sizeof(present))
		return -1;
	if (mincore(map, st.st_size, present))
		nr = -1;
	for (i = 0; nr >= 0 && i < pages; i++)
		nr += present[i] & 1;
	munmap(map, st.st_size);
	return nr;
}

void file_check_evictable(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	long left = -1;
	u32 tries;

	if (fd < 0) {
		ktap_fail("open %s: %s", path, strerror(errno));
		return;
	}
	/* Write-back and other processors' batches hold pages for a moment. */
	for (tries = 0; tries < 20; tries++) {
		fsync(fd);
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		left = file_resident(fd);
		if (left <= 0)
			break;
		clock_sleep_ms(50);
	}
	if (left < 0)
		ktap_diag("mincore: %s; resident pages not looked at", strerror(errno));
	if (left > 0)
		ktap_fail("%ld pages of %s resident after fadvise(DONTNEED)", left,
		          path);
	close(fd);
}

long file_move_pages(int pid, unsigned long nr, void **pages, const int *nodes,
                     int *status, int flags)
{
	return syscall(SYS_move_pages, pid, nr, pages, nodes, status, flags);
}

/*
 * The same question for a file system without a disk. A page moves to another node only if
 * its reference count is what its mappings and the page cache make it. Returns pages that do
 * not move, or -1 when this machine has one node or the file too many pages.
 */
static long file_stuck_pages(const char *path, size_t bytes)
{
	static void *pages[MOVABLE_MOST];
	static int nodes[MOVABLE_MOST], status[MOVABLE_MOST];
	u32 nr = bytes / PAGE, i, tries;
	long stuck = -1;
	int fd = nr > MOVABLE_MOST ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	char *map;

	if (fd < 0)
		return -1;
	map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED || madvise(map, bytes, MADV_POPULATE_READ))
		return -1;
	for (i = 0; i < nr; i++)
		pages[i] = map + i * PAGE;
	for (tries = 0; tries < 10; tries++) {
		u32 to = tries % 2;

		for (i = 0; i < nr; i++)
			nodes[i] = to;
		if (file_move_pages(0, nr, pages, nodes, status, MOVE_ALL) < 0)
			break; /* one node, or no such call */
		file_move_pages(0, nr, pages, NULL, status, MOVE_ALL);
		for (stuck = 0, i = 0; i < nr; i++)
			stuck += status[i] != (int)to;
		if (!stuck && tries)
			break;
	}
	munmap(map, bytes);
	return stuck;
}

void file_check_exact(const struct test_fs *fs, const char *path, size_t bytes)
{
	long stuck;

	if (strcmp(fs->kind, "tmpfs")) {
		file_check_evictable(path);
		return;
	}
	stuck = file_stuck_pages(path, bytes);
	if (stuck < 0)
		ktap_diag("tmpfs: pages' counts not looked at (one node)");
	if (stuck > 0)
		ktap_fail("%ld pages of %s do not move to another node", stuck, path);
}

/* The entry of /proc/self/pagemap for an address; 0: no page is present. */
static u64 file_pagemap(const char *at)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	u64 entry = 0;

	if (pread(pagemap, &entry, 8, (uintptr_t)at / PAGE * 8) != 8 || !(entry & 1ull << 63))
		entry = 0;
	close(pagemap);
	return entry;
}

u64 file_frame(const char *at)
{
	return file_pagemap(at) & ((1ull << 55) - 1);
}

/* The flags of the page at an address, as /proc/kpageflags has them; 0: none are told. */
static u64 file_page_flags(int flags, const char *at)
{
	u64 frame = file_frame(at), found = 0;

	return frame && pread(flags, &found, 8, frame * 8) == 8 ? found : 0;
}

void file_split(const char *path, size_t bytes)
{
	char text[220];

	snprintf(text, sizeof(text), "%s,0x0,0x%lx", path, bytes / PAGE);
	text_write("/sys/kernel/debug/split_huge_pages", text);
}

bool file_present(const char *at)
{
	return file_pagemap(at);
}

void file_check_large(const char *map, u32 nr)
{
	const u64 compound = 1ull << KPF_COMPOUND_HEAD | 1ull << KPF_COMPOUND_TAIL;
	int flags = open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);
	u32 large = 0, i;

	for (i = 0; i < nr; i++)
		large += !!(file_page_flags(flags, map + i * PAGE) & compound);
	if (flags < 0)
		ktap_diag("no /proc/kpageflags: folios' sizes not looked at");
	else if (large != nr)
		ktap_fail("%u of %u pages are of large folios: shows nothing", large,
		          nr);
	close(flags);
}

void *file_map(int fd, size_t bytes, int prot, int flags)
{
	void *p = mmap(NULL, bytes, prot, flags, fd, 0);

	if (p == MAP_FAILED || madvise(p, bytes, MADV_POPULATE_READ))
		ktap_bail("mapping the file");
	return p;
}
