/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The simulated file system: a local one (ext4's kind), whose root folder is "/". Single files may
 * be of other systems, which ask a server each. A server may be silent for a while: a call that
 * asks it waits as long.
 *
 * The first half is for the rest of the machine. The second half is what programs other than
 * lodic do to files: system calls of the running task.
 */
#ifndef LODIC_HOST_WHOLE_FILES_H
#define LODIC_HOST_WHOLE_FILES_H

#include "host/whole/machine.h"
#include "lib/port.h"
#include "lib/port/watch.h"

/* The local file system. One that asks server n has the n-th number from there. */
#define FILES_DEV 1u
#define FILES_SERVERS 8u
#define FILES_DEV_NONE 64u /* of sockets, events and the like */

struct socket;
struct watch;

enum lease_state { LEASE_NONE, LEASE_HELD, LEASE_BREAKING };

/* An open description of a file. */
struct fd_file {
	struct description d;
	struct inode *inode;
	struct fd_file *next; /* of the inode */
	enum lease_state lease;
	u32 aim; /* the task that hears of a break; 0: any of the process that took the lease */
	struct process *taker;
	bool locks; /* port_lock_file() */
	u64 position; /* of a program's read(2) */
};

struct inode {
	u32 nr; /* names and descriptions */
	u32 ino;
	enum port_file_kind kind;
	u32 server; /* counted from 1; 0: the file is of the local file system */
	u32 uid, gid, rights, nr_names;
	u64 bytes;
	u8 *data;
	struct fd_file *open;
	u32 nr_writing;         /* descriptions that can write, and writers that wait for a lease */
	struct waiters writers; /* that wait for leases */
	u32 nr_broken; /* how often a writer has met a lease on it */
	bool forced; /* a lease on it was taken away; true until somebody has one again */
	struct watch *watches;
	struct socket *socket;
};

/* What path leads to. NULL: nothing. */
struct inode *files_find(const char *path);
/* May the running task look up the path (PORT_MAY_READ), or make or remove it (PORT_MAY_WRITE)?
 * 0, -ENOENT or -EACCES. */
int files_may(const char *path, u32 mode);
/* A new name. -EEXIST: there is one. -ENOENT: there is no such folder. -ENAMETOOLONG. */
int files_make(const char *path, enum port_file_kind kind, u32 uid, u32 rights,
               struct inode **ret_inode);
/* A path that leads there. NULL: it has none any more. */
const char *files_name(const struct inode *inode);
static inline u32 inode_dev(const struct inode *inode)
{
	return FILES_DEV + inode->server;
}
static inline bool inode_is_far(const struct inode *inode)
{
	return inode->server > 0;
}
void inode_keep(struct inode *inode);
void inode_put(struct inode *inode);
/* May this user, in the running process's group, read it or write to it (PORT_MAY_READ,
 * PORT_MAY_WRITE)? */
bool inode_allows(const struct inode *inode, u32 uid, u32 mode);
/* How many bytes of it came; 0: its end. */
u64 inode_read(const struct inode *inode, void *to, u64 bytes, u64 offset);
/* A description of it for the running task's process. A number, or -EMFILE. */
int files_open(struct inode *inode, u32 mode);
struct fd_file *fd_file_of(int fd);
/* A new description of what stands at path; waits: for leases that others have. */
int files_open_as(const char *path, u32 mode, bool waits);
int files_remove(const char *path);
int files_rename(const char *from, const char *to);
void inode_resize(struct inode *inode, u64 bytes);
void inode_write(struct inode *inode, const void *from, u64 bytes, u64 offset);
/* All files, names and descriptions are forgotten. */
void files_begin(void);

/* server.c. From now on this server answers nobody, or all that wait for it. */
void server_silence(u32 server, bool silent);
bool server_is_silent(u32 server);
/* The running task asks the file's server, and waits for its answer. */
void server_ask(const struct inode *inode);
/* The same. Another thread may close its descriptor meanwhile, so the description stays until
 * description_release(). */
void server_ask_by(struct fd_file *file);
void server_begin(void);
/* reads.c: the server answers reads under way again. */
void reads_answered(u32 server);

/* lease.c. The running task is about to write: it waits until no other description has a lease. */
void leases_break(struct inode *inode);
/* The same without the wait: tells the holders. Has anybody a lease? */
bool leases_ask(struct inode *inode);
/* The description closes. */
void lease_end(struct fd_file *file);

/* memory.c: the same for a memory file. How many bytes, or -EBADF, -EPERM. */
int memory_reopen(int fd); /* to read it. -EBADF: it is none; -EMFILE */
long memory_write(int fd, const void *from, u64 bytes, u64 offset);
/* The running task writes there: if it is a memory file, its pages are there from now on. */
void memory_touch(const void *at, u64 bytes);

/* watch.c. What has happened to a file: enum port_news_what, or a new path. Those that do not watch
 * for that hear nothing. */
#define NEWS_MOVED 256u
void watches_tell(struct inode *inode, unsigned int what);
void watches_end(struct inode *inode);

/* ---- what other programs do ---- */

/* open(2), mode: enum port_mode. To write it waits for leases. A descriptor. -ENOENT -EACCES
 * -EMFILE. */
int program_open(const char *path, u32 mode);
int program_open_to_write(const char *path);
/* The same with O_NONBLOCK. -EAGAIN: somebody has a lease, and has been told. */
int program_try_to_write(const char *path);
void program_write(int fd, u64 offset, const void *from, u64 bytes);
void program_cut(int fd, u64 bytes);
/* A cut that breaks no lease, as by an open() that only reads, or through an overlay. Those that
 * watch are told, and of rights as well if the file loses its bits of set-user-id. */
int program_cut_unheard(const char *path, u64 bytes, bool rights);
/* Has the program at the other end of a socket accepted it? */
bool program_is_accepted(int socket);
int program_remove(const char *path);
int program_rename(const char *from, const char *to);
int program_set_rights(const char *path, u32 rights);
/* A file of that many bytes, of zeros, before anybody runs. */
struct inode *program_make_file(const char *path, u32 uid, u32 rights, u64 bytes);
struct inode *program_make_folder(const char *path, u32 uid, u32 rights);

#endif
