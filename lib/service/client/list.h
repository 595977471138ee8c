/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The service's files, readers and contexts, a page at a time (lib/look.h). */
#ifndef LODIC_LIB_SERVICE_CLIENT_LIST_H
#define LODIC_LIB_SERVICE_CLIENT_LIST_H

#include "lib/service/base/base.h"
#include "lib/wire.h"

struct clients;

/* Each fills page with the records from cursor on, and says there where the next begins. The
 * work of one call is bounded: LIST_SLOTS, LIST_READERS, LIST_HOLDS. */
void list_files(const struct clients *s, u64 cursor, struct wire_page *page);
void list_readers(const struct clients *s, u64 cursor, struct wire_page *page);
void list_contexts(const struct clients *s, u64 cursor, struct wire_page *page);
void list_holds(const struct clients *s, u64 cursor, struct wire_page *page);
/* How long fills and misses took: LOOK_NR_TIMES records. */
void list_tiers(const struct clients *s, u64 cursor, struct wire_page *page);
void list_times(const struct clients *s, u64 cursor, struct wire_page *page);

#endif
