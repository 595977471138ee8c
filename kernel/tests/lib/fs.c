// SPDX-License-Identifier: GPL-2.0
#include "fs.h"
#include "clock.h"
#include "ktap.h"
#include "options.h"

const char *fs_device(const char *kind)
{
	static const char *const devices[][2] = { { "ext4", "/dev/vda" },
		                                  { "xfs", "/dev/vdb" },
		                                  { "btrfs", "/dev/vdc" },
		                                  { "f2fs", "/dev/vdd" } };
	u32 i;

	for (i = 0; i < NR(devices); i++) {
		if (!strcmp(kind, devices[i][0]))
			return devices[i][1];
	}
	return NULL;
}

/* Where the device is mounted already. */
static bool fs_find_mount(const char *device, char *ret_dir, size_t bytes)
{
	FILE *f = fopen("/proc/mounts", "re");
	char line[512], dev[128], dir[100];
	bool found = false;

	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f)) {
		found = sscanf(line, "%127s %99s", dev, dir) == 2 &&
		        !strcmp(dev, device);
		if (found)
			snprintf(ret_dir, bytes, "%s", dir);
	}
	fclose(f);
	return found;
}

int fs_mount(const char *kind, struct test_fs *ret_fs)
{
	struct test_fs fs = { .kind = kind };
	const char *device = fs_device(kind) ? fs_device(kind) : "none";

	if (opt.dir) {
		snprintf(fs.dir, sizeof(fs.dir), "%s", opt.dir);
		*ret_fs = fs;
		return 0;
	}
	if (strcmp(kind, "tmpfs") && fs_find_mount(device, fs.dir, sizeof(fs.dir))) {
		*ret_fs = fs;
		return 0;
	}
	snprintf(fs.dir, sizeof(fs.dir), "/tmp/lodic-%s", kind);
	if (mkdir(fs.dir, 0755) && errno != EEXIST)
		return -errno;
	if (mount(device, fs.dir, kind, 0, NULL))
		return -errno;
	fs.mounted_here = true;
	*ret_fs = fs;
	return 0;
}

void fs_umount(struct test_fs *fs)
{
	u32 tries;

	sync();
	if (!fs->mounted_here)
		return;
	/* The last close of a killed reader may still be under way. */
	for (tries = 0; tries < 50; tries++) {
		if (!umount2(fs->dir, 0)) {
			fs->mounted_here = false;
			return;
		}
		clock_sleep_ms(100);
	}
	ktap_fail("umount %s: %s", fs->dir, strerror(errno));
}

static const char *const fs_kinds[] = { "ext4", "xfs", "tmpfs" };
static struct test_fs fs_mounted[NR(fs_kinds)];

int fs_mount_once(const char *kind, struct test_fs **ret_fs)
{
	int err = 0;
	u32 i;

	for (i = 0; i < NR(fs_kinds) - 1 && strcmp(kind, fs_kinds[i]); i++)
		;
	if (!fs_mounted[i].kind)
		err = fs_mount(fs_kinds[i], &fs_mounted[i]);
	if (!err)
		*ret_fs = &fs_mounted[i];
	return err;
}

void fs_umount_all(void)
{
	u32 i;

	for (i = 0; i < NR(fs_mounted); i++) {
		if (fs_mounted[i].kind)
			fs_umount(&fs_mounted[i]);
	}
}
