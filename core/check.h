/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* CHECK asserts a rule in every build, DCHECK in debug builds only. */
#ifndef LODIC_CORE_CHECK_H
#define LODIC_CORE_CHECK_H

#include "host/host.h"

#define CHECK(rule, name) \
	do { \
		if (__builtin_expect(!(rule), 0)) \
			host_fail(name ": " #rule, __FILE__, __LINE__); \
	} while (0)

#ifdef LODIC_DEBUG
#define DCHECK(rule, name) CHECK(rule, name)
#else
#define DCHECK(rule, name) ((void)0)
#endif

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#endif
