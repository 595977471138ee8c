/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The door to the system (port.h) for a guest: a library that runs in a program which knows nothing
 * of it. So it asks what the program has done to its descriptors, threads and memory, and gets no
 * signal of the program's. Only the shim has this (preload/). Any signal handler, and the child of
 * any fork, may call all of it that has no mark. Two functions ask libc, and are not for them:
 * port_variable_empty() and port_run_in_child().
 */
#ifndef LODIC_LIB_PORT_GUEST_H
#define LODIC_LIB_PORT_GUEST_H

#include "lib/port.h"

/* ---- the program ---- */

/* As its user calls it, without folders. */
const char *port_program_name(void);
/* The variable is set to nothing, in the place where it stands now. */
void port_variable_empty(const char *name);
/* The first bytes of what the system says about this process, as in /proc/self: of "status" and
 * such. It returns how many came. It takes what a program's loader has just done: an openat(2), a
 * read(2) and a close(2). So it works at the start: no filter forbids them yet. -ENOENT: the system
 * does not say that. -EMFILE -ENFILE -ENOMEM -EACCES -EPERM -EIO -EINTR. */
int64_t port_process_text(const char *path, char *to, size_t bytes);
/* run() is called in each child of fork(2) that is made from now on, before the program goes on
 * there. Not in one of vfork(2), nor of a system call that goes past libc. -ENOMEM. */
int port_run_in_child(void (*run)(void));

/* 0: a program listens at path, which hears of this as a connection that ends at once. What
 * port_socket() and port_connect() say: none does, or nobody can tell. As for port_connect(), the
 * folder of path is believed to answer. */
int port_listens(const char *path);

/* ---- threads ---- */

struct port_quiet {
	uint64_t words[17];
};
/* The calling thread gets no signal of the program's and cannot be cancelled until
 * port_quiet_end(). One that is sent to the process may go to another thread. */
void port_quiet_begin(struct port_quiet *ret_before);
void port_quiet_end(const struct port_quiet *before);

/* Signals that a write brings to the thread that makes it. */
enum port_write_signal { PORT_BROKEN_PIPE = 1, PORT_FILE_LIMIT = 2 };
/* Which of them have come, and wait because the thread is quiet. */
unsigned int port_quiet_signals(void);
/* Takes away one of these, if one waits. Its handler will never run. */
void port_quiet_drop(unsigned int signals);

/* If the calling thread is to be cancelled, it ends here. */
void port_cancel_point(void);

/* ---- what descriptors of the program lead to ---- */

/* Where a read goes on that names no offset. -ESPIPE: there is no such place. -EBADF. */
int64_t port_position(int fd);
/* The kind of its file system, by the number that statfs(2) has for it. -EBADF -ENOSYS,
 * PORT_FILE_ERRNOS. */
PORT_HANGS int port_file_system(int fd, uint64_t *ret_kind);

struct port_birth {
	bool regular;
	uint64_t dev, ino;
	uint64_t ns; /* when it was made; 0: its file system does not know */
};
/* What no file has in common with a later one that gets its number. -EBADF -EACCES,
 * PORT_FILE_ERRNOS. */
PORT_HANGS int port_birth(int fd, struct port_birth *ret);

/* ---- descriptors of the guest's own ---- */

/* Another descriptor of what fd leads to, with the lowest number that is free from lowest on.
 * -EMFILE: none is. -EINVAL: the process may have none so high. -EBADF. */
int port_dup_above(int fd, int lowest);
/* Both sides of a connection find its end, and threads that wait for one wake up. Other files stay
 * as they are. */
void port_hang_up(int socket);

/* ---- files of the guest's own; those of port_shut() ---- */

/* Opens a file to write behind its end, and makes it if need be, with the rights that the program's
 * umask leaves. It waits for nobody who reads a FIFO: -ENXIO. -EXDEV -ETXTBSY, and what
 * port_create() says but for -EEXIST. */
PORT_HANGS int port_append(const char *path);
/* Opens a file to read and to write. -EROFS -EPERM -ETXTBSY, and what port_open() says. */
PORT_HANGS int port_open_both(const char *path);
/* Makes a file of this user's alone, to read and to write it. As port_create(). */
PORT_HANGS int port_create_both(const char *path);
/* How many bytes were written where fd stands. The calling thread may get a port_write_signal with
 * -EPIPE: nobody reads there; or -EFBIG: the process may write no longer file. -EBADF -ENOSPC
 * -EDQUOT -EPERM -EAGAIN -EINVAL, PORT_FILE_ERRNOS. */
PORT_HANGS int64_t port_put(int fd, const void *from, size_t bytes);
/* The file has so many bytes from now on; new ones are zeros. -EBADF -EINVAL -EFBIG -EPERM -ENOSPC
 * -EDQUOT -ETXTBSY, PORT_FILE_ERRNOS. */
PORT_HANGS int port_resize(int fd, uint64_t bytes);
/* The file or folder at path, which is no symbolic link's target, is another user's. -EPERM: this
 * process may not say so. -EROFS -EDQUOT -EINVAL, and what port_look_at() says. */
PORT_HANGS int port_give(const char *path, uint32_t user);
/* -ENOTEMPTY -EEXIST: something is in it. -EINVAL, and as port_remove() but for -EISDIR. */
PORT_HANGS int port_remove_folder(const char *path);

/* ---- memory ---- */

/* All pages of a mapping are there: to be read, or (write) to be written, so that a disk has room
 * for them. -EINVAL: before Linux 5.14 nobody can ask. -EFAULT: a part lies behind the end of its
 * file, or there is no room. -ENOMEM: a part is not mapped, or there is no memory. -EHWPOISON
 * -EAGAIN -EINTR -EIO. */
PORT_HANGS int port_fault_in(void *at, uint64_t bytes, bool write);

struct port_mapped {
	uint64_t begin, end; /* addresses */
	uint64_t offset, dev, ino;
	bool reads_only; /* PORT_READ alone */
	bool shared;
};
/* What is mapped at an address of this process. -ENOENT: nothing, or nobody can say. -EMFILE
 * -ENFILE -ENOMEM: there is nothing free to ask by. room: for some of what the system says; a
 * handler's stack has none. Before Linux 6.11 it takes 1.3 us for each mapping at a lower address,
 * in a guest with 2 CPUs. */
int port_mapped_at(uint64_t at, char *room, size_t room_bytes, struct port_mapped *ret);

/* Memory that another program has made, and tells of by a number: a segment of System V. -EINVAL
 * -EIDRM: there is none. -EACCES -ENOMEM. */
int port_segment_bytes(int segment, uint64_t *ret_bytes);
int port_segment_map(int segment, void **ret_at);
void port_segment_unmap(void *at);
/* It goes as soon as nobody has it mapped. */
void port_segment_end(int segment);

#endif
