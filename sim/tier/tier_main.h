/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic-sim tier`: argv[0] is what argp prints as the program's name. Returns the exit status. */
#ifndef LODIC_SIM_TIER_TIER_MAIN_H
#define LODIC_SIM_TIER_TIER_MAIN_H

int tier_main(int argc, char **argv);

#endif
