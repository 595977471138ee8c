/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What generated mutants ask at run time: am I on? Only the copies of core/ and of lib/ that
 * check/mutate.py makes have this, and their searches. The environment chooses:
 *
 *   LODIC_GENERATED=N       mutant N is on
 *   LODIC_GENERATED_SEEN=F  the file F becomes GENERATED_MAX numbers of 4 bytes: how often
 *                           each mutant has asked
 */
#ifndef LODIC_CHECK_GENERATED_POINTS_H
#define LODIC_CHECK_GENERATED_POINTS_H

#include <stdbool.h>

/* No header of the C library: this comes before a file says which of its features it wants. */
#define GENERATED_MAX 32768u

extern unsigned int generated_now;
extern unsigned int *generated_seen;

static inline _Bool generated_at(unsigned int number)
{
	generated_seen[number]++;
	return __builtin_expect(generated_now == number, 0);
}

#endif
