/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef LODIC_LIB_SERVICE_BASE_LIMITS_H
#define LODIC_LIB_SERVICE_BASE_LIMITS_H

#include "host/host.h"

/* The limit of this process that keeps a service of so many bytes from starting, and what to do. It
 * must be asked before what the service has taken so far is given back. error: how the start has
 * failed. NULL: no limit is to blame. The sentence stays as long as the thread. */
const char *limits_blame(int error, u64 bytes);

#endif
