/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The door to the system (port.h): reads of files, one that the caller waits for, or many under
 * way. Only the service has this.
 */
#ifndef LODIC_LIB_PORT_READS_H
#define LODIC_LIB_PORT_READS_H

#include "lib/port.h"

/* Memory that a part of a read goes to. */
struct port_piece {
	void *at;
	size_t bytes;
};

/* As port_read(), but fills the pieces one after the other. Fewer bytes than they have room for
 * come where the file ends, or where its next page cannot be read: the next read says why.
 * -EINVAL: with PORT_DIRECT also that the file system cannot read so, or not such pieces. */
PORT_HANGS int64_t port_read_pieces(int fd, const struct port_piece *pieces,
                                    unsigned int nr_pieces, uint64_t offset);

/* Does the system's page cache hold all these bytes, which begin with a page? The answer may be
 * old at once. false also where the system cannot tell (Linux before 6.5). */
bool port_is_cached(int fd, uint64_t offset, uint64_t bytes);
/* The page cache need not keep these bytes. It keeps pages that somebody has mapped or has written
 * to, and may begin to write the latter. It keeps folios that are only partly in the range. */
PORT_HANGS void port_drop_cached(int fd, uint64_t offset, uint64_t bytes);

/* ---- reads under way ---- */

/* One thread calls these functions for reads that it has made. */
struct port_reads;

/* Room for reads under way, `most' of them at once, a power of two. -ENOSYS -EPERM -EACCES: this
 * process gets none. -EMFILE -ENFILE. -ENOMEM: also that it may not lock so much memory. */
int port_reads_make(unsigned int most, struct port_reads **ret_reads);
/* Reads under way are called off. One whose file does not answer may write to its pieces until
 * this process has ended. */
void port_reads_end(struct port_reads *reads);
/* The descriptor that has input while port_reads_next() has something to return. It ends with
 * reads. */
int port_reads_event(const struct port_reads *reads);

struct port_read {
	int fd; /* it stays open, and the pieces stay as they are, until the read has ended */
	/* The system's own threads do it. Otherwise port_reads_send() copies what is in the page
	 * cache before it returns, and only the rest is done by others. */
	bool elsewhere;
	const struct port_piece *pieces;
	unsigned int nr_pieces;
	uint64_t offset;
	void *of; /* what port_reads_next() returns */
};
/* The next port_reads_send() begins it. Of those that were added and have not ended there may be
 * `most'. false: so many have not begun. */
bool port_reads_add(struct port_reads *reads, const struct port_read *read);
/* Begins what was added. What the system does not take now begins with the next call. It waits for
 * no disk and no server. But a scanner that has to permit each read (fanotify) holds it up. */
void port_reads_send(struct port_reads *reads);
/* A read that has ended: each one ends once, in any order. false: there is none. *ret_result is
 * what port_read_pieces() would say. Also -EAGAIN, -EINTR: it could not be done in this way.
 * -ECANCELED. -EBADF: of fd. */
bool port_reads_next(struct port_reads *reads, void **ret_of, int *ret_result);
/* Waits until port_reads_next() has something to return, or for ns nanoseconds. A signal may end
 * it early. */
PORT_WAITS void port_reads_wait(struct port_reads *reads, uint64_t ns);

#endif
