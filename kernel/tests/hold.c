// SPDX-License-Identifier: GPL-2.0
/*
 * Four readers of one process hold references on one page, on purpose and for as long as
 * wanted (held.h), while one thing happens to the entry they count on. Shows for each thing
 * exactly how many references are folded: after it, all or none as the case says; while it,
 * with the window between fold and clear widened, any number, and the sum is right. It does
 * not show what several processes or several things at once do: see race.c.
 */
#include "held.h"
#include "uffd.h"

#include <signal.h>

#define NR(a) (sizeof(a) / sizeof((a)[0]))
#define FILE_BYTES PMD_BYTES
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
	enum fold fold;             /* of the references held while act() runs */
	int (*act)(struct held *h); /* 0, or -errno: cannot be done here */
	void (*whole)(void);        /* instead of all that: a sequence of its own */
};

static const u8 *expect;
static struct test_fs mounts[3];
static struct held held;
static bool lodic;
static bool all_held;      /* nobody is let go before act() has ended */
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

/* Mapped anew: the entry leads to the page again, with nobody counted in it. */
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

/* Write-back takes the right to write away: cleared, and set again without its count. */
static int act_write_back(struct held *h)
{
	act_write_fault(h);
	return fsync(h->fd) ? -errno : 0;
}

/*
 * A write to a page that userfaultfd protects without wanting to know of writes: the fault
 * takes the protection off an entry that stays present. Then it makes it writable.
 */
static int act_wp_async(struct held *h)
{
	struct pollfd p = { .fd = wp_fd, .events = POLLIN };

	act_write_fault(h);
	if (poll(&p, 1, 0) > 0)
		fail("the write was reported");
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
		fail("child's read: status 0x%x", status);
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

/* Fails while references are held, as it must; the entry has been cleared for it. */
static int act_move_pages(struct held *h)
{
	void *page = h->map;
	int node = 0, status = -1, from;

	if (move_pages_raw(0, 1, &page, NULL, &status, MOVE_ALL) < 0)
		return -errno;
	from = status;
	node = !from;
	if (move_pages_raw(0, 1, &page, &node, &status, MOVE_ALL) < 0)
		return -errno;
	move_pages_raw(0, 1, &page, NULL, &status, MOVE_ALL);
	if (all_held && status != from && status != -ENOENT)
		fail("a page with references held moved from node %d to %d", from,
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
	return write_text("/proc/self/clear_refs", "4");
}

/* Looks at the count of a mapped page first, and is to look again when it is not mapped. */
static int act_collapse(struct held *h)
{
	int err = madvise(h->map, FILE_BYTES, MADV_COLLAPSE) ? errno : 0;

	if (all_held && !err)
		fail("a page with references held was collapsed");
	return err == EINVAL || err == ENOSYS ? -err : 0;
}

/* Each try takes a page from the machine, or marks it to be taken. */
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
	if (!lodic_present())
		return -EOPNOTSUPP;
	write_number(SYSCTL_LODIC, 0);
	write_number(SYSCTL_LODIC, 1);
	return 0;
}

/* -- sequences of their own -------------------------------------------------------------- */

/*
 * Two readers hold a page; another page of the file comes to its place, and two more hold
 * that one, counted in the same entry. The first two must not give back what is not theirs.
 */
static void two_frames(void)
{
	held_take(&held, 0, 2, 0);
	if (act_map_fixed(&held))
		fail("mmap: %s", strerror(errno));
	held_take(&held, 2, 2, PAGE);
	held_release(&held, 0, 2, false);
	held_release(&held, 2, 2, false);
}

/*
 * The file's page is not what the entry leads to any more: its readers count globally, one
 * after the other, so that a reference short would not be hidden by another. A second
 * mapping, below the first, makes it a page that is mapped, and so one to try for.
 */
static void not_mapped_any_more(void)
{
	char *low = mmap(AREA_A - PMD_BYTES, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED,
	                 held.fd, 0);
	u32 i;

	if (low == MAP_FAILED || madvise(low, PAGE, MADV_POPULATE_READ))
		fail("second mapping: %s", strerror(errno));
	held_take(&held, 0, 1, 0);
	held_release(&held, 0, 1, false);
	if (act_cow(&held))
		fail("copy on write: %s", strerror(errno));
	for (i = 0; i < 2 * HOLDERS; i++) {
		held_take(&held, i % HOLDERS, 1, 0);
		held_release(&held, i % HOLDERS, 1, false);
	}
	munmap(low, PAGE);
}

/*
 * Readers of another process are killed in their copies. A child is made for it that holds
 * in the same way, with threads and a userfaultfd of its own.
 */
static void killed(void)
{
	struct lodic_counters before, d;
	static struct held other;
	int pipes[2], status = 0;
	char c = 0;
	pid_t pid;

	lodic_read(&before);
	if (pipe(pipes))
		bail("pipe");
	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (held_init(&other))
			_exit(1);
		other.fd = held.fd;
		other.expect = held.expect;
		madvise(held.map, PAGE, MADV_POPULATE_READ);
		held_take(&other, 0, HOLDERS, 0);
		if (write(pipes[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(pipes[1]);
	if (read(pipes[0], &c, 1) != 1)
		fail("the child did not hold anything");
	close(pipes[0]);
	d = lodic_since(&before);
	if (lodic && d.ref - d.unref - d.unref_global != HOLDERS)
		fail("%llu local references held, not %u",
		     (unsigned long long)(d.ref - d.unref - d.unref_global), HOLDERS);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	lodic_check_quiet();
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

static struct test_fs *mount_of(const char *kind)
{
	static const char *const kinds[] = { "ext4", "xfs", "tmpfs" };
	u32 i;

	for (i = 0; i < NR(kinds) - 1 && strcmp(kind, kinds[i]); i++)
		;
	if (!mounts[i].kind && fs_mount(kinds[i], &mounts[i]))
		return NULL;
	return &mounts[i];
}

/* From here on a write goes by do_wp_page() first: see act_wp_async(). */
static int case_protect(void)
{
	wp_fd = uffd_wp_open(held.map, held.map_bytes, UFFD_FEATURE_WP_ASYNC);
	if (wp_fd < 0)
		return -errno;
	return uffd_wp(wp_fd, held.map, held.map_bytes, true) ? -errno : 0;
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

/* Held before, let go after: what was folded is known exactly. */
static void hold_after(const struct hold_case *c)
{
	struct lodic_counters before, d;
	int err;

	lodic_read(&before);
	held_take(&held, 0, HOLDERS, 0);
	d = lodic_since(&before);
	if (lodic && d.ref - d.unref - d.unref_global != HOLDERS)
		fail("%llu local references held, not %u",
		     (unsigned long long)(d.ref - d.unref - d.unref_global), HOLDERS);
	all_held = true;
	err = c->act(&held);
	all_held = false;
	d = lodic_since(&before);
	held_release(&held, 0, HOLDERS, c->flags & ZEROS);
	if (err) {
		cannot = strerror(-err);
		return;
	}
	if (lodic && c->fold == FOLD_ALL && d.folded != HOLDERS)
		fail("%llu references folded, not %u", (unsigned long long)d.folded,
		     HOLDERS);
	if (lodic && c->fold == FOLD_NONE && d.folded)
		fail("%llu references folded, not 0", (unsigned long long)d.folded);
}

static sem_t actor_go, actor_done;
static const struct hold_case *volatile actor_case;

static void *actor_main(void *arg)
{
	(void)arg;
	pin_cpu(0);
	for (;;) {
		sem_wait(&actor_go);
		actor_case->act(&held);
		sem_post(&actor_done);
	}
	return NULL;
}

/*
 * Held before, let go while it happens. The window is opened only for that: with one of the
 * wrong orders on, each entry that anybody clears would wait so long.
 */
static void hold_during(const struct hold_case *c, u64 *rng)
{
	held_take(&held, 0, HOLDERS, 0);
	actor_case = c;
	write_number(DEBUG_WINDOW, opt.window ? WIDE : 0);
	sem_post(&actor_go);
	sleep_ms(rnd(rng) % 8);
	held_let_go(&held, 0, HOLDERS);
	held_wait(&held, HOLDERS);
	write_number(DEBUG_WINDOW, 0);
	held_check(&held, 0, HOLDERS, c->flags & ZEROS);
	sem_wait(&actor_done);
}

static void run_rounds(const struct hold_case *c)
{
	u64 rng = mix64(opt.seed);
	u32 rounds = c->flags & ONLY_AFTER ? 0 : DURING_ROUNDS, i;

	for (i = 0; i <= rounds && !ktap_why[0] && !cannot; i++) {
		int err = case_map(c);

		if (err && c->flags & WP_ASYNC)
			cannot = "no asynchronous userfaultfd-wp";
		else if (err)
			fail("mapping: %s", strerror(-err));
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
	struct test_fs *fs = mount_of(c->fs);
	struct lodic_counters before, d;
	char path[160], line[200];

	if (!fs) {
		ktap_skip(c->name, "no such file system here");
		return;
	}
	klog_look(klog, line, sizeof(line));
	snprintf(path, sizeof(path), "%s/hold-%s", fs->dir, c->name);
	if (file_make(path, expect, FILE_BYTES))
		bail("%s", path);
	held.path = path;
	held.fd = open(path, O_RDWR | O_CLOEXEC);
	held.expect = expect;
	cannot = NULL;
	lodic_read(&before);
	run_rounds(c);
	close(held.fd);
	d = lodic_since(&before);
	if (lodic)
		lodic_diag(c->name, &d);
	lodic_check_quiet();
	file_check_exact(fs, path, FILE_BYTES);
	unlink(path);
	klog_check(klog);
	if (cannot && !ktap_why[0])
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

	parse_options(argc, argv);
	for (i = 0; i < NR(cases); i++)
		nr += wanted(&cases[i]);
	ktap_plan(nr);
	lodic = lodic_setup();
	write_number(DEBUG_WINDOW, 0);
	klog = klog_open();
	expect = data_expected(FILE_BYTES);
	err = held_init(&held);
	if (err) {
		printf("1..0 # SKIP no userfaultfd: %s\n", strerror(-err));
		return 4;
	}
	sem_init(&actor_go, 0, 0);
	sem_init(&actor_done, 0, 0);
	if (pthread_create(&actor, NULL, actor_main, NULL))
		bail("pthread_create");
	for (i = 0; i < NR(cases); i++) {
		if (wanted(&cases[i]))
			run_case(&cases[i], klog);
	}
	for (i = 0; i < NR(mounts); i++) {
		if (mounts[i].kind)
			fs_umount(&mounts[i]);
	}
	ktap_result("umount");
	lodic_restore();
	return ktap_end();
}
