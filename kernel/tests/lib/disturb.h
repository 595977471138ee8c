/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Disturbers: each does one thing to the pages or the entries that a crew's readers count
 * on. Those that take a seat run in the reader's process, the others in the parent. race.c
 * runs the tables; stress.c picks from the functions.
 */
#ifndef LODIC_TESTS_DISTURB_H
#define LODIC_TESTS_DISTURB_H

#include "race.h"
#include "seat.h"

/* The races of the files of these names. */
extern const struct race_table disturb_map, disturb_file, disturb_move, disturb_machine;

void disturb_munmap(struct seat *s);
void disturb_map_fixed(struct seat *s);
void disturb_mremap_pte(struct seat *s);
void disturb_mremap_pmd(struct seat *s);
void disturb_mprotect(struct seat *s);
void disturb_fork(struct seat *s);
void disturb_madv_dontneed(struct seat *s);
void disturb_madv_cold(struct seat *s);
void disturb_madv_pageout(struct seat *s);
void disturb_clear_refs(struct seat *s);
void disturb_fadvise(struct running *r);
void disturb_drop_caches(struct running *r);
void disturb_truncate(struct running *r);
void disturb_punch(struct running *r);
void disturb_kill(struct running *r);
void disturb_split(struct running *r);
void disturb_compact(struct running *r);
void disturb_move_pages(struct running *r);
void disturb_migrate_pages(struct running *r);
bool disturb_two_nodes(void);

#endif
