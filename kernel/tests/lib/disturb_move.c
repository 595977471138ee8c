// SPDX-License-Identifier: GPL-2.0
/*
 * Disturbers that put other memory behind a page, or another file system before it. They use
 * migration between nodes, compaction, breakpoints, memory errors and overlays.
 */
#include "disturb.h"

#include "clock.h"
#include "ktap.h"
#include "random.h"
#include "text.h"

#define TRACING "/sys/kernel/tracing"

bool disturb_two_nodes(void)
{
	return !access("/sys/devices/system/node/node1", F_OK);
}

static int disturb_move_setup(struct running *r)
{
	if (!disturb_two_nodes())
		return race_skip(r, "one memory node");
	r->done_name = "pages moved";
	return 0;
}

void disturb_move_pages(struct running *r)
{
	void *pages[8];
	int nodes[8], status[8];
	u32 i;

	for (i = 0; i < 8; i++) {
		pages[i] = r->map + i * PAGE;
		nodes[i] = r->round % 2;
		status[i] = -1;
	}
	madvise(r->map, HOT_BYTES, MADV_POPULATE_READ);
	if (file_move_pages(0, 8, pages, nodes, status, MOVE_ALL) < 0) {
		ktap_fail("move_pages: %s", strerror(errno));
		return;
	}
	for (i = 0; i < 8; i++)
		r->done += status[i] == nodes[i];
	clock_sleep_ms(1);
}

void disturb_migrate_pages(struct running *r)
{
	unsigned long from = 1ul << (r->round % 2), to = 3 ^ from;
	u32 victim = random_next(&r->rng) % r->crew.procs;
	long left = syscall(SYS_migrate_pages, r->crew.pid[victim], 3, &from, &to);

	if (left < 0)
		ktap_fail("migrate_pages: %s", strerror(errno));
	else
		r->done++;
	clock_sleep_ms(2);
}

static int disturb_migrate_setup(struct running *r)
{
	if (disturb_move_setup(r))
		return -1;
	r->done_name = "calls";
	return 0;
}

static int disturb_compact_setup(struct running *r)
{
	if (access("/proc/sys/vm/compact_memory", W_OK))
		return race_skip(r, "no compaction");
	return 0;
}

void disturb_compact(struct running *r)
{
	text_write("/proc/sys/vm/compact_memory", "1");
	/* Gives it something to do next time: readers read the hot pages in anew. */
	if (r->round % 4 == 0)
		posix_fadvise(r->fd, 0, 0, POSIX_FADV_DONTNEED);
	clock_sleep_ms(2);
}

/* -- breakpoints -------------------------------------------------------------------------- */

/* An offset in hot page 1 where a byte is a "nop", which may have a breakpoint. */
static long disturb_find_nop(void)
{
	u64 at;

	for (at = PAGE; at < 2 * PAGE - 16; at++) {
		if (race_expect[at] == 0x90)
			return at;
	}
	return -1;
}

static int disturb_uprobe_setup(struct running *r)
{
	char text[240];
	int err;

	/* Recording the names of tasks would patch the scheduler under load. */
	text_write(TRACING "/options/record-cmd", "0");
	text_write(TRACING "/uprobe_events", "");
	snprintf(text, sizeof(text), "p:lodic/hot %s:0x%lx\n", r->path,
	         disturb_find_nop());
	err = text_append(TRACING "/uprobe_events", text);
	if (err)
		return race_skip(r, "no uprobe: %s", strerror(-err));
	r->done_name = "probes set and removed";
	return 0;
}

/* A breakpoint replaces the file's page by a private copy in each mapping. */
static void disturb_uprobe(struct running *r)
{
	int on = text_write(TRACING "/events/lodic/hot/enable", "1");

	clock_sleep_ms(2);
	if (!on && !text_write(TRACING "/events/lodic/hot/enable", "0"))
		r->done++;
	clock_sleep_ms(2);
}

static void disturb_uprobe_teardown(struct running *r)
{
	text_write(TRACING "/events/lodic/hot/enable", "0");
	text_write(TRACING "/uprobe_events", "");
	if (!r->skip[0] && !r->done)
		ktap_fail("no probe could be set: shows nothing");
}

/* -- memory errors -------------------------------------------------------------------------- */

/* Each takes 4 KiB of the machine for good, so one run takes no more than this. */
#define MAX_POISON 64

static int disturb_poison_setup(struct running *r)
{
	r->done_name = "pages taken away";
	return 0;
}

static void disturb_poison(struct running *r, int advice)
{
	char *page = r->map + random_next(&r->rng) % 8 * PAGE;

	if (r->done >= MAX_POISON) {
		clock_sleep_ms(20);
		return;
	}
	madvise(r->map, HOT_BYTES, MADV_POPULATE_READ);
	if (!madvise(page, PAGE, advice))
		r->done++;
	else if (errno == EINVAL || errno == EPERM)
		ktap_fail("madvise(%d): %s", advice, strerror(errno));
	/* Time for write-back: the bytes of a dirty page would be lost. */
	clock_sleep_ms(5);
}

static void disturb_soft_offline(struct running *r)
{
	disturb_poison(r, MADV_SOFT_OFFLINE);
}

static void disturb_hwpoison(struct running *r)
{
	disturb_poison(r, MADV_HWPOISON);
}

static int disturb_hwpoison_setup(struct running *r)
{
	if (access("/proc/sys/vm/memory_failure_recovery", F_OK))
		return race_skip(r, "no memory failure handling");
	return disturb_poison_setup(r);
}

static void disturb_poison_teardown(struct running *r)
{
	if (!r->skip[0] && !r->done)
		ktap_fail("no page could be taken away: shows nothing");
}

/* -- a file seen through an overlay ----------------------------------------------------------- */

enum overlay_dirs { LOWER, EMPTY, MERGED };

static const char *disturb_overlay_dir(struct running *r, int which)
{
	static const char *const names[] = { "lower", "empty", "merged" };
	static char text[3][160];

	snprintf(text[which], sizeof(text[which]), "%s/overlay-%s", r->fs.dir,
	         names[which]);
	return text[which];
}

static int disturb_overlay_setup(struct running *r)
{
	static char path[200];
	char text[400];
	int i;

	for (i = LOWER; i <= MERGED; i++)
		mkdir(disturb_overlay_dir(r, i), 0755);
	snprintf(path, sizeof(path), "%s/f", disturb_overlay_dir(r, LOWER));
	if (link(r->path, path))
		return race_skip(r, "link: %s", strerror(errno));
	/* Two lower layers and no upper one, so that readers get the file below. */
	snprintf(text, sizeof(text), "lowerdir=%s:%s", disturb_overlay_dir(r, LOWER),
	         disturb_overlay_dir(r, EMPTY));
	if (mount("overlay", disturb_overlay_dir(r, MERGED), "overlay", MS_RDONLY,
	          text))
		return race_skip(r, "no overlay: %s", strerror(errno));
	snprintf(path, sizeof(path), "%s/f", disturb_overlay_dir(r, MERGED));
	r->crew.path = path;
	return 0;
}

static void disturb_overlay_teardown(struct running *r)
{
	char path[200];
	int i;

	if (!r->skip[0] && umount(disturb_overlay_dir(r, MERGED)))
		ktap_fail("umount overlay: %s", strerror(errno));
	snprintf(path, sizeof(path), "%s/f", disturb_overlay_dir(r, LOWER));
	unlink(path);
	for (i = LOWER; i <= MERGED; i++)
		rmdir(disturb_overlay_dir(r, i));
}

/* -- the table ------------------------------------------------------------------------------ */

#define MOVER(n, kind, f, fn, ...) \
	{ \
		.name = n, .fs = kind, .flags = f, .procs = 3, .threads = 2, \
		.outside = fn, __VA_ARGS__ \
	}

static const struct race races[] = {
	MOVER("move-pages", "ext4", 0, disturb_move_pages, .setup = disturb_move_setup,
	      .own_map = true, .min_fold = 1),
	MOVER("move-pages-xfs", "xfs", CREW_LARGE, disturb_move_pages,
	      .setup = disturb_move_setup, .own_map = true, .min_fold = 1),
	MOVER("move-pages-tmpfs", "tmpfs", 0, disturb_move_pages,
	      .setup = disturb_move_setup, .own_map = true, .min_fold = 1),
	/* Each call waits for all CPUs. A slow kernel makes few, and may fold none. */
	MOVER("migrate-pages", "ext4", 0, disturb_migrate_pages,
	      .setup = disturb_migrate_setup),
	MOVER("compact", "ext4", CREW_UNMAP | CREW_GUEST, disturb_compact,
	      .setup = disturb_compact_setup, .min_fold = 1),
	MOVER("uprobes", "ext4", CREW_GUEST | CREW_EXEC | CREW_PRIVATE, disturb_uprobe,
	      .setup = disturb_uprobe_setup, .teardown = disturb_uprobe_teardown,
	      .min_fold = 1),
	MOVER("soft-offline", "ext4", CREW_GUEST, disturb_soft_offline,
	      .setup = disturb_poison_setup, .teardown = disturb_poison_teardown,
	      .own_map = true, .min_fold = 1),
	MOVER("hwpoison", "ext4", CREW_GUEST | CREW_EIO, disturb_hwpoison,
	      .setup = disturb_hwpoison_setup, .teardown = disturb_poison_teardown,
	      .own_map = true, .min_fold = 1),
	MOVER("overlay", "ext4", CREW_GUEST, NULL, .inside = disturb_munmap,
	      .setup = disturb_overlay_setup, .teardown = disturb_overlay_teardown,
	      .min_fold = 1),
};

const struct race_table disturb_move = { races, NR(races) };
