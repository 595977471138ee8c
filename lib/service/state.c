/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See state.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "lib/service/state.h"

#define SENTENCE_BYTES 512

void service_say(const struct service *s, const char *format, ...)
{
	char line[SENTENCE_BYTES];
	va_list args;

	if (!s->options.say)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	s->options.say(s->options.say_arg, line);
}

const char *service_why(const char *format, ...)
{
	static _Thread_local char why[SENTENCE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	return why;
}

int service_watch(struct service *s, int fd, u32 events, struct source *source)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	return epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

int service_watch_again(struct service *s, int fd, u32 events, struct source *source)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	return epoll_ctl(s->epoll, EPOLL_CTL_MOD, fd, &event) == 0 ? 0 : -errno;
}

void service_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}
