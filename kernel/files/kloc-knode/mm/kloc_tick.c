// SPDX-License-Identifier: GPL-2.0
/*
 * KLOC: what time does to knodes. A tick collects what the CPUs have noted. It looks whether files
 * that are open and seem unused are so for the LRU, too. It makes room where a limit was lowered.
 */
#include <linux/mutex.h>
#include <linux/pagevec.h>
#include <linux/rcupdate_wait.h>
#include <linux/rmap.h>
#include <linux/workqueue.h>

#include "internal.h"
#include "kloc.h"

#include <trace/events/kloc.h>

static void kloc_tick_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(kloc_ticker, kloc_tick_work);

/* Of a file, where kloc_lru_used() looks at up to PAGEVEC_SIZE folios. */
#define KLOC_PLACES 8
/* Knodes that a tick takes for a limit, at most. */
#define KLOC_TAKES 64

/* Has anybody used the folio since the last time we asked? */
static bool kloc_was_used(struct folio *folio)
{
	unsigned long vm_flags;

	return folio_test_clear_referenced(folio) ||
		(folio_mapped(folio) && folio_referenced(folio, 0, NULL, &vm_flags));
}

/*
 * A read of what is cached notes no use, so that it costs what it cost. Its folios tell. Look at a
 * few places of the file, the same each time: then a mark there is younger than the last look.
 */
static bool kloc_lru_used(struct inode *inode)
{
	pgoff_t pages = DIV_ROUND_UP(i_size_read(inode), PAGE_SIZE);
	pgoff_t step = max(pages / KLOC_PLACES, PAGEVEC_SIZE), place;
	struct folio_batch fbatch;
	bool used = false;
	unsigned int i;

	folio_batch_init(&fbatch);
	for (place = 0; place < pages; place += step) {
		pgoff_t index = place;

		filemap_get_folios(&inode->i_data, &index, place + step - 1, &fbatch);
		for (i = 0; i < folio_batch_count(&fbatch); i++)
			used |= kloc_was_used(fbatch.folios[i]);
		folio_batch_release(&fbatch);
		cond_resched();
	}
	return used;
}

static bool knode_was_used(u32 id)
{
	struct inode *inode = kloc_pin(id);
	bool used;

	/* Somebody holds its file system's lock: ask again at the next tick. */
	if (!inode)
		return true;
	used = kloc_lru_used(inode);
	kloc_unpin(inode);
	return used;
}

static void knode_age(u32 id)
{
	bool used = knode_was_used(id);
	struct knode *k = knode_lock_id(id);

	if (!k)
		return;
	if (life_is_old(&k->life, &kloc_set.rules, kloc_now)) {
		if (used) {
			kloc_count(KLOC_SPARED, 1);
			knode_input(k, KLOC_IN_USE, 0, kloc_now);
			knode_changed(k, life_use(&k->life, k->life.nr_opens > 0, kloc_now));
		} else {
			kloc_count(KLOC_AGED, 1);
			knode_changed(k, life_deactivate(&k->life, KLOC_BY_AGE));
		}
	}
	knode_unlock(k);
}

/* The first old active knode from id on; 0: there is none. */
static u32 kloc_next_old(unsigned long id)
{
	struct knode *k;
	u32 found = 0;

	rcu_read_lock();
	for (k = xa_find(&kloc_map, &id, ULONG_MAX, KLOC_MARK_ACTIVE); k && !found;
	     k = xa_find_after(&kloc_map, &id, ULONG_MAX, KLOC_MARK_ACTIVE)) {
		spin_lock(&k->lock);
		if (k->id && life_is_old(&k->life, &kloc_set.rules, kloc_now))
			found = k->id;
		spin_unlock(&k->lock);
		if (need_resched())
			cond_resched_rcu();
	}
	rcu_read_unlock();
	return found;
}

/* -- Room ------------------------------------------------------------------------------ */

/* Takes the knode down, for the sake of a limit. true: it had something to give. */
static bool knode_gives(u32 id)
{
	struct knode *k = knode_lock_id(id);
	bool gives;

	if (!k)
		return false;
	gives = k->life.state != KLOC_UNLINKED && k->mapping->nrpages &&
		life_may_give(&k->life, KLOC_BY_LIMIT, kloc_now) &&
		life_take(&k->life, kloc_now);
	if (gives) {
		enum life_change change = life_deactivate(&k->life, KLOC_BY_LIMIT);

		knode_changed(k, change);
		if (change == LIFE_SAME)
			kloc_plan(k);
		gives = k->work == WORK_DEMOTE;
	}
	knode_unlock(k);
	return gives;
}

/* The knode of a state that was used longest ago, of those that have something to give. */
static u32 kloc_oldest(enum kloc_state state, unsigned long *ret_pages)
{
	unsigned long id;
	struct knode *k;
	u32 found = 0, age = 0;

	rcu_read_lock();
	xa_for_each(&kloc_map, id, k) {
		u32 idle = kloc_now - READ_ONCE(k->life.last_use);
		unsigned long pages = READ_ONCE(k->mapping->nrpages);

		if (READ_ONCE(k->life.state) == state && pages && !READ_ONCE(k->is_slow) &&
		    READ_ONCE(k->life.tried) != kloc_now + 1 && (!found || idle > age)) {
			found = id;
			age = idle;
			*ret_pages = pages;
		}
		if (need_resched())
			cond_resched_rcu();
	}
	rcu_read_unlock();
	return found;
}

/* A node has more page cache than it may: closed files go, the oldest first, then open ones. */
static void kloc_relieve_node(int nid)
{
	unsigned long over = kloc_over(nid), pages;
	unsigned int takes;
	u32 id;

	for (takes = 0; over && takes < KLOC_TAKES; takes++) {
		id = kloc_oldest(KLOC_INACTIVE, &pages) ?: kloc_oldest(KLOC_ACTIVE, &pages);
		if (!id)
			return;
		if (knode_gives(id))
			over -= min(over, pages);
	}
}

static void kloc_relieve(void)
{
	int nid;

	for_each_node_state(nid, N_MEMORY)
		if (kloc_is_fast(nid))
			kloc_relieve_node(nid);
}

/* -- A tick ---------------------------------------------------------------------------- */

void kloc_tick(void)
{
	u32 id = 0;

	mutex_lock(&kloc_mutex);
	kloc_collect();
	WRITE_ONCE(kloc_now, kloc_now + 1);
	trace_kloc_input(KLOC_IN_TICK, NULL, 0, 0, kloc_now);
	while ((id = kloc_next_old(id + 1ul)))
		knode_age(id);
	if (kloc_set.policy->mover == MOVER_STATE)
		kloc_relieve();
	kloc_retry();
	mutex_unlock(&kloc_mutex);
}

static void kloc_tick_work(struct work_struct *work)
{
	if (!static_key_enabled(&kloc_on))
		return;
	kloc_tick();
	kloc_start();
}

void kloc_start(void)
{
	unsigned int ms = READ_ONCE(kloc_set.tick_ms);

	if (ms)
		mod_delayed_work(system_unbound_wq, &kloc_ticker, msecs_to_jiffies(ms));
}

/* The caller has switched kloc_on off, and holds no kloc_mutex. */
void kloc_stop(void)
{
	cancel_delayed_work_sync(&kloc_ticker);
}
