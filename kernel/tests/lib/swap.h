/* SPDX-License-Identifier: GPL-2.0 */
/* A swap file on ext4, so that pages of tmpfs can be swapped out. */
#ifndef LODIC_TESTS_SWAP_H
#define LODIC_TESTS_SWAP_H

#include "base.h"

/* Makes the file and swaps to it. Returns 0, or -errno if this machine cannot. */
int swap_on(void);

/* Reads everything back and removes the file. Fails the subtest if that does not work. */
void swap_off(void);

#endif
