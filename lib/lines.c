/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: lines.h. */
#include "lib/lines.h"

static bool lines_fill(struct lines *l)
{
	int64_t n = l->read(l->fd, l->buffer, sizeof(l->buffer), l->offset);

	l->ended = n <= 0;
	l->error = n < 0 ? (int)n : 0;
	l->next = 0;
	l->filled = n > 0 ? (size_t)n : 0;
	l->offset += l->filled;
	return !l->ended;
}

bool lines_next(struct lines *l, char *line, size_t room)
{
	size_t n = 0;

	while (n < room - 1 && (l->next < l->filled || lines_fill(l))) {
		line[n] = l->buffer[l->next++];
		if (line[n++] == '\n')
			break;
	}
	line[n] = '\0';
	return n > 0 && l->error == 0;
}
