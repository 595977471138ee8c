/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What changes the arena's size, and what has come along from the arena before. */
#ifndef LODIC_LIB_SERVICE_SUCCESSION_STATE_H
#define LODIC_LIB_SERVICE_SUCCESSION_STATE_H

#include "lib/look.h"
#include "lib/service/file/opens.h"

struct resize;

struct change {
	struct resize *resize;      /* under way; NULL: none is */
	struct look_resize resized; /* the last one, or that one */
	/* Files that programs had open in the arena before, open here for a while. */
	struct opens handed;
	u64 handed_until_ns;
};

#endif
