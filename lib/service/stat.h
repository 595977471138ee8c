/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The numbers behind lodic_stat(). */
#ifndef LODIC_LIB_SERVICE_STAT_H
#define LODIC_LIB_SERVICE_STAT_H

#include "lib/service/state.h"

void stat_collect(const struct service *s, struct lodic_stat *ret_stat);

#endif
