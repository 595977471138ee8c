// SPDX-License-Identifier: GPL-2.0
/* Acts in the address space of the readers: they clear, move or change its entries. */
#include "act.h"
#include "file.h"
#include "ktap.h"
#include "text.h"

#include <poll.h>

int act_nothing(struct held *h)
{
	(void)h;
	return 0;
}

int act_munmap(struct held *h)
{
	return munmap(h->map, h->map_bytes) ? -errno : 0;
}

int act_map_fixed(struct held *h)
{
	void *p = mmap(h->map, h->map_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, h->fd,
	               PAGE);

	if (p == MAP_FAILED)
		return -errno;
	return madvise(p, PAGE, MADV_POPULATE_READ) ? -errno : 0;
}

/* Maps it anew: the entry leads to the page again, with nobody counted in it. */
int act_map_again(struct held *h)
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

int act_mremap_pte(struct held *h)
{
	return act_mremap(h, AREA_B + PAGE);
}

int act_mremap_pmd(struct held *h)
{
	return act_mremap(h, AREA_B);
}

int act_mprotect_none(struct held *h)
{
	return mprotect(h->map, h->map_bytes, PROT_NONE) ? -errno : 0;
}

int act_mprotect_read(struct held *h)
{
	return mprotect(h->map, h->map_bytes, PROT_READ) ? -errno : 0;
}

int act_dontneed(struct held *h)
{
	return madvise(h->map, h->map_bytes, MADV_DONTNEED) ? -errno : 0;
}

int act_cow(struct held *h)
{
	return madvise(h->map, PAGE, MADV_POPULATE_WRITE) ? -errno : 0;
}

int act_write_fault(struct held *h)
{
	*(volatile u8 *)h->map = h->expect[0];
	return 0;
}

/* Write-back takes the right to write away: it clears the entry and sets it again. */
int act_write_back(struct held *h)
{
	act_write_fault(h);
	return fsync(h->fd) ? -errno : 0;
}

/*
 * A write to a page that userfaultfd protects without reporting writes. The fault takes the
 * protection off an entry that stays present, and then makes the entry writable.
 */
int act_wp_async(struct held *h)
{
	struct pollfd p = { .fd = h->wp_fd, .events = POLLIN };

	act_write_fault(h);
	if (poll(&p, 1, 0) > 0)
		ktap_fail("the write was reported");
	return 0;
}

int act_fork(struct held *h)
{
	u8 got[HELD_BYTES];
	int status = 0;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (!pid) {
		ssize_t n = pread(h->fd, got, sizeof(got), 0);

		_exit(n != sizeof(got) || memcmp(got, h->expect, sizeof(got)));
	}
	waitpid(pid, &status, 0);
	if (status)
		ktap_fail("child's read: status 0x%x", status);
	return 0;
}

/*
 * The kernel copies the entries of a private mapping in which something was written. So the
 * child gets an entry for the page that is held. The child must get it without the count: it
 * unmaps the page, and a count would be folded that nobody holds.
 */
int act_fork_private(struct held *h)
{
	int status = 0;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (!pid) {
		if (!file_present(h->map))
			_exit(2);
		if (memcmp(h->map, h->expect, HELD_BYTES))
			_exit(3);
		_exit(!!munmap(h->map, h->map_bytes));
	}
	waitpid(pid, &status, 0);
	if (status)
		ktap_fail("child's mapping: status 0x%x", status);
	return 0;
}

/* The child is in our address space: it counts in the same entry as the readers do. */
int act_vfork(struct held *h)
{
	static u8 got[HELD_BYTES];
	static volatile ssize_t n;
	int status = 0;
	pid_t pid = vfork();

	if (pid < 0)
		return -errno;
	if (!pid) {
		n = pread(h->fd, got, sizeof(got), 0);
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	if (status)
		ktap_fail("vfork's child: status 0x%x", status);
	if (n != sizeof(got) || memcmp(got, h->expect, sizeof(got)))
		ktap_fail("vfork's child read %zd bytes, or wrong ones", n);
	return 0;
}

/*
 * Reads the page into its own mapping. The copy faults at the entry that this read counts
 * in. Where the mapping is private, the fault replaces the entry.
 */
int act_into_own(struct held *h)
{
	ssize_t n = pread(h->fd, h->map, HELD_BYTES, 0);

	if (n != HELD_BYTES || memcmp(h->map, h->expect, HELD_BYTES))
		ktap_fail("a read into the page's own mapping: %zd", n);
	return 0;
}

int act_clear_refs(struct held *h)
{
	(void)h;
	return text_write("/proc/self/clear_refs", "4");
}
