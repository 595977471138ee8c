// SPDX-License-Identifier: GPL-2.0
/*
 * KLOC: knodes, and what opens, closes, uses and unlinks make of them (Kannan et al.,
 * ASPLOS'21). What a knode's life decides is in kloc_life.h, what moves its pages in
 * kloc_move.c. See Documentation/mm/kloc.rst.
 *
 * A knode is in two places: in the kmap under its id, and in its mapping. It leaves both in
 * knode_remove(), and is freed a grace period later. So a task that finds one under the RCU read
 * lock may take its lock, and must then look whether its id is still there.
 *
 * Lock order: knode->lock, then the kmap's xa_lock, then a thread's wait queue. drop_nlink() may
 * be called with i_lock held, so nobody takes i_lock under knode->lock.
 */
#include <linux/hugetlb.h>
#include <linux/init.h>
#include <linux/percpu.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include "kloc.h"

#define CREATE_TRACE_POINTS
#include <trace/events/kloc.h>

/* Knodes that a CPU notes. 16 are two cache lines, and more than a task has open at a time. */
#define KLOC_LIST_LENGTH 16

DEFINE_STATIC_KEY_FALSE(kloc_on);
DEFINE_XARRAY_ALLOC1(kloc_map);
DEFINE_PER_CPU(struct kloc_stats, kloc_stats);
/* Ticks; only kloc_tick() writes it. */
u32 kloc_now __read_mostly = 1;

static struct kmem_cache *kloc_cache __ro_after_init;
static u32 kloc_next_id;

/**
 * struct kloc_list - the knodes that a CPU used lately
 * @entry: a knode's id, and in the lower half the tick of its use. 0: empty. Only tasks on the
 *	CPU write it, with preemption off. The tick reads it. An id is never used again, so an
 *	entry whose knode is gone finds none.
 * @hand: the entry that a knode which is not listed takes next.
 *
 * So a use writes no line that CPUs share.
 */
struct kloc_list {
	u64 entry[KLOC_LIST_LENGTH];
	unsigned int hand;
};

static DEFINE_PER_CPU_ALIGNED(struct kloc_list, kloc_lists);

/* -- Finding a knode ------------------------------------------------------------------- */

/* Locked, and in an RCU section. NULL: the mapping has none. */
struct knode *knode_lock(struct address_space *mapping)
{
	struct knode *k;

	rcu_read_lock();
	while ((k = rcu_dereference(mapping->i_knode))) {
		spin_lock(&k->lock);
		if (k->id)
			return k;
		/* It was removed after we found it. i_knode is empty by now, or another. */
		spin_unlock(&k->lock);
	}
	rcu_read_unlock();
	return NULL;
}

struct knode *knode_lock_id(u32 id)
{
	struct knode *k;

	rcu_read_lock();
	k = xa_load(&kloc_map, id);
	if (k) {
		spin_lock(&k->lock);
		if (k->id)
			return k;
		spin_unlock(&k->lock);
	}
	rcu_read_unlock();
	return NULL;
}

void knode_unlock(struct knode *k)
{
	spin_unlock(&k->lock);
	rcu_read_unlock();
}

void knode_input(struct knode *k, enum kloc_input input, unsigned long n, u32 now)
{
	trace_kloc_input(input, k->mapping->host, k->id, n, now);
}

void knode_decided(struct knode *k, enum kloc_decision what, u32 why)
{
	trace_kloc_decision(what, k->mapping->host, k->id, why, k->mapping->nrpages,
			    k->mapping->nrpages, kloc_tick_now());
}

/* Is there page cache that could move? hugetlbfs has files whose memory is fixed. */
static bool knode_is_for(struct file *file, struct address_space *mapping)
{
	struct inode *inode = file_inode(file);

	return S_ISREG(inode->i_mode) && mapping == &inode->i_data &&
		mapping->a_ops->migrate_folio && !mapping_inaccessible(mapping) &&
		!is_file_hugepages(file);
}

/* The mapping gets a knode, unless somebody was faster. */
static void knode_make(struct address_space *mapping)
{
	struct knode *k = kmem_cache_zalloc(kloc_cache, GFP_KERNEL_ACCOUNT);

	if (!k)
		goto no_memory;
	spin_lock_init(&k->lock);
	k->mapping = mapping;
	k->nid = numa_mem_id();
	k->life.last_use = kloc_tick_now();
	life_begin(&k->life);
	if (xa_alloc_cyclic(&kloc_map, &k->id, k, xa_limit_32b, &kloc_next_id,
			    GFP_KERNEL_ACCOUNT) < 0)
		goto no_memory;
	knode_input(k, KLOC_IN_NEW, 0, k->life.last_use);
	if (cmpxchg(&mapping->i_knode, NULL, RCU_INITIALIZER(k))) {
		/* A tick may have found it in the kmap. */
		spin_lock(&k->lock);
		knode_input(k, KLOC_IN_END, 0, k->life.last_use);
		xa_erase(&kloc_map, k->id);
		k->id = 0;
		spin_unlock(&k->lock);
		kfree_rcu(k, rcu);
		return;
	}
	kloc_count(KLOC_KNODES, 1);
	return;
no_memory:
	kfree(k);
	kloc_count(KLOC_NO_MEMORY, 1);
}

/* -- What a life's change asks for ----------------------------------------------------- */

static void knode_is_active(struct knode *k, bool active)
{
	if (active)
		xa_set_mark(&kloc_map, k->id, KLOC_MARK_ACTIVE);
	else
		xa_clear_mark(&kloc_map, k->id, KLOC_MARK_ACTIVE);
	kloc_count(KLOC_NR_ACTIVE, active ? 1 : -1);
	k->is_slow = false;
	knode_decided(k, active ? KLOC_DO_ACTIVATE : KLOC_DO_DEACTIVATE, k->life.why);
}

static void knode_end(struct knode *k)
{
	if (k->life.state == KLOC_UNLINKED)
		return;
	if (k->life.state == KLOC_ACTIVE)
		knode_is_active(k, false);
	life_end(&k->life);
	kloc_count(KLOC_NR_UNLINKED, 1);
	knode_decided(k, KLOC_DO_END, k->life.why);
	kloc_plan(k);
}

/* Call it with what a life_...() returned. */
void knode_changed(struct knode *k, enum life_change change)
{
	if (change == LIFE_CLOSED)
		change = life_deactivate(&k->life, KLOC_BY_STATE);
	switch (change) {
	case LIFE_ACTIVATED:
	case LIFE_DEACTIVATED:
		knode_is_active(k, change == LIFE_ACTIVATED);
		kloc_plan(k);
		break;
	case LIFE_ENDED:
		knode_end(k);
		break;
	default:
		break;
	}
}

/* -- Uses ------------------------------------------------------------------------------ */

/* Notes a use in this CPU's list. */
static void kloc_list_use(u32 id)
{
	u64 mine = (u64)id << 32 | kloc_tick_now();
	struct kloc_list *l = get_cpu_ptr(&kloc_lists);
	unsigned int i;

	for (i = 0; i < KLOC_LIST_LENGTH; i++)
		if (l->entry[i] >> 32 == id)
			break;
	kloc_count(i < KLOC_LIST_LENGTH ? KLOC_LIST_HITS : KLOC_LIST_MISSES, 1);
	if (i == KLOC_LIST_LENGTH) {
		i = l->hand;
		l->hand = (i + 1) % KLOC_LIST_LENGTH;
	}
	if (l->entry[i] != mine)
		WRITE_ONCE(l->entry[i], mine);
	put_cpu_ptr(&kloc_lists);
}

/* The caller holds the RCU read lock. */
void kloc_use(struct knode *k)
{
	kloc_list_use(READ_ONCE(k->id));
	if (READ_ONCE(k->life.state) != KLOC_INACTIVE || !READ_ONCE(k->life.nr_opens))
		return;
	/* It has aged, and is used again: do not wait for the tick. */
	spin_lock(&k->lock);
	if (k->id) {
		knode_input(k, KLOC_IN_USE, 0, kloc_tick_now());
		knode_changed(k, life_use(&k->life, k->life.nr_opens > 0, kloc_tick_now()));
	}
	spin_unlock(&k->lock);
}

static void kloc_collect_one(u32 id, u32 stamp)
{
	struct knode *k = knode_lock_id(id);

	if (!k) {
		kloc_count(KLOC_LIST_STALE, 1);
		return;
	}
	if (life_is_news(&k->life, kloc_now, kloc_now - stamp)) {
		knode_input(k, KLOC_IN_USE, 0, stamp);
		knode_changed(k, life_use(&k->life, k->life.nr_opens > 0, stamp));
	}
	knode_unlock(k);
}

/* What the CPUs noted by themselves. */
void kloc_collect(void)
{
	unsigned int cpu, i;

	if (MUTANT(KLOC_USES_LOST))
		return;
	for_each_possible_cpu(cpu) {
		struct kloc_list *l = per_cpu_ptr(&kloc_lists, cpu);

		for (i = 0; i < KLOC_LIST_LENGTH; i++) {
			u64 entry = READ_ONCE(l->entry[i]);

			if (entry)
				kloc_collect_one(entry >> 32, (u32)entry);
		}
	}
}

/* -- Holding a knode's file ------------------------------------------------------------ */

/*
 * The file of a knode, so that it stays. With a reference on the inode alone, an unmount could find
 * a busy inode. So the lock of the file system comes first, and is held as long. Neither waits.
 */
struct inode *kloc_pin(u32 id)
{
	struct inode *inode = NULL;
	struct super_block *sb;
	struct knode *k;

	rcu_read_lock();
	k = xa_load(&kloc_map, id);
	if (!k)
		goto out;
	/* Inodes and super blocks are freed a grace period after knodes have left the kmap. */
	sb = k->mapping->host->i_sb;
	if (!down_read_trylock(&sb->s_umount))
		goto out;
	if (sb->s_root && (sb->s_flags & SB_BORN) && !(sb->s_flags & SB_DYING))
		inode = igrab(k->mapping->host);
	if (inode && rcu_access_pointer(inode->i_data.i_knode) != k) {
		/* It was evicted, and is another file's by now. */
		rcu_read_unlock();
		kloc_unpin(inode);
		return NULL;
	}
	if (!inode)
		up_read(&sb->s_umount);
out:
	rcu_read_unlock();
	return inode;
}

void kloc_unpin(struct inode *inode)
{
	struct super_block *sb = inode->i_sb;

	if (!MUTANT(KLOC_STAYS_PINNED))
		iput(inode);
	up_read(&sb->s_umount);
}

/* -- Called by the file systems' side -------------------------------------------------- */

void __kloc_open(struct file *file)
{
	struct address_space *mapping = file->f_mapping;
	u32 now = kloc_tick_now(), id;
	struct knode *k;

	if (!knode_is_for(file, mapping))
		return;
	if (!rcu_access_pointer(mapping->i_knode))
		knode_make(mapping);
	k = knode_lock(mapping);
	if (!k)
		return;
	file->f_mode |= FMODE_KLOC;
	id = k->id;
	if (k->queue == KLOC_IDLE)
		k->nid = numa_mem_id();
	life_open(&k->life);
	knode_input(k, KLOC_IN_OPEN, k->life.nr_opens, now);
	knode_changed(k, life_use(&k->life, true, now));
	knode_unlock(k);
	kloc_count(KLOC_OPENS, 1);
	kloc_list_use(id);
}

static void knode_close(struct knode *k)
{
	enum life_change change;

	if (!k->life.nr_opens) {
		WARN_ON_ONCE(!MUTANT(KLOC_CLOSE_TWICE));
		return;
	}
	change = life_close(&k->life);
	knode_input(k, KLOC_IN_CLOSE, k->life.nr_opens, kloc_tick_now());
	knode_changed(k, change);
}

void __kloc_close(struct file *file)
{
	/* As knode_is_for() had it: some file systems change f_mapping later. */
	struct knode *k = knode_lock(&file_inode(file)->i_data);

	/* It is open, so it has a knode. */
	if (WARN_ON_ONCE(!k))
		return;
	knode_close(k);
	if (MUTANT(KLOC_CLOSE_TWICE))
		knode_close(k);
	knode_unlock(k);
	kloc_count(KLOC_CLOSES, 1);
}

void __kloc_unlink(struct inode *inode)
{
	struct knode *k = knode_lock(&inode->i_data);

	if (!k)
		return;
	knode_input(k, KLOC_IN_UNLINK, 0, kloc_tick_now());
	knode_changed(k, life_unlink(&k->life));
	knode_unlock(k);
}

/* Takes a locked knode out of both places, and unlocks it. */
static void knode_remove(struct knode *k)
{
	u32 id = k->id;

	knode_input(k, KLOC_IN_END, 0, kloc_tick_now());
	kloc_forget(k);
	kloc_count(KLOC_KNODES, -1);
	if (k->life.state == KLOC_ACTIVE)
		kloc_count(KLOC_NR_ACTIVE, -1);
	if (k->life.state == KLOC_UNLINKED)
		kloc_count(KLOC_NR_UNLINKED, -1);
	RCU_INIT_POINTER(k->mapping->i_knode, NULL);
	if (!MUTANT(KLOC_STAYS_LISTED)) {
		xa_erase(&kloc_map, id);
		k->id = 0;
	}
	knode_unlock(k);
	kfree_rcu(k, rcu);
}

void __kloc_evict(struct inode *inode)
{
	struct knode *k = knode_lock(&inode->i_data);

	if (k)
		knode_remove(k);
}

/* -- The shrinker ---------------------------------------------------------------------- */

static unsigned long kloc_shrink_count(struct shrinker *s, struct shrink_control *sc)
{
	long n = kloc_stat_sum(KLOC_KNODES) - kloc_stat_sum(KLOC_NR_ACTIVE);

	return n > 0 ? n : SHRINK_EMPTY;
}

/* A file that is closed and has no pages needs no knode. */
static unsigned long kloc_shrink_scan(struct shrinker *s, struct shrink_control *sc)
{
	static unsigned long hand;
	unsigned long id = READ_ONCE(hand), nr = 0, freed = 0;
	struct knode *k;

	rcu_read_lock();
	while (nr++ < sc->nr_to_scan &&
	       (k = xa_find_after(&kloc_map, &id, ULONG_MAX, XA_PRESENT))) {
		if (!spin_trylock(&k->lock))
			continue;
		if (k->id && rcu_access_pointer(k->mapping->i_knode) == k &&
		    !k->life.nr_opens && !k->mapping->nrpages) {
			rcu_read_lock();
			knode_remove(k);
			freed++;
		} else {
			spin_unlock(&k->lock);
		}
	}
	rcu_read_unlock();
	WRITE_ONCE(hand, nr > sc->nr_to_scan ? id : 0);
	sc->nr_scanned = nr;
	kloc_count(KLOC_SHRUNK, freed);
	return freed;
}

static int __init kloc_init_map(void)
{
	struct shrinker *s = shrinker_alloc(0, "kloc");

	if (!IS_ENABLED(CONFIG_DEBUG_SPINLOCK) && !IS_ENABLED(CONFIG_DEBUG_LOCK_ALLOC))
		BUILD_BUG_ON(sizeof(struct knode) > 64 - sizeof(struct knode *));
	kloc_cache = KMEM_CACHE(knode, SLAB_PANIC | SLAB_ACCOUNT | SLAB_RECLAIM_ACCOUNT);
	if (!s)
		return -ENOMEM;
	s->count_objects = kloc_shrink_count;
	s->scan_objects = kloc_shrink_scan;
	shrinker_register(s);
	return 0;
}
core_initcall(kloc_init_map);
