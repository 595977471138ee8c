// SPDX-License-Identifier: GPL-2.0
/*
 * Four readers of one process hold references on one page (lib/held.h) while one thing
 * happens to the entry that they count on. Each case runs in two ways. First the readers go on
 * only after the thing has happened: then all references are folded, or none, as the case
 * says. Then they go on while it happens, with the window between fold and clear widened: any
 * number is folded, and the sum must be right. The test does not show what several processes
 * or several things at once do: see race.c.
 */
#include "held.h"
#include "test.h"
#include "uffd.h"

#include <linux/falloc.h>
#include <poll.h>

#define WIDE 100000 /* spins in a window that readers are to end in */
#define DURING_ROUNDS 4

enum {
	PRIVATE = 1,
	WRITABLE = 2,
	WHOLE = 4,
	ZEROS = 8,
	LARGE = 16,
	ONLY_AFTER = 32,
	WP_ASYNC = 64
};
enum fold { FOLD_NONE, FOLD_ALL, FOLD_ANY };

struct hold_case {
	const char *name;
	const char *fs;
	u32 flags;
	enum fold fold; /* of the references that are held while act() runs */
	int (*act)(struct held *h); /* 0, or -errno if it cannot be done here */
	void (*whole)(void);        /* instead of act(): a sequence of its own */
};

static const u8 *expect;
static struct held held;
static bool lodic;
static bool all_held;      /* act() ends before the readers go on */
static const char *cannot; /* why the case cannot run here */
static int wp_fd = -1;     /* of WP_ASYNC; closed with the mapping */

/* -- what happens ------------------------------------------------------------------------ */

static int act_nothing(struct held *h)
{
	(void)h;
	return 0;
}

static int act_munmap(struct held *h)
{
	return munmap(h->map, h->map_bytes) ? -errno : 0;
}

static int act_map_fixed(struct held *h)
{
	void *p = mmap(h->map, h->map_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, h->fd,
	               PAGE);

	if (p == MAP_FAILED)
		return -errno;
	return madvise(p, PAGE, MADV_POPULATE_READ) ? -errno : 0;
}

/* Maps it anew: the entry leads to the page again, with nobody counted in it. */
static int act_map_again(struct held *h)
{
	void *p =
		mmap(h->map, h->map_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, h->fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	return madvise(p, PAGE, MADV_POPULATE_READ) ? -errno : 0;
}

static int act_mremap(struct held *h, char *to)
{
	void *p = mremap(h->map, h->map_bytes, h->map_bytes,
	                 MREMAP_MAYMOVE | MREMAP_FIXED, to);

	if (p == MAP_FAILED)
		return -errno;
	h->map = p;
	return 0;
}

static int act_mremap_pte(struct held *h)
{
	return act_mremap(h, AREA_B + PAGE);
}

static int act_mremap_pmd(struct held *h)
{
	return act_mremap(h, AREA_B);
}

static int act_mprotect_none(struct held *h)
{
	return mprotect(h->map, h->map_bytes, PROT_NONE) ? -errno : 0;
}

static int act_mprotect_read(struct held *h)
{
	return mprotect(h->map, h->map_bytes, PROT_READ) ? -errno : 0;
}

static int act_dontneed(struct held *h)
{
	return madvise(h->map, h->map_bytes, MADV_DONTNEED) ? -errno : 0;
}

static int act_pageout(struct held *h)
{
	return madvise(h->map, h->map_bytes, MADV_PAGEOUT) ? -errno : 0;
}

static int act_cow(struct held *h)
{
	return madvise(h->map, PAGE, MADV_POPULATE_WRITE) ? -errno : 0;
}

static int act_write_fault(struct held *h)
{
	*(volatile u8 *)h->map = expect[0];
	return 0;
}

/* Write-back takes the right to write away: it clears the entry and sets it again. */
static int act_write_back(struct held *h)
{
	act_write_fault(h);
	return fsync(h->fd) ? -errno : 0;
}

/*
 * A write to a page that userfaultfd protects without reporting writes. The fault takes the
 * protection off an entry that stays present, and then makes the entry writable.
 */
static int act_wp_async(struct held *h)
{
	struct pollfd p = { .fd = wp_fd, .events = POLLIN };

	act_write_fault(h);
	if (poll(&p, 1, 0) > 0)
		ktap_fail("the write was reported");
	return 0;
}

static int act_fork(struct held *h)
{
	u8 got[HELD_BYTES];
	int status = 0;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (!pid) {
		ssize_t n = pread(h->fd, got, sizeof(got), 0);

		_exit(n != sizeof(got) || memcmp(got, expect, sizeof(got)));
	}
	waitpid(pid, &status, 0);
	if (status)
		ktap_fail("child's read: status 0x%x", status);
	return 0;
}

static int act_truncate(struct held *h)
{
	if (ftruncate(h->fd, 0) || ftruncate(h->fd, FILE_BYTES))
		return -errno;
	return pwrite(h->fd, expect, PAGE, 0) == (ssize_t)PAGE ? 0 : -errno;
}

static int act_punch(struct held *h)
{
	if (fallocate(h->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE))
		return -errno;
	return pwrite(h->fd, expect, PAGE, 0) == (ssize_t)PAGE ? 0 : -errno;
}

/* While references are held the kernel clears the entry and must fail to move the page. */
static int act_move_pages(struct held *h)
{
	void *page = h->map;
	int node = 0, status = -1, from;

	if (file_move_pages(0, 1, &page, NULL, &status, MOVE_ALL) < 0)
		return -errno;
	from = status;
	node = !from;
	if (file_move_pages(0, 1, &page, &node, &status, MOVE_ALL) < 0)
		return -errno;
	file_move_pages(0, 1, &page, NULL, &status, MOVE_ALL);
	if (all_held && status != from && status != -ENOENT)
		ktap_fail("a page with references held moved from node %d to %d", from,
		          status);
	return 0;
}

static int act_fadvise(struct held *h)
{
	return -posix_fadvise(h->fd, 0, 0, POSIX_FADV_DONTNEED);
}

static int act_clear_refs(struct held *h)
{
	(void)h;
	return text_write("/proc/self/clear_refs", "4");
}

/* The kernel looks at the count of the mapped page, and must look again once unmapped. */
static int act_collapse(struct held *h)
{
	int err = madvise(h->map, FILE_BYTES, MADV_COLLAPSE) ? errno : 0;

	if (all_held && !err)
		ktap_fail("a page with references held was collapsed");
	return err == EINVAL || err == ENOSYS ? -err : 0;
}

/* Each try takes a page from the machine, or marks it for that. */
static int act_soft_offline(struct held *h)
{
	if (opt.dir)
		return -EPERM;
	if (!madvise(h->map, PAGE, MADV_SOFT_OFFLINE))
		return all_held ? -EALREADY : 0;
	return errno == EBUSY || errno == EAGAIN || errno == EIO ? 0 : -errno;
}

static int act_hwpoison(struct held *h)
{
	if (opt.dir)
		return -EPERM;
	if (!madvise(h->map, PAGE, MADV_HWPOISON))
		return 0;
	return errno == EBUSY || errno == EAGAIN || errno == EIO ? 0 : -errno;
}

/* Not while readers run: see switch.sh. */
static int act_switch_off(struct held *h)
{
	(void)h;
	if (!counters_present())
		return -EOPNOTSUPP;
	text_write_number(SYSCTL_LODIC, 0);
	text_write_number(SYSCTL_LODIC, 1);
	return 0;
}

/* -- sequences of their own -------------------------------------------------------------- */

/*
 * Two readers hold a page. Another page of the file comes to its place, and two more readers
 * hold that one, counted in the same entry. The first two must not give those counts back.
 */
static void two_frames(void)
{
	held_take(&held, 0, 2, 0);
	if (act_map_fixed(&held))
		ktap_fail("mmap: %s", strerror(errno));
	held_take(&held, 2, 2, PAGE);
	held_release(&held, 0, 2, false);
	held_release(&held, 2, 2, false);
}

/*
 * The entry leads to a private copy, no longer to the file's page. So the readers must count
 * globally. They read one after the other, because one reader could hide that another is a
 * reference short. A second mapping, below the first, keeps the file's page mapped, so that
 * the kernel tries for a local reference at all.
 */
static void not_mapped_any_more(void)
{
	char *low = mmap(AREA_A - PMD_BYTES, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED,
	                 held.fd, 0);
	u32 i;

	if (low == MAP_FAILED || madvise(low, PAGE, MADV_POPULATE_READ))
		ktap_fail("second mapping: %s", strerror(errno));
	held_take(&held, 0, 1, 0);
	held_release(&held, 0, 1, false);
	if (act_cow(&held))
		ktap_fail("copy on write: %s", strerror(errno));
	for (i = 0; i < 2 * HOLDERS; i++) {
		held_take(&held, i % HOLDERS, 1, 0);
		held_release(&held, i % HOLDERS, 1, false);
	}
	munmap(low, PAGE);
}

/* In a child: holders of its own take references by the mapping that it has inherited. */
static int killed_prepare(void *arg)
{
	struct held *other = arg;

	if (held_init(other))
		return -1;
	other->fd = held.fd;
	other->expect = held.expect;
	madvise(held.map, PAGE, MADV_POPULATE_READ);
	held_take(other, 0, HOLDERS, 0);
	return 0;
}

/* The readers of another process are killed in their copies. */
static void killed(void)
{
	static struct held other;
	struct counters before, d;
	pid_t pid;

	counters_read(&before);
	pid = waiter_start(killed_prepare, &other);
	if (pid < 0) {
		ktap_fail("the child did not hold anything");
		return;
	}
	d = counters_since(&before);
	if (lodic && d.ref - d.unref - d.unref_global != HOLDERS)
		ktap_fail("%llu local references held, not %u",
		          (unsigned long long)(d.ref - d.unref - d.unref_global),
		          HOLDERS);
	waiter_kill(pid);
	counters_check_quiet();
}

#define HOLD(n, kind, f, folds, fn) \
	{ \
		.name = n, .fs = kind, .flags = f, .fold = folds, .act = fn \
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
	HOLD("mprotect-read", "ext4", WRITABLE, FOLD_ANY, act_mprotect_read),
	HOLD("madvise-dontneed", "ext4", 0, FOLD_ALL, act_dontneed),
	HOLD("madvise-pageout", "ext4", 0, FOLD_ALL, act_pageout),
	HOLD("copy-on-write", "ext4", PRIVATE | WRITABLE, FOLD_ALL, act_cow),
	HOLD("write-fault", "ext4", WRITABLE, FOLD_NONE, act_write_fault),
	HOLD("write-back", "ext4", WRITABLE, FOLD_ALL, act_write_back),
	HOLD("uffd-wp-async", "tmpfs", WRITABLE | WP_ASYNC, FOLD_ALL, act_wp_async),
	HOLD("fork", "ext4", 0, FOLD_NONE, act_fork),
	HOLD("fork-private", "ext4", PRIVATE | WRITABLE, FOLD_NONE, act_fork),
	HOLD("truncate", "ext4", ZEROS, FOLD_ALL, act_truncate),
	HOLD("punch-hole", "ext4", ZEROS, FOLD_ALL, act_punch),
	HOLD("punch-hole-tmpfs", "tmpfs", ZEROS, FOLD_ALL, act_punch),
	HOLD("move-pages", "ext4", 0, FOLD_ALL, act_move_pages),
	HOLD("collapse-tmpfs", "tmpfs", WHOLE, FOLD_ALL, act_collapse),
	HOLD("soft-offline", "ext4", 0, FOLD_ALL, act_soft_offline),
	HOLD("hwpoison", "ext4", 0, FOLD_ALL, act_hwpoison),
	HOLD("fadvise-mapped", "ext4", 0, FOLD_NONE, act_fadvise),
	HOLD("clear-refs", "ext4", WRITABLE, FOLD_ANY, act_clear_refs),
	HOLD("switch-off", "ext4", ONLY_AFTER, FOLD_NONE, act_switch_off),
	{ .name = "killed", .fs = "ext4", .flags = 0, .whole = killed },
	{ .name = "two-frames", .fs = "ext4", .flags = 0, .whole = two_frames },
	{ "not-mapped-any-more", "ext4", PRIVATE | WRITABLE,
	  .whole = not_mapped_any_more },
};

/* -- running them ------------------------------------------------------------------------ */

/* After this a write goes through do_wp_page() first: see act_wp_async(). */
static int case_protect(void)
{
	wp_fd = uffd_open(held.map, held.map_bytes, UFFD_FEATURE_WP_ASYNC);
	if (wp_fd < 0)
		return -errno;
	return uffd_protect(wp_fd, held.map, held.map_bytes, true) ? -errno : 0;
}

static int case_map(const struct hold_case *c)
{
	int prot = PROT_READ | (c->flags & WRITABLE ? PROT_WRITE : 0);
	int flags = MAP_FIXED | (c->flags & PRIVATE ? MAP_PRIVATE : MAP_SHARED);

	held.map_bytes = c->flags & (WHOLE | LARGE) ? FILE_BYTES : PAGE;
	held.map = mmap(AREA_A, held.map_bytes, prot, flags, held.fd, 0);
	if (held.map == MAP_FAILED)
		return -errno;
	if (madvise(held.map, c->flags & LARGE ? 16 * PAGE : PAGE, MADV_POPULATE_READ))
		return -errno;
	return c->flags & WP_ASYNC ? case_protect() : 0;
}

static void case_unmap(void)
{
	munmap(AREA_A, FILE_BYTES);
	munmap(AREA_B, FILE_BYTES + PAGE);
	if (wp_fd >= 0)
		close(wp_fd);
	wp_fd = -1;
}

/* The readers go on after it has happened: what must have been folded is known. */
static void hold_after(const struct hold_case *c)
{
	struct counters before, d;
	int err;

	counters_read(&before);
	held_take(&held, 0, HOLDERS, 0);
	d = counters_since(&before);
	if (lodic && d.ref - d.unref - d.unref_global != HOLDERS)
		ktap_fail("%llu local references held, not %u",
		          (unsigned long long)(d.ref - d.unref - d.unref_global),
		          HOLDERS);
	all_held = true;
	err = c->act(&held);
	all_held = false;
	d = counters_since(&before);
	held_release(&held, 0, HOLDERS, c->flags & ZEROS);
	if (err) {
		cannot = strerror(-err);
		return;
	}
	if (lodic && c->fold == FOLD_ALL && d.folded != HOLDERS)
		ktap_fail("%llu references folded, not %u",
		          (unsigned long long)d.folded, HOLDERS);
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

	for (i = 0; i <= rounds && !ktap_failing() && !cannot; i++) {
		int err = case_map(c);

		if (err && c->flags & WP_ASYNC)
			cannot = "no asynchronous userfaultfd-wp";
		else if (err)
			ktap_fail("mapping: %s", strerror(-err));
		if (err)
			return;
		if (c->whole)
			c->whole();
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
	held.path = path;
	held.fd = open(path, O_RDWR | O_CLOEXEC);
	held.expect = expect;
	cannot = NULL;
	counters_read(&before);
	run_rounds(c);
	close(held.fd);
	d = counters_since(&before);
	if (lodic)
		counters_diag(c->name, &d);
	counters_check_quiet();
	file_check_exact(fs, path, FILE_BYTES);
	unlink(path);
	klog_check(klog);
	if (cannot && !ktap_failing())
		ktap_skip(c->name, cannot);
	else
		ktap_result(c->name);
}

static bool wanted(const struct hold_case *c)
{
	return !opt.only || !strcmp(opt.only, c->name);
}

int main(int argc, char **argv)
{
	pthread_t actor;
	u32 i, nr = 1;
	int klog, err;

	options_parse(argc, argv);
	for (i = 0; i < NR(cases); i++)
		nr += wanted(&cases[i]);
	ktap_plan(nr);
	lodic = switches_on();
	text_write_number(DEBUG_WINDOW, 0);
	klog = klog_open();
	expect = data_expected(FILE_BYTES);
	err = held_init(&held);
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
	return ktap_end();
}
