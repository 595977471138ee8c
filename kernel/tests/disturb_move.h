/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Disturbers that put other memory behind a page, or another file system before it:
 * migration between nodes, compaction, breakpoints, memory errors, overlays.
 */
#ifndef LODIC_TESTS_DISTURB_MOVE_H
#define LODIC_TESTS_DISTURB_MOVE_H

#include "disturb_map.h"

#define TRACING "/sys/kernel/tracing"

static bool two_nodes(void)
{
	return !access("/sys/devices/system/node/node1", F_OK);
}

static int move_setup(struct running *r)
{
	if (!two_nodes())
		return skip(r, "one memory node");
	r->done_name = "pages moved";
	return 0;
}

static void do_move_pages(struct running *r)
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
	if (move_pages_raw(0, 8, pages, nodes, status, MOVE_ALL) < 0) {
		fail("move_pages: %s", strerror(errno));
		return;
	}
	for (i = 0; i < 8; i++)
		r->done += status[i] == nodes[i];
	sleep_ms(1);
}

static void do_migrate_pages(struct running *r)
{
	unsigned long from = 1ul << (r->round % 2), to = 3 ^ from;
	u32 victim = rnd(&r->rng) % r->crew.procs;
	long left = syscall(SYS_migrate_pages, r->crew.pid[victim], 3, &from, &to);

	if (left < 0)
		fail("migrate_pages: %s", strerror(errno));
	else
		r->done++;
	sleep_ms(2);
}

static int migrate_setup(struct running *r)
{
	if (move_setup(r))
		return -1;
	r->done_name = "calls";
	return 0;
}

static int compact_setup(struct running *r)
{
	if (access("/proc/sys/vm/compact_memory", W_OK))
		return skip(r, "no compaction");
	return 0;
}

static void do_compact(struct running *r)
{
	write_text("/proc/sys/vm/compact_memory", "1");
	/* Something to do for it next time: the hot pages are read in anew, elsewhere. */
	if (r->round % 4 == 0)
		posix_fadvise(r->fd, 0, 0, POSIX_FADV_DONTNEED);
	sleep_ms(2);
}

/* -- breakpoints -------------------------------------------------------------------------- */

/* An offset in hot page 1 where a byte is a "nop": what may have a breakpoint. */
static long nop_offset(void)
{
	u64 at;

	for (at = PAGE; at < 2 * PAGE - 16; at++) {
		if (race_expect[at] == 0x90)
			return at;
	}
	return -1;
}

static int uprobe_setup(struct running *r)
{
	char text[240];
	int err;

	/* No names of tasks are wanted: that would patch the scheduler under load. */
	write_text(TRACING "/options/record-cmd", "0");
	write_text(TRACING "/uprobe_events", "");
	snprintf(text, sizeof(text), "p:lodic/hot %s:0x%lx\n", r->path, nop_offset());
	err = append_text(TRACING "/uprobe_events", text);
	if (err)
		return skip(r, "no uprobe: %s", strerror(-err));
	r->done_name = "probes set and removed";
	return 0;
}

/* A breakpoint replaces the file's page by a private copy, in each mapping. */
static void do_uprobe(struct running *r)
{
	int on = write_text(TRACING "/events/lodic/hot/enable", "1");

	sleep_ms(2);
	if (!on && !write_text(TRACING "/events/lodic/hot/enable", "0"))
		r->done++;
	sleep_ms(2);
}

static void uprobe_teardown(struct running *r)
{
	write_text(TRACING "/events/lodic/hot/enable", "0");
	write_text(TRACING "/uprobe_events", "");
	if (!r->skip[0] && !r->done)
		fail("no probe could be set: shows nothing");
}

/* -- memory errors -------------------------------------------------------------------------- */

/* Each takes 4 KiB of the machine for good: not more than this in one run. */
#define MAX_POISON 64

static int poison_setup(struct running *r)
{
	r->done_name = "pages taken away";
	return 0;
}

static void do_poison(struct running *r, int advice)
{
	char *page = r->map + rnd(&r->rng) % 8 * PAGE;

	if (r->done >= MAX_POISON) {
		sleep_ms(20);
		return;
	}
	madvise(r->map, HOT_BYTES, MADV_POPULATE_READ);
	if (!madvise(page, PAGE, advice))
		r->done++;
	else if (errno == EINVAL || errno == EPERM)
		fail("madvise(%d): %s", advice, strerror(errno));
	/* A wait for write-back keeps the page clean: a dirty one would be lost. */
	sleep_ms(5);
}

static void do_soft_offline(struct running *r)
{
	do_poison(r, MADV_SOFT_OFFLINE);
}

static void do_hwpoison(struct running *r)
{
	do_poison(r, MADV_HWPOISON);
}

static int hwpoison_setup(struct running *r)
{
	if (access("/proc/sys/vm/memory_failure_recovery", F_OK))
		return skip(r, "no memory failure handling");
	return poison_setup(r);
}

static void poison_teardown(struct running *r)
{
	if (!r->skip[0] && !r->done)
		fail("no page could be taken away: shows nothing");
}

/* -- a file seen through an overlay ----------------------------------------------------------- */

enum overlay_dirs { LOWER, EMPTY, MERGED };

static const char *overlay_dir(struct running *r, int which)
{
	static const char *const names[] = { "lower", "empty", "merged" };
	static char text[3][160];

	snprintf(text[which], sizeof(text[which]), "%s/overlay-%s", r->fs.dir,
	         names[which]);
	return text[which];
}

static int overlay_setup(struct running *r)
{
	static char path[200];
	char text[400];
	int i;

	for (i = LOWER; i <= MERGED; i++)
		mkdir(overlay_dir(r, i), 0755);
	snprintf(path, sizeof(path), "%s/f", overlay_dir(r, LOWER));
	if (link(r->path, path))
		return skip(r, "link: %s", strerror(errno));
	/* Two lower layers, no upper one: what is read is the file below. */
	snprintf(text, sizeof(text), "lowerdir=%s:%s", overlay_dir(r, LOWER),
	         overlay_dir(r, EMPTY));
	if (mount("overlay", overlay_dir(r, MERGED), "overlay", MS_RDONLY, text))
		return skip(r, "no overlay: %s", strerror(errno));
	snprintf(path, sizeof(path), "%s/f", overlay_dir(r, MERGED));
	r->crew.path = path;
	return 0;
}

static void overlay_teardown(struct running *r)
{
	char path[200];
	int i;

	if (!r->skip[0] && umount(overlay_dir(r, MERGED)))
		fail("umount overlay: %s", strerror(errno));
	snprintf(path, sizeof(path), "%s/f", overlay_dir(r, LOWER));
	unlink(path);
	for (i = LOWER; i <= MERGED; i++)
		rmdir(overlay_dir(r, i));
}

/* -- the table ------------------------------------------------------------------------------ */

#define MOVER(n, kind, f, fn, ...) \
	{ \
		.name = n, .fs = kind, .flags = f, .procs = 3, .threads = 2, \
		.outside = fn, __VA_ARGS__ \
	}

static const struct race races_move[] = {
	MOVER("move-pages", "ext4", 0, do_move_pages, .setup = move_setup,
	      .own_map = true, .min_fold = 1),
	MOVER("move-pages-xfs", "xfs", CREW_LARGE, do_move_pages, .setup = move_setup,
	      .own_map = true),
	MOVER("move-pages-tmpfs", "tmpfs", 0, do_move_pages, .setup = move_setup,
	      .own_map = true, .min_fold = 1),
	/* Each call waits for all CPUs; a slow kernel has few, and may fold none. */
	MOVER("migrate-pages", "ext4", 0, do_migrate_pages, .setup = migrate_setup),
	MOVER("compact", "ext4", CREW_UNMAP | CREW_GUEST, do_compact,
	      .setup = compact_setup),
	MOVER("uprobes", "ext4", CREW_GUEST | CREW_EXEC | CREW_PRIVATE, do_uprobe,
	      .setup = uprobe_setup, .teardown = uprobe_teardown),
	MOVER("soft-offline", "ext4", CREW_GUEST, do_soft_offline,
	      .setup = poison_setup, .teardown = poison_teardown, .own_map = true),
	MOVER("hwpoison", "ext4", CREW_GUEST | CREW_EIO, do_hwpoison,
	      .setup = hwpoison_setup, .teardown = poison_teardown, .own_map = true),
	MOVER("overlay", "ext4", CREW_GUEST, NULL, .inside = do_munmap,
	      .setup = overlay_setup, .teardown = overlay_teardown, .min_fold = 1),
};

#endif
