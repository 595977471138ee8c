/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The simulated machine's inline half of host.h: each access may be the last of a turn
 * (machine.h). Memory is sequentially consistent: fibers of one thread share it.
 */
#ifndef LODIC_HOST_WHOLE_HOST_IMPL_H
#define LODIC_HOST_WHOLE_HOST_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

void machine_step(void);
void machine_relax(void);

static inline u64 host_load_relaxed(const u64 *p)
{
	machine_step();
	return *(const volatile u64 *)p;
}

static inline u64 host_load_dep(const u64 *p)
{
	return host_load_relaxed(p);
}

static inline u64 host_load_acquire(const u64 *p)
{
	return host_load_relaxed(p);
}

static inline void host_store_relaxed(u64 *p, u64 v)
{
	machine_step();
	*(volatile u64 *)p = v;
}

static inline void host_store_release(u64 *p, u64 v)
{
	host_store_relaxed(p, v);
}

static inline u8 host_load_byte(const u8 *p)
{
	machine_step();
	return *(const volatile u8 *)p;
}

static inline void host_store_byte(u8 *p, u8 v)
{
	machine_step();
	*(volatile u8 *)p = v;
}

static inline bool host_cas(u64 *p, u64 old, u64 new_value)
{
	machine_step();
	if (*(volatile u64 *)p != old)
		return false;
	*(volatile u64 *)p = new_value;
	return true;
}

static inline u64 host_fetch_add(u64 *p, u64 delta)
{
	u64 before;

	machine_step();
	before = *(volatile u64 *)p;
	*(volatile u64 *)p = before + delta;
	return before;
}

static inline u64 host_xchg(u64 *p, u64 v)
{
	u64 before;

	machine_step();
	before = *(volatile u64 *)p;
	*(volatile u64 *)p = v;
	return before;
}

/* The compiler must not move an access to the other side. */
static inline void host_fence_acquire(void)
{
	__asm__ volatile("" : : : "memory");
}

static inline void host_fence_release(void)
{
	host_fence_acquire();
}

static inline void host_fence_light(void)
{
	host_fence_acquire();
}

static inline void host_fence_full(void)
{
	host_fence_acquire();
	machine_step();
}

static inline void host_relax(void)
{
	machine_relax();
}

#define HOST_COPY_INLINE 64u

/* In two halves, so that the source may change in the middle. */
static inline void host_copy(void *to, const void *from, size_t n)
{
	size_t half = n / 2 & ~(size_t)7;

	machine_step();
	memcpy(to, from, half);
	machine_step();
	memcpy((u8 *)to + half, (const u8 *)from + half, n - half);
	machine_step();
}

#endif
