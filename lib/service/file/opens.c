/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See opens.h. */
#include <errno.h>

#include "lib/port.h"
#include "lib/service/file/opens.h"

struct opens_entry {
	u32 id;
	u32 nr; /* opens; 0: the entry is empty */
};

struct opens_page {
	u32 nr; /* entries that are not empty */
	struct opens_entry entries[OPENS_PAGE_SLOTS];
};

/* The page for slot, made if need be. NULL: there is no memory. */
static struct opens_page *opens_page(struct opens *o, u32 nr_slots, u32 slot)
{
	struct opens_page **page;

	if (!o->pages) {
		u32 nr_pages = (nr_slots - 1) / OPENS_PAGE_SLOTS + 1;

		o->pages = port_alloc(nr_pages * sizeof(*o->pages));
		if (!o->pages)
			return NULL;
		o->nr_pages = nr_pages;
	}
	page = &o->pages[slot / OPENS_PAGE_SLOTS];
	if (!*page)
		*page = port_alloc(sizeof(**page));
	return *page;
}

/* The entry is empty from now on. */
static void opens_forget(struct opens *o, u32 slot)
{
	struct opens_page **page = &o->pages[slot / OPENS_PAGE_SLOTS];

	(*page)->entries[slot % OPENS_PAGE_SLOTS].nr = 0;
	o->nr--;
	if (--(*page)->nr > 0)
		return;
	port_free(*page);
	*page = NULL;
}

int opens_add(struct opens *o, u32 nr_slots, u32 slot, u32 id)
{
	struct opens_page *page = opens_page(o, nr_slots, slot);
	struct opens_entry *entry;

	if (!page)
		return -ENOMEM;
	entry = &page->entries[slot % OPENS_PAGE_SLOTS];
	if (entry->nr == 0) {
		page->nr++;
		o->nr++;
	}
	*entry = (struct opens_entry){ id, entry->id == id ? entry->nr + 1 : 1 };
	return 0;
}

bool opens_have(const struct opens *o, u64 slot, u64 id)
{
	const struct opens_page *page;

	if (slot / OPENS_PAGE_SLOTS >= o->nr_pages)
		return false;
	page = o->pages[slot / OPENS_PAGE_SLOTS];
	return page && page->entries[slot % OPENS_PAGE_SLOTS].nr > 0 &&
	       page->entries[slot % OPENS_PAGE_SLOTS].id == id;
}

bool opens_remove(struct opens *o, u64 slot, u64 id)
{
	struct opens_page *page;
	struct opens_entry *entry;

	if (slot / OPENS_PAGE_SLOTS >= o->nr_pages)
		return false;
	page = o->pages[slot / OPENS_PAGE_SLOTS];
	if (!page)
		return false;
	entry = &page->entries[slot % OPENS_PAGE_SLOTS];
	if (entry->nr == 0 || entry->id != id)
		return false;
	if (entry->nr > 1)
		entry->nr--;
	else
		opens_forget(o, (u32)slot);
	return true;
}

u32 opens_take(struct opens *o, u32 *ret_slot, u32 *ret_id)
{
	/* Once round: o->next may be anywhere. */
	u32 most = 2 * o->nr_pages * OPENS_PAGE_SLOTS;

	while (o->nr > 0 && most-- > 0) {
		u32 slot = o->next++ % (o->nr_pages * OPENS_PAGE_SLOTS);
		const struct opens_page *page = o->pages[slot / OPENS_PAGE_SLOTS];
		struct opens_entry entry;

		if (!page) {
			o->next += OPENS_PAGE_SLOTS - 1 - slot % OPENS_PAGE_SLOTS;
			continue;
		}
		entry = page->entries[slot % OPENS_PAGE_SLOTS];
		if (entry.nr == 0)
			continue;
		opens_forget(o, slot);
		*ret_slot = slot;
		*ret_id = entry.id;
		return entry.nr;
	}
	return 0;
}

void opens_fini(struct opens *o)
{
	for (u32 i = 0; i < o->nr_pages; i++)
		port_free(o->pages[i]);
	port_free(o->pages);
	*o = (struct opens){ 0 };
}
