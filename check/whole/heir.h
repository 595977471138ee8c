/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A program that announces itself as a successor, and never serves. */
#ifndef LODIC_CHECK_WHOLE_HEIR_H
#define LODIC_CHECK_WHOLE_HEIR_H

#include "check/whole/world.h"

struct process *world_heir(void);
bool world_is_heir(const struct process *process);

#endif
