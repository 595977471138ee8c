/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Process spaces and rmap of core/owned: vmas in order, ptes in chunks, and the two ways to
 * a block's pte. Nothing counts here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/pte.h"
#include "core/owned/rmap.h"

#define NR_SPACES 3u
#define FILE_A 5u
#define FILE_B (FILE_A + RMAP_LISTS) /* stands in the same list */
#define FILE_C 6u

struct model {
	struct process_space spaces[NR_SPACES];
	struct rmap rmaps[RMAP_LISTS];
};

static int model_start(void **state)
{
	struct model *m = host_alloc(sizeof(*m), 64);

	for (u32 i = 0; i < NR_SPACES; i++)
		process_space_init(&m->spaces[i]);
	*state = m;
	return 0;
}

static void model_check(struct model *m)
{
	for (u32 i = 0; i < NR_SPACES; i++)
		process_space_check(&m->spaces[i]);
	rmap_check(m->rmaps, m->spaces, NR_SPACES);
}

static int model_stop(void **state)
{
	struct model *m = *state;

	model_check(m);
	for (u32 i = 0; i < NR_SPACES; i++)
		process_space_fini(&m->spaces[i]);
	host_free(m, sizeof(*m));
	return 0;
}

static struct vma *map(struct model *m, u32 space, u32 file, u64 first, u64 nr)
{
	struct vma *vma;
	u64 start;

	assert_int_equal(
		process_space_find_free(&m->spaces[space], first, nr, &vma, &start), 0);
	process_space_insert(&m->spaces[space], vma, start, file, first, nr);
	rmap_link(rmap_of(m->rmaps, file), vma);
	return vma;
}

static void unmap(struct model *m, struct vma *vma)
{
	rmap_unlink(rmap_of(m->rmaps, vma_file(vma)), vma);
	process_space_remove(vma->space, vma);
}

static void populate(struct model *m, u32 space, u64 page, u32 frame)
{
	assert_int_equal(process_space_populate(&m->spaces[space], page), 0);
	*process_space_pte(&m->spaces[space], page) = pte_make(frame);
}

static void find_free_goes_top_down(void **state)
{
	struct model *m = *state;
	struct vma *a = map(m, 0, FILE_A, 0, 10);
	struct vma *b = map(m, 0, FILE_B, 0, 20);
	struct vma *c = map(m, 0, FILE_C, 0, 30);

	assert_int_equal(a->start, SPACE_PAGES - 10);
	assert_int_equal(b->start, SPACE_PAGES - 30);
	assert_int_equal(c->start, SPACE_PAGES - 60);
	model_check(m);
	unmap(m, b);
	model_check(m);
	/* The highest gap that is large enough. */
	b = map(m, 0, FILE_B, 0, 21);
	assert_int_equal(b->start, SPACE_PAGES - 81);
	b = map(m, 0, FILE_B, 100, 5);
	assert_int_equal(b->start, SPACE_PAGES - 15);
	b = map(m, 0, FILE_B, 200, 15);
	assert_int_equal(b->start, SPACE_PAGES - 30);
}

static void find_free_bad_ranges_refused(void **state)
{
	struct model *m = *state;
	struct process_space *space = &m->spaces[0];
	struct vma *vma = NULL;
	u64 start = 77;

	assert_int_equal(process_space_find_free(space, 0, 0, &vma, &start), -EINVAL);
	assert_int_equal(process_space_find_free(space, 0, SPACE_PAGES + 1, &vma,
	                                         &start),
	                 -EINVAL);
	assert_int_equal(process_space_find_free(space, 0xffffffffu, 2, &vma, &start),
	                 -EINVAL);
	map(m, 0, FILE_A, 0xffffffffu, 1); /* a file's last block */
	assert_int_equal(process_space_find_free(space, 0, SPACE_PAGES, &vma, &start),
	                 -ENOMEM);
	assert_null(vma);
	assert_int_equal(start, 77);
	map(m, 0, FILE_A, 0, SPACE_PAGES - 1);
	assert_int_equal(process_space_find_free(space, 0, 1, &vma, &start), -ENOMEM);
}

static void find_free_all_vmas_used_enomem(void **state)
{
	struct model *m = *state;
	struct vma *vma;
	u64 start;

	for (u32 i = 0; i < SPACE_VMAS; i++)
		map(m, 0, FILE_A + i, i, 3);
	assert_int_equal(process_space_find_free(&m->spaces[0], 0, 1, &vma, &start),
	                 -ENOMEM);
}

static void vma_edges_of_a_mapping(void **state)
{
	struct model *m = *state;
	struct vma *a = map(m, 0, FILE_A, 0, 4);

	assert_ptr_equal(process_space_vma(&m->spaces[0], a->start), a);
	assert_ptr_equal(process_space_vma(&m->spaces[0], a->start + 3), a);
	assert_null(process_space_vma(&m->spaces[0], a->start - 1));
	assert_null(process_space_vma(&m->spaces[0], a->start + 4));
	assert_null(process_space_vma(&m->spaces[0], 0));
}

static void rmap_self_finds_only_what_is_mapped(void **state)
{
	struct model *m = *state;
	struct process_space *space = &m->spaces[1];
	struct vma *a = map(m, 1, FILE_A, 7, 4);
	u64 page = 0;

	assert_null(rmap_self(space, block_id(FILE_A, 8), &page)); /* no chunk yet */
	populate(m, 1, a->start + 1, 33);
	assert_ptr_equal(rmap_self(space, block_id(FILE_A, 8), &page),
	                 process_space_pte(space, a->start + 1));
	assert_int_equal(page, a->start + 1);
	assert_non_null(rmap_self(space, block_id(FILE_A, 7), &page));
	assert_non_null(rmap_self(space, block_id(FILE_A, 10), &page));
	assert_null(rmap_self(space, block_id(FILE_A, 6), &page));
	assert_null(rmap_self(space, block_id(FILE_A, 11), &page));
	/* The space ends after it, so a look at the page could not tell. */
	assert_null(process_space_vma_of_block(space, block_id(FILE_A, 6)));
	assert_ptr_equal(process_space_vma_of_block(space, block_id(FILE_A, 10)), a);
	assert_null(process_space_vma_of_block(space, block_id(FILE_A, 11)));
	assert_null(rmap_self(space, block_id(FILE_B, 8), &page));
	assert_null(rmap_self(&m->spaces[0], block_id(FILE_A, 8), &page));
	*process_space_pte(space, a->start + 1) = PTE_EMPTY;
	unmap(m, a);
	assert_null(rmap_self(space, block_id(FILE_A, 8), &page));
}

/* Two mappings of a block: the higher address is found (LODIC s.4.4.2). */
static void rmap_self_scans_downwards(void **state)
{
	struct model *m = *state;
	struct vma *high = map(m, 0, FILE_A, 0, 4);
	struct vma *low = map(m, 0, FILE_A, 0, 4);
	u64 page;

	assert_true(high->start > low->start);
	populate(m, 0, high->start, 1);
	populate(m, 0, low->start, 1);
	assert_non_null(rmap_self(&m->spaces[0], block_id(FILE_A, 0), &page));
	assert_int_equal(page, high->start);
}

/* The second mapping is first in the list, and has no ptes where the block is. */
static void rmap_self_by_file_passes_mapping_without_ptes(void **state)
{
	struct model *m = *state;
	struct process_space *space = &m->spaces[0];
	struct rmap *rmap = rmap_of(m->rmaps, FILE_A);
	struct vma *high = map(m, 0, FILE_A, 0, 4);
	struct vma *low = map(m, 0, FILE_A, 0, PTE_CHUNK);
	u64 page = 0;

	assert_null(rmap_self_by_file(rmap, space, block_id(FILE_A, 0), &page));
	populate(m, 0, high->start, 1);
	assert_null(process_space_pte(space, low->start));
	assert_ptr_equal(rmap_self_by_file(rmap, space, block_id(FILE_A, 0), &page),
	                 process_space_pte(space, high->start));
	assert_int_equal(page, high->start);
}

static void pte_outside_is_none(void **state)
{
	struct model *m = *state;

	assert_null(process_space_pte(&m->spaces[0], 0));
	assert_null(process_space_pte(&m->spaces[0], SPACE_PAGES));
	assert_null(process_space_pte(&m->spaces[0], ~(u64)0));
	assert_int_equal(process_space_populate(&m->spaces[0], 0), 0);
	assert_non_null(process_space_pte(&m->spaces[0], 0));
	assert_non_null(process_space_pte(&m->spaces[0], PTE_CHUNK - 1));
	assert_null(process_space_pte(&m->spaces[0], PTE_CHUNK));
}

static u32 walk(struct model *m, u64 block, u64 *ret_pages)
{
	struct rmap_walk w;
	u32 nr = 0;

	for (u64 *pte = rmap_all_first(&w, rmap_of(m->rmaps, block_file(block)), block);
	     pte; pte = rmap_all_next(&w)) {
		assert_ptr_equal(pte, process_space_pte(w.space, w.page));
		*ret_pages += w.page;
		nr++;
	}
	return nr;
}

static void rmap_all_finds_every_pte_of_the_block(void **state)
{
	struct model *m = *state;
	struct vma *vmas[4] = { map(m, 0, FILE_A, 0, 8), map(m, 1, FILE_A, 4, 8),
		                map(m, 2, FILE_A, 0, 3), map(m, 2, FILE_B, 0, 8) };
	struct vma *twice = map(m, 0, FILE_A, 5, 1);
	u64 pages = 0;

	for (u32 i = 0; i < 4; i++)
		populate(m, (u32)(vmas[i]->space - m->spaces), vmas[i]->start, 1);
	assert_int_equal(walk(m, block_id(FILE_A, 5), &pages), 3);
	assert_int_equal(pages, vmas[0]->start + 5 + vmas[1]->start + 1 + twice->start);
	pages = 0;
	assert_int_equal(walk(m, block_id(FILE_A, 0), &pages), 2);
	assert_int_equal(walk(m, block_id(FILE_B, 0), &pages), 1);
	assert_int_equal(walk(m, block_id(FILE_C, 0), &pages), 0);
	model_check(m);
	for (u32 i = 0; i < 4; i++)
		*process_space_pte(vmas[i]->space, vmas[i]->start) = PTE_EMPTY;
	unmap(m, vmas[1]);
	unmap(m, twice);
	model_check(m);
	pages = 0;
	assert_int_equal(walk(m, block_id(FILE_A, 5), &pages), 1);
	assert_int_equal(pages, vmas[0]->start + 5);
}

/* Random maps and unmaps keep P1 and V1. */
static void map_random_keeps_invariants(void **state)
{
	struct model *m = *state;
	struct vma *vmas[100] = { NULL };
	u64 random = 99;

	print_message("seed=99\n");
	for (u32 step = 0; step < 3000; step++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		u32 dice = (u32)(random >> 33);
		struct vma **at = &vmas[dice % 100];

		if (*at) {
			unmap(m, *at);
			*at = NULL;
		} else {
			*at = map(m, dice % NR_SPACES, FILE_A + dice / 256 % 3,
			          dice % 50, 1 + dice / 1024 % 600);
		}
		if (step % 16 == 0)
			rmap_check(m->rmaps, m->spaces, NR_SPACES);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(find_free_goes_top_down, model_start,
		                                model_stop),
		cmocka_unit_test_setup_teardown(find_free_bad_ranges_refused,
		                                model_start, model_stop),
		cmocka_unit_test_setup_teardown(find_free_all_vmas_used_enomem,
		                                model_start, model_stop),
		cmocka_unit_test_setup_teardown(vma_edges_of_a_mapping, model_start,
		                                model_stop),
		cmocka_unit_test_setup_teardown(rmap_self_finds_only_what_is_mapped,
		                                model_start, model_stop),
		cmocka_unit_test_setup_teardown(rmap_self_scans_downwards, model_start,
		                                model_stop),
		cmocka_unit_test_setup_teardown(
			rmap_self_by_file_passes_mapping_without_ptes, model_start,
			model_stop),
		cmocka_unit_test_setup_teardown(pte_outside_is_none, model_start,
		                                model_stop),
		cmocka_unit_test_setup_teardown(rmap_all_finds_every_pte_of_the_block,
		                                model_start, model_stop),
		cmocka_unit_test_setup_teardown(map_random_keeps_invariants,
		                                model_start, model_stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
