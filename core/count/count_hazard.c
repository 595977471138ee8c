/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * hazard: a reference is the object's number in a slot of the user's own (hazard
 * pointers; Michael 2004). A ref writes no line that other users write. The freezer pays
 * for that: it looks at every slot of every user.
 *
 * Words
 *   state   one per object, FROZEN or LIVE; the freezer writes, readers read
 *   slot    COUNT_HAZARD_SLOTS per user: object + 1, or 0; the user's threads write
 *
 * Invariants
 * Z1 A slot names an object that is LIVE, or a ref is about to take the name out again.
 * Z2 There is one slot per reference: a user's own threads take slots by cas.
 * Order: W1 and W3 of core/count_word.h. The acquire of state in ref pairs with the
 * release in thaw (N3).
 * Progress: ref looks at each of the user's slots once and fails when all are taken.
 * freeze is bounded by the number of slots. Locks: none.
 * Not here: growing the slots. Nor one scan for many objects, which makes hazard pointers
 * cheap for memory that is retired; a cache asks for its objects one by one.
 */
#include "core/count/count.h"
#include "core/count_word.h"

/* Ours: as many as a context of liblodic has (ARENA_HAZARD_SLOTS). */
#ifndef COUNT_HAZARD_SLOTS
#define COUNT_HAZARD_SLOTS 64u
#endif

#define STATE_FROZEN ((u64)0)
#define STATE_LIVE ((u64)1)

struct hazard {
	u64 *states; /* nr_objects, a line each */
	u64 *slots;  /* nr_users * COUNT_HAZARD_SLOTS */
};

static u64 *count_hazard_state(struct count *c, u32 object)
{
	struct hazard *h = c->state;

	return &h->states[(u64)object * COUNT_LINE_WORDS];
}

static u64 count_hazard_states_bytes(const struct count *c)
{
	return (u64)c->nr_objects * COUNT_LINE_BYTES;
}

static u64 count_hazard_slots_bytes(const struct count *c)
{
	return (u64)c->nr_users * COUNT_HAZARD_SLOTS * sizeof(u64);
}

static void count_hazard_fini(struct count *c)
{
	struct hazard *h = c->state;

	if (h->slots)
		host_free(h->slots, count_hazard_slots_bytes(c));
	if (h->states)
		host_free(h->states, count_hazard_states_bytes(c));
	host_free(h, sizeof(*h));
}

static int count_hazard_init(struct count *c)
{
	struct hazard *h = host_alloc(sizeof(*h), COUNT_LINE_BYTES);

	if (!h)
		return -ENOMEM;
	c->state = h;
	h->states = host_alloc(count_hazard_states_bytes(c), COUNT_LINE_BYTES); /* N1 */
	h->slots = host_alloc(count_hazard_slots_bytes(c), COUNT_LINE_BYTES);
	if (h->states && h->slots)
		return 0;
	count_hazard_fini(c);
	c->state = NULL;
	return -ENOMEM;
}

static bool count_hazard_ref(struct count *c, u32 object, u32 user, u64 *ret_token)
{
	struct hazard *h = c->state;
	u64 *slots = &h->slots[(u64)user * COUNT_HAZARD_SLOTS];
	u32 slot;

	for (slot = 0; slot < COUNT_HAZARD_SLOTS; slot++)
		if (count_hazard_word_claim(&slots[slot], object))
			break;
	if (unlikely(slot == COUNT_HAZARD_SLOTS))
		return false;
	/* W3: the claim was a full fence. So either this thread sees FROZEN here, or the
	 * freezer sees the slot. */
	if (unlikely(host_load_acquire(count_hazard_state(c, object)) != STATE_LIVE)) {
		count_hazard_word_unref(&slots[slot]);
		return false;
	}
	*ret_token = slot;
	return true;
}

static void count_hazard_unref(struct count *c, u32 object, u32 user, u64 token)
{
	struct hazard *h = c->state;
	u64 *slot = &h->slots[(u64)user * COUNT_HAZARD_SLOTS + token];

	(void)object;
	DCHECK(host_load_relaxed(slot) == (u64)object + 1,
	       "Z2: the slot is the token's");
	count_hazard_word_unref(slot);
}

static u64 count_hazard_scan(struct count *c, u32 object, u64 enough)
{
	struct hazard *h = c->state;
	u64 nr_slots = (u64)c->nr_users * COUNT_HAZARD_SLOTS;
	u64 found = 0;
	u64 i;

	for (i = 0; i < nr_slots && found < enough; i++)
		found += count_hazard_word_query(&h->slots[i], object);
	return found;
}

/* N4: a reference that is held all through the call stands in one slot all the time. */
static bool count_hazard_query(struct count *c, u32 object)
{
	return count_hazard_scan(c, object, 1) > 0;
}

static bool count_hazard_freeze(struct count *c, u32 object)
{
	u64 *state = count_hazard_state(c, object);

	if (host_load_relaxed(state) != STATE_LIVE || count_hazard_query(c, object))
		return false;
	host_store_relaxed(state, STATE_FROZEN);
	host_fence_full(); /* W3, shape SB with count_hazard_ref() */
	if (!count_hazard_query(c, object))
		return true;
	host_store_release(state, STATE_LIVE); /* N3, as in thaw */
	return false;
}

static void count_hazard_thaw(struct count *c, u32 object)
{
	u64 *state = count_hazard_state(c, object);

	CHECK(host_load_relaxed(state) == STATE_FROZEN, "thaw of what is frozen");
	host_store_release(state, STATE_LIVE); /* N3 */
}

static u64 count_hazard_sum(struct count *c, u32 object)
{
	return count_hazard_scan(c, object, ~(u64)0);
}

static void count_hazard_cost(const struct count *c, struct count_cost *ret_cost)
{
	(void)c;
	*ret_cost =
		(struct count_cost){ .object_bytes = COUNT_LINE_BYTES,
		                     .user_bytes = COUNT_HAZARD_SLOTS * sizeof(u64) };
}

static void count_hazard_check(struct count *c, const struct count_held *held,
                               u32 nr_held)
{
	struct hazard *h = c->state;
	u64 nr_slots = (u64)c->nr_users * COUNT_HAZARD_SLOTS;
	u64 nr_used = 0;
	u64 i;

	(void)held;
	for (i = 0; i < nr_slots; i++) {
		u64 v = host_load_relaxed(&h->slots[i]);

		if (v == 0)
			continue;
		nr_used++;
		CHECK(v <= c->nr_objects, "Z1: a slot names an object");
		CHECK(host_load_relaxed(count_hazard_state(c, (u32)(v - 1))) ==
		              STATE_LIVE,
		      "Z1: what is named is live");
	}
	CHECK(nr_used == nr_held, "Z2: one slot per reference");
}

const struct count_scheme count_hazard = {
	.name = "hazard",
	.counts = true,
	.init = count_hazard_init,
	.fini = count_hazard_fini,
	.ref = count_hazard_ref,
	.unref = count_hazard_unref,
	.query = count_hazard_query,
	.freeze = count_hazard_freeze,
	.thaw = count_hazard_thaw,
	.sum = count_hazard_sum,
	.cost = count_hazard_cost,
	.check = count_hazard_check,
};
