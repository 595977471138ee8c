/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See seats.h. */
#include "python/seats.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct seat {
	struct lodic_context *context;
	struct seats *of_attachment;
	struct seat **of_thread;         /* where the thread's list begins */
	struct seat *next, *next_thread; /* in the two lists */
};

/* Guards both kinds of lists. No call of liblodic or Python is made under it. */
static pthread_mutex_t seats_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t seats_key; /* leads to where a thread's list begins */

static void seats_lock_all(void)
{
	pthread_mutex_lock(&seats_lock);
}

static void seats_unlock_all(void)
{
	pthread_mutex_unlock(&seats_lock);
}

/* Takes a seat out of its attachment's list. The lock is held. */
static void seat_leave_attachment(struct seat *seat)
{
	struct seat **at = &seat->of_attachment->first;

	while (*at != seat)
		at = &(*at)->next;
	*at = seat->next;
}

static void seat_leave_thread(struct seat *seat)
{
	struct seat **at = seat->of_thread;

	while (*at != seat)
		at = &(*at)->next_thread;
	*at = seat->next_thread;
}

/* A thread ends. */
static void seats_thread_ends(void *arg)
{
	struct seat **first = arg, *seat, *next;

	seats_lock_all();
	for (seat = *first; seat; seat = seat->next_thread)
		seat_leave_attachment(seat);
	seat = *first;
	seats_unlock_all();
	for (; seat; seat = next) {
		next = seat->next_thread;
		lodic_context_close(seat->context);
		free(seat);
	}
	free(first);
}

int seats_begin(void)
{
	int err = pthread_key_create(&seats_key, seats_thread_ends);

	/* A child must not find the lock taken by a thread that it does not have. */
	return -(err ? err
	             : pthread_atfork(seats_lock_all, seats_unlock_all,
	                              seats_unlock_all));
}

/* Where this thread's list begins. NULL: there is no memory. */
static struct seat **seats_here(void)
{
	struct seat **first = pthread_getspecific(seats_key);

	if (first)
		return first;
	first = calloc(1, sizeof(struct seat *));
	if (first && pthread_setspecific(seats_key, first)) {
		free(first);
		first = NULL;
	}
	return first;
}

int seats_context(struct seats *seats, struct lodic *lodic,
                  struct lodic_context **ret_context)
{
	struct seat **first = seats_here(), *seat;
	int err;

	if (!first)
		return -ENOMEM;
	seats_lock_all();
	for (seat = *first; seat && seat->of_attachment != seats;)
		seat = seat->next_thread;
	seats_unlock_all();
	if (seat) {
		*ret_context = seat->context;
		return 0;
	}
	seat = calloc(1, sizeof(*seat));
	if (!seat)
		return -ENOMEM;
	err = lodic_context_open(lodic, &seat->context);
	if (err) {
		free(seat);
		return err;
	}
	seat->of_attachment = seats;
	seat->of_thread = first;
	seats_lock_all();
	seat->next = seats->first;
	seats->first = seat;
	seat->next_thread = *first;
	*first = seat;
	seats_unlock_all();
	*ret_context = seat->context;
	return 0;
}

void seats_end(struct seats *seats)
{
	struct seat *seat, *next;

	seats_lock_all();
	for (seat = seats->first; seat; seat = seat->next)
		seat_leave_thread(seat);
	seat = seats->first;
	seats->first = NULL;
	seats_unlock_all();
	for (; seat; seat = next) {
		next = seat->next;
		lodic_context_close(seat->context);
		free(seat);
	}
}
