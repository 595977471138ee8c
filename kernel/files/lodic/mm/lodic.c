// SPDX-License-Identifier: GPL-2.0
/*
 * Local references for readers of the page cache.
 *
 * A present page table entry of a file page owns one reference of its folio. All
 * processes that read the page share the folio's _refcount. A task that reads the
 * page, and whose own process maps it, counts itself in spare bits of the process's
 * entry instead. See Park et al.: "LODIC: Logical Distributed Counting for Scalable
 * File Access", USENIX ATC'21. To clear the entry, the kernel adds its count to
 * _refcount first. So a folio that no entry maps has an exact _refcount. Code that freezes a
 * folio unmaps it first, with LODIC or without, and needs to know nothing of this.
 *
 * The three loops on one entry are in mm/lodic_gate.h, a text that is shared with a
 * model checker. This file adds what it leaves open: how a reader finds the entry.
 *
 * Finding it is only a guess. A reference is valid because the reader changed, by
 * compare-and-swap, an entry that is present and leads to the folio. Interrupts are
 * off meanwhile, so that the entry's table cannot go away. So the reader takes no
 * lock of the mm, and an outdated hint costs a walk, not correctness:
 *
 *   1. Each CPU has a table of hints: this mm maps this range of this mapping
 *      there, or does not map it.
 *   2. When that fails and the mm's mappings have changed since, the reader walks
 *      over the VMAs from the top down, under RCU.
 *
 * The reader never uses i_mmap, because all readers would share its lock.
 *
 * An mm is marked (MMF_LODIC) before its first local reference, because mremap()
 * moves whole tables to other addresses, and a count must not move. mremap() looks
 * at the mark with the mmap_lock held for writing. The reader sets the mark with
 * the mmap_lock held for reading.
 */
#include <linux/lodic.h>
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/sched/coredump.h>
#include <linux/sched/mm.h>
#include <linux/sysctl.h>
#include <linux/vmstat.h>

#include <asm/lodic.h>

#include "lodic_host.h"
#include "lodic_count.h"
#include "lodic_gate.h"

#define CREATE_TRACE_POINTS
#include <trace/events/lodic.h>

#define LODIC_HINT_BITS 4
/* A walk gives up after so many VMAs: the reader then counts in _refcount. */
#define LODIC_WALK_MAX 256

/* Entries may hold counts: once on, never off. */
DEFINE_STATIC_KEY_FALSE(lodic_ptes);
EXPORT_SYMBOL_GPL(lodic_ptes);
/* New local references may be taken. */
DEFINE_STATIC_KEY_FALSE(lodic_refs);

static unsigned int lodic_mappers __read_mostly = 4;

#ifdef CONFIG_LODIC_DEBUG
unsigned int lodic_mutant __read_mostly;
unsigned int lodic_window __read_mostly;
#endif

/*
 * A reader compares mm and mapping, and never follows them: they may be gone, and
 * others may be at their place. seq is the mm's mm_lock_seq from before the walk.
 */
struct lodic_hint {
	struct mm_struct *mm;
	struct address_space *mapping;
	unsigned long start;	/* 0: a gap, the mm maps none of these */
	pgoff_t pgoff;
	unsigned long nr;	/* pages */
	unsigned int seq;
} ____cacheline_aligned;

static DEFINE_PER_CPU(struct lodic_hint[1 << LODIC_HINT_BITS], lodic_hints);

static struct lodic_hint *lodic_hint(struct mm_struct *mm,
				     struct address_space *mapping)
{
	unsigned long key = (unsigned long)mm ^ (unsigned long)mapping;

	return this_cpu_ptr(&lodic_hints[hash_long(key, LODIC_HINT_BITS)]);
}

static unsigned int lodic_seq(struct mm_struct *mm)
{
	return READ_ONCE(mm->mm_lock_seq.sequence);
}

/*
 * Does vma map index of mapping? If not, but others of it, *hint and *end become
 * the gap between them.
 */
static bool lodic_vma_maps(struct vm_area_struct *vma, struct address_space *mapping,
			   pgoff_t index, struct lodic_hint *hint, pgoff_t *end)
{
	bool maps = false;

	if (!vma_start_read(vma))
		return false;
	if (!vma->detached && vma->vm_file && vma->vm_file->f_mapping == mapping) {
		pgoff_t next = vma->vm_pgoff + vma_pages(vma);

		if (index >= next) {
			hint->pgoff = max(hint->pgoff, next);
		} else if (index < vma->vm_pgoff) {
			*end = min(*end, vma->vm_pgoff);
		} else {
			hint->start = vma->vm_start;
			hint->pgoff = vma->vm_pgoff;
			hint->nr = vma_pages(vma);
			maps = true;
		}
	}
	vma_end_read(vma);
	return maps;
}

/* Under RCU. It starts at the top: few VMAs are there, and new ones come below. */
static void lodic_walk(struct mm_struct *mm, struct address_space *mapping,
		       pgoff_t index, struct lodic_hint *hint)
{
	MA_STATE(mas, &mm->mm_mt, TASK_SIZE_MAX - 1, TASK_SIZE_MAX - 1);
	unsigned int left = LODIC_WALK_MAX;
	struct vm_area_struct *vma;
	pgoff_t end = ULONG_MAX;

	*hint = (struct lodic_hint){ .mm = mm, .mapping = mapping, .seq = lodic_seq(mm) };
	count_vm_event(LODIC_LOOKUP);
	while (left-- && (vma = mas_find_rev(&mas, 0))) {
		/* Only a look: lodic_vma_maps() takes the VMA's lock. */
		if (data_race(vma->vm_file) &&
		    lodic_vma_maps(vma, mapping, index, hint, &end))
			return;
	}
	hint->nr = end - hint->pgoff;
}

bool lodic_mm_counts(struct mm_struct *mm)
{
	return test_bit(MMF_LODIC, &mm->flags) && !MUTANT(TABLE_MOVES);
}

static bool lodic_mm_mark(struct mm_struct *mm)
{
	if (!mmap_read_trylock(mm))
		return false;
	set_bit(MMF_LODIC, &mm->flags);
	mmap_read_unlock(mm);
	return true;
}

static struct lodic_batch *lodic_batch(struct folio_batch *fbatch)
{
	return container_of(fbatch, struct lodic_batch, fbatch);
}

/*
 * Do many read folio, and nobody who could drop the reference, as
 * filemap_update_page() does? The caller does not hold it, and it may be a tail page
 * by now. So this uses none of the functions that check what they are given.
 */
static __always_inline bool lodic_wants(struct folio *folio)
{
	const unsigned long mask = BIT(PG_uptodate) | BIT(PG_readahead);
	unsigned long flags = READ_ONCE(folio->flags);
	int mappers;

	if ((flags & mask) != BIT(PG_uptodate))
		return false;
	/* How many mappings a page of it has, on average. */
	if (likely(!(flags & BIT(PG_head))))
		mappers = atomic_read(&folio->_mapcount) + 1;
	else
		mappers = (atomic_read(&folio->_large_mapcount) + 1) >>
			  /* Its order, or a number of somebody else's. */
			  (data_race(folio->_flags_1) & 31);
	return mappers >= (int)READ_ONCE(lodic_mappers);
}

static noinline bool lodic_traced(struct folio *folio, unsigned long addr)
{
	trace_lodic_ref(folio, addr);
	return true;
}

static __always_inline bool lodic_got(struct folio_batch *fbatch, unsigned long addr,
				      struct folio *folio)
{
	unsigned int i = folio_batch_count(fbatch);

	lodic_batch(fbatch)->addr[i] = addr;
	fbatch->lodic |= BIT(i);
	return trace_lodic_ref_enabled() ? lodic_traced(folio, addr) : true;
}

/* The page that was counted is not the one that the caller asked for. */
static noinline bool lodic_undo(u64 *pte, struct page *page)
{
	struct gate_frame frame = { page_to_pfn(page), 1 };
	bool local = pte_gate_unref(pte, frame);

	local_irq_enable();
	count_vm_event(LODIC_FALLBACK);
	if (local) {
		count_vm_event(LODIC_UNREF);
	} else {
		count_vm_event(LODIC_UNREF_GLOBAL);
		put_page(page);
	}
	return false;
}

static bool lodic_get_slowly(struct folio_batch *fbatch, struct address_space *mapping,
			     pgoff_t index, struct folio *folio);

/*
 * Takes a reference on folio where the hint says that its page is mapped. The folio
 * may have been freed and used for anything meanwhile. All calls come last, so that
 * the usual way saves no registers.
 */
static __always_inline bool
lodic_get_hinted(struct folio_batch *fbatch, struct address_space *mapping,
		 pgoff_t index, struct folio *folio, bool may_walk)
{
	struct page *page = folio_page(folio, index - folio->index);
	struct gate_frame frame = { page_to_pfn(page), 1 };
	struct mm_struct *mm = current->mm;
	struct lodic_hint *hint;
	unsigned long addr;
	u64 *pte;

	local_irq_disable();
	hint = lodic_hint(mm, mapping);
	if (unlikely(hint->mm != mm || hint->mapping != mapping ||
		     !test_bit(MMF_LODIC, &mm->flags) ||
		     index - hint->pgoff >= hint->nr))
		goto walk;
	addr = hint->start + ((index - hint->pgoff) << PAGE_SHIFT);
	if (unlikely(!hint->start || !lodic_pte(mm, addr, &pte) ||
		     !pte_gate_ref(pte, frame)))
		goto miss;
	__count_vm_event(LODIC_REF);
	/*
	 * We hold the page now, so its folio stands still. Is that the one? A tail
	 * page's word for the mapping holds something else. A count in the entry of
	 * another kind of page must be gone before interrupts are on. khugepaged takes
	 * tables of anonymous pages away with their entries, and waits for no more.
	 */
	if (unlikely(READ_ONCE(folio->mapping) != mapping) ||
	    unlikely(page != &folio->page && page_folio(page) != folio))
		return lodic_undo(pte, page);
	local_irq_enable();
	return lodic_got(fbatch, addr, folio);
miss:
	/* The hint is right while the mappings of this mm are what they were. */
	may_walk = may_walk && hint->seq != lodic_seq(mm);
walk:
	local_irq_enable();
	if (may_walk)
		return lodic_get_slowly(fbatch, mapping, index, folio);
	count_vm_event(LODIC_FALLBACK);
	return false;
}

/* Walks, and tries what it found. */
static noinline bool lodic_get_slowly(struct folio_batch *fbatch,
				      struct address_space *mapping, pgoff_t index,
				      struct folio *folio)
{
	struct mm_struct *mm = current->mm;
	struct lodic_hint found;

	if (!mm || (!test_bit(MMF_LODIC, &mm->flags) && !lodic_mm_mark(mm))) {
		count_vm_event(LODIC_FALLBACK);
		return false;
	}
	lodic_walk(mm, mapping, index, &found);
	local_irq_disable();
	*lodic_hint(mm, mapping) = found;
	local_irq_enable();
	return lodic_get_hinted(fbatch, mapping, index, folio, false);
}

static noinline bool lodic_get(struct folio_batch *fbatch, struct address_space *mapping,
			       pgoff_t index, struct folio *folio)
{
	return lodic_get_hinted(fbatch, mapping, index, folio, true);
}

bool __lodic_try_get(struct folio_batch *fbatch, struct address_space *mapping,
		     pgoff_t index, struct folio *folio)
{
	if (!(fbatch->lodic & LODIC_BATCH) || !lodic_wants(folio))
		return false;
	return lodic_get(fbatch, mapping, index, folio);
}

static noinline void lodic_put_traced(struct folio *folio, unsigned long addr)
{
	trace_lodic_unref(folio, addr, true);
}

/* The entry was cleared, and the count folded: the reference is in _refcount. */
static noinline void lodic_put_folded(struct folio *folio, unsigned long addr)
{
	trace_lodic_unref(folio, addr, false);
	count_vm_event(LODIC_UNREF_GLOBAL);
	folio_put(folio);
}

void __lodic_put(struct folio_batch *fbatch, unsigned int i, struct folio *folio)
{
	struct gate_frame frame = { folio_pfn(folio), folio_nr_pages(folio) };
	unsigned long addr = lodic_batch(fbatch)->addr[i];
	bool local;
	u64 *pte;

	fbatch->lodic &= ~BIT(i);
	local_irq_disable();
	local = lodic_pte(current->mm, addr, &pte) && pte_gate_unref(pte, frame);
	local_irq_enable();
	if (unlikely(!local)) {
		lodic_put_folded(folio, addr);
		return;
	}
	count_vm_event(LODIC_UNREF);
	if (trace_lodic_unref_enabled())
		lodic_put_traced(folio, addr);
}

/**
 * lodic_ptep_clear - empty a page table entry, its count first folded into _refcount
 * @ptep: of any kind; its lock is held
 *
 * Return: what the entry was, without its count.
 */
pte_t lodic_ptep_clear(pte_t *ptep)
{
	u64 pte = READ_ONCE(ptep->pte);

	/* Nobody counts in what is not present, and only we may make it present. */
	if (!gate_present(pte))
		return native_ptep_get_and_clear(ptep);
	pte = pte_gate_clear((struct gate_words){ }, (u64 *)ptep);
	if (unlikely(pte_count(pte))) {
		count_vm_event(LODIC_FOLD);
		count_vm_events(LODIC_FOLDED, pte_count(pte));
		trace_lodic_fold(pfn_folio(gate_pfn(pte)), pte_count(pte));
	}
	return __pte(pte & ~PTE_COUNT_MASK);
}
EXPORT_SYMBOL_GPL(lodic_ptep_clear);

/*
 * First all CPUs look for counts, then readers may take references. In between,
 * sections that had passed the branch must end. They run under a page table lock,
 * so with preemption off.
 */
static void lodic_switch(bool on)
{
	if (!on) {
		static_branch_disable(&lodic_refs);
		return;
	}
	if (!static_key_enabled(&lodic_ptes)) {
		static_branch_enable(&lodic_ptes);
		synchronize_rcu();
	}
	static_branch_enable(&lodic_refs);
}

/* Where the hypervisor shadows page tables, each count would be an exit. */
static bool lodic_can(void)
{
	return !boot_cpu_has(X86_FEATURE_XENPV);
}

static DEFINE_MUTEX(lodic_switch_lock);

static int lodic_sysctl(const struct ctl_table *table, int write, void *buffer,
			size_t *lenp, loff_t *ppos)
{
	int on = static_key_enabled(&lodic_refs);
	struct ctl_table local = {
		.data = &on,
		.maxlen = sizeof(on),
		.mode = table->mode,
		.extra1 = SYSCTL_ZERO,
		.extra2 = SYSCTL_ONE,
	};
	int err = proc_dointvec_minmax(&local, write, buffer, lenp, ppos);

	if (err || !write)
		return err;
	if (on && !lodic_can())
		return -EOPNOTSUPP;
	mutex_lock(&lodic_switch_lock);
	lodic_switch(on);
	mutex_unlock(&lodic_switch_lock);
	return 0;
}

static struct ctl_table lodic_sysctls[] = {
	{
		.procname	= "lodic",
		.mode		= 0644,
		.proc_handler	= lodic_sysctl,
	},
	{
		.procname	= "lodic_mappers",
		.data		= &lodic_mappers,
		.maxlen		= sizeof(lodic_mappers),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ONE,
		.extra2		= SYSCTL_INT_MAX,
	},
};

static bool lodic_at_boot __initdata;

static int __init lodic_param(char *arg)
{
	return kstrtobool(arg, &lodic_at_boot);
}
early_param("lodic", lodic_param);

static int __init lodic_init(void)
{
	register_sysctl("vm", lodic_sysctls);
	if (lodic_at_boot && !lodic_can())
		pr_warn("lodic: off: page tables are not our own\n");
	else if (lodic_at_boot)
		lodic_switch(true);
	return 0;
}
late_initcall(lodic_init);

#ifdef CONFIG_LODIC_DEBUG
static const char * const lodic_mutants[NR_MUTANTS] = {
	[MUTANT_NONE]			= "none",
	[MUTANT_CLEAR_BEFORE_FOLD]	= "fold-after-clear",
	[MUTANT_UNMAP_DROPS_COUNT]	= "unmap-drops-count",
	[MUTANT_UNREF_ANY_FRAME]	= "unref-any-frame",
	[MUTANT_REF_ANY_FRAME]		= "ref-any-frame",
	[MUTANT_TABLE_MOVES]		= "table-moves",
};

static ssize_t lodic_mutant_read(struct file *file, char __user *buf, size_t n,
				 loff_t *ppos)
{
	char text[32];
	int len = scnprintf(text, sizeof(text), "%s\n", lodic_mutants[lodic_mutant]);

	return simple_read_from_buffer(buf, n, ppos, text, len);
}

static ssize_t lodic_mutant_write(struct file *file, const char __user *buf, size_t n,
				  loff_t *ppos)
{
	char text[32] = { };
	int i;

	if (n >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, buf, n))
		return -EFAULT;
	i = sysfs_match_string(lodic_mutants, text);
	if (i < 0)
		return i;
	WRITE_ONCE(lodic_mutant, i);
	return n;
}

static const struct file_operations lodic_mutant_fops = {
	.owner	= THIS_MODULE,
	.read	= lodic_mutant_read,
	.write	= lodic_mutant_write,
};

static int __init lodic_debug_init(void)
{
	struct dentry *dir = debugfs_create_dir("lodic", NULL);

	debugfs_create_file("mutant", 0600, dir, NULL, &lodic_mutant_fops);
	debugfs_create_u32("window", 0600, dir, &lodic_window);
	return 0;
}
late_initcall(lodic_debug_init);
#endif

#ifdef CONFIG_LODIC_KUNIT_TEST
#include "tests/lodic_kunit.c"
#endif
