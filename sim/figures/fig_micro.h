/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The simulated half of the validation: what `lodic-sim micro` prints. */
#ifndef LODIC_SIM_FIGURES_FIG_MICRO_H
#define LODIC_SIM_FIGURES_FIG_MICRO_H

#include "sim/figures/fig.h"

/* Measures and prints every step on 1 and 2 CPUs. 0 or -errno. */
int fig_micro(struct fig_run *run, const char *topology, const char *parameters,
              bool json);

#endif
