/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * snzi_sv6: the scalable non-zero indicator as the papers ran it, a binary tree of locked
 * counts without padding (ADR-0034).
 * Sources: Ellen, Lev, Luchangco, Moir (PODC 2007); the kernel sv6, from which PAYGO's authors
 * took it (PAYGO s.4, s.6.2.3). It is a rival for the checker and the timing model.
 * core/count/count_snzi.c is this tree's own.
 *
 * Idea. Each CPU has a leaf. A reader counts in its CPU's leaf. The first one to come to a
 * node also counts in the node's parent, and the last one to go takes that back. So the root's
 * count is 0 when nobody is there.
 *
 * Words of a node, four nodes to a line, and lines of several CPUs' leaves
 *   lock     any thread, from a leaf upwards. Nobody takes the lock of a node below one that
 *            it has.
 *   count    a leaf: its references; other nodes: their children that are not 0. Under the
 *            lock.
 *   LIVE     in the root's count. The thread that freezes or thaws.
 *
 *      root 0 <--thaw, freeze--> LIVE <---------> LIVE + 1, 2
 *                                      a child that was 0, or is 0 again
 *
 * Invariants
 * SZ1 A leaf counts the tokens that name it. A token names a leaf, and unref goes there, on
 *     whatever CPU it runs.
 * SZ2 A reader that locks a node with a count relies on the nodes above. So the reader that
 *     comes first keeps all locks from its leaf to the first node with a count. It counts there,
 *     and then downwards.
 * SZ3 The root has LIVE, or the tree is empty. A reader that finds no LIVE leaves all counts as
 *     they are.
 * SZ4 The reader that goes last takes its node's count away first, and the parent's afterwards.
 *     It locks the parent before it lets the node go. So a parent never counts too few.
 *
 *       A, first in its leaf        B, same leaf            freezer
 *       leaf: 0 -> 1, let go
 *                                   leaf: 1 -> 2, has it
 *                                                           root: no count, FROZEN
 *       root: finds no LIVE
 *
 * That is SZ2 without the lock, and how sv6 goes up. There an object has a first reference,
 * and nobody asks for the root's count. Here the contract does.
 *
 * Order: the locks. What holders did comes before their unref's unlock. That comes before the
 * next lock of the same node, and so on up to the root (N2). A thaw comes before the next
 * arrival at the root, and that before all counts below (N3). A query takes the root's lock,
 * too: while a reader's count is in its CPU's buffer, the root is locked (N4).
 * Progress: each operation waits for locks, at most for one on each level.
 * Not here: padding, for which sv6 has no space, and the original's steps without a lock.
 * Worse than snzi: neighbours' leaves share a line, and a reader that comes alone takes a lock
 * on each level.
 */
#include "core/count/count_gate.h"

/* Two words: lock and count. */
#define NODE_WORDS 2u
#define NODE_COUNT 1u

#define ROOT 0u
#define ROOT_LIVE ((u64)1 << 63) /* not in zeroed memory (N1) */

struct snzi_sv6 {
	u64 *words;
	u32 nr_cpus;
	u32 first_leaf;   /* as many nodes are above the leaves */
	u32 stride_words; /* from one object's tree to the next one's */
};

/* The node height levels above leaf; the root has number 0, and n's children 2n + 1 and
 * 2n + 2. */
static u32 snzi_sv6_above(u32 leaf, u32 height)
{
	return ((leaf + 1) >> height) - 1;
}

static u64 *count_snzi_sv6_node(struct count *c, u32 object, u32 n)
{
	struct snzi_sv6 *s = c->state;

	return &s->words[(u64)object * s->stride_words + (u64)n * NODE_WORDS];
}

static u64 count_snzi_sv6_bytes(const struct count *c)
{
	const struct snzi_sv6 *s = c->state;

	return (u64)c->nr_objects * s->stride_words * sizeof(u64);
}

static void count_snzi_sv6_fini(struct count *c)
{
	struct snzi_sv6 *s = c->state;

	if (s->words)
		host_free(s->words, count_snzi_sv6_bytes(c));
	host_free(s, sizeof(*s));
}

static int count_snzi_sv6_init(struct count *c)
{
	struct snzi_sv6 *s = host_alloc(sizeof(*s), COUNT_LINE_BYTES);
	u32 nr_leaves = 1;

	if (!s)
		return -ENOMEM;
	c->state = s;
	s->nr_cpus = host_nr_cpus();
	while (nr_leaves < s->nr_cpus)
		nr_leaves *= 2;
	s->first_leaf = nr_leaves - 1;
	s->stride_words =
		count_round_to_line((s->first_leaf + s->nr_cpus) * NODE_WORDS);
	/* A line an object would say that frames have the counts (struct count_cost). */
	if (s->stride_words == COUNT_LINE_WORDS)
		s->stride_words *= 2;
	s->words = host_alloc(count_snzi_sv6_bytes(c), COUNT_LINE_BYTES); /* N1 */
	if (s->words)
		return 0;
	count_snzi_sv6_fini(c);
	c->state = NULL;
	return -ENOMEM;
}

/* For those who have the node's lock. */
static u64 snzi_sv6_count(const u64 *node)
{
	return host_load_relaxed(node + NODE_COUNT);
}

static void snzi_sv6_add(u64 *node, u64 delta)
{
	host_store_relaxed(node + NODE_COUNT, snzi_sv6_count(node) + delta);
}

/* false: the root is frozen. */
static bool count_snzi_sv6_arrive(struct count *c, u32 object, u32 leaf)
{
	u32 height = 0;
	u64 *node = count_snzi_sv6_node(c, object, leaf);
	bool done;

	/* A level for each round, up to the root. */
	for (host_lock(node);; host_lock(node)) {
		if (snzi_sv6_above(leaf, height) == ROOT || snzi_sv6_count(node) > 0)
			break;
		height++;
		node = count_snzi_sv6_node(c, object, snzi_sv6_above(leaf, height));
	}
	done = snzi_sv6_count(node) > 0; /* SZ3: the root counts LIVE, too */
	if (done)
		snzi_sv6_add(node, 1);
	host_unlock(node);
	while (height > 0) {
		height--;
		node = count_snzi_sv6_node(c, object, snzi_sv6_above(leaf, height));
		if (done)
			snzi_sv6_add(node, 1); /* SZ2 */
		host_unlock(node);
	}
	return done;
}

static bool count_snzi_sv6_ref(struct count *c, u32 object, u32 user, u64 *ret_token)
{
	struct snzi_sv6 *s = c->state;
	u32 leaf = s->first_leaf + host_cpu();

	(void)user;
	if (!count_snzi_sv6_arrive(c, object, leaf))
		return false;
	*ret_token = leaf; /* SZ1 */
	return true;
}

static void count_snzi_sv6_unref(struct count *c, u32 object, u32 user, u64 token)
{
	u32 leaf = (u32)token;
	u64 *node, *below = NULL;
	u32 height = 0, n;

	(void)user;
	/* A level for each round, up to the root. */
	do {
		n = snzi_sv6_above(leaf, height++);
		node = count_snzi_sv6_node(c, object, n);
		host_lock(node);
		if (below)
			host_unlock(below); /* SZ4 */
		DCHECK((snzi_sv6_count(node) & ~ROOT_LIVE) > 0,
		       "SZ1: what leaves a node has come");
		snzi_sv6_add(node, -(u64)1);
		below = node;
	} while (n != ROOT && snzi_sv6_count(node) == 0);
	host_unlock(node);
}

static bool count_snzi_sv6_query(struct count *c, u32 object)
{
	u64 *root = count_snzi_sv6_node(c, object, ROOT);
	bool used;

	host_lock(root); /* N4 */
	used = (snzi_sv6_count(root) & ~ROOT_LIVE) > 0;
	host_unlock(root);
	return used;
}

static bool count_snzi_sv6_freeze(struct count *c, u32 object)
{
	u64 *root = count_snzi_sv6_node(c, object, ROOT);
	bool done;

	host_lock(root);
	done = snzi_sv6_count(root) == ROOT_LIVE; /* SZ3 */
	if (done)
		host_store_relaxed(root + NODE_COUNT, 0);
	host_unlock(root);
	return done;
}

static void count_snzi_sv6_thaw(struct count *c, u32 object)
{
	u64 *root = count_snzi_sv6_node(c, object, ROOT);

	host_lock(root);
	CHECK(snzi_sv6_count(root) == 0, "thaw of what is frozen");
	host_store_relaxed(root + NODE_COUNT, ROOT_LIVE);
	host_unlock(root);
}

static u64 count_snzi_sv6_sum(struct count *c, u32 object)
{
	struct snzi_sv6 *s = c->state;
	u64 sum = 0;
	u32 i;

	for (i = 0; i < s->nr_cpus; i++)
		sum += snzi_sv6_count(
			       count_snzi_sv6_node(c, object, s->first_leaf + i)) &
		       ~ROOT_LIVE; /* one CPU: the root is the leaf */
	return sum;
}

static void count_snzi_sv6_cost(const struct count *c, struct count_cost *ret_cost)
{
	const struct snzi_sv6 *s = c->state;

	*ret_cost =
		(struct count_cost){ .object_bytes = s->stride_words * sizeof(u64) };
}

/* How many children of n have a count. */
static u32 count_snzi_sv6_children(struct count *c, u32 object, u32 n)
{
	struct snzi_sv6 *s = c->state;
	u32 nr = 0, child;

	for (child = 2 * n + 1; child <= 2 * n + 2; child++)
		nr += child < s->first_leaf + s->nr_cpus &&
		      snzi_sv6_count(count_snzi_sv6_node(c, object, child)) > 0;
	return nr;
}

static void count_snzi_sv6_check(struct count *c, const struct count_held *held,
                                 u32 nr_held)
{
	struct snzi_sv6 *s = c->state;
	u32 object, n, j, nr;

	for (object = 0; object < c->nr_objects; object++) {
		u64 root = snzi_sv6_count(count_snzi_sv6_node(c, object, ROOT));

		for (n = 0; n < s->first_leaf + s->nr_cpus; n++) {
			u64 *node = count_snzi_sv6_node(c, object, n);

			nr = 0;
			for (j = 0; j < nr_held; j++)
				nr += held[j].object == object && held[j].token == n;
			if (n < s->first_leaf)
				nr = count_snzi_sv6_children(c, object, n);
			CHECK((snzi_sv6_count(node) & ~ROOT_LIVE) == nr,
			      "SZ1: a leaf counts its tokens, a node its children");
			CHECK(host_load_relaxed(node) == 0, "a lock is free at rest");
		}
		CHECK((root & ROOT_LIVE) || root == 0, "SZ3: frozen is unused");
	}
}

const struct count_scheme count_snzi_sv6 = {
	.name = "snzi_sv6",
	.counts = true,
	.is_rival = true,
	.init = count_snzi_sv6_init,
	.fini = count_snzi_sv6_fini,
	.ref = count_snzi_sv6_ref,
	.unref = count_snzi_sv6_unref,
	.query = count_snzi_sv6_query,
	.freeze = count_snzi_sv6_freeze,
	.thaw = count_snzi_sv6_thaw,
	.sum = count_snzi_sv6_sum,
	.cost = count_snzi_sv6_cost,
	.check = count_snzi_sv6_check,
};
