/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * host.h: the only door between core/ and the machine.
 *
 * core/ is one C source for several hosts: threads and processes on this machine
 * (host/posix), later a model checker, a timing model and the Linux kernel. A host is
 * a folder with a file host_impl.h, put first on the include path; it supplies the
 * types and the functions below, as inline functions where speed asks for it.
 *
 * Words. Everything shared between CPUs or processes is an aligned u64, or a lone byte
 * where u64 would cost too much memory, and is touched only through these functions, so that a checker can make each call a scheduling
 * point and a timing model can charge it. Shared memory holds numbers and offsets,
 * never pointers: every process maps it at an address of its own.
 *
 * Order. The name says it: relaxed, acquire, release, full. The read-modify-write
 * operations (cas, fetch_add, xchg) are full fences on both sides, as Linux's are;
 * a failed cas orders nothing. Code in core/ argues each order where it stands.
 */
#ifndef LODIC_HOST_HOST_H
#define LODIC_HOST_HOST_H

#include <host_impl.h>

/* Types: u8 u16 u32 u64 bool, and NULL, come from host_impl.h. */

/* Loads and stores of one shared word; p is aligned to 8 bytes and not null. */
static inline u64 host_load_relaxed(const u64 *p);
/* A load whose address depends on an earlier load (a pointer chase). Relaxed in
 * order; it has a name of its own because a timing model must charge its latency. */
static inline u64 host_load_dep(const u64 *p);
static inline u64 host_load_acquire(const u64 *p);
static inline void host_store_relaxed(u64 *p, u64 v);
static inline void host_store_release(u64 *p, u64 v);

/* One byte, relaxed: for hints that may be lost, never for protocols. */
static inline u8 host_load_byte(const u8 *p);
static inline void host_store_byte(u8 *p, u8 v);

/* Read-modify-write, each a full fence when it writes. */
static inline bool host_cas(u64 *p, u64 old, u64 new_value);
static inline u64 host_fetch_add(u64 *p, u64 delta); /* returns the value before */
static inline u64 host_xchg(u64 *p, u64 v);

/* Fences. A caller of light pairs with a caller of heavy in the same process: heavy makes
 * every other thread behave as if light had been a full fence. */
static inline void host_fence_acquire(void);
static inline void host_fence_release(void);
static inline void host_fence_full(void);
static inline void host_fence_light(void);
void host_fence_heavy(void);

/* Where am I: 0 <= host_cpu() < host_nr_cpus(). The answer may be old at once. */
u32 host_cpu(void);
u32 host_nr_cpus(void);

/* One update of a word of this CPU's, done in one commit: p points to an array of
 * words, one per CPU, stride_words apart. Returns the CPU whose word was changed. */
u32 host_percpu_add(u64 *p, u32 stride_words, u64 delta);

/* The same for a compare-and-swap, on the word of CPU cpu: true when the caller runs on
 * cpu, the word holds old, and it now holds new_value. false: one of these is not so; look
 * again. Only that CPU changes the word, by these two functions; others load it. Orders
 * nothing; cheaper than host_cas(). Between two tasks of a CPU lies a switch, which is a
 * full fence. */
bool host_percpu_cas(u64 *p, u32 cpu, u64 old, u64 new_value);

/* A lock in one word, 0 when free. Callers hold it for bounded work only. */
void host_lock(u64 *lock);
void host_unlock(u64 *lock);

/* Must be called in every loop that waits for somebody else. */
static inline void host_relax(void);

/* Copies n bytes. May be interrupted at any byte, and the source may change under
 * it: the caller must find out afterwards and throw the copy away. */
static inline void host_copy(void *to, const void *from, size_t n);

/* Zeroed memory, align a power of two; NULL when there is none. Not in fast paths. */
void *host_alloc(size_t n, size_t align);
void host_free(void *p, size_t n);

/* A monotonic clock. */
u64 host_now_ns(void);

/* A pseudo-random number below n (n > 0) from the host's seed. */
u32 host_choose(u32 n);

/* Never returns. what names the broken rule. */
_Noreturn void host_fail(const char *what, const char *file, u32 line);

#endif
