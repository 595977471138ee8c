/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The program gives up rights, or takes others: the shim leaves the service, and attaches anew
 * where the program itself might. It may also start a service. Rules: run.h.
 *
 *   run_leaves()   before the call: the arena's memory is zeros, the channel is closed
 *   the call       meanwhile the shim connects to nobody
 *   run_left()     what the program may do now decides where the shim looks for a service
 *
 * What mmap() has given the program (--mmap) stays. Such a mapping is the program's own, as one of
 * the file is: it got it while it had the right.
 */
#define _GNU_SOURCE
#include "preload/run_leave.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/client/start.h"
#include "lib/port/guest.h"
#include "preload/own.h"
#include "preload/run_environment.h"
#include "preload/run_calls.h"
#include "preload/run_files.h"
#include "preload/run_place.h"
#include "preload/run_report.h"

#define NS_PER_S UINT64_C(1000000000)
/* The wait from one leaving to the next try to attach: none if the last one was long ago. Otherwise
 * each doubles the last. A program that changes its user to and fro all the time attaches once
 * in so long, and reads from the kernel between. Our choice. */
#define LEAVE_QUIET_NS (10 * NS_PER_S)
#define LEAVE_FIRST_NS UINT64_C(20000000)
#define LEAVE_LAST_NS (2 * NS_PER_S)
/* The same for services that an open() starts. */
#define START_FIRST_NS (2 * NS_PER_S)
#define START_LAST_NS (60 * NS_PER_S)
/* How long a change of user waits for the new user's service. Our choice: a start takes some 50 ms,
 * and a program drops its rights once. */
#define START_WAIT_MS 1000u
#define IDLE_EXIT_MS 60000u /* as that of `lodic run` */

_Static_assert(LEAVE_SOCKET_BYTES == LENT_SOCKET_BYTES,
               "one path fits where the other does");

static u64 number_of(const char *name, u64 otherwise)
{
	const char *text = port_variable(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

/* The socket of the user that the program runs as now. */
static void socket_choose(void)
{
	char path[LENT_SOCKET_BYTES];

	if (port_user() == shim.leave.first_user)
		strcpy(shim.leave.socket, shim.leave.first_socket);
	else if (shim.leave.by_default && lent_socket_of(port_user(), path))
		strcpy(shim.leave.socket, path);
}

/* From the program that this process becomes. A program may have moved its environment, and may use
 * the old place for something else. So this looks where the text is now. */
static void socket_hide(void)
{
	const char *told = port_variable(RUN_SOCKET);

	if (told && strcmp(told, shim.leave.first_socket) == 0)
		port_variable_empty(RUN_SOCKET);
}

void run_leave_start(const char *socket)
{
	const char *found = port_variable(RUN_PROGRAM);

	if (strlen(socket) < sizeof(shim.leave.first_socket))
		strcpy(shim.leave.first_socket, socket);
	if (found && strlen(found) < sizeof(shim.leave.program))
		strcpy(shim.leave.program, found);
	shim.leave.memory_bytes = number_of(RUN_MEMORY, 0);
	shim.leave.first_user = (u32)number_of(RUN_USER, port_user());
	shim.leave.trusted = (u32)number_of(RUN_TRUST, LENT_NO_USER);
	shim.leave.by_default = port_variable(RUN_DEFAULT) != NULL;
	if (*shim.leave.first_socket)
		socket_choose();
}

/* ---- leaving ---- */

void run_let_go(struct run_state *s)
{
	if (!s->lodic)
		return;
	run_places_return(s);
	lent_leave(s->lodic);
	for (struct run_reader *r = s->readers; r; r = r->made_before)
		lent_leave_context(r->context);
	for (u32 i = 0; i < RUN_FILES; i++)
		lent_leave_file(&s->files[i].lent);
}

/* How long the shim stays away. The lock is held. */
static u64 leave_pause(struct run_state *s, u64 now)
{
	u64 step = s->left_step_ns ? s->left_step_ns * 2 : LEAVE_FIRST_NS;

	if (!s->left_at_ns || now - s->left_at_ns > LEAVE_QUIET_NS)
		step = 0;
	else if (step > LEAVE_LAST_NS)
		step = LEAVE_LAST_NS;
	s->left_step_ns = step;
	s->left_at_ns = now;
	return step;
}

/* The lock, whatever the shim does just now. false: this process has no state of its own. */
static bool leave_lock(struct run_state *s, struct fds_hold *hold)
{
	if (!calls_begin(s))
		return false;
	if (fds_lock(&s->fds, hold, true))
		return true;
	calls_end(s);
	return false;
}

bool run_rights_begin(void)
{
	return shim.run.state && calls_begin(shim.run.state);
}

void run_rights_end(void)
{
	calls_end(shim.run.state);
}

/* Within calls_begin(). */
static void leaves(struct run_state *s)
{
	struct fds_hold hold;

	if (!host_load_relaxed(&s->fds.pid))
		own_forked(); /* a child that libc does not know of: its copies go */
	if (!fds_is_ours())   /* a vfork() child: the memory is its parent's */
		return;
	run_report_keep();
	host_fetch_add(&s->leaving, 1); /* U23 */
	own_hang_up();
	if (leave_lock(s, &hold)) {
		if (s->lodic && lent_generation(s->lodic) != GENERATION_NONE)
			s->left_attached = 1;
		run_let_go(s);
		run_unlock(s, &hold);
	}
}

void run_leaves(void)
{
	int error = errno;

	if (!run_rights_begin())
		return;
	leaves(shim.run.state);
	run_rights_end();
	errno = error;
}

/* Within calls_begin(). */
static void left(struct run_state *s, enum run_leave how)
{
	struct fds_hold hold;
	u64 now;

	if (!fds_is_ours() || !leave_lock(s, &hold))
		return;
	now = host_now_ns();
	run_report_left();
	if (how >= RUN_LEAVE_FOR_GOOD) { /* U25 */
		run_places_end(s);
		host_store_relaxed(&shim.run.gone, 1);
		host_store_relaxed(&s->off, 1);
	}
	if (how == RUN_LEAVE_HIDDEN)
		socket_hide();
	socket_choose();
	if (s->left_attached) {
		s->left_attached = 0;
		now += leave_pause(s, now); /* U24 */
	}
	if (s->lodic && !lent_move(s->lodic, shim.leave.socket, run_trusted(), now))
		host_store_relaxed(&s->off, 1);
	host_fetch_add(&s->leaving, -(u64)1);
	run_unlock(s, &hold);
}

void run_left(enum run_leave how)
{
	int error = errno;

	if (!run_rights_begin())
		return;
	left(shim.run.state, how);
	run_rights_end();
	errno = error;
}

/* ---- starting ---- */

/* Does somebody listen there? */
static bool start_answers(const char *path)
{
	int err = port_listens(path);

	return err != -ENOENT && err != -ECONNREFUSED;
}

/* One try. */
static void start(struct start *wanted, const char *socket)
{
	struct start_failure nobody_asks;
	int cancel;

	if (!*shim.leave.program || start_answers(socket))
		return;
	wanted->program = shim.leave.program;
	wanted->cache_bytes = shim.leave.memory_bytes;
	wanted->idle_exit_ms = IDLE_EXIT_MS;
	cancel = port_cancel_off();
	start_service(wanted, &nobody_asks);
	port_cancel_as(cancel);
}

void run_becomes(u32 user)
{
	struct run_state *s = shim.run.state;
	struct start wanted = { .wait_ms = START_WAIT_MS,
		                .for_user = true,
		                .user = user };
	char path[LENT_SOCKET_BYTES];
	int error = errno;

	if (user == 0 || user == UINT32_MAX || !run_rights_begin())
		return;
	run_report_becomes(user);
	if (shim.leave.by_default && !host_load_relaxed(&s->off) && port_user() == 0 &&
	    fds_is_ours() && lent_socket_of(user, path))
		start(&wanted, path);
	run_rights_end();
	errno = error;
}

/* The lock is held. */
static void start_if_alone(struct run_state *s, u64 now)
{
	struct start wanted = { .socket_path = shim.leave.by_default
		                                       ? NULL
		                                       : shim.leave.socket };

	if (!host_load_relaxed(&s->alone) || now < s->start_at_ns) /* U26 */
		return;
	s->start_step_ns = s->start_step_ns ? s->start_step_ns * 2 : START_FIRST_NS;
	if (s->start_step_ns > START_LAST_NS)
		s->start_step_ns = START_LAST_NS;
	host_store_relaxed(&s->start_at_ns, now + s->start_step_ns);
	start(&wanted, shim.leave.socket);
}

void run_may_start_now(void)
{
	struct run_state *s = shim.run.state;
	struct fds_hold hold;
	u64 now;

	/* Each open() comes by here while nobody listens, so the lock is taken last. And a filter
	 * may forbid every question: U19. */
	if (host_load_relaxed(&s->off) || !calls_begin(s))
		return;
	now = host_now_ns();
	if (now >= host_load_relaxed(&s->start_at_ns) &&
	    (shim.leave.by_default || port_user() == shim.leave.first_user) &&
	    run_lock(s, &hold, false)) {
		start_if_alone(s, now);
		run_unlock(s, &hold);
	}
	calls_end(s);
}
