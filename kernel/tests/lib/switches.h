/* SPDX-License-Identifier: GPL-2.0 */
/* The files by which a test switches LODIC on, tunes it, and breaks it on purpose. */
#ifndef LODIC_TESTS_SWITCHES_H
#define LODIC_TESTS_SWITCHES_H

#include "base.h"

#define SYSCTL_FOLIOREF "/proc/sys/vm/folioref"
#define SYSCTL_MAPPERS "/proc/sys/vm/lodic_mappers"
#define DEBUG_WINDOW "/sys/kernel/debug/lodic/window"
#define DEBUG_MUTANT "/sys/kernel/debug/lodic/mutant"
#define DEBUG_LOOK "/sys/kernel/debug/lodic/look_window"
/* What no counter of /proc/vmstat tells. */
#define DEBUG_UNDONE "/sys/kernel/debug/lodic/undone"
#define DEBUG_MOST "/sys/kernel/debug/lodic/most"
#define DEBUG_ADDED "/sys/kernel/debug/lodic/added"

/* Whether the kernel's command line has that word. */
bool switches_word(const char *word);

/* What the boot chose by folioref=; "" if it did not. */
const char *switches_scheme(void);

/*
 * Switches LODIC on for the test. Returns false if this kernel has none, or does not switch
 * it on, or counts by another scheme. The test then shows only that reads are right without it.
 */
bool switches_on(void);

/* Sets the window and the threshold as they were at boot. */
void switches_restore(void);

#endif
