/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A block moves from one frame, the source, to another one, the target, while readers go on.
 * Tiers of memory are ranges of frames of one arena (ADR-0031), so a move is all that
 * promotion and demotion need. Readers know nothing of it.
 *
 *   source   CACHED --hide--> hidden --heavy fence--> walked ---------------------> FREE
 *                               |                        | nobody has it pinned      ^
 *   target   FREE --------------+------------------------+--> FILLING --> CACHED     |
 *   word     leads to the source ----------------------------------------> target ---+
 *
 * Up to the walk a move is an eviction (core/cache/batch.h). It refuses the same frames, for the
 * same reasons. One fence serves a whole batch. A rescue ends the move before it has begun, and so
 * does another batch that hides the frame.
 *
 * Rules
 * MV1 the source is hidden, the heavy fence passes, and a walk has seen no pin on it (K1). Only
 *     then the translation leads elsewhere. Otherwise a reader could keep a pin on a frame that
 *     is nobody's, or two readers could have pinned two frames of one block.
 * MV2 the target is FREE, and is filled as by a read: seq odd, bytes, name, even seq (F1 to F4).
 *     The source's bytes stand still meanwhile, because nobody refills a CACHED frame.
 * MV3 the translation's word goes from source to target by one store. It leaves the bit of its
 *     bucket as it was (T3). Before it, readers find the source, and after it the target.
 * MV4 the source is cleared after that. What was copied or viewed there before counts, if it was
 *     whole before its seq grew. So it has the bytes that the target has.
 * MV5 the move does not ask for the file's proof. A read from the file may bring a later writer's
 *     byte (O20), but a copy of a CACHED frame brings none. Each reader asks by itself (O22).
 *     A block whose file was revoked may move, and nobody believes it in either frame.
 * MV6 eviction knows the block by its new frame at once, at the same place of its queue, with
 *     the same visits (reclaim_move()).
 * Order
 * O50 the word that leads to the target, then the source's odd seq. Shape MP. A reader that has
 *     come by the old word, and finds the source's seq changed, finds the target when it looks
 *     again. Without that it would only miss, and ask the kernel.
 *
 * A reader may be killed at any of its steps: it has written its own entry alone (K3). The
 * service may be killed at any of its own: the mark of its arena says so, and nobody believes
 * either frame. A successor reads frames by their names, and takes a block that stands in
 * two of them once.
 *
 * Mutual exclusion: as for batch.h. The one thread of the service makes all calls.
 */
#ifndef LODIC_CORE_CACHE_MOVE_H
#define LODIC_CORE_CACHE_MOVE_H

#include "core/cache/batch.h"

/* What a move touches besides the walk: two blocks, and the words of two frames. */
#define MOVE_LINES (2u * (u32)(BLOCK_BYTES / 64) + BATCH_TAKE_LINES)

/* batch_next(), but a frame that nobody has moves to target, which is FREE. BATCH_TAKEN: it has
 * moved, and the source is FREE. Otherwise the target is as it was. */
enum batch_end move_next(struct arena *a, struct batch *b, u32 target, u32 *ret_frame);

/* For atomic and frozen, whose words can be frozen at once: moves the block in source. false: a
 * reader has it pinned, and nothing has changed. */
bool move_word(struct arena *a, u32 source, u32 target);

#endif
