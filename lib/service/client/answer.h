/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Answers that come later than the next request could. */
/* The two call each other: the other half is client.h. */
#ifndef LODIC_LIB_SERVICE_CLIENT_ANSWER_H
#define LODIC_LIB_SERVICE_CLIENT_ANSWER_H

#include "lib/service/base/base.h"

struct clients;

/* What the program that asked hears of an error. It must not take a shortage of the service's for
 * one of its own. If descriptors are short the service gives some up: the program asks again, and
 * then there is one. */
int answer_error(struct clients *s, int error);
/* Answers each SYNC and STAT whose work is done. true: for another one there is work now. */
bool answer_waiting(struct clients *s);

#endif
