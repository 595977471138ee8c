// SPDX-License-Identifier: GPL-2.0
/*
 * KLOC: what moves the page cache of a file from one tier of memory to another. Each fast node
 * has a thread, kklocd. It takes knodes that have work, one after the other, and moves their
 * folios in batches, as DAMON's schemes for physical memory do. See Documentation/mm/kloc.rst.
 *
 * States of a knode's queue. kloc_plan() is called under its lock whenever its life changes.
 *
 *                plan: work            the thread            end of pass
 *       IDLE ------------------> READY ----------> RUNNING --------------> IDLE
 *         ^                        ^ ^                |
 *         | plan: none, from any   | |  tick          | something was busy, or had no room
 *         '------------------------  '---- WAITING <--'
 *
 * A plan gives the knode a new pass number. A pass looks at the number before each batch, and ends
 * when it is another one: so an open stops a demotion between two batches.
 */
#include <linux/freezer.h>
#include <linux/init.h>
#include <linux/kthread.h>
#include <linux/migrate.h>
#include <linux/pagevec.h>
#include <linux/rcupdate_wait.h>
#include <linux/swap.h>
#include <linux/wait.h>

#include "internal.h"
#include "kloc.h"

/* Pages between two looks at the knode. migrate_pages() takes as many at a time. */
#define KLOC_BATCH 512
/* Passes in a row that leave something behind: it is pinned, or under writeback for long. */
#define KLOC_TRIES 8

/**
 * struct kloc_thread - a thread and what waits for it
 * @wait: the thread sleeps here.
 * @task: the thread; NULL: the node has none.
 * @nr_ready: knodes whose queue is READY.
 */
struct kloc_thread {
	wait_queue_head_t wait;
	struct task_struct *task;
	atomic_t nr_ready;
};

static struct kloc_thread kloc_threads[MAX_NUMNODES];
static int kloc_any_thread = NUMA_NO_NODE;	/* a node that has a thread */
static atomic_t kloc_nr_busy;	/* knodes that are READY or RUNNING, and passes */
static DECLARE_WAIT_QUEUE_HEAD(kloc_quiet);

/* -- The queue ------------------------------------------------------------------------- */

static bool is_busy(u8 queue)
{
	return queue == KLOC_READY || queue == KLOC_RUNNING;
}

static void kloc_not_busy(void)
{
	if (atomic_dec_and_test(&kloc_nr_busy))
		wake_up_all(&kloc_quiet);
}

static void knode_queue(struct knode *k, enum kloc_queue queue)
{
	struct kloc_thread *m = &kloc_threads[k->nid];
	u8 old = k->queue;

	if (old == queue)
		return;
	k->queue = queue;
	if (old == KLOC_IDLE)
		xa_set_mark(&kloc_map, k->id, KLOC_MARK_WORK);
	if (queue == KLOC_IDLE)
		xa_clear_mark(&kloc_map, k->id, KLOC_MARK_WORK);
	if (old == KLOC_READY)
		atomic_dec(&m->nr_ready);
	if (is_busy(queue) && !is_busy(old))
		atomic_inc(&kloc_nr_busy);
	if (queue == KLOC_READY) {
		atomic_inc(&m->nr_ready);
		wake_up(&m->wait);
	}
	if (!is_busy(queue) && is_busy(old))
		kloc_not_busy();
}

static bool kloc_is_quiet(void)
{
	return !atomic_read(&kloc_nr_busy);
}

int kloc_wait_quiet(void)
{
	return wait_event_interruptible(kloc_quiet, kloc_is_quiet());
}

/* May the knode's pages go down? The counter retains what goes to and fro. */
static bool knode_goes(struct knode *k)
{
	u32 idle = kloc_tick_now() - k->life.last_use;

	switch (life_stay(&k->nr_moves, &kloc_set.rules, idle, k->life.why)) {
	case LIFE_STAYS:
		kloc_count(KLOC_KEPT, 1);
		knode_decided(k, KLOC_DO_KEEP, KLOC_BY_COUNTER);
		return false;
	case LIFE_FORGIVEN:
		kloc_count(KLOC_FORGIVEN, 1);
		knode_decided(k, KLOC_DO_FORGIVE, KLOC_BY_COUNTER);
		return true;
	default:
		return true;
	}
}

static enum kloc_work knode_work(struct knode *k)
{
	unsigned long pages = READ_ONCE(k->mapping->nrpages);

	if (!static_key_enabled(&kloc_on) || kloc_any_thread == NUMA_NO_NODE)
		return WORK_NONE;
	/* Nobody counts pages by knode and node: the pass finds out where they are. */
	return life_work(&k->life, &kloc_set.rules, pages, pages);
}

/* The knode's life has changed: what is to be moved? Its lock is held. */
void kloc_plan(struct knode *k)
{
	enum kloc_work work = knode_work(k);

	if (work == WORK_DEMOTE && !knode_goes(k))
		work = WORK_NONE;
	k->pass++;
	k->nr_tries = 0;
	k->work = work;
	if (work == WORK_NONE) {
		knode_queue(k, KLOC_IDLE);
		return;
	}
	/* The thread of the node where it was opened, if there is one. */
	if (k->queue == KLOC_IDLE && !kloc_threads[k->nid].task)
		k->nid = kloc_any_thread;
	knode_decided(k, work == WORK_DEMOTE ? KLOC_DO_DEMOTE : KLOC_DO_PROMOTE,
		      life_why(&k->life, work));
	knode_queue(k, KLOC_READY);
}

/* The knode goes. */
void kloc_forget(struct knode *k)
{
	k->pass++;
	k->work = WORK_NONE;
	knode_queue(k, KLOC_IDLE);
}

/* A tick: what was busy may not be so any more. */
void kloc_retry(void)
{
	unsigned long id;
	struct knode *k;

	rcu_read_lock();
	xa_for_each_marked(&kloc_map, id, k, KLOC_MARK_WORK) {
		spin_lock(&k->lock);
		if (k->id && k->queue == KLOC_WAITING)
			knode_queue(k, KLOC_READY);
		spin_unlock(&k->lock);
		if (need_resched())
			cond_resched_rcu();
	}
	rcu_read_unlock();
}

/* -- Moving ---------------------------------------------------------------------------- */

/**
 * struct kloc_pass - all folios of a file are looked at once
 * @id: the knode's.
 * @pass: its number.
 * @work: WORK_DEMOTE or WORK_PROMOTE.
 * @nid: the thread's node.
 * @index: where the next batch begins.
 * @moved: pages, so far.
 * @busy: pages that somebody used just then.
 * @full: pages for which there was no room.
 * @done: all of the file was looked at.
 * @drained: what CPUs keep for the LRU and in tables of references was given back, for this pass.
 */
struct kloc_pass {
	u32 id;
	u16 pass;
	u8 work;
	int nid;
	pgoff_t index;
	unsigned long moved, busy, full;
	bool done, drained;
};

/* Where the folio goes; NUMA_NO_NODE: it is right where it is. */
static int kloc_target(struct kloc_pass *p, struct folio *folio)
{
	bool demote = p->work == WORK_DEMOTE;
	int nid = folio_nid(folio), target;

	if (kloc_is_fast(nid) != demote)
		return NUMA_NO_NODE;
	target = demote ? kloc_next_node(nid) : kloc_fast_node(p->nid);
	if (target == NUMA_NO_NODE)
		kloc_count(KLOC_NO_TARGET, folio_nr_pages(folio));
	return target;
}

/*
 * A promotion leaves kswapd asleep: it would demote what is colder for the LRU, and that could be
 * what was promoted before.
 */
static bool kloc_has_room(struct kloc_pass *p, int nid)
{
	int i;

	if (p->work == WORK_DEMOTE)
		return true;
	if (!kloc_has_share(nid))
		return false;
	for (i = 0; i < MAX_NR_ZONES; i++) {
		struct zone *zone = NODE_DATA(nid)->node_zones + i;

		if (managed_zone(zone) &&
		    zone_watermark_ok(zone, 0, high_wmark_pages(zone) + KLOC_BATCH, i, 0))
			return true;
	}
	return false;
}

/* Moves the folios of a list to a node; what stays is put back. */
static void kloc_migrate(struct kloc_pass *p, struct list_head *folios, unsigned long pages,
			 int nid)
{
	nodemask_t none = NODE_MASK_NONE;
	struct migration_target_control mtc = {
		/* There, or nowhere: never make room for it. */
		.gfp_mask = (GFP_HIGHUSER_MOVABLE & ~__GFP_RECLAIM) | __GFP_NOWARN |
			__GFP_NOMEMALLOC,
		.nid = nid,
		.nmask = &none,
		.reason = MR_KLOC,
	};
	unsigned int moved = 0;

	if (list_empty(folios))
		return;
	if (!kloc_has_room(p, nid)) {
		p->full += pages;
	} else {
		if (p->work == WORK_DEMOTE)
			mtc.gfp_mask |= __GFP_KSWAPD_RECLAIM;
		migrate_pages(folios, alloc_migrate_folio, NULL, (unsigned long)&mtc,
			      MIGRATE_ASYNC, MR_KLOC, &moved);
		p->busy += pages - min_t(unsigned long, moved, pages);
	}
	if (!list_empty(folios))
		putback_movable_pages(folios);
	p->moved += moved;
	kloc_count(p->work == WORK_DEMOTE ? KLOC_DEMOTED : KLOC_PROMOTED, moved);
}

/* The caller holds a reference of its own. */
static bool kloc_isolate(struct folio *folio, struct list_head *list)
{
	if (MUTANT(KLOC_NOT_ISOLATED)) {
		folio_get(folio);
		list_add_tail(&folio->lru, list);
		return true;
	}
	if (!folio_isolate_lru(folio))
		return false;
	node_stat_add_folio(folio, NR_ISOLATED_ANON + folio_is_file_lru(folio));
	list_add_tail(&folio->lru, list);
	return true;
}

/* The next KLOC_BATCH pages of the file. false: that was all of it. */
static bool kloc_batch(struct kloc_pass *p, struct address_space *mapping)
{
	unsigned long pages = 0, looked = 0;
	int target = NUMA_NO_NODE, nid;
	struct folio_batch fbatch;
	LIST_HEAD(folios);
	unsigned int i;

	folio_batch_init(&fbatch);
	while (looked < KLOC_BATCH && filemap_get_folios(mapping, &p->index, ULONG_MAX, &fbatch)) {
		for (i = 0; i < folio_batch_count(&fbatch); i++) {
			struct folio *folio = fbatch.folios[i];

			looked += folio_nr_pages(folio);
			nid = kloc_target(p, folio);
			if (nid == NUMA_NO_NODE)
				continue;
			/* One target for a batch; others have their turn in the next pass. */
			if (target == NUMA_NO_NODE)
				target = nid;
			if (nid == target && kloc_isolate(folio, &folios))
				pages += folio_nr_pages(folio);
			else
				p->busy += folio_nr_pages(folio);
		}
		/* What is to move must not have our references. */
		folio_batch_release(&fbatch);
	}
	kloc_migrate(p, &folios, pages, target);
	return looked >= KLOC_BATCH;
}

/* -- A pass ---------------------------------------------------------------------------- */

/* The next knode that is ready for this thread, from id on. */
static bool pass_begin(struct kloc_pass *p, int nid, unsigned long id)
{
	struct knode *k;

	rcu_read_lock();
	for (k = xa_find(&kloc_map, &id, ULONG_MAX, KLOC_MARK_WORK); k;
	     k = xa_find_after(&kloc_map, &id, ULONG_MAX, KLOC_MARK_WORK)) {
		spin_lock(&k->lock);
		if (k->id && k->queue == KLOC_READY && k->nid == nid) {
			/* A plan may end the knode's work before the pass has seen it. */
			atomic_inc(&kloc_nr_busy);
			knode_queue(k, KLOC_RUNNING);
			*p = (struct kloc_pass){
				.id = k->id, .pass = k->pass, .work = k->work, .nid = nid
			};
			spin_unlock(&k->lock);
			break;
		}
		spin_unlock(&k->lock);
		if (need_resched())
			cond_resched_rcu();
	}
	rcu_read_unlock();
	return k;
}

/* Is it still wanted? kloc_plan() has not been called since. */
static bool pass_goes_on(struct kloc_pass *p)
{
	struct knode *k = knode_lock_id(p->id);
	bool goes_on;

	if (!k)
		return false;
	goes_on = (k->pass == p->pass && k->queue == KLOC_RUNNING) || MUTANT(KLOC_PASS_GOES_ON);
	knode_unlock(k);
	return goes_on && static_key_enabled(&kloc_on) && !kthread_should_stop() &&
		READ_ONCE(kloc_set.rules.mover) == MOVER_STATE;
}

static void pass_moved(struct kloc_pass *p, struct knode *k)
{
	if (!p->moved)
		return;
	knode_input(k, KLOC_IN_MOVED, p->moved, kloc_tick_now());
	if (life_moved(&k->nr_moves, &kloc_set.rules)) {
		kloc_count(KLOC_RETAINED, 1);
		knode_decided(k, KLOC_DO_RETAIN, KLOC_BY_COUNTER);
	}
}

static void pass_end(struct kloc_pass *p)
{
	struct knode *k = knode_lock_id(p->id);
	bool again = (p->busy || p->full) && static_key_enabled(&kloc_on) &&
		!MUTANT(KLOC_BUSY_LOST);

	kloc_count(KLOC_BUSY, p->busy);
	kloc_count(KLOC_NO_ROOM, p->full);
	if (k) {
		pass_moved(p, k);
		if (k->pass == p->pass && k->queue == KLOC_RUNNING) {
			again = again && ++k->nr_tries < KLOC_TRIES;
			k->is_slow = p->done && p->work == WORK_DEMOTE && !p->busy && !p->full;
			knode_queue(k, again ? KLOC_WAITING : KLOC_IDLE);
		}
		knode_unlock(k);
	}
	kloc_not_busy();
}

/* Sleeps as long as what was moved since then takes at the set rate. */
static void kloc_keep_rate(struct kloc_thread *m, unsigned long pages)
{
	unsigned int rate = READ_ONCE(kloc_set.rate_mb);

	if (rate && pages)
		wait_event_freezable_timeout(m->wait, kthread_should_stop(),
					     1 + pages * PAGE_SIZE * HZ / ((u64)rate << 20));
}

static void pass_run(struct kloc_pass *p, struct kloc_thread *m)
{
	bool more = true;

	while (pass_goes_on(p)) {
		unsigned long moved = p->moved;
		struct inode *inode;

		if (!more && p->busy && !p->drained) {
			/* Some of it may have been no more than that. */
			lru_add_drain_all();
			p->drained = true;
			p->index = 0;
			p->busy = 0;
			p->full = 0;
		} else if (!more) {
			kloc_count(KLOC_PASSES, 1);
			p->done = true;
			return;
		}
		inode = kloc_pin(p->id);
		if (!inode) {
			/* It is evicted, or its file system unmounted: later, if at all. */
			p->busy++;
			return;
		}
		more = kloc_batch(p, &inode->i_data);
		kloc_unpin(inode);
		kloc_keep_rate(m, p->moved - moved);
		cond_resched();
	}
	kloc_count(KLOC_CANCELLED, 1);
}

static int kklocd(void *data)
{
	struct kloc_thread *m = data;
	int nid = m - kloc_threads;
	struct kloc_pass p = {};

	set_freezable();
	while (!kthread_should_stop()) {
		wait_event_freezable(m->wait, kthread_should_stop() || atomic_read(&m->nr_ready));
		/* From where we were, so that no file keeps others waiting. */
		while (!kthread_should_stop() &&
		       (pass_begin(&p, nid, p.id + 1ul) || pass_begin(&p, nid, 0))) {
			pass_run(&p, m);
			pass_end(&p);
		}
	}
	return 0;
}

/* The threads, when kloc is switched on first. They stay. */
int kloc_threads_make(void)
{
	struct task_struct *task;
	int nid;

	for_each_node_state(nid, N_CPU) {
		struct kloc_thread *m = &kloc_threads[nid];

		if (m->task || !kloc_is_fast(nid) || !node_state(nid, N_MEMORY))
			continue;
		init_waitqueue_head(&m->wait);
		task = kthread_create_on_node(kklocd, m, nid, "kklocd%d", nid);
		if (IS_ERR(task))
			return PTR_ERR(task);
		set_cpus_allowed_ptr(task, cpumask_of_node(nid));
		m->task = task;
		WRITE_ONCE(kloc_any_thread, nid);
		wake_up_process(task);
	}
	return kloc_any_thread == NUMA_NO_NODE ? -ENODEV : 0;
}
