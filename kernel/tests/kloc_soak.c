// SPDX-License-Identifier: GPL-2.0
/*
 * Moves 10^6 folios under readers, opens and closes from all processors. The files are on ext4, in
 * which each folio is a page, so the counters of pages say folios. Each worker has a part of the
 * files open, maps and reads them, and opens or closes one after each read. What nobody has open
 * goes down, and comes up at the next open: the threads that move are never out of work.
 */
#include "kloc.h"
#include "kloc_work.h"
#include "test.h"

#define TARGET 1000000
#define SECONDS 240
#define DIR "/mnt/ext4"
#define NR_FILES 24
#define NR_WORKERS 4
#define PIECE (4 * PAGE)

static void soak_name(char *path, size_t bytes, u32 i)
{
	snprintf(path, bytes, DIR "/soak-%u", i);
}

/* A read or a write of a piece of an open file, or a look at it by a mapping. */
static void soak_use(struct kloc_worker *w, int fd)
{
	u64 at = random_next(&w->rng) % (KLOC_BYTES - PIECE) & ~(PAGE - 1);
	u32 how = random_next(&w->rng) % 16;
	u8 *map;

	if (how == 0 && pwrite(fd, kloc_expected + at, PIECE, at) < 0)
		_exit(2);
	if (how == 1) {
		map = mmap(NULL, PIECE, PROT_READ, MAP_SHARED, fd, at);
		if (map == MAP_FAILED)
			_exit(2);
		kloc_check(w, map, at, PIECE, "map");
		munmap(map, PIECE);
	}
	kloc_check(w, w->buf, at, pread(fd, w->buf, PIECE, at), "read");
}

/* A worker has a file open for a quarter of the time, so a third of all are closed. */
static void soak_work(u32 i)
{
	struct kloc_worker w;
	int fds[NR_FILES];
	u32 n;

	cpu_pin(i);
	kloc_worker_make(&w, i);
	memset(fds, -1, sizeof(fds));
	for (;;) {
		n = random_next(&w.rng) % NR_FILES;
		soak_name(w.path, sizeof(w.path), n);
		if (fds[n] >= 0) {
			soak_use(&w, fds[n]);
			close(fds[n]);
			fds[n] = -1;
		} else if (random_next(&w.rng) % 3 == 0) {
			fds[n] = open(w.path, O_RDWR | O_CLOEXEC);
			if (fds[n] < 0)
				_exit(2);
			soak_use(&w, fds[n]);
		}
		if (random_next(&w.rng) % 256 == 0)
			kloc_work(&w, DIR);
		/* The thread that moves needs the processors, too. */
		clock_sleep_ms(8 + random_next(&w.rng) % 16);
	}
}

static long long soak_moved(void)
{
	return kloc_stat("demoted") + kloc_stat("promoted");
}

static void soak_watch(pid_t *pids, long long before)
{
	u64 began = clock_now_ns(), now;
	long long moved = 0;
	int status;
	u32 i, n;

	for (n = 1; moved < TARGET; n++) {
		clock_sleep_ms(1000);
		for (i = 0; i < NR_WORKERS; i++)
			if (waitpid(pids[i], &status, WNOHANG)) {
				ktap_fail("worker %u ended: 0x%x", i, status);
				pids[i] = 0;
				return;
			}
		moved = soak_moved() - before;
		now = clock_now_ns() - began;
		if (n % 30 == 0 || moved >= TARGET)
			ktap_diag("%llu s: %lld folios moved", (unsigned long long)now / 1000000000,
			          moved);
		if (now > opt.seconds * 1000000000ull)
			break;
	}
	if (moved < TARGET)
		ktap_fail("only %lld of %d folios moved", moved, TARGET);
}

static void soak(void)
{
	static const char *const names[] = { "opens",     "demoted", "promoted",
		                             "cancelled", "passes",  "busy" };
	long long was[NR(names)], open_before = kloc_open_now();
	pid_t pids[NR_WORKERS];
	char path[200];
	u32 i;

	for (i = 0; i < NR(names); i++)
		was[i] = kloc_stat(names[i]);
	for (i = 0; i < NR_WORKERS; i++) {
		pids[i] = fork();
		if (!pids[i])
			soak_work(i);
	}
	soak_watch(pids, soak_moved());
	for (i = 0; i < NR_WORKERS; i++) {
		if (pids[i] <= 0)
			continue;
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	kloc_set("promote", "0");
	kloc_wait();
	for (i = 0; i < NR(names); i++)
		ktap_diag("%s %lld", names[i], kloc_stat(names[i]) - was[i]);
	kloc_work_end(DIR);
	for (i = 0; i < NR_FILES; i++) {
		soak_name(path, sizeof(path), i);
		file_check_evictable(path);
	}
	kloc_check_sums(open_before);
}

int main(int argc, char **argv)
{
	char path[200];
	int klog;
	u32 i;

	opt.seconds = SECONDS;
	options_parse(argc, argv);
	if (!kloc_there()) {
		printf("1..0 # SKIP no KLOC, or no node of memory alone\n");
		return KTAP_SKIPPED;
	}
	ktap_plan(1);
	klog = klog_open();
	kloc_expected = data_expected(KLOC_BYTES);
	kloc_reset();
	kloc_set("tick_ms", "100");
	kloc_set("promote", "1");
	/* The counter against ping-pong would end it all. */
	kloc_set("ping_pong", "255");
	kloc_set("forgive", "1");
	for (i = 0; i < NR_FILES; i++) {
		soak_name(path, sizeof(path), i);
		if (file_make(path, kloc_expected, KLOC_BYTES))
			ktap_bail("%s", path);
	}
	soak();
	for (i = 0; i < NR_FILES; i++) {
		soak_name(path, sizeof(path), i);
		unlink(path);
	}
	klog_check(klog);
	ktap_result("soak");
	kloc_reset();
	kloc_set("enabled", "0");
	return ktap_end();
}
