/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See shown.h. A kernel from 6.11 on says what is mapped at one address. Others give the list. That
 * is long in a large program, and the shim calls neither malloc nor stdio (M5 in map.h). So it
 * reads with a small buffer. */
#define _GNU_SOURCE
#include "preload/shown.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "preload/own.h"
#include "preload/shim.h"

/* A line up to its path. */
#define SHOWN_BYTES 128u

/* PROCMAP_QUERY of linux/fs.h, which old headers do not have. */
struct shown_query {
	u64 bytes, flags, at;
	u64 begin, end, mode, page_bytes, offset, ino;
	u32 dev_major, dev_minor;
	u32 name_bytes, build_id_bytes;
	u64 name, build_id;
};
#define SHOWN_QUERY _IOWR('f', 17, struct shown_query)
#define SHOWN_READS 1u
#define SHOWN_WRITES 2u
#define SHOWN_RUNS 4u
#define SHOWN_SHARED 8u

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

/* 0 or -ENOENT as shown_find(). -ENOTTY: the kernel does not answer such a question. */
static int shown_ask(int fd, u64 at, struct shown *ret)
{
	struct shown_query q = { .bytes = sizeof(q), .at = at };

	if (own_call(SYS_ioctl, fd, SHOWN_QUERY, &q) != 0)
		return errno == ENOENT ? -ENOENT : -ENOTTY;
	*ret = (struct shown){
		.begin = q.begin,
		.end = q.end,
		.offset = q.offset,
		.dev = (u64)q.dev_major << 32 | q.dev_minor,
		.ino = q.ino,
		.reads_only = (q.mode & (SHOWN_READS | SHOWN_WRITES | SHOWN_RUNS)) ==
		              SHOWN_READS,
		.shared = q.mode & SHOWN_SHARED,
	};
	return 0;
}

/* Reads the list up to the address. */
static int shown_read(int fd, u64 at, struct shown *ret)
{
	char *text = shim.shown.text;
	char line[SHOWN_BYTES];
	bool found = false;
	u32 n = 0;
	long got = 1;

	ret->end = 0;
	while (ret->end <= at &&
	       (got = own_call(SYS_read, fd, text, sizeof(shim.shown.text))) > 0)
		for (long i = 0; i < got && ret->end <= at; i++) {
			if (text[i] != '\n' && n < sizeof(line) - 1)
				line[n++] = text[i];
			if (text[i] != '\n')
				continue;
			line[n] = '\0';
			n = 0;
			found = shown_parse(line, ret);
		}
	return found && ret->begin <= at && ret->end > at ? 0 : -ENOENT;
}

int shown_find(u64 at, struct shown *ret)
{
	int fd = (int)own_call(SYS_openat, AT_FDCWD, "/proc/self/maps",
	                       O_RDONLY | O_CLOEXEC, 0);
	int err;

	if (fd < 0)
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -EMFILE
		                                                             : -ENOENT;
	err = shown_ask(fd, at, ret);
	if (err == -ENOTTY)
		err = shown_read(fd, at, ret);
	own_call(SYS_close, fd);
	return err;
}
