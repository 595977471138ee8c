/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See outside.h. */
#define _GNU_SOURCE
#include "tests/outside/outside.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_MOUNTS 64u

/* What is mounted, in this order: a folder with a mount in it cannot be removed. */
static struct {
	pid_t owner;
	u32 nr;
	char at[MOST_MOUNTS][FIXTURE_PATH_BYTES];
} mounts;

static void mounts_add(const char *at)
{
	REQUIRE(mounts.nr < MOST_MOUNTS, "%u mounts", mounts.nr);
	snprintf(mounts.at[mounts.nr++], FIXTURE_PATH_BYTES, "%s", at);
}

/* Some are gone already. */
static void mounts_end(void)
{
	while (getpid() == mounts.owner && mounts.nr > 0)
		umount2(mounts.at[--mounts.nr], MNT_DETACH);
}

void outside_begin_with(int argc, char **argv, const struct fixture_option *options)
{
	bool alone = geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
	             mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
	char folder[FIXTURE_PATH_BYTES];

	fixture_begin(argc, argv, options);
	mounts.owner = getpid();
	atexit(mounts_end); /* before the fixture removes the folder */
	if (!alone)
		fixture_skip("needs root, and the right to mount");
	fixture_path(folder, ".");
	REQUIRE(chmod(folder, 0711) == 0, "%s", strerror(errno));
}

void outside_begin(int argc, char **argv)
{
	outside_begin_with(argc, argv, NULL);
}

void outside_folder(char path[FIXTURE_PATH_BYTES], const char *name)
{
	fixture_path(path, name);
	REQUIRE(mkdir(path, 0755) == 0, "%s: %s", path, strerror(errno));
}

void outside_mount(const char *source, const char *at, const char *type,
                   unsigned long flags, const char *data)
{
	REQUIRE(mount(source, at, type, flags, data) == 0, "%s on %s: %s",
	        type ? type : "again", at, strerror(errno));
	if (!(flags & MS_REMOUNT))
		mounts_add(at);
}

void outside_mount_ext4(const char *at)
{
	char image[FIXTURE_PATH_BYTES], command[3 * FIXTURE_PATH_BYTES];
	int fd;

	snprintf(image, sizeof(image), "%s.image", at);
	fd = fixture_open(image, O_RDWR | O_CREAT);
	REQUIRE(ftruncate(fd, OUTSIDE_IMAGE_BYTES) == 0, "%s", strerror(errno));
	close(fd);
	/* mount(8) finds a loop device and lets it go with the mount. */
	snprintf(
		command, sizeof(command),
		"PATH=$PATH:/sbin:/usr/sbin; mkfs.ext4 -q '%s' && mount -o loop '%s' '%s'",
		image, image, at);
	REQUIRE(system(command) == 0, "%s", command);
	mounts_add(at);
}

void outside_become_nobody(void)
{
	REQUIRE(setgid(OUTSIDE_NOBODY) == 0 && setuid(OUTSIDE_NOBODY) == 0, "%s",
	        strerror(errno));
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* forgotten by setuid() */
}

void outside_write(const char *path, u64 file, u64 version, u64 n)
{
	u8 *bytes = malloc(n);
	int fd = fixture_open(path, O_WRONLY);

	REQUIRE(bytes, "no memory");
	pattern_fill(bytes, file, version, 0, n);
	REQUIRE(write(fd, bytes, n) == (ssize_t)n, "%s: %s", path, strerror(errno));
	close(fd);
	free(bytes);
}
