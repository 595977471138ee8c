/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The system calls of user-counts.patch, and what its debugging file says. */
#ifndef LODIC_KERNEL_EXTRA_USER_COUNTS_CALLS_H
#define LODIC_KERNEL_EXTRA_USER_COUNTS_CALLS_H

#include "base.h"

#include <pthread.h>

#define NR_USER_REF 548
#define NR_USER_UNREF 549
#define NR_USER_READALL 550

/* As the patch has them. */
#define MOST_OBJECTS 64
#define MOST_REFS 65535
#define CPU_ENTRIES 2048

#define SYSCTL_THREADS "/proc/sys/user/max_counting_threads"
#define DEBUG_FILE "/sys/kernel/debug/user_counts"

/* 0, or -errno. */
static inline long user_ref(const volatile void *object)
{
	return syscall(NR_USER_REF, object, 0) ? -errno : 0;
}

static inline long user_unref(const volatile void *object)
{
	return syscall(NR_USER_UNREF, object, 0) ? -errno : 0;
}

/* The references of all threads of this memory, or -errno. */
static inline long user_readall(const volatile void *object)
{
	long nr = syscall(NR_USER_READALL, object, 0);

	return nr < 0 ? -errno : nr;
}

/* Of all processes: what is out now, and what has been since the boot. */
struct debug {
	long held, in_spills, threads; /* now */
	long away, spilled;            /* since the boot */
};

struct debug debug_read(void);

#define OBJECT_BYTES (64 * MOST_OBJECTS)

/* Names of objects; nobody looks at the bytes. */
extern u8 objects[OBJECT_BYTES];

void expect(const char *what, long got, long want);

/* Runs the calling thread on that CPU, also if it was kept on another one. */
void on_cpu(u32 cpu);

pthread_t start(void *(*run)(void *), void *arg);

/* Waits for a child, which ends with status 0 if all was as expected. */
void child_done(const char *what, pid_t pid);

/* The word that makes this program the one that runs after an exec, and its main(). */
#define AFTER_EXEC "after-exec"
int after_exec(const char *object);

/* leave.c */
void case_fork(void);
void case_vfork(void);
void case_exec(void);
void case_thread_ends(void);

/* ends.c */
void case_ends(void);

#endif
