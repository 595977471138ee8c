/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Which object is which, and what a run has of each: sim/tier/engine_state.h. */
#include <errno.h>
#include <stdlib.h>

#include "sim/tier/engine_state.h"

#define FIRST_FILES 1024u
#define RECLAIM_FRAMES 64u /* given back at a time */
#define RECLAIM_TURNS 2u   /* of the clock, at most: the first one forgives */

int engine_objects_begin(struct engine *e, u32 nr)
{
	e->nr_objects = nr;
	e->objects = calloc(nr, sizeof(*e->objects));
	e->nr_files = FIRST_FILES;
	e->files = calloc(FIRST_FILES, sizeof(*e->files));
	return e->objects && e->files ? table_begin(&e->names) : -ENOMEM;
}

void engine_objects_end(struct engine *e)
{
	free(e->objects);
	free(e->files);
	table_end(&e->names);
}

u32 engine_find(const struct engine *e, u32 file, u32 kind, u32 index)
{
	const struct table_entry *entry = table_find(&e->names, file, kind, index);

	return entry ? entry->value : KLOC_NONE;
}

struct engine_file *engine_file(struct engine *e, u32 file)
{
	struct engine_file *f;

	if (file >= e->nr_files) {
		u32 room = 2 * e->nr_files > file ? 2 * e->nr_files : file + 1;
		struct engine_file *files = realloc(e->files, room * sizeof(*files));

		if (!files)
			return NULL;
		for (; e->nr_files < room; e->nr_files++)
			files[e->nr_files] =
				(struct engine_file){ .is_unlinked = false };
		e->files = files;
	}
	f = &e->files[file];
	if (file && f->knode == KNODE_NONE_YET && !f->is_unlinked) {
		u32 knode;

		/* Where core/kloc has no room for a knode, the file's objects are in no group. */
		f->knode = KNODE_UNGROUPED;
		if (kloc_map(e->kloc, file, 0, &knode) == 0)
			f->knode = knode + KNODE_FIRST;
		else
			e->result->ungrouped++;
		f->first = KLOC_NONE;
		f->last_frame = KLOC_NONE;
	}
	return f;
}

u32 engine_knode(const struct engine_file *f)
{
	return f && f->knode >= KNODE_FIRST ? f->knode - KNODE_FIRST : KLOC_NONE;
}

/* The inode leaves memory: nobody has the file open, and nothing of it is left. */
static void file_forget(struct engine *e, u32 file)
{
	struct engine_file *f = &e->files[file];

	if (!file || f->first != KLOC_NONE || f->nr_opens > 0)
		return;
	if (engine_knode(f) != KLOC_NONE)
		kloc_unlink(e->kloc, engine_knode(f), 0);
	f->knode = KNODE_NONE_YET;
}

static void object_link(struct engine *e, u32 object)
{
	struct engine_object *o = &e->objects[object];
	struct engine_file *f = &e->files[o->file];

	o->before = KLOC_NONE;
	o->next = f->first;
	if (o->next != KLOC_NONE)
		e->objects[o->next].before = object;
	f->first = object;
}

static void object_unlink(struct engine *e, u32 object)
{
	struct engine_object *o = &e->objects[object];

	if (o->next != KLOC_NONE)
		e->objects[o->next].before = o->before;
	if (o->before != KLOC_NONE)
		e->objects[o->before].next = o->next;
	else
		e->files[o->file].first = o->next;
}

void engine_remove(struct engine *e, u32 object)
{
	struct engine_object *o = &e->objects[object];
	struct engine_result *r = e->result;

	table_erase(&e->names, table_find(&e->names, o->file, o->kind, o->index));
	if (o->file)
		object_unlink(e, object);
	r->removed[o->kind]++;
	r->lived_ns[o->kind] += (u64)(e->charge.now - o->begin_ns);
	e->live[o->kind]--;
	o->is_live = false;
	kloc_remove(e->kloc, object);
}

void engine_remove_all(struct engine *e, struct engine_file *file)
{
	while (file->first != KLOC_NONE)
		engine_remove(e, file->first);
}

/* Both tiers are full: the page cache gives some frames back that were not used for long. */
static bool engine_reclaim(struct engine *e)
{
	u32 given = 0, i;

	for (i = 0; i < RECLAIM_TURNS * e->nr_objects && given < RECLAIM_FRAMES; i++) {
		struct engine_object *o = &e->objects[e->hand];

		if (o->is_live && o->kind == KLOC_FRAME && o->was_used) {
			o->was_used = false;
		} else if (o->is_live && o->kind == KLOC_FRAME) {
			engine_remove(e, e->hand);
			file_forget(e, o->file);
			given++;
		}
		e->hand = (e->hand + 1) % e->nr_objects;
	}
	e->result->reclaimed += given;
	return given > 0;
}

u32 engine_add(struct engine *e, const struct tier_event *event, u32 cpu, bool prefetch)
{
	struct engine_file *f = event->file ? engine_file(e, event->file) : NULL;
	struct kloc_new new_object = {
		.key = (u64)event->index * (event->kind == KLOC_FRAME ? 4096 : 1),
		.knode = engine_knode(f),
		.kind = event->kind,
		.bytes = event->bytes ? event->bytes : 4096,
		.cpu = cpu,
		.prefetch = prefetch,
	};
	struct table_entry *entry;
	u32 object, tier;
	int err;

	do {
		e->adding = event;
		err = kloc_add(e->kloc, &new_object, &object, &tier);
		e->adding = NULL;
	} while (err && engine_reclaim(e));
	if (err)
		return KLOC_NONE;
	entry = table_insert(&e->names, event->file, event->kind, event->index);
	if (!entry || object >= e->nr_objects) {
		kloc_remove(e->kloc, object);
		return KLOC_NONE;
	}
	entry->value = object;
	e->objects[object] = (struct engine_object){ .file = event->file,
		                                     .index = event->index,
		                                     .bytes = new_object.bytes,
		                                     .kind = event->kind,
		                                     .is_live = true,
		                                     .begin_ns = e->charge.now };
	if (f)
		object_link(e, object);
	e->live[event->kind]++;
	e->result->added[event->kind]++;
	e->result->added_bytes[event->kind] += new_object.bytes;
	if (tier == KLOC_SLOW)
		e->result->placed_slow[event->kind]++;
	return object;
}
