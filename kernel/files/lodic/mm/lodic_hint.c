// SPDX-License-Identifier: GPL-2.0
/*
 * Where a process maps a page: hints of each CPU, and the walk over the VMAs that makes
 * them. All of it is a guess, see mm/lodic.c.
 */
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/vmstat.h>

#include "lodic.h"

/* One for each CPU, made at the first start. */
struct lodic_hints {
	struct lodic_hint hint[1 << LODIC_SET_BITS][LODIC_WAYS];
};

static DEFINE_PER_CPU(struct lodic_hints *, lodic_hints);
/* Which hint of a full set goes next. */
static DEFINE_PER_CPU(unsigned int, lodic_turn);
DEFINE_PER_CPU(struct lodic_hint *, lodic_last);

static struct lodic_hint *lodic_set(u64 mm_id, struct address_space *mapping)
{
	u64 key = (mm_id * GOLDEN_RATIO_64 ^ (unsigned long)mapping) * GOLDEN_RATIO_64;

	/* Inodes lie at equal distances, and one product would keep many of them together. */
	return this_cpu_read(lodic_hints)->hint[hash_64(key ^ key >> 32, LODIC_SET_BITS)];
}

/* The hint for index, or NULL; rather one that leads somewhere. Interrupts are off. */
struct lodic_hint *lodic_find(u64 mm_id, struct address_space *mapping,
			      pgoff_t index)
{
	struct lodic_hint *set = lodic_set(mm_id, mapping);
	struct lodic_hint *gap = NULL;
	int i;

	for (i = 0; i < LODIC_WAYS; i++) {
		if (!lodic_hint_fits(&set[i], mm_id, mapping, index))
			continue;
		if (set[i].maps)
			return &set[i];
		gap = &set[i];
	}
	return gap;
}

/* The hint's pages in the table that has index's entry: the next reader needs no walk. */
void lodic_hint_table(struct lodic_hint *hint, pgoff_t index, u64 *pte,
		      unsigned long tables)
{
	pgoff_t begin = hint->first - hint->before, end = begin + hint->nr;
	unsigned long slot = ((unsigned long)pte & ~PAGE_MASK) / sizeof(*pte);
	pgoff_t first = index - min(slot, index - begin);

	hint->here = min(end - index, PTRS_PER_PTE - slot) + index - first;
	hint->first = first;
	hint->before = first - begin;
	hint->pte = pte - (index - first);
	hint->tables = tables;
}

/* Where a new hint goes: over an empty one, a gap, or any. Interrupts are off. */
static struct lodic_hint *lodic_victim(u64 mm_id, struct address_space *mapping)
{
	struct lodic_hint *set = lodic_set(mm_id, mapping);
	int i;

	for (i = 0; i < LODIC_WAYS; i++)
		if (!set[i].maps)
			return &set[i];
	return &set[__this_cpu_inc_return(lodic_turn) % LODIC_WAYS];
}

/*
 * Does vma map index of mapping? If not, but others of it, the hint's first and *end
 * become the gap between them.
 */
static bool lodic_vma_maps(struct vm_area_struct *vma, struct address_space *mapping,
			   pgoff_t index, struct lodic_hint *hint, pgoff_t *end)
{
	bool maps = false;

	if (!vma_start_read(vma)) {
		hint->seq--; /* It may map it: whatever the walk finds is not to last. */
		return false;
	}
	if (!vma->detached && vma->vm_file && vma->vm_file->f_mapping == mapping) {
		pgoff_t next = vma->vm_pgoff + vma_pages(vma);

		if (index >= next) {
			hint->first = max(hint->first, next);
		} else if (index < vma->vm_pgoff) {
			*end = min(*end, vma->vm_pgoff);
		} else {
			hint->base = vma->vm_start - (vma->vm_pgoff << PAGE_SHIFT);
			hint->first = vma->vm_pgoff;
			hint->maps = true;
			*end = next;
			maps = true;
		}
	}
	vma_end_read(vma);
	return maps;
}

/*
 * Under RCU. It starts at the top: few VMAs are there, and new ones come below. Or it
 * goes on with the gap that hint is. Returns true if it has found the VMA. If it has not,
 * and hint->rest is 0, there is none.
 */
bool lodic_walk(struct mm_struct *mm, struct address_space *mapping, pgoff_t index,
		struct lodic_hint *hint)
{
	unsigned long top = hint->rest ?: TASK_SIZE_MAX - 1;

	MA_STATE(mas, &mm->mm_mt, top, top);
	pgoff_t end = hint->rest ? hint->first + hint->nr : ULONG_MAX;
	unsigned int left = LODIC_WALK_MAX;
	struct vm_area_struct *vma;
	bool maps = false;

	if (!hint->rest) {
		hint->first = 0;
		hint->seq = lodic_seq(mm);
	}
	hint->rest = 0;
	hint->before = 0;
	hint->here = 0;
	hint->maps = false;
	count_vm_event(LODIC_LOOKUP);
	while (!maps && (vma = mas_find_rev(&mas, 0))) {
		/* Only a look: lodic_vma_maps() takes the VMA's lock. */
		maps = data_race(vma->vm_file) &&
		       lodic_vma_maps(vma, mapping, index, hint, &end);
		if (!--left && !maps) {
			hint->rest = mas.index ? mas.index - 1 : 0;
			break;
		}
	}
	/* More than a hint can say is as good as nothing: it says what it can. */
	hint->nr = min_t(unsigned long, end - hint->first, U32_MAX);
	if (!maps && !hint->rest)
		hint->here = min_t(u32, hint->nr, U16_MAX);
	return maps;
}

/* Remembers what a walk has found, or that it was in vain. Interrupts are off. */
void lodic_remember(struct lodic_hint *found)
{
	struct lodic_hint *hint = lodic_find(found->mm_id, found->mapping, found->first);
	bool news = found->maps ? !hint || !hint->maps || hint->base != found->base :
				  found->rest;

	found->vain = news || !hint ? 0 : min(hint->vain + 1, LODIC_BACKOFF_MAX);
	found->skip = (1 << found->vain) - 1;
	if (!hint)
		hint = lodic_victim(found->mm_id, found->mapping);
	*hint = *found;
	this_cpu_write(lodic_last, hint);
}

int lodic_hints_make(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct lodic_hints **hints = &per_cpu(lodic_hints, cpu);

		if (!*hints)
			*hints = kvzalloc_node(sizeof(**hints), GFP_KERNEL, cpu_to_node(cpu));
		if (!*hints)
			return -ENOMEM;
		/* No generation grew while nobody looked for counts. */
		memset(*hints, 0, sizeof(**hints));
		per_cpu(lodic_last, cpu) = &(*hints)->hint[0][0];
	}
	return 0;
}
