/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Sockets: what socket.c and peer.c know of them. */
#ifndef LODIC_HOST_WHOLE_SOCKET_H
#define LODIC_HOST_WHOLE_SOCKET_H

#include "host/whole/machine.h"
#include "lib/port.h"

/* What a message shows that came while nobody asked for its sender. SCM_CREDENTIALS are there all
 * the same: no process, and the user of those who have no number here. */
#define NOBODY ((struct port_peer){ .pid = 0, .uid = 65534 })

struct message {
	struct message *next;
	size_t bytes;
	struct description *fds[PORT_MOST_FDS];
	u32 nr_fds;
	struct message_name name;
	u64 sent_ns;
	struct port_peer sender; /* as the kernel has noted it; or NOBODY */
	u8 data[];
};

struct socket {
	struct description d;
	struct socket *other; /* NULL: it is not connected, or the other side has gone */
	bool connected, deaf; /* it was once; port_stop_receiving() */
	bool asks_senders, not_accepted;
	bool ended; /* with its process */
	bool reset; /* the other side has gone and left messages unread; told once, and first */
	struct message *first;
	u32 nr_messages;
	struct messages messages;
	struct port_peer owner, peer; /* by whom the two sides were connected */
	u32 owner_group, peer_group;
	struct process *peer_process;
	/* Listening. */
	bool listening;
	u32 most_waiting, nr_waiting;
	struct socket *waiting; /* accepted next, and those behind it */
	struct socket *next_waiting;
	struct inode *at; /* NULL: it has no path */
};

/* NULL: fd leads to none. */
struct socket *socket_of(int fd);

/* A connection has the effective user, as connect() and listen() found it. */
struct port_peer peer_of(const struct process *p);
/* A message has the real one. */
struct port_peer peer_sender_of(const struct process *p);
/* As the running process sees it. */
struct port_peer peer_seen(const struct port_peer *peer);

#endif
