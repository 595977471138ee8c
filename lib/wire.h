/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a client and the service say to each other. A request is one SOCK_SEQPACKET message,
 * and so is the reply; descriptors travel as SCM_RIGHTS. Both ends run on the same
 * machine, so the structs travel as they are. The version guards against a
 * mixed install.
 *
 *   request        descriptors sent       reply              descriptors returned
 *   HELLO          -                      arena's sizes      control, data, wake, shared
 *   CONTEXT_OPEN   -                      place, quota       the context's memory (a: 1 if it
 *                                                            only reads: quota is 0 then)
 *   CONTEXT_CLOSE  -                      -                  -       (a: place)
 *   FILE_OPEN      the file, read-only    slot, id, size,    -       (a: the first block missed,
 *                                         device, inode               b: how many)
 *   FILE_CLOSE     -                      -                  -       (a: slot, b: id)
 *   HOLD           -                      number, range      the hold's memory (a: file id,
 *                                                            b: offset, c: bytes)
 *   HOLD_FD        -                      number, range      the hold's memory (a: number)
 *   SYNC           -                      -, once idle       -
 *   HOLD_WAIT      -                      -, once settled    -       (a: number)
 *   STAT           -                      struct lodic_stat  -
 *   FILES          -                      a page of records  -       (a: cursor)
 *   READERS        -                      a page of records  -       (a: cursor)
 *   CONTEXTS       -                      a page of records  -       (a: cursor)
 *   HOLDS          -                      a page of records  -       (a: cursor)
 *   TIMES          -                      a page of records  -
 *   TIERS          -                      a page of records  -
 *   MOVE           -                      -                  -       (a: tier, b: dev, c: ino)
 *   DROP           -                      what went, cursor  -       (a: cursor, b: dev,
 *                                                                     c: ino)
 *   KEEP           -                      -                  -       (a: dev, b: ino)
 *   RESIZE         -                      struct look_resize -       (a: bytes; 0: just ask.
 *                                                                     b: and what blocks need)
 *   STOP           -                      -, then it ends    -
 *   SUCCEED        the lock file          -                  the successor's channel
 *   HAND_ARENA     -                      arena's sizes      control, data, shared
 *   HAND_FILE      -                      what it holds      the file, O_PATH  (a: slot)
 *   HAND_FRAMES    -                      a byte a frame     -       (a: the first frame)
 *   HAND_OVER      -                      -                  listening socket, lock
 *   HAND_STAY      -                      -                  -
 *   HANDED         -                      -                  -
 *
 * A connection is of one kind, which its first request decides. HELLO makes it a reader's: that
 * may open contexts, files and holds, and may ask HOLD_WAIT, SYNC and STAT. Any other request
 * from SYNC to SUCCEED, KEEP or STOP makes it a visitor's, which may ask those. HAND_ARENA to
 * HANDED are for the channel that SUCCEED returns. What is not for a connection of that kind gets
 * -EINVAL.
 * lib/service/client/authority.h says which users may ask.
 *
 * The cursor of a first page is 0. The records of lib/look.h follow their reply in the same
 * message.
 *
 * HOLD asks for a range of a file that the client has open (c = 0: to its end). If the memory is
 * ready it comes with the reply. -EINPROGRESS: the service reads it, and number names it for
 * HOLD_WAIT, which any connection may ask. When that is answered with 0 the client asks HOLD
 * again. -EAGAIN: 64 ranges are being read for this client. HOLD_FD gives a holder another
 * description of what HOLD gave it.
 *
 * SUCCEED announces a successor (lib/service/succession/takeover.h). It passes the lock file, which
 * it has opened for reading and writing. -EACCES: that is another file, or opened otherwise.
 * -EBUSY: there is another successor, or a resize. A channel whose successor lost its place gets
 * -EBUSY, or an answer that nobody asked for, with -ECANCELED, and then hangs up.
 */
#ifndef LODIC_LIB_WIRE_H
#define LODIC_LIB_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/look.h"
#include "lodic/lodic.h"

/* Another number whenever a struct here or in lib/look.h, struct lodic_stat, or the layout of
 * an arena or of a context's memory (core/cache/arena.h) changes. The same when a word there
 * comes to mean something else. */
#define WIRE_VERSION 15u
#define WIRE_MAX_FDS 4

enum wire_op {
	WIRE_HELLO = 1,
	WIRE_CONTEXT_OPEN,
	WIRE_CONTEXT_CLOSE,
	WIRE_FILE_OPEN,
	WIRE_FILE_CLOSE,
	WIRE_SYNC,
	WIRE_STAT,
	WIRE_FILES,
	WIRE_READERS,
	WIRE_CONTEXTS,
	WIRE_DROP,
	WIRE_HOLD,
	WIRE_HOLD_FD,
	WIRE_HOLD_WAIT,
	WIRE_HOLDS,
	WIRE_RESIZE,
	WIRE_HAND_FILE,
	WIRE_HAND_FRAMES,
	WIRE_HAND_OVER,
	WIRE_HANDED,
	WIRE_TIMES,
	WIRE_TIERS,
	WIRE_MOVE,
	WIRE_SUCCEED,
	WIRE_HAND_ARENA,
	WIRE_HAND_STAY,
	WIRE_KEEP,
	WIRE_STOP,
	WIRE_NR_OPS
};

struct wire_request {
	uint32_t version;
	uint32_t op;
	uint64_t a;
	uint64_t b;
	uint64_t c;
	uint64_t cpu; /* FILE_OPEN, HOLD: on which the program runs; else nothing */
};

struct wire_reply {
	int32_t error; /* 0, or -errno with its reason (RE1 in lib/reason.h) */
	uint32_t nr_fds;
	union {
		struct {
			uint64_t control_bytes, data_bytes, shared_bytes;
			uint64_t alive;      /* the value of the alive word */
			uint64_t generation; /* the arena's own number */
		} hello;                     /* HAND_ARENA's, too */
		struct {
			/* quota: frames it may pin: its entries, or 0 */
			uint64_t place, quota, bytes;
		} context;
		struct {
			uint64_t slot, id, size;
			uint64_t dev, ino; /* of the file that was passed */
		} file;
		struct {
			uint64_t number; /* never used again, by a successor neither */
			/* The memory begins with the file's byte at offset, a multiple of a
			 * page; bytes of it are the file's. */
			uint64_t offset, bytes;
			uint64_t huge_bytes; /* of these in huge pages */
		} hold;
		struct lodic_stat stat;
		struct {
			uint64_t next;      /* cursor; LOOK_END: this was the last */
			uint64_t bytes, nr; /* of the records that follow */
		} page;
		struct {
			uint64_t next;
			struct look_dropped dropped; /* in this step */
		} drop;
		struct look_resize resize;
		struct {
			uint64_t id, size, hits;
			uint64_t idle_since_ns;   /* if no program has it open */
			uint32_t opens;           /* by programs */
			uint32_t local;           /* 1: a look at it waits for nobody */
			uint32_t tier, tier_said; /* as in struct held_file */
			uint32_t kept;            /* 1: the same */
		} hand_file;
		struct {
			uint64_t
				lent; /* 1: the socket's path is another's, who removes it */
		} hand_over;
	};
};

/* HAND_FRAMES: of a frame that has no block that is worth it, 0. Otherwise its visits, and this if
 * eviction has it in MAIN, or that; and its tier, if there are two. */
#define WIRE_FRAME_SMALL 0x10u
#define WIRE_FRAME_MAIN 0x20u
#define WIRE_FRAME_SLOW 0x40u
#define WIRE_FRAME_FAST 0x80u
#define WIRE_FRAME_VISITS 0x0fu

/* A reply with the records that follow it. */
struct wire_page {
	struct wire_reply reply;
	unsigned char records[LOOK_PAGE_BYTES];
};

/* The sender of a message, as the kernel says (SCM_CREDENTIALS). The user is the sender's real one,
 * unless it names its effective or its saved one, or has CAP_SETUID. */
struct wire_sender {
	bool said; /* the message has credentials */
	int pid;   /* 0: of a process that this one cannot name */
	uint32_t uid;
};

/* Sends or receives one message, with at most WIRE_MAX_FDS descriptors. 0 or -errno;
 * -ECONNRESET: the other side has gone. -EAGAIN: there is none, or no room for one: neither
 * function waits. -EMFILE: the message is whole, but its descriptors are lost, because this
 * process can have no more. Received descriptors are close-on-exec and belong to the caller,
 * also those that it did not expect.
 * wire_receive_all() returns descriptors in every case. It closes none, because closing one of
 * unknown kind may wait. For ret_sender the socket must have SO_PASSCRED; without it, more than
 * WIRE_MAX_FDS descriptors may come, and those are closed. NULL: the socket must not have it. With
 * it, descriptors are lost, and the kernel closes them in this thread. */
int wire_send(int socket, const void *message, unsigned long bytes, const int *fds,
              unsigned int nr_fds);
int wire_receive(int socket, void *message, unsigned long bytes, int *ret_fds,
                 unsigned int *ret_nr_fds);
int wire_receive_all(int socket, void *message, unsigned long bytes, int *ret_fds,
                     unsigned int *ret_nr_fds, struct wire_sender *ret_sender);

#endif
