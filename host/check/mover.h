/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Faults that move a scenario's tasks to other CPUs. */
#ifndef LODIC_HOST_CHECK_MOVER_H
#define LODIC_HOST_CHECK_MOVER_H

/* After setup(): adds them as the last tasks, so that a scenario's numbers stay. It adds none
 * where there is but one CPU. */
void mover_add_all(void);

#endif
