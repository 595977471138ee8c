/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The control: no way of counting, but what is left when nothing is shared. Each user adds
 * to plain words of its own, one line per object as atomic has, by the same calls and the
 * same walk. Over many objects the CPU's caches miss here too. So the scheme itself costs
 * what its row has beyond this one.
 */
#ifndef LODIC_BENCH_PRIVATE_H
#define LODIC_BENCH_PRIVATE_H

#include "core/count/count.h"

extern const struct count_scheme private_control;

#endif
