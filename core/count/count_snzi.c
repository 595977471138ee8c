/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * snzi: a scalable non-zero indicator (Ellen, Lev, Luchangco, Moir, PODC 2007), with a
 * frozen state that the original does not have.
 *
 * Idea. A reader counts in a leaf near its CPU. Only the first reader to come to a leaf, and
 * the last one to go, tell the root. And only the first and last at the root write the
 * indicator, one word that says whether anybody is there at all. So a query costs one load,
 * and readers write no more than their leaf as long as it is never empty. Readers that come
 * one by one find it empty each time. They all go to the root, and snzi is then worse than
 * atomic.
 *
 * Words of an object
 *   leaf     one per LEAVES-th of the CPUs. Count of references, or HALF: a reader has
 *            announced itself here and is on its way to the root. Any thread, by cas.
 *   root     COUNT (how many leaves are not empty, or are about to be), NEWS (the indicator
 *            may not know yet), FROZEN, and a version that grows whenever COUNT leaves 0.
 *            Any thread, by cas; FROZEN by the thread that freezes or thaws.
 *   indicator   bit 0: somebody is here; above it the version that set it. A thread that
 *            arrives at the root while NEWS stands, or that leaves it empty.
 *
 *   leaf   0 ----> HALF ----> 1 <----> 2 ...      HALF -> 1: by any thread that has arrived
 *          ^         |        |                   at the root; HALF -> 0: by the announcer
 *          +---------+--------+                   alone, when the root was frozen
 *
 * Invariants
 * Q1 A leaf with a count has arrived at the root: root COUNT >= leaves with a count. When
 *    nothing moves they are equal, no leaf is HALF and no NEWS stands.
 * Q2 FROZEN implies COUNT 0, hence no reference.
 * Q3 The indicator says "somebody" from before the end of a root's first arrival until its
 *    last departure. When nothing moves it says so exactly then.
 *
 * Order
 * O15 A leaf counts only when the root does: HALF first, root second, 1 third. If the leaf
 *    counted first, the next reader there would believe that the root knows of both.
 * O16 The indicator is set before NEWS is taken away: a reader that sees no NEWS relies on
 *    the indicator.
 * O17 A thread that leaves the root empty loads the indicator first and the root's version
 *    after it (acquire), and clears by cas. A later arrival has raised the version in the
 *    root before it writes it to the indicator. So either the leaver sees the new version,
 *    or its cas fails.
 *
 *       A, last to leave             B, first to come (version 7 -> 8)
 *       root: COUNT 0, version 7
 *       indicator is (1, 7)
 *                                    root: COUNT 1, NEWS, version 8
 *                                    indicator := (1, 8)
 *       cas (1, 7) -> (0, 7) fails   -
 *
 *    Without the versions A's cas would succeed and deny B.
 *
 * Every step is a cas or an exchange. So what holders did comes before a freeze (N2). And
 * what was done while the object was frozen comes before the thaw, the next root arrival,
 * and all later counts at its leaves (N3).
 *
 * Progress. Lock-free: a failed cas means that another reader has come or gone. A reader
 * that stops for ever while its leaf is HALF delays nobody, because others arrive at the
 * root for it. Locks: none.
 * Not here: the leaf's version number. A HALF ends by a promotion, after which the
 * announcer's own count keeps the leaf from 0, or by the announcer itself. So the announcer
 * never sees the same HALF twice, and for all others one HALF is as good as another.
 * Nor more than two levels: with LEAVES leaves the root sees few of the readers' cas.
 */
#include "core/count/count.h"

/* Ours: at most so many leaves meet at the root. CPUs next to each other share a leaf. */
#define COUNT_SNZI_LEAVES 16u

#define LEAF_HALF ((u64)1 << 63)

#define ROOT_COUNT ((u64)0xffffffff)
#define ROOT_NEWS ((u64)1 << 32)
#define ROOT_LIVE ((u64)1 << 33) /* clear: FROZEN, also in zeroed memory (N1) */
#define ROOT_VERSION ((u64)1 << 34)
#define ROOT_VERSION_SHIFT 34

#define SOMEBODY ((u64)1)

/* An object's lines: root, indicator, leaves. */
#define LINE_ROOT 0u
#define LINE_INDICATOR 1u
#define LINE_LEAVES 2u

struct snzi {
	u64 *words;
	u32 nr_leaves; /* per object */
	u32 nr_cpus;
};

static u64 *count_snzi_line(struct count *c, u32 object, u32 line)
{
	struct snzi *s = c->state;
	u64 lines = (u64)object * (LINE_LEAVES + s->nr_leaves) + line;

	return &s->words[lines * COUNT_LINE_WORDS];
}

static u64 count_snzi_words_bytes(const struct count *c)
{
	const struct snzi *s = c->state;

	return (u64)c->nr_objects * (LINE_LEAVES + s->nr_leaves) * COUNT_LINE_BYTES;
}

static void count_snzi_fini(struct count *c)
{
	struct snzi *s = c->state;

	if (s->words)
		host_free(s->words, count_snzi_words_bytes(c));
	host_free(s, sizeof(*s));
}

static int count_snzi_init(struct count *c)
{
	struct snzi *s = host_alloc(sizeof(*s), COUNT_LINE_BYTES);

	if (!s)
		return -ENOMEM;
	c->state = s;
	s->nr_cpus = host_nr_cpus();
	s->nr_leaves = s->nr_cpus < COUNT_SNZI_LEAVES ? s->nr_cpus : COUNT_SNZI_LEAVES;
	s->words = host_alloc(count_snzi_words_bytes(c), COUNT_LINE_BYTES); /* N1 */
	if (s->words)
		return 0;
	count_snzi_fini(c);
	c->state = NULL;
	return -ENOMEM;
}

static u64 count_snzi_version(u64 root)
{
	return root >> ROOT_VERSION_SHIFT;
}

/* false: frozen. It retries when another thread came to or left the root. */
static bool count_snzi_root_arrive(struct count *c, u32 object)
{
	u64 *root = count_snzi_line(c, object, LINE_ROOT);
	u64 v, mine;

	do {
		v = host_load_relaxed(root); /* the cas fails if it is old */
		if (!(v & ROOT_LIVE))
			return false;
		mine = v + 1;
		if ((v & ROOT_COUNT) == 0)
			mine = (mine | ROOT_NEWS) + ROOT_VERSION;
	} while (unlikely(!host_cas(root, v, mine)));
	if (mine & ROOT_NEWS) {
		/* O16. Not a cas: this arrival keeps the version where it is, so no other
		 * thread has anything else to write. A full fence, because the cas below
		 * may fail, and then orders nothing. */
		host_xchg(count_snzi_line(c, object, LINE_INDICATOR),
		          count_snzi_version(mine) << 1 | SOMEBODY);
		/* One try: a thread that made it fail has seen NEWS too, or has left. */
		host_cas(root, mine, mine & ~ROOT_NEWS);
	}
	return true;
}

static void count_snzi_root_depart(struct count *c, u32 object)
{
	u64 *root = count_snzi_line(c, object, LINE_ROOT);
	u64 *indicator = count_snzi_line(c, object, LINE_INDICATOR);
	u64 v, said;

	do {
		v = host_load_relaxed(root);
		DCHECK((v & ROOT_COUNT) > 0, "Q1: what leaves the root has come");
		/* NEWS is old: this thread's arrival has told the indicator. */
	} while (unlikely(!host_cas(root, v, (v & ~ROOT_NEWS) - 1)));
	if ((v & ROOT_COUNT) > 1)
		return;
	/* At most twice: only an arrival with a new version writes the indicator (O17). */
	do {
		said = host_load_acquire(indicator);
		if (count_snzi_version(host_load_relaxed(root)) !=
		    count_snzi_version(v))
			return;
	} while (unlikely(!host_cas(indicator, said, said & ~SOMEBODY)));
}

/* Makes a HALF leaf count for its announcer, or for the reader that comes first. */
static bool count_snzi_promote(struct count *c, u32 object, u64 *leaf, u32 *undo)
{
	if (!count_snzi_root_arrive(c, object))
		return false;
	/* Another thread's arrival has done it: ours is one too many. */
	if (!host_cas(leaf, LEAF_HALF, 1))
		(*undo)++;
	return true;
}

/* The leaf was empty and the caller has made it HALF; undo as in count_snzi_promote(). */
static bool count_snzi_announced(struct count *c, u32 object, u64 *leaf, u32 *undo)
{
	if (likely(count_snzi_promote(c, object, leaf, undo)))
		return true;
	/* The root is frozen: take the HALF back. Only a promotion makes this cas fail: then
	 * another thread has arrived since, and the leaf counts for this one. */
	if (host_cas(leaf, LEAF_HALF, 0))
		return false;
	/* Acquire, partner: that promotion's cas, after a thaw (N3). */
	(void)host_load_acquire(leaf);
	return true;
}

static bool count_snzi_leaf_arrive(struct count *c, u32 object, u64 *leaf, u32 *undo)
{
	/* Lock-free: for each further round another thread has come to or left this leaf. */
	for (;;) {
		u64 v = host_load_relaxed(
			leaf); /* a cas proves it, or a root arrival */

		if (v == LEAF_HALF) {
			/* Another reader announced itself, and may be held up. */
			if (!count_snzi_promote(c, object, leaf, undo))
				return false;
		} else if (v > 0) {
			if (likely(host_cas(leaf, v, v + 1)))
				return true;
		} else if (host_cas(leaf, 0, LEAF_HALF)) { /* O15 */
			return count_snzi_announced(c, object, leaf, undo);
		}
	}
}

static bool count_snzi_ref(struct count *c, u32 object, u32 user, u64 *ret_token)
{
	struct snzi *s = c->state;
	u32 leaf = (u32)((u64)host_cpu() * s->nr_leaves / s->nr_cpus);
	u32 undo = 0; /* arrivals of this thread that the root has too many; few */
	bool done;

	(void)user;
	done = count_snzi_leaf_arrive(
		c, object, count_snzi_line(c, object, LINE_LEAVES + leaf), &undo);
	for (; undo > 0; undo--)
		count_snzi_root_depart(c, object);
	if (done)
		*ret_token = leaf;
	return done;
}

static void count_snzi_unref(struct count *c, u32 object, u32 user, u64 token)
{
	u64 *leaf = count_snzi_line(c, object, LINE_LEAVES + (u32)token);
	u64 before;

	(void)user;
	/* An add will do: this reference keeps the leaf from being 0 or HALF. */
	before = host_fetch_add(leaf, -(u64)1);
	DCHECK(before > 0 && before < LEAF_HALF, "Q1: unref of what is referenced");
	if (before == 1)
		count_snzi_root_depart(c, object);
}

/* N4, by Q3. */
static bool count_snzi_query(struct count *c, u32 object)
{
	return host_load_acquire(count_snzi_line(c, object, LINE_INDICATOR)) & SOMEBODY;
}

static bool count_snzi_freeze(struct count *c, u32 object)
{
	u64 *root = count_snzi_line(c, object, LINE_ROOT);
	u64 v = host_load_relaxed(root);

	/* Q2. One try: a thread that makes it fail has just come. A leaf that is HALF now
	 * will find the root frozen. */
	return (v & ROOT_LIVE) && (v & ROOT_COUNT) == 0 &&
	       host_cas(root, v, v & ~ROOT_LIVE);
}

static void count_snzi_thaw(struct count *c, u32 object)
{
	u64 *root = count_snzi_line(c, object, LINE_ROOT);
	u64 v = host_load_relaxed(root);
	bool done;

	/* A frozen root stands still. */
	done = !(v & ROOT_LIVE) && host_cas(root, v, v | ROOT_LIVE);
	CHECK(done, "thaw of what is frozen");
}

static u64 count_snzi_sum(struct count *c, u32 object)
{
	struct snzi *s = c->state;
	u64 sum = 0;
	u32 i;

	for (i = 0; i < s->nr_leaves; i++)
		sum += host_load_relaxed(count_snzi_line(c, object, LINE_LEAVES + i)) &
		       ~LEAF_HALF;
	return sum;
}

static void count_snzi_cost(const struct count *c, struct count_cost *ret_cost)
{
	const struct snzi *s = c->state;

	*ret_cost =
		(struct count_cost){ .object_bytes = (u64)(LINE_LEAVES + s->nr_leaves) *
		                                     COUNT_LINE_BYTES };
}

static void count_snzi_check(struct count *c, const struct count_held *held,
                             u32 nr_held)
{
	struct snzi *s = c->state;
	u32 object, i, j;

	for (object = 0; object < c->nr_objects; object++) {
		u64 root = host_load_relaxed(count_snzi_line(c, object, LINE_ROOT));
		u64 nr_used = 0;

		for (i = 0; i < s->nr_leaves; i++) {
			u64 v = host_load_relaxed(
				count_snzi_line(c, object, LINE_LEAVES + i));
			u32 nr = 0;

			for (j = 0; j < nr_held; j++)
				nr += held[j].object == object && held[j].token == i;
			CHECK(v == nr, "Q1: a leaf counts the tokens that name it");
			nr_used += v > 0;
		}
		CHECK((root & ROOT_COUNT) == nr_used && !(root & ROOT_NEWS),
		      "Q1: the root counts the leaves in use");
		CHECK((root & ROOT_LIVE) || nr_used == 0, "Q2: frozen is unused");
		CHECK(count_snzi_query(c, object) == (nr_used > 0),
		      "Q3: the indicator knows");
	}
}

const struct count_scheme count_snzi = {
	.name = "snzi",
	.counts = true,
	.init = count_snzi_init,
	.fini = count_snzi_fini,
	.ref = count_snzi_ref,
	.unref = count_snzi_unref,
	.query = count_snzi_query,
	.freeze = count_snzi_freeze,
	.thaw = count_snzi_thaw,
	.sum = count_snzi_sum,
	.cost = count_snzi_cost,
	.check = count_snzi_check,
};
