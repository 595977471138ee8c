/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See base.h. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>

#include "core/cache/arena.h"
#include "lib/port/limit.h"
#include "lib/port/set.h"
#include "lib/service/base/state.h"

/* What files leave of the limit on descriptors to programs and contexts: a part, between these
 * two. Our choice: as many as there can be contexts, and some; a few under a small limit. */
#define LEFT_PART 16u
#define LEFT_LEAST 8u
#define LEFT_MOST (ARENA_MAX_CONTEXTS + 256u)

#define SENTENCE_BYTES 512

void service_say(const struct base *s, enum service_level level, const char *event,
                 const char *format, ...)
{
	char line[SENTENCE_BYTES];
	va_list args;

	if (!s->events->say)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	s->events->say(s->events->say_arg, level, event, line);
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

int service_open_events(struct base *s)
{
	for (u32 kind = 0; kind < NR_SOURCES; kind++)
		s->sources[kind].kind = kind;
	s->epoll = port_set();
	s->wake = port_event();
	if (s->epoll < 0 || s->wake < 0)
		return s->epoll < 0 ? s->epoll : s->wake;
	/* Never taken: all readers share the description, and one of them could make a read
	 * wait. */
	return service_watch_as(s, s->wake, PORT_NEW_INPUT, SOURCE_WAKE);
}

void service_close_events(struct base *s)
{
	service_close(&s->wake);
	service_close(&s->epoll);
}

int service_watch(struct base *s, int fd, u32 what, struct source *source)
{
	return port_set_add(s->epoll, fd, what, source);
}

int service_watch_as(struct base *s, int fd, u32 what, enum source_kind kind)
{
	return service_watch(s, fd, what, &s->sources[kind]);
}

int service_watch_again(struct base *s, int fd, u32 what, struct source *source)
{
	return port_set_change(s->epoll, fd, what, source);
}

bool service_is_replaced(const struct base *s)
{
	return s->replaced;
}

void service_watch_no_more(struct base *s, int fd)
{
	port_set_remove(s->epoll, fd);
}

int service_wake_fd(const struct base *s)
{
	return s->wake;
}

void service_stop(struct base *s)
{
	s->stopping = true;
}

bool service_is_stopping(const struct base *s)
{
	return s->stopping;
}

u64 service_started_ns(const struct base *s)
{
	return s->started_ns;
}

void service_close(int *fd)
{
	if (*fd >= 0)
		port_close(*fd);
	*fd = -1;
}

void service_close_file(int *fd)
{
	if (*fd >= 0)
		port_shut(*fd);
	*fd = -1;
}

bool service_is_crowded(int fd)
{
	u64 limit = port_limit(PORT_LIMIT_DESCRIPTORS);
	u64 left = limit / LEFT_PART;

	left = left < LEFT_LEAST ? LEFT_LEAST : left < LEFT_MOST ? left : LEFT_MOST;
	return fd >= 0 && (u64)fd + left >= limit;
}
