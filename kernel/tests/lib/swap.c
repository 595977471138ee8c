// SPDX-License-Identifier: GPL-2.0
#include "swap.h"
#include "fs.h"
#include "ktap.h"

#include <sys/swap.h>

#define SWAP_BYTES (16ul << 20)
#define SWAP_NAME "swap"

/* What mkswap writes into the first page. */
struct swap_header {
	u8 boot[1024];
	u32 version, last_page;
};

static char swap_path[120];

static int swap_make(void)
{
	static u8 page[PAGE];
	struct swap_header *header = (void *)page;
	int fd = open(swap_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int err = 0;
	u64 at;

	if (fd < 0)
		return -errno;
	header->version = 1;
	header->last_page = SWAP_BYTES / PAGE - 1;
	memcpy(page + PAGE - 10, "SWAPSPACE2", 10);
	/* Written in full, because a swap file must have no holes. */
	for (at = 0; at < SWAP_BYTES && !err; at += PAGE) {
		if (pwrite(fd, page, PAGE, at) != (ssize_t)PAGE)
			err = errno ? -errno : -EIO;
		memset(page, 0, PAGE);
	}
	if (!err && fsync(fd))
		err = -errno;
	close(fd);
	return err;
}

int swap_on(void)
{
	struct test_fs *fs;
	int err = fs_mount_once("ext4", &fs);

	if (err)
		return err;
	snprintf(swap_path, sizeof(swap_path), "%s/" SWAP_NAME, fs->dir);
	err = swap_make();
	if (!err && swapon(swap_path, 0))
		err = -errno;
	if (err)
		unlink(swap_path);
	return err;
}

void swap_off(void)
{
	if (swapoff(swap_path))
		ktap_fail("swapoff: %s", strerror(errno));
	unlink(swap_path);
}
