/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What tests of holds share: a hold that must be there, its bytes, and what a process has. */
#ifndef LODIC_TESTS_SUPPORT_HELD_H
#define LODIC_TESTS_SUPPORT_HELD_H

#include "tests/support/cache_fixture.h"

/* A hold that is ready; the test fails without it. */
struct lodic_hold *held_range(struct test_bed *b, u64 offset, u64 n);
/* Has the hold these n bytes of the file's version, from offset on? */
bool held_has(const struct lodic_hold *hold, u64 file, u64 version, u64 offset, u64 n);
/* Does fd lead to n bytes of pattern 1.1 from offset on, at its byte at? Nobody may be able to
 * change them. */
bool held_descriptor_is_right(int fd, off_t at, u64 offset, u64 n);

/* Of this process. name: only what /proc calls so; NULL: all. */
u32 held_nr_descriptors(void);
u32 held_nr_mappings(const char *name);

/* Does a thread of this process sleep? 0: it has not begun. */
bool held_thread_sleeps(u64 thread_id);

#endif
