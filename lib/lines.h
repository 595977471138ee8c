/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A file read line by line, as fgets(3) does. */
#ifndef LODIC_LIB_LINES_H
#define LODIC_LIB_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/port.h"

#define LINES_BUFFER_BYTES 4096u

/* { .fd = fd, .read = port_read }: the beginning of a file; port_system_read: of one of the
 * kernel's own. */
struct lines {
	int fd;
	int64_t (*read)(int fd, void *to, size_t bytes, uint64_t offset);
	uint64_t offset; /* of what comes into the buffer next */
	size_t next, filled;
	bool ended; /* there is nothing more, or it cannot be read */
	int error;  /* -errno: it cannot be read; 0: it could, so far */
	char buffer[LINES_BUFFER_BYTES];
};

/* The next line with its newline, or the first room - 1 bytes of it. false: there is none, or
 * l->error has cut it off. It waits as read() does. */
bool lines_next(struct lines *l, char *line, size_t room);

#endif
