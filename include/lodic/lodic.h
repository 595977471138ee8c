/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * liblodic: a page cache shared between processes.
 *
 * Read this first
 * - A context belongs to one thread. Open one per thread; they are cheap (see `lodic
 *   bench memory`). Two threads on one context corrupt its pin counts.
 * - A context does not survive fork(). In the child, lodic_read() still works, from the
 *   kernel, and lodic_pin() says -EAGAIN; call lodic_attach() there to get a cache.
 * - Pinned memory is read-only and is a snapshot of the file as it was when it was
 *   pinned. Never hand it to vmsplice(2), MSG_ZEROCOPY or io_uring writes: the kernel
 *   could still be sending it after the pin is gone.
 * - A file is cached only while something proves that nobody changes it: a kernel read
 *   lease (the caller owns the file, or has CAP_LEASE), a read-only mount, or a path
 *   that the user has vouched for. Without a proof reads go to the kernel; the bytes
 *   are right either way. lodic_file_cached() says which it is.
 * - A service that is stopped (SIGSTOP) for longer than /proc/sys/fs/lease-break-time
 *   while somebody opens a cached file for writing loses its lease unawares: the one
 *   way to see old bytes. Do not stop it.
 * - If the service dies, readers notice at once, read from the kernel, and attach to its
 *   successor by themselves.
 *
 * Errors are negative errno values. Functions that cannot fail return nothing.
 */
#ifndef LODIC_LODIC_H
#define LODIC_LODIC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LODIC_VERSION_MAJOR 0
#define LODIC_VERSION_MINOR 1
#define LODIC_BLOCK_BYTES 4096

struct lodic;         /* this process's attachment to a cache; any thread may use it */
struct lodic_context; /* one reader: exactly one owner thread */
struct lodic_file;    /* an open file; any thread may use it */

/* How a cache counts pins: chosen when its service starts. LODIC is the one to use; the
 * others are there to be measured against. Under ATOMIC and FROZEN a reader that is
 * killed leaves its pins behind for ever: that is their nature. */
enum lodic_scheme { LODIC_LODIC, LODIC_ATOMIC, LODIC_FROZEN, LODIC_HAZARD };

struct lodic_options {
	size_t bytes;       /* sizeof(struct lodic_options): lets it grow */
	const char *socket; /* where the service listens; NULL: the user's default */
	const char
		*service; /* the `lodic` program to start when nobody listens; NULL: the
				one installed with this library; "": start none */
	/* For a service that this call starts; one that runs already keeps its own. */
	uint64_t cache_bytes; /* 0: 256 MiB */
	enum lodic_scheme scheme;
	uint32_t idle_exit_ms; /* it leaves when nobody has used it so long; 0: 10 s */
};

/*
 * Connects this process to the cache; options may be NULL. Starts the service when none
 * is there, and waits up to 10 s for it.
 * -ENOENT: no service and none to start; -ECONNREFUSED: the socket is dead and starting
 * is off; -EPERM: the service at the socket is another user's; -EPROTO: it speaks another
 * version; -ETIMEDOUT: it did not come up; -ENOMEM.
 */
int lodic_attach(const struct lodic_options *options, struct lodic **ret_lodic);

/* Ends the attachment. Close files and contexts first. Implied by exit and by kill -9. */
void lodic_detach(struct lodic *lodic);

/* A reader for the calling thread. -EMFILE: the service has as many as it can hold;
 * -ENOMEM. While the service is away this still succeeds: reads go to the kernel. */
int lodic_context_open(struct lodic *lodic, struct lodic_context **ret_context);

/* Closes it. Pins that are still held are given back; their memory must not be read any
 * more. */
void lodic_context_close(struct lodic_context *context);

/*
 * Opens a file by a descriptor that the caller has opened O_RDONLY: the proof that it may
 * read it. The descriptor is duplicated; close yours when you like.
 * -EBADF: not a descriptor, or not open for reading; -EINVAL: open for writing as well;
 * -EISDIR; -ENODEV: not a regular file. A file that cannot be cached is no error.
 */
int lodic_open(struct lodic *lodic, int fd, struct lodic_file **ret_file);
void lodic_close(struct lodic_file *file);

/* 0: the file is cached now. Otherwise why not: -EACCES: no proof (not the owner's
 * process, no CAP_LEASE); -ETXTBSY: somebody has it open for writing; -EOPNOTSUPP: a file
 * system without dependable leases; -EFBIG: 16 TiB or more; -ENFILE: too many files;
 * -ENODATA: it is empty; -ESTALE: it was written to since, or the service has gone; it is
 * tried again by and by, up to 4096 times. */
int lodic_file_cached(const struct lodic_file *file);

/*
 * Like pread(2): copies up to n bytes from offset on, returns how many (0 at the end of
 * the file), and the same errors, but for a buffer that is not there: copying from the
 * cache then faults, as memcpy would. Blocks that are cached are copied without a system call
 * and without a write to shared memory; the others are read from the kernel, and the
 * service is told that they are wanted. Never waits for the service.
 */
ssize_t lodic_read(struct lodic_context *context, struct lodic_file *file, void *buffer,
                   size_t n, off_t offset);
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
 * lodic_unpin(). One atomic add in memory of the context's own. lodic_unpin() must
 * be called by the same thread.
 * -EAGAIN: not now. The block is not cached (it has been asked for), or 127 pins on it are
 * held already, or eight blocks that share its place in the context's table are pinned. A
 * context can have as many blocks pinned as its table has entries, by default 1/128 of the
 * cache; when the tables of all contexts come to 3/4 of it, later contexts can only read.
 * lodic_read() works in each of these cases.
 * -EINVAL: offset is negative; -ENODATA: it lies at or after the end of the file.
 */
int lodic_pin(struct lodic_context *context, struct lodic_file *file, off_t offset,
              struct lodic_pin *ret_pin);
void lodic_unpin(struct lodic_context *context, struct lodic_pin *pin);

/* Asks the service to bring [offset, offset + n) in; n = 0: to the end of the file.
 * With LODIC_WAIT it returns when the service has done what it could. -EINVAL;
 * -ESTALE: the file is not cached (see lodic_file_cached()). */
enum { LODIC_WAIT = 1 };
int lodic_prefetch(struct lodic_context *context, struct lodic_file *file, off_t offset,
                   uint64_t n, unsigned int flags);

/* What one context has done; exact for its owner. */
struct lodic_context_stat {
	uint64_t hits;        /* blocks read or pinned from the cache */
	uint64_t soft_misses; /* of these: pins that had to set their entry first */
	uint64_t misses;      /* blocks read from the kernel */
	uint64_t retries;     /* copies thrown away: refilled meanwhile */
	uint64_t refused;     /* pins refused: count or set full, or no table */
	uint64_t pinned;      /* blocks pinned now */
};
void lodic_context_stat(const struct lodic_context *context,
                        struct lodic_context_stat *ret_stat);

/* What the cache has done, for all its readers. -ESTALE: the service is away. */
struct lodic_stat {
	uint64_t frames, cached, pinned;             /* blocks */
	uint64_t admitted, evicted, refused, errors; /* blocks, since the start */
	uint64_t files, revoked; /* held now; taken back because of a writer */
	uint64_t clients, contexts, reaped;
	uint64_t hits, soft_misses, misses, retries, full;
	uint64_t control_bytes, data_bytes, count_bytes, context_bytes;
	uint64_t service_pid, uptime_ns;
	uint32_t scheme; /* enum lodic_scheme */
	uint32_t io_uring, huge_pages;
	uint32_t entries; /* ptes a context */
};
int lodic_stat(struct lodic *lodic, struct lodic_stat *ret_stat);

/* "lodic", "atomic", "frozen", "hazard". */
const char *lodic_scheme_name(enum lodic_scheme scheme);

#ifdef __cplusplus
}
#endif

#endif
