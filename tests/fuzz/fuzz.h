/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the fuzzers of this folder share: options, and random numbers of its own for each
 * execution. `--executions N` says how many there are, `--from N` which is the first. A crash or a
 * hang prints the execution's number and the seed, and the two repeat it.
 */
#ifndef LODIC_TESTS_FUZZ_FUZZ_H
#define LODIC_TESTS_FUZZ_FUZZ_H

#include "tests/support/cache_fixture.h"

/* Reads the arguments, as fixture_begin() does. */
void fuzz_begin(int argc, char **argv, u64 nr_executions);
/* Begins the next execution, with its random numbers. false: that was the last one. */
bool fuzz_next(u64 *ret_random);
/* Prints how many there were, and what the program says of them. */
__attribute__((format(printf, 1, 2))) void fuzz_end(const char *format, ...);

#endif
