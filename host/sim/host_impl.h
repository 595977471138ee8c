/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * host/host.h on the simulated machine. Each call first asks the timing model, which
 * charges it and lets it happen in its turn. Then the call does its work with plain
 * memory accesses. One thread runs everything, so nothing here needs an atomic
 * instruction.
 *
 * Outside of a simulated task, while a world is being set up, calls cost nothing.
 */
#ifndef LODIC_HOST_SIM_HOST_IMPL_H
#define LODIC_HOST_SIM_HOST_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

enum sim_access {
	SIM_LOAD,
	SIM_LOAD_DEP, /* the next address depends on it */
	SIM_STORE,
	SIM_RMW,
};

struct task;
extern struct task *engine_current; /* NULL outside of tasks; only engine.c writes it */

void sim_charge(const void *p, enum sim_access access);

/* When these return, the calling task's clock shows the moment at which the access
 * takes effect. No other task runs before the caller has made the access. */
static inline void sim_access(const void *p, enum sim_access access)
{
	if (engine_current)
		sim_charge(p, access);
}

void sim_copy(void *to, const void *from, size_t n);
void sim_fence(void);
void sim_relax(void);

static inline u64 host_load_relaxed(const u64 *p)
{
	sim_access(p, SIM_LOAD);
	return *p;
}

static inline u64 host_load_dep(const u64 *p)
{
	sim_access(p, SIM_LOAD_DEP);
	return *p;
}

static inline u64 host_load_acquire(const u64 *p)
{
	return host_load_relaxed(p);
}

static inline void host_store_relaxed(u64 *p, u64 v)
{
	sim_access(p, SIM_STORE);
	*p = v;
}

static inline void host_store_release(u64 *p, u64 v)
{
	host_store_relaxed(p, v);
}

static inline u8 host_load_byte(const u8 *p)
{
	sim_access(p, SIM_LOAD);
	return *p;
}

static inline void host_store_byte(u8 *p, u8 v)
{
	sim_access(p, SIM_STORE);
	*p = v;
}

/* A cas that fails has fetched the line for writing too. */
static inline bool host_cas(u64 *p, u64 old, u64 new_value)
{
	sim_access(p, SIM_RMW);
	if (*p != old)
		return false;
	*p = new_value;
	return true;
}

static inline u64 host_fetch_add(u64 *p, u64 delta)
{
	u64 before;

	sim_access(p, SIM_RMW);
	before = *p;
	*p = before + delta;
	return before;
}

static inline u64 host_xchg(u64 *p, u64 v)
{
	u64 before;

	sim_access(p, SIM_RMW);
	before = *p;
	*p = v;
	return before;
}

/* x86-64 orders these without a fence. */
static inline void host_fence_acquire(void)
{
}

static inline void host_fence_release(void)
{
}

static inline void host_fence_light(void)
{
}

static inline void host_fence_full(void)
{
	sim_fence();
}

static inline void host_relax(void)
{
	sim_relax();
}

/* The copy happens at one moment. The checker, not this model, looks for torn copies. */
static inline void host_copy(void *to, const void *from, size_t n)
{
	sim_copy(to, from, n);
	memcpy(to, from, n);
}

#endif
