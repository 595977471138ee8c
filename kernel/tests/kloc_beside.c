// SPDX-License-Identifier: GPL-2.0
/*
 * KLOC moves files to and fro while everything else goes on with them: reads, writes, truncation,
 * deletion, renames, holes, mappings, fork, O_DIRECT, write-back, move_pages(2), reclaim. Four
 * processes open and close them all the time, so passes begin and are cancelled throughout.
 *
 * Each byte of a file is what its offset says, or 0 where a hole was. In the
 * end every open has had its close, both directions were gone, and the data is right.
 */
#include "kloc.h"
#include "memcg.h"
#include "test.h"

#include <linux/falloc.h>

#define BYTES (1ul << 20)
#define PAGES (BYTES / PAGE)
#define NR_FILES 3
#define NR_WORKERS 4
#define SECONDS 15

struct worker {
	u8 *buf; /* aligned to pages */
	u64 rng;
	char path[200];
	const char *dir;
};

static u8 *expect;
static bool switches; /* kloc goes off and on meanwhile */
static u32 nr_switched;

static void check(struct worker *w, const u8 *got, u64 at, ssize_t n, const char *how)
{
	size_t where = 0, zeros = 0;

	if (n > 0 && data_check(got, expect + at, n, true, &where, &zeros)) {
		fprintf(stderr, "# %s of %s: byte %llu is 0x%02x\n", how, w->path,
		        (unsigned long long)at + where, got[where]);
		_exit(3);
	}
}

static u64 some(struct worker *w, u64 n)
{
	return random_next(&w->rng) % n;
}

static void op_read(struct worker *w, int fd)
{
	check(w, w->buf, 0, pread(fd, w->buf, BYTES, 0), "read");
}

static void op_write(struct worker *w, int fd)
{
	u64 at = some(w, BYTES), n = 1 + some(w, BYTES - at);

	if (pwrite(fd, expect + at, n, at) < 0)
		perror("# write");
}

static void op_fill(struct worker *w, int fd)
{
	(void)w;
	if (pwrite(fd, expect, BYTES, 0) < 0)
		perror("# write");
}

static void op_truncate(struct worker *w, int fd)
{
	if (ftruncate(fd, some(w, BYTES)) || ftruncate(fd, BYTES))
		perror("# truncate");
}

static void op_punch(struct worker *w, int fd)
{
	u64 at = some(w, BYTES);

	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at,
	              1 + some(w, BYTES - at)))
		perror("# punch");
}

static void op_unlink(struct worker *w, int fd)
{
	unlink(w->path);
	op_read(w, fd);
}

static void op_rename(struct worker *w, int fd)
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
static void op_map(struct worker *w, int fd)
{
	pid_t pid = fork();
	u8 *map;

	if (!pid) {
		map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (map == MAP_FAILED)
			_exit(0);
		check(w, map, 0, BYTES, "map");
		memcpy(map + BYTES / 2, expect + BYTES / 2, PAGE);
		msync(map, BYTES, MS_ASYNC);
		_exit(0);
	}
	if (pid > 0) {
		int status;

		waitpid(pid, &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status))
			_exit(3);
	}
}

static void op_direct(struct worker *w, int fd)
{
	int direct = open(w->path, O_RDONLY | O_DIRECT | O_CLOEXEC);

	(void)fd;
	if (direct < 0)
		return;
	check(w, w->buf, 0, pread(direct, w->buf, BYTES / 2, 0), "O_DIRECT");
	close(direct);
}

static void op_sync(struct worker *w, int fd)
{
	if (some(w, 2))
		fsync(fd);
	else
		sync_file_range(fd, 0, BYTES, SYNC_FILE_RANGE_WRITE);
	if (some(w, 2))
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

static void op_move(struct worker *w, int fd)
{
	int nodes[16], status[16], to = (int)some(w, 2), i;
	void *pages[16];
	pid_t pid = fork();

	if (!pid) {
		u8 *map = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);

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

static void (*const ops[])(struct worker *, int) = {
	op_read,   op_read,   op_write, op_fill,   op_truncate, op_punch,
	op_unlink, op_rename, op_map,   op_direct, op_sync,     op_move,
};

static void work(u32 i)
{
	static const char *const dirs[] = { "/mnt/ext4", "/mnt/xfs" };
	struct worker w = { .rng = random_mix(opt.seed + i) };
	u32 j;

	w.buf = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (;;) {
		int fd;

		w.dir = dirs[some(&w, NR(dirs))];
		snprintf(w.path, sizeof(w.path), "%s/beside-%u", w.dir, (u32)some(&w, NR_FILES));
		fd = open(w.path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
		if (fd < 0)
			_exit(2);
		for (j = some(&w, 3) + 1; j; j--)
			ops[some(&w, NR(ops))](&w, fd);
		close(fd);
	}
}

/* What the administrator does meanwhile. */
static void disturb(u32 round)
{
	kloc_set("promote", round & 1 ? "1" : "0");
	kloc_set("memsize", round % 8 == 7 ? "0 1M" : "0 max");
	kloc_set("policy", round % 16 == 15 ? "naive" : "kloc");
	kloc_tick(1);
	/* QEMU cannot do that with a thread for each processor: boot/one-thread.args. */
	if (round % 32 == 31 && switches) {
		kloc_set("enabled", "0");
		kloc_set("enabled", "1");
		nr_switched++;
	}
	if (round % 8 == 3)
		text_write("/sys/fs/cgroup/lodic-test/memory.reclaim", "1M");
	clock_sleep_ms(20);
}

static void run(void)
{
	long long opens = kloc_stat("opens") - kloc_stat("closes");
	long long demoted = kloc_stat("demoted"), promoted = kloc_stat("promoted");
	u64 end = clock_now_ns() + opt.seconds * 1000000000ull;
	pid_t pids[NR_WORKERS];
	u32 i, round;
	int status;

	for (i = 0; i < NR_WORKERS; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			memcg_enter();
			work(i);
		}
	}
	for (round = 0; clock_now_ns() < end; round++) {
		disturb(round);
		for (i = 0; i < NR_WORKERS; i++)
			if (pids[i] && waitpid(pids[i], &status, WNOHANG)) {
				ktap_fail("worker %u ended: 0x%x", i, status);
				pids[i] = 0;
			}
	}
	for (i = 0; i < NR_WORKERS; i++) {
		if (!pids[i])
			continue;
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	kloc_wait();
	ktap_diag("%u rounds: %lld pages demoted, %lld promoted, %lld passes cancelled, %lld busy",
	          round, kloc_stat("demoted") - demoted, kloc_stat("promoted") - promoted,
	          kloc_stat("cancelled"), kloc_stat("busy"));
	/* A child that was killed with its parent may be about to close. */
	for (i = 0; i < 50 && kloc_stat("opens") - kloc_stat("closes") != opens; i++)
		clock_sleep_ms(100);
	if (kloc_stat("opens") - kloc_stat("closes") != opens)
		ktap_fail("%lld opens more than closes, %lld before",
		          kloc_stat("opens") - kloc_stat("closes"), opens);
	if (kloc_stat("demoted") == demoted || kloc_stat("promoted") == promoted)
		ktap_fail("nothing was demoted, or nothing promoted");
}

static void finish(const char *dir)
{
	char path[200];
	u32 i;

	for (i = 0; i < NR_FILES; i++) {
		struct worker w = { .buf = malloc(BYTES) };
		int fd;

		snprintf(path, sizeof(path), "%s/beside-%u", dir, i);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
		snprintf(w.path, sizeof(w.path), "%s", path);
		op_fill(&w, fd);
		if (pread(fd, w.buf, BYTES, 0) != (ssize_t)BYTES || memcmp(w.buf, expect, BYTES))
			ktap_fail("%s has other bytes", path);
		close(fd);
		kloc_wait();
		file_check_evictable(path);
		unlink(path);
		free(w.buf);
	}
}

int main(int argc, char **argv)
{
	int klog;

	opt.seconds = SECONDS;
	options_parse(argc, argv);
	if (!kloc_there()) {
		printf("1..0 # SKIP no KLOC, or no node of memory alone\n");
		return KTAP_SKIPPED;
	}
	ktap_plan(1);
	klog = klog_open();
	expect = data_expected(BYTES);
	switches = text_has_word("/proc/cmdline", "lodic.one_thread");
	kloc_reset();
	kloc_set("tick_ms", "50");
	kloc_set("age_limit", "3");
	memcg_make();
	run();
	kloc_reset();
	finish("/mnt/ext4");
	finish("/mnt/xfs");
	memcg_remove();
	if (switches && !nr_switched)
		ktap_fail("kloc was never switched off");
	klog_check(klog);
	ktap_result("beside");
	kloc_set("enabled", "0");
	return ktap_end();
}
