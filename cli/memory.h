/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic bench memory`: what the cache's own tables cost. */
#ifndef LODIC_CLI_MEMORY_H
#define LODIC_CLI_MEMORY_H

int bench_memory(int argc, char **argv);

#endif
