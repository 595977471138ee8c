/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the library maps lies alone, between pages that nobody may read. So a look outside of it is
 * a crash, and not a look at what happens to lie there. For that the program is linked with
 * --wrap=huge_map and --wrap=huge_map_part (tests/fuzz/meson.build).
 */
#ifndef LODIC_TESTS_FUZZ_GUARD_H
#define LODIC_TESTS_FUZZ_GUARD_H

/* Reserves the addresses. */
void guard_begin(void);
/* All that was mapped since has been unmapped: the addresses are free again. */
void guard_reset(void);

#endif
