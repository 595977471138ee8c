// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of local references with one page table entry and one folio, without a
 * reader. They test no races.
 */
#include <kunit/test.h>

struct lodic_kunit {
	struct folio *folio;
	struct gate_frame frame;
	int refs;		/* of the folio, when the test began */
	pte_t pte;
};

static u64 *lodic_kunit_pte(struct lodic_kunit *t)
{
	return (u64 *)&t->pte;
}

static bool lodic_kunit_ref_at(struct lodic_kunit *t, struct gate_frame frame)
{
	u64 seen;

	return pte_gate_ref(lodic_kunit_pte(t), frame, &seen);
}

static bool lodic_kunit_ref(struct lodic_kunit *t)
{
	return lodic_kunit_ref_at(t, t->frame);
}

/* Does the count come back to the entry? */
static bool lodic_kunit_unref(struct lodic_kunit *t)
{
	return pte_gate_unref(lodic_kunit_pte(t), t->frame) == GATE_LOCAL;
}

static int lodic_kunit_init(struct kunit *test)
{
	struct lodic_kunit *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	if (!static_key_enabled(&lodic_ptes))
		kunit_skip(test, "boot with folioref=lodic");
	t->folio = folio_alloc(GFP_KERNEL, 0);
	KUNIT_ASSERT_NOT_NULL(test, t->folio);
	t->frame = (struct gate_frame){ folio_pfn(t->folio), 1 };
	t->refs = folio_ref_count(t->folio);
	t->pte = pfn_pte(folio_pfn(t->folio), PAGE_READONLY);
	test->priv = t;
	return 0;
}

static void lodic_kunit_exit(struct kunit *test)
{
	struct lodic_kunit *t = test->priv;

	if (t && t->folio)
		folio_put(t->folio);
}

/* What n readers do when they find that they count globally now. */
static void lodic_kunit_put(struct lodic_kunit *t, int n)
{
	folio_put_refs(t->folio, n);
	/* Other tests look at the sums in vmstat. */
	count_vm_events(LODIC_REF, n);
	count_vm_events(LODIC_UNREF_GLOBAL, n);
}

static void lodic_ref_and_unref(struct kunit *test)
{
	struct lodic_kunit *t = test->priv;

	KUNIT_EXPECT_TRUE(test, lodic_kunit_ref(t));
	KUNIT_EXPECT_EQ(test, pte_count(t->pte.pte), 1);
	KUNIT_EXPECT_EQ(test, folio_ref_count(t->folio), t->refs);
	KUNIT_EXPECT_TRUE(test, lodic_kunit_unref(t));
	KUNIT_EXPECT_EQ(test, pte_count(t->pte.pte), 0);
	KUNIT_EXPECT_FALSE(test, lodic_kunit_unref(t));
}

/* What the ref has seen is what the unref expects, but not when others count there. */
static void lodic_seen(struct kunit *test)
{
	struct lodic_kunit *t = test->priv;
	u64 seen, other;

	KUNIT_EXPECT_TRUE(test, pte_gate_ref(lodic_kunit_pte(t), t->frame, &seen));
	KUNIT_EXPECT_TRUE(test, pte_gate_ref(lodic_kunit_pte(t), t->frame, &other));
	KUNIT_EXPECT_EQ(test, other, seen + PTE_COUNT_ONE);
	KUNIT_EXPECT_FALSE(test, pte_gate_unref_seen(lodic_kunit_pte(t), seen));
	KUNIT_EXPECT_TRUE(test, pte_gate_unref_seen(lodic_kunit_pte(t), other));
	KUNIT_EXPECT_TRUE(test, pte_gate_unref_seen(lodic_kunit_pte(t), seen));
	KUNIT_EXPECT_EQ(test, t->pte.pte, seen);
	KUNIT_EXPECT_FALSE(test, pte_gate_unref_seen(lodic_kunit_pte(t), seen));
}

/* fork() and exec() do not pass the mark on. */
static void lodic_mark_stays(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, mmf_init_flags(BIT(MMF_LODIC)), 0);
	KUNIT_EXPECT_EQ(test, mmf_init_flags(BIT(MMF_TOPDOWN)), BIT(MMF_TOPDOWN));
}

static void lodic_full(struct kunit *test)
{
	struct lodic_kunit *t = test->priv;
	int i;

	for (i = 0; i < PTE_COUNT_MAX; i++)
		KUNIT_EXPECT_TRUE(test, lodic_kunit_ref(t));
	KUNIT_EXPECT_FALSE(test, lodic_kunit_ref(t));
	KUNIT_EXPECT_EQ(test, pte_pfn(t->pte), folio_pfn(t->folio));
	lodic_ptep_clear(&t->pte);
	KUNIT_EXPECT_EQ(test, folio_ref_count(t->folio), t->refs + (int)PTE_COUNT_MAX);
	lodic_kunit_put(t, PTE_COUNT_MAX);
}

static void lodic_only_its_own(struct kunit *test)
{
	struct lodic_kunit *t = test->priv;
	struct gate_frame next = { t->frame.pfn + 1, 1 };
	pte_t pte = t->pte;

	KUNIT_EXPECT_FALSE(test, lodic_kunit_ref_at(t, next));
	t->pte = pte_mkspecial(pte);
	KUNIT_EXPECT_FALSE(test, lodic_kunit_ref(t));
	t->pte = pte_modify(pte, PAGE_NONE);
	KUNIT_EXPECT_FALSE(test, lodic_kunit_ref(t));
	t->pte = __pte(0);
	KUNIT_EXPECT_FALSE(test, lodic_kunit_ref(t));
}

static void lodic_clear_folds(struct kunit *test)
{
	struct lodic_kunit *t = test->priv;
	pte_t before = t->pte;
	pte_t was;

	lodic_kunit_ref(t);
	lodic_kunit_ref(t);
	was = lodic_ptep_clear(&t->pte);
	KUNIT_EXPECT_TRUE(test, pte_none(t->pte));
	KUNIT_EXPECT_TRUE(test, pte_same(was, before));
	KUNIT_EXPECT_EQ(test, folio_ref_count(t->folio), t->refs + 2);
	/* Both readers find that they count globally now. */
	KUNIT_EXPECT_FALSE(test, lodic_kunit_unref(t));
	lodic_kunit_put(t, 2);
}

static void lodic_mapped_again(struct kunit *test)
{
	struct lodic_kunit *t = test->priv;
	pte_t before = t->pte;

	lodic_kunit_ref(t);
	lodic_ptep_clear(&t->pte);
	t->pte = before;
	lodic_kunit_ref(t);
	/* One of two readers takes the count, the other the global reference. */
	KUNIT_EXPECT_TRUE(test, lodic_kunit_unref(t));
	KUNIT_EXPECT_FALSE(test, lodic_kunit_unref(t));
	lodic_kunit_put(t, 1);
	KUNIT_EXPECT_EQ(test, folio_ref_count(t->folio), t->refs);
}

static void lodic_hidden(struct kunit *test)
{
	struct lodic_kunit *t = test->priv;
	pte_t before = t->pte;

	lodic_kunit_ref(t);
	KUNIT_EXPECT_TRUE(test, pte_same(ptep_get(&t->pte), before));
	KUNIT_EXPECT_FALSE(test, pte_same(t->pte, before));
	lodic_kunit_unref(t);
}

static void lodic_flags_keep(struct kunit *test)
{
	struct lodic_kunit *t = test->priv;
	pte_t young = pte_mkyoung(t->pte);

	t->pte = pte_mkold(t->pte);
	lodic_kunit_ref(t);
	KUNIT_EXPECT_EQ(test, ptep_set_access_flags(NULL, 0, &t->pte, young, 1), 1);
	KUNIT_EXPECT_TRUE(test, pte_young(t->pte));
	KUNIT_EXPECT_EQ(test, pte_count(t->pte.pte), 1);
	lodic_kunit_unref(t);
}

static struct kunit_case lodic_kunit_cases[] = {
	KUNIT_CASE(lodic_ref_and_unref),
	KUNIT_CASE(lodic_seen),
	KUNIT_CASE(lodic_mark_stays),
	KUNIT_CASE(lodic_full),
	KUNIT_CASE(lodic_only_its_own),
	KUNIT_CASE(lodic_clear_folds),
	KUNIT_CASE(lodic_mapped_again),
	KUNIT_CASE(lodic_hidden),
	KUNIT_CASE(lodic_flags_keep),
	{ }
};

static struct kunit_suite lodic_kunit_suite = {
	.name = "lodic",
	.init = lodic_kunit_init,
	.exit = lodic_kunit_exit,
	.test_cases = lodic_kunit_cases,
};

kunit_test_suite(lodic_kunit_suite);
