/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The bytes of test files. They are a function of their offset, so that a test can check
 * every byte of every read. Zeros may stand for data only where the test itself truncates or
 * punches holes.
 */
#ifndef LODIC_TESTS_DATA_H
#define LODIC_TESTS_DATA_H

#include "base.h"

/*
 * The bytes that a file's beginning must have. All processes of a test share them, so that
 * the usual check is one memcmp().
 */
u8 *data_expected(size_t bytes);

/*
 * Compares what was read with what is expected. Returns the number of wrong bytes; the
 * first is at ret_at. With zeros_ok a byte that is 0 is not wrong. ret_zeros gets the number
 * of those that should not be 0.
 */
size_t data_check(const u8 *got, const u8 *expect, size_t bytes, bool zeros_ok,
                  size_t *ret_at, size_t *ret_zeros);

#endif
