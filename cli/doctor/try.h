/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A private service, and what reads cost on this machine. */
#ifndef LODIC_CLI_DOCTOR_TRY_H
#define LODIC_CLI_DOCTOR_TRY_H

#include "cli/doctor/doctor.h"

/* Fills in what services say of each file, the promise, and the prices. Says nothing. */
void doctor_try(struct doctor *d);

#endif
