/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What lodic/inline.h needs of a host, by the checker: each access is a step. */
#ifndef LODIC_CHECK_INLINE_HOST_H
#define LODIC_CHECK_INLINE_HOST_H

#include "core/cache/arena.h"

#define LODIC_INLINE_SHIFT BLOCK_SHIFT
#define LODIC_INLINE_COUNTERS_AT offsetof(struct context_memory, counters)
#define LODIC_INLINE_LOAD host_load_relaxed
#define LODIC_INLINE_LOAD_ACQUIRE host_load_acquire
#define LODIC_INLINE_STORE host_store_relaxed
#define LODIC_INLINE_STORE_RELEASE host_store_release
#define LODIC_INLINE_LOAD_BYTE host_load_byte
#define LODIC_INLINE_STORE_BYTE host_store_byte
#define LODIC_INLINE_XCHG host_xchg
#define LODIC_INLINE_FENCE_ACQUIRE host_fence_acquire
#define LODIC_INLINE_FENCE_LIGHT host_fence_light
#define LODIC_INLINE_COPY host_copy

#endif
