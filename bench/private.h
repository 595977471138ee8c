/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The control: not a way of counting but what is left when there is nothing to share. Each
 * user adds to plain words of his own, one line per object as atomic has, by the same calls
 * and the same walk. Over many objects the CPU's caches miss; what a scheme costs beyond
 * this row is the scheme.
 */
#ifndef LODIC_BENCH_PRIVATE_H
#define LODIC_BENCH_PRIVATE_H

#include "core/count/count.h"

extern const struct count_scheme private_control;

#endif
