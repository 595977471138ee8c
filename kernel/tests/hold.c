// SPDX-License-Identifier: GPL-2.0
/*
 * Four readers of one process hold references on one page (lib/held.h) while one thing
 * happens to the entry that they count on. Each case runs in two ways. First the readers go on
 * only after the thing has happened: then all references are folded, or none, as the case
 * says. Then they go on while it happens, with the window between fold and clear widened: any
 * number is folded, and the sum must be right. The test does not show what several processes
 * or several things at once do: see race.c.
 */
#include "act.h"
#include "swap.h"
#include "test.h"
#include "uffd.h"
#include "whole.h"

#define WIDE 100000 /* spins in a window that readers are to end in */
#define DURING_ROUNDS 4
#define LARGE_PAGES 16ul        /* that are present where folios are large */
#define LARGE_STRIDE (5 * PAGE) /* so four readers hold pages of different folios */

enum {
	PRIVATE = 1,
	WRITABLE = 2,
	WHOLE = 4,  /* the file is mapped, not only its first page */
	ZEROS = 8,  /* the readers may find zeros */
	LARGE = 16, /* large folios, and a page of its own for each reader */
	ONLY_AFTER = 32,
	WP_ASYNC = 64,
	PAIR = 128, /* the second page is written before the first one is held */
	SWAP = 256
};
enum fold { FOLD_NONE, FOLD_ALL };

struct hold_case {
	const char *name;
	const char *fs;
	u32 flags;
	enum fold fold; /* of the references that are held while act() runs */
	u32 own; /* references that the act itself takes, and that are folded too */
	int (*act)(struct held *h);    /* 0, or -errno if it cannot be done here */
	void (*whole)(struct held *h); /* instead of act(): a sequence of its own */
};

static const u8 *expect;
static struct held held;
static bool lodic;

#define HOLD(n, kind, f, folds, fn, ...) \
	{ \
		.name = n, .fs = kind, .flags = f, .fold = folds, .act = fn, \
		__VA_ARGS__ \
	}
#define HOLD_WHOLE(n, kind, f, fn) \
	{ \
		.name = n, .fs = kind, .flags = f, .whole = fn \
	}

static const struct hold_case cases[] = {
	HOLD("nothing", "ext4", 0, FOLD_NONE, act_nothing),
	HOLD("nothing-xfs", "xfs", LARGE, FOLD_NONE, act_nothing),
	HOLD("nothing-tmpfs", "tmpfs", 0, FOLD_NONE, act_nothing),
	HOLD("munmap", "ext4", 0, FOLD_ALL, act_munmap),
	HOLD("munmap-xfs", "xfs", LARGE, FOLD_ALL, act_munmap),
	HOLD("munmap-tmpfs", "tmpfs", 0, FOLD_ALL, act_munmap),
	HOLD("map-fixed", "ext4", 0, FOLD_ALL, act_map_fixed),
	HOLD("map-again", "ext4", 0, FOLD_ALL, act_map_again),
	HOLD("mremap-pte", "ext4", 0, FOLD_ALL, act_mremap_pte),
	HOLD("mremap-pmd", "ext4", WHOLE, FOLD_ALL, act_mremap_pmd),
	HOLD("mprotect-none", "ext4", 0, FOLD_ALL, act_mprotect_none),
	HOLD("mprotect-read", "ext4", WRITABLE, FOLD_ALL, act_mprotect_read),
	HOLD("madvise-dontneed", "ext4", 0, FOLD_ALL, act_dontneed),
	HOLD("madvise-pageout", "ext4", 0, FOLD_ALL, act_pageout),
	HOLD("copy-on-write", "ext4", PRIVATE | WRITABLE, FOLD_ALL, act_cow),
	HOLD("write-fault", "ext4", WRITABLE, FOLD_NONE, act_write_fault),
	HOLD("write-back", "ext4", WRITABLE, FOLD_ALL, act_write_back),
	HOLD("uffd-wp-async", "tmpfs", WRITABLE | WP_ASYNC, FOLD_ALL, act_wp_async),
	HOLD("fork", "ext4", 0, FOLD_NONE, act_fork),
	HOLD("fork-private", "ext4", PRIVATE | WRITABLE | PAIR, FOLD_NONE,
	     act_fork_private),
	HOLD("vfork", "ext4", 0, FOLD_NONE, act_vfork),
	HOLD("into-own-shared", "ext4", WRITABLE, FOLD_NONE, act_into_own),
	HOLD("into-own-private", "ext4", PRIVATE | WRITABLE, FOLD_ALL, act_into_own,
	     .own = 1),
	HOLD("truncate", "ext4", ZEROS, FOLD_ALL, act_truncate),
	HOLD("punch-hole", "ext4", ZEROS, FOLD_ALL, act_punch),
	HOLD("punch-hole-tmpfs", "tmpfs", ZEROS, FOLD_ALL, act_punch),
	HOLD("direct-write", "ext4", 0, FOLD_ALL, act_direct_write),
	HOLD("direct-write-xfs", "xfs", LARGE, FOLD_ALL, act_direct_write),
	HOLD("swap-tmpfs", "tmpfs", SWAP, FOLD_ALL, act_pageout),
	HOLD("move-pages", "ext4", 0, FOLD_ALL, act_move_pages),
	HOLD("collapse-tmpfs", "tmpfs", WHOLE, FOLD_ALL, act_collapse),
	HOLD("soft-offline", "ext4", 0, FOLD_ALL, act_soft_offline),
	HOLD("hwpoison", "ext4", 0, FOLD_ALL, act_hwpoison),
	HOLD("fadvise-mapped", "ext4", 0, FOLD_NONE, act_fadvise),
	HOLD("clear-refs", "ext4", WRITABLE, FOLD_ALL, act_clear_refs),
	HOLD("switch-off", "ext4", ONLY_AFTER, FOLD_ALL, act_switch_off),
	HOLD_WHOLE("switch-on", "ext4", 0, whole_switch_on),
	HOLD_WHOLE("stale-look-up", "xfs", LARGE, whole_stale_look_up),
	HOLD_WHOLE("killed", "ext4", 0, whole_killed),
	HOLD_WHOLE("exec", "ext4", 0, whole_exec),
	HOLD_WHOLE("past-the-max", "ext4", 0, whole_past_the_max),
	HOLD_WHOLE("seal-write", "ext4", 0, whole_seal_write),
	HOLD_WHOLE("two-frames", "ext4", 0, whole_two_frames),
	HOLD_WHOLE("table-reused", "ext4", 0, whole_table_reused),
	HOLD_WHOLE("not-mapped-any-more", "ext4", PRIVATE | WRITABLE,
	           whole_not_mapped_any_more),
};

/* -- running them ------------------------------------------------------------------------ */

/* After this a write goes through do_wp_page() first: see act_wp_async(). */
static int case_protect(void)
{
	held.wp_fd = uffd_open(held.map, held.map_bytes, UFFD_FEATURE_WP_ASYNC);
	if (held.wp_fd < 0)
		return -errno;
	return uffd_protect(held.wp_fd, held.map, held.map_bytes, true) ? -errno : 0;
}

static int case_map(const struct hold_case *c)
{
	int prot = PROT_READ | (c->flags & WRITABLE ? PROT_WRITE : 0);
	int flags = MAP_FIXED | (c->flags & PRIVATE ? MAP_PRIVATE : MAP_SHARED);

	held.map_bytes = c->flags & (WHOLE | LARGE) ? FILE_BYTES : PAGE;
	if (c->flags & PAIR)
		held.map_bytes = 2 * PAGE;
	held.map = mmap(AREA_A, held.map_bytes, prot, flags, held.fd, 0);
	if (held.map == MAP_FAILED)
		return -errno;
	if (madvise(held.map, c->flags & LARGE ? LARGE_PAGES * PAGE : PAGE,
	            MADV_POPULATE_READ))
		return -errno;
	if (c->flags & PAIR && madvise(held.map + PAGE, PAGE, MADV_POPULATE_WRITE))
		return -errno;
	if (c->flags & LARGE)
		file_check_large(held.map, LARGE_PAGES);
	return c->flags & WP_ASYNC ? case_protect() : 0;
}

static void case_unmap(void)
{
	munmap(AREA_A, FILE_BYTES);
	munmap(AREA_B, FILE_BYTES + PAGE);
	if (held.wp_fd >= 0)
		close(held.wp_fd);
	held.wp_fd = -1;
}

/* The readers go on after it has happened: what must have been folded is known. */
static void hold_after(const struct hold_case *c)
{
	struct counters before, d;
	int err;

	counters_read(&before);
	held_take(&held, 0, HOLDERS, 0);
	if (lodic)
		whole_expect_out(&before, HOLDERS);
	held.all_held = true;
	err = c->act(&held);
	held.all_held = false;
	d = counters_since(&before);
	held_release(&held, 0, HOLDERS, c->flags & ZEROS);
	if (err) {
		held.cannot = strerror(-err);
		return;
	}
	if (lodic && c->fold == FOLD_ALL && d.folded != HOLDERS + c->own)
		ktap_fail("%llu references folded, not %u",
		          (unsigned long long)d.folded, HOLDERS + c->own);
	if (lodic && c->fold == FOLD_NONE && d.folded)
		ktap_fail("%llu references folded, not 0",
		          (unsigned long long)d.folded);
}

static sem_t actor_go, actor_done;
static const struct hold_case *volatile actor_case;

static void *actor_main(void *arg)
{
	(void)arg;
	cpu_pin(0);
	for (;;) {
		sem_wait(&actor_go);
		actor_case->act(&held);
		sem_post(&actor_done);
	}
	return NULL;
}

/*
 * The readers go on while it happens. The window is open only for that time: with a rule
 * broken, each entry that anybody clears would wait so long.
 */
static void hold_during(const struct hold_case *c, u64 *rng)
{
	held_take(&held, 0, HOLDERS, 0);
	actor_case = c;
	text_write_number(DEBUG_WINDOW, opt.window ? WIDE : 0);
	sem_post(&actor_go);
	clock_sleep_ms(random_next(rng) % 8);
	held_let_go(&held, 0, HOLDERS);
	held_wait(&held, HOLDERS);
	text_write_number(DEBUG_WINDOW, 0);
	held_check(&held, 0, HOLDERS, c->flags & ZEROS);
	sem_wait(&actor_done);
}

static void run_rounds(const struct hold_case *c)
{
	u64 rng = random_mix(opt.seed);
	u32 rounds = c->flags & ONLY_AFTER ? 0 : DURING_ROUNDS, i;

	for (i = 0; i <= rounds && !ktap_failing() && !held.cannot; i++) {
		int err = case_map(c);

		if (err && c->flags & WP_ASYNC)
			held.cannot = "no asynchronous userfaultfd-wp";
		else if (err)
			ktap_fail("mapping: %s", strerror(-err));
		if (err)
			return;
		if (c->whole)
			c->whole(&held);
		else if (i == 0)
			hold_after(c);
		else
			hold_during(c, &rng);
		case_unmap();
	}
}

static void run_case(const struct hold_case *c, int klog)
{
	struct test_fs *fs;
	int err = fs_mount_once(c->fs, &fs);
	struct counters before, d;
	char path[160];

	if (err) {
		ktap_skip(c->name, strerror(-err));
		return;
	}
	klog_skip(klog);
	snprintf(path, sizeof(path), "%s/hold-%s", fs->dir, c->name);
	if (file_make(path, expect, FILE_BYTES))
		ktap_bail("%s", path);
	held.stride = c->flags & LARGE ? LARGE_STRIDE : 0;
	held.path = path;
	held.fd = open(path, O_RDWR | O_CLOEXEC);
	held.expect = expect;
	held.cannot = NULL;
	counters_read(&before);
	err = c->flags & SWAP ? swap_on() : 0;
	if (err)
		held.cannot = strerror(-err);
	run_rounds(c);
	if (c->flags & SWAP && !err)
		swap_off();
	close(held.fd);
	d = counters_since(&before);
	if (lodic)
		counters_diag(c->name, &d);
	counters_check_quiet();
	file_check_exact(fs, path, FILE_BYTES);
	unlink(path);
	klog_check(klog);
	if (held.cannot && !ktap_failing())
		ktap_skip(c->name, held.cannot);
	else
		ktap_result(c->name);
}

static bool wanted(const struct hold_case *c)
{
	return !opt.only || !strcmp(opt.only, c->name);
}

#define BALANCING "/proc/sys/kernel/numa_balancing"

int main(int argc, char **argv)
{
	pthread_t actor;
	u32 i, nr = 1;
	int klog, err;
	long long balancing = text_read_number(BALANCING);

	options_parse(argc, argv);
	/* It hides entries of writable mappings now and then, and then no reader counts there. */
	if (balancing > 0)
		text_write_number(BALANCING, 0);
	for (i = 0; i < NR(cases); i++)
		nr += wanted(&cases[i]);
	ktap_plan(nr);
	lodic = switches_on();
	text_write_number(DEBUG_WINDOW, 0);
	klog = klog_open();
	expect = data_expected(FILE_BYTES);
	err = held_init(&held, HOLDERS);
	if (err) {
		printf("1..0 # SKIP no userfaultfd: %s\n", strerror(-err));
		return KTAP_SKIPPED;
	}
	sem_init(&actor_go, 0, 0);
	sem_init(&actor_done, 0, 0);
	if (pthread_create(&actor, NULL, actor_main, NULL))
		ktap_bail("pthread_create");
	for (i = 0; i < NR(cases); i++) {
		if (wanted(&cases[i]))
			run_case(&cases[i], klog);
	}
	fs_umount_all();
	ktap_result("umount");
	switches_restore();
	if (balancing > 0)
		text_write_number(BALANCING, balancing);
	return ktap_end();
}
