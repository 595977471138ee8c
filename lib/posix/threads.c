/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port/thread.h. */
#define _GNU_SOURCE
#include "lib/port/thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)

_Static_assert(sizeof(pthread_t) <= sizeof(struct port_thread), "a thread has room");
_Static_assert(sizeof(pthread_once_t) <= sizeof(struct port_once) &&
                       PTHREAD_ONCE_INIT == 0,
               "a once has room, and is zero");
_Static_assert(sizeof(pthread_cond_t) <= sizeof(struct port_condition) &&
                       _Alignof(pthread_cond_t) <= _Alignof(struct port_condition),
               "a condition has room");

/* What a thread calls: pthread_create() wants a function that returns something. */
struct threads_call {
	void (*run)(void *arg);
	void *arg;
};

static pthread_cond_t *threads_condition(struct port_condition *condition)
{
	return (pthread_cond_t *)condition;
}

static void *threads_run(void *arg)
{
	const struct threads_call call = *(struct threads_call *)arg;

	port_free(arg);
	call.run(call.arg);
	return NULL;
}

/* A new thread has the signal mask of the one that starts it. */
static int threads_start(pthread_t *ret_thread, const pthread_attr_t *attributes,
                         void (*run)(void *arg), void *arg)
{
	struct threads_call *call = port_alloc(sizeof(*call));
	sigset_t all, old;
	int err;

	if (!call)
		return -EAGAIN;
	*call = (struct threads_call){ run, arg };
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(ret_thread, attributes, threads_run, call);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		port_free(call);
	return -err;
}

int port_thread_start(struct port_thread *ret_thread, void (*run)(void *arg), void *arg)
{
	return threads_start((pthread_t *)ret_thread->words, NULL, run, arg);
}

void port_thread_join(struct port_thread *thread)
{
	pthread_join(*(pthread_t *)thread->words, NULL);
}

int port_thread_start_alone(void (*run)(void *arg), void *arg, size_t stack_bytes)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int err;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	if (stack_bytes > 0)
		pthread_attr_setstacksize(&attributes, stack_bytes);
	err = threads_start(&thread, &attributes, run, arg);
	pthread_attr_destroy(&attributes);
	return err;
}

int port_thread_number(void)
{
	return (int)syscall(SYS_gettid);
}

void port_once(struct port_once *once, void (*init)(void))
{
	pthread_once((pthread_once_t *)once, init);
}

/* By the clock of host_now_ns(). */
void port_condition_init(struct port_condition *condition)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(threads_condition(condition), &monotonic);
	pthread_condattr_destroy(&monotonic);
}

void port_condition_end(struct port_condition *condition)
{
	pthread_cond_destroy(threads_condition(condition));
}

void port_condition_wait(struct port_condition *condition, struct port_lock *lock)
{
	pthread_cond_wait(threads_condition(condition), (pthread_mutex_t *)lock);
}

bool port_condition_wait_until(struct port_condition *condition, struct port_lock *lock,
                               uint64_t until_ns)
{
	const struct timespec until = { .tv_sec = (time_t)(until_ns / NS_PER_S),
		                        .tv_nsec = (long)(until_ns % NS_PER_S) };

	return pthread_cond_timedwait(threads_condition(condition),
	                              (pthread_mutex_t *)lock, &until) == 0;
}

void port_condition_tell(struct port_condition *condition)
{
	pthread_cond_signal(threads_condition(condition));
}

void port_condition_tell_all(struct port_condition *condition)
{
	pthread_cond_broadcast(threads_condition(condition));
}
