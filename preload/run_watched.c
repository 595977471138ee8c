/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Where the processes that `lodic doctor` watches leave their counts: in files PID-N of its folder,
 * which is the doctor's user's alone. A process that has become another user cannot write there. So
 * the shim makes a folder for that user in it before, uUID, while the process may still do that.
 */
#define _GNU_SOURCE
#include "preload/run_watched.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/host.h"
#include "lib/port/guest.h"
#include "preload/run_environment.h"

/* Programs that one process may run in its own place. */
#define PROGRAMS_MOST 1000
#define PATH_ROOM (RUN_TEXT_BYTES + 32)
#define IO_BYTES 512u /* of /proc/self/io; seven numbers */

/* A new file there; or as port_create_both(): it cannot be had. */
static int watched_open(const char *folder)
{
	char path[PATH_ROOM + 32];
	int fd = -EEXIST;

	for (int i = 0; i < PROGRAMS_MOST && fd == -EEXIST; i++) {
		snprintf(path, sizeof(path), "%s/%d-%d", folder, port_process(), i);
		fd = port_create_both(path);
	}
	return fd;
}

int run_watched_file(const char *folder, size_t bytes)
{
	char of_user[PATH_ROOM];
	int fd = watched_open(folder);

	if (fd == -EACCES) {
		snprintf(of_user, sizeof(of_user), "%s/" RUN_DOCTOR_USER "%u", folder,
		         port_user());
		fd = watched_open(of_user);
	}
	if (fd >= 0 && port_resize(fd, bytes) != 0) {
		port_shut(fd);
		fd = -1;
	}
	return fd < 0 ? -1 : fd;
}

static u64 number_behind(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

void run_watched_end(struct seen_process *process)
{
	char text[IO_BYTES];
	int64_t n = port_process_text("io", text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	process->io_bytes = number_behind(text, "rchar: ");
	process->io_reads = number_behind(text, "syscr: ");
	process->io_device_bytes = number_behind(text, "\nread_bytes: ");
	process->io_known = n > 0;
}

void run_watched_becomes(const char *folder, uint32_t user)
{
	char path[PATH_ROOM];
	int error = errno;

	snprintf(path, sizeof(path), "%s/" RUN_DOCTOR_USER "%u", folder, user);
	/* It is that user's before anybody else may enter it. */
	if (port_make_folder(path) == 0 && port_give(path, user) != 0)
		port_remove_folder(path);
	errno = error;
}
