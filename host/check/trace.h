/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Shows a schedule: a column for each task that took part, a line for each step. */
#ifndef LODIC_HOST_CHECK_TRACE_H
#define LODIC_HOST_CHECK_TRACE_H

#include <stdio.h>

void trace_begin(void);
void trace_end(FILE *out); /* prints to out what engine_schedule() did since */

#endif
