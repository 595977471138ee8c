/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The ratios that this project promises, of one measurement. */
#ifndef LODIC_BENCH_MEASURE_GOAL_H
#define LODIC_BENCH_MEASURE_GOAL_H

#include <stdarg.h>
#include <stdio.h>

#include <jansson.h>

#include "bench/measure/measure.h"

/* Prints each ratio beside what is promised; to: NULL prints nothing. Returns how many are
 * missed. What was not measured, or only roughly, is neither met nor missed. */
unsigned int goal_report(const struct measure *m, FILE *to);
json_t *goal_json(const struct measure *m);

#endif
