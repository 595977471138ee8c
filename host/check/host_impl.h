/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The checker's inline half: each call of the contract (host/host.h) becomes a step of the
 * running task, which the engine may put off (host/check/engine.c).
 */
#ifndef LODIC_HOST_CHECK_HOST_IMPL_H
#define LODIC_HOST_CHECK_HOST_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

extern u32 check_mutant_now; /* the mutant of this run; 0: none (check/mutants/weave.py) */
/* How often core's loops try in this schedule: once or twice. So both what a loop does again and
 * what comes after it run. */
extern u32 check_tries_now;

enum step_kind {
	STEP_LOAD,
	STEP_STORE,
	STEP_CAS,
	STEP_ADD,
	STEP_XCHG,
	STEP_FENCE,
	STEP_HEAVY,
	STEP_LOAD_BYTE,
	STEP_STORE_BYTE,
	STEP_PERCPU_ADD,
	STEP_PERCPU_CAS,
	STEP_RELAX,
	STEP_COPY,
	STEP_DRAIN
};

/* What the access orders, under the memories where that matters (host/check/history.h). */
enum step_order { ORDER_RELAXED, ORDER_DEP, ORDER_ACQUIRE, ORDER_RELEASE };
enum step_fence { FENCE_ACQUIRE, FENCE_RELEASE, FENCE_LIGHT };

u64 check_step(enum step_kind kind, enum step_order order, const void *p, u64 a, u64 b);
/* A fence that is no scheduling point: it orders what its task does, and is seen by nobody. */
void check_fence(enum step_fence fence);
void check_copy(void *to, const void *from, size_t n);

static inline u64 host_load_relaxed(const u64 *p)
{
	return check_step(STEP_LOAD, ORDER_RELAXED, p, 0, 0);
}

static inline u64 host_load_dep(const u64 *p)
{
	return check_step(STEP_LOAD, ORDER_DEP, p, 0, 0);
}

static inline u64 host_load_acquire(const u64 *p)
{
	return check_step(STEP_LOAD, ORDER_ACQUIRE, p, 0, 0);
}

static inline void host_store_relaxed(u64 *p, u64 v)
{
	check_step(STEP_STORE, ORDER_RELAXED, p, v, 0);
}

static inline void host_store_release(u64 *p, u64 v)
{
	check_step(STEP_STORE, ORDER_RELEASE, p, v, 0);
}

static inline u8 host_load_byte(const u8 *p)
{
	return (u8)check_step(STEP_LOAD_BYTE, ORDER_RELAXED, p, 0, 0);
}

static inline void host_store_byte(u8 *p, u8 v)
{
	check_step(STEP_STORE_BYTE, ORDER_RELAXED, p, v, 0);
}

static inline bool host_cas(u64 *p, u64 old, u64 new_value)
{
	return check_step(STEP_CAS, ORDER_RELAXED, p, old, new_value);
}

static inline u64 host_fetch_add(u64 *p, u64 delta)
{
	return check_step(STEP_ADD, ORDER_RELAXED, p, delta, 0);
}

static inline u64 host_xchg(u64 *p, u64 v)
{
	return check_step(STEP_XCHG, ORDER_RELAXED, p, v, 0);
}

static inline void host_fence_acquire(void)
{
	check_fence(FENCE_ACQUIRE);
}

static inline void host_fence_release(void)
{
	check_fence(FENCE_RELEASE);
}

static inline void host_fence_light(void)
{
	check_fence(FENCE_LIGHT);
}

static inline void host_fence_full(void)
{
	check_step(STEP_FENCE, ORDER_RELAXED, NULL, 0, 0);
}

static inline void host_relax(void)
{
	check_step(STEP_RELAX, ORDER_RELAXED, NULL, 0, 0);
}

static inline void host_copy(void *to, const void *from, size_t n)
{
	check_copy(to, from, n);
}

#endif
