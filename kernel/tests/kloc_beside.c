// SPDX-License-Identifier: GPL-2.0
/*
 * KLOC moves files to and fro while everything else goes on with them: see lib/kloc_work.h. Four
 * processes open and close them all the time, so passes begin and are cancelled throughout. The
 * cases differ in what happens to memory meanwhile. Blocks of the slow node go and come back. NUMA
 * balancing moves mapped pages. A group reclaims its own pages at its limit.
 *
 * At the end of a case every open has had its close, and pages were demoted and promoted. No page
 * is still isolated. The data is right, and no page stays resident without a user.
 */
#include "balancing.h"
#include "block.h"
#include "kloc.h"
#include "kloc_work.h"
#include "memcg.h"
#include "test.h"

#define SECONDS 8
#define NR_WORKERS 4
/* A file that no worker knows. */
#define RESTING "/mnt/ext4/resting"
#define REST_BYTES (2ul << 20)
#define REST_PAGES (REST_BYTES / PAGE)
#define MAX_BLOCKS 64
/* Four workers with a buffer each, and the memory of the kernel for them, leave little of that. */
#define GROUP_BYTES (10ul << 20)

struct beside {
	const char *name;
	const char *(*setup)(void); /* returns why the case cannot be */
	void (*round)(u32 round);   /* over and over, while all of them work */
	bool (*shown)(void);        /* whether it has happened; until then they go on */
	void (*teardown)(void);     /* kloc is as at boot, and nobody works any more */
};

/* What the processes of a case have done together. */
static struct {
	u32 nr_rounds, nr_switched;
} *shared;
static bool switches; /* kloc goes off and on meanwhile */
static int klog;

/* -- Blocks of the slow node go and come back ---------------------------------------------- */

static u32 blocks[MAX_BLOCKS], nr_blocks; /* of the slow node, if they can go */
static u32 nr_gone, nr_refused, nr_hit;
static bool movable; /* they come back for programs and page cache alone */

/* The block of a page of the resting file; 0: it is just moving, or in no block that can go. */
static u32 rest_block(const char *map, u32 page)
{
	u64 frame;
	u32 i;

	(void)*(volatile const char *)(map + page * PAGE);
	frame = file_frame(map + page * PAGE);
	for (i = 0; frame && i < nr_blocks; i++) {
		if (blocks[i] == block_of(frame))
			return blocks[i];
	}
	return 0;
}

/* How many of its pages are in a block. */
static u32 rest_in(const char *map, u32 id)
{
	u32 i, nr = 0;

	for (i = 0; i < REST_PAGES; i++)
		nr += rest_block(map, i) == id;
	return nr;
}

static void rest_read(void)
{
	static u8 *got;
	size_t at = 0, zeros;
	int fd = open(RESTING, O_RDONLY | O_CLOEXEC);

	if (!got)
		got = malloc(REST_BYTES);
	if (fd < 0 || pread(fd, got, REST_BYTES, 0) != (ssize_t)REST_BYTES)
		ktap_bail(RESTING);
	if (data_check(got, kloc_expected, REST_BYTES, false, &at, &zeros))
		ktap_fail(RESTING ": byte %zu is 0x%02x", at, got[at]);
	close(fd);
}

/* All of a mapping of the resting file goes to a node. */
static void rest_to(char *map, int node)
{
	static int nodes[REST_PAGES], status[REST_PAGES];
	static void *pages[REST_PAGES];
	u32 i;

	for (i = 0; i < REST_PAGES; i++) {
		pages[i] = map + i * PAGE;
		nodes[i] = node;
	}
	madvise(map, REST_BYTES, MADV_POPULATE_READ);
	file_move_pages(0, REST_PAGES, pages, nodes, status, MOVE_ALL);
}

static char *rest_map(void)
{
	int fd = open(RESTING, O_RDWR | O_CLOEXEC);
	char *map = mmap(NULL, REST_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	close(fd);
	if (map == MAP_FAILED)
		ktap_bail(RESTING);
	return map;
}

static const char *rest_make(void)
{
	int err = file_make(RESTING, kloc_expected, REST_BYTES);

	if (err)
		return strerror(-err);
	rest_read();
	return NULL;
}

static void rest_end(void)
{
	rest_read();
	file_check_evictable(RESTING);
	unlink(RESTING);
}

/* A block with memory of the kernel's own cannot go. */
static const char *blocks_setup(bool wanted)
{
	u32 all[MAX_BLOCKS], nr = block_list(1, all, MAX_BLOCKS), i;

	if (!nr)
		return "this kernel removes no memory";
	movable = wanted;
	nr_blocks = nr_gone = nr_refused = nr_hit = 0;
	for (i = 0; i < nr; i++) {
		if (block_offline(all[i]))
			continue;
		if (block_online(all[i], movable) || block_is_movable(all[i]) != movable)
			ktap_bail("block %u does not come back", all[i]);
		blocks[nr_blocks++] = all[i];
	}
	ktap_diag("%u of the slow node's %u blocks can go", nr_blocks, nr);
	if (!nr_blocks)
		ktap_bail("no block can go");
	return rest_make();
}

static const char *normal_setup(void)
{
	return blocks_setup(false);
}

static const char *movable_setup(void)
{
	return blocks_setup(true);
}

/*
 * Removes a block with pages of the resting file, which KLOC takes down again at its close, and
 * brings it back. In each second round the file is mapped meanwhile.
 */
static void blocks_round(u32 round)
{
	bool mapped = round % 2;
	char *map = rest_map();
	u32 id = 0, in, i;
	int err;

	for (i = 0; i < REST_PAGES && !id; i++)
		id = rest_block(map, (round * 17 + i) % REST_PAGES);
	id = id ? id : blocks[round % nr_blocks];
	in = rest_in(map, id);
	if (!mapped)
		munmap(map, REST_BYTES);
	err = block_offline(id);
	if (err) {
		nr_refused++;
		if (movable)
			ktap_fail("block %u is movable, and stays: %s", id, strerror(-err));
	} else {
		nr_gone++;
		nr_hit += !!in;
		if (mapped && rest_in(map, id))
			ktap_fail("pages of " RESTING " are in block %u, which is gone", id);
		if (block_online(id, movable))
			ktap_fail("block %u does not come back", id);
	}
	if (mapped)
		munmap(map, REST_BYTES);
	rest_read();
}

/*
 * Without ZONE_MOVABLE Linux fills those blocks first that cannot go. So the file may be in none
 * that goes.
 */
static bool blocks_shown(void)
{
	return movable ? nr_hit : nr_gone;
}

static void blocks_teardown(void)
{
	u32 i, n;

	rest_end();
	ktap_diag("%u blocks went, %u of them with pages of the file, %u stayed", nr_gone, nr_hit,
	          nr_refused);
	if (!blocks_shown())
		ktap_fail("no block went, or none with the file: shows nothing");
	for (i = 0; movable && i < nr_blocks; i++) {
		for (n = 0; n < 10 && block_offline(blocks[i]); n++)
			;
		if (block_online(blocks[i], false))
			ktap_fail("block %u is not as it was", blocks[i]);
	}
}

/* -- NUMA balancing ------------------------------------------------------------------------- */

static long long hinted, balanced;
static pid_t toucher;

/* Its loads fault where balancing looks, and balancing brings what it finds to its processor. */
static void touch(void)
{
	u32 round, i;

	for (;;) {
		char *map = rest_map();

		for (round = 0; round < 50; round++) {
			if (round % 10 == 0)
				rest_to(map, 1);
			for (i = 0; i < REST_BYTES; i += PAGE)
				if ((u8)map[i] != kloc_expected[i])
					_exit(3);
			clock_sleep_ms(5);
		}
		munmap(map, REST_BYTES);
		clock_sleep_ms(20);
	}
}

static const char *balancing_setup(void)
{
	const char *why;

	if (text_read_number("/proc/sys/kernel/numa_balancing") != 1)
		return "no NUMA balancing";
	if (balancing_fast(true))
		return "the scan's period cannot be set";
	why = rest_make();
	if (why)
		return why;
	hinted = text_vmstat("numa_hint_faults");
	balanced = text_vmstat("numa_pages_migrated");
	toucher = fork();
	if (!toucher)
		touch();
	return NULL;
}

static void balancing_round(u32 round)
{
	/* For what it is here: from any node, and then from slow memory only. */
	text_write_number("/proc/sys/kernel/numa_balancing", round % 32 < 16 ? 1 : 2);
	if (waitpid(toucher, NULL, WNOHANG))
		ktap_bail("who touches has found a wrong byte");
}

static bool balancing_shown(void)
{
	return text_vmstat("numa_pages_migrated") > balanced;
}

static void balancing_teardown(void)
{
	kill(toucher, SIGKILL);
	waitpid(toucher, NULL, 0);
	text_write_number("/proc/sys/kernel/numa_balancing", 1);
	balancing_fast(false);
	hinted = text_vmstat("numa_hint_faults") - hinted;
	balanced = text_vmstat("numa_pages_migrated") - balanced;
	ktap_diag("%lld hint faults, %lld pages went by them", hinted, balanced);
	if (!hinted || !balanced)
		ktap_fail("NUMA balancing moved nothing: shows nothing");
	rest_end();
}

/* -- A group at its limit ------------------------------------------------------------------- */

static long long at_limit;

static const char *limit_setup(void)
{
	at_limit = memcg_event("max");
	if (at_limit < 0 || memcg_limit(GROUP_BYTES))
		return "no limit for a group";
	return NULL;
}

static bool limit_shown(void)
{
	return memcg_event("max") > at_limit;
}

static void limit_teardown(void)
{
	long long hits = memcg_event("max") - at_limit, left = -1;
	u32 i;

	ktap_diag("%lld times at the limit, %lld times out of memory", hits, memcg_event("oom"));
	if (!hits)
		ktap_fail("the group was never at its limit: shows nothing");
	if (memcg_event("oom") || memcg_event("oom_kill"))
		ktap_fail("the group ran out of memory, %lld were killed",
		          memcg_event("oom_kill"));
	/* Counters of CPUs are added up every two seconds. */
	for (i = 0; i < 50 && left; i++) {
		clock_sleep_ms(100);
		left = memcg_stat("file");
	}
	if (left)
		ktap_fail("%lld bytes of page cache are left in the group", left);
}

/* -- A case --------------------------------------------------------------------------------- */

/* What the administrator does meanwhile. */
static void disturb(void)
{
	u32 round = shared->nr_rounds++;

	kloc_set("promote", round & 1 ? "1" : "0");
	kloc_set("memsize", round % 8 == 7 ? "0 1M" : "0 max");
	kloc_set("policy", round % 16 == 15 ? "naive" : "kloc");
	kloc_tick(1);
	/* QEMU cannot do that with a thread for each processor: boot/one-thread.args. */
	if (round % 32 == 31 && switches) {
		kloc_set("enabled", "0");
		kloc_set("enabled", "1");
		shared->nr_switched++;
	}
	if (round % 8 == 3)
		text_write("/sys/fs/cgroup/lodic-test/memory.reclaim", "1M");
	clock_sleep_ms(20);
}

/* The workers, and after them the administrator. */
static void work(u32 i)
{
	struct kloc_worker w;

	while (i == NR_WORKERS)
		disturb();
	memcg_enter();
	kloc_worker_make(&w, i);
	for (;;)
		kloc_work(&w, random_next(&w.rng) % 2 ? "/mnt/ext4" : "/mnt/xfs");
}

static void work_all(const struct beside *b)
{
	u64 began = clock_now_ns(), second = 1000000000, now = began;
	pid_t pids[NR_WORKERS + 1];
	u32 i, round;
	int status;

	for (i = 0; i < NR(pids); i++) {
		pids[i] = fork();
		if (!pids[i])
			work(i);
	}
	/* On a slow machine as much longer as it takes, up to a limit. */
	for (round = 0; now < began + opt.seconds * second ||
	                (b->shown && !b->shown() && now < began + 5 * opt.seconds * second);
	     round++) {
		clock_sleep_ms(20);
		if (b->round)
			b->round(round);
		for (i = 0; i < NR(pids); i++)
			if (pids[i] && waitpid(pids[i], &status, WNOHANG)) {
				ktap_fail("worker %u ended: 0x%x", i, status);
				pids[i] = 0;
			}
		now = clock_now_ns();
	}
	for (i = 0; i < NR(pids); i++) {
		if (!pids[i])
			continue;
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
}

static void beside(const struct beside *b)
{
	long long demoted = kloc_stat("demoted"), promoted = kloc_stat("promoted");
	long long cancelled = kloc_stat("cancelled"), busy = kloc_stat("busy");

	shared->nr_rounds = shared->nr_switched = 0;
	work_all(b);
	demoted = kloc_stat("demoted") - demoted;
	promoted = kloc_stat("promoted") - promoted;
	kloc_reset();
	ktap_diag("%u rounds: %lld pages demoted, %lld promoted, %lld passes cancelled, %lld busy",
	          shared->nr_rounds, demoted, promoted, kloc_stat("cancelled") - cancelled,
	          kloc_stat("busy") - busy);
	if (!demoted || !promoted)
		ktap_fail("nothing was demoted, or nothing promoted");
	if (switches && !shared->nr_switched)
		ktap_fail("kloc was never switched off");
	kloc_work_end("/mnt/ext4");
	kloc_work_end("/mnt/xfs");
	if (b->teardown)
		b->teardown();
	kloc_wait();
}

static void run(const struct beside *b)
{
	long long opens = kloc_open_now();
	const char *why;

	memcg_make();
	kloc_reset();
	kloc_set("tick_ms", "50");
	kloc_set("age_limit", "3");
	why = b->setup ? b->setup() : NULL;
	if (why) {
		kloc_reset();
		memcg_remove();
		ktap_skip(b->name, why);
		return;
	}
	beside(b);
	kloc_check_sums(opens);
	memcg_remove();
	klog_check(klog);
	ktap_result(b->name);
}

static const struct beside cases[] = {
	{ .name = "beside" },
	{ "remove-normal", normal_setup, blocks_round, blocks_shown, blocks_teardown },
	{ "remove-movable", movable_setup, blocks_round, blocks_shown, blocks_teardown },
	{ "balancing", balancing_setup, balancing_round, balancing_shown, balancing_teardown },
	{ "memory-max", limit_setup, NULL, limit_shown, limit_teardown },
};

int main(int argc, char **argv)
{
	u32 i;

	opt.seconds = SECONDS;
	options_parse(argc, argv);
	if (!kloc_there()) {
		printf("1..0 # SKIP no KLOC, or no node of memory alone\n");
		return KTAP_SKIPPED;
	}
	ktap_plan(opt.only ? 1 : NR(cases));
	klog = klog_open();
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		ktap_bail("mmap");
	kloc_expected = data_expected(REST_BYTES);
	switches = text_has_word("/proc/cmdline", "lodic.one_thread");
	for (i = 0; i < NR(cases); i++) {
		if (opt.only && strcmp(opt.only, cases[i].name))
			continue;
		run(&cases[i]);
	}
	kloc_set("enabled", "0");
	return ktap_end();
}
