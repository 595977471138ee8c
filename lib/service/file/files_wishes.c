/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What users wish for files by name: `lodic load` keeps them, and `lodic drop` lets them go. Only
 * the main thread comes here. */
#include <errno.h>

#include "lib/service/base/worker.h"
#include "lib/service/file/files.h"
#include "lib/service/file/state.h"
#include "lib/service/file/held.h"

/* What one call of files_drop() looks at, and lets go. A file takes some system calls. */
#define DROP_SLOTS 4096u
#define DROP_FILES 64u

int files_keep(struct files *s, u64 dev, u64 ino)
{
	struct held_file *f = files_find_held(s, dev, ino);

	if (!f)
		return -ENOENT;
	s->nr_kept += !f->kept;
	f->kept = true;
	return 0;
}

u64 files_drop(struct files *s, u64 from, u64 dev, u64 ino,
               struct look_dropped *ret_dropped)
{
	u64 nr = s->shape->nr_files;
	u64 end = from < nr && nr - from > DROP_SLOTS ? from + DROP_SLOTS : nr;
	struct look_dropped d = { 0 };

	for (; from < end && d.files < DROP_FILES; from++) {
		struct held_file *f = &s->slots[from];

		if (f->state == FILE_HELD &&
		    (ino == LOOK_ALL || (f->dev == dev && f->ino == ino))) {
			d.files++;
			d.open += f->nr_opens > 0;
			d.blocks += f->nr_frames;
			files_let_go(s, (u32)from);
		}
		d.busy += f->state == FILE_RETIRING;
	}
	/* The main loop takes the blocks back as it has time; see evict.c. */
	d.busy += s->orphans_left > 0;
	d.busy += worker_nr_closing(s->base);
	d.pinned = s->nr_orphans;
	*ret_dropped = d;
	return from < nr ? from : LOOK_END;
}

bool files_any_orphan(const struct files *s)
{
	return s->orphans_left > 0;
}

u64 files_nr_uncached(const struct files *s)
{
	u64 cached = host_load_relaxed(&s->arena->header->nr_cached) - s->nr_orphans;

	return s->held_blocks - cached;
}

void files_swept(struct files *s)
{
	s->sweep_round++;
}

void files_stat(const struct files *s, struct lodic_stat *stat)
{
	stat->files = s->nr_held;
	stat->direct_io = s->nr_direct;
}

bool files_any(const struct files *s)
{
	return s->nr_held > 0 || s->nr_orphans > 0;
}

bool files_any_kept(const struct files *s)
{
	return s->nr_kept > 0;
}

/* The two lists are the process's. What s has made for itself ends with old. */
void files_take_over(struct files *s, struct files *old)
{
	struct refused_list *refused = s->refused;
	struct pauses *pauses = s->pauses;

	s->refused = old->refused;
	old->refused = refused;
	s->pauses = old->pauses;
	old->pauses = pauses;
}
