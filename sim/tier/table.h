/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A hash table from the name of an object, (file, kind, index), to two numbers. It grows. */
#ifndef LODIC_SIM_TIER_TABLE_H
#define LODIC_SIM_TIER_TABLE_H

#include "host/host.h"

struct table_entry {
	u32 file, index, kind;
	u32 value, more; /* the caller's */
	bool used;
};

struct table {
	struct table_entry *entries;
	size_t mask, nr; /* mask: how many entries there are, a power of two, less 1 */
};

int table_begin(struct table *table); /* 0 or -ENOMEM */
void table_end(struct table *table);

/* NULL: it is not there. The entry stays where it is until the next insert or erase. */
struct table_entry *table_find(const struct table *table, u32 file, u32 kind,
                               u32 index);
/* It must not be there. NULL: no memory. */
struct table_entry *table_insert(struct table *table, u32 file, u32 kind, u32 index);
void table_erase(struct table *table, struct table_entry *entry);

#endif
