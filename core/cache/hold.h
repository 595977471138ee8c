/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A hold: a range of a file, read once into memory that nobody can change afterwards, and given
 * to programs that ask for it (ADR-0022).
 *
 *         begin           publish             outdate, or the file's proof has ended
 *   FREE -------> LOADING --------> SHARED ------------------------------------> PAST
 *     ^              |                 |                                          |
 *     |              | publish, but    | leave: nobody has it                     |
 *     |              v nobody may see  v                                          |
 *     +---- end ---- GOING <------------------------------------------------------+
 *
 * The main thread of the service calls these functions. It hands the pieces of a range to
 * workers, which read them into the memory. It opens descriptions of the memory and sends them.
 * The checker's service calls the same functions (check/hold_world.c).
 *
 * Rules
 * HD1 A hold becomes SHARED only if its file's proof held after its last byte was read. Its
 *     pieces must all be whole, and nobody may have outdated it meanwhile. Otherwise nobody ever
 *     sees it. So each SHARED or PAST hold has the bytes that the file had under one id.
 * HD2 The service looks at the proof after a request has come. So what it gives to a request that
 *     was begun after a writer's open has returned shows no older byte.
 * HD3 Nobody can write the memory from before it is first given: it is sealed, and no writable
 *     mapping is left. A seal that failed is none.
 * HD4 A hold leaves only if nobody else has its memory: mapped, open, or under way in a message.
 *     The host looks (hold_is_had). A program that has none can get none, but from the service.
 *     So an answer "nobody" stays true until the next giving, and `had` is set before that.
 * HD5 Its bytes count from before the first of them is read, until its memory is the kernel's
 *     again. So a hold that goes counts while a worker closes it.
 * HD6 A description by number is of bytes that a holder has already. It may be of a PAST hold,
 *     but never of one that is LOADING or GOING.
 * HD7 A request for a range inside one that is SHARED or LOADING gets that one. So no byte
 *     is read or counted twice because two programs ask for the same range at one time. Where the
 *     caller wants copies for nodes of memory, this holds for each copy.
 * HD8 A hold is of one file id in one arena (alive_value): ids are used again in another arena.
 *     After hold_outdate() nothing here looks at the arena's words, and they may be unmapped.
 * HD9 A hold stays LOADING while a worker may still write its memory.
 *
 * Order
 * O40 the last byte of the last piece, the worker's unlock, the main thread's lock, then the look
 *     at the proof (HD1). A byte of a later writer was written after its open had returned. That
 *     came after the lease thread's F_UNLCK, which came after its store and its full fence (S1,
 *     O21). So the look sees the end of the proof. Shape MP, with system calls in the chain.
 * O41 the client's send, the service's recv, then the look (HD2). A program that knows that a
 *     writer's open has returned sends its request after the store and fence of S1 or O21.
 *     Both calls take the socket's lock, which is an acquire for the service.
 * O42 the worker's bytes, its unlock, the main thread's lock, the send, the holder's recv, its
 *     first look at the bytes. Each step is a lock or a system call that takes one, so that no
 *     fence is needed here.
 *
 * Mutual exclusion: one thread calls all functions of this file. Workers and the lease thread
 * call none of them. struct hold and struct hold_room are that thread's own: plain loads and
 * stores.
 *
 * What is not here: which hold leaves when room is needed, and who waits (lib/service/). A hold
 * may leave between its publication and the request that has waited for it. The service should
 * not choose it then, because that request would begin it once more.
 */
#ifndef LODIC_CORE_CACHE_HOLD_H
#define LODIC_CORE_CACHE_HOLD_H

#include "core/cache/file_proof.h"

enum hold_state { HOLD_FREE, HOLD_LOADING, HOLD_SHARED, HOLD_PAST, HOLD_GOING };

/* A file as a request names it, and the words that vouch for it. */
struct hold_file {
	const struct file_proof *proof;
	const u64 *alive; /* of the arena's header */
	u64 alive_value;  /* what it is while that arena lives; no other arena's */
	u32 id;           /* under which the file was admitted there */
	u32 node;         /* which copy, where there are several (HD7) */
};

/* The memory of all holds, in bytes. most may change at any time; used then falls as holds go. */
struct hold_room {
	u64 most, used;
};

struct hold {
	struct hold *next; /* the caller's list, for hold_ask(); NULL: the last */
	struct hold_room *room;
	struct hold_file file;
	u64 from, to;   /* bytes of the file */
	u64 bytes;      /* that count (HD5) */
	u32 state;      /* enum hold_state */
	u32 nr_left;    /* pieces that no worker has begun to read */
	u32 nr_reading; /* pieces that a worker reads now */
	bool spoilt;    /* while LOADING: nobody will see it */
	bool had;       /* somebody may have it (HD4) */
};

/* What a request gets. */
enum hold_answer {
	HOLD_NONE, /* no such hold: the caller may begin one */
	HOLD_WAIT, /* one that is being read */
	HOLD_GIVE, /* one that must be given now, before any other call */
};

/* The host's look: may anybody but the service have the memory of ctx? Only a sure no is a no. */
typedef bool hold_is_had(void *ctx);

/* Does the proof of f still hold, in an arena that lives? */
bool hold_vouch(const struct hold_file *f);

/* A request has come for [from, to) of f. Searches the list that begins with first (HD7), and
 * outdates those of f in it when f's proof has gone (HD2). The list may leave out any hold that
 * does not have the range: each giving looks at the proof itself.
 * Cost: the length of the list. */
enum hold_answer hold_ask(struct hold *first, const struct hold_file *f, u64 from,
                          u64 to, struct hold **ret_hold);

/* A holder asks for another description of h (HD6). true: it must be given now. */
bool hold_pass_on(struct hold *h);

/* Begins a hold of [from, to) of f, to be read in nr_pieces. bytes is the most that its memory
 * can come to, in whole pages of whatever size. false: there is no room (HD5). */
bool hold_begin(struct hold *h, struct hold_room *room, const struct hold_file *f,
                u64 from, u64 to, u64 bytes, u32 nr_pieces);

/* true: the next piece must be handed to a worker. false: no more pieces, for now or for good.
 * Stops early if the proof has gone. */
bool hold_piece_begin(struct hold *h);
/* A worker has ended a piece, and writes it no more. whole: all its bytes are the file's. */
void hold_piece_end(struct hold *h, bool whole);
/* Is nothing left to be read of a hold that is LOADING? Then the caller must seal it, if it is
 * not spoilt, and publish it. To be asked after each of the three calls that may bring it about:
 * hold_piece_begin() that says false, hold_piece_end(), hold_outdate(). */
bool hold_is_read(const struct hold *h);
/* sealed: nobody can write the memory any more (HD3). true: SHARED. false: GOING. */
bool hold_publish(struct hold *h, bool sealed);

/* Its file has changed, or goes, or the arena ends: no request gets it any more. What is held
 * stands. */
void hold_outdate(struct hold *h);

/* Asks the host who has it, if anybody may. Returns had. */
bool hold_look(struct hold *h, hold_is_had *is_had, void *ctx);
/* Lets a SHARED or PAST hold go, if nobody has it (HD4). true: GOING. */
bool hold_leave(struct hold *h, hold_is_had *is_had, void *ctx);
/* The memory of a GOING hold is the kernel's again: FREE. */
void hold_end(struct hold *h);

/* Asserts what must be true of a hold between two calls. */
void hold_check(const struct hold *h);

#endif
