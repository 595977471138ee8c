/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Eviction: S3-FIFO over frame numbers. reclaim.h says what it is, and its invariants R1-R8.
 *
 * Queues are lists through one array. So moving a frame allocates nothing, and a frame that
 * leaves by another way is unlinked at once. GHOST is the same kind of list, and its entries
 * are found by hash. A name that comes back makes room for another name. So GHOST always
 * remembers ghost_size names, and not ghost_size evictions.
 *
 * The paper knows no pins. Here a frame that cannot be taken goes to the new end of the queue
 * it is in. The pin itself earns it nothing; its visits do. The hand does not meet it again
 * before it has met all others.
 */
#include "core/cache/reclaim.h"

/* The authors' defaults: SMALL has 1/10 of the frames, GHOST 9/10 as many names. */
#define SMALL_PART 10u
#define GHOST_TENTHS 9u
/* Visits in SMALL that earn a place in MAIN: "more than once" (Yang et al., alg. 1). */
#define FREQ_TO_MAIN 2u
/* Turns round MAIN. After FRAME_VISITS_MAX of them every visit that was there at the start
 * is used up. In the last one new visits no longer save a frame. */
#define MAIN_TURNS (FRAME_VISITS_MAX + 1)
/* After so many looks without a victim an eviction is long, and asks for the visits of
 * RECLAIM_NEAR frames at once. Our choice: it then costs no more than it has cost already.
 * Always to ask for so many would have readers note their visits anew too often. */
#define LOOKS_ALONE RECLAIM_NEAR
/* Cache lines that a look touches besides those of its ops. They hold the frame's node and
 * neighbours, the ends of two queues, and a name in GHOST. */
#define LOOK_LINES 16u
/* The nodes of the frames near. */
#define NEAR_LINES (RECLAIM_NEAR * (u32)sizeof(struct reclaim_node) / 64 + 1)

static void list_push(struct reclaim *r, u32 node, enum reclaim_queue queue)
{
	struct reclaim_list *list = &r->lists[queue];
	struct reclaim_node *n = &r->nodes[node];

	n->queue = (u8)queue;
	n->older = list->newest;
	n->newer = RECLAIM_NONE;
	if (list->newest == RECLAIM_NONE)
		list->oldest = node;
	else
		r->nodes[list->newest].newer = node;
	list->newest = node;
	list->nr++;
}

static void list_unlink(struct reclaim *r, u32 node)
{
	struct reclaim_node *n = &r->nodes[node];
	struct reclaim_list *list = &r->lists[n->queue];

	if (n->older == RECLAIM_NONE)
		list->oldest = n->newer;
	else
		r->nodes[n->older].newer = n->newer;
	if (n->newer == RECLAIM_NONE)
		list->newest = n->older;
	else
		r->nodes[n->newer].older = n->older;
	list->nr--;
	n->queue = RECLAIM_OUT;
	if (r->walk == node) /* R8 */
		r->walk = n->newer;
}

static void list_move(struct reclaim *r, u32 node, enum reclaim_queue queue)
{
	list_unlink(r, node);
	list_push(r, node, queue);
}

static u32 *ghost_bucket(const struct reclaim *r, u64 block)
{
	return &r->buckets[block_hash(block) >> r->bucket_shift];
}

/* The link that leads to block's name, NULL when GHOST does not have it. A chain is no
 * longer than GHOST; about one entry is usual. */
static u32 *ghost_find(const struct reclaim *r, u64 block)
{
	u32 *link = ghost_bucket(r, block);

	for (u32 left = r->lists[RECLAIM_GHOST].nr; left > 0; left--) {
		if (*link == RECLAIM_NONE)
			break;
		if (r->nodes[*link].block == block)
			return link;
		link = &r->nodes[*link].chain;
	}
	return NULL;
}

/* Forgets block if GHOST has its name, and says whether it had. */
static bool ghost_forget(struct reclaim *r, u64 block)
{
	u32 *link = ghost_find(r, block);
	u32 node;

	if (!link)
		return false;
	node = *link;
	*link = r->nodes[node].chain;
	list_move(r, node, RECLAIM_SPARE);
	return true;
}

static void ghost_forget_oldest(struct reclaim *r)
{
	ghost_forget(r, r->nodes[r->lists[RECLAIM_GHOST].oldest].block);
}

static void ghost_remember(struct reclaim *r, u64 block)
{
	u32 *bucket = ghost_bucket(r, block);
	u32 node;

	DCHECK(!ghost_find(r, block), "R3: cached, or in the ghost");
	if (r->lists[RECLAIM_SPARE].nr == 0)
		ghost_forget_oldest(r);
	node = r->lists[RECLAIM_SPARE].oldest;
	list_move(r, node, RECLAIM_GHOST);
	r->nodes[node].block = block;
	r->nodes[node].chain = *bucket;
	*bucket = node;
}

static enum reclaim_queue hand_queue(const struct reclaim_hand *hand)
{
	return hand->step == RECLAIM_IN_SMALL ? RECLAIM_SMALL : RECLAIM_MAIN;
}

/* Another turn through the hand's queue begins. */
static void hand_turn(struct reclaim *r, u32 turn)
{
	r->hand.turn = turn;
	r->hand.left = r->lists[hand_queue(&r->hand)].nr;
}

static void hand_step(struct reclaim *r, enum reclaim_step step)
{
	r->hand.step = step;
	r->hand.refused = 0;
	hand_turn(r, 0);
}

static void hand_begin(struct reclaim *r)
{
	r->filled = true;
	r->hand.nr_looks = 0;
	r->hand.number++;
	hand_step(r, r->lists[RECLAIM_MAIN].nr > r->main_size ? RECLAIM_LONG_MAIN
	                                                      : RECLAIM_IN_SMALL);
}

static bool hand_all_refused(const struct reclaim *r)
{
	return r->hand.step != RECLAIM_IN_SMALL &&
	       r->hand.refused >= r->lists[RECLAIM_MAIN].nr;
}

/* The hand's turn is over: the next one, or the next step. After LONG_MAIN, all of MAIN is
 * refused; after IN_SMALL, SMALL is empty, has just moved to MAIN, or is refused. */
static void hand_next(struct reclaim *r)
{
	const struct reclaim_hand *hand = &r->hand;

	if (hand->step != RECLAIM_IN_SMALL && hand->turn + 1 < MAIN_TURNS &&
	    !hand_all_refused(r))
		hand_turn(r, hand->turn + 1);
	else
		hand_step(r, (hand->step + 1) % (RECLAIM_IN_MAIN + 1));
}

static void hand_ask(struct reclaim *r, const struct reclaim_ops *ops, u32 first,
                     u32 nr)
{
	u8 visits[RECLAIM_NEAR];

	ops->visits(ops->ctx, first, nr, visits);
	r->hand.spent += ops->visits_lines + nr * ops->frame_lines;
	for (u32 i = 0; i < nr; i++)
		if (visits[i])
			reclaim_collect(r, first + i, visits[i]);
}

/* Looks at a queued frame: adds the visits that readers noted to those it had. Says whether
 * there are enough to keep it. A frame that was asked for with those near, in this eviction,
 * may have enough already. What came later then counts the next time. */
static bool hand_look(struct reclaim *r, const struct reclaim_ops *ops, u32 frame,
                      u32 enough)
{
	u32 first = frame - frame % RECLAIM_NEAR;
	u32 nr = r->nr_frames - first;
	u32 *asked = &r->asked[frame / RECLAIM_NEAR];

	if (r->hand.nr_looks < LOOKS_ALONE) {
		r->hand.nr_looks++;
		hand_ask(r, ops, frame, 1);
	} else if (*asked != r->hand.number) {
		*asked = r->hand.number;
		r->hand.spent += NEAR_LINES;
		hand_ask(r, ops, first, nr < RECLAIM_NEAR ? nr : RECLAIM_NEAR);
	} else if (r->nodes[frame].freq < enough) {
		hand_ask(r, ops, frame, 1);
	}
	return r->nodes[frame].freq >= enough;
}

static bool hand_take(struct reclaim *r, const struct reclaim_ops *ops, u32 frame)
{
	r->hand.spent += ops->take_lines;
	return ops->take(ops->ctx, frame);
}

/* Looks at the oldest frame of SMALL. true: it is taken. */
static bool hand_small(struct reclaim *r, const struct reclaim_ops *ops, u32 frame)
{
	if (hand_look(r, ops, frame, FREQ_TO_MAIN)) {
		/* The frame must earn its next round in MAIN anew. */
		r->nodes[frame].freq = 0;
		list_move(r, frame, RECLAIM_MAIN);
		r->nr_kept++;
	} else if (hand_take(r, ops, frame)) {
		r->nr_dropped++;
		list_unlink(r, frame);
		ghost_remember(r, r->nodes[frame].block);
		return true;
	} else {
		list_move(r, frame, RECLAIM_SMALL);
	}
	return false;
}

/* Looks at the oldest frame of MAIN. true: it is taken. */
static bool hand_main(struct reclaim *r, const struct reclaim_ops *ops, u32 frame)
{
	if (hand_look(r, ops, frame, 1) && r->hand.turn + 1 < MAIN_TURNS) {
		r->nodes[frame].freq--;
		r->hand.refused = 0;
	} else if (hand_take(r, ops, frame)) {
		list_unlink(r, frame);
		return true;
	} else {
		r->hand.refused++; /* R7 */
	}
	list_move(r, frame, RECLAIM_MAIN);
	return false;
}

static u32 reclaim_nr_near(const struct reclaim *r)
{
	return r->nr_frames / RECLAIM_NEAR + 1;
}

int reclaim_init(struct reclaim *r, u32 nr_frames)
{
	u32 small = nr_frames / SMALL_PART;
	u32 log2 = 1;

	if (nr_frames == 0 || nr_frames > RECLAIM_MAX_FRAMES)
		return -EINVAL;
	r->nr_frames = nr_frames;
	r->filled = false;
	r->walk = RECLAIM_NONE;
	r->nr_kept = r->nr_dropped = r->nr_looks = 0;
	r->main_size = nr_frames - (small > 0 ? small : 1);
	r->ghost_size = (u32)((u64)nr_frames * GHOST_TENTHS / 10);
	r->nr_nodes = nr_frames + r->ghost_size + 1; /* R4: the one more */
	while (((u64)1 << log2) < (u64)r->ghost_size + 1)
		log2++;
	r->nr_buckets = (u32)1 << log2;
	r->bucket_shift = 64 - log2;
	r->nodes = host_alloc(r->nr_nodes * sizeof(*r->nodes), 64);
	r->buckets = host_alloc(r->nr_buckets * sizeof(*r->buckets), 64);
	r->asked = host_alloc(reclaim_nr_near(r) * sizeof(*r->asked), 64);
	if (!r->nodes || !r->buckets || !r->asked) {
		reclaim_fini(r);
		return -ENOMEM;
	}
	r->hand = (struct reclaim_hand){ .step = RECLAIM_IDLE };
	for (u32 i = 0; i < r->nr_buckets; i++)
		r->buckets[i] = RECLAIM_NONE;
	for (u32 i = 0; i < RECLAIM_NR_QUEUES; i++)
		r->lists[i] = (struct reclaim_list){ RECLAIM_NONE, RECLAIM_NONE, 0 };
	for (u32 i = nr_frames; i < r->nr_nodes; i++)
		list_push(r, i, RECLAIM_SPARE);
	return 0;
}

void reclaim_fini(struct reclaim *r)
{
	if (r->asked)
		host_free(r->asked, reclaim_nr_near(r) * sizeof(*r->asked));
	if (r->buckets)
		host_free(r->buckets, r->nr_buckets * sizeof(*r->buckets));
	if (r->nodes)
		host_free(r->nodes, r->nr_nodes * sizeof(*r->nodes));
	r->asked = NULL;
	r->buckets = NULL;
	r->nodes = NULL;
}

static void reclaim_insert_to(struct reclaim *r, u32 frame, u64 block, bool unread)
{
	struct reclaim_node *n = &r->nodes[frame];
	u32 small_size = r->nr_frames - r->main_size;
	bool to_main;

	CHECK(frame < r->nr_frames && n->queue == RECLAIM_OUT, "R1: inserted when OUT");
	to_main = ghost_forget(r, block) ||
	          (!r->filled && r->lists[RECLAIM_SMALL].nr >= small_size);
	if (unread)
		to_main = false;
	n->block = block;
	n->freq = 0;
	list_push(r, frame, to_main ? RECLAIM_MAIN : RECLAIM_SMALL);
	if (r->lists[RECLAIM_GHOST].nr > r->ghost_size)
		ghost_forget_oldest(r);
}

void reclaim_insert(struct reclaim *r, u32 frame, u64 block)
{
	reclaim_insert_to(r, frame, block, false);
}

void reclaim_insert_unread(struct reclaim *r, u32 frame, u64 block)
{
	reclaim_insert_to(r, frame, block, true);
}

void reclaim_walk_begin(struct reclaim *r, enum reclaim_queue queue)
{
	r->walk = r->lists[queue].oldest;
}

u32 reclaim_walk(struct reclaim *r)
{
	u32 frame = r->walk;

	if (frame != RECLAIM_NONE)
		r->walk = r->nodes[frame].newer;
	return frame;
}

void reclaim_adopt_begin(struct reclaim *r, bool filled)
{
	r->filled = filled;
}

void reclaim_adopt(struct reclaim *r, u32 frame, u64 block, enum reclaim_queue queue,
                   u32 visits)
{
	struct reclaim_node *n = &r->nodes[frame];

	CHECK(frame < r->nr_frames && n->queue == RECLAIM_OUT, "R1: adopted when OUT");
	DCHECK(!ghost_find(r, block), "R3: adopted, or in the ghost");
	n->block = block;
	n->freq = (u8)(visits < FRAME_VISITS_MAX ? visits : FRAME_VISITS_MAX);
	list_push(r, frame, queue);
}

void reclaim_remove(struct reclaim *r, u32 frame)
{
	struct reclaim_hand *hand = &r->hand;
	u32 queue;

	CHECK(frame < r->nr_frames && r->nodes[frame].queue != RECLAIM_OUT,
	      "R1: removed when queued");
	queue = r->nodes[frame].queue;
	list_unlink(r, frame);
	if (hand->step == RECLAIM_IDLE || queue != hand_queue(hand))
		return;
	if (hand->left > r->lists[queue].nr) /* R6 */
		hand->left = r->lists[queue].nr;
	if (hand->refused > 0) /* R7 */
		hand->refused--;
}

void reclaim_move(struct reclaim *r, u32 from, u32 to)
{
	struct reclaim_node *n = &r->nodes[from];
	struct reclaim_list *list = &r->lists[n->queue];

	CHECK(from < r->nr_frames && to < r->nr_frames &&
	              (n->queue == RECLAIM_SMALL || n->queue == RECLAIM_MAIN) &&
	              r->nodes[to].queue == RECLAIM_OUT,
	      "R1: moved from a queued frame to one that is OUT");
	r->nodes[to] = *n;
	n->queue = RECLAIM_OUT;
	if (n->older == RECLAIM_NONE)
		list->oldest = to;
	else
		r->nodes[n->older].newer = to;
	if (n->newer == RECLAIM_NONE)
		list->newest = to;
	else
		r->nodes[n->newer].older = to;
	if (r->walk == from) /* R8 */
		r->walk = to;
}

void reclaim_collect(struct reclaim *r, u32 frame, u32 visits)
{
	struct reclaim_node *n = &r->nodes[frame];

	if (n->queue == RECLAIM_OUT)
		return;
	n->freq = (u8)(visits < FRAME_VISITS_MAX - n->freq ? n->freq + visits
	                                                   : FRAME_VISITS_MAX); /* R5 */
}

/* One look of the hand, which is in queue. true: it has taken frame. */
static bool hand_move(struct reclaim *r, const struct reclaim_ops *ops,
                      enum reclaim_queue queue, u32 frame, u32 *lines)
{
	bool taken;

	r->hand.left--;
	r->hand.spent = LOOK_LINES;
	r->nr_looks++;
	taken = queue == RECLAIM_SMALL ? hand_small(r, ops, frame)
	                               : hand_main(r, ops, frame);
	*lines -= r->hand.spent;
	if (taken)
		r->hand.step = RECLAIM_IDLE;
	return taken;
}

u32 reclaim_look_lines(const struct reclaim_ops *ops)
{
	return LOOK_LINES + NEAR_LINES + ops->visits_lines +
	       RECLAIM_NEAR * ops->frame_lines + ops->take_lines;
}

u32 reclaim_evict(struct reclaim *r, const struct reclaim_ops *ops, u32 *lines)
{
	if (r->hand.step == RECLAIM_IDLE)
		hand_begin(r);
	/* A turn is as long as its queue was, and 2 * MAIN_TURNS + 1 are the most. */
	while (r->hand.step != RECLAIM_IDLE) {
		enum reclaim_queue queue = hand_queue(&r->hand);
		u32 frame = r->lists[queue].oldest;

		if (r->hand.left == 0 || hand_all_refused(r)) {
			hand_next(r);
			continue;
		}
		if (*lines < reclaim_look_lines(ops))
			return RECLAIM_MORE;
		if (hand_move(r, ops, queue, frame, lines))
			return frame;
	}
	return RECLAIM_NONE;
}

static void list_check(const struct reclaim *r, enum reclaim_queue queue)
{
	const struct reclaim_list *list = &r->lists[queue];
	bool names = queue == RECLAIM_GHOST || queue == RECLAIM_SPARE;
	u32 older = RECLAIM_NONE;
	u32 node = list->oldest;

	for (u32 left = list->nr; left > 0; left--) {
		CHECK(node < r->nr_nodes, "R1: the queue is as long as it says");
		CHECK((node >= r->nr_frames) == names, "R1: frames and names apart");
		CHECK(r->nodes[node].queue == queue, "R1: in the queue it says");
		CHECK(r->nodes[node].older == older, "R1: linked both ways");
		older = node;
		node = r->nodes[node].newer;
	}
	CHECK(node == RECLAIM_NONE && list->newest == older, "R1: the queue ends");
}

static void ghost_check(const struct reclaim *r)
{
	u32 nr = r->lists[RECLAIM_GHOST].nr;
	u32 linked = 0;
	const u32 *link;

	CHECK(nr <= r->ghost_size + 1, "R4: the ghost is bounded");
	CHECK(nr + r->lists[RECLAIM_SPARE].nr == r->nr_nodes - r->nr_frames,
	      "R4: no entry for a name is lost");
	for (u32 i = 0; i < r->nr_buckets; i++) {
		u32 node = r->buckets[i];

		/* linked bounds the chain, should it be a circle. */
		for (; node != RECLAIM_NONE; node = r->nodes[node].chain) {
			CHECK(linked++ < nr, "R2: no chain leads beyond the ghost");
			CHECK(node < r->nr_nodes, "R2: a chain leads to names");
			CHECK(r->nodes[node].queue == RECLAIM_GHOST,
			      "R2: a chain leads to names in use");
			CHECK(ghost_bucket(r, r->nodes[node].block) == &r->buckets[i],
			      "R2: a name is where its hash says");
			link = ghost_find(r, r->nodes[node].block);
			CHECK(link && *link == node, "R2: a name is there once");
		}
	}
	CHECK(linked == nr, "R2: every name is found by its hash");
}

void reclaim_check(const struct reclaim *r)
{
	u32 queued = 0;

	CHECK(r->main_size < r->nr_frames && r->ghost_size < r->nr_frames, "R1: sizes");
	for (u32 queue = RECLAIM_SMALL; queue < RECLAIM_NR_QUEUES; queue++)
		list_check(r, (enum reclaim_queue)queue);
	ghost_check(r);
	for (u32 frame = 0; frame < r->nr_frames; frame++) {
		const struct reclaim_node *n = &r->nodes[frame];

		if (n->queue == RECLAIM_OUT)
			continue;
		queued++;
		CHECK(n->freq <= FRAME_VISITS_MAX, "R5: a visit count fits");
		CHECK(!ghost_find(r, n->block), "R3: cached, or in the ghost");
	}
	CHECK(queued == r->lists[RECLAIM_SMALL].nr + r->lists[RECLAIM_MAIN].nr,
	      "R1: no frame is lost");
	CHECK(r->walk == RECLAIM_NONE || (r->walk < r->nr_frames &&
	                                  r->nodes[r->walk].queue != RECLAIM_OUT),
	      "R8: a walk stands at a queued frame");
	if (r->hand.step == RECLAIM_IDLE)
		return;
	CHECK(r->hand.left <= r->lists[hand_queue(&r->hand)].nr, "R6: a turn ends");
	CHECK(r->hand.refused <= r->lists[RECLAIM_MAIN].nr, "R7: refused, so queued");
}
