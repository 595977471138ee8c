/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * liblodic: a page cache shared between processes.
 *
 * Read this first
 * - A context belongs to one thread. Open one for each thread; `lodic bench memory` says
 *   what one costs. Two threads on one context corrupt its pin counts.
 * - A context does not survive fork(). In the child lodic_read() still works, from the
 *   kernel, and lodic_pin() returns -ESTALE. The child does not have the memory that its
 *   parent has pinned: a look at it is a SIGSEGV. What its parent holds (lodic_hold()) it has.
 *   Call lodic_attach() in the child to get a cache there.
 * - Pinned memory is read-only, and it is a snapshot of the file as it was when it was
 *   pinned. Never hand it to vmsplice(2), MSG_ZEROCOPY or an io_uring write. The kernel could
 *   still be sending from it after lodic_unpin(), when the service has put another block there.
 *   What lodic_hold() gives may be handed to all of these: nothing else ever comes there.
 * - A file is cached only while something proves that nobody changes it. The proof is a
 *   read lease of ext4, xfs, btrfs or f2fs, fs-verity, or the user's promise for
 *   its path. A format that cannot be written is one as well: squashfs, erofs, iso9660,
 *   cramfs. A read-only mount is no proof, and a lease on overlayfs is none. tmpfs is memory
 *   already, so a file there needs a promise. For a lease the service's user must own the file,
 *   or have CAP_LEASE. Without a proof reads go to the kernel. The bytes are right in both
 *   cases; lodic_file_cached() says which it is.
 * - A read that begins after a writer's open(2) or truncate(2) has broken the lease and
 *   returned never gets old bytes. Some ways to change a file break no lease. One is
 *   open(2) with O_TRUNC and O_RDONLY. Another is truncate(2) through an overlay of a file that
 *   is cached by its path below. A third is a client of NFS that cuts the file. The service
 *   hears of these by a watch, when they are done, and a read may get old bytes until then. On
 *   two CPUs, quiet or with 20 busy processes, that took 3 ms or less in 99 of 100 cases. The
 *   longest took 0.3 s, with more of them busy.
 *   The service hears nothing of a direct read into a mapping of the file that is unmapped
 *   before the read ends. Nor does it hear of a write to the disk below. doc/proofs.md lists
 *   the ways that we know.
 * - A program that opens a cached file for writing with O_NONBLOCK gets EAGAIN, once. GNU
 *   truncate(1) is such a program. The service then lets the file alone for 10 s (its setting
 *   lease-pause), and for up to five minutes if writers keep coming.
 * - Do not stop the service (SIGSTOP). If it is stopped for longer than
 *   /proc/sys/fs/lease-break-time while somebody opens a cached file for writing, it loses
 *   its lease without noticing. Readers may then see stale bytes.
 * - If the service dies, readers notice at once. They read from the kernel, and attach to
 *   its successor by themselves. A read never starts a successor, and makes no call that
 *   waits but pread(2). lodic_attach(), lodic_open(), lodic_context_open(), lodic_prefetch()
 *   and lodic_hold() do start one.
 * - A debug build of the library (-Ddebug_checks=true) finds two threads of one context, and a
 *   copy of a pin given back. It finds a hold released twice, and use after close. It says
 *   which, and ends the program.
 *
 * When not to use lodic
 * - The file is being written, it lies on a network file system, or it belongs to another
 *   user. Such files are not cached, and read(2) is simpler.
 * - The program reads so seldom that the time of a system call does not matter.
 * - The program needs no pins and no bound on memory, and can live with a SIGBUS when a
 *   file shrinks. Then mmap(2) is faster.
 * - Most blocks are pinned once only. A first pin of a block costs more than a copy: use
 *   lodic_read() for these.
 *
 * Errors are negative errno values, and outputs are untouched then. Functions that cannot
 * fail return nothing. An errno may have several causes; lodic_reason() names the one.
 *
 * Example: doc/example.c, which adds up a file's bytes. Compile it with
 * `cc example.c $(pkg-config --cflags --libs lodic)`.
 *	#include <fcntl.h>
 *	#include <stdio.h>
 *
 *	#include <lodic/lodic.h>
 *
 *	static unsigned long sum, nr_pinned, nr_copied;
 *
 *	static void add(const unsigned char *bytes, ssize_t n)
 *	{
 *		for (ssize_t i = 0; i < n; i++)
 *			sum += bytes[i];
 *	}
 *
 *	// Adds up the file's bytes: in place where the cache has them, else from a copy.
 *	static int add_file(struct lodic_context *context, struct lodic_file *file)
 *	{
 *		unsigned char copy[LODIC_BLOCK_BYTES];
 *		struct lodic_pin pin;
 *		ssize_t n;
 *
 *		for (off_t at = 0;; at += n) {
 *			if (lodic_pin(context, file, at, &pin) == 0) {
 *				n = (ssize_t)pin.bytes;
 *				add(pin.data, n);
 *				lodic_unpin(context, &pin);
 *				nr_pinned++;
 *				continue;
 *			}
 *			// Not cached now, or the end: lodic_read() works in any case.
 *			n = lodic_read(context, file, copy, sizeof(copy), at);
 *			if (n <= 0)
 *				return (int)n;
 *			add(copy, n);
 *			nr_copied++;
 *		}
 *	}
 *
 *	static int fail(const char *what, int err)
 *	{
 *		fprintf(stderr, "%s: %s\n", what, lodic_strerror(err));
 *		return 1;
 *	}
 *
 *	int main(int argc, char **argv)
 *	{
 *		struct lodic_options options = { .bytes = sizeof(options) };
 *		struct lodic_context *context;
 *		struct lodic_file *file;
 *		struct lodic *lodic;
 *		int fd, err;
 *
 *		if (argc < 2) {
 *			fprintf(stderr, "usage: %s FILE [SOCKET]\n", argv[0]);
 *			return 2;
 *		}
 *		if (argc > 2)
 *			options.socket = argv[2]; // a cache of one's own
 *		fd = open(argv[1], O_RDONLY | O_CLOEXEC);
 *		if (fd < 0) {
 *			perror(argv[1]);
 *			return 1;
 *		}
 *		err = lodic_attach(&options, &lodic); // starts the service if none is there
 *		if (err)
 *			return fail("lodic_attach", err);
 *		err = lodic_context_open(lodic, &context); // one for each thread
 *		if (err)
 *			return fail("lodic_context_open", err);
 *		err = lodic_open(lodic, fd, &file);
 *		if (err)
 *			return fail(argv[1], err);
 *		// Without this the first pin of each block finds nothing.
 *		err = lodic_prefetch(context, file, 0, 0, LODIC_WAIT);
 *		if (err)
 *			fail("the file is not cached", lodic_file_cached(file));
 *		err = add_file(context, file);
 *		lodic_close(file);
 *		lodic_context_close(context);
 *		lodic_detach(lodic);
 *		if (err)
 *			return fail(argv[1], err);
 *		printf("sum %lu; %lu blocks in place, %lu copied\n", sum, nr_pinned, nr_copied);
 *		return 0;
 *	}
 */
#ifndef LODIC_LODIC_H
#define LODIC_LODIC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <lodic/reason.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LODIC_VERSION_MAJOR 0
#define LODIC_VERSION_MINOR 1
#define LODIC_VERSION_PATCH 0
#define LODIC_BLOCK_BYTES 4096

struct lodic;         /* this process's attachment to a cache; any thread may use it */
struct lodic_context; /* one reader: exactly one owner thread */
struct lodic_file;    /* an open file; any thread may use it */

/* How a cache counts pins: chosen when its service starts. Use LODIC; the others are there
 * to be measured against. Under ATOMIC and FROZEN a reader that is killed leaks its pins,
 * because a shared counter does not record who holds it. */
enum lodic_scheme { LODIC_LODIC, LODIC_ATOMIC, LODIC_FROZEN, LODIC_HAZARD };

struct lodic_options {
	size_t bytes; /* sizeof(struct lodic_options): lets it grow */
	const char
		*socket; /* where the service listens; NULL: as lodic_attach() says */
	/* The `lodic` program to start when no service listens. NULL: the one built or
	 * installed with liblodic.so; "": start none. A program that is linked with
	 * liblodic.a must name it. */
	const char *service;
	/* For a service that this call starts. A running one keeps its own. 0 says nothing:
	 * then the environment, a configuration file, or the last service may. */
	/* What blocks and holds may have together, from 32 KiB to below 8 TiB. Memory is taken as
	 * it is used. Else half of what the machine has, or the control group. */
	uint64_t cache_bytes;
	enum lodic_scheme scheme;
	uint32_t idle_exit_ms; /* it leaves after so long without a client; else 10 s */
	uint64_t
		hold_bytes; /* what holds may have of it at most; else what blocks leave */
};

/*
 * Connects this process to the cache; options may be NULL. The call starts the service if
 * none listens, and tries so for 10 s. A start that begins late may take 10 s more.
 *
 * If options name no socket, the library looks in LODIC_SOCKET, ~/.config/lodic.conf and
 * /etc/lodic.conf, in this order. Else it takes the user's default. A service that it
 * starts reads these files as well, and LODIC_MEMORY. The library reads no other variable
 * and no other file (doc/settings.md).
 *
 * The service keeps no descriptor, folder, signal, CPU affinity, priority or soft limit of this
 * program. It is no child that wait(2) finds, and sends no SIGCHLD. Only a program that
 * collects orphans, as process 1 of a container or by PR_SET_CHILD_SUBREAPER, becomes its
 * parent.
 *
 * lodic_reason() says which cause an error has, and lodic_strerror() what to do about it. If a
 * service was started and cannot serve, that is its last sentence.
 * -EINVAL: bytes, cache_bytes or scheme is not valid, or one of these variables or files is not.
 * -ENOENT: no service listens, and the call may not start one or finds no `lodic`. Or the
 * socket's folder does not exist.
 * -ECONNREFUSED: the service at the socket is dead, and the call may not start one.
 * -EACCES: the default socket's folder is another user's, or open to others.
 * -EPERM: the service at the socket is another user's. Or this program has more rights
 * than its user (setuid, setgid, file capabilities), who could then choose what it reads.
 * -EPROTO: the service speaks another version.
 * -ETIMEDOUT: the service did not come up, or does not answer. Is it stopped?
 * -ENAMETOOLONG: the socket's path is longer than a socket's address.
 * -EMFILE: this process has no descriptor left, or the service has none for another program.
 * -ENOMEM: there is no memory, here or for the cache.
 * -ECONNRESET: the service that this call started has died.
 * Another value says why the service program could not be started.
 */
int lodic_attach(const struct lodic_options *options, struct lodic **ret_lodic);

/* Ends the attachment. Contexts and files that are still open go on working; the last that
 * is closed frees what is left. The end of the process, in whatever way, does the same. */
void lodic_detach(struct lodic *lodic);

/*
 * A reader for the calling thread. If no service listens the call starts one. While the
 * service is away or stopped the call still succeeds, and reads go to the kernel.
 * -EUSERS: the service has as many contexts as it can hold.
 * -EMFILE: the service or this process has no descriptor left.
 * -ENOMEM: there is no memory, or no room for another mapping.
 * -EPROTO: the service's answer makes no sense.
 * -ECHILD: this process is a forked child of the one that attached.
 * -EINVAL: an argument is NULL.
 */
int lodic_context_open(struct lodic *lodic, struct lodic_context **ret_context);

/* Closes the context and gives its pins back: their memory must not be read any more. As
 * lodic_close(), the call may wait for a stopped service: for 2 s, and before that for 2 s
 * behind another thread's call. */
void lodic_context_close(struct lodic_context *context);

/*
 * Opens a file by a descriptor that the caller has opened O_RDONLY, which proves that it
 * may read the file. The library duplicates the descriptor; the caller may close its own.
 * If the descriptor is O_DIRECT, the library reads by one of its own that is not. A file
 * that cannot be cached is no error. If no service listens the call starts one.
 * -EBADF: fd is not a descriptor, or is not open for reading.
 * -EINVAL: fd is open for writing as well, or it is O_DIRECT and cannot be opened again, or
 *     an argument is NULL.
 * -EISDIR: it is a folder.
 * -ENODEV: it is not a regular file.
 * -EMFILE: this process has no descriptor left.
 * -ENOMEM: there is no memory.
 */
int lodic_open(struct lodic *lodic, int fd, struct lodic_file **ret_file);
void lodic_close(struct lodic_file *file);

/*
 * 0: the file is cached now. Otherwise an error; lodic_reason() has the one cause:
 * -EACCES: nothing proves that it does not change (not the owner's process, no CAP_LEASE).
 * -ETXTBSY: somebody has it open for writing.
 * -EALREADY: somebody has written to it lately, and the service lets it alone for a while:
 *     its setting lease-pause. `lodic files` says how long.
 * -EOPNOTSUPP: its file system has no dependable leases, the kernel has none
 *     (fs.leases-enable), or there is no /proc.
 * -EMEDIUMTYPE: it lies in tmpfs, which is memory already. With a promise it is cached.
 * -ENOLCK: the kernel grants the service no further inotify watch.
 * -EFBIG: it has 16 TiB or more.
 * -ENODATA: it is empty.
 * -ENFILE: the service holds as many files as it can: its setting, or its limit on
 *     descriptors (RLIMIT_NOFILE). A file takes one of them.
 * -EPERM: the service is for a group, and not each member may open the file by its path.
 * -EDQUOT: the same, and this user has half of the files already.
 * -EBUSY: the service waits for other files whose file systems do not answer.
 * -ESTALE: it was written to since, or the service has gone.
 * -ENOMEM: the service has no memory for it.
 * -ETIMEDOUT, -ECONNRESET: the service did not answer.
 * Another error is what its file system said when the service looked at it.
 * Reads try again later, at intervals from 20 ms to 2 s. The library caches one open file
 * at most 4096 times.
 */
int lodic_file_cached(const struct lodic_file *file);

/*
 * Like pread(2): copies up to n bytes from offset on, and returns how many; 0 at the end
 * of the file. It copies cached blocks without a system call. Of what readers share it writes
 * a block's first three visits, for eviction, and nothing else. It reads the others from the
 * kernel, and tells the service that they are wanted. It never waits for the service.
 * -EINVAL: offset is negative.
 * The other errors are those of pread(2), but for -EFAULT. A copy from the cache to a
 * buffer that is not there faults, as memcpy() does.
 */
ssize_t lodic_read(struct lodic_context *context, struct lodic_file *file, void *buffer,
                   size_t n, off_t offset);

/* The same for several buffers, as preadv(2).
 * -EINVAL: also if nr_vectors is below 0 or above IOV_MAX, or vectors is NULL. */
ssize_t lodic_readv(struct lodic_context *context, struct lodic_file *file,
                    const struct iovec *vectors, int nr_vectors, off_t offset);

/* A pinned piece of a block. */
struct lodic_pin {
	const void *data;
	size_t bytes;   /* from the offset to the end of the block or of the file */
	uint64_t *word; /* the library's: where the pin is counted; NULL: given back */
};

/*
 * Pins the block at offset: ret_pin->data stays readable and unchanged until
 * lodic_unpin(), which the same thread must call, once. A pin costs a store in memory of
 * the context's own, or an atomic exchange there: see the service's setting barrier.
 * -ENODATA: offset lies at or after the end of the file.
 * -EINVAL: offset is negative.
 * With the errors below there is no pin now, and lodic_read() does the work:
 * -EAGAIN: the block is not cached. The call has asked the service for it. A pread(2) is now
 *     quicker than lodic_read(), which would look for the block once more.
 * -ESTALE: the file is not cached (see lodic_file_cached()), or the service is away.
 * -EDQUOT: this context may not pin, because it came too late: see below.
 * -ENOBUFS: the context has as many blocks pinned as it may; or eight of them have the
 *   block's place in its table.
 * -EOVERFLOW: this context holds 127 pins on the block.
 *
 * A context may have 1/128 of the cache pinned, or what the service's setting quota says.
 * Once the quotas of all contexts come to 3/4 of the cache, later contexts can only read. In a
 * group's service a context counts for all entries of its table: about twice its quota.
 * lodic_context_stat() says whether a context may pin.
 */
int lodic_pin(struct lodic_context *context, struct lodic_file *file, off_t offset,
              struct lodic_pin *ret_pin);
/*
 * Pins bytes from offset on, in up to max_pins pieces: a piece ends where its block does. So a
 * record that crosses one border is two pieces. Returns the number of pieces, which follow
 * upon each other from offset on. They cover the range, unless max_pins are too few for it
 * or the file ends before. The caller gives each one back by lodic_unpin().
 * On an error nothing is pinned. The errors are those of lodic_pin().
 * -EINVAL: bytes or max_pins is 0, or offset is negative.
 */
int lodic_pinv(struct lodic_context *context, struct lodic_file *file, off_t offset,
               uint64_t bytes, struct lodic_pin *ret_pins, unsigned int max_pins);
/* Gives a pin back. Only the struct that lodic_pin() has filled may be given, not a copy. A
 * pin given back twice is no error; a copy of it may take another's pin away. */
void lodic_unpin(struct lodic_context *context, struct lodic_pin *pin);

/* A piece of a block that is read where it lies, and that nothing keeps there. */
struct lodic_view {
	const void *data;
	size_t bytes;      /* from the offset to the end of the block or of the file */
	const void *claim; /* the library's, as are the next two */
	const void *frame;
	uint64_t seq;
};

/*
 * Begins a view of the block at offset. The program reads ret_view->data in place, and then
 * asks lodic_view_valid() whether what it has read was right. Until it has asked, the bytes
 * may be rubbish: another block's, or a mixture. They may change between two looks.
 *
 * A view holds nothing, has no end, and may be copied. It writes what lodic_read() does. Its two
 * calls cost a little more than a lodic_read() of 64 bytes, and less than a pin. So it is for a
 * program that looks at several places of a block, or compares much of it in place. Examples
 * are a hash table's probe and a search in an index. Do not use it
 * - for one small copy: lodic_read() is faster, and its bytes are right;
 * - for what the program must not do twice, or cannot undo;
 * - if a wrong length or offset in the bytes could lead the program astray: compare it with
 *   known bounds before it is used;
 * - for memory that a device or a system call reads: they do not ask. lodic_pin() does not
 *   allow these either, and lodic_read() makes a copy for them.
 *
 * ret_view->data can be read until the context's next call other than these two. Any other
 * call may move the context to another service, and then a look at the data is a SIGSEGV. The
 * file must stay open for as long as the program asks about the view.
 * -ENODATA: offset lies at or after the end of the file.
 * -EINVAL: offset is negative.
 * With the errors below there is no view now, and lodic_read() does the work:
 * -EAGAIN: the block is not cached, or is changing. The call has asked the service for it.
 * -ESTALE: the file is not cached (see lodic_file_cached()), or the service is away. The call
 *     does not move to a successor, as lodic_read() and lodic_pin() do.
 */
int lodic_view_begin(struct lodic_context *context, struct lodic_file *file,
                     off_t offset, struct lodic_view *ret_view);
/* 1: all bytes that the program has read through view so far are the file's, which has not
 * changed since lodic_view_begin(). The program may read on, and ask again. 0: they may be
 * anything; the view stays so, and lodic_read() does the work. */
int lodic_view_valid(struct lodic_context *context, const struct lodic_view *view);

/*
 * Asks the service to bring in the bytes from offset to offset + n; n = 0: to the end of
 * the file. These come in. Of what readers miss the service may leave a part out, where the
 * blocks in use are many times the cache. With LODIC_WAIT the call returns when the service
 * has done what it could. For that the context keeps a connection of its own, one descriptor,
 * until it is closed.
 * -ESTALE: the file is not cached (see lodic_file_cached()).
 * -EINVAL: offset is negative, or flags has other bits.
 * -ECONNRESET: the service has died while the call waited, or has hung up.
 * -EMFILE: as lodic_attach() says.
 */
int lodic_prefetch(struct lodic_context *context, struct lodic_file *file, off_t offset,
                   uint64_t n, unsigned int flags);
enum { LODIC_WAIT = 1 };

/*
 * A hold: a contiguous range of a file, in memory that stays for as long as the program likes.
 * Any thread may look at it and release it. What is held stands: the file may be truncated,
 * rewritten or deleted, and the service may die. There is no SIGBUS.
 *
 * A hold may be given to vmsplice(2), MSG_ZEROCOPY, io_uring or a device. The program may release
 * it before they are done: the kernel keeps a page while it uses it. A pin may not be used so. Once
 * nobody has its frame pinned, the service puts another block there. It cannot see that the kernel
 * still sends from it.
 *
 * From 1 MiB on, the service has the memory, and all programs that hold a range share it. A range
 * inside one that is held already needs no reading, and takes no memory. Nobody can change it. The
 * service's settings `memory` and `holds` are the limit for all programs. Such a hold keeps one
 * mapping, and no descriptor. Below 1 MiB a hold is a copy, in pages of this process's own, at
 * least one. It needs no descriptor, and many copies share a mapping. The program must not write
 * there.
 *
 * A forked child has what its parent holds. Its lodic_release() ends its own hold only.
 */
struct lodic_hold;

/*
 * Holds n bytes of the file from offset on; n = 0, or a range that ends behind the file's end:
 * to its end. With LODIC_WAIT the call returns when the bytes are there. Without it the call
 * does not wait until the service has read the range: lodic_hold_ready() tells when it has.
 * The call reads a range below 1 MiB itself, as pread(2) does. If no service listens it starts
 * one. As lodic_open(), it may wait 2 s for a stopped service.
 *
 * The bytes are those that the file had at one moment between the call and the hold's being ready.
 * The first byte has the same place in its page as in the file.
 *
 * The file must stay open until the hold is ready, or has failed. Until then the hold keeps a
 * descriptor. A thread may be cancelled while it waits; then nothing is held.
 *
 * On an error nothing is held, and *ret_hold is untouched.
 * -ENODATA: offset lies at or after the end of the file.
 * -EINVAL: offset is negative, flags has other bits, an argument is NULL, or file was opened by
 *     another attachment.
 * -EFBIG: the range is larger than the limit for holds.
 * -ENOSPC: what programs hold already leaves no room for it, and blocks have no more to give. Try
 *     again when they release some.
 * -ESTALE: the file is not cached (see lodic_file_cached()), or writers came while it was read.
 * -EAGAIN: the service reads 64 ranges for this program already. With LODIC_WAIT the call waits
 *     for one of them.
 * -EIO, or what else pread(2) says: the file could not be read.
 * -EMFILE, -ENFILE: this process, or the service, has no descriptor left.
 * -ENOMEM: there is no memory, or no room for another mapping.
 * -EOPNOTSUPP: the service has no /proc, or its kernel has no leases (fs.leases-enable), and it
 *     can make no hold.
 * -ECHILD: this process is a forked child of the one that attached.
 * -ECONNRESET: the service has died while the call waited, and so has its successor.
 * -ETIMEDOUT, -EPROTO: the service did not answer, or its answer makes no sense.
 */
int lodic_hold(struct lodic *lodic, struct lodic_file *file, off_t offset, uint64_t n,
               unsigned int flags, struct lodic_hold **ret_hold);

/* 1: the bytes are there. 0: not yet; lodic_hold_event() says when to ask again. An error of
 * lodic_hold(): they will never be, and the hold can only be released. -ECHILD: a forked child
 * cannot know. The call never waits for the file. One thread at a time may call this and
 * lodic_hold_event() while a hold is not ready. */
int lodic_hold_ready(struct lodic_hold *hold);
/* A descriptor that poll(2) finds readable when lodic_hold_ready() is worth asking. It is the
 * hold's: the program must not close or read it. It may be another after each
 * lodic_hold_ready(). -1: the hold is ready, or has failed, or this is a forked child. */
int lodic_hold_event(const struct lodic_hold *hold);

/* The first byte, and how many there are. NULL and 0: it is not ready. Any thread may ask. */
const void *lodic_hold_data(const struct lodic_hold *hold);
uint64_t lodic_hold_bytes(const struct lodic_hold *hold);

/*
 * A new descriptor of the hold's memory, for another process or for mmap(2) elsewhere. It is the
 * caller's, close-on-exec, and can only be read; nobody can change what it leads to. The hold's
 * first byte lies in it at *ret_at. As long as anybody has it, the memory counts against the limit
 * for holds. Of a hold below 1 MiB it is another copy, which does not count, and needs no service.
 * -ESTALE: the service that made the hold has gone.
 * -EAGAIN: the hold is not ready.
 * -EINVAL: an argument is NULL.
 * -EOPNOTSUPP: there is no /proc, here or for the service.
 * -EMFILE, -ENFILE, -ENOMEM, -ECHILD, -ETIMEDOUT, -EPROTO: as lodic_hold() says.
 */
int lodic_hold_fd(struct lodic_hold *hold, off_t *ret_at);

/* Ends the hold: the program must not look at its bytes any more. What the kernel still sends
 * from them is right. Any thread may call it, once: also as it ends, at exit, after
 * lodic_detach() and lodic_close(), and in a forked child. It never waits, and takes no lock of
 * the library's. A hold that is not ready ends too. NULL is allowed. */
void lodic_release(struct lodic_hold *hold);

/*
 * Statistics. Both structs may grow at their end; each field is 64 bits wide. bytes is
 * the caller's sizeof the struct: the library writes no more, and a field that it does not
 * know becomes 0.
 */

/* What one context has done; exact for its owner. */
struct lodic_context_stat {
	uint64_t hits;         /* blocks read or pinned from the cache */
	uint64_t soft_misses;  /* of these: pins that found no entry of theirs */
	uint64_t misses;       /* blocks read from the kernel */
	uint64_t retries;      /* copies thrown away: refilled meanwhile */
	uint64_t pins_refused; /* count, quota or set full, or no table */
	uint64_t pinned;       /* blocks pinned now */
	uint64_t may_pin; /* 1: it may pin; 0: it came too late, or has no service */
};
void lodic_context_stat(const struct lodic_context *context,
                        struct lodic_context_stat *ret_stat, size_t bytes);

/* What the cache holds now, and what it and all its readers have done since it started. */
struct lodic_stat {
	/* Blocks. */
	uint64_t frames;            /* that it has room for */
	uint64_t cached;            /* that it holds now */
	uint64_t pinned;            /* that are pinned now */
	uint64_t admitted;          /* brought in */
	uint64_t evicted;           /* thrown out to make room */
	uint64_t evictions_refused; /* that met a pin */
	uint64_t errors;            /* reads of a file that failed */
	/* Files, processes, contexts. */
	uint64_t files;     /* held under a proof now */
	uint64_t direct_io; /* of these: read with O_DIRECT */
	uint64_t revoked;   /* given up for a writer */
	uint64_t clients;   /* processes connected now */
	uint64_t contexts;  /* open now */
	uint64_t reaped;    /* contexts taken back from processes that died */
	/* Of all contexts, as in struct lodic_context_stat. */
	uint64_t hits;
	uint64_t soft_misses;
	uint64_t misses;
	uint64_t retries;
	uint64_t pins_refused;
	/* Memory, in bytes. */
	uint64_t control_bytes; /* shared tables */
	uint64_t data_bytes;    /* frames */
	uint64_t count_bytes;   /* shared counters */
	uint64_t context_bytes; /* one context */
	/* The service. */
	uint64_t service_pid;
	uint64_t uptime_ns;
	uint64_t scheme;     /* enum lodic_scheme */
	uint64_t entries;    /* in a context's table */
	uint64_t io_uring;   /* 1: it fills blocks by io_uring; 0: by preadv(2) */
	uint64_t huge_bytes; /* of data_bytes: in huge pages when it started */
	uint64_t light_pins; /* 1: a pin is a plain store; 0: an atomic exchange */
	/* Holds. */
	uint64_t holds;      /* ranges in memory now: shared, being read, or outdated */
	uint64_t hold_limit; /* bytes they may have */
	uint64_t hold_bytes; /* that they have */
	uint64_t hold_used_bytes; /* of these: of holds that a program may have */
	uint64_t hold_huge_bytes; /* of hold_bytes: in huge pages */
	uint64_t holds_given;     /* to programs, since the service started */
	uint64_t holds_read;      /* ranges read from files */
	uint64_t holds_failed; /* ranges that could not be read, or changed meanwhile */
	/* Bytes that frames and holds may have together; 0: neither takes from the other. */
	uint64_t memory_limit;
};

/* -ESTALE: the service is away.
 * -ETIMEDOUT, -ECONNRESET, -EPROTO: it did not answer, or not in this version.
 * -ECHILD: this process is a forked child of the one that attached.
 * -EINVAL: lodic or ret_stat is NULL. */
int lodic_stat(struct lodic *lodic, struct lodic_stat *ret_stat, size_t bytes);

/* What an error of these functions means, and what to do. The text stays until this thread's next
 * call of a function of this header. error may be negative or positive. It is the
 * sentence of lodic_reason(), and of a service that did not start its last words. For another
 * errno it is strerror(3)'s text. */
const char *lodic_strerror(int error);

/* The version of the library that runs, "0.1.0". LODIC_VERSION_* are of the one that a
 * program was compiled with. */
const char *lodic_version(void);

/* "lodic", "atomic", "frozen", "hazard". */
const char *lodic_scheme_name(enum lodic_scheme scheme);

#ifdef __cplusplus
}
#endif

#endif
