// SPDX-License-Identifier: GPL-2.0
/* Acts on the file and on the memory behind the page. */
#include "act.h"
#include "counters.h"
#include "file.h"
#include "ktap.h"
#include "options.h"
#include "switches.h"
#include "text.h"

#include <linux/falloc.h>

int act_truncate(struct held *h)
{
	if (ftruncate(h->fd, 0) || ftruncate(h->fd, FILE_BYTES))
		return -errno;
	return pwrite(h->fd, h->expect, PAGE, 0) == (ssize_t)PAGE ? 0 : -errno;
}

int act_punch(struct held *h)
{
	if (fallocate(h->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE))
		return -errno;
	return pwrite(h->fd, h->expect, PAGE, 0) == (ssize_t)PAGE ? 0 : -errno;
}

int act_pageout(struct held *h)
{
	return madvise(h->map, h->map_bytes, MADV_PAGEOUT) ? -errno : 0;
}

/* While references are held the kernel clears the entry and must fail to move the page. */
int act_move_pages(struct held *h)
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
	if (h->all_held && status != from && status != -ENOENT)
		ktap_fail("a page with references held moved from node %d to %d", from,
		          status);
	return 0;
}

/* The kernel removes the pages from the page cache. It does not look at their references. */
int act_direct_write(struct held *h)
{
	int fd = open(h->path, O_WRONLY | O_DIRECT | O_CLOEXEC), err = 0;

	if (fd < 0)
		return -errno;
	if (pwrite(fd, h->expect, h->map_bytes, 0) != (ssize_t)h->map_bytes)
		err = -errno;
	close(fd);
	return err;
}

int act_fadvise(struct held *h)
{
	return -posix_fadvise(h->fd, 0, 0, POSIX_FADV_DONTNEED);
}

/* The kernel looks at the count of the mapped page, and must look again once unmapped. */
int act_collapse(struct held *h)
{
	int err = madvise(h->map, FILE_BYTES, MADV_COLLAPSE) ? errno : 0;

	if (h->all_held && !err)
		ktap_fail("a page with references held was collapsed");
	return err == EINVAL || err == ENOSYS ? -err : 0;
}

/* Each try takes a page from the machine, or marks it for that. */
int act_soft_offline(struct held *h)
{
	if (opt.dir)
		return -EPERM;
	if (!madvise(h->map, PAGE, MADV_SOFT_OFFLINE)) {
		if (h->all_held)
			ktap_fail("a page with references held was taken away");
		return 0;
	}
	return errno == EBUSY || errno == EAGAIN || errno == EIO ? 0 : -errno;
}

int act_hwpoison(struct held *h)
{
	if (opt.dir)
		return -EPERM;
	if (!madvise(h->map, PAGE, MADV_HWPOISON))
		return 0;
	return errno == EBUSY || errno == EAGAIN || errno == EIO ? 0 : -errno;
}

/*
 * While references are out, the kernel must go on looking for counts. Not while readers run:
 * see switch.sh.
 */
int act_switch_off(struct held *h)
{
	int err;

	if (!counters_present())
		return -EOPNOTSUPP;
	text_write_number(SYSCTL_FOLIOREF, 0);
	err = munmap(h->map, h->map_bytes) ? -errno : 0;
	text_write_number(SYSCTL_FOLIOREF, 1);
	return err;
}
