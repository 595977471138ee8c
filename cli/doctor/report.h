/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the doctor found: for people, and for machines (json.c). */
#ifndef LODIC_CLI_DOCTOR_REPORT_H
#define LODIC_CLI_DOCTOR_REPORT_H

#include "cli/doctor/doctor.h"

extern const char *const doctor_way_names[DOCTOR_WAYS];
void doctor_print(const struct doctor *d);
/* -errno */
int doctor_write_json(const struct doctor *d);

#endif
