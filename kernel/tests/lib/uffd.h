/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Write protection by userfaultfd, of a mapping of shared memory. It changes entries that
 * stay present. hold.c uses it with WP_ASYNC, where the kernel itself lets a write through;
 * the race uffd-wp uses it too.
 */
#ifndef LODIC_TESTS_UFFD_H
#define LODIC_TESTS_UFFD_H

#include "base.h"

#include <linux/userfaultfd.h>

/* Linux 6.7: a write to a protected page is not reported, it only ends its protection. */
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif

/*
 * Returns a descriptor for protecting [at, at + bytes), or -1 with errno. With at NULL it
 * only shows whether this kernel can.
 */
int uffd_open(char *at, size_t bytes, u64 features);

/* Protects the range, or ends its protection. Returns 0, or -1 with errno. */
int uffd_protect(int fd, char *at, size_t bytes, bool on);

#endif
