/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port.h. Threads: locks, cancellation, and a word of each thread. */
#define _GNU_SOURCE
#include "lib/port.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "host/host.h"

#define NS_PER_S UINT64_C(1000000000)

_Static_assert(sizeof(pthread_mutex_t) <= sizeof(struct port_lock) &&
                       _Alignof(pthread_mutex_t) <= _Alignof(struct port_lock),
               "a lock has room");
_Static_assert(sizeof(pthread_key_t) == 4, "a key has room");

static pthread_mutex_t *thread_mutex(struct port_lock *lock)
{
	return (pthread_mutex_t *)lock;
}

void port_lock_init(struct port_lock *lock)
{
	pthread_mutex_init(thread_mutex(lock), NULL);
}

void port_lock_end(struct port_lock *lock)
{
	pthread_mutex_destroy(thread_mutex(lock));
}

void port_lock_take(struct port_lock *lock)
{
	pthread_mutex_lock(thread_mutex(lock));
}

bool port_lock_try(struct port_lock *lock)
{
	return pthread_mutex_trylock(thread_mutex(lock)) == 0;
}

void port_lock_give(struct port_lock *lock)
{
	pthread_mutex_unlock(thread_mutex(lock));
}

int port_cancel_off(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

void port_cancel_as(int before)
{
	pthread_setcancelstate(before, NULL);
}

void port_cancellable(int as, void (*work)(void *arg), void (*cancelled)(void *arg),
                      void *arg)
{
	int before;

	pthread_cleanup_push(cancelled, arg);
	pthread_setcancelstate(as, &before);
	work(arg);
	pthread_setcancelstate(before, NULL);
	pthread_cleanup_pop(0);
}

/* Of two threads that make the key at once, one gives its own back. */
static bool thread_key_make(struct port_word *word)
{
	pthread_key_t key;

	if (pthread_key_create(&key, word->end) != 0)
		return false;
	if (!host_cas(&word->made, 0, (u64)key + 1))
		pthread_key_delete(key);
	return true;
}

void *port_word_get(struct port_word *word)
{
	u64 made = host_load_acquire(&word->made); /* partner: thread_key_make() */

	return made ? pthread_getspecific((pthread_key_t)(made - 1)) : NULL;
}

bool port_word_make(struct port_word *word)
{
	return host_load_acquire(&word->made) || thread_key_make(word);
}

bool port_word_set(struct port_word *word, void *value)
{
	if (!port_word_make(word))
		return false;
	return pthread_setspecific((pthread_key_t)(host_load_acquire(&word->made) - 1),
	                           value) == 0;
}

uint64_t port_thread_cpu_ns(void)
{
	struct timespec t;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0)
		return 0;
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}
