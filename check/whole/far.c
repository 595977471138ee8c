/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See world.h: a file whose server may never answer. */
#include "check/whole/world.h"

void world_visit_far(struct lodic *lodic, struct lodic_context *context)
{
	struct world_open open;

	if (!world_open(lodic, WORLD_FAR, &open))
		return;
	world_rounds(context, &open, 1, 1 + machine_draw(4));
	world_close(&open);
}
