/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The segment in which the processes of `lodic run --report` add up: preload/run_totals.h. */
#ifndef LODIC_CLI_REPORT_H
#define LODIC_CLI_REPORT_H

/* Makes it, and names it to the shim. It removes those whose programs were killed. Without System V
 * segments the report has no sums, and this is no error. 0, or -1 and errno as setenv(). */
int report_totals(void);

#endif
