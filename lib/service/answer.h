/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Answers that come later than the next request could. */
#ifndef LODIC_LIB_SERVICE_ANSWER_H
#define LODIC_LIB_SERVICE_ANSWER_H

#include "lib/service/state.h"

/* Answers each SYNC and STAT whose work is done. true: for another one there is work now. */
bool answer_waiting(struct service *s);

#endif
