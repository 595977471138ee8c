/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What happens in a case of hold.c to the page that readers hold: one function each. An act
 * returns 0, or -errno if this machine cannot do it. It fails the subtest if the kernel did
 * what it must not do while references are held.
 */
#ifndef LODIC_TESTS_ACT_H
#define LODIC_TESTS_ACT_H

#include "held.h"

/* act_map.c: in the reader's own address space. */
int act_nothing(struct held *h);
int act_munmap(struct held *h);
int act_map_fixed(struct held *h);
int act_map_again(struct held *h);
int act_mremap_pte(struct held *h);
int act_mremap_pmd(struct held *h);
int act_mprotect_none(struct held *h);
int act_mprotect_read(struct held *h);
int act_dontneed(struct held *h);
int act_cow(struct held *h);
int act_write_fault(struct held *h);
int act_write_back(struct held *h);
int act_wp_async(struct held *h);
int act_fork(struct held *h);
int act_fork_private(struct held *h);
int act_vfork(struct held *h);
int act_into_own(struct held *h);
int act_clear_refs(struct held *h);

/* act_file.c: to the file, to the memory behind the page, or to the whole machine. */
int act_truncate(struct held *h);
int act_punch(struct held *h);
int act_pageout(struct held *h);
int act_move_pages(struct held *h);
int act_fadvise(struct held *h);
int act_direct_write(struct held *h);
int act_collapse(struct held *h);
int act_soft_offline(struct held *h);
int act_hwpoison(struct held *h);
int act_switch_off(struct held *h);

#endif
