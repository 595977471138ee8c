/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A thread that must not wait. From waitless_begin() on the kernel stops each of its system
 * calls that could wait for another process, and the test fails with the call's name. It
 * lets pass pread(2), and calls that never wait. Whether a call may wait depends on its
 * flags too: recvmsg(2) must have MSG_DONTWAIT.
 */
#ifndef LODIC_TESTS_SUPPORT_WAITLESS_H
#define LODIC_TESTS_SUPPORT_WAITLESS_H

#include <stddef.h>

/* false: a sanitizer makes calls of its own in this build, so nothing can be watched. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WAITLESS_WATCHES 0
#else
#define WAITLESS_WATCHES 1
#endif

/* Before the threads: a futex in these bytes is one that no watched thread may wait for.
 * Others are the C library's own (malloc), whose holders never wait. */
void waitless_prepare(const void *locks, size_t bytes);
/* The calling thread is watched, until it ends. */
void waitless_begin(void);

#endif
