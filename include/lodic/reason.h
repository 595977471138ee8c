/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Why a function of lodic.h has failed: one cause each. An errno value alone stands for several
 * causes. Each reason has one name and one sentence, and comes with the errno that stands beside it
 * here. With ESTALE comes also the reason why a file is not cached. Numbers and names stay; later
 * versions of the library add others at the end.
 */
#ifndef LODIC_REASON_H
#define LODIC_REASON_H

#ifdef __cplusplus
extern "C" {
#endif

enum lodic_reason {
	LODIC_REASON_NONE, /* nobody knows, or there is no error */

	/* No cache for this process: lodic_attach(). */
	LODIC_REASON_ARGUMENT,          /* EINVAL: an argument is not valid */
	LODIC_REASON_CACHE_SIZE,        /* EINVAL: cache_bytes is out of its bounds */
	LODIC_REASON_SETTING,           /* EINVAL: a variable, or a line of lodic.conf */
	LODIC_REASON_NO_SERVICE,        /* ENOENT: none listens, and none may be started */
	LODIC_REASON_NO_PROGRAM,        /* ENOENT: there is no `lodic` to start */
	LODIC_REASON_NO_FOLDER,         /* ENOENT, or why the socket's folder cannot be made */
	LODIC_REASON_DEAD_SOCKET,       /* ECONNREFUSED: what listened there has died */
	LODIC_REASON_FOREIGN_FOLDER,    /* EACCES: no folder for it is this user's alone */
	LODIC_REASON_SOCKET_DENIED,     /* EACCES: this user may not connect to it */
	LODIC_REASON_FOREIGN_SERVICE,   /* EPERM: the service is another user's */
	LODIC_REASON_PRIVILEGED,        /* EPERM: this program has its user's rights and more */
	LODIC_REASON_NOT_A_SOCKET,      /* EPERM: something else is at the socket's path */
	LODIC_REASON_NO_SOCKETS,        /* any errno: this process may make no socket */
	LODIC_REASON_LONG_PATH,         /* ENAMETOOLONG: the socket's path */
	LODIC_REASON_VERSION,           /* EPROTO: the service is of another version */
	LODIC_REASON_SLOW_START,        /* ETIMEDOUT: a service that was started is not ready */
	LODIC_REASON_NO_ANSWER,         /* ETIMEDOUT: the service does not answer */
	LODIC_REASON_SERVICE_DIED,      /* ECONNRESET: it died while this call waited */
	LODIC_REASON_DIED_STARTING,     /* ECONNRESET: one that was started, without a word */
	LODIC_REASON_NOT_STARTED,       /* any errno: `lodic` cannot be executed */
	LODIC_REASON_REFUSED_START,     /* any errno: one that was started says why it ends */
	LODIC_REASON_OWN_DESCRIPTORS,   /* EMFILE: this process has none left */
	LODIC_REASON_OWN_MEMORY,        /* ENOMEM: this process gets none */

	/* A context: lodic_context_open(), lodic_pin(). */
	LODIC_REASON_CONTEXTS,          /* EUSERS: the service has as many as it can hold */
	LODIC_REASON_FORKED,            /* ECHILD: a child of the process that attached */
	LODIC_REASON_NOT_HERE_YET,      /* EAGAIN: the block is not cached yet */
	LODIC_REASON_QUOTA,             /* EDQUOT: the context came too late to pin */
	LODIC_REASON_PIN_TABLE,         /* ENOBUFS: too many pins share a place */
	LODIC_REASON_PIN_COUNT,         /* EOVERFLOW: 127 pins on the block */

	/* A descriptor: lodic_open(). */
	LODIC_REASON_WRITABLE,          /* EINVAL: it is open for writing as well */
	LODIC_REASON_DIRECT,            /* EINVAL: it is O_DIRECT, and cannot be opened again */

	/* A file that is not cached: lodic_file_cached(). */
	LODIC_REASON_AWAY,              /* ESTALE: there is no service now */
	LODIC_REASON_WRITTEN,           /* ESTALE: somebody has opened it for writing since */
	LODIC_REASON_OWNER,             /* EACCES: another user's, without CAP_LEASE */
	LODIC_REASON_UNREADABLE,        /* EACCES: the service may not open it */
	LODIC_REASON_OPEN_FOR_WRITING,  /* ETXTBSY: a program has it open for writing */
	LODIC_REASON_WRITTEN_LATELY,    /* EALREADY: the service lets it alone for a while */
	LODIC_REASON_FILE_SYSTEM,       /* EOPNOTSUPP: no dependable leases there */
	LODIC_REASON_LEASES_OFF,        /* EOPNOTSUPP: the kernel grants none at all */
	LODIC_REASON_NO_PROC,           /* EOPNOTSUPP: there is no /proc */
	LODIC_REASON_TMPFS,             /* EMEDIUMTYPE: it is memory already */
	LODIC_REASON_WATCHES,           /* ENOLCK: no further inotify watch */
	LODIC_REASON_FILE_SIZE,         /* EFBIG: it has 16 TiB or more */
	LODIC_REASON_EMPTY,             /* ENODATA: the file is empty */
	LODIC_REASON_FILES,             /* ENFILE: the service holds as many as its setting */
	LODIC_REASON_DESCRIPTORS,       /* ENFILE, EMFILE: the service has no descriptor left */
	LODIC_REASON_SERVICE_MEMORY,    /* ENOMEM: the service gets none */
	LODIC_REASON_GROUP,             /* EPERM: a member of the group may not open it */
	LODIC_REASON_SHARE,             /* EDQUOT: this user has half of a group's files */
	LODIC_REASON_OTHERS_HANG,       /* EBUSY: the service waits for other file systems */

	/* A hold: lodic_hold(). */
	LODIC_REASON_PAST_END,          /* ENODATA: the offset is at the file's end, or behind */
	LODIC_REASON_HOLD_SIZE,         /* EFBIG: larger than all holds may be */
	LODIC_REASON_NO_HOLDS,          /* EFBIG: this service gives none */
	LODIC_REASON_HOLD_ROOM,         /* ENOSPC: what others hold leaves no room */
	LODIC_REASON_HOLD_QUEUE,        /* EAGAIN: 64 ranges are read for this program */
	LODIC_REASON_HOLD_UNREADY,      /* EAGAIN: the hold is not ready */
	LODIC_REASON_HOLD_CHANGED,      /* ESTALE: writers came while it was read */
	LODIC_REASON_HOLD_ORPHAN        /* ESTALE: the service that made it has gone */
};

/* The cause of error, negative or positive. It is that of this thread's last function of lodic.h
 * that failed, if that failed by this error. Otherwise it is what the error always means, or
 * LODIC_REASON_NONE where it may mean several things. Ask before the thread's next call. */
enum lodic_reason lodic_reason(int error);

/* What a reason means, and what to do: a sentence that stays. lodic_strerror() says more, where
 * a service that did not start has said why. */
const char *lodic_reason_text(enum lodic_reason reason);

/* The reason as a word for machines, "no-proc"; "none" for a number that the library does not
 * know. It stays. */
const char *lodic_reason_name(enum lodic_reason reason);

#ifdef __cplusplus
}
#endif

#endif
