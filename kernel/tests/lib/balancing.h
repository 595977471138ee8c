/* SPDX-License-Identifier: GPL-2.0 */
/* How often NUMA balancing looks at a process. */
#ifndef LODIC_TESTS_BALANCING_H
#define LODIC_TESTS_BALANCING_H

#include "base.h"

/* All the time, or as Linux does otherwise. Returns 0 or -errno. */
int balancing_fast(bool fast);

#endif
