/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The posix host's inline half: threads and processes on the machine itself, with the
 * compiler's atomics. GCC and Clang, 64-bit. The contract is in host/host.h.
 */
#ifndef LODIC_HOST_POSIX_HOST_IMPL_H
#define LODIC_HOST_POSIX_HOST_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#if defined(__SANITIZE_THREAD__)
#define HOST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HOST_TSAN 1
#endif
#endif

static inline u64 host_load_relaxed(const u64 *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static inline u64 host_load_dep(const u64 *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static inline u64 host_load_acquire(const u64 *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static inline void host_store_relaxed(u64 *p, u64 v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

static inline void host_store_release(u64 *p, u64 v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

static inline u8 host_load_byte(const u8 *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static inline void host_store_byte(u8 *p, u8 v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

static inline void host_fence_full(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* The contract promises a full fence. On x86-64 a locked instruction is one. C11 promises
 * less of a seq_cst operation, so other machines get the fences as well. */
static inline void host_rmw_fence(void)
{
#if !defined(__x86_64__)
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

static inline bool host_cas(u64 *p, u64 old, u64 new_value)
{
	bool done;

	host_rmw_fence();
	done = __atomic_compare_exchange_n(p, &old, new_value, false, __ATOMIC_SEQ_CST,
	                                   __ATOMIC_RELAXED);
	host_rmw_fence();
	return done;
}

static inline u64 host_fetch_add(u64 *p, u64 delta)
{
	u64 before;

	host_rmw_fence();
	before = __atomic_fetch_add(p, delta, __ATOMIC_SEQ_CST);
	host_rmw_fence();
	return before;
}

static inline u64 host_xchg(u64 *p, u64 v)
{
	u64 before;

	host_rmw_fence();
	before = __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);
	host_rmw_fence();
	return before;
}

static inline void host_fence_acquire(void)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
}

static inline void host_fence_release(void)
{
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

/* The heavy side is membarrier(2), so the light side only holds the compiler back. */
static inline void host_fence_light(void)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void host_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

/* Up to so many bytes are copied without a call. Callers that branch on it themselves then
 * have no registers to save on their short path. */
#define HOST_COPY_INLINE 64u

static inline void host_copy_piece(u8 *to, const u8 *from, size_t n, size_t piece)
{
	/* From both ends; in the middle the pieces overlap. */
	__builtin_memcpy(to, from, piece);
	__builtin_memcpy(to + n - piece, from + n - piece, piece);
}

static inline void host_copy_short(u8 *to, const u8 *from, size_t n)
{
	if (n >= 32) {
		host_copy_piece(to, from, n, 16);
		__builtin_memcpy(to + 16, from + 16, 16);
		__builtin_memcpy(to + n - 32, from + n - 32, 16);
	} else if (n >= 16) {
		host_copy_piece(to, from, n, 16);
	} else if (n >= 8) {
		host_copy_piece(to, from, n, 8);
	} else if (n >= 4) {
		host_copy_piece(to, from, n, 4);
	} else if (n > 0) {
		to[0] = from[0];
		to[n / 2] = from[n / 2];
		to[n - 1] = from[n - 1];
	}
}

static inline void host_copy(void *to, const void *from, size_t n)
{
#ifdef HOST_TSAN
	/* The caller wants this race and judges it afterwards: byte by byte, so that the
	 * race detector does not report it. */
	for (size_t i = 0; i < n; i++)
		__atomic_store_n((u8 *)to + i,
		                 __atomic_load_n((const u8 *)from + i,
		                                 __ATOMIC_RELAXED),
		                 __ATOMIC_RELAXED);
#else
	if (n <= HOST_COPY_INLINE)
		host_copy_short(to, from, n);
	else
		memcpy(to, from, n);
	/* The compiler must not move what follows before the copy, nor drop the copy. */
	__asm__ volatile("" : : "r"(to) : "memory");
#endif
}

#endif
