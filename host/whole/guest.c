/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port/guest.h. What the shim asks of its program, and a program that has it. */
#include "lib/port/guest.h"

#include <stdlib.h>
#include <string.h>

#include "host/whole/files.h"
#include "host/whole/guest.h"
#include "preload/go.h"
#include "preload/run.h"

_Static_assert(sizeof(struct shim_thread) <= MACHINE_GUEST_WORDS * sizeof(u64),
               "a task has room for the shim's words");

/* ---- the program ---- */

void guest_switch(struct task *from, const struct task *to)
{
	if (from && from->process->images[IMAGE_GUEST])
		memcpy(from->guest_words, &shim_thread, sizeof(shim_thread));
	if (to && to->process->images[IMAGE_GUEST])
		memcpy(&shim_thread, to->guest_words, sizeof(shim_thread));
}

void guest_start(const char *const *environment)
{
	struct process *p = process_now();

	p->environment = environment;
	p->nr_before_zero = 0; /* shimmed.c knows which number comes next */
	p->images[IMAGE_GUEST] = image_new(IMAGE_GUEST);
	image_switch(p);
	memset(&shim_thread, 0, sizeof(shim_thread));
	run_start();
}

/* A thread that has not read since keeps the number of an event, which nobody else has. Without a
 * descriptor for that one it keeps the service's, which it can only wake. */
static bool guest_keeps(int fd)
{
	const struct description *d = fd_get(fd);

	return !d || (fd_event_is(d) && (d->maker == process_now()->number ||
	                                  machine.nr_failed[CALL_EVENT] > 0 ||
	                                  machine.nr_failed[CALL_REPLACE] > 0));
}

/* U23 in preload/run.h. The kernel refuses to unmap a part of a mapping only. The spare of LV3
 * (segment.h) is a whole one, and nobody may read it: if a fault keeps it, that is no fault. */
static void guest_has_left(void)
{
	if (mappings_any_file(process_now()) && machine.nr_failed[CALL_MAP] == 0 &&
	    machine.nr_failed[CALL_UNMAP] == 0)
		machine_fail("a program has memory of the service while it gives up rights");
	for (int fd = 0; fd < (int)MACHINE_MOST_FDS; fd++)
		if (guest_owns(fd) && !guest_keeps(fd))
			machine_fail("the shim has descriptor %d while the program gives up "
			             "rights", fd);
}

void guest_changes_rights(void)
{
	run_leaves();
	for (u32 i = machine_draw(16); i > 0; i--) {
		guest_has_left();
		machine.now_ns += 1 + machine_draw(NS_PER_US);
		machine_yield();
	}
	run_left(RUN_LEAVE_USER);
}

/* The simulated programs are neither in Go, nor do they run others. */
bool go_in_process(void)
{
	return false;
}

const char *port_program_name(void)
{
	return process_now()->name;
}

void port_variable_empty(const char *name)
{
	machine_fail("the shim hides %s, which no scenario wants", name);
}

int64_t port_process_text(const char *path, char *to, size_t bytes)
{
	static const char status[] = "Name:\tprogram\nSeccomp_filters:\t0\n";
	int64_t err = machine_call(CALL_PROCESS_TEXT);
	size_t n = sizeof(status) - 1;

	if (err)
		return err;
	if (strcmp(path, "status") != 0)
		return machine_result(-ENOENT);
	if (n > bytes)
		n = bytes;
	memcpy(to, status, n);
	return machine_result((long)n);
}

/* The machine has no fork(). */
int port_run_in_child(void (*run)(void))
{
	(void)run;
	return (int)machine_result(machine_call(CALL_RUN_IN_CHILD));
}

int port_listens(const char *path)
{
	int fd = port_socket(), err;

	if (fd < 0)
		return fd;
	err = port_connect(fd, path);
	port_close(fd);
	return err;
}

/* ---- threads: the programs get no signals, and cancel nobody ---- */

void port_quiet_begin(struct port_quiet *ret_before)
{
	machine_pass(CALL_QUIET_BEGIN);
	memset(ret_before, 0, sizeof(*ret_before));
}

void port_quiet_end(const struct port_quiet *before)
{
	(void)before;
	machine_pass(CALL_QUIET_END);
}

unsigned int port_quiet_signals(void)
{
	machine_pass(CALL_QUIET_SIGNALS);
	return 0;
}

void port_quiet_drop(unsigned int signals)
{
	(void)signals;
	machine_pass(CALL_QUIET_DROP);
}

void port_cancel_point(void)
{
}

/* ---- descriptors ---- */

int64_t port_position(int fd)
{
	struct fd_file *file;

	machine_pass(CALL_POSITION);
	file = fd_file_of(fd);
	if (!file)
		return machine_result(fd_get(fd) ? -ESPIPE : -EBADF);
	return machine_result((long)file->position);
}

int port_file_system(int fd, uint64_t *ret_kind)
{
	int err = machine_call(CALL_FILE_SYSTEM);

	if (err || !fd_get(fd))
		return err ? err : -EBADF;
	*ret_kind = 0;
	return (int)machine_result(0);
}

int port_birth(int fd, struct port_birth *ret)
{
	int err = machine_call(CALL_BIRTH);
	struct fd_file *file = fd_file_of(fd);

	if (err || !fd_get(fd))
		return err ? err : -EBADF;
	*ret = (struct port_birth){ .regular = file != NULL };
	if (file) {
		ret->dev = inode_dev(file->inode);
		ret->ino = file->inode->ino;
	}
	return (int)machine_result(0);
}

int port_dup_above(int fd, int lowest)
{
	int err = machine_call(CALL_DUP_ABOVE), number = lowest;
	struct process *p = process_now();
	struct description *d = fd_get(fd);
	int top = p->fd_limit < MACHINE_MOST_FDS ? (int)p->fd_limit : (int)MACHINE_MOST_FDS;

	if (err || !d)
		return err ? err : -EBADF;
	if (lowest >= top)
		return (int)machine_result(-EINVAL);
	while (number < top && p->fds[number])
		number++;
	if (number == top)
		return (int)machine_result(-EMFILE);
	description_keep(d);
	p->fds[number] = d;
	return (int)machine_result(number);
}

/* ---- for the shim's report and its record: no scenario has them ---- */

int port_append(const char *path)
{
	machine_fail("the shim writes to %s", path);
}

int port_open_both(const char *path)
{
	machine_fail("the shim opens %s to write", path);
}

int port_create_both(const char *path)
{
	machine_fail("the shim makes %s", path);
}

int64_t port_put(int fd, const void *from, size_t bytes)
{
	(void)from;
	machine_fail("the shim writes %zu bytes to %d", bytes, fd);
}

int port_resize(int fd, uint64_t bytes)
{
	machine_fail("the shim makes %d a file of %llu bytes", fd, (unsigned long long)bytes);
}

int port_give(const char *path, uint32_t user)
{
	machine_fail("the shim gives %s to user %u", path, user);
}

int port_remove_folder(const char *path)
{
	machine_fail("the shim removes %s", path);
}

int port_fault_in(void *at, uint64_t bytes, bool write)
{
	(void)at;
	(void)bytes;
	(void)write;
	return (int)machine_result(machine_call(CALL_FAULT_IN));
}

int port_mapped_at(uint64_t at, char *room, size_t room_bytes, struct port_mapped *ret)
{
	(void)at;
	(void)room;
	(void)room_bytes;
	(void)ret;
	machine_fail("the shim asks what is mapped, which no scenario wants");
}

int port_segment_bytes(int segment, uint64_t *ret_bytes)
{
	(void)ret_bytes;
	machine_fail("the shim asks for segment %d", segment);
}

int port_segment_map(int segment, void **ret_at)
{
	(void)ret_at;
	machine_fail("the shim maps segment %d", segment);
}

void port_segment_unmap(void *at)
{
	(void)at;
	machine_fail("the shim unmaps a segment");
}

void port_segment_end(int segment)
{
	machine_fail("the shim ends segment %d", segment);
}
