/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The end of the interpreter, while a library's own threads still have objects of this module.
 *
 * pyarrow reads on threads of its own. It hands the result to Python first, and its thread lets
 * go of files and buffers afterwards. For that the thread takes the interpreter's lock. If the
 * program ends just then, CPython before 3.14 ends the thread in that very call, by
 * pthread_exit(). A C++ destructor cannot be left so: the process aborts ("terminate called
 * without an active exception"). A close here makes that likely, because it asks the service, and
 * meanwhile the main thread has the lock.
 *
 *   pyarrow's thread                          main thread
 *   the result is there  ------------------>  goes on, and the program ends
 *   ~File: takes the lock, close()
 *     gives the lock back, asks the service
 *                                             takes the lock, begins to finalize
 *     wants the lock again: pthread_exit()
 *   abort
 *
 * So the main thread waits before the interpreter begins to end, if other threads have called
 * here. PX1: it does not hold the interpreter's lock, so that no thread sleeps because it wants
 * that. PX2: no thread is inside a call of this module, and all are asleep. A thread that is asleep
 * then has let go of all that it will let go of, or waits for something outside of the process.
 * The wait has a bound. It is silent: a thread that computes for ever is no fault.
 */
#ifndef LODIC_PYTHON_SETTLE_H
#define LODIC_PYTHON_SETTLE_H

/* Once, before the others; 0 or a negative errno. */
int settle_begin(void);
/* Around a call without the interpreter's lock. The caller holds it at both. */
void settle_enter(void);
void settle_leave(void);
/* Waits, without the interpreter's lock, until the others have let go of what they had. */
void settle_wait(void);

#endif
