// SPDX-License-Identifier: GPL-2.0
/*
 * KLOC on a machine with two tiers. The page cache of a file goes to slow memory at its last close,
 * and comes back at an open where that is asked for. Counts are exact: move_pages(2) says where
 * each page is, on a mapping made for the question. Ticks come from debugfs, not from time.
 *
 * After the cases come the negative controls. Each breaks one rule in the kernel. It runs the case
 * that is about the rule in a process of its own, and passes if that case fails.
 */
#include "kloc_case.h"
#include "memcg.h"
#include "test.h"

/* -- States and moves ---------------------------------------------------------------------- */

/* The last of two closes, not the first, takes all of the file down, once. */
static void case_close(void)
{
	long long demoted;
	int fd = kloc_open_cached(), other = kloc_must_open(kloc_at.path, O_RDONLY);

	kloc_expect_state("two have it open", fd, "active", 2);
	close(other);
	kloc_wait();
	kloc_expect_state("one has it open", fd, "active", 1);
	kloc_expect("one has it open", fd, BYTES, PAGES, 0);
	demoted = kloc_stat("demoted");
	close(fd);
	kloc_wait();
	kloc_expect_state("closed", -1, "inactive", 0);
	kloc_expect_closed("closed", 0, PAGES);
	if (kloc_stat("demoted") - demoted != PAGES)
		ktap_fail("%lld pages demoted", kloc_stat("demoted") - demoted);
	fd = kloc_must_open(kloc_at.path, O_RDONLY);
	kloc_wait();
	kloc_expect("open again, no promotion", fd, BYTES, 0, PAGES);
	kloc_check_data(fd, BYTES);
	close(fd);
}

/* Written and closed at once: dirty pages move, too, or as soon as they are written back. */
static void case_dirty(void)
{
	int fd = kloc_open_cached();

	if (pwrite(fd, kloc_at.data, BYTES, 0) != (ssize_t)BYTES)
		ktap_bail("write");
	close(fd);
	kloc_wait();
	sync();
	kloc_tick(1);
	kloc_wait();
	kloc_expect_closed("closed", 0, PAGES);
	fd = kloc_must_open(kloc_at.path, O_RDONLY);
	kloc_check_data(fd, BYTES);
	close(fd);
}

static void case_promote(void)
{
	int fd = kloc_open_cached();

	close(fd);
	kloc_wait();
	kloc_set("promote", "1");
	fd = kloc_must_open(kloc_at.path, O_RDONLY);
	kloc_wait();
	kloc_set("promote", "0");
	kloc_expect("open again", fd, BYTES, PAGES, 0);
	kloc_check_data(fd, BYTES);
	close(fd);
}

/* An open stops a demotion. At 1 MiB a second a batch of 2 MiB takes two seconds. */
static void case_cancel(void)
{
	long long cancelled = kloc_stat("cancelled");
	int fd = kloc_open_cached();
	struct kloc_where w;

	kloc_set("rate_mb", "1");
	close(fd);
	clock_sleep_ms(200);
	fd = kloc_must_open(kloc_at.path, O_RDONLY);
	kloc_set("rate_mb", "0");
	clock_sleep_ms(3000);
	kloc_wait();
	w = kloc_where(fd, BYTES);
	if (w.fast < PAGES / 4 || w.fast + w.slow != PAGES)
		ktap_fail("%ld pages are fast, %ld slow", w.fast, w.slow);
	if (kloc_stat("cancelled") == cancelled)
		ktap_fail("no pass was cancelled");
	kloc_check_data(fd, BYTES);
	close(fd);
}

/* A deleted file lives until its last close, and nothing of it moves. */
static void case_unlink(void)
{
	int fd = kloc_open_cached(), other = kloc_must_open(kloc_at.path, O_RDONLY);
	long long demoted = kloc_stat("demoted");

	unlink(kloc_at.path);
	kloc_wait();
	kloc_expect_state("deleted", fd, "active", 2);
	close(other);
	kloc_expect("deleted, and open", fd, BYTES, PAGES, 0);
	kloc_expect_state("deleted, and open", fd, "active", 1);
	kloc_check_data(fd, BYTES);
	close(fd);
	kloc_wait();
	if (kloc_stat("demoted") != demoted)
		ktap_fail("%lld pages of a deleted file moved", kloc_stat("demoted") - demoted);
}

/* Nobody uses it for longer than the limit: it goes down though it is open. A use ends that. */
static void case_age(void)
{
	long long aged = kloc_stat("aged");
	int fd = kloc_open_cached();

	/* The first look takes the marks of the LRU that reading has left. */
	kloc_set("age_limit", "2");
	kloc_tick(3);
	kloc_tick(3);
	kloc_wait();
	kloc_expect_state("not used", fd, "inactive", 1);
	if (kloc_stat("aged") - aged != 1)
		ktap_fail("%lld have aged", kloc_stat("aged") - aged);
	kloc_expect("not used", fd, BYTES, 0, PAGES);
	/* A new page is a use. */
	if (pwrite(fd, kloc_at.data, PAGE, BYTES) != (ssize_t)PAGE)
		ktap_bail("write");
	kloc_expect_state("used again", fd, "active", 1);
	/* A reader in the cache leaves marks for the LRU alone. */
	kloc_tick(2);
	kloc_check_data(fd, BYTES);
	kloc_tick(1);
	kloc_wait();
	kloc_expect_state("read", fd, "active", 1);
	close(fd);
}

/* New pages in each tick: a use that CPUs note, and the LRU does not see. */
static void case_uses(void)
{
	long long aged = kloc_stat("aged");
	u32 i;
	int fd;

	kloc_make();
	fd = kloc_must_open(kloc_at.path, O_RDONLY);
	kloc_set("age_limit", "2");
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	for (i = 0; i < 8; i++) {
		posix_fadvise(fd, i * 16 * PAGE, 16 * PAGE, POSIX_FADV_WILLNEED);
		kloc_tick(1);
	}
	kloc_wait();
	kloc_expect_state("used", fd, "active", 1);
	if (kloc_stat("aged") != aged)
		ktap_fail("it has aged between two uses");
	close(fd);
}

/* What goes to and fro stays in fast memory. */
static void case_ping_pong(void)
{
	long long retained = kloc_stat("retained");
	u32 i;
	int fd = kloc_open_cached();

	kloc_set("promote", "1");
	kloc_set("ping_pong", "4");
	for (i = 0; i < 4; i++) {
		close(fd);
		kloc_wait();
		fd = kloc_must_open(kloc_at.path, O_RDONLY);
		kloc_wait();
	}
	kloc_set("promote", "0");
	kloc_expect("after four rounds", fd, BYTES, PAGES, 0);
	if (kloc_stat("retained") == retained)
		ktap_fail("the counter retains nothing");
	close(fd);
	kloc_wait();
	kloc_expect_closed("retained", PAGES, 0);
}

/* A folio that somebody holds stays, and goes when it can. */
static void case_busy(void)
{
	int fd = kloc_open_cached(), pipes[2];
	loff_t at = 0;

	if (pipe(pipes))
		ktap_bail("pipe");
	if (splice(fd, &at, pipes[1], NULL, 4 * PAGE, 0) != 4 * PAGE)
		ktap_bail("splice");
	close(fd);
	kloc_wait();
	kloc_expect_closed("four are held", 4, PAGES - 4);
	if (read(pipes[0], kloc_at.dest, 4 * PAGE) != 4 * PAGE ||
	    memcmp(kloc_at.dest, kloc_at.data, 4 * PAGE))
		ktap_fail("what was held has other bytes");
	kloc_tick(1);
	kloc_wait();
	kloc_expect_closed("none is held", 0, PAGES);
	close(pipes[0]);
	close(pipes[1]);
}

/* -- Places -------------------------------------------------------------------------------- */

static void case_place(void)
{
	long long slow = kloc_stat("placed_slow");
	int fd;

	kloc_make();
	fd = kloc_must_open(kloc_at.path, O_RDONLY);
	kloc_set("memsize", "0 0");
	kloc_check_data(fd, BYTES);
	kloc_expect("no share of fast memory", fd, BYTES, 0, PAGES);
	if (kloc_stat("placed_slow") - slow < PAGES)
		ktap_fail("%lld placed in slow memory", kloc_stat("placed_slow") - slow);
	kloc_set("policy", "naive");
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	kloc_check_data(fd, BYTES);
	kloc_expect("policy naive", fd, BYTES, PAGES, 0);
	close(fd);
}

/* Opened while kloc was off: not counted, so the file is inactive, and its new pages are slow. */
static void case_not_counted(void)
{
	int fd, other;

	kloc_make();
	unlink(kloc_at.path);
	kloc_make();
	kloc_set("enabled", "0");
	fd = kloc_must_open(kloc_at.path, O_RDONLY);
	kloc_set("enabled", "1");
	other = kloc_must_open(kloc_at.path, O_RDONLY);
	kloc_expect_state("one of two is counted", fd, "active", 1);
	close(other);
	kloc_expect_state("the other is not", fd, "inactive", 0);
	kloc_check_data(fd, BYTES);
	kloc_expect("inactive", fd, BYTES, 0, PAGES);
	close(fd);
	kloc_expect_state("a close takes back what its open gave", -1, "inactive", 0);
}

/* A limit that is lowered takes down what is open, too. */
static void case_limit(void)
{
	u32 i;
	int fd = kloc_open_cached();

	kloc_set("memsize", "0 1M");
	for (i = 0; i < 64 && kloc_where(fd, BYTES).fast; i++) {
		kloc_tick(1);
		kloc_wait();
	}
	kloc_expect("over the limit", fd, BYTES, 0, PAGES);
	kloc_check_data(fd, BYTES);
	close(fd);
}

/* The group's own counters say the same of its pages. */
static void case_numa_stat(void)
{
	const char *name = "/sys/fs/cgroup/lodic-test/memory.numa_stat";
	long long n[2] = { -1, -1 };
	char line[256];
	pid_t pid;
	FILE *f;
	int fd;

	kloc_make();
	if (!memcg_make())
		ktap_bail("no memory control group");
	fflush(stdout);
	pid = fork();
	if (!pid) {
		memcg_enter();
		fd = kloc_must_open(kloc_at.path, O_RDONLY);
		kloc_check_data(fd, BYTES);
		close(fd);
		_exit(ktap_failing());
	}
	waitpid(pid, NULL, 0);
	kloc_wait();
	/* Counters of CPUs are added up every two seconds. */
	clock_sleep_ms(2500);
	f = fopen(name, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "file N0=%lld N1=%lld", &n[0], &n[1]) == 2)
			break;
	if (f)
		fclose(f);
	if (n[0] != 0 || n[1] != (long long)BYTES)
		ktap_fail("file N0=%lld N1=%lld", n[0], n[1]);
	unlink(kloc_at.path);
	memcg_remove();
}

/* -- Beside others ------------------------------------------------------------------------- */

/* The file system goes while the thread moves a file of it, slowly. */
static void case_umount(void)
{
	struct test_fs fs;
	const char *was = kloc_at.dir;
	int fd;

	if (fs_mount("tmpfs", &fs))
		ktap_bail("mount");
	kloc_at.dir = fs.dir;
	kloc_set("rate_mb", "1");
	kloc_make();
	fd = kloc_must_open(kloc_at.path, O_RDONLY);
	close(fd);
	fs_umount(&fs);
	kloc_set("rate_mb", "0");
	kloc_wait();
	kloc_at.dir = was;
}

static void case_off(void)
{
	long long opens = kloc_stat("opens") - kloc_stat("closes");
	int fd = kloc_open_cached();

	kloc_set("rate_mb", "1");
	close(fd);
	fd = kloc_must_open(kloc_at.path, O_RDONLY);
	close(fd);
	fd = kloc_must_open(kloc_at.path, O_RDONLY);
	kloc_set("enabled", "0");
	kloc_wait();
	close(fd);
	kloc_set("rate_mb", "0");
	if (kloc_stat("opens") - kloc_stat("closes") != opens)
		ktap_fail("%lld opens, %lld closes", kloc_stat("opens"), kloc_stat("closes"));
	kloc_set("enabled", "1");
	fd = kloc_must_open(kloc_at.path, O_RDONLY);
	kloc_check_data(fd, BYTES);
	close(fd);
}

static const struct kloc_case cases[] = {
	{ "close-ext4", "/mnt/ext4", case_close },
	{ "close-xfs", "/mnt/xfs", case_close },
	{ "close-tmpfs", "/mnt/tmpfs", case_close },
	{ "dirty-ext4", "/mnt/ext4", case_dirty },
	{ "dirty-xfs", "/mnt/xfs", case_dirty },
	{ "promote", "/mnt/ext4", case_promote },
	{ "promote-tmpfs", "/mnt/tmpfs", case_promote },
	{ "cancel", "/mnt/ext4", case_cancel },
	{ "unlink", "/mnt/ext4", case_unlink },
	{ "age", "/mnt/ext4", case_age },
	{ "uses", "/mnt/ext4", case_uses },
	{ "ping-pong", "/mnt/ext4", case_ping_pong },
	{ "busy", "/mnt/ext4", case_busy },
	{ "place", "/mnt/ext4", case_place },
	{ "not-counted", "/mnt/ext4", case_not_counted },
	{ "limit", "/mnt/ext4", case_limit },
	{ "numa-stat", "/mnt/ext4", case_numa_stat },
	{ "umount", "/mnt/ext4", case_umount },
	{ "off", "/mnt/ext4", case_off },
};

/* What each rule's case must notice. Those that corrupt memory have boots of their own. */
static const struct kloc_control controls[] = {
	{ "close-first", "close-ext4" },  { "close-twice", "close-ext4" },
	{ "unlink-open", "unlink" },      { "aged-stays", "age" },
	{ "uses-lost", "uses" },          { "counter-ignored", "ping-pong" },
	{ "pass-goes-on", "cancel" },     { "busy-lost", "busy" },
	{ "limit-ignored", "place" },     { "place-any-state", "not-counted" },
};

int main(int argc, char **argv)
{
	return kloc_cases_main(argc, argv, cases, NR(cases), controls, NR(controls));
}
