// SPDX-License-Identifier: GPL-2.0
/*
 * Reads of all sizes and places give the file's bytes in three situations. In the first one
 * enough processes map the file and so does the reader. In the second one the reader does not
 * map it. In the third one too few map it. The test also shows that readers take local
 * references in the first situation only, at the threshold that users have. It does not
 * disturb anything: race.c and hold.c do.
 */
#include "test.h"

#include <signal.h>
#include <sys/uio.h>

#define MAPPERS 4
#define BYTES ((1ul << 20) + 1234) /* the last page is not full */
#define SLACK (2 * PAGE)           /* past the end of the file */
#define MOST (160ul << 10)         /* of one read */

enum { MAPPED_BY_ALL, NOT_BY_READER, BY_TOO_FEW };

static const struct {
	const char *name;
	u32 mappers; /* other processes */
	bool self;
} shares[] = {
	[MAPPED_BY_ALL] = { "mapped", MAPPERS, true },
	[NOT_BY_READER] = { "mapped-by-others", MAPPERS, false },
	[BY_TOO_FEW] = { "mapped-by-too-few", MAPPERS - 2, true },
};

static const char *const kinds[] = { "ext4", "xfs", "tmpfs" };
static const size_t sizes[] = { 1,    7,     8,     63,    64,         65,
	                        511,  512,   1000,  4095,  4096,       4097,
	                        8191, 12288, 65535, 65536, MOST - PAGE };

static u8 *expect, *dest;
static int file;

static void check(const char *how, u64 offset, size_t len, ssize_t n)
{
	size_t most = offset < BYTES ? BYTES - offset : 0, at = 0, zeros;
	size_t want = len < most ? len : most;

	if (n < 0 || (size_t)n != want) {
		ktap_fail("%s of %zu at %llu: %zd, not %zu", how, len,
		          (unsigned long long)offset, n < 0 ? (ssize_t)-errno : n,
		          want);
		return;
	}
	if (data_check(dest, expect + offset, n, false, &at, &zeros))
		ktap_fail("%s of %zu at %llu: byte %zu is 0x%02x, not 0x%02x", how, len,
		          (unsigned long long)offset, at, dest[at],
		          expect[offset + at]);
}

static void read_at(u64 offset, size_t len, u32 how)
{
	struct iovec parts[2] = { { dest, len / 3 },
		                  { dest + len / 3, len - len / 3 } };
	ssize_t n;

	memset(dest, 0xa5, len);
	switch (how % 3) {
	case 0: check("pread", offset, len, pread(file, dest, len, offset)); break;
	case 1: check("preadv", offset, len, preadv(file, parts, 2, offset)); break;
	case 2:
		/* May end early where a page is not there. Then we ask for it again. */
		n = preadv2(file, parts, 2, offset, RWF_NOWAIT);
		if (n >= 0 && n < (ssize_t)len && offset + n < BYTES)
			n = pread(file, dest, len, offset);
		else if (n < 0 && (errno == EAGAIN || errno == EOPNOTSUPP))
			n = pread(file, dest, len, offset);
		check("preadv2", offset, len, n);
		break;
	}
}

/* Reads around each kind of border: pages, the file's end, the middle of a word. */
static void read_places(void)
{
	static const long around[] = { -65, -8, -3, -1, 0, 1, 5, 64 };
	u64 borders[] = { PAGE, 16 * PAGE, 100 * PAGE, BYTES };
	u32 i, j, k, how = 0;

	for (i = 0; i < NR(borders); i++) {
		for (j = 0; j < NR(around); j++) {
			for (k = 0; k < NR(sizes); k++)
				read_at(borders[i] + around[j], sizes[k], how++);
		}
	}
	for (k = 0; k < NR(sizes); k++)
		read_at(0, sizes[k], how++);
}

static void read_random(void)
{
	u64 end = clock_now_ns() + opt.seconds * 1000000000ull / 3,
	    rng = random_mix(opt.seed);
	u32 how = 0;

	while (clock_now_ns() < end && !ktap_failing())
		read_at(random_next(&rng) % (BYTES + PAGE),
		        1 + random_next(&rng) % (MOST / 4), how++);
}

/* Reads from the beginning to the end, by the file's own position. */
static void read_through(size_t step)
{
	u64 offset = 0;
	ssize_t n;

	lseek(file, 0, SEEK_SET);
	while ((n = read(file, dest, step)) > 0) {
		check("read", offset, step, n);
		offset += n;
	}
	if (n || offset != BYTES)
		ktap_fail("read to the end: %llu bytes", (unsigned long long)offset);
}

static void run_share(const struct test_fs *fs, u32 share, bool lodic, int klog)
{
	struct counters before, d;
	pid_t pids[MAPPERS];
	char name[48], path[200];
	void *map = NULL;
	u32 i;

	snprintf(name, sizeof(name), "%s-%s", fs->kind, shares[share].name);
	snprintf(path, sizeof(path), "%s/read-%s", fs->dir, name);
	if (file_make(path, expect, BYTES))
		ktap_bail("%s", path);
	file = open(path, O_RDONLY | O_CLOEXEC);
	for (i = 0; i < shares[share].mappers; i++)
		pids[i] = waiter_map(file, BYTES);
	if (shares[share].self)
		map = file_map(file, BYTES, PROT_READ, MAP_SHARED);
	counters_read(&before);
	read_places();
	read_random();
	read_through(1000);
	read_through(10000);
	d = counters_since(&before);
	for (i = 0; i < shares[share].mappers; i++)
		waiter_kill(pids[i]);
	if (map)
		munmap(map, BYTES);
	close(file);
	if (lodic) {
		counters_diag(name, &d);
		counters_check_quiet();
		if (share == MAPPED_BY_ALL && !d.ref)
			ktap_fail("no local reference was taken");
		if (share != MAPPED_BY_ALL && d.ref)
			ktap_fail("%llu local references taken",
			          (unsigned long long)d.ref);
	}
	if (strcmp(fs->kind, "tmpfs"))
		file_check_evictable(path);
	unlink(path);
	klog_check(klog);
	ktap_result(name);
}

int main(int argc, char **argv)
{
	struct test_fs fs;
	bool lodic;
	u32 i, j;
	int klog;

	opt.mappers = MAPPERS;
	opt.window = 0;
	options_parse(argc, argv);
	ktap_plan(NR(kinds) * (NR(shares) + 1));
	lodic = switches_on();
	klog = klog_open();
	expect = data_expected(BYTES + SLACK);
	dest = malloc(MOST + PAGE);
	for (i = 0; i < NR(kinds); i++) {
		int err = fs_mount(kinds[i], &fs);

		for (j = 0; j < NR(shares); j++) {
			if (err)
				ktap_skip(shares[j].name, strerror(-err));
			else
				run_share(&fs, j, lodic, klog);
		}
		if (!err)
			fs_umount(&fs);
		ktap_result("umount");
	}
	switches_restore();
	return ktap_end();
}
