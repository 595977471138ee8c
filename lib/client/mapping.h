/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Memory that a forked child must not use: it finds it zeroed, or not at all. */
#ifndef LODIC_LIB_CLIENT_MAPPING_H
#define LODIC_LIB_CLIENT_MAPPING_H

#include <stddef.h>

#include "lib/client/client.h"

/* bytes of zeroed memory that a forked child finds zeroed again. NULL: there is none. */
void *mapping_alloc_wiped(size_t bytes);
void mapping_free_wiped(void *p, size_t bytes);

/* Maps bytes of fd. A forked child does not get the mapping. -EPROTO: the file of fd is
 * shorter. Otherwise the errors of port_map(). */
int mapping_share(int fd, u64 bytes, int protection, void **ret_at);

/* Puts private pages of zeros in the place of a mapping. A thread that is in it meanwhile finds the
 * old bytes or zeros, and no fault. When this returns, each thread finds zeros. A forked child
 * does not get them. -ENOMEM: the mapping stays. */
int mapping_zero(void *at, u64 bytes, int protection);

#endif
