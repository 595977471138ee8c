/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Rights to ask (ADR-0037). doc/authority.md has the table for users, with a test for each row.
 *
 * A program that connects may give up its rights later, or pass the socket on. So connect()'s
 * credentials say what the connection was, and each message's own say what its sender is now.
 *
 *   new --HELLO--> reader          contexts, files, holds; it never administers
 *       --a look--> visitor        looks; administers; announces a successor
 *                     SUCCEED makes another connection: the successor's, for HAND_* alone
 *
 * Invariants.
 * AU1 a connection is of one kind, for good. No reader's ever takes administration or HAND_*.
 *     So a program that attached, and then gave up its rights, has a channel that is worth what it
 *     has mapped already.
 * AU2 two credentials judge what attaches, what shows others' files, what administers, and what
 *     succeeds: those of connect() and those of the message. Both must allow it. The message's
 *     user is the sender's real one. seteuid() does not change that, and gives nothing up for
 *     good: the process may take its effective user back.
 * AU3 a message without credentials is refused, and its connection closed. It was sent while the
 *     socket did not ask for them, and another connection has them.
 * AU4 who announces itself as a successor passes the lock file, opened for reading and writing.
 *     Landlock, and whatever else credentials do not show, is the kernel's to judge at that open.
 * AU5 what a successor gets to open is a path, not a right (O_PATH): the kernel judges it once
 *     more, file by file.
 * AU6 the user that stands for those whom a user namespace does not map is nobody. Not even a
 *     service that sees itself as that user takes it for its own.
 */
#ifndef LODIC_LIB_SERVICE_CLIENT_AUTHORITY_H
#define LODIC_LIB_SERVICE_CLIENT_AUTHORITY_H

#include "lib/service/client/connection.h"
#include "lib/wire.h"

/* May the client ask for this, in a message of that sender? It gives a new client its kind, but
 * for a reader: HELLO may fail. -EINVAL: the connection is of another kind, or there is no such
 * request. -EPERM: not this user. -ECONNRESET: nobody says who has sent it (AU3). */
int authority_judge(struct client *c, u32 op, const struct wire_sender *sender);

#endif
