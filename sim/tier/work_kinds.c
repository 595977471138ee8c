/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* All workloads of work_list.h, in its order. */
#include "sim/tier/work.h"

#define WORK_KIND(kind) extern const struct work_kind work_##kind;
#include "sim/tier/work_list.h"
#undef WORK_KIND

#define WORK_KIND(kind) &work_##kind,
const struct work_kind *const work_kinds[] = {
#include "sim/tier/work_list.h"
};
#undef WORK_KIND
const u32 work_nr_kinds = sizeof(work_kinds) / sizeof(*work_kinds);
