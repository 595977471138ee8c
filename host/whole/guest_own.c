/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The shim's own descriptors: each call of the door that takes or makes one, as
 * preload/posix/os_impl.h and preload/own_calls.c have it. The sources of the simulated shim call
 * these by the names of the door (guest_names.h).
 */
#include "host/whole/guest.h"
#include "lib/port.h"
#include "preload/own.h"

int guest_socket(void);
int guest_dup(int fd);
int guest_replace(int fd, int number);
void guest_close(int fd);
int guest_shut(int fd);
bool guest_event_tell(int event);
int guest_send(int socket, const void *message, size_t bytes, const int *fds,
               unsigned int nr_fds);
int guest_receive(int socket, struct port_message *message);

/* In one step: it is the scenario that asks. */
bool guest_owns(int fd)
{
	bool owns;

	machine.running->preempt_off++;
	owns = own_is(fd);
	machine.running->preempt_off--;
	return owns;
}

int guest_dup(int fd)
{
	return own_copy(fd);
}

int guest_socket(void)
{
	int fd = port_socket();
	int high = fd < 0 ? fd : own_copy(fd);

	if (fd >= 0)
		port_close(fd);
	return high;
}

int guest_replace(int fd, int number)
{
	return own_usable(number) ? port_replace(fd, number) : -EPIPE;
}

/* A close of the program's file drops locks that the program has on it (U15). */
static void own_is_no_file(int fd)
{
	if (fd_get(fd) && fd_file_is(fd_get(fd)))
		machine_fail("the shim closes %d, which is the program's", fd);
}

/* The program may have closed it by a bare system call: close(2) says EBADF then. */
void guest_close(int fd)
{
	if (!own_ends(fd) || !fd_get(fd))
		return;
	own_is_no_file(fd);
	port_close(fd);
}

int guest_shut(int fd)
{
	if (own_is(fd)) {
		guest_close(fd);
		return 0;
	}
	own_is_no_file(fd);
	port_close(fd); /* so no file system is asked */
	return 0;
}

bool guest_event_tell(int event)
{
	return own_usable(event) && port_event_tell(event);
}

int guest_send(int socket, const void *message, size_t bytes, const int *fds,
               unsigned int nr_fds)
{
	return own_usable(socket) ? port_send(socket, message, bytes, fds, nr_fds) : -ECONNRESET;
}

int guest_receive(int socket, struct port_message *message)
{
	int err = own_usable(socket) ? port_receive(socket, message) : -ECONNRESET;

	for (u32 i = 0; !err && i < message->nr_fds; i++)
		message->fds[i] = own_rise(message->fds[i]);
	return err;
}
