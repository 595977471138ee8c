/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The segments that readers map. */
#ifndef LODIC_LIB_SERVICE_MEMORY_H
#define LODIC_LIB_SERVICE_MEMORY_H

#include "lib/service/state.h"

/* Makes the arena. -ENOMEM and what memfd_create(2) and mmap(2) say; ret_why then says what
 * the user can do. */
int memory_make(struct service *s, const char **ret_why);
void memory_free(struct service *s);
/* A context's memory, mapped here; ret_fd is for its reader. */
int memory_make_context(struct service *s, void **ret_memory, int *ret_fd);

#endif
