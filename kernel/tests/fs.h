/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Test file systems and the files on them. A file's bytes are a function of their offset,
 * so that every read can be checked wherever it was, byte by byte. Zeros may stand for data
 * only where the test itself truncates or punches holes.
 */
#ifndef LODIC_TESTS_FS_H
#define LODIC_TESTS_FS_H

#include "lib.h"

#include <linux/falloc.h>
#include <signal.h>
#include <sys/prctl.h>

struct test_fs {
	const char *kind;
	char dir[100];
	bool mounted_here;
};

static const char *fs_device(const char *kind)
{
	if (!strcmp(kind, "ext4"))
		return "/dev/vda";
	if (!strcmp(kind, "xfs"))
		return "/dev/vdb";
	return "none";
}

/* Where the device is mounted already. */
static bool fs_find_mount(const char *device, char *ret_dir, size_t bytes)
{
	FILE *f = fopen("/proc/mounts", "re");
	char line[512], dev[128], dir[100];
	bool found = false;

	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f)) {
		found = sscanf(line, "%127s %99s", dev, dir) == 2 &&
		        !strcmp(dev, device);
		if (found)
			snprintf(ret_dir, bytes, "%s", dir);
	}
	fclose(f);
	return found;
}

/*
 * Mounts the test file system of that kind, fresh for tmpfs; -d DIR: uses DIR for all.
 * -errno: it cannot be had here.
 */
static unused int fs_mount(const char *kind, struct test_fs *ret_fs)
{
	struct test_fs fs = { .kind = kind };
	const char *device = fs_device(kind);

	if (opt.dir) {
		snprintf(fs.dir, sizeof(fs.dir), "%s", opt.dir);
		*ret_fs = fs;
		return 0;
	}
	if (strcmp(kind, "tmpfs") && fs_find_mount(device, fs.dir, sizeof(fs.dir))) {
		*ret_fs = fs;
		return 0;
	}
	snprintf(fs.dir, sizeof(fs.dir), "/tmp/lodic-%s", kind);
	if (mkdir(fs.dir, 0755) && errno != EEXIST)
		return -errno;
	if (mount(device, fs.dir, kind, 0, NULL))
		return -errno;
	fs.mounted_here = true;
	*ret_fs = fs;
	return 0;
}

/* Unmounts; a file system that stays busy is a failure of the present subtest. */
static unused void fs_umount(struct test_fs *fs)
{
	u32 tries;

	sync();
	if (!fs->mounted_here)
		return;
	/* The last close of a killed reader may still be under way. */
	for (tries = 0; tries < 50; tries++) {
		if (!umount2(fs->dir, 0)) {
			fs->mounted_here = false;
			return;
		}
		sleep_ms(100);
	}
	fail("umount %s: %s", fs->dir, strerror(errno));
}

/* -- data ------------------------------------------------------------------------------ */

static unused void data_fill(u8 *to, size_t bytes, u64 offset)
{
	size_t i;

	for (i = 0; i < bytes; i++) {
		u64 word = mix64((offset + i) / 8);

		to[i] = word >> (offset + i) % 8 * 8;
	}
}

/*
 * The expected bytes of a file's beginning, shared by all processes of a test, so that
 * the usual check is one memcmp().
 */
static unused u8 *data_expected(size_t bytes)
{
	u8 *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
	             -1, 0);

	if (p == MAP_FAILED)
		bail("no memory for expected data");
	data_fill(p, bytes, 0);
	mprotect(p, bytes, PROT_READ);
	return p;
}

/*
 * Compares what was read at offset with what is expected there. Returns the number of
 * bytes that are neither right nor, where zeros may be, 0; the first is at ret_at.
 * ret_zeros: bytes that are 0 and should not be.
 */
static unused size_t data_check(const u8 *got, const u8 *expect, size_t bytes,
                                bool zeros_ok, size_t *ret_at, size_t *ret_zeros)
{
	size_t i, bad = 0, zeros = 0;

	if (!memcmp(got, expect, bytes)) {
		*ret_zeros = 0;
		return 0;
	}
	for (i = 0; i < bytes; i++) {
		if (got[i] == expect[i])
			continue;
		if (got[i] == 0 && zeros_ok) {
			zeros++;
			continue;
		}
		if (!bad++)
			*ret_at = i;
	}
	*ret_zeros = zeros;
	return bad;
}

/* Makes the file anew with its bytes, on disk. Returns 0 or -errno. */
static unused int file_make(const char *path, const u8 *expect, size_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	size_t at, n;
	int err = 0;

	if (fd < 0)
		return -errno;
	/* In pieces: a folio that one table's entry could map whole has no page entries. */
	for (at = 0; at < bytes && !err; at += n) {
		n = bytes - at < 16 * PAGE ? bytes - at : 16 * PAGE;
		if (pwrite(fd, expect + at, n, at) != (ssize_t)n)
			err = errno ? -errno : -EIO;
	}
	if (!err && fsync(fd))
		err = -errno;
	/* Read in anew, pages have no buffers that hold them as well. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
	return err;
}

/* Pages of the file in the page cache, or -1 when the kernel does not say. */
static unused long file_resident(int fd)
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

/*
 * A file that nobody maps or reads leaves the page cache when asked to: each page's
 * reference count is exact. tmpfs keeps its pages; see pages_movable().
 */
static unused void file_check_evictable(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	long left = -1;
	u32 tries;

	if (fd < 0) {
		fail("open %s: %s", path, strerror(errno));
		return;
	}
	/* Write-back and other processors' batches hold pages for a moment. */
	for (tries = 0; tries < 20; tries++) {
		fsync(fd);
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		left = file_resident(fd);
		if (left <= 0)
			break;
		sleep_ms(50);
	}
	if (left < 0)
		diag("mincore: %s; resident pages not looked at", strerror(errno));
	if (left > 0)
		fail("%ld pages of %s resident after fadvise(DONTNEED)", left, path);
	close(fd);
}

static unused long move_pages_raw(int pid, unsigned long nr, void **pages,
                                  const int *nodes, int *status, int flags)
{
	return syscall(SYS_move_pages, pid, nr, pages, nodes, status, flags);
}

#define MOVE_ALL 4 /* MPOL_MF_MOVE_ALL: pages that others map too */
#define MOVABLE_MOST 1024

/*
 * The same for a file system without a disk: a page moves to another node only when its
 * reference count is what its mappings and the page cache make it. Returns pages that do
 * not move, or -1 when this machine has one node or the file too many pages.
 */
static unused long pages_movable(const char *path, size_t bytes)
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
		if (move_pages_raw(0, nr, pages, nodes, status, MOVE_ALL) < 0)
			break; /* one node, or no such call */
		move_pages_raw(0, nr, pages, NULL, status, MOVE_ALL);
		for (stuck = 0, i = 0; i < nr; i++)
			stuck += status[i] != (int)to;
		if (!stuck && tries)
			break;
	}
	munmap(map, bytes);
	return stuck;
}

/* Nothing holds a page of the file that should not. */
static unused void file_check_exact(const struct test_fs *fs, const char *path,
                                    size_t bytes)
{
	long stuck;

	if (strcmp(fs->kind, "tmpfs")) {
		file_check_evictable(path);
		return;
	}
	stuck = pages_movable(path, bytes);
	if (stuck < 0)
		diag("tmpfs: pages' counts not looked at (one node)");
	if (stuck > 0)
		fail("%ld pages of %s do not move to another node", stuck, path);
}

/* A file's first bytes, with all their entries. */
static unused void *map_populated(int fd, size_t bytes, int prot, int flags)
{
	void *p = mmap(NULL, bytes, prot, flags, fd, 0);

	if (p == MAP_FAILED || madvise(p, bytes, MADV_POPULATE_READ))
		bail("mapping the file");
	return p;
}

/* A process that maps the file so, and waits to be killed; it does when this returns. */
static unused pid_t mapper_start(int fd, size_t bytes)
{
	int pipes[2];
	char c;
	pid_t pid;

	if (pipe(pipes))
		bail("pipe");
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		bail("fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		map_populated(fd, bytes, PROT_READ, MAP_SHARED);
		if (write(pipes[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(pipes[1]);
	if (read(pipes[0], &c, 1) != 1)
		bail("a mapper did not start");
	close(pipes[0]);
	return pid;
}

#endif
