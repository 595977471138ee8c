// SPDX-License-Identifier: GPL-2.0
/*
 * What becomes of code that waits for a folio's count while entries of PAYGO's tables hold the
 * folio, and threads read it all the time. Each case is one site of the table in
 * Documentation/mm/paygo.rst. The protocol's own cases are in paygo.c.
 */
#include "crowd.h"
#include "held.h"
#include "memcg.h"
#include "paygo.h"
#include "test.h"

#include <linux/falloc.h>

#define READERS 4
#define HOT_PAGES 8
#define CPU_ONLINE "/sys/devices/system/cpu/cpu3/online"
#define CPU_GOES 3
#define MEMCG_BYTES (24ul << 20)
#define BIG_BYTES (40ul << 20)
#define SMALL_BYTES (3ul << 20)
#define TABLE_PAGES 1024 /* twice as many as a processor has entries */

struct live_case {
	const char *name, *fs;
	void (*run)(void);
};

static const u8 *expect;
static struct test_fs *fs;
static char path[160];
static int file = -1;
static const char *cannot;
static struct paygo before;

static struct crowd readers_of(int fd, u32 pages)
{
	return (struct crowd){
		.fd = fd, .expect = expect, .threads = READERS, .pages = pages
	};
}

static void read_all(int fd, size_t bytes)
{
	static u8 to[16 * PAGE];
	u64 at;

	for (at = 0; at < bytes; at += sizeof(to)) {
		if (pread(fd, to, sizeof(to), at) != sizeof(to))
			ktap_fail("reading the file: %s", strerror(errno));
	}
}

/* Pages of the file in the page cache. */
static u32 resident(int fd, size_t bytes)
{
	static u8 present[BIG_BYTES / PAGE];
	u8 *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	u32 nr = 0, i;

	if (map == MAP_FAILED || mincore(map, bytes, present))
		ktap_bail("mincore");
	munmap(map, bytes);
	for (i = 0; i < bytes / PAGE; i++)
		nr += present[i] & 1;
	return nr;
}

/* Entries now, and how many were made since the case began. */
static void expect_entries(void)
{
	struct paygo p = paygo_since(&before);

	paygo_diag("so far", &p);
	if (!p.install || !p.held_bytes)
		ktap_fail("no entry was made: the case shows nothing");
}

/* -- who drains -------------------------------------------------------------------------- */

static void drop_caches(void)
{
	read_all(file, FILE_BYTES);
	expect_entries();
	text_write("/proc/sys/vm/drop_caches", "1");
	if (resident(file, FILE_BYTES))
		ktap_fail("%u pages stay", resident(file, FILE_BYTES));
}

static void fadvise(void)
{
	read_all(file, FILE_BYTES);
	expect_entries();
	posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
	if (resident(file, FILE_BYTES))
		ktap_fail("%u pages stay", resident(file, FILE_BYTES));
}

/* Entries hold folios, not the file system. */
static void umount_now(void)
{
	read_all(file, FILE_BYTES);
	expect_entries();
	close(file);
	file = -1;
	if (umount2(fs->dir, 0))
		ktap_fail("umount: %s", strerror(errno));
	else if (mount("/dev/vdb", fs->dir, "xfs", 0, NULL))
		ktap_bail("mounting xfs again");
	file = open(path, O_RDWR | O_CLOEXEC);
}

/* The pages that the readers read all the time move to the other node and back. */
static void move_pages(void)
{
	struct crowd c = readers_of(file, HOT_PAGES);
	char *map = file_map(file, HOT_PAGES * PAGE, PROT_READ, MAP_SHARED);
	void *pages[HOT_PAGES];
	int nodes[HOT_PAGES], status[HOT_PAGES];
	u32 i, to, tries, left = HOT_PAGES;

	crowd_start(&c);
	crowd_wait(&c, 200);
	expect_entries();
	for (to = 0; to < 2; to++) {
		for (tries = 0, left = HOT_PAGES; left && tries < 100; tries++) {
			for (i = 0; i < HOT_PAGES; i++) {
				pages[i] = map + i * PAGE;
				nodes[i] = to;
			}
			if (file_move_pages(0, HOT_PAGES, pages, nodes, status,
			                    MOVE_ALL) < 0)
				cannot = "one node";
			for (left = 0, i = 0; i < HOT_PAGES; i++)
				left += status[i] != (int)to;
		}
		ktap_diag("node %u: %u pages left after %u calls", to, left, tries);
		if (left && !cannot)
			ktap_fail("%u pages do not move to node %u", left, to);
	}
	crowd_stop(&c);
	munmap(map, HOT_PAGES * PAGE);
}

static void seal_write(void)
{
	int fd = memfd_create("paygo", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct crowd c = readers_of(fd, HOT_PAGES);
	u32 tries;
	int err = 0;

	if (fd < 0 || pwrite(fd, expect, HOT_PAGES * PAGE, 0) != HOT_PAGES * PAGE)
		ktap_bail("memfd");
	crowd_start(&c);
	crowd_wait(&c, 200);
	expect_entries();
	for (tries = 0; tries < 20; tries++) {
		err = fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) ? errno : 0;
		if (err != EBUSY)
			break;
	}
	crowd_stop(&c);
	ktap_diag("F_SEAL_WRITE: %s after %u tries", strerror(err), tries + 1);
	if (err)
		ktap_fail("F_SEAL_WRITE: %s", strerror(err));
	close(fd);
}

/* -- who needs no count ------------------------------------------------------------------ */

/* Readers see the old bytes or the new ones, and afterwards only the new ones. */
static void direct_write(void)
{
	int fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	struct crowd c = readers_of(file, HOT_PAGES);
	u8 *from = aligned_alloc(PAGE, PAGE), got[64];
	u32 i;

	if (fd < 0 || !from) {
		cannot = "no O_DIRECT";
		return;
	}
	c.zeros_ok = true;
	crowd_start(&c);
	crowd_wait(&c, 200);
	expect_entries();
	for (i = 0; i < 100 && !ktap_failing(); i++) {
		u32 at = i % HOT_PAGES * PAGE;
		bool zero = i / HOT_PAGES % 2 == 0;

		memcpy(from, expect + at, PAGE);
		if (zero)
			memset(from, 0, PAGE);
		if (pwrite(fd, from, PAGE, at) != (ssize_t)PAGE)
			ktap_fail("direct write: %s", strerror(errno));
		if (pread(file, got, sizeof(got), at) != sizeof(got) ||
		    memcmp(got, from, sizeof(got)))
			ktap_fail("page %u: a read after the write has other bytes",
			          i % HOT_PAGES);
	}
	crowd_stop(&c);
	free(from);
	close(fd);
}

/* A hole in a large folio, which readers hold in entries: it is split, or dropped whole. */
static void punch(void)
{
	struct crowd c = readers_of(file, 16);
	u32 i;

	c.zeros_ok = true;
	crowd_start(&c);
	crowd_wait(&c, 200);
	expect_entries();
	for (i = 0; i < 50 && !ktap_failing(); i++) {
		u64 at = i % 16 * PAGE;

		if (fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at,
		              PAGE) ||
		    pwrite(file, expect + at, PAGE, at) != (ssize_t)PAGE)
			ktap_fail("punching: %s", strerror(errno));
		if (i % 8 == 7)
			fsync(file);
	}
	crowd_stop(&c);
}

static void truncate_file(void)
{
	struct crowd c = readers_of(file, 16);
	u32 i;

	c.zeros_ok = true;
	crowd_start(&c);
	crowd_wait(&c, 200);
	expect_entries();
	for (i = 0; i < 50 && !ktap_failing(); i++) {
		u64 at = i % 16 * PAGE + (i % 3) * 100;

		if (ftruncate(file, at) || ftruncate(file, FILE_BYTES) ||
		    pwrite(file, expect + at, 16 * PAGE - at, at) !=
		            (ssize_t)(16 * PAGE - at))
			ktap_fail("truncating: %s", strerror(errno));
	}
	crowd_stop(&c);
	if (pwrite(file, expect, FILE_BYTES, 0) != (ssize_t)FILE_BYTES)
		ktap_fail("writing the file: %s", strerror(errno));
}

/* -- who waits for age ------------------------------------------------------------------- */

/* A page that was read a moment ago. Soft-offlining drains nothing: age lets it through. */
static void soft_offline(void)
{
	u64 began = clock_now_ns();
	char *map;
	int err;

	read_all(file, FILE_BYTES);
	expect_entries();
	map = file_map(file, PAGE, PROT_READ, MAP_SHARED);
	do {
		err = madvise(map, PAGE, MADV_SOFT_OFFLINE) ? errno : 0;
		if (err == EPERM || err == EINVAL)
			cannot = strerror(err);
		clock_sleep_ms(100);
	} while (err && !cannot && clock_now_ns() - began < 10000000000ull);
	ktap_diag("%s after %llu ms", strerror(err),
	          (unsigned long long)(clock_now_ns() - began) / 1000000);
	if (err && !cannot)
		ktap_fail("MADV_SOFT_OFFLINE: %s", strerror(err));
	munmap(map, PAGE);
}

/* -- who calls --------------------------------------------------------------------------- */

static const u8 *small_expect;

/* A group of its own, and a file of BIG_BYTES that is not in the page cache. */
static bool memcg_open(void)
{
	if (!memcg_make()) {
		cannot = "no control groups";
		return false;
	}
	small_expect = expect;
	expect = data_expected(BIG_BYTES);
	if (file_make(path, expect, BIG_BYTES))
		ktap_bail("%s", path);
	text_write("/proc/sys/vm/drop_caches", "1");
	paygo_read(&before);
	return true;
}

static void memcg_close(void)
{
	munmap((void *)expect, BIG_BYTES);
	expect = small_expect;
	memcg_remove();
	if (ftruncate(file, FILE_BYTES))
		ktap_fail("truncate: %s", strerror(errno));
}

/* In a child: readers of a file that is larger than what they may have. */
static int memcg_prepare(void *arg)
{
	static struct crowd c;

	if (memcg_enter())
		return -1;
	read_all(*(int *)arg, BIG_BYTES);
	c = readers_of(*(int *)arg, BIG_BYTES / PAGE);
	crowd_start(&c);
	crowd_wait(&c, 2000);
	crowd_stop(&c);
	read_all(*(int *)arg, BIG_BYTES);
	return ktap_failing() ? -1 : 0;
}

/*
 * Readers that may have 24 MiB read 40 MiB, and each page that they read gets an entry where
 * there is room. Reclaim must find enough. Vanilla kills nobody here.
 */
static void memcg(void)
{
	pid_t pid;

	if (!memcg_open())
		return;
	memcg_limit(MEMCG_BYTES);
	pid = waiter_start(memcg_prepare, &file);
	expect_entries();
	if (pid < 0)
		ktap_fail("the readers did not end");
	else
		waiter_kill(pid);
	ktap_diag("max %lld oom %lld oom_kill %lld", memcg_event("max"),
	          memcg_event("oom"), memcg_event("oom_kill"));
	if (memcg_event("max") <= 0)
		ktap_fail("the limit was never met: the case shows nothing");
	if (memcg_event("oom_kill"))
		ktap_fail("%lld OOM kills", memcg_event("oom_kill"));
	memcg_close();
}

/* In a child: each processor's table holds pages that are charged to the child's group. */
static int memcg_fill_tables(void *arg)
{
	static u8 to[PAGE];
	u64 at = 0;
	u32 cpu, i;

	if (memcg_enter())
		return -1;
	for (cpu = 0; cpu < READERS; cpu++) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		sched_setaffinity(0, sizeof(set), &set);
		for (i = 0; i < TABLE_PAGES; i++, at += PAGE) {
			if (pread(*(int *)arg, to, PAGE, at) != (ssize_t)PAGE)
				return -1;
		}
	}
	return 0;
}

/*
 * A limit below what entries hold. Reclaim fails more often than it may try, in less than a
 * turn. Only a fold before the OOM killer lets it pass without a kill.
 */
static void memcg_shrinks(void)
{
	struct paygo p;
	pid_t pid;

	if (!memcg_open())
		return;
	pid = waiter_start(memcg_fill_tables, &file);
	if (pid < 0)
		ktap_fail("the reader did not get ready");
	p = paygo_since(&before);
	if (p.held_bytes < 2 * SMALL_BYTES)
		ktap_fail("only %llu bytes held: the case shows nothing",
		          (unsigned long long)p.held_bytes);
	memcg_limit(SMALL_BYTES);
	paygo_diag("shrunk", &p);
	if (memcg_event("max") < 0 || memcg_event("oom_kill"))
		ktap_fail("%lld OOM kills", memcg_event("oom_kill"));
	if (pid > 0)
		waiter_kill(pid);
	memcg_close();
}

/* -- processors that go ------------------------------------------------------------------ */

static void cpu_offline(void)
{
	static struct held held;
	struct crowd c = readers_of(file, HOT_PAGES);
	struct paygo p;
	cpu_set_t set;
	int err;

	if (held_init(&held, HOLDERS)) {
		cannot = "no userfaultfd";
		return;
	}
	held.fd = file;
	held.expect = expect;
	/* The thread has placed itself once it has read. */
	held_take(&held, 0, 1, 0);
	held_release(&held, 0, 1, false);
	paygo_drain();
	paygo_read(&before);
	CPU_ZERO(&set);
	CPU_SET(CPU_GOES, &set);
	pthread_setaffinity_np(held.holders[0].thread, sizeof(set), &set);
	held_take(&held, 0, 1, 0);
	expect_entries();
	err = text_write(CPU_ONLINE, "0");
	if (err) {
		cannot = strerror(-err);
	} else {
		p = paygo_since(&before);
		paygo_diag("offline", &p);
		if (p.held_bytes || p.folded != 1)
			ktap_fail("%llu bytes held, %llu references folded",
			          (unsigned long long)p.held_bytes,
			          (unsigned long long)p.folded);
	}
	held_release(&held, 0, 1, false);
	crowd_start(&c);
	crowd_wait(&c, 500);
	if (!err)
		err = text_write(CPU_ONLINE, "1");
	crowd_wait(&c, 500);
	crowd_stop(&c);
}

static void cpu_flaps(void)
{
	struct crowd c = readers_of(file, HOT_PAGES);
	u32 i;
	int err = 0;

	c.moves = true;
	crowd_start(&c);
	for (i = 0; i < 6 && !err; i++) {
		crowd_wait(&c, 300);
		err = text_write(CPU_ONLINE, i % 2 ? "1" : "0");
	}
	crowd_stop(&c);
	if (err)
		cannot = strerror(-err);
}

/* -- everything at once ------------------------------------------------------------------ */

static void storm(void)
{
	u64 end = clock_now_ns() + opt.seconds * 1000000000ull,
	    rng = random_mix(opt.seed);
	struct crowd c = readers_of(file, HOT_PAGES);
	struct paygo p;

	c.threads = 2 * READERS;
	c.moves = true;
	c.zeros_ok = true;
	crowd_start(&c);
	while (clock_now_ns() < end && !ktap_failing()) {
		u64 r = random_next(&rng), at = r % (HOT_PAGES * PAGE);

		switch (r >> 32 & 7) {
		case 0: paygo_drain(); break;
		case 1: text_write("/proc/sys/vm/drop_caches", "1"); break;
		case 2: posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED); break;
		case 3:
			if (ftruncate(file, at) || ftruncate(file, FILE_BYTES))
				ktap_fail("truncate: %s", strerror(errno));
			break;
		case 4:
			fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			          at / PAGE * PAGE, PAGE);
			break;
		case 5: text_write_number(PAYGO_WINDOW, r >> 40 & 1023); break;
		default: clock_sleep_ms(1);
		}
		if (pwrite(file, expect, HOT_PAGES * PAGE, 0) != HOT_PAGES * PAGE)
			ktap_fail("write back: %s", strerror(errno));
	}
	text_write_number(PAYGO_WINDOW, 0);
	crowd_stop(&c);
	p = paygo_since(&before);
	if (!p.hit || !p.fold)
		ktap_fail("hit %llu, fold %llu: the case shows nothing",
		          (unsigned long long)p.hit, (unsigned long long)p.fold);
	if (pwrite(file, expect, FILE_BYTES, 0) != (ssize_t)FILE_BYTES)
		ktap_fail("write back: %s", strerror(errno));
}

static const struct live_case cases[] = {
	{ "drop-caches", "ext4", drop_caches },
	{ "fadvise", "ext4", fadvise },
	{ "umount", "xfs", umount_now },
	{ "move-pages", "ext4", move_pages },
	{ "seal-write", "ext4", seal_write },
	{ "direct-write", "ext4", direct_write },
	{ "punch-hole", "ext4", punch },
	{ "punch-hole-xfs", "xfs", punch },
	{ "truncate", "ext4", truncate_file },
	{ "truncate-xfs", "xfs", truncate_file },
	{ "soft-offline", "ext4", soft_offline },
	{ "memcg", "ext4", memcg },
	{ "memcg-shrinks", "ext4", memcg_shrinks },
	{ "cpu-offline", "ext4", cpu_offline },
	{ "cpu-flaps", "ext4", cpu_flaps },
	{ "storm", "ext4", storm },
	{ "storm-xfs", "xfs", storm },
};

static void run_case(const struct live_case *c, int klog)
{
	struct paygo d;
	int err = fs_mount_once(c->fs, &fs);

	if (err) {
		ktap_skip(c->name, strerror(-err));
		return;
	}
	klog_skip(klog);
	cannot = NULL;
	snprintf(path, sizeof(path), "%s/live-%s", fs->dir, c->name);
	if (file_make(path, expect, FILE_BYTES))
		ktap_bail("%s", path);
	file = open(path, O_RDWR | O_CLOEXEC);
	paygo_at_once(false);
	read_all(file, FILE_BYTES);
	read_all(file, FILE_BYTES);
	paygo_drain();
	paygo_at_once(true);
	paygo_read(&before);
	c->run();
	d = paygo_since(&before);
	paygo_diag(c->name, &d);
	paygo_check_quiet();
	close(file);
	file_check_exact(fs, path, FILE_BYTES);
	unlink(path);
	klog_check(klog);
	if (cannot && !ktap_failing())
		ktap_skip(c->name, cannot);
	else
		ktap_result(c->name);
}

static bool wanted(const struct live_case *c)
{
	return !opt.only || !strcmp(opt.only, c->name);
}

int main(int argc, char **argv)
{
	u32 i, nr = 1;
	int klog;

	options_parse(argc, argv);
	for (i = 0; i < NR(cases); i++)
		nr += wanted(&cases[i]);
	ktap_plan(nr);
	if (!paygo_on() || opt.dir || cpu_nr() < READERS) {
		printf("1..0 # SKIP not booted with folioref=paygo on four processors\n");
		return KTAP_SKIPPED;
	}
	klog = klog_open();
	expect = data_expected(FILE_BYTES);
	for (i = 0; i < NR(cases); i++) {
		if (wanted(&cases[i]))
			run_case(&cases[i], klog);
	}
	paygo_at_once_restore();
	fs_umount_all();
	ktap_result("umount");
	return ktap_end();
}
