/* SPDX-License-Identifier: GPL-2.0 */
/* KLOC's files in sysfs and debugfs, and where the pages of a file are. */
#ifndef LODIC_TESTS_KLOC_H
#define LODIC_TESTS_KLOC_H

#include "base.h"

#define KLOC_DIR "/sys/kernel/mm/kloc/"
#define KLOC_DEBUG "/sys/kernel/debug/kloc/"
#define KLOC_MUTANT KLOC_DEBUG "mutant"

/* Pages of a file on the two nodes: 0 is fast, 1 slow. */
struct kloc_where {
	long fast, slow;
};

/* A knode, as debugfs kloc/knodes says. */
struct kloc_knode {
	char state[12];
	u32 opens, age, moves;
	struct kloc_where pages;
};

/* Whether this kernel has KLOC, and this machine two tiers. */
bool kloc_there(void);

/* Writes a setting; ends the program if it cannot. */
void kloc_set(const char *name, const char *value);

/* Settings as at boot, but for ticks: they come from kloc_tick() alone. */
void kloc_reset(void);

/* A line of KLOC_DIR "stat"; -1: there is none. */
long long kloc_stat(const char *name);

/* How many opens have had no close yet. */
long long kloc_open_now(void);

/*
 * Nothing is at work any more. Fails the subtest unless as many are open as then, and no page is
 * isolated.
 */
void kloc_check_sums(long long opens);

void kloc_tick(u32 times);

/* Waits until nothing moves. */
void kloc_wait(void);

/* The knode of an inode. Returns false if it has none. */
bool kloc_knode(const struct stat *st, struct kloc_knode *ret);

/* Where the cached pages of an open file are, by move_pages(2) on a mapping made for that. */
struct kloc_where kloc_where(int fd, size_t bytes);

/* Fails the subtest if the pages are elsewhere. */
void kloc_expect(const char *when, int fd, size_t bytes, long fast, long slow);

#endif
