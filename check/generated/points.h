/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What generated mutants ask at run time: am I on? Only the copy of core/ that check/mutate.py
 * makes has this, and its lodic-check. The environment chooses:
 *
 *   LODIC_GENERATED=N       mutant N is on
 *   LODIC_GENERATED_SEEN=F  the file F becomes GENERATED_MAX numbers of 4 bytes: how often
 *                           each mutant has asked
 */
#ifndef LODIC_CHECK_GENERATED_POINTS_H
#define LODIC_CHECK_GENERATED_POINTS_H

#include <stdbool.h>
#include <stdint.h>

#define GENERATED_MAX 16384u

extern uint32_t generated_now;
extern uint32_t *generated_seen;

static inline bool generated_at(uint32_t number)
{
	generated_seen[number]++;
	return __builtin_expect(generated_now == number, 0);
}

#endif
