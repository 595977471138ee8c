/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The steps that need arena, context and file_proof together: read and vouch, pin and vouch,
 * publish if the file still stands, join and leave. liblodic and the checker call these same
 * functions, so what is searched is what ships. The callers add only their system calls.
 *
 * Rules
 * O22 a reader's copies or its pin come first, then its look whether the proof and the
 *     service still live (C4). One look vouches for all copies of one call.
 * O23 a pin that is not vouched for is given back before its caller is told of it.
 * O24 a context is on the walk list, then its reader is told where its memory is (K2).
 * O25 a context leaves only when nobody has its memory any more, or when its reader has said
 *     that it is done. A hang-up proves neither: a process may close its descriptors and go
 *     on.
 *
 * The functions that serve one block are inline, call nothing but memcpy, and look only
 * where most blocks are. false means that the caller must go the long way.
 */
#ifndef LODIC_CORE_CACHE_CACHE_H
#define LODIC_CORE_CACHE_CACHE_H

#include "core/cache/context_rival.h"

#define CACHE_INLINE static inline __attribute__((always_inline))

/* A file as its reader or the service knows it: the id it was admitted under, and where the
 * service says whether that still holds. */
struct cache_file {
	const struct file_proof *proof;
	u32 id;
};

/* ---- the reader's side: the context's owner calls these ---- */

CACHE_INLINE bool cache_vouch(const struct context *c, const struct cache_file *f)
{
	return context_vouch(c, f->proof, f->id);
}

/* Reads n bytes of block from within on, all of them in this block, by the short way. */
CACHE_INLINE bool cache_read_home(struct context *c, const struct cache_file *f,
                                  u64 block, u32 within, void *to, u32 n)
{
	return context_read_home(c, block, within, to, n) &&
	       cache_vouch(c, f); /* O22 */
}

/* A read of many bytes: what is wanted, and how to read what is not cached. */
struct cache_read {
	const struct cache_file *file;
	u8 *to;
	u64 n, offset; /* all of it inside the file */
	/* Reads a stretch from the file itself; false: it came back short. */
	bool (*fill)(void *ctx, u8 *to, u64 n, u64 offset);
	void *ctx;
};

/* true: the bytes are there, all of one time, *ret_hits blocks of them from the cache.
 * false: the file has changed meanwhile, and the buffer holds rubbish. */
bool cache_read(struct context *c, const struct cache_read *r, u64 *ret_hits);

/* Gives a pin back; word is what cache_pin() or cache_pin_home() said. */
CACHE_INLINE void cache_unpin(struct context *c, u64 *word)
{
	if (likely(c->scheme == ARENA_SCANNED))
		context_unpin_scanned(c, word);
	else
		context_unpin_word(c, word);
}

/* The second half of a short pin, when the block is counted: does somebody vouch for it? If not,
 * the pin is given back. rival, a constant: not ARENA_SCANNED. */
CACHE_INLINE bool cache_pin_vouched(struct context *c, const struct cache_file *f,
                                    bool rival, u64 *word)
{
	if (likely(cache_vouch(c, f))) /* O22 */
		return true;
	if (rival) /* O23 */
		context_unpin_word(c, word);
	else
		context_unpin_scanned(c, word);
	return false;
}

/* Counts block by the short way, and no more: the first half. */
CACHE_INLINE bool cache_pin_counted(struct context *c, u64 block, bool rival,
                                    u32 *ret_frame, u64 **ret_word)
{
	return likely(rival ? context_pin_word_home(c, block, ret_frame, ret_word)
	                    : context_pin_home(c, block, ret_frame, ret_word));
}

/* Pins block by the short way: both halves. */
CACHE_INLINE bool cache_pin_home(struct context *c, const struct cache_file *f,
                                 u64 block, bool rival, u32 *ret_frame, u64 **ret_word)
{
	return cache_pin_counted(c, block, rival, ret_frame, ret_word) &&
	       cache_pin_vouched(c, f, rival, *ret_word);
}

/* Pins block, wherever it stands and under any scheme. 0, or why not: the errors of
 * context_pin(), of which -EAGAIN also means that nobody vouches for the pin. */
int cache_pin(struct context *c, const struct cache_file *f, u64 block, u32 *ret_frame,
              u64 **ret_word);

/* ---- the service's side: its one thread calls these ---- */

/* Begins to fill frame, which is nobody's, with block. Afterwards the caller lets the bytes
 * come, by whatever way and as late as it likes. */
void cache_fill_begin(struct arena *a, u32 frame);

/* Ends the fill: the bytes are whole, or (whole = false) they are not. true: block is cached
 * in frame. false: frame is FREE, because the bytes are not whole, the file's proof does not
 * hold any more (O20), or the translation has no room. */
bool cache_fill_end(struct arena *a, const struct cache_file *f, u32 frame, u64 block,
                    bool whole);

/* Puts a context on the walk list, then calls tell(), which makes the reply that lets its
 * reader have the memory (O24). Returns its place; FRAME_NONE: no room, and tell() was not
 * called. */
u32 cache_join(struct arena *a, const struct context_table *t,
               void (*tell)(void *ctx, u32 place), void *ctx);

/* A context's reader has hung up: may the context leave the walk list now (O25)? in_use: its
 * memory may still be mapped somewhere, as far as the service can tell. */
static inline bool cache_may_leave(bool in_use)
{
	return !in_use;
}

#endif
