// SPDX-License-Identifier: GPL-2.0
/*
 * How many instructions the guest executes for one pread(), and for each page whose entry it
 * clears or makes. The program is for QEMU with `-icount shift=0 -smp 1`, where the time
 * stamp counter counts instructions. Elsewhere its numbers are cycles of something. It
 * prints CSV "case,bytes,instructions". For pread() that is the median of 1001, for the other
 * cases the median of 51, for each of 768 pages. The program runs on any kernel.
 */
#include "test.h"
#include "ticks.h"

#include <signal.h>

#define PREADS 1001
#define SWEEPS 51
#define WARM 64
#define PAGES 768
#define BYTES (PAGES * PAGE)
#define LONG_READ (16 * PAGE)
#define THRESHOLD 4 /* vm.lodic_mappers as users have it */

static u64 samples[PREADS];
static const char *path;
static int file;
static u8 *expect;

static u64 median(u32 nr)
{
	return ticks_median(samples, nr);
}

/* -- pread ------------------------------------------------------------------------------- */

static void *map_file(int prot, int flags)
{
	return file_map(file, BYTES, prot, flags);
}

static void measure_pread(const char *name, size_t bytes, u64 empty)
{
	static u8 to[LONG_READ] __attribute__((aligned(4096)));
	u64 offset = 16 * PAGE;
	u32 i;

	for (i = 0; i < WARM + PREADS; i++) {
		u64 began = ticks(), ended;
		ssize_t n = pread(file, to, bytes, offset);

		ended = ticks();
		if (n != (ssize_t)bytes || memcmp(to, expect + offset, bytes))
			ktap_bail("pread is wrong");
		if (i >= WARM)
			samples[i - WARM] = ended - began - empty;
	}
	printf("%s,%zu,%llu\n", name, bytes, (unsigned long long)median(PREADS));
}

static void measure_case(const char *name, u32 mappers, bool self, u64 empty)
{
	struct counters before, d;
	pid_t pids[THRESHOLD];
	void *map = NULL;
	u32 i;

	/* So that all of it is in the page cache, and no readahead is under way. */
	munmap(map_file(PROT_READ, MAP_SHARED), BYTES);

	for (i = 0; i < mappers; i++)
		pids[i] = waiter_map(file, BYTES);
	if (self)
		map = map_file(PROT_READ, MAP_SHARED);
	counters_read(&before);
	measure_pread(name, 64, empty);
	measure_pread(name, PAGE, empty);
	measure_pread(name, LONG_READ, empty);
	d = counters_since(&before);
	printf("# %s: %llu local references\n", name, (unsigned long long)d.ref);
	if (map)
		munmap(map, BYTES);
	for (i = 0; i < mappers; i++)
		waiter_kill(pids[i]);
}

/* -- per page ---------------------------------------------------------------------------- */

static void say_sweep(const char *name, u64 empty)
{
	u64 m = median(SWEEPS) - empty;

	printf("%s,%lu,%llu.%llu\n", name, PAGE, (unsigned long long)(m / PAGES),
	       (unsigned long long)(m * 10 / PAGES % 10));
}

static void measure_munmap(u64 empty)
{
	u32 i;

	for (i = 0; i < SWEEPS; i++) {
		void *map = map_file(PROT_READ, MAP_SHARED);
		u64 began = ticks();

		munmap(map, BYTES);
		samples[i] = ticks() - began;
	}
	say_sweep("munmap", empty);
}

static void measure_mprotect(u64 empty)
{
	void *map = map_file(PROT_READ, MAP_SHARED);
	u32 i;

	for (i = 0; i < SWEEPS; i++) {
		u64 began = ticks();

		mprotect(map, BYTES, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE);
		samples[i] = ticks() - began;
	}
	munmap(map, BYTES);
	say_sweep("mprotect", empty);
}

/* The parent's instructions in fork(), which copies a private mapping's entries. */
static void measure_fork(u64 empty)
{
	char *map = map_file(PROT_READ | PROT_WRITE, MAP_PRIVATE);
	u64 with[SWEEPS], m;
	u32 i, round;

	map[0] = 1; /* entries are copied only for a mapping with a page of its own */
	for (round = 0; round < 2; round++) {
		for (i = 0; i < SWEEPS; i++) {
			u64 began = ticks();
			pid_t pid = fork();

			if (!pid)
				_exit(0);
			samples[i] = ticks() - began;
			waitpid(pid, NULL, 0);
		}
		if (round == 0) {
			median(SWEEPS);
			memcpy(with, samples, sizeof(with));
			munmap(map, BYTES);
		}
	}
	/* Less what a fork costs without the mapping. */
	m = with[SWEEPS / 2] - median(SWEEPS);
	for (i = 0; i < SWEEPS; i++)
		samples[i] = m + empty;
	say_sweep("fork", empty);
}

static void measure_touch(u64 empty)
{
	u32 i, page;

	for (i = 0; i < SWEEPS; i++) {
		volatile char *map = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, file, 0);
		u64 began = ticks();

		for (page = 0; page < PAGES; page++)
			(void)map[page * PAGE];
		samples[i] = ticks() - began;
		munmap((void *)map, BYTES);
	}
	say_sweep("fault", empty);
}

/* The file anew, on a file system of that kind. */
static void bench_open(struct test_fs *fs, const char *kind)
{
	static char name[160];
	int err = fs_mount(kind, fs);

	if (err)
		ktap_bail("no %s (%s)", kind, strerror(-err));
	snprintf(name, sizeof(name), "%s/bench", fs->dir);
	path = name;
	if (file_make(path, expect, BYTES))
		ktap_bail("%s", path);
	file = open(path, O_RDWR | O_CLOEXEC);
}

static void bench_close(struct test_fs *fs)
{
	close(file);
	unlink(path);
	fs_umount(fs);
}

/* Local references, and then vm.folioref=0: what is left of the cost? */
static void off_again(void)
{
	void *map = map_file(PROT_READ, MAP_SHARED);
	u8 to[64];

	text_write_number(SYSCTL_MAPPERS, 1);
	if (pread(file, to, sizeof(to), 0) != sizeof(to))
		ktap_bail("pread");
	text_write_number(SYSCTL_MAPPERS, THRESHOLD);
	munmap(map, BYTES);
	if (text_write_number(SYSCTL_FOLIOREF, 0))
		ktap_bail("vm.folioref");
}

static const char *state(void)
{
	if (!counters_present())
		return "not in this kernel";
	return text_read_number(SYSCTL_FOLIOREF) == 1 ? "on" : "off";
}

int main(int argc, char **argv)
{
	struct test_fs fs;
	u64 empty;

	opt.window = 0;
	options_parse(argc, argv);
	expect = data_expected(BYTES);
	bench_open(&fs, "ext4");
	if (text_has_word("/proc/cmdline", "lodic.off_again"))
		off_again();
	empty = ticks_empty();
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("# LODIC: %s\ncase,bytes,instructions\n", state());
	measure_case("not-mapped", 0, false, empty);
	measure_case("mapped-by-too-few", THRESHOLD - 1, false, empty);
	measure_case("mapped-by-others", THRESHOLD, false, empty);
	measure_case("local", THRESHOLD, true, empty);
	measure_munmap(empty);
	measure_mprotect(empty);
	measure_fork(empty);
	measure_touch(empty);
	bench_close(&fs);
	bench_open(&fs, "tmpfs");
	measure_case("tmpfs-not-mapped", 0, false, empty);
	measure_case("tmpfs-local", THRESHOLD, true, empty);
	bench_close(&fs);
	return 0;
}
