/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The service: the one process that writes an arena. `lodic serve` runs it, and liblodic
 * starts that program if none runs. This is not part of the installed interface.
 */
#ifndef LODIC_LIB_SERVICE_SERVICE_H
#define LODIC_LIB_SERVICE_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

/* What orders a reader's pin against the service (ADR-0019). */
enum service_barrier {
	SERVICE_BARRIER_AUTO, /* light where the kernel has the fence and it is worth it */
	SERVICE_BARRIER_LIGHT, /* plain stores, and a fence over all processes */
	SERVICE_BARRIER_LOCK   /* an atomic exchange */
};

/* How bad a line of the log is. */
enum service_level { SERVICE_ERROR, SERVICE_WARNING, SERVICE_INFO, SERVICE_DEBUG };

/* Where the service listens, and for how long it stays. */
struct service_place {
	const char *socket; /* NULL: the user's default, see path_default_socket() */
	/* A socket that listens, and whose path is `socket': the service listens there and
	 * leaves the path as it is. It is the service's from then on. 0: it makes one. */
	int listening;
	/* If a service listens there, take its place, and what it has cached along
	 * (takeover.h). */
	bool takeover;
	/* A successor of this service that says nothing for so long gives its place to the next
	 * one. 0: SERVICE_SUCCESSOR_MS */
	uint64_t successor_ms;
	uint64_t idle_exit_ms; /* leave after so long without a client; 0: never */
};

/* How much memory it may have. The service changes these itself (resize.h, budget.h). */
struct service_sizes {
	/* What blocks and holds may have together (budget.h); not with fast_bytes. 0: blocks have
	 * cache_bytes, and holds may have hold_bytes beside them. */
	uint64_t budget_bytes;
	/* Frames, in bytes. 0: SERVICE_DEFAULT_CACHE_BYTES, or what a budget begins with. */
	uint64_t cache_bytes;
	uint64_t hold_bytes; /* that holds may have at most; 0: there are no holds */
	/* Of cache_bytes, in fast memory; the rest is slow. 0: there is one tier. */
	uint64_t fast_bytes;
	const char *pressure; /* a file like /proc/pressure/memory; NULL: none */
	bool watch_groups;    /* also give memory back before a control group's limit */
};

/* How frames are counted and moved. */
struct service_tables {
	uint32_t scheme;     /* enum lodic_scheme */
	uint32_t barrier;    /* enum service_barrier */
	uint32_t nr_entries; /* ptes a context; 0: chosen from the cache's size */
	uint32_t quota;      /* blocks a context may pin, at most nr_entries; 0: chosen
			      * from the cache's size */
	uint32_t move_batch; /* most blocks that move after one fence; 0: as many as fit */
	bool small_pages;    /* ask for no huge pages */
};

/* Which files are kept, and for how long. */
struct service_keeping {
	uint32_t nr_files; /* most files held at once; 0: 4096 */
	/* How long a file stays cached that no client has open; until then its file system
	 * cannot be unmounted. 0: SERVICE_DEFAULT_KEEP_MS, or on another mount than that of /
	 * and of this program SERVICE_DEFAULT_KEEP_AWAY_MS. */
	uint64_t keep_ms;
	/* How long the service lets a file alone that somebody has written to; longer if that
	 * happens again soon (pause.h). 0: not at all */
	uint64_t lease_pause_ms;
	/* Globs of paths that the user vouches for; NULL-ended, or NULL. */
	const char *const *immutable;
	bool buffered; /* read through the kernel's page cache, not O_DIRECT */
};

/* In which memory blocks lie. */
struct service_placing {
	/* Globs of paths whose blocks shall be in that tier; NULL-ended, or NULL. */
	const char *const *fast, *const *slow;
	/* The same of those whose holds have a copy on each node of memory, if they have another
	 * proof than a lease. */
	const char *const *replicate;
	const char *nodes; /* a folder like /sys/devices/system/node; NULL: that one */
	/* The policy of core/kloc that places and moves blocks; NULL or "": none. */
	const char *policy;
	uint64_t policy_tick_ms; /* how fast time passes for it; 0: a tick a second */
	const char *policy_record; /* a file for its calls and decisions; NULL: none */
};

struct service_sharing {
	/* Also the members of this group may attach, and only files are held that each of them may
	 * open (domain.h). There are no holds then. */
	bool for_group;
	uint32_t group;
};

/* What the service tells its program, and asks it. All get say_arg; each may be NULL. */
struct service_events {
	/* What happens, one line each. The library never prints. Several threads call it, and it
	 * must not wait. event is a word for machines, and a constant: the same for all lines that
	 * differ in their numbers and names only. */
	void (*say)(void *arg, enum service_level level, const char *event,
	            const char *line);
	void *say_arg;
	/* The cache has another size, because somebody has asked for it. bytes: of the budget, or
	 * else of the cache. */
	void (*resized)(void *arg, uint64_t bytes);
	/* SIGHUP: a worker calls it to read the configuration. It may wait for as long as it
	 * likes. */
	void (*reread)(void *arg);
	/* Afterwards: what size shall the cache have now? 0: its own. */
	uint64_t (*reread_done)(void *arg);
	/* A takeover is settled, and the other service ends next. */
	void (*taking)(void *arg);
	/* It is not, after all: the other service, process pid, goes on. */
	void (*taken_back)(void *arg, int pid);
	/* The main loop goes on: at least every SERVICE_ALIVE_MS, but for a long turn. */
	void (*alive)(void *arg);
	/* The end begins, and no successor goes on instead. */
	void (*stopping)(void *arg);
};

/* What a user asks for. Each room of the service has the parts that concern it. */
struct service_options {
	struct service_place place;
	struct service_sizes sizes;
	struct service_tables tables;
	struct service_keeping keeping;
	struct service_placing placing;
	struct service_sharing sharing;
	struct service_events events;
};

#define SERVICE_ALIVE_MS 1000u
/* The least fs.lease-break-time. Our choice: the longest that a loaded machine was seen to keep the
 * lease thread from running is 1.4 s. A machine that swaps may take several times as long. */
#define SERVICE_LEASE_SECONDS 10

/* hold_bytes: the budget alone bounds holds. */
#define SERVICE_HOLDS_ANY UINT64_MAX
#define SERVICE_DEFAULT_CACHE_BYTES ((uint64_t)256 << 20)
#define SERVICE_DEFAULT_LEASE_PAUSE_MS ((uint64_t)10 * 1000)
/* Our choice. It says something each second, but while it makes its memory: a large cache takes
 * longer, and then the next one may come in between. */
#define SERVICE_SUCCESSOR_MS ((uint64_t)30 * 1000)
#define SERVICE_DEFAULT_KEEP_MS ((uint64_t)10 * 60 * 1000)
#define SERVICE_DEFAULT_KEEP_AWAY_MS ((uint64_t)10 * 1000)
/* Our choice: with less, one read under way would be the whole cache. */
#define SERVICE_MIN_CACHE_BYTES ((uint64_t)32 << 10)
#define SERVICE_MAX_CACHE_BYTES (((uint64_t)8 << 40) - 1)
/* Of a cache that has become smaller than its fast memory, an eighth is slow. Our choice. */
#define SERVICE_FAST_MOST(cache_bytes) ((cache_bytes) / 8 * 7)

/* Runs the service until SIGTERM or SIGINT, or until it is idle for long enough.
 * ready() is called once, when clients can connect. 0 or -errno; ret_why then points to
 * a sentence that says what to do about it, which stays as long as the thread.
 * -EADDRINUSE: another service holds this socket.
 * With takeover: -EBUSY, the other service cannot hand over now. -EPROTO, -ETIMEDOUT: it does not
 * know how, or does not answer. -ENOMEM: there is no room for both. -EINTR: SIGTERM or SIGINT has
 * come. The other service goes on in each case. -ESHUTDOWN: it was told to end, and does.
 * -EEXIST: something that is not a socket, or another user's, stands at the path.
 * -ENOMEM: there is no room for the cache.
 * -ENOTSUP: for a group, the kernel lacks a seal (before Linux 5.1).
 * Another value: ret_why, or the system call's reason. */
int service_run(const struct service_options *options, void (*ready)(void *arg),
                void *ready_arg, const char **ret_why);

/* The default socket of this user: cache.sock in the first of these folders that is the
 * user's own and closed to others: /run/user/UID/lodic, /tmp/lodic-UID, /dev/shm/lodic-UID.
 * A folder that another user has made is passed over. With make, the function makes the
 * first folder that it can when there is none. It is in lib/path.c, because the library
 * needs it without the service. path is set, also on failure: then it names the folder
 * that is in the way.
 * -EACCES: each folder is another user's, or open to others.
 * -ENAMETOOLONG: the path has more than bytes bytes; path is not set.
 * Another value: what mkdir(2) or lstat(2) says. */
int path_default_socket(char *path, unsigned long bytes, bool make);
/* The same for another user, without make. */
int path_socket_of(unsigned int uid, char *path, unsigned long bytes);

#endif
