// SPDX-License-Identifier: GPL-2.0
/*
 * Many files and many mappings. A process that maps what it reads must read it by local
 * references, however many files are hot and however many VMAs it has. The test says which
 * part of the reads was local and how many walks over VMAs they took. A process that maps
 * nothing of what it reads must not walk again and again while its mappings change.
 */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

#define FILES_MOST 512u
#define FILE_PAGES 4u
#define HOT_FILE (FILE_PAGES * PAGE)
#define READS_MOST 200000u
#define REUSES 64u
#define REUSE_READS 200u
#define ABOVE (AREA_A + (1ul << 36)) /* where VMAs lie above the files' */

static int files[FILES_MOST];
static char *maps[FILES_MOST];
static const u8 *expect;
static bool lodic;

static void files_open(const char *dir, u32 nr)
{
	char path[200];
	u32 i;

	for (i = 0; i < nr; i++) {
		snprintf(path, sizeof(path), "%s/hot-%u", dir, i);
		if (file_make(path, expect, HOT_FILE))
			ktap_bail("%s", path);
		files[i] = open(path, O_RDONLY | O_CLOEXEC);
		/* Far apart, so that no two are one VMA or in one table. */
		maps[i] = mmap(AREA_A + i * 2 * PMD_BYTES, HOT_FILE, PROT_READ,
		               MAP_SHARED | MAP_FIXED | MAP_POPULATE, files[i], 0);
		if (maps[i] == MAP_FAILED)
			ktap_bail("mmap");
	}
}

static void files_close(const char *dir, u32 nr)
{
	char path[200];
	u32 i;

	for (i = 0; i < nr; i++) {
		munmap(maps[i], HOT_FILE);
		close(files[i]);
		snprintf(path, sizeof(path), "%s/hot-%u", dir, i);
		unlink(path);
	}
}

/* Mappings of one page each that do not become one VMA, above all others. */
static void vmas_make(u32 nr, int fd)
{
	u32 i;

	for (i = 0; i < nr; i++) {
		void *at = mmap(ABOVE + i * 2 * PAGE, PAGE, PROT_READ,
		                MAP_SHARED | MAP_FIXED, fd, 0);

		if (at == MAP_FAILED)
			ktap_bail("mmap");
	}
}

/* Reads pages of the files, in the order of a generator. Returns how many reads. */
static u32 read_files(u32 nr)
{
	u64 end = clock_now_ns() + opt.seconds * 1000000000ull / 3, rng = 1;
	u8 got[64];
	u32 reads = 0;

	while (reads < READS_MOST && (reads % 64 || clock_now_ns() < end)) {
		u64 r = random_next(&rng);
		u64 offset = (r >> 32) % FILE_PAGES * PAGE;

		if (pread(files[r % nr], got, sizeof(got), offset) != sizeof(got) ||
		    memcmp(got, expect + offset, sizeof(got)))
			ktap_fail("pread is wrong");
		reads++;
	}
	return reads;
}

static void run_mapped(const struct test_fs *fs, u32 nr, u32 vmas)
{
	struct counters before, d;
	char name[48];
	u32 reads;

	snprintf(name, sizeof(name), "files-%u-vmas-%u", nr, vmas);
	files_open(fs->dir, nr);
	vmas_make(vmas, files[0]);
	counters_read(&before);
	reads = read_files(nr);
	d = counters_since(&before);
	munmap(ABOVE, (u64)vmas * 2 * PAGE + PAGE);
	files_close(fs->dir, nr);
	if (lodic) {
		ktap_diag("%s: %u reads, %llu local, %llu walks, %llu per 1000 reads",
		          name, reads, (unsigned long long)d.ref,
		          (unsigned long long)d.lookup,
		          (unsigned long long)d.lookup * 1000 / reads);
		if (d.ref < reads * 95ull / 100)
			ktap_fail("%llu of %u reads were local",
			          (unsigned long long)d.ref, reads);
		counters_check_quiet();
	}
	ktap_result(name);
}

static atomic_bool stop;

/* Its mappings change all the time, and none is of the file. */
static void *map_and_unmap(void *arg)
{
	(void)arg;
	while (!stop)
		munmap(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
		       PAGE);
	return NULL;
}

static void run_unmapped(const struct test_fs *fs, bool writer)
{
	const char *name = writer ? "unmapped-and-a-writer" : "unmapped";
	struct counters before, d;
	pthread_t thread;
	pid_t waiter;
	u32 reads;

	files_open(fs->dir, 1);
	waiter = waiter_map(files[0], HOT_FILE);
	munmap(maps[0], HOT_FILE);
	stop = false;
	if (writer && pthread_create(&thread, NULL, map_and_unmap, NULL))
		ktap_bail("pthread_create");
	counters_read(&before);
	reads = read_files(1);
	d = counters_since(&before);
	stop = true;
	if (writer)
		pthread_join(thread, NULL);
	waiter_kill(waiter);
	files_close(fs->dir, 1);
	if (lodic) {
		ktap_diag("%s: %u reads, %llu local, %llu walks", name, reads,
		          (unsigned long long)d.ref, (unsigned long long)d.lookup);
		if (d.fallback < reads / 2)
			ktap_fail("%llu of %u reads tried",
			          (unsigned long long)d.fallback, reads);
		if (d.lookup > reads / 50 + 20)
			ktap_fail("%llu walks in %u reads",
			          (unsigned long long)d.lookup, reads);
		counters_check_quiet();
	}
	ktap_result(name);
}

/* In a process of its own, which maps the file as no other before it did. */
static int read_in_child(u32 i)
{
	u8 got[64];
	u32 reads;

	cpu_pin(0);
	maps[0] = mmap(i % 2 ? AREA_B : AREA_A + PMD_BYTES, HOT_FILE, PROT_READ,
	               MAP_SHARED | MAP_FIXED | MAP_POPULATE, files[0], 0);
	if (maps[0] == MAP_FAILED)
		return 1;
	for (reads = 0; reads < REUSE_READS; reads++) {
		u64 offset = reads % FILE_PAGES * PAGE;

		if (pread(files[0], got, sizeof(got), offset) != sizeof(got) ||
		    memcmp(got, expect + offset, sizeof(got)))
			return 1;
	}
	return 0;
}

/*
 * One process after another on one processor: each gets the memory of the last one's address
 * space, and each second one maps the file elsewhere. A hint of the last one must not keep
 * the new one from its own mapping.
 */
static void run_reused(const struct test_fs *fs)
{
	const char *name = "address-space-reused";
	struct counters before, d;
	int status;
	u32 i;

	files_open(fs->dir, 1);
	munmap(maps[0], HOT_FILE);
	counters_read(&before);
	for (i = 0; i < REUSES; i++) {
		pid_t pid;

		fflush(stdout);
		pid = fork();
		if (pid < 0)
			ktap_bail("fork");
		if (!pid)
			_exit(read_in_child(i));
		if (waitpid(pid, &status, 0) != pid || status)
			ktap_fail("child %u: status 0x%x", i, status);
	}
	d = counters_since(&before);
	files_close(fs->dir, 1);
	if (lodic) {
		ktap_diag("%s: %u reads, %llu local, %llu walks", name,
		          REUSES * REUSE_READS, (unsigned long long)d.ref,
		          (unsigned long long)d.lookup);
		if (d.ref < REUSES * REUSE_READS * 95ull / 100)
			ktap_fail("%llu of %u reads were local",
			          (unsigned long long)d.ref, REUSES * REUSE_READS);
		counters_check_quiet();
	}
	ktap_result(name);
}

int main(int argc, char **argv)
{
	static const u32 numbers[][2] = { { 16, 0 },  { 64, 0 },   { 256, 0 },
		                          { 512, 0 }, { 1, 1000 }, { 64, 1000 } };
	struct test_fs fs;
	u32 i;
	int err;

	opt.window = 0;
	options_parse(argc, argv);
	ktap_plan(NR(numbers) + 4);
	lodic = switches_on();
	expect = data_expected(HOT_FILE);
	err = fs_mount("ext4", &fs);
	if (err)
		ktap_bail("no ext4 (%s)", strerror(-err));
	for (i = 0; i < NR(numbers); i++)
		run_mapped(&fs, numbers[i][0], numbers[i][1]);
	run_unmapped(&fs, false);
	run_unmapped(&fs, true);
	run_reused(&fs);
	fs_umount(&fs);
	ktap_result("umount");
	switches_restore();
	return ktap_end();
}
