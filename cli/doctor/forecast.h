/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* From the counts and the measured times to the gain. */
#ifndef LODIC_CLI_DOCTOR_FORECAST_H
#define LODIC_CLI_DOCTOR_FORECAST_H

#include "cli/doctor/doctor.h"

/* Fills in both gains, and what the counting took. */
void doctor_forecast(struct doctor *d);
/* How many times longer a read takes in the program than in the loop that was measured. The reads
 * are of one class of sizes, with so many bytes on average. */
double doctor_slower(const struct doctor *d, unsigned int class, double bytes);
struct series_spread doctor_price_spread(const struct doctor_price *p,
                                         enum doctor_state state, enum doctor_way way,
                                         unsigned int size);
/* Would the service cache it, as far as anybody knows? */
bool doctor_qualifies(const struct doctor_file *f, enum doctor_case in);
/* Does it map its files rather than read them? */
bool doctor_fits_holds(const struct doctor *d);
/* Bytes of reads that `lodic run` would serve. */
uint64_t doctor_covered_bytes(const struct doctor *d);
/* Why it would not serve this file, or serve it only in part; "": it would. */
const char *doctor_file_why(const struct doctor_file *f);

#endif
