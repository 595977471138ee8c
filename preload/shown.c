/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See shown.h. The list of a large program is long, and the shim calls neither malloc nor stdio (M5
 * in map.h). So it reads with a small buffer. */
#define _GNU_SOURCE
#include "preload/shown.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "preload/own.h"

/* A line up to its path. */
#define SHOWN_BYTES 128u

static bool shown_parse(const char *line, struct shown *ret)
{
	char *p;
	u64 high;

	ret->begin = strtoull(line, &p, 16);
	if (*p++ != '-')
		return false;
	ret->end = strtoull(p, &p, 16);
	if (*p++ != ' ' || strlen(p) < 5)
		return false;
	ret->reads_only = strncmp(p, "r--", 3) == 0;
	ret->shared = p[3] == 's';
	ret->offset = strtoull(p + 5, &p, 16);
	high = strtoull(p, &p, 16);
	if (*p++ != ':')
		return false;
	ret->dev = high << 32 | strtoull(p, &p, 16);
	ret->ino = strtoull(p, NULL, 10);
	return true;
}

u64 shown_dev(dev_t dev)
{
	return (u64)major(dev) << 32 | minor(dev);
}

int shown_find(u64 at, struct shown *ret)
{
	static char text[4096];
	char line[SHOWN_BYTES];
	bool found = false;
	u32 n = 0;
	long got = 1;
	int fd = (int)own_call(SYS_openat, AT_FDCWD, "/proc/self/maps",
	                       O_RDONLY | O_CLOEXEC, 0);

	if (fd < 0)
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -EMFILE
		                                                             : -ENOENT;
	ret->end = 0;
	while (ret->end <= at && (got = own_call(SYS_read, fd, text, sizeof(text))) > 0)
		for (long i = 0; i < got && ret->end <= at; i++) {
			if (text[i] != '\n' && n < sizeof(line) - 1)
				line[n++] = text[i];
			if (text[i] != '\n')
				continue;
			line[n] = '\0';
			n = 0;
			found = shown_parse(line, ret);
		}
	own_call(SYS_close, fd);
	return found && ret->begin <= at && ret->end > at ? 0 : -ENOENT;
}
