/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Commands of lodic-sim: argv[0] is the command's name. Exit status. */
#ifndef LODIC_SIM_FIGURES_FIG_MAIN_H
#define LODIC_SIM_FIGURES_FIG_MAIN_H

int fig_main(int argc, char **argv);
int fig_micro_main(int argc, char **argv);

#endif
