// SPDX-License-Identifier: GPL-2.0
/*
 * How many instructions the guest executes where KLOC has hooks, and for a read of cached pages,
 * where it has none. Like bench_instructions.c this is for QEMU with `-icount shift=0 -smp 1`.
 * It runs on any kernel. It prints CSV "case,bytes,instructions", medians, on ext4:
 *
 * read: a pread() of cached pages.
 * open, close: by one of 16 names, so that few of them share a bucket of the dcache with
 *     another. Nobody else has the file open. open-again, close-again: somebody has. The file has
 *     no pages in memory; with -cached it has 16, so its last close has something to move.
 * create, unlink: the first open of a new file, and the end of its last name and of its inode.
 * allocate-ahead, -read, -write: for each of 128 pages that readahead by fadvise(), readahead by
 *     read() or write() makes. The file is a hole, and what was written is truncated. So no
 *     device is waited for, whose time would count.
 */
#include "kloc.h"
#include "test.h"
#include "ticks.h"

#define NAMES 16
#define CALLS 1001
#define SWEEPS 101
#define WARM 16
/* So few that a timer interrupt comes into few of the sweeps. */
#define PAGES 128
#define BYTES (PAGES * PAGE)
#define CACHED (16 * PAGE)
#define LONG_READ (16 * PAGE)

static u64 first[CALLS], second[CALLS]; /* samples */
static u64 empty;
static char path[160], names[NAMES][170]; /* all are links to one file */
static u8 *expect;
static u8 to[LONG_READ] __attribute__((aligned(4096)));

/* What else is to run, runs now: it waits while this program does, which is SCHED_FIFO. */
static void others_run(void)
{
	clock_sleep_ms(1);
}

static void say(const char *name, size_t bytes, u64 *samples)
{
	printf("%s,%zu,%llu\n", name, bytes,
	       (unsigned long long)(ticks_median(samples, CALLS) - empty));
}

static int must_open(int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	if (fd < 0)
		ktap_bail("open %s", path);
	return fd;
}

/* Pages of the open file in the page cache. */
static u32 resident(int fd)
{
	static u8 is_in[PAGES];
	u8 *map = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
	u32 i, nr = 0;

	if (map == MAP_FAILED || mincore(map, BYTES, is_in))
		ktap_bail("mincore");
	munmap(map, BYTES);
	for (i = 0; i < PAGES; i++)
		nr += is_in[i] & 1;
	return nr;
}

static void forget(int fd)
{
	if (posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) || resident(fd))
		ktap_bail("the file does not leave the page cache");
}

/* -- Calls --------------------------------------------------------------------------------- */

static void measure_read(size_t bytes)
{
	int fd = must_open(O_RDONLY);
	u32 i;

	for (i = 0; i < WARM + CALLS; i++) {
		u64 began = ticks(), ended;
		ssize_t n = pread(fd, to, bytes, 0);

		ended = ticks();
		if (n != (ssize_t)bytes || memcmp(to, expect, bytes))
			ktap_bail("pread is wrong");
		if (i >= WARM)
			first[i - WARM] = ended - began;
	}
	close(fd);
	say("read", bytes, first);
}

static void measure_open(const char *opens, const char *closes)
{
	u32 i;

	for (i = 0; i < WARM + CALLS; i++) {
		u64 began = ticks(), opened, ended;
		int fd = open(names[i % NAMES], O_RDONLY | O_CLOEXEC);

		opened = ticks();
		close(fd);
		ended = ticks();
		if (fd < 0)
			ktap_bail("open");
		others_run();
		if (i < WARM)
			continue;
		first[i - WARM] = opened - began;
		second[i - WARM] = ended - opened;
	}
	say(opens, 0, first);
	say(closes, 0, second);
}

static void measure_create(void)
{
	u32 i;

	for (i = 0; i < WARM + CALLS; i++) {
		u64 began = ticks(), ended, unlinked;
		int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

		ended = ticks();
		if (fd < 0)
			ktap_bail("create");
		close(fd);
		unlinked = ticks();
		unlink(path);
		if (i >= WARM) {
			first[i - WARM] = ended - began;
			second[i - WARM] = ticks() - unlinked;
		}
		others_run();
	}
	say("create", 0, first);
	say("unlink", 0, second);
}

/* -- Pages --------------------------------------------------------------------------------- */

static void act_ahead(int fd)
{
	size_t at;

	/* A call reads no more than the device takes at once. */
	for (at = 0; at < BYTES; at += LONG_READ)
		if (posix_fadvise(fd, at, LONG_READ, POSIX_FADV_WILLNEED))
			ktap_bail("fadvise");
}

static void act_read(int fd)
{
	size_t at;

	for (at = 0; at < BYTES; at += LONG_READ)
		if (pread(fd, to, LONG_READ, at) != LONG_READ)
			ktap_bail("pread");
}

static void act_write(int fd)
{
	size_t at;

	for (at = 0; at < BYTES; at += PAGE)
		if (pwrite(fd, to, PAGE, at) != PAGE)
			ktap_bail("pwrite");
}

static void measure_allocate(const char *name, void (*act)(int fd), bool writes)
{
	int fd = must_open(O_RDWR | O_CREAT | O_TRUNC);
	long long placed = kloc_stat("placed_fast");
	u64 all, began;
	u32 i;

	for (i = 0; i < SWEEPS; i++) {
		if (ftruncate(fd, 0) || ftruncate(fd, writes ? 0 : BYTES))
			ktap_bail("truncate");
		others_run();
		began = ticks();
		act(fd);
		first[i] = ticks() - began;
		if (resident(fd) != PAGES)
			ktap_bail("%s made %u pages", name, resident(fd));
	}
	if (ftruncate(fd, 0))
		ktap_bail("truncate");
	close(fd);
	all = ticks_median(first, SWEEPS) - empty;
	printf("%s,%lu,%llu.%llu\n", name, PAGE, (unsigned long long)(all / PAGES),
	       (unsigned long long)(all * 10 / PAGES % 10));
	printf("# %s: %lld pages placed\n", name, kloc_stat("placed_fast") - placed);
}

/* -- All of it ----------------------------------------------------------------------------- */

static void measure_opens(void)
{
	int fd = must_open(O_RDONLY);
	u32 i;

	for (i = 0; i < NAMES; i++) {
		snprintf(names[i], sizeof(names[i]), "%s-%u", path, i);
		if (link(path, names[i]))
			ktap_bail("link");
	}
	forget(fd);
	close(fd);
	measure_open("open", "close");
	fd = must_open(O_RDONLY);
	measure_open("open-again", "close-again");
	if (pread(fd, to, CACHED, 0) != (ssize_t)CACHED)
		ktap_bail("pread");
	close(fd);
	measure_open("open-cached", "close-cached");
	for (i = 0; i < NAMES; i++)
		unlink(names[i]);
}

int main(int argc, char **argv)
{
	struct sched_param param = { .sched_priority = 1 };
	struct test_fs fs;
	int err;

	options_parse(argc, argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	expect = data_expected(BYTES);
	err = fs_mount("ext4", &fs);
	snprintf(path, sizeof(path), "%s/bench", fs.dir);
	if (err || file_make(path, expect, BYTES))
		ktap_bail("%s", path);
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		ktap_bail("sched_setscheduler");
	empty = ticks_empty();
	printf("case,bytes,instructions\n");
	measure_read(64);
	measure_read(PAGE);
	measure_read(LONG_READ);
	measure_opens();
	unlink(path);
	measure_create();
	measure_allocate("allocate-ahead", act_ahead, false);
	measure_allocate("allocate-read", act_read, false);
	measure_allocate("allocate-write", act_write, true);
	unlink(path);
	fs_umount(&fs);
	return 0;
}
