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
 * model checker. What it leaves open is how a reader finds the entry: lodic_hint.c has
 * hints and the walk, lodic_read.c the reader. This file clears entries and switches.
 *
 * Finding it is only a guess. A reference is valid because the reader changed, by
 * compare-and-swap, an entry that is present and leads to the folio. Interrupts are
 * off meanwhile, so that the entry's table cannot go away. So the reader takes no
 * lock of the mm, and an outdated hint costs a walk, not correctness:
 *
 *   1. Each CPU has a table of hints: this mm maps this range of this mapping
 *      there, or does not map it. The CPU tries the hint that it used last first.
 *   2. A hint also leads to one page table of its range. The pointer is good while
 *      the mm's generation of tables is what it was before the table was found.
 *   3. When no hint fits, or the mm's mappings have changed since, the reader walks
 *      over the VMAs from the top down, under RCU. It goes on where the walk before
 *      stopped. After each walk in vain the next waits for twice as many readers.
 *
 * The reader never uses i_mmap, because all readers would share its lock.
 *
 * An mm is marked (MMF_LODIC) before its first local reference, because mremap()
 * moves whole tables to other addresses, and a count must not move. mremap() looks
 * at the mark with the mmap_lock held for writing. The reader sets the mark with
 * the mmap_lock held for reading. An mm that maps none of what it reads is not marked.
 */
#include <linux/lodic.h>
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched/coredump.h>
#include <linux/sysctl.h>
#include <linux/vmstat.h>

#include "folioref.h"
#include "lodic.h"
#include "lodic_host.h"
#include "lodic_count.h"
#include "lodic_gate.h"

#define CREATE_TRACE_POINTS
#include <trace/events/lodic.h>

/* Entries may hold counts. */
DEFINE_STATIC_KEY_FALSE(lodic_ptes);

#ifdef CONFIG_LODIC_DEBUG
unsigned int lodic_mutant __read_mostly;
unsigned int lodic_window __read_mostly;
unsigned int lodic_look_window __read_mostly;
bool lodic_get_shows __read_mostly;
bool lodic_set_drops __read_mostly;
struct lodic_witness lodic_witness;
#endif

bool lodic_mm_counts(struct mm_struct *mm)
{
	return test_bit(MMF_LODIC, &mm->flags) && !MUTANT(TABLE_MOVES);
}

void __lodic_table_gone(struct mm_struct *mm)
{
	if (!MUTANT(TABLE_STAYS))
		lodic_tables_change(mm);
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

#ifdef CONFIG_LODIC_DEBUG
/*
 * Called by set_pte() and set_ptes(): the old entry's count is lost. A new table of the
 * kernel's own mappings may hold anything before it is filled, so that is no entry.
 */
void lodic_overwritten(pte_t old, pte_t new)
{
	pteval_t both = new.pte & (_PAGE_PRESENT | _PAGE_USER);

	if (!lodic_ptes_count() || !(old.pte & _PAGE_USER) || both == _PAGE_PRESENT)
		return;
	WARN_ONCE(1, "lodic: %016lx overwrites %016lx\n",
		  (unsigned long)pte_val(new), (unsigned long)old.pte);
}
#endif

static void lodic_check_bits(void)
{
	/* What the gate counts in is what the architecture gives, all of it. */
	BUILD_BUG_ON(PTE_COUNT_MASK != _PAGE_LODIC);
	BUILD_BUG_ON(PTE_COUNT_SHIFT != _PAGE_BIT_LODIC);
	/* The hardware does not look at the bits, and nobody else in Linux does. */
	BUILD_BUG_ON(_PAGE_LODIC & (GENMASK_ULL(51, 0) | _PAGE_NX));
	BUILD_BUG_ON(_PAGE_LODIC & BIT_ULL(_PAGE_BIT_DEVMAP));
	BUILD_BUG_ON(_PAGE_LODIC & BIT_ULL(_PAGE_BIT_SAVED_DIRTY));
	BUILD_BUG_ON(_PAGE_LODIC & GENMASK_ULL(_PAGE_BIT_PKEY_BIT3, _PAGE_BIT_PKEY_BIT0));
	/* A mark is of one mm: fork() and exec() do not pass it on. */
	BUILD_BUG_ON(MMF_INIT_MASK & BIT(MMF_LODIC));
	BUILD_BUG_ON(sizeof(struct lodic_hint) != 64);
}

/*
 * First all CPUs look for counts, then readers may take references. In between,
 * sections that had passed the branch must end. They run under a page table lock,
 * so with preemption off.
 */
static int lodic_start(void)
{
	lodic_check_bits();
	/* On Xen PV the tables are not our own: each count would be an exit. */
	if (boot_cpu_has(X86_FEATURE_XENPV))
		return -EOPNOTSUPP;
	if (!static_key_enabled(&lodic_ptes)) {
		int err = lodic_hints_make();

		if (err)
			return err;
		if (MUTANT(REFS_BEFORE_PTES))
			return 0;
		static_branch_enable(&lodic_ptes);
		synchronize_rcu();
	}
	return 0;
}

/* Is a reference out? A reader counts an event after each step, never before. */
static bool lodic_is_out(void)
{
	static unsigned long events[NR_VM_EVENT_ITEMS];

	if (!IS_ENABLED(CONFIG_VM_EVENT_COUNTERS))
		return true;
	all_vm_events(events);
	return events[LODIC_REF] != events[LODIC_UNREF] + events[LODIC_UNREF_GLOBAL];
}

/*
 * No reader takes references any more. When all are back, no entry has a count, and
 * clearing costs what it costs without LODIC. Readers who sleep in a page fault may
 * keep it from that; then the next vm.folioref=0 tries again.
 */
static void lodic_stop(void)
{
	if (static_key_enabled(&lodic_ptes) &&
	    (!lodic_is_out() || MUTANT(OFF_TOO_EARLY)))
		static_branch_disable(&lodic_ptes);
}

const struct folioref_scheme lodic_scheme = {
	.name		= "lodic",
	.try_get	= lodic_try_get,
	.put		= lodic_put,
	.start		= lodic_start,
	.stop		= lodic_stop,
};

static struct ctl_table lodic_sysctls[] = {
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

static int __init lodic_init(void)
{
	register_sysctl("vm", lodic_sysctls);
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
	[MUTANT_TABLE_STAYS]		= "table-stays",
	[MUTANT_GET_SHOWS]		= "get-shows-count",
	[MUTANT_SET_DROPS]		= "set-drops-count",
	[MUTANT_NO_SECOND_LOOK]		= "no-second-look",
	[MUTANT_REFS_BEFORE_PTES]	= "refs-before-ptes",
	[MUTANT_OFF_TOO_EARLY]		= "off-too-early",
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
	WRITE_ONCE(lodic_get_shows, i == MUTANT_GET_SHOWS);
	WRITE_ONCE(lodic_set_drops, i == MUTANT_SET_DROPS);
	return n;
}

static const struct file_operations lodic_mutant_fops = {
	.owner	= THIS_MODULE,
	.read	= lodic_mutant_read,
	.write	= lodic_mutant_write,
};

static int lodic_added_get(void *data, u64 *val)
{
	*val = atomic_long_read(&lodic_witness.added);
	return 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(lodic_added_fops, lodic_added_get, NULL, "%llu\n");

static int __init lodic_debug_init(void)
{
	struct dentry *dir = debugfs_create_dir("lodic", NULL);

	debugfs_create_file("mutant", 0600, dir, NULL, &lodic_mutant_fops);
	debugfs_create_u32("window", 0600, dir, &lodic_window);
	debugfs_create_u32("look_window", 0600, dir, &lodic_look_window);
	debugfs_create_atomic_t("undone", 0400, dir, &lodic_witness.undone);
	debugfs_create_atomic_t("most", 0400, dir, &lodic_witness.most);
	debugfs_create_file("added", 0400, dir, NULL, &lodic_added_fops);
	return 0;
}
late_initcall(lodic_debug_init);
#endif

#ifdef CONFIG_LODIC_KUNIT_TEST
#include "tests/lodic_kunit.c"
#endif
