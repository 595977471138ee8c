/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic tier --kernel`: the knodes of a Linux with KLOC, as its sysfs and debugfs tell. */
#ifndef LODIC_CLI_TIER_KERNEL_H
#define LODIC_CLI_TIER_KERNEL_H

#include <stdbool.h>

/* Prints the settings, the counters and the knodes: of the files at paths (NULL-ended) or, without
 * paths, all of them. Returns the exit status. */
int tier_kernel(bool json, char *const *paths);

#endif
