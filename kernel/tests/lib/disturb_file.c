// SPDX-License-Identifier: GPL-2.0
/*
 * Disturbers that come from the file or from reclaim: they unmap, remove, replace or evict
 * the pages of a file that others map and read.
 */
#include "disturb.h"

#include "clock.h"
#include "data.h"
#include "ktap.h"
#include "random.h"
#include "text.h"
#include "seat.h"

#include <linux/falloc.h>
#include <signal.h>

#define CGROUPS "/sys/fs/cgroup"

void disturb_fadvise(struct running *r)
{
	posix_fadvise(r->fd, 0, HOT_BYTES, POSIX_FADV_DONTNEED);
	clock_sleep_ms(1);
}

void disturb_drop_caches(struct running *r)
{
	if (text_write("/proc/sys/vm/drop_caches",
	               random_next(&r->rng) % 4 ? "1" : "3"))
		ktap_fail("drop_caches");
	clock_sleep_ms(5);
}

/* Shrinks the file to somewhere in the hot pages, grows it, and puts the bytes back. */
void disturb_truncate(struct running *r)
{
	u64 at = random_next(&r->rng) % HOT_BYTES;

	if (ftruncate(r->fd, at))
		ktap_fail("truncate: %s", strerror(errno));
	if (random_next(&r->rng) % 2)
		sched_yield();
	if (ftruncate(r->fd, FILE_BYTES))
		ktap_fail("truncate up: %s", strerror(errno));
	if (pwrite(r->fd, race_expect + at, HOT_BYTES - at, at) !=
	    (ssize_t)(HOT_BYTES - at))
		ktap_fail("write back: %s", strerror(errno));
	clock_sleep_ms(1);
}

void disturb_punch(struct running *r)
{
	u64 at = random_next(&r->rng) % 8 * PAGE,
	    bytes = (1 + random_next(&r->rng) % 3) * PAGE;

	if (at + bytes > HOT_BYTES)
		bytes = HOT_BYTES - at;
	/* Not aligned, now and then: the ends are zeroed in place. */
	if (random_next(&r->rng) % 4 == 0) {
		at += 100;
		bytes -= 200;
	}
	if (fallocate(r->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, bytes))
		ktap_fail("punch: %s", strerror(errno));
	if (pwrite(r->fd, race_expect + at, bytes, at) != (ssize_t)bytes)
		ktap_fail("write back: %s", strerror(errno));
	clock_sleep_ms(1);
}

/* -- writes past the page cache ----------------------------------------------------------- */

static int disturb_direct_setup(struct running *r)
{
	static int fd;

	fd = open(r->path, O_WRONLY | O_DIRECT | O_CLOEXEC);
	if (fd < 0)
		return race_skip(r, "no O_DIRECT: %s", strerror(errno));
	r->extra = &fd;
	r->done_name = "direct writes";
	return 0;
}

/* Writes each byte as it is. The kernel drops the pages from the cache, held or not. */
static void disturb_direct(struct running *r)
{
	u64 at = random_next(&r->rng) % 8 * PAGE,
	    bytes = (1 + random_next(&r->rng) % 3) * PAGE;

	if (at + bytes > HOT_BYTES)
		bytes = HOT_BYTES - at;
	if (pwrite(*(int *)r->extra, race_expect + at, bytes, at) != (ssize_t)bytes)
		ktap_fail("direct write: %s", strerror(errno));
	r->done++;
	clock_sleep_ms(1);
}

static void disturb_direct_teardown(struct running *r)
{
	if (r->extra)
		close(*(int *)r->extra);
}

/* -- reclaim by a control group ----------------------------------------------------------- */

static int disturb_cgroup_make(struct running *r, const char *name)
{
	static char dir[100];

	text_append(CGROUPS "/cgroup.subtree_control", "+memory");
	snprintf(dir, sizeof(dir), CGROUPS "/lodic-%s", name);
	if (mkdir(dir, 0755) && errno != EEXIST)
		return race_skip(r, "no control groups: %s", strerror(errno));
	r->crew.cgroup = dir;
	return 0;
}

static int disturb_cgroup_write(struct running *r, const char *file, const char *text)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", r->crew.cgroup, file);
	return text_write(path, text);
}

/* The first to read a page is charged for it. Empties the cache, so that readers are. */
static void disturb_cgroup_forget(struct running *r)
{
	fsync(r->fd);
	posix_fadvise(r->fd, 0, 0, POSIX_FADV_DONTNEED);
}

static int disturb_reclaim_setup(struct running *r)
{
	if (disturb_cgroup_make(r, "reclaim"))
		return -1;
	if (disturb_cgroup_write(r, "memory.reclaim", "4096") == -ENOENT)
		return race_skip(r, "no memory.reclaim");
	disturb_cgroup_forget(r);
	r->done_name = "reclaims";
	return 0;
}

static void disturb_reclaim(struct running *r)
{
	if (!disturb_cgroup_write(r, "memory.reclaim",
	                          random_next(&r->rng) % 2 ? "65536" : "4194304"))
		r->done++;
	clock_sleep_ms(1);
}

static void disturb_cgroup_remove(struct running *r)
{
	u32 tries;

	if (!r->crew.cgroup)
		return;
	for (tries = 0; rmdir(r->crew.cgroup) && errno == EBUSY && tries < 50; tries++)
		clock_sleep_ms(20);
}

static int disturb_oom_setup(struct running *r)
{
	if (disturb_cgroup_make(r, "oom"))
		return -1;
	if (disturb_cgroup_write(r, "memory.max", "16777216"))
		return race_skip(r, "no memory.max");
	disturb_cgroup_write(r, "memory.swap.max", "0");
	disturb_cgroup_write(r, "memory.oom.group", "0");
	disturb_cgroup_forget(r);
	r->done_name = "OOM kills";
	return 0;
}

/* A child takes memory until it is killed. So the readers' pages are reclaimed. */
static void disturb_oom(struct running *r)
{
	int status;
	u32 i;
	pid_t pid = fork();

	if (!pid) {
		char path[160];
		u64 at;

		snprintf(path, sizeof(path), "%s/cgroup.procs", r->crew.cgroup);
		if (text_write("/proc/self/oom_score_adj", "1000") ||
		    text_write(path, "0"))
			_exit(1);
		for (at = 0; at < 64ul << 20; at += PMD_BYTES) {
			char *p = mmap(NULL, PMD_BYTES, PROT_READ | PROT_WRITE,
			               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			if (p == MAP_FAILED ||
			    madvise(p, PMD_BYTES, MADV_POPULATE_WRITE))
				break;
		}
		_exit(0);
	}
	if (pid < 0)
		return;
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		r->done++;
	/* Readers die too, now and then. New ones take their places. */
	for (i = 0; i < r->crew.procs; i++) {
		if (waitpid(r->crew.pid[i], &status, WNOHANG) == r->crew.pid[i])
			crew_fork(&r->crew, i);
	}
}

static void disturb_oom_teardown(struct running *r)
{
	if (!r->done && !r->skip[0] && r->round)
		ktap_fail("nobody was killed for memory");
	disturb_cgroup_remove(r);
}

/* -- huge pages --------------------------------------------------------------------------- */

static void disturb_collapse(struct seat *s)
{
	int fd;

	/* Small pages are mapped and read for a while. */
	clock_sleep_ms(2 + random_next(&s->rng) % 8);
	if (!madvise(s->map, s->map_bytes, MADV_COLLAPSE))
		atomic_fetch_add((atomic_ulong *)s->extra, 1);
	else
		atomic_store((atomic_ulong *)s->extra + 1, errno);
	seat_settle(s);
	if (s->crew->flags & CREW_EXEC && s->index == 0) {
		/* A file that is opened for writing loses its huge pages. */
		fd = open(s->crew->path, O_RDWR | O_CLOEXEC);
		if (fd >= 0)
			close(fd);
	} else if (random_next(&s->rng) % 4 == 0) {
		madvise(s->map, s->map_bytes, MADV_DONTNEED);
	}
	madvise(s->map, s->map_bytes, MADV_POPULATE_READ);
}

static atomic_ulong *collapsed;

static int disturb_collapse_seat_setup(struct seat *s)
{
	s->extra = collapsed;
	return 0;
}

static int disturb_collapse_setup(struct running *r)
{
	if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK))
		return race_skip(r, "no transparent huge pages");
	if (!collapsed)
		collapsed = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
		                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	atomic_store(collapsed, 0);
	r->done_name = "calls that found or made a huge page";
	return 0;
}

/* Splits the huge page, so that the readers can collapse it again. */
void disturb_split(struct running *r)
{
	file_split(r->path, FILE_BYTES);
	clock_sleep_ms(1);
}

/*
 * Splits the file's large folios, and drops them so that readers bring large ones back. A
 * reader that has looked its folio up before the split must not count on a page that belongs
 * to another folio by now.
 */
static void disturb_split_often(struct running *r)
{
	disturb_split(r);
	if (r->round % 4 == 3)
		posix_fadvise(r->fd, 0, 0, POSIX_FADV_DONTNEED);
}

static void disturb_collapse_teardown(struct running *r)
{
	if (r->skip[0] || !collapsed)
		return;
	r->done = atomic_load(collapsed);
	if (!r->done)
		ktap_fail("nothing was collapsed: %s", strerror(collapsed[1]));
}

/* -- the death of readers ------------------------------------------------------------------ */

void disturb_kill(struct running *r)
{
	u32 victim = random_next(&r->rng) % r->crew.procs;

	kill(r->crew.pid[victim], SIGKILL);
	crew_replace(&r->crew, victim);
	r->done++;
	clock_sleep_ms(20 + random_next(&r->rng) % 50);
}

static int disturb_kill_setup(struct running *r)
{
	r->done_name = "kills";
	return 0;
}

/* -- the table --------------------------------------------------------------------------- */

#define OUTSIDE(n, kind, f, fn, ...) \
	{ \
		.name = n, .fs = kind, .flags = f, .procs = 3, .threads = 2, \
		.outside = fn, __VA_ARGS__ \
	}

/*
 * No fold is asked of four races. A reader of xfs holds the inode's lock, so truncate-xfs never
 * meets one in its copy. The two that collapse do so only while a page has no reader. A process
 * that is killed gives its references back before its entries go. The case killed of hold and
 * the number of huge pages say what these races must show.
 */
static const struct race races[] = {
	OUTSIDE("fadvise", "ext4", CREW_UNMAP, disturb_fadvise, .min_fold = 1),
	OUTSIDE("drop-caches", "ext4", CREW_UNMAP | CREW_GUEST, disturb_drop_caches,
	        .min_fold = 1),
	OUTSIDE("truncate", "ext4", CREW_ZEROS | CREW_SHORT, disturb_truncate,
	        .min_fold = 1),
	OUTSIDE("truncate-xfs", "xfs", CREW_LARGE | CREW_ZEROS | CREW_SHORT,
	        disturb_truncate),
	OUTSIDE("truncate-tmpfs", "tmpfs", CREW_ZEROS | CREW_SHORT, disturb_truncate,
	        .min_fold = 1),
	OUTSIDE("punch-hole", "ext4", CREW_ZEROS, disturb_punch, .min_fold = 1),
	OUTSIDE("punch-hole-tmpfs", "tmpfs", CREW_ZEROS, disturb_punch, .min_fold = 1),
	OUTSIDE("direct-write", "ext4", 0, disturb_direct,
	        .setup = disturb_direct_setup, .teardown = disturb_direct_teardown,
	        .min_fold = 1),
	OUTSIDE("direct-write-xfs", "xfs", CREW_LARGE, disturb_direct,
	        .setup = disturb_direct_setup, .teardown = disturb_direct_teardown,
	        .min_fold = 1),
	OUTSIDE("reclaim", "ext4", CREW_GUEST, disturb_reclaim,
	        .setup = disturb_reclaim_setup, .teardown = disturb_cgroup_remove,
	        .min_fold = 1),
	/* The reaper folds only if a victim is slow to end: 0 to 2 times in all. */
	OUTSIDE("oom", "ext4", CREW_KILLED | CREW_GUEST, disturb_oom,
	        .setup = disturb_oom_setup, .teardown = disturb_oom_teardown),
	OUTSIDE("collapse", "ext4", CREW_EXEC | CREW_WHOLE | CREW_LAZY, NULL,
	        .inside = disturb_collapse, .seat_setup = disturb_collapse_seat_setup,
	        .setup = disturb_collapse_setup, .teardown = disturb_collapse_teardown),
	OUTSIDE("collapse-tmpfs", "tmpfs", CREW_WHOLE | CREW_LAZY, disturb_split,
	        .inside = disturb_collapse, .seat_setup = disturb_collapse_seat_setup,
	        .setup = disturb_collapse_setup, .teardown = disturb_collapse_teardown),
	OUTSIDE("split-xfs", "xfs", CREW_LARGE | CREW_UNMAP, disturb_split_often,
	        .min_fold = 1),
	OUTSIDE("kill", "ext4", CREW_KILLED, disturb_kill, .setup = disturb_kill_setup),
};

const struct race_table disturb_file = { races, NR(races) };
