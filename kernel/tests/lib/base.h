/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Types, sizes and system headers that every file of the tests uses. The programs are linked
 * statically and run as root in the guest. With -d DIR most of them also run on another
 * kernel, with or without LODIC. Copy tests/alarms beside the program for that.
 */
#ifndef LODIC_TESTS_BASE_H
#define LODIC_TESTS_BASE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t u64;
typedef uint32_t u32;
typedef uint8_t u8;

#define PAGE 4096ul
#define PMD_BYTES (2ul << 20)
#define NR(a) (sizeof(a) / sizeof((a)[0]))

/* Some of these are newer than the libc that the programs are linked with. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_HWPOISON
#define MADV_HWPOISON 100
#endif
#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE 101
#endif

#endif
