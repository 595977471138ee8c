/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * port.h: the only door between lib/ and the operating system, as host/host.h is core's.
 *
 * lib/ says here what it wants of the system: memory, sockets, files, processes. On Linux
 * lib/posix/ do it. They decide nothing, so that a simulated machine can stand in their
 * place. The clock is host_now_ns(). What the service alone wants, or the shim, has headers of its
 * own beside this one, lib/port/, under the same rules.
 *
 * Errors. A function that can fail returns a negative errno, and its comment lists all of them.
 * The list is the contract: a caller handles each, and a simulated machine draws from it. No
 * function leaves its reason in errno. On failure ret_x is untouched, unless the comment says more.
 *
 * Waiting. A mark before the declaration says what the caller may have to wait for:
 *
 *    PORT_HANGS   a file system, a disk or a directory of users, without a bound. The main loop of
 *                 the service must call no such function during a turn.
 *    PORT_WAITS   those that the caller wants to wait for, as long as it says. A thread may be
 *                 cancelled in port_sleep() and port_wait().
 *    no mark      nobody.
 *
 * Descriptors close on exec. -EMFILE: this process can have no more of them; -ENFILE: the machine
 * can have no more. A signal never interrupts a call, unless -EINTR is in its list.
 *
 * Children and handlers. A forked child without other threads may call all functions. A signal
 * handler, or a child of a program with threads, may call each one that has no mark. It must not
 * call port_alloc(), port_free(), port_text() and port_word_set(), which may allocate. In the shim
 * it may.
 */
#ifndef LODIC_LIB_PORT_H
#define LODIC_LIB_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PORT_HANGS
#define PORT_WAITS

/* ---- time ---- */

/* Lets ns nanoseconds go by. A signal ends it early. */
PORT_WAITS void port_sleep(uint64_t ns);

/* ---- memory ---- */

/* Zeroed memory, for things that come and go seldom. NULL: there is none. */
void *port_alloc(size_t bytes);
/* NULL: nothing happens. */
void port_free(void *p);
/* A copy of text, for port_free(). NULL: there is no memory. */
char *port_text(const char *text);

uint64_t port_page_bytes(void);

/* What may be done with mapped memory, and how it is mapped. The values are Linux's, so that the
 * shim can hand on what a program has asked for. */
enum port_protection { PORT_NONE = 0, PORT_READ = 1, PORT_WRITE = 2 };
enum port_mapping {
	PORT_SHARED = 0x01,
	PORT_PRIVATE = 0x02,
	PORT_FIXED = 0x10, /* at that address, in the place of what is mapped there */
	PORT_ANONYMOUS = 0x20, /* zeros, and no file: fd is -1 */
	PORT_UNRESERVED = 0x4000,
};

/* Maps bytes of fd from offset on, a multiple of a page; or zeros. at: where; NULL: anywhere.
 * -ENOMEM: no memory or no room for it, or the process has as many mappings as it may. -EAGAIN:
 * too much memory is locked. -EACCES, -EPERM: fd does not allow it. -ENODEV: its file cannot be
 * mapped. -EBADF, -EINVAL: bytes is 0 or too large. */
int port_map(void *at, uint64_t bytes, int protection, int flags, int fd,
             uint64_t offset, void **ret_at);
/* -ENOMEM: it would leave two pieces of a mapping, and the process has as many as it may. */
int port_unmap(void *at, uint64_t bytes);

enum port_advice {
	PORT_WIPE_IN_CHILD, /* a forked child finds zeros there */
	PORT_NOT_IN_CHILD,  /* a forked child does not have it */
	PORT_NOT_IN_DUMP,   /* a core dump does not have it */
	PORT_HUGE_PAGES,
	PORT_SMALL_PAGES,
	PORT_DROP, /* the pages go; they read as zeros again, or as the file */
	PORT_DROP_LOCKED,
};
/* -EINVAL: this kernel does not know the advice, or it does not suit the mapping. -ENOMEM: a
 * part is not mapped, or the process has as many mappings as it may. */
int port_advise(void *at, uint64_t bytes, enum port_advice advice);

/* A file without a name in memory, which can be sealed and, where the kernel knows that, never be
 * executed. Returns its descriptor. -EMFILE -ENFILE -ENOMEM, -EACCES: the machine allows none. */
int port_memory_file(const char *name);

enum port_seal {
	PORT_SEAL_SEALS = 1,
	PORT_SEAL_SHRINK = 2,
	PORT_SEAL_GROW = 4,
	PORT_SEAL_WRITE = 8,
	PORT_SEAL_NEW_WRITERS = 16, /* there is no new way to write; mappings stand */
};
/* Nobody can do from now on what is sealed. -EBUSY: somebody has it mapped to be written, or a
 * device has just written to it: try again. -EPERM: its seals are sealed, or fd cannot write.
 * -EINVAL: it is no memory file, or this kernel does not know such a seal. -EBADF. */
int port_seal(int fd, unsigned int seals);

struct port_memory {
	uint64_t bytes;
	unsigned int seals; /* enum port_seal, and perhaps others */
};
/* What a descriptor from somewhere else leads to, if that is a memory file. -EINVAL: it is none.
 * -EBADF. */
int port_memory_look(int fd, struct port_memory *ret);

/* How much memory the machine has; 0: nobody knows. */
uint64_t port_machine_bytes(void);

/* ---- descriptors ---- */

/* For what this process has made itself, and what no file system answers for: sockets, events,
 * pipes, sets, memory, files of the kernel's own. All that leads to another file goes by
 * port_shut(), also if another program has opened it. The last close of memory frees it, at some
 * 40 us for each MiB. */
void port_close(int fd);
/* Another descriptor of what fd leads to. What that is says whether port_close() or port_shut() is
 * for it. -EMFILE -EBADF. -EINVAL: none is allowed at all. */
int port_dup(int fd);
/* number leads to where fd does, in one step. -EBADF -EBUSY -EINTR, -EPIPE: number is as it was. In
 * the shim -EPIPE says that the program has put another file there. */
int port_replace(int fd, int number);

enum port_mode {
	PORT_MAY_READ = 1,
	PORT_MAY_WRITE = 2,
	PORT_NAMES_ONLY = 4, /* O_PATH: it neither reads nor writes */
	PORT_DIRECT = 8,
	PORT_NEVER_WAITS = 16,
};
/* How fd was opened, enum port_mode. -EBADF. */
int port_mode(int fd, unsigned int *ret_mode);

/* An event: a thread that tells it wakes those that wait for it. Its descriptor. -EMFILE -ENFILE
 * -ENOMEM -ENODEV. */
int port_event(void);
/* false: nobody is told. It was told so often that those that wait are awake, or it is no event
 * any more. */
bool port_event_tell(int event);
/* Nobody is told any more what was told until now. false: nothing was. */
bool port_event_take(int event);
/* Is fd, which another program has sent, an event that can be told without waiting? That program
 * is believed: fd must not lead to a file system that hangs. */
bool port_is_event(int fd);

/* A pipe: [0] reads and never waits, [1] writes. -EMFILE -ENFILE. */
int port_pipe(int ret_fds[2]);
/* What is in a pipe, and bytes at most; 0: nothing, and nobody can write to it. -EAGAIN: nothing
 * now. -EBADF -EIO. */
int64_t port_take(int fd, void *to, size_t bytes);

enum port_waiting { PORT_INPUT = 1, PORT_OUTPUT = 4, PORT_HANG_UP = 0 };
/* Waits until there is input, or room for output, or until the other side has hung up: that ends
 * any wait. 1: so it is. 0: ms milliseconds have gone by. -EINTR: a signal. -EINVAL: the process
 * may have no descriptors. -ENOMEM. */
PORT_WAITS int port_wait(int fd, enum port_waiting what, int ms);
/* Is it so now? As port_wait() says, but nobody waits, and no signal is heard. */
int port_ready(int fd, enum port_waiting what);

/* ---- sockets, which carry whole messages ---- */

#define PORT_MOST_FDS 4u
#define PORT_SOCKET_PATH_BYTES 108u /* of a socket's path, with its zero */

/* A socket. Its descriptor. -EMFILE -ENFILE -ENOMEM -ENOBUFS. -EACCES -EPERM -EAFNOSUPPORT
 * -EPROTONOSUPPORT: this process gets no such sockets. */
int port_socket(void);
/* Connects it to the program that listens at path; the folder is believed to answer. -ENOENT
 * -ENOTDIR -EACCES -ELOOP -ECONNREFUSED: no program does. -EAGAIN: too many wait there.
 * -EPROTOTYPE: it listens by other sockets. -ENAMETOOLONG: a socket's path is shorter. -EPERM
 * -ENOMEM -EBADF. */
int port_connect(int socket, const char *path);
/* The same, but waits up to ms milliseconds for its turn. Also -EINTR. */
PORT_WAITS int port_connect_within(int socket, const char *path, unsigned int ms);

struct port_peer {
	int pid; /* 0: of a process that this one cannot name */
	uint32_t uid;
};
/* The process that has connected, or listens, at the other end. -EBADF -ENOTSOCK. */
int port_peer(int socket, struct port_peer *ret);

/* Sends a message and descriptors, PORT_MOST_FDS at most. -EAGAIN: the other side has no room for
 * it. -ECONNRESET: it has gone. -ENOBUFS -ENOMEM. -ETOOMANYREFS: too many descriptors are under
 * way. -EMSGSIZE. -EBADF: of socket or fds. -ENOTCONN -EPERM. */
int port_send(int socket, const void *message, size_t bytes, const int *fds,
              unsigned int nr_fds);

struct port_message {
	void *bytes; /* where it goes, and how much fits */
	size_t room;
	size_t got;            /* how much came */
	unsigned int most_fds; /* in: so many are taken; the kernel drops the others */
	int fds[PORT_MOST_FDS];
	unsigned int nr_fds;
	bool cut;     /* it was longer */
	bool fds_cut; /* descriptors are lost: this process could have no more */
	bool ask_who; /* in: the socket says who has sent it (SO_PASSCRED) */
	bool said;    /* it does */
	struct port_peer sender;
};
/* Receives the next message. Descriptors are the caller's, close-on-exec, whatever else is wrong.
 * got is 0 and nr_fds too: the other side has hung up. If ask_who was a mistake, more than
 * most_fds may come, and are closed. If it is missing where the socket says who, that takes the
 * place of descriptors. They are lost (fds_cut), and closing them may wait for a file's server.
 * -EAGAIN: there is none. -ECONNRESET -ENOTCONN -ENOMEM -EBADF. */
int port_receive(int socket, struct port_message *message);

/* ---- files: of clients, of the user, of the system ---- */

/* Below, PORT_FILE_ERRNOS stands for what a file system can say of its own: -EIO -ESTALE
 * -ETIMEDOUT -ENOTCONN -EOVERFLOW -ENOMEM -EINTR. */

enum port_file_kind {
	PORT_FILE_OTHER,
	PORT_FILE_REGULAR,
	PORT_FILE_FOLDER,
	PORT_FILE_SOCKET,
};
struct port_file {
	uint64_t dev, ino; /* of no other file while this one is open */
	enum port_file_kind kind;
	uint32_t uid, gid;
	uint32_t rights; /* as chmod(2) takes them */
	uint32_t nr_names;
	uint64_t bytes;
	uint64_t device; /* which one, if it is a device's */
	uint64_t mtime_ns;
};
/* What fd leads to. -EBADF, PORT_FILE_ERRNOS. */
PORT_HANGS int port_look(int fd, struct port_file *ret);
/* The same for a file of a local file system (port/inode.h), which knows it by heart. -EBADF -EIO
 * -ENOMEM. */
int port_look_local(int fd, struct port_file *ret);
/* What path leads to; follow: behind symbolic links. -ENOENT -ENOTDIR -EACCES -ELOOP
 * -ENAMETOOLONG, PORT_FILE_ERRNOS. */
PORT_HANGS int port_look_at(const char *path, bool follow, struct port_file *ret);
/* The path of the file to which fd leads, as the kernel names it, ended by a zero; no file system
 * is asked. Where its name has gone, " (deleted)" stands behind it. bytes - 1 of it at most; the
 * rest is cut off. -ENOENT: there is no /proc, or fd is none. -ENAMETOOLONG: it is longer than a
 * page. -EACCES -ENOMEM. */
int port_path_of(int fd, char *to, size_t bytes);
/* Is it a file that this process may execute? */
PORT_HANGS bool port_may_run(const char *path);
/* Can nobody make a file there, because the file system is read-only? */
PORT_HANGS bool port_is_read_only(const char *folder);

/* Opens a file to read it, and does not wait for a FIFO's writer. Returns a descriptor. -EMFILE
 * -ENFILE -EPERM -ENXIO -ENODEV, and what port_look_at() says. */
PORT_HANGS int port_open(const char *path);
/* Makes a file of this user's alone, to write it. -EEXIST: there is one. -ENOSPC -EDQUOT -EROFS
 * -ENFILE -EMFILE -EPERM -EISDIR, and what port_look_at() says. */
PORT_HANGS int port_create(const char *path);
/* Opens what fd leads to once more, to read it: a description of its own. -ENOENT: there is no
 * /proc. -EMFILE -ENFILE -EACCES -EPERM -ENXIO, PORT_FILE_ERRNOS. */
PORT_HANGS int port_reopen(int fd);
/* Closes a file, which may write to it. The kernel may ask a file's server at each close, not only
 * at the last one. The descriptor is gone in any case. -EIO -ENOSPC -EDQUOT -EINTR: what was
 * written may be lost. -EBADF. */
PORT_HANGS int port_shut(int fd);
/* How many bytes came, bytes at most; 0: its end. -EBADF -EINVAL -EISDIR -EAGAIN -EFAULT,
 * PORT_FILE_ERRNOS. */
PORT_HANGS int64_t port_read(int fd, void *to, size_t bytes, uint64_t offset);
/* How many bytes were written. -EBADF -ENOSPC -EDQUOT -EFBIG -EPERM -EAGAIN, PORT_FILE_ERRNOS. */
PORT_HANGS int64_t port_write(int fd, const void *from, size_t bytes, uint64_t offset);
/* -ENOENT -ENOTDIR -EACCES -EPERM -EROFS -EISDIR -EBUSY -ELOOP -ENAMETOOLONG, PORT_FILE_ERRNOS. */
PORT_HANGS int port_remove(const char *path);
/* from takes the place of to. As port_remove(), and -ENOSPC -EDQUOT -EXDEV. */
PORT_HANGS int port_rename(const char *from, const char *to);
/* Makes a folder of this user's alone. -EEXIST: there is something. As port_create(). */
PORT_HANGS int port_make_folder(const char *path);

/* Files that the kernel makes as they are read, below /proc and /sys: of this machine, of
 * processes, of control groups. They answer at once. */

/* Opens one. If a user has named a FIFO instead, nobody waits. -ENOENT: there is none, or no such
 * process. -EMFILE -ENFILE -ENOMEM -ESRCH -ENOTDIR -EACCES -EPERM -ELOOP -ENAMETOOLONG -ENODEV
 * -ENXIO -EOPNOTSUPP. For port_close(). */
int port_system_open(const char *path);
/* How many bytes came, bytes at most; 0: its end. Reads of one file that follow each other may not
 * be of one moment. -ESRCH: of a process that has gone. -ENODEV: of a group that has gone.
 * -EOPNOTSUPP -EINVAL -EPERM -EACCES -EIO -ENOMEM -EBADF. -ESPIPE: it is a FIFO. */
int64_t port_system_read(int fd, void *to, size_t bytes, uint64_t offset);
/* Reads one from its beginning: room - 1 bytes at most, and a zero behind them. Returns how many
 * bytes. The errors are those of both. */
int64_t port_system_text(const char *path, char *to, size_t room);

/* ---- this process ---- */

uint32_t port_user(void);
int port_process(void);
/* Was it started with rights that its user does not have? */
bool port_is_privileged(void);
/* NULL: it is not set. */
const char *port_variable(const char *name);
/* The folder that it is in. -ENOENT: the folder has gone. -ERANGE: its name is longer. -EACCES
 * -ENOMEM. */
PORT_HANGS int port_folder(char *to, size_t bytes);
/* The number of the user of that name. -ENOENT: there is none, or nobody can say. */
PORT_HANGS int port_user_named(const char *name, uint32_t *ret_user);
/* The user's home folder. -ENOENT: there is none, or it is longer, or nobody can say. */
PORT_HANGS int port_home(uint32_t user, char *to, size_t bytes);

/* ---- threads ---- */

/* A lock of zeros is one, too, that nobody has: the kernel may wipe it in a child. */
struct port_lock {
	uint64_t words[6];
};
void port_lock_init(struct port_lock *lock);
/* Nobody has it, or wants it. */
void port_lock_end(struct port_lock *lock);
/* Waits for the thread that has it. */
PORT_WAITS void port_lock_take(struct port_lock *lock);
/* false: a thread has it. */
bool port_lock_try(struct port_lock *lock);
void port_lock_give(struct port_lock *lock);

/* From now on the calling thread cannot be cancelled. Returns what port_cancel_as() takes, to make
 * it as it was. */
int port_cancel_off(void);
void port_cancel_as(int before);
/* Runs work(arg), and meanwhile the thread can be cancelled as it could when port_cancel_off()
 * returned this. If it is, cancelled(arg) runs, and this never returns. */
void port_cancellable(int as, void (*work)(void *arg), void (*cancelled)(void *arg),
                      void *arg);

/* A word of each thread; { .end = f } is a new one. It costs no thread-local memory, of which a
 * library that dlopen(3) loads has little. */
struct port_word {
	uint64_t made;            /* atomic */
	void (*end)(void *value); /* runs when a thread ends whose word is not NULL */
};
/* Makes it now, so that the first port_word_set() need not. false: as there. */
bool port_word_make(struct port_word *word);
void *port_word_get(struct port_word *word);
/* false: there is no memory, or the process has too many such words. */
bool port_word_set(struct port_word *word, void *value);

/* How long the calling thread has had a CPU. 0: nobody knows. */
uint64_t port_thread_cpu_ns(void);

/* The calling thread's restartable sequence, if Linux looks at it; NULL: it has none. */
void *port_sequences(void);

/* ---- other processes ---- */

struct port_program {
	const char *path;
	char **arguments;
	char **environment;
	int kept;   /* a descriptor that the program has under the same number */
	int errors; /* its standard error */
};
/* Starts a program as nobody's child: this process gets no signal when it ends, and no wait(2)
 * finds it. It returns when the program is executed. -EAGAIN: no more processes are allowed.
 * -EMFILE -ENOSYS -ENOMEM. -ENOENT -ENOTDIR -EACCES -ELOOP -ENAMETOOLONG -ENOEXEC -E2BIG -ETXTBSY
 * -EPERM -EIO -ELIBBAD -EINVAL -EISDIR: it is no program that this process can execute. */
PORT_HANGS int port_spawn(const struct port_program *program);

#endif
