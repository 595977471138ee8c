/* SPDX-License-Identifier: GPL-2.0 */
/* The options that all test programs share. */
#ifndef LODIC_TESTS_OPTIONS_H
#define LODIC_TESTS_OPTIONS_H

#include "base.h"

struct options {
	u64 seed;
	u32 seconds;      /* per subtest */
	u32 procs;        /* 0: what the subtest says */
	u32 threads;      /* readers per process; 0: as procs */
	u32 window;       /* spins by which race windows are widened */
	u32 burst;        /* short reads after each that drops its destination */
	u32 mappers;      /* vm.lodic_mappers while the test runs */
	const char *only; /* name of the one subtest to run */
	const char *dir;  /* use this directory, mount nothing */
};

extern struct options opt;

/* Changes opt as the words lodic.slow, lodic.seconds and lodic.burst of the boot ask. */
void options_scale(void);

/* Fills in opt. Ends the program if an option is wrong. */
void options_parse(int argc, char **argv);

#endif
