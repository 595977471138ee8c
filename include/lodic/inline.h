/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The short ways of lodic_read(), lodic_pin(), lodic_unpin() and views, compiled into the
 * program. Each function promises what the library's function of that name promises, and calls
 * it for all but the plain case. The plain case is one block, or a piece of one, that is
 * cached and stands where most blocks do.
 *
 *	struct lodic_inline in;
 *
 *	lodic_inline_init(&in, context, file);
 *	for (i = 0; i < nr; i++)
 *		if (lodic_read_inline(&in, &record, sizeof(record), where[i]) < 0)
 *			...
 *
 * What it is worth: a loop finds the cache's tables once and not at each call. A read of 64
 * bytes takes about three quarters of the time; doc/measured.md has the figures. A copy of
 * 4096 bytes takes the same.
 *
 * When not to use it
 * - lodic.h alone is fast enough. Its functions are a stable interface; these are not. They
 *   contain the layout of the library's memory, as it was when the program was compiled.
 * - The program has no loop around them, or the loop does much else: then little is won.
 * - Code size matters. Each use is some hundred bytes.
 * - The compiler is neither GCC nor Clang, or the machine has 32 bits.
 *
 * The layout has a number. lodic_context_open() leaves a word for it in the context, and that
 * word leads nowhere if the library has another layout. Then each function here calls the
 * library's: right, but slower. So does each in a debug build of the library, which sees all
 * calls and finds misuse.
 *
 * Include this file instead of lodic.h. Both kinds of calls may be mixed: what
 * lodic_pin_inline() has pinned, lodic_unpin() may give back.
 */
#ifndef LODIC_INLINE_H
#define LODIC_INLINE_H

#include <lodic/lodic.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LODIC_INLINE_LAYOUT 2  /* grows with each change of what follows */
#define LODIC_INLINE_LAYOUTS 4 /* that contexts have a word for, in every layout */

/*
 * The library's structs, as far as these functions look. lib/client/layout.h compares each
 * of them with the original. The rules that are named below (C1, O2 ...) stand in
 * core/cache/context.h, cache.h, view.h, core/frame.h, and lib/client/claim.h.
 */
#define LODIC_INLINE_ALIAS __attribute__((__may_alias__))

struct lodic_inline_frame {
	uint64_t seq, block, pins, state;
} LODIC_INLINE_ALIAS;

struct lodic_inline_core {
	const struct lodic_inline_frame *frames;
	const unsigned char *data;
	const uint64_t *words;
	uint32_t word_shift;
	uint32_t nr_frames;
	uint64_t *entries;
	unsigned char *visits;
	uint64_t *counts;
	unsigned char *memory;
	const uint64_t *alive;
	uint64_t alive_value;
	uint32_t home_shift;
	uint32_t scheme;
	uint32_t quota;
	unsigned char light;
} LODIC_INLINE_ALIAS;

struct lodic_inline_seat {
	uint64_t generation, pin_generation;
	struct lodic_inline_core core;
} LODIC_INLINE_ALIAS;

struct lodic_inline_claim {
	uint64_t generation, first, size;
	const uint64_t *live;
	uint32_t id;
} LODIC_INLINE_ALIAS;

struct lodic_inline_file {
	const struct lodic_inline_claim *claim;
} LODIC_INLINE_ALIAS;

struct lodic_inline_context {
	struct lodic_inline_seat *seats[LODIC_INLINE_LAYOUTS];
	const void *retired;
} LODIC_INLINE_ALIAS;

/* The model checker searches these same functions, with its own atomics and smaller blocks. */
#ifdef LODIC_INLINE_HOST
#include LODIC_INLINE_HOST
#else
#define LODIC_INLINE_SHIFT 12
#define LODIC_INLINE_COUNTERS_AT 2176 /* bytes from the start of a context's memory */
#define LODIC_INLINE_LOAD(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define LODIC_INLINE_LOAD_ACQUIRE(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define LODIC_INLINE_STORE(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define LODIC_INLINE_STORE_RELEASE(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define LODIC_INLINE_LOAD_BYTE(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define LODIC_INLINE_STORE_BYTE(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)
/* Full fences on both sides, as core needs it; a locked instruction is both on x86-64. */
#ifdef __x86_64__
#define LODIC_INLINE_XCHG(p, v) ((void)__atomic_exchange_n(p, v, __ATOMIC_SEQ_CST))
#else
#define LODIC_INLINE_XCHG(p, v) \
	(__atomic_thread_fence(__ATOMIC_SEQ_CST), \
	 (void)__atomic_exchange_n(p, v, __ATOMIC_SEQ_CST), \
	 __atomic_thread_fence(__ATOMIC_SEQ_CST))
#endif
#define LODIC_INLINE_FENCE_ACQUIRE() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define LODIC_INLINE_FENCE_LIGHT() __atomic_signal_fence(__ATOMIC_SEQ_CST)
/* From both ends; in the middle the pieces overlap. */
static inline __attribute__((__always_inline__)) void
lodic_inline_pieces(unsigned char *to, const unsigned char *from, size_t n,
                    size_t piece)
{
	__builtin_memcpy(to, from, piece);
	__builtin_memcpy(to + n - piece, from + n - piece, piece);
}
static inline __attribute__((__always_inline__)) void
LODIC_INLINE_COPY(void *buffer, const unsigned char *from, size_t n)
{
	unsigned char *to = (unsigned char *)buffer;

	if (__builtin_constant_p(n) || __builtin_expect(n > 64, 0)) {
		__builtin_memcpy(to, from, n);
	} else if (__builtin_expect(n >= 32, 1)) {
		lodic_inline_pieces(to, from, n, 32);
	} else if (n >= 16) {
		lodic_inline_pieces(to, from, n, 16);
	} else if (n >= 8) {
		lodic_inline_pieces(to, from, n, 8);
	} else if (n >= 4) {
		lodic_inline_pieces(to, from, n, 4);
	} else if (n > 0) {
		to[0] = from[0];
		to[n / 2] = from[n / 2];
		to[n - 1] = from[n - 1];
	}
	/* The compiler must neither move the copy behind what follows, nor drop it. */
	__asm__ volatile("" : : "r"(to) : "memory");
}
#endif

#define LODIC_INLINE_LIKELY(x) __builtin_expect(!!(x), 1)
#define LODIC_INLINE_FN static inline __attribute__((__always_inline__))
#define LODIC_INLINE_BLOCK (1u << LODIC_INLINE_SHIFT)
#define LODIC_INLINE_HITS 0 /* enum context_counter */
#define LODIC_INLINE_SOFT 1
#define LODIC_INLINE_NR_PINNED 7 /* the word after the counters */
#define LODIC_INLINE_VISITS_MAX 3
#define LODIC_INLINE_ONE ((uint64_t)1 << 52) /* an entry's count, from bit 52 on */
#define LODIC_INLINE_COUNT ((uint64_t)127 << 52)
#define LODIC_INLINE_PRESENT ((uint64_t)1 << 32)
#define LODIC_INLINE_TAG ((uint64_t)0x7ffff << 33)

/* ---- the steps of a reader: what core/cache has under the names in brackets ---- */

/* (block_hash) */
LODIC_INLINE_FN uint64_t lodic_inline_hash(uint64_t block)
{
	return block * 0x9e3779b97f4a7c15u;
}

/* (translation_guess) The frame where block stands, if it stands at its home. */
LODIC_INLINE_FN uint32_t lodic_inline_guess(const struct lodic_inline_core *c,
                                            uint64_t hash)
{
	return (uint32_t)LODIC_INLINE_LOAD(&c->words[hash >> c->word_shift]);
}

LODIC_INLINE_FN uint64_t *lodic_inline_counters(const struct lodic_inline_core *c)
{
	return (uint64_t *)(void *)(c->memory + LODIC_INLINE_COUNTERS_AT);
}

/* (context_bump) */
LODIC_INLINE_FN void lodic_inline_bump(const struct lodic_inline_core *c, int which)
{
	uint64_t *p = &lodic_inline_counters(c)[which];

	LODIC_INLINE_STORE(p, LODIC_INLINE_LOAD(p) + 1);
}

/* (context_visit) */
LODIC_INLINE_FN void lodic_inline_visit(const struct lodic_inline_core *c,
                                        uint32_t frame)
{
	unsigned char *p = &c->visits[frame];
	unsigned char visits = LODIC_INLINE_LOAD_BYTE(p);

	if (!LODIC_INLINE_LIKELY(visits >= LODIC_INLINE_VISITS_MAX))
		LODIC_INLINE_STORE_BYTE(p, (unsigned char)(visits + 1));
}

/* (cache_vouch) Is the file's proof alive, and the service? After what it vouches for. */
LODIC_INLINE_FN int lodic_inline_vouch(const struct lodic_inline_core *c,
                                       const struct lodic_inline_claim *claim)
{
	return LODIC_INLINE_LIKELY((uint32_t)LODIC_INLINE_LOAD_ACQUIRE(claim->live) ==
	                           claim->id) &&
	       LODIC_INLINE_LIKELY(LODIC_INLINE_LOAD(c->alive) == c->alive_value);
}

/* (view_begin_home) C20: an even seq, then the block's name. */
LODIC_INLINE_FN int lodic_inline_begin(const struct lodic_inline_core *c,
                                       uint64_t block,
                                       const struct lodic_inline_frame **ret_f,
                                       const unsigned char **ret_bytes,
                                       uint64_t *ret_seq)
{
	uint32_t frame = lodic_inline_guess(c, lodic_inline_hash(block));
	const struct lodic_inline_frame *f = &c->frames[frame];
	uint64_t seq;

	if (!LODIC_INLINE_LIKELY(frame < c->nr_frames)) /* C22 */
		return 0;
	/* O2: acquire, so that the name and the bytes are of this seq, or later. */
	seq = LODIC_INLINE_LOAD_ACQUIRE(&f->seq);
	if (!LODIC_INLINE_LIKELY(LODIC_INLINE_LOAD(&f->block) == block) ||
	    !LODIC_INLINE_LIKELY(!(seq & 1)))
		return 0;
	lodic_inline_visit(c, frame);
	*ret_f = f;
	*ret_bytes = c->data + ((uint64_t)frame << LODIC_INLINE_SHIFT);
	*ret_seq = seq;
	return 1;
}

/* (view_holds) C21: were all bytes read from f since lodic_inline_begin() the block's? */
LODIC_INLINE_FN int lodic_inline_holds(const struct lodic_inline_core *c,
                                       const struct lodic_inline_claim *claim,
                                       const struct lodic_inline_frame *f, uint64_t seq)
{
	/* O1: if any byte came from a later fill, its odd seq is seen now. */
	LODIC_INLINE_FENCE_ACQUIRE();
	return LODIC_INLINE_LIKELY(LODIC_INLINE_LOAD(&f->seq) == seq) &&
	       lodic_inline_vouch(c, claim);
}

/* (cache_read_home) */
LODIC_INLINE_FN int lodic_inline_copy(const struct lodic_inline_core *c,
                                      const struct lodic_inline_claim *claim,
                                      uint64_t block, uint32_t within, void *to,
                                      size_t n)
{
	const struct lodic_inline_frame *f;
	const unsigned char *bytes;
	uint64_t seq;

	if (!lodic_inline_begin(c, block, &f, &bytes, &seq))
		return 0;
	LODIC_INLINE_COPY(to, bytes + within, n);
	return lodic_inline_holds(c, claim, f, seq);
}

/* (context_pin_at) Makes the entry v, counted once, and looks whether that holds. */
LODIC_INLINE_FN int lodic_inline_count(const struct lodic_inline_core *c,
                                       uint64_t *entry, uint64_t v, uint64_t block)
{
	uint64_t *nr_pinned = &lodic_inline_counters(c)[LODIC_INLINE_NR_PINNED];
	uint64_t nr = LODIC_INLINE_LOAD(nr_pinned);

	if (!LODIC_INLINE_LIKELY(nr < c->quota) ||            /* C9 */
	    !LODIC_INLINE_LIKELY((uint32_t)v < c->nr_frames)) /* C22 */
		return 0;
	LODIC_INLINE_STORE(nr_pinned, nr + 1); /* C8: before the count, and the look */
	/* O5: the count becomes visible before the look. Where the service has a fence for
	 * all processes, a store and a fence of the compiler's are enough. */
	if (LODIC_INLINE_LIKELY(c->light)) {
		LODIC_INLINE_STORE(entry, v + LODIC_INLINE_ONE);
		LODIC_INLINE_FENCE_LIGHT();
	} else {
		LODIC_INLINE_XCHG(entry, v + LODIC_INLINE_ONE);
	}
	/* C1, C3. Acquire, partner O30: the bytes come after. */
	if (LODIC_INLINE_LIKELY(
		    LODIC_INLINE_LOAD_ACQUIRE(&c->frames[(uint32_t)v].pins) == block))
		return 1;
	LODIC_INLINE_STORE_RELEASE(entry, (uint64_t)0); /* C5 */
	LODIC_INLINE_STORE_RELEASE(nr_pinned, nr);
	return 0;
}

/* (context_unpin_scanned) C7: an entry without a count stays as it is. */
LODIC_INLINE_FN void lodic_inline_uncount(const struct lodic_inline_core *c,
                                          uint64_t *entry)
{
	uint64_t *nr_pinned = &lodic_inline_counters(c)[LODIC_INLINE_NR_PINNED];
	uint64_t v = LODIC_INLINE_LOAD(entry);

	if (!LODIC_INLINE_LIKELY(v & LODIC_INLINE_COUNT))
		return;
	/* Release: the loads of the pinned bytes come before. */
	LODIC_INLINE_STORE_RELEASE(entry, v - LODIC_INLINE_ONE);
	if ((v & LODIC_INLINE_COUNT) == LODIC_INLINE_ONE) /* C8 */
		LODIC_INLINE_STORE_RELEASE(nr_pinned, LODIC_INLINE_LOAD(nr_pinned) - 1);
}

/* (cache_pin_home) One pass: warm by the entry's own frame, cold by the translation's. */
LODIC_INLINE_FN int lodic_inline_pin(const struct lodic_inline_core *c,
                                     const struct lodic_inline_claim *claim,
                                     uint64_t block, uint32_t *ret_frame,
                                     uint64_t **ret_entry)
{
	uint64_t hash = lodic_inline_hash(block);
	uint64_t tag = LODIC_INLINE_PRESENT | (hash & LODIC_INLINE_TAG);
	uint64_t *entry = &c->entries[hash >> c->home_shift];
	uint64_t v = LODIC_INLINE_LOAD(entry);
	int cold = (v ^ tag) >> 32 != 0; /* another block's, or counted */

	if (cold) {
		if (!LODIC_INLINE_LIKELY(!(v & LODIC_INLINE_COUNT)))
			return 0;
		v = tag | lodic_inline_guess(c, hash);
	}
	if (!LODIC_INLINE_LIKELY(lodic_inline_count(c, entry, v, block)))
		return 0;
	if (cold)
		lodic_inline_bump(c, LODIC_INLINE_SOFT);
	lodic_inline_visit(c, (uint32_t)v);
	*ret_frame = (uint32_t)v;
	*ret_entry = entry;
	if (lodic_inline_vouch(c, claim)) /* O22 */
		return 1;
	lodic_inline_uncount(c, entry); /* O23 */
	return 0;
}

/* ---- what a program calls ---- */

/*
 * What these functions need of one context and one file. Best it is a local variable of the
 * function that loops: then the compiler can keep it in registers. Only the context's thread
 * may use it, and only until the context or the file is closed. It may be copied, and any
 * number may exist. A forked child may use it as it may use the context.
 */
struct lodic_inline {
	struct lodic_context *context;
	struct lodic_file *file;
	/* The library's. */
	const struct lodic_inline_seat *seat;
	const struct lodic_inline_claim *tied;
	struct lodic_inline_claim claim;
	struct lodic_inline_core core;
};

/* The context's seat. One of another layout is none: it leads to a generation of 0. */
LODIC_INLINE_FN const struct lodic_inline_seat *
lodic_inline_seat(const struct lodic_context *context)
{
	return ((const struct lodic_inline_context *)(const void *)context)
	        ->seats[LODIC_INLINE_LAYOUT];
}

/* Fills *in. Call it once; afterwards the functions below do it where it is needed. */
LODIC_INLINE_FN void lodic_inline_init(struct lodic_inline *in,
                                       struct lodic_context *context,
                                       struct lodic_file *file)
{
	in->context = context;
	in->file = file;
	in->seat = lodic_inline_seat(context);
	/* Acquire, partner: the library's release of a new claim. */
	in->tied = __atomic_load_n(
		&((const struct lodic_inline_file *)(const void *)file)->claim,
		__ATOMIC_ACQUIRE);
	/* Of another layout this is rubbish. But then the seat's generation is 0, and no
	 * claim's is. The words may change meanwhile; CL1 says why in this order. */
	in->claim.generation = in->tied->generation;
	in->claim.first = __atomic_load_n(&in->tied->first, __ATOMIC_ACQUIRE);
	in->claim.size = __atomic_load_n(&in->tied->size, __ATOMIC_ACQUIRE);
	in->claim.live = __atomic_load_n(&in->tied->live, __ATOMIC_RELAXED);
	in->claim.id = (uint32_t)(in->claim.first >> 32);
	in->core = in->seat->core;
}

/* Is in still right, for n bytes from offset on? The context has its seat, and a fork has
 * not wiped it. A file that was claimed anew is not noticed here: the old claim does not
 * vouch. A negative offset is a huge one. The sum of -1 and 1 is in the file, but the block
 * of -1 is one that no file has. */
LODIC_INLINE_FN int lodic_inline_ready(const struct lodic_inline *in, int pins,
                                       off_t offset, size_t n)
{
	return LODIC_INLINE_LIKELY(lodic_inline_seat(in->context) == in->seat) &&
	       LODIC_INLINE_LIKELY(
		       (pins ? in->seat->pin_generation : in->seat->generation) ==
		       in->claim.generation) &&
	       LODIC_INLINE_LIKELY((uint64_t)offset + n <= in->claim.size);
}

LODIC_INLINE_FN uint64_t lodic_inline_block(const struct lodic_inline *in, off_t offset)
{
	return in->claim.first + ((uint64_t)offset >> LODIC_INLINE_SHIFT);
}

LODIC_INLINE_FN uint32_t lodic_inline_within(off_t offset)
{
	return (uint32_t)offset % LODIC_INLINE_BLOCK;
}

/* Bytes from offset to the end of its block, or of the file. */
LODIC_INLINE_FN size_t lodic_inline_left(const struct lodic_inline *in, off_t offset)
{
	uint64_t in_block = LODIC_INLINE_BLOCK - lodic_inline_within(offset);
	uint64_t in_file = in->claim.size - (uint64_t)offset;

	return in_file < in_block ? in_file : in_block;
}

/* lodic_read() */
LODIC_INLINE_FN ssize_t lodic_read_inline(struct lodic_inline *in, void *buffer,
                                          size_t n, off_t offset)
{
	ssize_t got;

	/* The first line: all of it in one block, and not 0 bytes. */
	if (LODIC_INLINE_LIKELY(n - 1 <= lodic_inline_within(~offset)) &&
	    lodic_inline_ready(in, 0, offset, n) &&
	    LODIC_INLINE_LIKELY(lodic_inline_copy(
		    &in->core, &in->claim, lodic_inline_block(in, offset),
		    lodic_inline_within(offset), buffer, n))) {
		lodic_inline_bump(&in->core, LODIC_INLINE_HITS);
		return (ssize_t)n;
	}
	got = lodic_read(in->context, in->file, buffer, n, offset);
	lodic_inline_init(in, in->context, in->file);
	return got;
}

/* lodic_pin() */
LODIC_INLINE_FN int lodic_pin_inline(struct lodic_inline *in, off_t offset,
                                     struct lodic_pin *ret_pin)
{
	uint64_t *entry;
	uint32_t frame;
	int err;

	if (lodic_inline_ready(in, 1, offset, 1) &&
	    LODIC_INLINE_LIKELY(lodic_inline_pin(&in->core, &in->claim,
	                                         lodic_inline_block(in, offset), &frame,
	                                         &entry))) {
		lodic_inline_bump(&in->core, LODIC_INLINE_HITS);
		ret_pin->data = in->core.data +
		                ((uint64_t)frame << LODIC_INLINE_SHIFT) +
		                lodic_inline_within(offset);
		ret_pin->bytes = lodic_inline_left(in, offset);
		ret_pin->word = entry;
		return 0;
	}
	err = lodic_pin(in->context, in->file, offset, ret_pin);
	lodic_inline_init(in, in->context, in->file);
	return err;
}

/* lodic_unpin() */
LODIC_INLINE_FN void lodic_unpin_inline(struct lodic_inline *in, struct lodic_pin *pin)
{
	/* If the context has moved to another service, the pin is of an earlier seat. */
	if (LODIC_INLINE_LIKELY(lodic_inline_seat(in->context) == in->seat) &&
	    LODIC_INLINE_LIKELY(in->seat->pin_generation != 0) &&
	    LODIC_INLINE_LIKELY(
		    !((const struct lodic_inline_context *)(const void *)in->context)
			     ->retired) &&
	    LODIC_INLINE_LIKELY(pin->word != NULL)) {
		lodic_inline_uncount(&in->core, pin->word);
		pin->word = NULL;
		return;
	}
	lodic_unpin(in->context, pin);
}

/* lodic_view_begin() */
LODIC_INLINE_FN int lodic_view_begin_inline(struct lodic_inline *in, off_t offset,
                                            struct lodic_view *ret_view)
{
	struct lodic_view slow; /* so that *ret_view can stay in registers */
	const struct lodic_inline_frame *f;
	const unsigned char *bytes;
	uint64_t seq;
	int err;

	if (lodic_inline_ready(in, 0, offset, 1) &&
	    lodic_inline_begin(&in->core, lodic_inline_block(in, offset), &f, &bytes,
	                       &seq)) {
		lodic_inline_bump(&in->core, LODIC_INLINE_HITS);
		ret_view->data = bytes + lodic_inline_within(offset);
		ret_view->bytes = lodic_inline_left(in, offset);
		ret_view->claim = in->tied;
		ret_view->frame = f;
		ret_view->seq = seq;
		return 0;
	}
	err = lodic_view_begin(in->context, in->file, offset, &slow);
	if (!err)
		*ret_view = slow;
	lodic_inline_init(in, in->context, in->file);
	return err;
}

/* lodic_view_valid() */
LODIC_INLINE_FN int lodic_view_valid_inline(struct lodic_inline *in,
                                            const struct lodic_view *view)
{
	const struct lodic_inline_frame *f =
		(const struct lodic_inline_frame *)view->frame;
	struct lodic_inline_claim claim;
	struct lodic_view slow;

	/* Of this claim, and the memory of another seat may be gone. */
	if (!LODIC_INLINE_LIKELY(view->claim == in->tied) ||
	    !lodic_inline_ready(in, 0, 0, 0)) {
		slow = *view;
		return lodic_view_valid(in->context, &slow);
	}
	claim.live = in->claim.live;
	claim.id = (uint32_t)(LODIC_INLINE_LOAD(&f->block) >> 32); /* CL3: before seq */
	return lodic_inline_holds(&in->core, &claim, f, view->seq);
}

#ifdef __cplusplus
}
#endif

#endif
