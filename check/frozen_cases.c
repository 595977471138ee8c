/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A page is allocated, used and freed again and again. Readers that have found it in a cache count
 * references in its one word meanwhile. doc/frozen.md says what this is for.
 *
 *   page-put   an owner and readers put their references of a page's first life, while an
 *              allocator waits for the page, gives it a second life and puts that
 *   page-put2  the same with two readers
 *
 * Five forms of the word are its schemes:
 *
 *   unless       0 is free. A get adds unless it is 0; the put that comes to 0 frees (Linux 6.12)
 *   frozen-bit   a get adds and looks for the bit. A put that comes to 0 tries 0 -> bit, and frees
 *                if that was done (proposed for Linux in 2026)
 *   frozen-last  a get adds and looks for the bit. The put of the last reference does 1 -> bit
 *   frozen-mixed owners put as in frozen-last, and readers as in frozen-bit. Only owners use what
 *                they knew before
 *   frozen       core/count_word.h: the owner's reference is a live bit. The owner alone frees, by
 *                live -> 0, and tries until it can
 *
 * Rules
 * FB1 Each life of a page is freed once, when nobody has a reference.
 * FB2 A put frees what the page is then, and not what it was before the put.
 * FB3 A get that fails in a frozen word owes nothing, because an allocation stores 1.
 *
 * Under frozen-bit FB2 is a rule for those who call a put. The others keep it by themselves for
 * everybody who had a valid reference. So FB2's mutant breaks frozen-bit alone.
 */
#include "check/case.h"
#include "core/count_word.h"

#define LIVES 2u
#define READERS 2u
#define KIND(life) (10u * (life))
#define FROZEN_BIT ((u64)1 << 63)
/* Linux waits until 2^30 gets have failed before one of them tidies up. */
#define FAILED_MANY (FROZEN_BIT + 2)

/* How a word counts. put(): true: the caller frees the page. */
struct form {
	const char *name;
	bool (*get)(u64 *word);
	bool (*put)(u64 *word, bool owner);
	void (*begin)(u64 *word); /* a life begins, with its owner's reference */
	bool owners_know;         /* readers use nothing that they knew before a put */
};

struct page_case {
	const struct form *form;
	u32 nr_readers;
};

static struct page {
	u64 word, pad0[7];
	u64 kind, pad1[7];   /* what it is; the task that frees it must know */
	u64 cached, pad2[7]; /* readers find it here; 0: they do not */
	const struct page_case *c;
	/* The oracle; plain. */
	u32 life;
	u32 nr_held;
	bool is_free;
} * page;

/* ---- the forms ---- */

static bool unless_put(u64 *word, bool owner)
{
	(void)owner;
	return host_fetch_add(word, -(u64)1) == 1;
}

static bool bit_get(u64 *word)
{
	u64 v = host_fetch_add(word, 1) + 1;

	if (!(v & FROZEN_BIT))
		return true;
	/* FB3. Too many have failed: the bit alone says as much. A cas that fails has met another
	 * get, which tidies up, or an allocation. */
	if (v >= FAILED_MANY)
		host_cas(word, v, FROZEN_BIT);
	return false;
}

static bool bit_put(u64 *word, bool owner)
{
	(void)owner;
	if (host_fetch_add(word, -(u64)1) != 1)
		return false;
	return host_cas(word, 0, FROZEN_BIT); /* FB1 */
}

/* Retried when others have counted in between. */
static bool last_put(u64 *word, bool owner)
{
	u64 v;

	(void)owner;
	do
		v = host_load_relaxed(word);
	while (!host_cas(word, v, v == 1 ? FROZEN_BIT : v - 1));
	return v == 1;
}

static bool mixed_put(u64 *word, bool owner)
{
	return owner ? last_put(word, owner) : bit_put(word, owner);
}

static bool base_put(u64 *word, bool owner)
{
	if (!owner) {
		count_frozen_word_unref(word);
		return false;
	}
	while (!count_frozen_word_freeze(word))
		host_relax();
	return true;
}

/* What the allocator does before it gives a page away; nobody counts validly then. */
static void one_begin(u64 *word)
{
	host_store_relaxed(word, 1);
}

static const struct form forms[] = {
	{ "unless", count_atomic_word_ref, unless_put, one_begin, false },
	{ "frozen-bit", bit_get, bit_put, one_begin, false },
	{ "frozen-last", bit_get, last_put, one_begin, false },
	{ "frozen-mixed", bit_get, mixed_put, one_begin, true },
	{ "frozen", count_frozen_word_ref, base_put, count_frozen_word_thaw, false },
};
#define NR_FORMS (sizeof(forms) / sizeof(forms[0]))

/* ---- what tasks do ---- */

/* known: what the caller knew of the page when it had its reference; 0: nothing. Only a mutant
 * believes it. */
static void put(u64 known, bool owner)
{
	u64 kind;

	(void)known;
	page->nr_held--;
	if (!page->c->form->put(&page->word, owner))
		return;
	kind = host_load_relaxed(&page->kind);
	check_note("frees life %u as %llu", page->life, (unsigned long long)kind);
	CHECK_ASSERT(!page->is_free, "FB1: a life of a page is freed once");
	CHECK_ASSERT(page->nr_held == 0, "FB1: what is freed has no holder");
	CHECK_ASSERT(kind == KIND(page->life), "FB2: a page is freed as what it is");
	page->is_free = true;
}

static void hold(void)
{
	CHECK_ASSERT(!page->is_free, "FB1: what is free gives no reference");
	page->nr_held++;
}

/* The page leaves the cache first. */
static void owner(void *arg)
{
	u64 known = host_load_relaxed(&page->kind);

	(void)arg;
	host_store_relaxed(&page->cached, 0);
	put(known, true);
}

/* As a look-up without a lock: found, counted, found again. Where it is found no more, the
 * reference may be one of another life, and its holder knows nothing of that. */
static void reader(void *arg)
{
	u64 known = 0;

	(void)arg;
	if (!host_load_acquire(&page->cached) || !page->c->form->get(&page->word))
		return;
	hold();
	if (host_load_acquire(&page->cached) && !page->c->form->owners_know)
		known = host_load_relaxed(&page->kind);
	put(known, false);
}

static bool is_free(void *arg)
{
	(void)arg;
	return page->is_free;
}

static void allocator(void *arg)
{
	(void)arg;
	while (page->life < LIVES) {
		check_wait(is_free, NULL);
		page->is_free = false;
		page->life++;
		check_note("allocates life %u", page->life);
		host_store_relaxed(&page->kind, KIND(page->life));
		page->nr_held++;
		page->c->form->begin(&page->word);
		put(KIND(page->life), true);
	}
}

/* ---- the world ---- */

static void page_setup(const void *arg)
{
	const struct page_case *c = arg;
	u32 i;

	page = host_alloc(sizeof(*page), 64);
	CHECK_ASSERT(page, "memory for the page");
	page->c = c;
	page->life = page->nr_held = 1;
	c->form->begin(&page->word);
	page->kind = KIND(1);
	page->cached = 1;
	check_name(&page->word, 8, "count");
	check_name(&page->kind, 8, "kind");
	check_name(&page->cached, 8, "cached");
	check_task("owner", 0, owner, NULL);
	for (i = 0; i < c->nr_readers; i++)
		check_task("reader", 1 + i, reader, NULL);
	check_task("allocator", 1 + READERS, allocator, NULL);
}

static void page_finish(const void *arg)
{
	(void)arg;
	CHECK_ASSERT(page->life == LIVES && page->is_free,
	             "FB1: a page that nobody has is free");
}

void check_cases_page(struct check_list *list)
{
	static const char *const names[READERS] = { "page-put", "page-put2" };
	static struct page_case cases[NR_FORMS][READERS];
	u32 i, nr;

	for (i = 0; i < NR_FORMS; i++)
		for (nr = 0; nr < READERS; nr++) {
			struct page_case *c = &cases[i][nr];
			struct check_case one = { .scenario = names[nr],
				                  .scheme = forms[i].name,
				                  .run = { names[nr], 2 + READERS, c,
				                           page_setup, page_finish } };

			*c = (struct page_case){ &forms[i], nr + 1 };
			check_list_add(list, &one);
		}
}
