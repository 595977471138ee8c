// SPDX-License-Identifier: GPL-2.0
/*
 * PAYGO: references of readers in tables of their CPUs.
 *
 * All readers of a folio share its _refcount. A reader here counts itself in a small
 * hash table of its CPU instead, by plain loads and stores with preemption off. If it
 * runs on another CPU when it drops the reference, it adds to a second word of the same
 * entry. See Jung et al.: "Pay Migration Tax to Homeland", FAST'19.
 *
 * The paper asks all tables before it frees a folio. Here an open entry owns one
 * reference in _refcount, as a page table entry does. So code that freezes a folio, or
 * expects a count, fails while an entry is open, and needs to know nothing of this. That
 * is safe, but such code must get on. So entries are made only where CPUs contend for
 * _refcount, and fold soon: their live count goes into _refcount, and the entry closes.
 * Documentation/mm/paygo.rst says which code folds, and which waits for it.
 *
 * The functions on one entry are in mm/paygo_gate.h, a text that is shared with a model
 * checker. This file adds tables, and the times at which they fold.
 *
 * "Home" in that text is a task that runs on the table's CPU with preemption off. No
 * interrupt touches a table. A table whose CPU is dead belongs to the CPU hotplug
 * callback.
 */
#include <linux/cpuhotplug.h>
#include <linux/folioref.h>
#include <linux/hash.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/oom.h>
#include <linux/pagemap.h>
#include <linux/paygo.h>
#include <linux/percpu.h>
#include <linux/sched/isolation.h>
#include <linux/vmstat.h>
#include <linux/workqueue.h>

#include "folioref.h"
#include "internal.h"
#include "paygo_host.h"
#include "paygo_gate.h"

/* A bucket is one cache line of 64 bytes: a look at it costs one miss at most. */
#define PAYGO_WAYS 2
/*
 * Entries of a CPU. A reader that finds its bucket full counts in _refcount. 512 are
 * 16 KiB, which is half of a level 1 cache, and hold 2 MiB in folios of one page.
 */
#define PAYGO_ENTRIES 512
#define PAYGO_ENTRIES_MIN 64
#define PAYGO_ENTRIES_MAX 4096
/* All tables together may hold so much of memory: a 64th. */
#define PAYGO_HELD_SHIFT 6
/* But each as much as one folio of 2 MiB, so that small machines can use them. */
#define PAYGO_HELD_MIN (2ul << 20)
/* An entry that nobody hit in a whole turn folds. */
#define PAYGO_TURN HZ
/* Home looks at so many entries with preemption off. */
#define PAYGO_SCAN 64

struct paygo_table {
	struct paygo_entry *entries;
	/* Home writes these. Others read open, to see whether a fold is worth while. */
	unsigned int open;	/* entries */
	bool stopped;		/* the CPU goes offline: no new entries */
	unsigned long held;	/* bytes of the folios of open entries */
	struct delayed_work age;
};

#ifdef CONFIG_FOLIOREF_DEBUG
/* Readers make entries without contention: on one CPU no compare-and-swap fails. */
bool paygo_at_once __read_mostly;
#else
static const bool paygo_at_once;
#endif

/* There may be open entries: once on, never off. */
DEFINE_STATIC_KEY_FALSE(paygo_tables_used);

static DEFINE_PER_CPU(struct paygo_table, paygo_tables);
static unsigned int paygo_entries __read_mostly = PAYGO_ENTRIES;
static unsigned int paygo_shift __read_mostly;		/* a hash's bits beside a bucket's number */
static unsigned long paygo_held_max __read_mostly;	/* bytes, of each CPU */

static __always_inline struct paygo_bucket paygo_bucket(struct paygo_table *t,
							struct folio *folio)
{
	u64 hash = (u64)folio * GOLDEN_RATIO_64;

	return (struct paygo_bucket){
		.entries = t->entries + (hash >> paygo_shift) * PAYGO_WAYS,
		.ways = PAYGO_WAYS,
	};
}

/* -- readers ------------------------------------------------------------------------- */

/*
 * Takes a reference in this CPU's table. Returns the CPU, or -1 if it has no open entry
 * of the folio, which may be freed and reused before this returns. An open entry keeps
 * its folio. So success proves that it is alive.
 */
static __always_inline int paygo_hit(struct folio *folio)
{
	struct paygo_entry *e;
	int cpu = -1;

	preempt_disable();
	e = paygo_gate_hit(paygo_bucket(this_cpu_ptr(&paygo_tables), folio), (u64)folio);
	if (likely(e)) {
		e->mark = 1;
		__count_vm_event(PAYGO_HIT);
		cpu = smp_processor_id();
	}
	preempt_enable();
	return cpu;
}

static bool paygo_install_here(struct paygo_table *t, struct folio *folio)
{
	size_t bytes = folio_size(folio);
	struct paygo_entry *e;

	if (t->stopped || t->held + bytes > paygo_held_max)
		return false;
	e = paygo_gate_install(paygo_bucket(t, folio), (u64)folio);
	if (!e)
		return false;
	e->mark = 1;
	t->held += bytes;
	__count_vm_events(PAYGO_HELD_BYTES, bytes);
	WRITE_ONCE(t->open, t->open + 1);
	if (t->open == 1)
		queue_delayed_work_on(smp_processor_id(), mm_percpu_wq, &t->age, PAYGO_TURN);
	return true;
}

/*
 * Turns the caller's reference in _refcount into an entry of this CPU's table. The entry
 * owns that reference then, and the caller has one that the entry counts. Returns the
 * CPU, or -1 if the caller's reference is still one in _refcount. An isolated CPU makes
 * no entries, as it keeps no buffer heads: a drain would disturb it.
 */
static int paygo_install(struct address_space *mapping, struct folio *folio)
{
	bool installed;
	int cpu;

	/*
	 * The look-up may have led to a folio that is used for something else by now.
	 * A reader would drop that at once, but an entry would hold it for a while.
	 */
	if (READ_ONCE(folio->mapping) != mapping || !folio_test_uptodate(folio))
		return -1;
	preempt_disable();
	cpu = smp_processor_id();
	installed = !cpu_is_isolated(cpu) &&
		    paygo_install_here(this_cpu_ptr(&paygo_tables), folio);
	__count_vm_event(installed ? PAYGO_INSTALL : PAYGO_FULL);
	preempt_enable();
	return installed ? cpu : -1;
}

/* Folio i of a batch is counted on that CPU. */
static __always_inline void paygo_record(struct folioref_batch *refs, unsigned int i,
					 int cpu)
{
	refs->home[i] = cpu;
	refs->counted |= 1u << i;
}

static noinline bool paygo_get_global(struct folioref_batch *refs, unsigned int i,
				      struct address_space *mapping, struct folio *folio)
{
	bool contended;
	int cpu;

	if (!folioref_try_get_global(folio, &contended))
		return false;
	if (likely(!contended && !READ_ONCE(paygo_at_once)))
		return true;
	cpu = paygo_install(mapping, folio);
	if (cpu >= 0)
		paygo_record(refs, i, cpu);
	return true;
}

static bool paygo_try_get(struct folioref_batch *refs, unsigned int i,
			  struct address_space *mapping, pgoff_t index,
			  struct folio *folio)
{
	int cpu = paygo_hit(folio);

	if (unlikely(cpu < 0))
		return paygo_get_global(refs, i, mapping, folio);
	paygo_record(refs, i, cpu);
	return true;
}

/* The entry has folded: the reference is in _refcount. */
static noinline void paygo_put_global(struct folio *folio)
{
	count_vm_event(PAYGO_UNREF_GLOBAL);
	folio_put(folio);
}

static void paygo_put(struct folioref_batch *refs, unsigned int i, struct folio *folio)
{
	unsigned int home = refs->home[i];
	struct paygo_table *t;
	bool counted;

	preempt_disable();
	if (likely(home == smp_processor_id())) {
		t = this_cpu_ptr(&paygo_tables);
		counted = paygo_gate_unref_home(paygo_bucket(t, folio), (u64)folio);
		__count_vm_event(PAYGO_UNREF);
	} else {
		t = per_cpu_ptr(&paygo_tables, home);
		counted = paygo_gate_unref_away(paygo_bucket(t, folio), (u64)folio);
		__count_vm_event(PAYGO_AWAY);
	}
	preempt_enable();
	if (unlikely(!counted))
		paygo_put_global(folio);
}

/* -- folding ------------------------------------------------------------------------- */

/* Folios of entries that have folded, and how many references to drop on each. */
struct paygo_drops {
	struct folio_batch folios;
	unsigned int refs[PAGEVEC_SIZE];
};

/* Home. The caller must drop what it finds in *drops, with preemption on. */
static void paygo_fold(struct paygo_table *t, struct paygo_entry *e,
		       struct paygo_drops *drops)
{
	struct folio *folio = (struct folio *)e->key;
	size_t bytes = folio_size(folio);
	u64 added = 0, refs;

	refs = paygo_gate_fold((struct paygo_words){ &added }, e);
	WRITE_ONCE(t->open, t->open - 1);
	t->held -= bytes;
	__count_vm_events(PAYGO_HELD_BYTES, -bytes);
	__count_vm_event(PAYGO_FOLD);
	/* All but one are what it added too much. */
	if (added)
		__count_vm_events(PAYGO_FOLDED, added - (refs - 1));
	/* 0 only where a rule is broken on purpose. */
	if (!refs)
		return;
	drops->refs[folio_batch_count(&drops->folios)] = refs;
	folio_batch_add(&drops->folios, folio);
}

/* Home: is it open, and has nobody hit it for a turn, if @idle asks for that? */
static bool paygo_folds(struct paygo_entry *e, bool idle)
{
	if (!paygo_gate_is_open(e))
		return false;
	if (!idle || !e->mark)
		return true;
	e->mark = 0;
	return false;
}

/*
 * Folds the open entries of a table, or with @idle those that nobody has hit for a turn.
 * Each entry that is open when this begins is looked at. The caller is a task of the
 * table's CPU, or the table's CPU is @dead.
 */
static void paygo_fold_table(struct paygo_table *t, bool idle, bool dead)
{
	struct paygo_drops drops;
	unsigned int i = 0, end;

	folio_batch_init(&drops.folios);
	while (i < paygo_entries) {
		preempt_disable();
		/* A worker moves when its CPU goes offline. Then the callback folds. */
		if (!dead && (t != this_cpu_ptr(&paygo_tables) || !t->open)) {
			preempt_enable();
			break;
		}
		end = min(i + PAYGO_SCAN, paygo_entries);
		for (; i < end && folio_batch_space(&drops.folios); i++) {
			if (paygo_folds(&t->entries[i], idle))
				paygo_fold(t, &t->entries[i], &drops);
		}
		preempt_enable();
		/* O33 of paygo_gate.h: the entries' own references, last. */
		folios_put_refs(&drops.folios, drops.refs);
	}
}

static void paygo_age(struct work_struct *work)
{
	struct paygo_table *t = container_of(to_delayed_work(work), struct paygo_table, age);

	paygo_fold_table(t, true, false);
	preempt_disable();
	/* An entry that comes after this look asks for a turn of its own. */
	if (t == this_cpu_ptr(&paygo_tables) && t->open && !t->stopped)
		queue_delayed_work_on(smp_processor_id(), mm_percpu_wq, &t->age, PAYGO_TURN);
	preempt_enable();
}

/* The caller is a worker of this CPU, or must not mind if it moves meanwhile. */
void __paygo_drain_cpu(void)
{
	paygo_fold_table(raw_cpu_ptr(&paygo_tables), false, false);
}

bool __paygo_needs_drain(unsigned int cpu)
{
	return READ_ONCE(per_cpu(paygo_tables, cpu).open);
}

bool __paygo_drain_all(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu) {
		if (__paygo_needs_drain(cpu)) {
			lru_add_drain_all();
			return true;
		}
	}
	return false;
}

bool __paygo_disable(void)
{
	lru_cache_disable();
	return true;
}

void __paygo_enable(void)
{
	lru_cache_enable();
}

/*
 * Before the OOM killer chooses. Memory that was held is not yet free, but can be
 * reclaimed now. Readers may make new entries, so this says so once in a turn only.
 */
static int paygo_oom(struct notifier_block *nb, unsigned long unused, void *freed)
{
	static unsigned long next = INITIAL_JIFFIES;

	if (time_before(jiffies, READ_ONCE(next)) || !paygo_drain_all())
		return NOTIFY_OK;
	WRITE_ONCE(next, jiffies + PAYGO_TURN);
	*(unsigned long *)freed += 1;
	return NOTIFY_OK;
}

static struct notifier_block paygo_oom_nb = { .notifier_call = paygo_oom };

/* -- CPUs that come and go ----------------------------------------------------------- */

/* On the CPU itself: it comes, or it stays because another callback has failed. */
static int paygo_cpu_online(unsigned int cpu)
{
	struct paygo_table *t = &per_cpu(paygo_tables, cpu);

	preempt_disable();
	t->stopped = false;
	if (t->open)
		queue_delayed_work_on(cpu, mm_percpu_wq, &t->age, PAYGO_TURN);
	preempt_enable();
	return 0;
}

/* On the CPU itself. Readers may still hit, and may come back with their references. */
static int paygo_cpu_leaves(unsigned int cpu)
{
	struct paygo_table *t = &per_cpu(paygo_tables, cpu);

	preempt_disable();
	t->stopped = true;
	preempt_enable();
	cancel_delayed_work_sync(&t->age);
	return 0;
}

/*
 * Elsewhere, when nothing runs on the CPU any more. References that are still out come
 * back from other CPUs, and find the entries closed.
 */
static int paygo_cpu_dead(unsigned int cpu)
{
	paygo_fold_table(&per_cpu(paygo_tables, cpu), false, true);
	return 0;
}

/* -- the scheme ---------------------------------------------------------------------- */

static int paygo_alloc(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		struct paygo_table *t = &per_cpu(paygo_tables, cpu);

		t->entries = kvcalloc_node(paygo_entries, sizeof(*t->entries), GFP_KERNEL,
					   cpu_to_node(cpu));
		if (!t->entries)
			return -ENOMEM;
		INIT_DELAYED_WORK(&t->age, paygo_age);
	}
	return 0;
}

static void paygo_free(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		kvfree(per_cpu(paygo_tables, cpu).entries);
		per_cpu(paygo_tables, cpu).entries = NULL;
	}
}

static int paygo_watch_cpus(void)
{
	int dead, online;

	dead = cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "mm/paygo:dead", NULL,
					 paygo_cpu_dead);
	if (dead < 0)
		return dead;
	online = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "mm/paygo:online",
					   paygo_cpu_online, paygo_cpu_leaves);
	if (online >= 0)
		return 0;
	/* The caller frees the tables. */
	cpuhp_remove_state_nocalls(dead);
	return online;
}

static int paygo_start(void)
{
	int err;

	if (static_key_enabled(&paygo_tables_used))
		return 0;
	paygo_shift = 64 - ilog2(paygo_entries / PAYGO_WAYS);
	paygo_held_max = max((totalram_pages() << PAGE_SHIFT >> PAYGO_HELD_SHIFT) /
			     num_possible_cpus(), PAYGO_HELD_MIN);
	err = paygo_alloc();
	if (!err)
		err = paygo_watch_cpus();
	if (err) {
		paygo_free();
		return err;
	}
	register_oom_notifier(&paygo_oom_nb);
	/* Code that drains looks at the tables before anybody uses them. */
	static_branch_enable(&paygo_tables_used);
	return 0;
}

/* Readers take no references in tables any more. */
static void paygo_stop(void)
{
	paygo_drain_all();
}

const struct folioref_scheme paygo_scheme = {
	.name		= "paygo",
	.try_get	= paygo_try_get,
	.put		= paygo_put,
	.start		= paygo_start,
	.stop		= paygo_stop,
};

static int __init paygo_entries_param(char *arg)
{
	unsigned int n;
	int err = kstrtouint(arg, 0, &n);

	if (err)
		return err;
	if (!is_power_of_2(n) || n < PAYGO_ENTRIES_MIN || n > PAYGO_ENTRIES_MAX)
		return -EINVAL;
	paygo_entries = n;
	return 0;
}
early_param("paygo_entries", paygo_entries_param);

#ifdef CONFIG_FOLIOREF_DEBUG
static int __init paygo_at_once_param(char *arg)
{
	/* The word alone means yes. */
	paygo_at_once = !arg;
	return arg ? kstrtobool(arg, &paygo_at_once) : 0;
}
early_param("paygo_at_once", paygo_at_once_param);
#endif
