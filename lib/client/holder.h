/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A hold: a range of a file that this process may keep for as long as it likes (ADR-0022).
 *
 *   lodic_hold --> small: copied ------------------------------------------------> ready
 *         |                                                                         ^
 *         +------> HOLD, by lodic's channel: with the memory -----------------------+
 *                    ^         |                                                    |
 *                    |         v -EINPROGRESS                                       v
 *                    +-- HOLD_WAIT, by a connection of the hold's own     any error: failed
 *
 * A hold that is ready leads to memory alone. So a release is munmap(2) or madvise(2), and the
 * last step of an attachment that nobody else uses. It takes no lock.
 */
#ifndef LODIC_LIB_CLIENT_HOLDER_H
#define LODIC_LIB_CLIENT_HOLDER_H

#include "lib/wire.h"

/* May bytes from the file's byte at offset on be mapped from fd, which came with this reply?
 * 0: they are in there, and nobody can change, cut off or extend them: a look at them is never
 * a SIGBUS. -EPROTO: it is not so. */
int holder_verify(int fd, const struct wire_reply *reply, uint64_t offset,
                  uint64_t bytes);

#endif
