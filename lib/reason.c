/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See reason.h. One sentence for each reason: what is wrong, and what to do. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "lib/reason.h"

#define ANY_ERRNO 0

static const struct reason {
	int error;
	const char *name, *text;
} reasons[NR_REASONS] = {
	[LODIC_REASON_NONE] = { ANY_ERRNO, "none", "nothing is known of it" },

	[LODIC_REASON_ARGUMENT] = { EINVAL, "argument",
	                            "an argument is not valid: lodic.h says which are" },
	[LODIC_REASON_CACHE_SIZE] = { EINVAL, "cache-size",
	                              "a cache has 32K at least, and less than 8T: ask for "
	                              "another size" },
	[LODIC_REASON_SETTING] = { EINVAL, "setting",
	                           "a setting is not valid: `lodic stat` names it, and says "
	                           "where it stands" },
	[LODIC_REASON_NO_SERVICE] = { ENOENT, "no-service",
	                              "no service listens at the socket: start one with "
	                              "`lodic serve`" },
	[LODIC_REASON_NO_PROGRAM] = { ENOENT, "no-program",
	                              "no service listens, and the program `lodic` that would "
	                              "start one is missing: install it beside the library" },
	[LODIC_REASON_NO_FOLDER] = { ENOENT, "no-folder",
	                             "the folder of the socket does not exist: make it" },
	[LODIC_REASON_DEAD_SOCKET] = { ECONNREFUSED, "dead-socket",
	                               "the service that listened at the socket has ended: "
	                               "start one with `lodic serve`" },
	[LODIC_REASON_FOREIGN_FOLDER] = { EACCES, "foreign-folder",
	                                  "no folder for the socket belongs to this user "
	                                  "alone: name a socket by LODIC_SOCKET" },
	[LODIC_REASON_SOCKET_DENIED] = { EACCES, "socket-denied",
	                                 "this user may not connect to the socket: look at "
	                                 "its mode, and at those of its folders" },
	[LODIC_REASON_FOREIGN_SERVICE] = { EPERM, "foreign-service",
	                                   "the service is another user's: the setting "
	                                   "`trust` names one whose service may be used" },
	[LODIC_REASON_PRIVILEGED] = { EPERM, "privileged",
	                              "this program has more rights than its user, who could "
	                              "choose what it reads: it gets no cache" },
	[LODIC_REASON_NOT_A_SOCKET] = { EPERM, "not-a-socket",
	                                "what stands at the socket's path is no cache's "
	                                "socket: remove it" },
	[LODIC_REASON_NO_SOCKETS] = { ANY_ERRNO, "no-sockets",
	                              "this process may make no socket: look at its seccomp "
	                              "filter" },
	[LODIC_REASON_LONG_PATH] = { ENAMETOOLONG, "long-path",
	                             "the socket's path is longer than 107 bytes: name a "
	                             "shorter one by LODIC_SOCKET" },
	[LODIC_REASON_VERSION] = { EPROTO, "version",
	                           "the service is of another version: stop it, and it will "
	                           "be started anew" },
	[LODIC_REASON_SLOW_START] = { ETIMEDOUT, "slow-start",
	                              "the service that was started is not ready after 10 s: "
	                              "try again, or run `lodic serve` to see what it does" },
	[LODIC_REASON_NO_ANSWER] = { ETIMEDOUT, "no-answer",
	                             "the service does not answer: if it is stopped, `kill "
	                             "-CONT` lets it go on" },
	[LODIC_REASON_SERVICE_DIED] = { ECONNRESET, "service-died",
	                                "the service has died meanwhile: try again" },
	[LODIC_REASON_DIED_STARTING] = { ECONNRESET, "died-starting",
	                                 "the service that was started has died without a "
	                                 "word: run `lodic serve` to see why" },
	[LODIC_REASON_NOT_STARTED] = { ANY_ERRNO, "not-started",
	                               "the program `lodic` cannot be started" },
	[LODIC_REASON_REFUSED_START] = { ANY_ERRNO, "refused-start",
	                                 "the service that was started cannot serve: run "
	                                 "`lodic serve` to see why" },
	[LODIC_REASON_OWN_DESCRIPTORS] = { EMFILE, "own-descriptors",
	                                   "this process has no descriptor left: raise its "
	                                   "limit (ulimit -n)" },
	[LODIC_REASON_OWN_MEMORY] = { ENOMEM, "own-memory",
	                              "this process gets no memory for the cache's tables: "
	                              "raise its limit (ulimit -v)" },

	[LODIC_REASON_CONTEXTS] = { EUSERS, "contexts",
	                            "the service has as many contexts as it can hold: close "
	                            "one" },
	[LODIC_REASON_FORKED] = { ECHILD, "forked",
	                          "this process is a forked child: it must call "
	                          "lodic_attach() itself" },
	[LODIC_REASON_NOT_HERE_YET] = { EAGAIN, "not-here-yet",
	                                "the block is not cached yet: lodic_read() reads it, "
	                                "and lodic_prefetch() brings it in" },
	[LODIC_REASON_QUOTA] = { EDQUOT, "quota",
	                         "this context may not pin, because earlier ones may pin as "
	                         "much as the cache can bear: read, or make the cache larger" },
	[LODIC_REASON_PIN_TABLE] = { ENOBUFS, "pin-table",
	                             "too many pinned blocks share one place of this "
	                             "context's table: unpin one" },
	[LODIC_REASON_PIN_COUNT] = { EOVERFLOW, "pin-count",
	                             "this context holds 127 pins on the block: unpin one" },

	[LODIC_REASON_WRITABLE] = { EINVAL, "writable",
	                            "the descriptor is open for writing as well: open the "
	                            "file with O_RDONLY" },
	[LODIC_REASON_DIRECT] = { EINVAL, "direct",
	                          "the descriptor is O_DIRECT, and its file cannot be opened "
	                          "again: open it without O_DIRECT" },

	[LODIC_REASON_AWAY] = { ESTALE, "away",
	                        "there is no service now: reads go to the kernel until one "
	                        "comes" },
	[LODIC_REASON_WRITTEN] = { ESTALE, "written",
	                           "a program has opened the file for writing: it is cached "
	                           "again after a pause (--lease-pause)" },
	[LODIC_REASON_OWNER] = { EACCES, "owner",
	                         "its owner is another user, and the service lacks "
	                         "CAP_LEASE: promise its path (--immutable), or run the "
	                         "service as its owner" },
	[LODIC_REASON_UNREADABLE] = { EACCES, "unreadable",
	                              "the service's user may not open it: look at its mode, "
	                              "and at those of its folders" },
	[LODIC_REASON_OPEN_FOR_WRITING] = { ETXTBSY, "open-for-writing",
	                                    "a program has it open for writing" },
	[LODIC_REASON_WRITTEN_LATELY] = { EALREADY, "written-lately",
	                                  "a program has written to it lately, and the "
	                                  "service waits for a pause (--lease-pause)" },
	[LODIC_REASON_FILE_SYSTEM] = { EOPNOTSUPP, "file-system",
	                               "nothing proves that it does not change: its file "
	                               "system keeps no dependable leases (--immutable is "
	                               "your promise)" },
	[LODIC_REASON_LEASES_OFF] = { EOPNOTSUPP, "leases-off",
	                              "the kernel grants no leases: set fs.leases-enable "
	                              "to 1" },
	[LODIC_REASON_NO_PROC] = { EOPNOTSUPP, "no-proc",
	                           "there is no /proc, by which the service opens files: "
	                           "mount it" },
	[LODIC_REASON_TMPFS] = { EMEDIUMTYPE, "tmpfs",
	                         "it lies in tmpfs, which is memory already (--immutable, "
	                         "your promise, has it cached all the same)" },
	[LODIC_REASON_WATCHES] = { ENOLCK, "watches",
	                           "the kernel grants no further inotify watch, by which the "
	                           "service hears of changes: raise "
	                           "fs.inotify.max_user_watches" },
	[LODIC_REASON_FILE_SIZE] = { EFBIG, "file-size",
	                             "it has 16 TiB at least, which no cache takes" },
	[LODIC_REASON_EMPTY] = { ENODATA, "empty", "it is empty" },
	[LODIC_REASON_FILES] = { ENFILE, "files",
	                         "the service holds as many files as it can: start it with "
	                         "more (--files)" },
	[LODIC_REASON_DESCRIPTORS] = { ENFILE, "descriptors",
	                               "the service has no descriptor left: start it with a "
	                               "higher limit (ulimit -n)" },
	/* Of ENOMEM the other one is meant. */
	[LODIC_REASON_SERVICE_MEMORY] = { ANY_ERRNO, "service-memory",
	                                  "the service gets no memory for it: give it more, "
	                                  "or a smaller cache" },
	[LODIC_REASON_GROUP] = { EPERM, "group",
	                         "not each member of the group may open it by its path: "
	                         "look at its mode, and at those of its folders" },
	[LODIC_REASON_SHARE] = { EDQUOT, "share",
	                         "this user has half of the group's files already: close "
	                         "some" },
	[LODIC_REASON_OTHERS_HANG] = { EBUSY, "others-hang",
	                               "the service waits for other files whose file systems "
	                               "do not answer" },

	[LODIC_REASON_PAST_END] = { ENODATA, "past-end",
	                            "the file ends before the offset" },
	[LODIC_REASON_HOLD_SIZE] = { EFBIG, "hold-size",
	                             "the range is larger than all holds may be: hold less, "
	                             "or give the service more (--memory, --holds)" },
	[LODIC_REASON_NO_HOLDS] = { EFBIG, "no-holds",
	                            "this service gives no holds: start it with some "
	                            "(--holds)" },
	[LODIC_REASON_HOLD_ROOM] = { ENOSPC, "hold-room",
	                             "what programs hold leaves no room: release a hold, or "
	                             "give the service more (--memory, --holds)" },
	[LODIC_REASON_HOLD_QUEUE] = { EAGAIN, "hold-queue",
	                              "the service reads 64 ranges for this program already: "
	                              "ask again later" },
	[LODIC_REASON_HOLD_UNREADY] = { EAGAIN, "hold-unready",
	                                "the hold is not ready: lodic_hold_ready() says when "
	                                "it is" },
	[LODIC_REASON_HOLD_CHANGED] = { ESTALE, "hold-changed",
	                                "writers came while the range was read: ask again "
	                                "when they have ended" },
	[LODIC_REASON_HOLD_ORPHAN] = { ESTALE, "hold-orphan",
	                               "the service that made the hold has gone: hold the "
	                               "range anew" },
};

int reason_encode(enum lodic_reason reason)
{
	return -(reasons[reason].error | (int)reason << REASON_SHIFT);
}

bool reason_is_error(int error)
{
	unsigned int reason = (0u - (unsigned int)error) >> REASON_SHIFT;

	return error <= 0 && reason < NR_REASONS &&
	       (reason == LODIC_REASON_NONE || reason_error(error) != 0);
}

enum lodic_reason reason_usual(int error)
{
	enum lodic_reason found = LODIC_REASON_NONE;
	int number = error < 0 ? -(error + 1) : error - 1; /* no overflow */

	if (error == 0)
		return LODIC_REASON_NONE;
	for (unsigned int i = 1; i < NR_REASONS; i++) {
		if (reasons[i].error - 1 != number)
			continue;
		if (found != LODIC_REASON_NONE)
			return LODIC_REASON_NONE;
		found = (enum lodic_reason)i;
	}
	return found;
}

const char *reason_text(enum lodic_reason reason)
{
	return reasons[(unsigned int)reason < NR_REASONS ? reason : 0].text;
}

const char *reason_name(enum lodic_reason reason)
{
	return reasons[(unsigned int)reason < NR_REASONS ? reason : 0].name;
}

enum lodic_reason reason_find(int error)
{
	enum lodic_reason reason = reason_of(error);

	return reason != LODIC_REASON_NONE ? reason : reason_usual(error);
}

const char *reason_name_of(int error)
{
	return reason_name(reason_find(error));
}

const char *reason_words(int error)
{
	enum lodic_reason reason = reason_find(error);
	const char *text;

	if (reason != LODIC_REASON_NONE)
		return reason_text(reason);
	text = strerrordesc_np(-reason_error(error));
	return text ? text : "unknown error";
}
