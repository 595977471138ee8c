/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One message over a SOCK_SEQPACKET socket, with descriptors. Both halves of the library use
 * it. A message arrives whole or not at all, and no descriptor is ever lost.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "lib/port.h"
#include "lib/wire.h"

_Static_assert(WIRE_MAX_FDS == PORT_MOST_FDS, "a message's descriptors");

int wire_send(int socket, const void *message, unsigned long bytes, const int *fds,
              unsigned int nr_fds)
{
	if (nr_fds > WIRE_MAX_FDS)
		return -EINVAL;
	return port_send(socket, message, bytes, fds, nr_fds);
}

int wire_receive_all(int socket, void *message, unsigned long bytes, int *ret_fds,
                     unsigned int *ret_nr_fds, struct wire_sender *ret_sender)
{
	struct port_message m = { .bytes = message,
		                  .room = bytes,
		                  .most_fds = WIRE_MAX_FDS,
		                  .ask_who = ret_sender };
	int err = port_receive(socket, &m);

	*ret_nr_fds = 0;
	if (err)
		return err;
	*ret_nr_fds = m.nr_fds;
	memcpy(ret_fds, m.fds, m.nr_fds * sizeof(*m.fds));
	if (ret_sender)
		*ret_sender =
			(struct wire_sender){ m.said, m.sender.pid, m.sender.uid };
	if (m.got == bytes && !m.cut)
		return m.fds_cut ? -EMFILE : 0;
	/* No side sends empty messages: without descriptors this is the end. */
	return m.got == 0 && m.nr_fds == 0 ? -ECONNRESET : -EPROTO;
}

int wire_receive(int socket, void *message, unsigned long bytes, int *ret_fds,
                 unsigned int *ret_nr_fds)
{
	int err = wire_receive_all(socket, message, bytes, ret_fds, ret_nr_fds, NULL);

	while (err && *ret_nr_fds > 0)
		port_close(ret_fds[--*ret_nr_fds]);
	return err;
}
