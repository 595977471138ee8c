/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Where the processes that `lodic doctor` watches leave their counts: in files PID-N of its folder,
 * which is the doctor's user's alone. A process that has become another user cannot write there. So
 * the shim makes a folder for that user in it before, uUID, while the process may still do that.
 */
#define _GNU_SOURCE
#include "preload/run_watched.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/own.h"
#include "preload/run_environment.h"

/* Programs that one process may run in its own place. */
#define PROGRAMS_MOST 1000
#define PATH_ROOM (RUN_TEXT_BYTES + 32)
#define IO_BYTES 512u /* of /proc/self/io; seven numbers */

/* A new file there; -1 and errno: it cannot be had. */
static int watched_open(const char *folder)
{
	char path[PATH_ROOM + 32];
	int fd = -1;

	for (int i = 0; i < PROGRAMS_MOST && fd < 0; i++) {
		snprintf(path, sizeof(path), "%s/%d-%d", folder, (int)getpid(), i);
		fd = (int)own_call(SYS_openat, AT_FDCWD, path,
		                   O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	return fd;
}

int run_watched_file(const char *folder, size_t bytes)
{
	char of_user[PATH_ROOM];
	int fd = watched_open(folder);

	if (fd < 0 && errno == EACCES) {
		snprintf(of_user, sizeof(of_user), "%s/" RUN_DOCTOR_USER "%u", folder,
		         (unsigned int)geteuid());
		fd = watched_open(of_user);
	}
	if (fd >= 0 && own_call(SYS_ftruncate, fd, bytes) != 0) {
		own_call(SYS_close, fd);
		fd = -1;
	}
	return fd;
}

static u64 number_behind(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

void run_watched_end(struct seen_process *process)
{
	char text[IO_BYTES];
	int fd = (int)own_call(SYS_openat, AT_FDCWD, "/proc/self/io",
	                       O_RDONLY | O_CLOEXEC, 0);
	long n = fd < 0 ? -1 : own_call(SYS_read, fd, text, sizeof(text) - 1);

	if (fd >= 0)
		own_call(SYS_close, fd);
	text[n > 0 ? n : 0] = '\0';
	process->io_bytes = number_behind(text, "rchar: ");
	process->io_reads = number_behind(text, "syscr: ");
	process->io_device_bytes = number_behind(text, "\nread_bytes: ");
	process->io_known = n > 0;
}

void run_watched_becomes(const char *folder, uid_t user)
{
	char path[PATH_ROOM];
	int error = errno;

	snprintf(path, sizeof(path), "%s/" RUN_DOCTOR_USER "%u", folder,
	         (unsigned int)user);
	/* It is that user's before anybody else may enter it. */
	if (own_call(SYS_mkdirat, AT_FDCWD, path, 0700) == 0 &&
	    own_call(SYS_fchownat, AT_FDCWD, path, user, (gid_t)-1,
	             AT_SYMLINK_NOFOLLOW) != 0)
		own_call(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
	errno = error;
}
