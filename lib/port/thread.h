/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The door to the system (port.h): threads of this process's own, and what they wait for together.
 * Locks are in port.h. Only the service has such threads, and no signal handler calls these.
 */
#ifndef LODIC_LIB_PORT_THREAD_H
#define LODIC_LIB_PORT_THREAD_H

#include "lib/port.h"

struct port_thread {
	uint64_t words[1];
};
/* Starts a thread that calls run(arg), with all signals blocked, and is never cancelled. What the
 * caller has written before, the thread sees. -EAGAIN: no more threads are allowed, or there is no
 * memory for its stack. */
int port_thread_start(struct port_thread *ret_thread, void (*run)(void *arg),
                      void *arg);
/* Waits until run() has returned. The caller then sees what it wrote. Once for each thread. */
PORT_WAITS void port_thread_join(struct port_thread *thread);
/* The same thread as port_thread_start()'s, but nobody joins it: it ends by itself. Its stack has
 * stack_bytes; 0: as much as the system gives. -EAGAIN. */
int port_thread_start_alone(void (*run)(void *arg), void *arg, size_t stack_bytes);

/* The calling thread's number, above 0. No other thread or process has it while it lives. */
int port_thread_number(void);

struct port_once {
	uint64_t words[1]; /* zero: not yet */
};
/* Calls init() if nobody has done so by this once. Its effects are seen by all that return. Waits
 * for a thread that is in init(), which must not hang. */
void port_once(struct port_once *once, void (*init)(void));

/* Something that threads wait for under a lock. A wait may end though nobody has told: so the
 * caller looks again at what it waits for. */
struct port_condition {
	uint64_t words[6];
};
void port_condition_init(struct port_condition *condition);
/* Nobody waits for it any more. */
void port_condition_end(struct port_condition *condition);
/* Gives the lock, waits until it is told, and takes the lock again. */
PORT_WAITS void port_condition_wait(struct port_condition *condition,
                                    struct port_lock *lock);
/* The same, until host_now_ns() is until_ns at most. false: it is that late. */
PORT_WAITS bool port_condition_wait_until(struct port_condition *condition,
                                          struct port_lock *lock, uint64_t until_ns);
/* Wakes one thread that waits, if there is one; all of them. */
void port_condition_tell(struct port_condition *condition);
void port_condition_tell_all(struct port_condition *condition);

#endif
