// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of knodes without a file system: the states, the lists of CPUs, the kmap. Nothing moves,
 * and nothing races.
 */
#include <kunit/test.h>

struct kloc_kunit {
	struct super_block sb;
	struct inode inode;
	struct address_space *mapping;
	struct life_rules rules;
};

static struct knode *kloc_kunit_knode(struct kloc_kunit *t)
{
	return rcu_dereference_protected(t->mapping->i_knode, true);
}

static int kloc_kunit_init(struct kunit *test)
{
	struct kloc_kunit *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	t->mapping = &t->inode.i_data;
	t->mapping->host = &t->inode;
	t->inode.i_mapping = t->mapping;
	t->inode.i_sb = &t->sb;
	t->rules = (struct life_rules){
		.age_limit = 2, .ping_pong = 2, .forgive = 4, .mover = MOVER_STATE, .eager = true
	};
	test->priv = t;
	knode_make(t->mapping);
	KUNIT_ASSERT_NOT_NULL(test, kloc_kunit_knode(t));
	return 0;
}

static void kloc_kunit_exit(struct kunit *test)
{
	struct kloc_kunit *t = test->priv;

	if (t && rcu_access_pointer(t->mapping->i_knode))
		__kloc_evict(&t->inode);
}

/* What __kloc_open() does to the knode. */
static void kloc_kunit_open(struct kloc_kunit *t)
{
	struct knode *k = knode_lock(t->mapping);

	life_open(&k->life);
	knode_changed(k, life_use(&k->life, true, kloc_now));
	knode_unlock(k);
}

static void kloc_kunit_close(struct kloc_kunit *t)
{
	struct knode *k = knode_lock(t->mapping);

	knode_close(k);
	knode_unlock(k);
}

static bool kloc_kunit_marked(struct knode *k)
{
	return xa_get_mark(&kloc_map, k->id, KLOC_MARK_ACTIVE);
}

static void kloc_kunit_opens(struct kunit *test)
{
	struct kloc_kunit *t = test->priv;
	struct knode *k = kloc_kunit_knode(t);

	KUNIT_EXPECT_EQ(test, k->life.state, KLOC_INACTIVE);
	kloc_kunit_open(t);
	kloc_kunit_open(t);
	KUNIT_EXPECT_EQ(test, k->life.state, KLOC_ACTIVE);
	KUNIT_EXPECT_TRUE(test, kloc_kunit_marked(k));
	kloc_kunit_close(t);
	KUNIT_EXPECT_EQ(test, k->life.state, KLOC_ACTIVE);
	kloc_kunit_close(t);
	KUNIT_EXPECT_EQ(test, k->life.state, KLOC_INACTIVE);
	KUNIT_EXPECT_FALSE(test, kloc_kunit_marked(k));
	KUNIT_EXPECT_EQ(test, k->life.nr_opens, 0u);
}

static void kloc_kunit_unlinks(struct kunit *test)
{
	struct kloc_kunit *t = test->priv;
	struct knode *k = kloc_kunit_knode(t);

	kloc_kunit_open(t);
	__kloc_unlink(&t->inode);
	KUNIT_EXPECT_EQ(test, k->life.state, KLOC_ACTIVE);
	kloc_kunit_close(t);
	KUNIT_EXPECT_EQ(test, k->life.state, KLOC_UNLINKED);
	KUNIT_EXPECT_FALSE(test, kloc_kunit_marked(k));
	/* By its handle: it can be open, and is not active. */
	kloc_kunit_open(t);
	KUNIT_EXPECT_EQ(test, k->life.state, KLOC_UNLINKED);
	kloc_kunit_close(t);
	KUNIT_EXPECT_EQ(test, k->life.state, KLOC_UNLINKED);
}

static void kloc_kunit_ages(struct kunit *test)
{
	struct kloc_kunit *t = test->priv;
	struct knode *k = kloc_kunit_knode(t);
	u32 now = kloc_now;

	kloc_kunit_open(t);
	KUNIT_EXPECT_FALSE(test, life_is_old(&k->life, &t->rules, now + 2));
	KUNIT_EXPECT_TRUE(test, life_is_old(&k->life, &t->rules, now + 3));
	knode_lock(t->mapping);
	knode_changed(k, life_deactivate(&k->life, KLOC_BY_AGE));
	knode_unlock(k);
	KUNIT_EXPECT_EQ(test, k->life.state, KLOC_INACTIVE);
	/* Used again. */
	rcu_read_lock();
	kloc_use(k);
	rcu_read_unlock();
	KUNIT_EXPECT_EQ(test, k->life.state, KLOC_ACTIVE);
	kloc_kunit_close(t);
	/* Nobody has it open: a use is no open. */
	rcu_read_lock();
	kloc_use(k);
	rcu_read_unlock();
	KUNIT_EXPECT_EQ(test, k->life.state, KLOC_INACTIVE);
}

static void kloc_kunit_work(struct kunit *test)
{
	struct kloc_kunit *t = test->priv;
	struct knode *k = kloc_kunit_knode(t);
	u8 moves = 0;

	KUNIT_EXPECT_EQ(test, life_work(&k->life, &t->rules, 5, 5), WORK_DEMOTE);
	KUNIT_EXPECT_EQ(test, life_work(&k->life, &t->rules, 0, 5), WORK_NONE);
	kloc_kunit_open(t);
	KUNIT_EXPECT_EQ(test, life_work(&k->life, &t->rules, 5, 5), WORK_NONE);
	t->rules.promote_whole = true;
	KUNIT_EXPECT_EQ(test, life_work(&k->life, &t->rules, 5, 5), WORK_PROMOTE);
	kloc_kunit_close(t);
	KUNIT_EXPECT_FALSE(test, life_moved(&moves, &t->rules));
	KUNIT_EXPECT_TRUE(test, life_moved(&moves, &t->rules));
	KUNIT_EXPECT_EQ(test, life_stay(&moves, &t->rules, 4, KLOC_BY_STATE), LIFE_STAYS);
	KUNIT_EXPECT_EQ(test, life_stay(&moves, &t->rules, 4, KLOC_BY_LIMIT), LIFE_GOES);
	KUNIT_EXPECT_EQ(test, life_stay(&moves, &t->rules, 5, KLOC_BY_STATE), LIFE_FORGIVEN);
}

/* Entries of this CPU's list for an id. */
static unsigned int kloc_kunit_entries(u32 id)
{
	struct kloc_list *l = this_cpu_ptr(&kloc_lists);
	unsigned int i, n = 0;

	for (i = 0; i < KLOC_LIST_LENGTH; i++)
		n += l->entry[i] >> 32 == id;
	return n;
}

static void kloc_kunit_lists(struct kunit *test)
{
	struct kloc_kunit *t = test->priv;
	u32 id = kloc_kunit_knode(t)->id, other;
	unsigned int mine, full, gone;

	migrate_disable();
	kloc_list_use(id);
	kloc_list_use(id);
	mine = kloc_kunit_entries(id);
	for (other = id + 1; other < id + KLOC_LIST_LENGTH; other++)
		kloc_list_use(other);
	full = kloc_kunit_entries(id);
	kloc_list_use(other);
	gone = kloc_kunit_entries(id);
	migrate_enable();
	KUNIT_EXPECT_EQ(test, mine, 1u);
	KUNIT_EXPECT_EQ(test, full, 1u);
	KUNIT_EXPECT_EQ(test, gone, 0u);
}

/* A tick counts what a CPU has noted, but not for a knode that is gone. */
static void kloc_kunit_collects(struct kunit *test)
{
	struct kloc_kunit *t = test->priv;
	struct knode *k = kloc_kunit_knode(t);
	long stale = kloc_stat_sum(KLOC_LIST_STALE);

	kloc_kunit_open(t);
	k->life.last_use = kloc_now - 1;
	kloc_list_use(k->id);
	kloc_collect();
	KUNIT_EXPECT_EQ(test, k->life.last_use, kloc_now);
	kloc_kunit_close(t);
	__kloc_evict(&t->inode);
	kloc_collect();
	KUNIT_EXPECT_GT(test, kloc_stat_sum(KLOC_LIST_STALE), stale);
}

static void kloc_kunit_kmap(struct kunit *test)
{
	struct kloc_kunit *t = test->priv;
	struct knode *k = kloc_kunit_knode(t);
	u32 id = k->id;
	struct shrink_control sc = { .nr_to_scan = 1000000 };

	if (!IS_ENABLED(CONFIG_DEBUG_SPINLOCK) && !IS_ENABLED(CONFIG_DEBUG_LOCK_ALLOC))
		KUNIT_EXPECT_LE(test, sizeof(*k), 64);
	/* A second one is thrown away. */
	knode_make(t->mapping);
	KUNIT_EXPECT_PTR_EQ(test, kloc_kunit_knode(t), k);
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&kloc_map, id), (void *)k);
	/* The shrinker takes what is closed and empty. */
	kloc_kunit_open(t);
	kloc_shrink_scan(NULL, &sc);
	KUNIT_EXPECT_PTR_EQ(test, kloc_kunit_knode(t), k);
	kloc_kunit_close(t);
	t->mapping->nrpages = 1;
	kloc_shrink_scan(NULL, &sc);
	KUNIT_EXPECT_PTR_EQ(test, kloc_kunit_knode(t), k);
	t->mapping->nrpages = 0;
	kloc_shrink_scan(NULL, &sc);
	KUNIT_EXPECT_NULL(test, kloc_kunit_knode(t));
	KUNIT_EXPECT_NULL(test, xa_load(&kloc_map, id));
}

static struct kunit_case kloc_kunit_cases[] = {
	KUNIT_CASE(kloc_kunit_opens),
	KUNIT_CASE(kloc_kunit_unlinks),
	KUNIT_CASE(kloc_kunit_ages),
	KUNIT_CASE(kloc_kunit_work),
	KUNIT_CASE(kloc_kunit_lists),
	KUNIT_CASE(kloc_kunit_collects),
	KUNIT_CASE(kloc_kunit_kmap),
	{}
};

static struct kunit_suite kloc_kunit_suite = {
	.name = "kloc",
	.init = kloc_kunit_init,
	.exit = kloc_kunit_exit,
	.test_cases = kloc_kunit_cases,
};

kunit_test_suite(kloc_kunit_suite);
