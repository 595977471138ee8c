// SPDX-License-Identifier: GPL-2.0
/* Cases of hold.c that are more than one act while four readers hold a page. */
#include "whole.h"
#include "act.h"
#include "clock.h"
#include "counters.h"
#include "cpu.h"
#include "file.h"
#include "ktap.h"
#include "switches.h"
#include "text.h"
#include "waiter.h"

#include <signal.h>

#define COUNT_MAX 31 /* that an entry holds: 5 bits */

/* Local references that are out, of those taken since then. */
static u64 whole_out(const struct counters *then)
{
	struct counters d = counters_since(then);

	return d.ref - d.unref - d.unref_global;
}

void whole_expect_out(const struct counters *then, u32 nr)
{
	u64 out = whole_out(then);

	if (counters_present() && out != nr)
		ktap_fail("%llu local references held, not %u", (unsigned long long)out,
		          nr);
}

/*
 * Two readers hold a page. Another page of the file comes to its place, and two more readers
 * hold that one, counted in the same entry. The first two must not give those counts back.
 */
void whole_two_frames(struct held *h)
{
	held_take(h, 0, 2, 0);
	if (act_map_fixed(h))
		ktap_fail("mmap: %s", strerror(errno));
	held_take(h, 2, 2, PAGE);
	held_release(h, 0, 2, false);
	held_release(h, 2, 2, false);
}

/*
 * The entry leads to a private copy, no longer to the file's page. So the readers must count
 * globally. They read one after the other, because one reader could hide that another is a
 * reference short. A second mapping, below the first, keeps the file's page mapped, so that
 * the kernel tries for a local reference at all.
 */
void whole_not_mapped_any_more(struct held *h)
{
	char *low = mmap(AREA_A - PMD_BYTES, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED,
	                 h->fd, 0);
	u32 i;

	if (low == MAP_FAILED || madvise(low, PAGE, MADV_POPULATE_READ))
		ktap_fail("second mapping: %s", strerror(errno));
	held_take(h, 0, 1, 0);
	held_release(h, 0, 1, false);
	if (act_cow(h))
		ktap_fail("copy on write: %s", strerror(errno));
	for (i = 0; i < 2 * HOLDERS; i++) {
		held_take(h, i % HOLDERS, 1, 0);
		held_release(h, i % HOLDERS, 1, false);
	}
	/*
	 * A count that is wrong but given back where it was does no harm. So one reader
	 * holds while the private copy goes: a count there would go with it.
	 */
	held_take(h, 0, 1, 0);
	if (act_munmap(h))
		ktap_fail("munmap: %s", strerror(errno));
	held_release(h, 0, 1, false);
	munmap(low, PAGE);
}

/* -- readers that die ------------------------------------------------------------------- */

static const struct held *whole_parent;
static struct held whole_child;

/* In a child: holders of its own take references by the mapping that it has inherited. */
static int whole_hold_in_child(void *arg)
{
	struct held *other = &whole_child;

	(void)arg;
	if (held_init(other, HOLDERS))
		return -1;
	other->fd = whole_parent->fd;
	other->expect = whole_parent->expect;
	madvise(whole_parent->map, PAGE, MADV_POPULATE_READ);
	held_take(other, 0, HOLDERS, 0);
	return 0;
}

/* The readers of another process are killed in their copies. */
void whole_killed(struct held *h)
{
	struct counters before;
	pid_t pid;

	whole_parent = h;
	counters_read(&before);
	pid = waiter_start(whole_hold_in_child, NULL);
	if (pid < 0) {
		ktap_fail("the child did not hold anything");
		return;
	}
	whole_expect_out(&before, HOLDERS);
	waiter_kill(pid);
	counters_check_quiet();
}

/*
 * A process becomes another program while its threads hold references. The kernel kills the
 * threads, and they give their references back before their address space goes.
 */
void whole_exec(struct held *h)
{
	struct counters before;
	int go[2], ready[2], status = 0;
	pid_t pid;
	char c;

	if (pipe(go) || pipe(ready))
		ktap_bail("pipe");
	whole_parent = h;
	counters_read(&before);
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		ktap_bail("fork");
	if (!pid) {
		if (whole_hold_in_child(NULL) || write(ready[1], "x", 1) != 1 ||
		    read(go[0], &c, 1) != 1)
			_exit(1);
		execl("/bin/true", "true", (char *)NULL);
		_exit(2);
	}
	close(ready[1]);
	if (read(ready[0], &c, 1) == 1)
		whole_expect_out(&before, HOLDERS);
	else
		ktap_fail("the child did not hold anything");
	if (write(go[1], "x", 1) != 1)
		ktap_fail("go: %s", strerror(errno));
	waitpid(pid, &status, 0);
	if (status)
		ktap_fail("exec: status 0x%x", status);
	close(ready[0]);
	close(go[0]);
	close(go[1]);
	counters_check_quiet();
}

/* -- more readers than an entry can count ------------------------------------------------ */

/* Those that find the entry full must count globally, and nothing may spill over. */
void whole_past_the_max(struct held *h)
{
	static struct held many;
	struct counters before, d;

	if (!many.nr && held_init(&many, HOLDERS_MOST)) {
		ktap_fail("%u readers did not start", HOLDERS_MOST);
		return;
	}
	many.fd = h->fd;
	many.expect = h->expect;
	counters_read(&before);
	held_take(&many, 0, HOLDERS_MOST, 0);
	whole_expect_out(&before, COUNT_MAX);
	if (act_munmap(h))
		ktap_fail("munmap: %s", strerror(errno));
	d = counters_since(&before);
	if (counters_present() && d.folded != COUNT_MAX)
		ktap_fail("%llu references folded, not %u",
		          (unsigned long long)d.folded, COUNT_MAX);
	held_release(&many, 0, HOLDERS_MOST, false);
}

/* -- a seal ------------------------------------------------------------------------------ */

/* Maps a descriptor that cannot write, because a seal refuses mappings that could. */
static int whole_seal_map(struct held *h, int memfd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", memfd);
	h->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (h->fd < 0)
		return -errno;
	h->map = mmap(AREA_A, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, h->fd, 0);
	if (h->map == MAP_FAILED || madvise(h->map, PAGE, MADV_POPULATE_READ))
		return -errno;
	return 0;
}

/*
 * F_SEAL_WRITE asks whether anybody could still write by a reference. It sees no local
 * reference. It need not, because a local reference only reads: the seal is granted at once.
 */
void whole_seal_write(struct held *h)
{
	int memfd = memfd_create("lodic-seal", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int fd = h->fd, err;
	struct counters before;

	if (memfd < 0 || pwrite(memfd, h->expect, PAGE, 0) != (ssize_t)PAGE)
		ktap_bail("memfd");
	munmap(h->map, h->map_bytes);
	if (whole_seal_map(h, memfd))
		ktap_bail("mapping a memfd");
	counters_read(&before);
	held_take(h, 0, HOLDERS, 0);
	whole_expect_out(&before, HOLDERS);
	err = fcntl(memfd, F_ADD_SEALS, F_SEAL_WRITE) ? errno : 0;
	if (counters_present() && err)
		ktap_fail("the seal, with local references held: %s", strerror(err));
	if (counters_present() && counters_since(&before).folded)
		ktap_fail("the seal has folded references");
	held_release(h, 0, HOLDERS, false);
	if (err)
		err = fcntl(memfd, F_ADD_SEALS, F_SEAL_WRITE) ? errno : 0;
	if (err)
		ktap_fail("the seal, with nobody reading: %s", strerror(err));
	if (pwrite(memfd, "x", 1, 0) != -1 || errno != EPERM)
		ktap_fail("a write to the sealed file was not refused");
	munmap(h->map, PAGE);
	close(h->fd);
	close(memfd);
	h->fd = fd;
}

/* -- the switch -------------------------------------------------------------------------- */

/* The kernel must look for counts before the first reader may count. */
void whole_switch_on(struct held *h)
{
	struct counters before;

	if (!counters_present()) {
		h->cannot = "no LODIC";
		return;
	}
	text_write_number(SYSCTL_FOLIOREF, 0);
	text_write_number(SYSCTL_FOLIOREF, 1);
	counters_read(&before);
	held_take(h, 0, HOLDERS, 0);
	whole_expect_out(&before, HOLDERS);
	if (act_munmap(h))
		ktap_fail("munmap: %s", strerror(errno));
	if (counters_since(&before).folded != HOLDERS)
		ktap_fail("%llu references folded, not %u",
		          (unsigned long long)counters_since(&before).folded, HOLDERS);
	held_release(h, 0, HOLDERS, false);
}

/* -- a folio that is split between look and count ---------------------------------------- */

#define LOOK_TURNS 1000000000 /* of cpu_relax(), at most: the test ends them after the split */
#define LOOKERS 3          /* so the first processor is free for the one that splits */

/*
 * Readers have found a large folio in the page cache. Before they count, it is split. The page
 * that they asked for belongs to another folio now. They count on that page's entry, must
 * notice, and must take the count back.
 */
void whole_stale_look_up(struct held *h)
{
	long long before = text_read_number(DEBUG_UNDONE), undone;

	if (before < 0) {
		h->cannot = "no CONFIG_LODIC_DEBUG";
		return;
	}
	h->stride = 0;
	cpu_pin(0);
	text_write_number(DEBUG_LOOK, LOOK_TURNS);
	/* Not the first page of a folio, whose number of pages is even. */
	held_start(h, 0, LOOKERS, 5 * PAGE);
	clock_sleep_ms(10);
	file_split(h->path, 16 * PAGE);
	/* The split has unmapped them. Now the entry leads to the page again. */
	madvise(h->map, 16 * PAGE, MADV_POPULATE_READ);
	text_write_number(DEBUG_LOOK, 0);
	held_stopped(h, LOOKERS);
	cpu_unpin();
	undone = text_read_number(DEBUG_UNDONE) - before;
	ktap_diag("%lld references were undone", undone);
	if (!undone)
		ktap_fail("no reader undid its reference on another folio's page");
	held_release(h, 0, LOOKERS, false);
	/* The next round gets large folios again. */
	munmap(h->map, h->map_bytes);
	posix_fadvise(h->fd, 0, 0, POSIX_FADV_DONTNEED);
}
