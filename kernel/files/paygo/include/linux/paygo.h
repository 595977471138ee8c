/* SPDX-License-Identifier: GPL-2.0 */
/*
 * References of readers in tables of their CPUs, for code that waits until a folio has
 * no more references than it expects. See Documentation/mm/paygo.rst.
 */
#ifndef _LINUX_PAYGO_H
#define _LINUX_PAYGO_H

#include <linux/jump_label.h>
#include <linux/types.h>

#ifdef CONFIG_PAYGO
DECLARE_STATIC_KEY_FALSE(paygo_tables_used);

void __paygo_drain_cpu(void);
bool __paygo_needs_drain(unsigned int cpu);
bool __paygo_drain_all(void);
bool __paygo_disable(void);
void __paygo_enable(void);

/* Folds all entries of this CPU's table. May sleep. */
static inline void paygo_drain_cpu(void)
{
	if (static_branch_unlikely(&paygo_tables_used))
		__paygo_drain_cpu();
}

/* Has the table of @cpu entries that paygo_drain_cpu() would fold there? */
static inline bool paygo_needs_drain(unsigned int cpu)
{
	return static_branch_unlikely(&paygo_tables_used) && __paygo_needs_drain(cpu);
}

/*
 * Folds the entries of all CPUs, as lru_add_drain_all(). Readers may make new ones at
 * once. Returns whether there were any. May sleep.
 */
static inline bool paygo_drain_all(void)
{
	return static_branch_unlikely(&paygo_tables_used) && __paygo_drain_all();
}

/*
 * Folds the entries of all CPUs. None can be made until paygo_enable(). Returns what to
 * give to that. May sleep.
 */
static inline bool paygo_disable(void)
{
	return static_branch_unlikely(&paygo_tables_used) && __paygo_disable();
}

static inline void paygo_enable(bool disabled)
{
	if (disabled)
		__paygo_enable();
}
#else
static inline void paygo_drain_cpu(void)
{
}

static inline bool paygo_needs_drain(unsigned int cpu)
{
	return false;
}

static inline bool paygo_drain_all(void)
{
	return false;
}

static inline bool paygo_disable(void)
{
	return false;
}

static inline void paygo_enable(bool disabled)
{
}
#endif

#endif /* _LINUX_PAYGO_H */
