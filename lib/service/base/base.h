/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What every file of the service may use: its log, its events, and the bound of a turn. */
#ifndef LODIC_LIB_SERVICE_BASE_BASE_H
#define LODIC_LIB_SERVICE_BASE_BASE_H

#include "host/host.h"
#include "lib/port.h"
#include "lib/service/service.h"

struct source;

struct base;

#define NS_PER_MS ((u64)1000000)

/* How many cache lines one piece of the main loop's work may touch before the loop looks at
 * its clients again. Eviction and all else that goes over contexts, frames or blocks keeps
 * to it. A take from 1024 contexts was measured at 25 ns a line. So a piece ends after about
 * 0.4 ms, a fifth of the 2 ms that a client may have to wait. */
#define TURN_LINES 16384u

/* What a watched descriptor is about. A client's sources lie inside the client. */
enum source_kind {
	SOURCE_LISTEN,
	SOURCE_SIGNAL,
	SOURCE_WAKE,   /* readers post hints */
	SOURCE_BROKEN, /* the lease thread has revoked something, or heard of a change */
	SOURCE_WORKER, /* a worker has done a job */
	SOURCE_FENCE,  /* the heavy fence is over */
	SOURCE_RING,
	SOURCE_CLIENT,
	SOURCE_PROCESS, /* a client's process is dead */
	NR_SOURCES
};

/* Whose a job is. A resize may come before its end, so the pointer that done() gets is of the
 * service whose loop hears of it. */
enum worker_owner {
	OWNER_NONE,    /* of no job: one that names no owner has forgotten it */
	OWNER_BASE,    /* struct base */
	OWNER_HOLDING, /* struct holding */
	OWNER_CLIENTS, /* struct clients */
	OWNER_REREAD,  /* struct reread */
	OWNER_SERVICE, /* struct service */
	NR_WORKER_OWNERS
};

/* One line for the user, by way of events.say. doc/service.md has the events. */
__attribute__((format(printf, 4, 5))) void service_say(const struct base *s,
                                                       enum service_level level,
                                                       const char *event,
                                                       const char *format, ...);
/* A sentence for ret_why; it stays until the thread's next one. */
__attribute__((format(printf, 1, 2))) const char *service_why(const char *format, ...);
/* The main loop can hear of events, and readers can wake it. 0, or what port_set() and
 * port_event() say. */
int service_open_events(struct base *s);
void service_close_events(struct base *s);
/* From now on the main loop handles what it hears of fd as source says: of what, PORT_INPUT or
 * PORT_NEW_INPUT (port/set.h). 0, or what port_set_add() says. */
int service_watch(struct base *s, int fd, u32 what, struct source *source);
/* The same as the service's own source of that kind. */
int service_watch_as(struct base *s, int fd, u32 what, enum source_kind kind);
/* The same for fd, which it handles already. PORT_HANG_UP: it still hears of that. */
int service_watch_again(struct base *s, int fd, u32 what, struct source *source);
/* Have files taken nearly all descriptors, of which fd is the newest? The kernel gives the lowest
 * number that is free, so a high one says that all below it are in use. The limit may change
 * while the service runs. */
bool service_is_crowded(int fd);
/* Another one has taken over, in this process. */
bool service_is_replaced(const struct base *s);
/* The main loop hears of fd no more, though somebody else may have it open. */
void service_watch_no_more(struct base *s, int fd);
/* An event: readers post hints. */
int service_wake_fd(const struct base *s);
/* The service ends after this turn. */
void service_stop(struct base *s);
bool service_is_stopping(const struct base *s);
u64 service_started_ns(const struct base *s);
/* Closes *fd if it is open, and makes it -1. It leads to no file of a client (worker_close()). */
void service_close(int *fd);
static inline void service_count(u64 *statistic, u64 delta)
{
	/* Relaxed: the main thread alone writes. Other threads may read a little behind. */
	host_store_relaxed(statistic, host_load_relaxed(statistic) + delta);
}

/* service_close() for a client's file, which may wait for its server. A turn may call it for a
 * local file alone: tools/tidy_waits.py says where. */
PORT_HANGS void service_close_file(int *fd);

#endif
