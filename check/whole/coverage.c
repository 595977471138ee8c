/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Which calls of the door were made, and which of their errors were drawn. See search.h. */
#define _GNU_SOURCE
#include <string.h>

#include "check/whole/search.h"

/* Calls that no schedule makes, and errors that none draws, with the reason. */
static const struct reason {
	enum call call;
	int error; /* 0: the call itself */
	const char *why;
} reasons[] = {
	{ NR_CALLS, 0, "" },
};

static const char *reason_of(u32 call, int error)
{
	if (error == 0 && call_is_guest[call])
		return "the shim's: no scenario has it yet";
	for (u32 i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].call == call && reasons[i].error == error)
			return reasons[i].why;
	return NULL;
}

static u32 print_empty(u32 call, int error, FILE *to)
{
	const char *why = reason_of(call, error);

	fprintf(to, "%-32s %-12s %12s  %s\n", call_names[call],
	        error ? strerrorname_np(error) : "", "never",
	        why ? why : "AND NOBODY KNOWS WHY");
	return why == NULL;
}

u32 coverage_print(const struct tally *all, FILE *to)
{
	u32 nr_empty = 0;

	for (u32 i = 0; i < NR_CALLS; i++) {
		if (all->nr_called[i] == 0) {
			nr_empty += print_empty(i, 0, to);
			continue;
		}
		fprintf(to, "%-32s %-12s %12llu\n", call_names[i], "",
		        (unsigned long long)all->nr_called[i]);
		for (int k = 0; k < call_errnos[i].nr; k++)
			if (all->nr_failed_by[i][k] == 0)
				nr_empty += print_empty(i, call_errnos[i].errnos[k], to);
			else
				fprintf(to, "%-32s %-12s %12llu\n", "",
				        strerrorname_np(call_errnos[i].errnos[k]),
				        (unsigned long long)all->nr_failed_by[i][k]);
	}
	return nr_empty;
}
