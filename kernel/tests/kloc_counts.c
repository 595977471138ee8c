// SPDX-License-Identifier: GPL-2.0
/*
 * What each policy does to the pages of the same script on a machine with two tiers, to the page.
 * The stock kernel's rows are beside those of KLOC. A row runs twice. It fails if the two differ,
 * or if they are not what the table says.
 *
 * The script: a file is read and closed. A memory cgroup reclaims half of it. It is opened again,
 * read four times, and mapped. Then something else fills fast memory, but for one file that is
 * closed, and a second file is read. Then the second file is read where memsize gives it nothing.
 */
#include "kloc.h"
#include "proactive.h"
#include "test.h"

#include <linux/mempolicy.h>

#define FILE_PAGES 2048ul
#define SECOND_PAGES 512ul
#define FILE_SIZE (FILE_PAGES * PAGE)
#define SECOND_SIZE (SECOND_PAGES * PAGE)
/* Of fast memory, what is free while the files come and go: both of them, and their slack. */
#define ROOM_PAGES 8192ul
#define PATH "/mnt/ext4/counts"
#define SECOND "/mnt/ext4/counts-second"
#define SMALL "/mnt/ext4/counts-small"
#define NR_SMALL 500
#define SYSCTL "/proc/sys/kernel/numa_balancing"
#define PCP_FRACTION "/proc/sys/vm/percpu_pagelist_high_fraction"
#define BALANCING "/sys/kernel/debug/sched/numa_balancing/"
/* Hint faults need some rounds of the scanner, which a loaded host makes slow. */
#define BALANCING_NS 25000000000ull

/* Where the file's pages are after each step, those of the second file, and what moved. */
enum count {
	READ_FAST, READ_SLOW, CLOSED_FAST, CLOSED_SLOW, PRESSED_FAST, PRESSED_SLOW,
	OPEN_FAST, OPEN_SLOW, REREAD_FAST, REREAD_SLOW, MAPPED_FAST, MAPPED_SLOW,
	FULL_FAST, FULL_SLOW, SHARE_FAST, SHARE_SLOW,
	PLACED_FAST, PLACED_SLOW, DEMOTED, PROMOTED, SLAB_MOVED,
	NR_COUNTS
};

/* Of each pair, and then of each single count. */
static const char *const heads[] = {
	"read", "closed", "pressure", "opened", "read 4 times", "mapped", "second, full",
	"second, no share", "placed", "demoted", "promoted", "slabs moved",
};

struct policy {
	const char *title;
	const char *name; /* in KLOC_DIR "policy"; NULL: kloc is off */
	bool demotes;     /* reclaim demotes */
	bool balances;    /* hint faults promote */
	bool promotes;    /* opens promote */
	long expect[NR_COUNTS];
};

static const struct policy policies[] = {
	{ "stock", NULL, false, false, false,
	  { 2048, 0, 2048, 0, 969, 0, 969, 0, 2048, 0,
	    2048, 0, 0, 512, 512, 0, 5687, 512, 0, 0, 0 } },
	{ "stock, demotion", NULL, true, false, false,
	  { 2048, 0, 2048, 0, 1206, 633, 1206, 633, 1415, 633,
	    1415, 633, 0, 512, 512, 0, 4817, 512, 842, 0, 0 } },
	{ "naive", "naive", false, false, false,
	  { 2048, 0, 2048, 0, 969, 0, 969, 0, 2048, 0,
	    2048, 0, 0, 512, 512, 0, 5687, 512, 0, 0, 0 } },
	{ "nimble", "nimble", true, false, false,
	  { 2048, 0, 2048, 0, 1206, 633, 1206, 633, 1415, 633,
	    1415, 633, 0, 512, 512, 0, 4817, 512, 842, 0, 0 } },
	{ "autonuma", "autonuma", true, true, false,
	  { 2048, 0, 2048, 0, 1206, 633, 1206, 633, 1415, 633,
	    2048, 0, 0, 512, 512, 0, 4817, 512, 842, 633, 0 } },
	{ "kloc-nomigration", "kloc-nomigration", true, false, false,
	  { 2048, 0, 2048, 0, 1206, 633, 1206, 633, 1415, 633,
	    1415, 633, 0, 512, 0, 512, 4305, 1024, 842, 0, 0 } },
	{ "kloc", "kloc", true, false, false,
	  { 2048, 0, 0, 2048, 0, 971, 0, 971, 1077, 971,
	    1077, 971, 512, 0, 0, 512, 5685, 512, 5685, 0, 0 } },
	{ "kloc, promote", "kloc", true, false, true,
	  { 2048, 0, 0, 2048, 0, 971, 971, 0, 2048, 0,
	    2048, 0, 512, 0, 0, 512, 5685, 512, 6656, 971, 0 } },
};

static u8 *expect, *dest;

/* -- What fills fast memory ---------------------------------------------------------------- */

#define HOG_BYTES (1ul << 30)
#define HOG_STEP 16ul

static char *hog;
static size_t hog_pages;

/* Nobody scans memory with a policy of its own for hint faults. */
static void hog_make(void)
{
	unsigned long nodes = 1;

	hog = mmap(NULL, HOG_BYTES, PROT_READ | PROT_WRITE,
	           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (hog == MAP_FAILED || madvise(hog, HOG_BYTES, MADV_NOHUGEPAGE) ||
	    syscall(SYS_mbind, hog, HOG_BYTES, MPOL_PREFERRED, &nodes, 8 * sizeof(nodes), 0))
		ktap_bail("hog");
}

/* Of the last HOG_STEP pages, how many are in slow memory. */
static u32 hog_slow(void)
{
	void *pages[HOG_STEP];
	int nodes[HOG_STEP];
	u32 i, slow = 0;

	for (i = 0; i < HOG_STEP; i++)
		pages[i] = hog + (hog_pages - HOG_STEP + i) * PAGE;
	if (file_move_pages(0, HOG_STEP, pages, NULL, nodes, 0))
		ktap_bail("move_pages");
	for (i = 0; i < HOG_STEP; i++)
		slow += nodes[i] == 1;
	return slow;
}

static void hog_shrink(size_t pages)
{
	hog_pages -= pages;
	madvise(hog + hog_pages * PAGE, pages * PAGE, MADV_DONTNEED);
}

/* Takes fast memory until Linux gives it slow memory instead. */
static void hog_fill(void)
{
	size_t i;

	do {
		if (hog_pages * PAGE >= HOG_BYTES)
			ktap_bail("fast memory has no end");
		for (i = 0; i < HOG_STEP; i++)
			hog[hog_pages++ * PAGE] = 1;
	} while (hog_slow() < HOG_STEP);
	hog_shrink(HOG_STEP);
}

/* -- The machine --------------------------------------------------------------------------- */

static void must_write(const char *path, u64 n)
{
	int err = text_write_number(path, n);

	if (err) {
		errno = -err;
		ktap_bail("%s", path);
	}
}

static void set_up(const struct policy *p)
{
	kloc_reset();
	kloc_set("enabled", p->name ? "1" : "0");
	if (p->name)
		kloc_set("policy", p->name);
	kloc_set("promote", p->promotes ? "1" : "0");
	must_write("/sys/kernel/mm/numa/demotion_enabled", p->demotes);
	must_write(SYSCTL, p->balances ? 2 : 0);
}

/* Pages that Linux itself and kloc have moved, since boot. */
static long moved(bool down)
{
	static const char *const names[] = { "pgdemote_kswapd", "pgdemote_direct",
		                             "pgdemote_khugepaged" };
	long n = kloc_stat(down ? "demoted" : "promoted");
	u32 i;

	/* Processors keep what they counted to themselves for a while. */
	text_write("/proc/sys/vm/stat_refresh", "1");
	if (!down)
		return n + text_vmstat("pgpromote_success");
	for (i = 0; i < NR(names); i++)
		n += text_vmstat(names[i]);
	return n;
}

/* Slabs of inodes, dentries and the page cache's trees on node 1. */
static long slab_slow(void)
{
	static const char *const caches[] = { "ext4_inode_cache", "dentry", "radix_tree_node" };
	char path[100], line[100] = "";
	long n, sum = 0;
	char *at;
	FILE *f;
	u32 i;

	for (i = 0; i < NR(caches); i++) {
		snprintf(path, sizeof(path), "/sys/kernel/slab/%s/slabs", caches[i]);
		f = fopen(path, "re");
		if (!f || !fgets(line, sizeof(line), f))
			ktap_bail("%s", path);
		fclose(f);
		at = strstr(line, "N1=");
		n = at ? atol(at + 3) : 0;
		sum += n;
	}
	return sum;
}

/* -- The script ---------------------------------------------------------------------------- */

static int must_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC);

	if (fd < 0)
		ktap_bail("open %s", path);
	return fd;
}

static void read_all(int fd, size_t bytes)
{
	size_t at = 0, zeros;

	if (pread(fd, dest, bytes, 0) != (ssize_t)bytes)
		ktap_bail("read");
	if (data_check(dest, expect, bytes, false, &at, &zeros))
		ktap_fail("byte %zu is wrong", at);
}

static void note(long *n, enum count at, int look, size_t bytes)
{
	struct kloc_where w;

	kloc_wait();
	w = kloc_where(look, bytes);
	n[at] = w.fast;
	n[at + 1] = w.slow;
}

/* What has come in since an earlier step: nothing moves meanwhile. */
static void placed(long *n, enum count before, enum count after)
{
	n[PLACED_FAST] += n[after] - n[before];
	n[PLACED_SLOW] += n[after + 1] - n[before + 1];
}

/* A program maps the file and reads it there. Where hint faults promote, it does so for long. */
static void map_it(int fd, const struct policy *p, int look)
{
	char *map = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	u64 end = clock_now_ns() + (p->balances ? BALANCING_NS : 0);
	size_t i;

	if (map == MAP_FAILED)
		ktap_bail("mmap");
	do {
		for (i = 0; i < FILE_PAGES; i++)
			*(volatile char *)(map + i * PAGE);
	} while (clock_now_ns() < end && kloc_where(look, FILE_SIZE).slow);
	munmap(map, FILE_SIZE);
}

static void stat_small(void)
{
	char name[100];
	struct stat st;
	u32 i;

	for (i = 0; i < NR_SMALL; i++) {
		snprintf(name, sizeof(name), SMALL "/%u", i);
		if (stat(name, &st))
			ktap_bail("stat");
	}
}

/* While fast memory has room. */
static void run_file(const struct policy *p, int look, long *n)
{
	long slab;
	int fd;

	if (proactive_enter())
		ktap_bail("no memory cgroup");
	stat_small();
	fd = must_open(PATH, O_RDWR);
	read_all(fd, FILE_SIZE);
	note(n, READ_FAST, look, FILE_SIZE);
	n[PLACED_FAST] = n[READ_FAST];
	n[PLACED_SLOW] = n[READ_SLOW];
	slab = slab_slow();
	close(fd);
	note(n, CLOSED_FAST, look, FILE_SIZE);
	proactive_reclaim_files(FILE_SIZE / 2);
	note(n, PRESSED_FAST, look, FILE_SIZE);
	n[SLAB_MOVED] = slab_slow() - slab;
	fd = must_open(PATH, O_RDWR);
	note(n, OPEN_FAST, look, FILE_SIZE);
	read_all(fd, FILE_SIZE);
	read_all(fd, FILE_SIZE);
	read_all(fd, FILE_SIZE);
	read_all(fd, FILE_SIZE);
	note(n, REREAD_FAST, look, FILE_SIZE);
	placed(n, OPEN_FAST, REREAD_FAST);
	map_it(fd, p, look);
	note(n, MAPPED_FAST, look, FILE_SIZE);
	close(fd);
	kloc_wait();
	proactive_leave();
}

/* The second file, when fast memory is full but for the first one's pages. */
static void run_second(int look, int second, long *n)
{
	int fd;

	posix_fadvise(look, 0, 0, POSIX_FADV_DONTNEED);
	fd = must_open(PATH, O_RDWR);
	read_all(fd, FILE_SIZE);
	n[PLACED_FAST] += FILE_PAGES;
	hog_fill();
	close(fd);
	kloc_wait();
	fd = must_open(SECOND, O_RDONLY);
	read_all(fd, SECOND_SIZE);
	note(n, FULL_FAST, second, SECOND_SIZE);
	close(fd);
	kloc_wait();
	hog_shrink(ROOM_PAGES);
	posix_fadvise(look, 0, 0, POSIX_FADV_DONTNEED);
	posix_fadvise(second, 0, 0, POSIX_FADV_DONTNEED);
	kloc_set("memsize", "0 0");
	fd = must_open(SECOND, O_RDONLY);
	read_all(fd, SECOND_SIZE);
	note(n, SHARE_FAST, second, SECOND_SIZE);
	close(fd);
	n[PLACED_FAST] += n[FULL_FAST] + n[SHARE_FAST];
	n[PLACED_SLOW] += n[FULL_SLOW] + n[SHARE_SLOW];
}

static void run(const struct policy *p, long *n)
{
	long demoted = moved(true), promoted = moved(false);
	int look, second;

	memset(n, 0, NR_COUNTS * sizeof(*n));
	/* Opens while kloc is off are not counted, so one can look at a file that is closed. */
	kloc_reset();
	kloc_set("enabled", "0");
	if (file_make(PATH, expect, FILE_SIZE) || file_make(SECOND, expect, SECOND_SIZE))
		ktap_bail("files");
	look = must_open(PATH, O_RDONLY);
	second = must_open(SECOND, O_RDONLY);
	set_up(p);
	run_file(p, look, n);
	run_second(look, second, n);
	kloc_wait();
	n[DEMOTED] = moved(true) - demoted;
	n[PROMOTED] = moved(false) - promoted;
	close(look);
	close(second);
	unlink(PATH);
	unlink(SECOND);
}

/* -- The table ----------------------------------------------------------------------------- */

static const char *name_of(u32 count)
{
	return heads[count < DEMOTED ? count / 2 : DEMOTED / 2 + count - DEMOTED];
}

static void print_heads(void)
{
	u32 i;

	printf("# | policy |");
	for (i = 0; i < NR(heads); i++)
		printf(" %s |", heads[i]);
	printf("\n");
}

static void print_row(const char *title, const long *n)
{
	u32 i;

	printf("# | %s |", title);
	for (i = 0; i < DEMOTED; i += 2)
		printf(" %ld / %ld |", n[i], n[i + 1]);
	for (; i < NR_COUNTS; i++)
		printf(" %ld |", n[i]);
	printf("\n");
}

static void check(const char *what, const long *n, const long *want)
{
	u32 i;

	for (i = 0; i < NR_COUNTS; i++)
		if (n[i] != want[i])
			ktap_fail("%s: %s, %s: %ld, not %ld", what, name_of(i),
			          i >= DEMOTED ? "pages" : i % 2 ? "slow" : "fast", n[i],
			          want[i]);
}

static void row(const struct policy *p, bool is_known)
{
	long first[NR_COUNTS], second[NR_COUNTS];

	run(p, first);
	run(p, second);
	print_row(p->title, first);
	check("the second run", second, first);
	if (is_known)
		check("the table", first, p->expect);
	ktap_result(p->title);
}

static bool known(const char *name)
{
	u32 i;

	for (i = 0; i < NR(policies); i++)
		if (policies[i].name && !strcmp(policies[i].name, name))
			return true;
	return false;
}

/* The kernel's policies that the table does not know: their two runs must agree. */
static u32 others(bool run_them)
{
	FILE *f = fopen(KLOC_DIR "policy", "re");
	char word[40], *name;
	u32 nr = 0;

	while (f && fscanf(f, "%39s", word) == 1) {
		struct policy p = { .demotes = true };

		name = word + (word[0] == '[');
		name[strcspn(name, "]")] = 0;
		if (known(name))
			continue;
		nr++;
		p.title = p.name = name;
		if (run_them)
			row(&p, false);
	}
	if (f)
		fclose(f);
	return nr;
}

static void make_small(void)
{
	char name[100];
	u32 i;

	mkdir(SMALL, 0755);
	for (i = 0; i < NR_SMALL; i++) {
		snprintf(name, sizeof(name), SMALL "/%u", i);
		close(must_open(name, O_CREAT | O_WRONLY));
	}
	sync();
}

static void remove_small(void)
{
	char name[100];
	u32 i;

	for (i = 0; i < NR_SMALL; i++) {
		snprintf(name, sizeof(name), SMALL "/%u", i);
		unlink(name);
	}
	rmdir(SMALL);
}

int main(int argc, char **argv)
{
	u32 i;

	options_parse(argc, argv);
	if (!kloc_there()) {
		printf("1..0 # SKIP no KLOC, or no node of memory alone\n");
		return KTAP_SKIPPED;
	}
	expect = data_expected(FILE_SIZE);
	dest = malloc(FILE_SIZE);
	memset(dest, 1, FILE_SIZE);
	ktap_plan(NR(policies) + others(false));
	must_write(BALANCING "scan_delay_ms", 1);
	must_write(BALANCING "scan_period_min_ms", 10);
	/* However late the fault comes after the scan, the page is hot. */
	must_write(BALANCING "hot_threshold_ms", 60000);
	/* Pages that a processor keeps for itself are not free for others: let it keep few. */
	must_write(PCP_FRACTION, 10000);
	make_small();
	hog_make();
	hog_fill();
	hog_shrink(ROOM_PAGES);
	print_heads();
	for (i = 0; i < NR(policies); i++)
		row(&policies[i], true);
	others(true);
	remove_small();
	must_write(PCP_FRACTION, 0);
	kloc_reset();
	kloc_set("enabled", "0");
	return ktap_end();
}
