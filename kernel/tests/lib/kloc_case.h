/* SPDX-License-Identifier: GPL-2.0 */
/* What the tests of KLOC's rules share: a file to move, where it must be, and how cases run. */
#ifndef LODIC_TESTS_KLOC_CASE_H
#define LODIC_TESTS_KLOC_CASE_H

#include "kloc.h"

#define BYTES (4ul << 20)
#define PAGES ((long)(BYTES / PAGE))

/* The file that a case uses. */
extern struct kloc_at {
	const char *dir; /* of the file system */
	char path[200];
	u8 *data; /* what the file has */
	u8 *dest;
} kloc_at;

struct kloc_case {
	const char *name, *dir;
	void (*run)(void);
};

/* A rule that is broken in the kernel, and the case that must notice. */
struct kloc_control {
	const char *mutant, *name;
};

int kloc_must_open(const char *name, int flags);

/* The data is right, however it has moved. */
void kloc_check_data(int fd, size_t bytes);

/* A file on disk, of which nothing is cached. */
void kloc_make(void);

/* Open, and all of it cached. tmpfs has it cached in any case, and where it went at its close. */
int kloc_open_cached(void);

void kloc_expect_state(const char *when, int fd, const char *state, u32 opens);

/* Where the pages of a closed file are: to look by a mapping would open it. */
void kloc_expect_closed(const char *when, long fast, long slow);

/* Runs the cases, and then the controls. Returns the program's status. */
int kloc_cases_main(int argc, char **argv, const struct kloc_case *cases, u32 nr_cases,
                    const struct kloc_control *controls, u32 nr_controls);

#endif
