/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic-sim cache`: argv[0] is what argp prints as the program's name. Returns the exit status. */
#ifndef LODIC_SIM_CACHE_CACHE_MAIN_H
#define LODIC_SIM_CACHE_CACHE_MAIN_H

int cache_main(int argc, char **argv);

#endif
