/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Messages whose ancillary data no library would send. */
#ifndef LODIC_TESTS_SUPPORT_ODD_MESSAGE_H
#define LODIC_TESTS_SUPPORT_ODD_MESSAGE_H

#include "host/host.h"

/* Sends the bytes with descriptors of odd kinds, more than the service has room for, in several
 * parts, or with parts that are no descriptors. Sometimes their lengths are wrong, and then the
 * kernel refuses them; that is no error here. 0 or -errno, as wire_send(). */
int odd_message_send(int socket, const void *message, u64 bytes, u64 *random);

#endif
