/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A hash table from (file, kind, index) to two numbers: sim/tier/table.h. */
#include <errno.h>
#include <stdlib.h>

#include "host/random.h"
#include "sim/tier/table.h"

#define FIRST_ENTRIES 1024u

static size_t entry_home(const struct table *table, u32 file, u32 kind, u32 index)
{
	return random_mix(((u64)file << 32 | index) + kind * RANDOM_STEP) & table->mask;
}

int table_begin(struct table *table)
{
	*table = (struct table){ .mask = FIRST_ENTRIES - 1 };
	table->entries = calloc(FIRST_ENTRIES, sizeof(*table->entries));
	return table->entries ? 0 : -ENOMEM;
}

void table_end(struct table *table)
{
	free(table->entries);
}

struct table_entry *table_find(const struct table *table, u32 file, u32 kind, u32 index)
{
	size_t at = entry_home(table, file, kind, index);

	/* It ends at an unused entry: at most three of four are used. */
	for (; table->entries[at].used; at = (at + 1) & table->mask) {
		struct table_entry *entry = &table->entries[at];

		if (entry->file == file && entry->index == index && entry->kind == kind)
			return entry;
	}
	return NULL;
}

static struct table_entry *entry_free(const struct table *table, u32 file, u32 kind,
                                      u32 index)
{
	size_t at = entry_home(table, file, kind, index);

	while (table->entries[at].used)
		at = (at + 1) & table->mask;
	return &table->entries[at];
}

static int table_grow(struct table *table)
{
	struct table larger = { .mask = 2 * table->mask + 1, .nr = table->nr };
	size_t i;

	larger.entries = calloc(larger.mask + 1, sizeof(*larger.entries));
	if (!larger.entries)
		return -ENOMEM;
	for (i = 0; i <= table->mask; i++) {
		const struct table_entry *entry = &table->entries[i];

		if (entry->used)
			*entry_free(&larger, entry->file, entry->kind, entry->index) =
				*entry;
	}
	free(table->entries);
	*table = larger;
	return 0;
}

struct table_entry *table_insert(struct table *table, u32 file, u32 kind, u32 index)
{
	struct table_entry *entry;

	if (4 * (table->nr + 1) > 3 * (table->mask + 1) && table_grow(table) != 0)
		return NULL;
	entry = entry_free(table, file, kind, index);
	*entry = (struct table_entry){ file, index, kind, 0, 0, true };
	table->nr++;
	return entry;
}

/* The entries behind it move up, each no farther than its home. */
void table_erase(struct table *table, struct table_entry *entry)
{
	size_t hole = (size_t)(entry - table->entries), at = hole;

	for (;;) {
		const struct table_entry *next;
		size_t home;

		at = (at + 1) & table->mask;
		next = &table->entries[at];
		if (!next->used)
			break;
		home = entry_home(table, next->file, next->kind, next->index);
		if (((at - home) & table->mask) < ((at - hole) & table->mask))
			continue;
		table->entries[hole] = *next;
		hole = at;
	}
	table->entries[hole].used = false;
	table->nr--;
}
