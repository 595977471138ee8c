// SPDX-License-Identifier: GPL-2.0
#include "kloc_work.h"
#include "data.h"
#include "file.h"
#include "kloc.h"
#include "ktap.h"
#include "options.h"
#include "random.h"

#include <glob.h>
#include <linux/falloc.h>

const u8 *kloc_expected;

void kloc_check(struct kloc_worker *w, const u8 *got, u64 at, ssize_t n, const char *how)
{
	size_t where = 0, zeros = 0;

	if (n > 0 && data_check(got, kloc_expected + at, n, true, &where, &zeros)) {
		fprintf(stderr, "# %s of %s: byte %llu is 0x%02x\n", how, w->path,
		        (unsigned long long)at + where, got[where]);
		_exit(3);
	}
}

static u64 some(struct kloc_worker *w, u64 n)
{
	return random_next(&w->rng) % n;
}

static void op_read(struct kloc_worker *w, int fd)
{
	kloc_check(w, w->buf, 0, pread(fd, w->buf, KLOC_BYTES, 0), "read");
}

static void op_write(struct kloc_worker *w, int fd)
{
	u64 at = some(w, KLOC_BYTES), n = 1 + some(w, KLOC_BYTES - at);

	if (pwrite(fd, kloc_expected + at, n, at) < 0)
		perror("# write");
}

static void op_fill(struct kloc_worker *w, int fd)
{
	(void)w;
	if (pwrite(fd, kloc_expected, KLOC_BYTES, 0) < 0)
		perror("# write");
}

static void op_truncate(struct kloc_worker *w, int fd)
{
	if (ftruncate(fd, some(w, KLOC_BYTES)) || ftruncate(fd, KLOC_BYTES))
		perror("# truncate");
}

static void op_punch(struct kloc_worker *w, int fd)
{
	u64 at = some(w, KLOC_BYTES);

	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at,
	              1 + some(w, KLOC_BYTES - at)))
		perror("# punch");
}

static void op_unlink(struct kloc_worker *w, int fd)
{
	unlink(w->path);
	op_read(w, fd);
}

static void op_rename(struct kloc_worker *w, int fd)
{
	char other[220];
	int new_fd;

	snprintf(other, sizeof(other), "%s.%d", w->path, (int)getpid());
	new_fd = open(other, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (new_fd < 0)
		return;
	op_fill(w, new_fd);
	close(new_fd);
	if (rename(other, w->path))
		perror("# rename");
	op_read(w, fd);
}

/*
 * The file may shrink under the mapping, which is a signal; a child takes it. It leaves by _exit(),
 * so that closes are its parent's alone.
 */
static void op_map(struct kloc_worker *w, int fd)
{
	pid_t pid = fork();
	u8 *map;

	if (!pid) {
		map = mmap(NULL, KLOC_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (map == MAP_FAILED)
			_exit(0);
		kloc_check(w, map, 0, KLOC_BYTES, "map");
		memcpy(map + KLOC_BYTES / 2, kloc_expected + KLOC_BYTES / 2, PAGE);
		msync(map, KLOC_BYTES, MS_ASYNC);
		_exit(0);
	}
	if (pid > 0) {
		int status;

		waitpid(pid, &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status))
			_exit(3);
	}
}

static void op_direct(struct kloc_worker *w, int fd)
{
	int direct = open(w->path, O_RDONLY | O_DIRECT | O_CLOEXEC);

	(void)fd;
	if (direct < 0)
		return;
	kloc_check(w, w->buf, 0, pread(direct, w->buf, KLOC_BYTES / 2, 0), "O_DIRECT");
	close(direct);
}

static void op_sync(struct kloc_worker *w, int fd)
{
	if (some(w, 2))
		fsync(fd);
	else
		sync_file_range(fd, 0, KLOC_BYTES, SYNC_FILE_RANGE_WRITE);
	if (some(w, 2))
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

static void op_move(struct kloc_worker *w, int fd)
{
	int nodes[16], status[16], to = (int)some(w, 2), i;
	void *pages[16];
	pid_t pid = fork();

	if (!pid) {
		u8 *map = mmap(NULL, KLOC_BYTES, PROT_READ, MAP_SHARED, fd, 0);

		for (i = 0; map != MAP_FAILED && i < 16; i++) {
			pages[i] = map + i * PAGE;
			*(volatile u8 *)pages[i];
			nodes[i] = to;
		}
		if (map != MAP_FAILED)
			file_move_pages(0, 16, pages, nodes, status, 2);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void (*const ops[])(struct kloc_worker *, int) = {
	op_read,   op_read,   op_write, op_fill,   op_truncate, op_punch,
	op_unlink, op_rename, op_map,   op_direct, op_sync,     op_move,
};

void kloc_worker_make(struct kloc_worker *w, u32 i)
{
	*w = (struct kloc_worker){ .rng = random_mix(opt.seed + i) };
	w->buf = mmap(NULL, KLOC_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
	              0);
	if (w->buf == MAP_FAILED)
		_exit(2);
}

void kloc_work(struct kloc_worker *w, const char *dir)
{
	int fd;
	u32 j;

	snprintf(w->path, sizeof(w->path), "%s/beside-%u", dir, (u32)some(w, KLOC_FILES));
	fd = open(w->path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		_exit(2);
	for (j = some(w, 3) + 1; j; j--)
		ops[some(w, NR(ops))](w, fd);
	close(fd);
}

/* A worker that was killed before its rename() has left the new file. */
static void unlink_others(const char *dir)
{
	char pattern[200];
	glob_t found;
	size_t i;

	snprintf(pattern, sizeof(pattern), "%s/beside-*.*", dir);
	if (glob(pattern, 0, NULL, &found))
		return;
	for (i = 0; i < found.gl_pathc; i++)
		unlink(found.gl_pathv[i]);
	globfree(&found);
}

void kloc_work_end(const char *dir)
{
	u8 *buf = malloc(KLOC_BYTES);
	char path[200];
	u32 i;

	unlink_others(dir);
	for (i = 0; i < KLOC_FILES; i++) {
		int fd;

		snprintf(path, sizeof(path), "%s/beside-%u", dir, i);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
		if (pwrite(fd, kloc_expected, KLOC_BYTES, 0) != (ssize_t)KLOC_BYTES ||
		    pread(fd, buf, KLOC_BYTES, 0) != (ssize_t)KLOC_BYTES ||
		    memcmp(buf, kloc_expected, KLOC_BYTES))
			ktap_fail("%s has other bytes", path);
		close(fd);
		kloc_wait();
		file_check_evictable(path);
		unlink(path);
	}
	free(buf);
}
