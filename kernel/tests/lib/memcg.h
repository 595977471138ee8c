/* SPDX-License-Identifier: GPL-2.0 */
/* A memory control group of the test's own, below the root of cgroup2. */
#ifndef LODIC_TESTS_MEMCG_H
#define LODIC_TESTS_MEMCG_H

#include "base.h"

/* Makes it. Returns false if this kernel has none. */
bool memcg_make(void);

/* The calling process goes into it. Returns 0 or -errno. */
int memcg_enter(void);

/* memory.max. Returns 0 or -errno. */
int memcg_limit(u64 bytes);

/* How often something has happened, as memory.events says; -1: it does not say. */
long long memcg_event(const char *name);

/* How much the group has of something, as memory.stat says; -1: it does not say. */
long long memcg_stat(const char *name);

/* Removes it when its last process has gone. */
void memcg_remove(void);

#endif
