/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* PAYGO for a program's own objects. Contract and rules: core/counter/counter.h. */
#include "core/counter/counter.h"

static u64 counter_key(const u64 *word)
{
	return (u64)(size_t)word;
}

static u64 counter_token(u32 cpu, const struct counter_entry *e, u64 kind)
{
	return ((u64)(size_t)e | kind) << COUNTER_TOKEN_CPU_BITS | cpu;
}

static bool counter_is_marked(u64 away)
{
	return away >> 62 == 1;
}

/* What an entry's sequence words count. */
static u64 counter_live(u64 local, u64 away)
{
	return counter_is_marked(away) ? away - COUNTER_MARK : local + away;
}

/* ---- the word ---- */

static enum counter_ref counter_word_try_ref(u64 *word)
{
	u64 v;

	do {
		v = host_load_relaxed(word); /* the cas orders, and fails if v is old */
		if (v & COUNTER_CLOSED)
			return COUNTER_REFUSED;
	} while (!host_cas(word, v, v + 1));
	return COUNTER_TAKEN;
}

/* M26 */
static bool counter_word_unref(u64 *word)
{
	return host_fetch_add(word, -(u64)1) == (COUNTER_CLOSED | 1);
}

/* ---- packed ---- */

static u64 counter_packed_key(u64 key)
{
	return key >> 3 << 20;
}

static bool counter_packed_is(u64 packed, u64 key)
{
	return (packed ^ counter_packed_key(key)) >> 20 == 0;
}

/* Counts in one of the bucket's packed words. false: they are full of other objects. */
static bool counter_packed_add(const struct counter_domain *d, u32 cpu, u64 key,
                               u64 *ret_token)
{
	u32 bucket = counter_bucket(d, key);
	u32 i;

	for (i = bucket; i < bucket + COUNTER_WAYS; i++) {
		u64 *packed = &counter_entry(d, cpu, i)->packed;
		u64 v = host_load_relaxed(packed);

		/* Tried again when another task changed this word, and it may still do. */
		while (counter_packed_is(v, key)
		               ? (v & COUNTER_PACKED_COUNT) < COUNTER_PACKED_MAX &&
		                         !(v & COUNTER_PACKED_MARK)
		               : !(v & (COUNTER_PACKED_MARK | COUNTER_PACKED_COUNT))) {
			u64 base =
				counter_packed_is(v, key) ? v : counter_packed_key(key);

			if (host_cas(packed, v, base + 1)) {
				*ret_token =
					counter_token(cpu, counter_entry(d, cpu, i),
				                      COUNTER_TOKEN_PACKED);
				return true;
			}
			v = host_load_relaxed(packed);
		}
	}
	return false;
}

static bool counter_packed_unref(u64 *packed, u64 *word)
{
	u64 before = host_fetch_add(packed, -(u64)1);

	DCHECK(before & COUNTER_PACKED_COUNT, "M22: a packed word counts its tokens");
	if (!(before & COUNTER_PACKED_MARK))
		return false;
	/* M27. Nobody else changes a marked word that counts nothing. */
	if ((before & COUNTER_PACKED_COUNT) == 1)
		host_store_relaxed(packed, (before - 1) & ~COUNTER_PACKED_MARK);
	return counter_word_unref(word);
}

/* ---- key, local and away ---- */

/* Where key counts on cpu: its entry, or else one that is garbage, and of these rather one with no
 * key. ret_key and ret_local are what that holds. The index past the bucket's last one: it is
 * full. */
static u32 counter_find(const struct counter_domain *d, u32 cpu, u64 key, u64 *ret_key,
                        u64 *ret_local)
{
	u32 bucket = counter_bucket(d, key);
	u32 full = bucket + COUNTER_WAYS, garbage = full;
	u32 i;

	for (i = bucket; i < full; i++) {
		struct counter_entry *e = counter_entry(d, cpu, i);
		u64 k = host_load_relaxed(&e->key); /* the commit fails if old: M28 */
		u64 local, away;

		if (likely(k == key)) {
			*ret_key = k;
			*ret_local = host_load_relaxed(&e->local);
			return i;
		}
		/* Rather one that nobody has: another object's may be wanted again. */
		if (garbage != full && (k != 0 || *ret_key == 0))
			continue;
		local = host_load_relaxed(&e->local);
		away = host_load_relaxed(&e->away);
		if (!counter_is_marked(away) && local + away == 0) {
			garbage = i;
			*ret_key = k;
			*ret_local = local;
		}
	}
	return garbage;
}

enum counter_here { HERE_DONE, HERE_SHUT, HERE_FULL };

/* Adds delta on this CPU. Retried when the task was moved or disturbed, and once more when the
 * entry got its key. */
static enum counter_here counter_add_here(const struct counter_domain *d, u64 *word,
                                          u64 delta, u64 *ret_token)
{
	u64 key = counter_key(word), found = 0, local = 0;
	enum host_step end;

	for (;;) {
		u32 cpu = host_cpu(), i;
		struct counter_entry *e;

		if (unlikely(cpu >= d->nr_cpus))
			return HERE_FULL;
		i = counter_find(d, cpu, key, &found, &local);
		if (i == counter_bucket(d, key) + COUNTER_WAYS)
			return HERE_FULL;
		e = counter_entry(d, cpu, i);
		if (found != key) /* M28, M30 */
			end = host_percpu_step(word, &e->local, local, &e->key, cpu,
			                       found, key);
		else /* M21 */
			end = host_percpu_step(&e->key, &e->key, key, &e->local, cpu,
			                       local, local + delta);
		/* M34. Otherwise the entry is another object's by now. */
		if (end == HOST_STEP_SHUT &&
		    (found != key ||
		     host_load_relaxed(&e->key) == (key | COUNTER_GATED)))
			return HERE_SHUT;
		if (end == HOST_STEP_DONE && found == key) {
			*ret_token = counter_token(cpu, e, COUNTER_TOKEN_LOCAL);
			return HERE_DONE;
		}
	}
}

/* At home. false: the caller is elsewhere, or the key is gated. */
static bool counter_sub_here(u64 *word, struct counter_entry *e, u32 home)
{
	u64 key = counter_key(word);

	/* Retried when the task was disturbed. */
	while (host_cpu() == home) {
		u64 local = host_load_relaxed(&e->local);
		enum host_step end = host_percpu_step(&e->key, &e->key, key, &e->local,
		                                      home, local, local - 1); /* M21 */

		if (end == HOST_STEP_DONE)
			return true;
		if (end == HOST_STEP_SHUT)
			return false;
	}
	return false;
}

static bool counter_sub_away(u64 *word, struct counter_entry *e)
{
	u64 before = host_fetch_add(&e->away, -(u64)1); /* M22 */

	if (!counter_is_marked(before))
		return false;
	DCHECK(before > COUNTER_MARK, "M22: a marked entry counts its tokens");
	/* M27. The mark has kept local as it is, and nobody else changes away now. */
	if (before == COUNTER_MARK + 1)
		host_store_relaxed(&e->away, -host_load_relaxed(&e->local));
	return counter_word_unref(word);
}

/* ---- references ---- */

bool counter_unref(const struct counter_domain *d, u64 *word, u64 token, bool sequences)
{
	u32 home = (u32)(token & COUNTER_TOKEN_CPU);
	u64 at = token >> COUNTER_TOKEN_CPU_BITS;
	struct counter_entry *e =
		(struct counter_entry *)(size_t)(at & ~COUNTER_TOKEN_KIND);

	switch (at & COUNTER_TOKEN_KIND) {
	case COUNTER_TOKEN_WORD: return counter_word_unref(word);
	case COUNTER_TOKEN_PACKED: return counter_packed_unref(&e->packed, word);
	default: break;
	}
	(void)d; /* the token says where */
	if (sequences && counter_sub_here(word, e, home))
		return false;
	return counter_sub_away(word, e);
}

enum counter_ref counter_try_ref(const struct counter_domain *d, u64 *word,
                                 bool sequences, u64 *ret_token)
{
	u64 key = counter_key(word);
	enum counter_here here;
	enum counter_ref ref;
	u32 cpu;

	if (d->scheme == COUNTER_ATOMIC)
		ref = counter_word_try_ref(word);
	else if (d->scheme == COUNTER_PAYGO && sequences) {
		here = counter_add_here(d, word, 1, ret_token);
		if (here == HERE_DONE)
			return COUNTER_TAKEN;
		if (here == HERE_SHUT)
			return COUNTER_REFUSED;
		ref = counter_word_try_ref(word);
	} else {
		cpu = host_cpu();
		if (cpu < d->nr_cpus && key < COUNTER_PACKED_ADDRESSES &&
		    counter_packed_add(d, cpu, key, ret_token)) {
			/* M23, M32 */
			if (likely(!(host_load_acquire(word) & COUNTER_CLOSED)))
				return COUNTER_TAKEN;
			return counter_unref(d, word, *ret_token, sequences)
			               ? COUNTER_REFUSED_LAST
			               : COUNTER_REFUSED;
		}
		ref = counter_word_try_ref(word);
	}
	if (ref == COUNTER_TAKEN)
		*ret_token = COUNTER_TOKEN_WORD;
	return ref;
}

u64 counter_ref(const struct counter_domain *d, u64 *word, bool sequences)
{
	u64 token;

	if (counter_try_ref(d, word, sequences, &token) == COUNTER_TAKEN)
		return token;
	/* Killed. The caller's own reference is in the word, or still to be folded into it,
	 * so the word is not 0 (M26). */
	host_fetch_add(word, 1);
	return COUNTER_TOKEN_WORD;
}

/* ---- all CPUs ---- */

static bool counter_has_key(const struct counter_entry *e, u64 key)
{
	return (host_load_acquire(&e->key) & ~COUNTER_GATED) == key;
}

/* Marks an entry of the object's, and returns its references (M22). It is tried again when one
 * of them has come back. */
static u64 counter_fold_local(struct counter_entry *e, u64 key)
{
	u64 away, local, live;

	do {
		away = host_load_acquire(&e->away);
		local = host_load_acquire(&e->local);
		if (!counter_has_key(e, key))
			return 0; /* M25 */
		live = local + away;
		/* Nothing is out. Then another object may have it meanwhile, and a mark or
		 * a lower number can be that one's (M28). */
		if (counter_is_marked(away) || live == 0 || live >> 63)
			return 0;
	} while (!host_cas(&e->away, away, COUNTER_MARK + live));
	return live;
}

static u64 counter_fold_packed(struct counter_entry *e, u64 key)
{
	u64 v;

	do {
		v = host_load_acquire(&e->packed);
		if (!counter_packed_is(v, key) || !(v & COUNTER_PACKED_COUNT) ||
		    v & COUNTER_PACKED_MARK)
			return 0;
	} while (!host_cas(&e->packed, v, v | COUNTER_PACKED_MARK)); /* M22 */
	return v & COUNTER_PACKED_COUNT;
}

static u64 counter_fold(const struct counter_domain *d, u64 key)
{
	u32 bucket = counter_bucket(d, key);
	u32 end = bucket + COUNTER_WAYS;
	u64 total = 0;
	u32 cpu, i;

	for (cpu = 0; cpu < d->nr_cpus; cpu++)
		for (i = bucket; i < end; i++) {
			struct counter_entry *e = counter_entry(d, cpu, i);

			total += counter_fold_local(e, key);
			total += counter_fold_packed(e, key);
		}
	return total;
}

static bool counter_has_tables(const struct counter_domain *d)
{
	return d->scheme != COUNTER_ATOMIC;
}

/* Swaps one key for another in the object's bucket, on each CPU. Was there one? */
static bool counter_swap_keys(const struct counter_domain *d, u64 from, u64 to)
{
	u32 bucket = counter_bucket(d, from & ~COUNTER_GATED), cpu, i;
	bool any = false;

	for (cpu = 0; cpu < d->nr_cpus; cpu++)
		for (i = bucket; i < bucket + COUNTER_WAYS; i++) {
			u64 *key = &counter_entry(d, cpu, i)->key;

			if (host_load_relaxed(key) != from) /* the cas fails if old */
				continue;
			any = true;
			host_cas(key, from, to); /* M31 */
		}
	return any;
}

/* Of a closed word: gates its keys, and waits until no sequence is under way that has not seen
 * that (M21, M30). false: there is no such fence now. */
static bool counter_gate(const struct counter_domain *d, u64 key)
{
	u64 gated = key | COUNTER_GATED;

	if (d->scheme != COUNTER_PAYGO)
		return true; /* the cas that closed the word is M23's fence */
	counter_swap_keys(d, key, gated);
	return host_fence_abort() &&
	       (!counter_swap_keys(d, key, gated) || host_fence_abort());
}

/* M35 */
static void counter_reopen(const struct counter_domain *d, u64 *word)
{
	u64 key = counter_key(word);

	counter_swap_keys(d, key | COUNTER_GATED, key);
	host_fetch_add(word, -(COUNTER_CLOSED + COUNTER_BIAS));
}

enum counter_kill counter_kill(const struct counter_domain *d, u64 *word)
{
	u64 key = counter_key(word), total = 0, v;

	do {
		/* Retried when a reference went to the overflow, or came from it. */
		v = host_load_relaxed(word);
		if (v & COUNTER_CLOSED)
			return COUNTER_KILLED_BEFORE;
	} while (
		!host_cas(word, v, (v | COUNTER_CLOSED) + COUNTER_BIAS)); /* M23, M26 */
	if (!counter_gate(d, key)) {
		counter_reopen(d, word);
		return COUNTER_NO_FENCE;
	}
	if (counter_has_tables(d))
		total = counter_fold(d, key);
	total -= COUNTER_BIAS;
	v = host_fetch_add(word, total) + total;
	return v == COUNTER_CLOSED ? COUNTER_KILLED_LAST : COUNTER_KILLED;
}

/* What one entry counts of key: local words and packed one. */
static u64 counter_look(const struct counter_entry *e, u64 key)
{
	u64 packed = host_load_acquire(&e->packed), local, away, nr = 0;

	if (counter_has_key(e, key)) {
		/* M24 */
		away = host_load_acquire(&e->away);
		local = host_load_acquire(&e->local);
		nr = counter_live(local, away);
	}
	if (counter_packed_is(packed, key))
		nr += packed & COUNTER_PACKED_COUNT;
	return nr;
}

bool counter_query(const struct counter_domain *d, u64 *word)
{
	u64 v = host_load_acquire(word), key = counter_key(word);
	u32 bucket, cpu, i;

	if (v & COUNTER_COUNT)
		return true;
	if ((v & COUNTER_CLOSED) || !counter_has_tables(d))
		return false;
	bucket = counter_bucket(d, key);
	for (cpu = 0; cpu < d->nr_cpus; cpu++)
		for (i = bucket; i < bucket + COUNTER_WAYS; i++)
			if (counter_look(counter_entry(d, cpu, i), key) != 0)
				return true;
	return false;
}

u64 counter_sum(const struct counter_domain *d, u64 *word)
{
	u64 v = host_load_relaxed(word), key = counter_key(word);
	u64 sum = v & COUNTER_COUNT;
	u32 bucket, cpu, i;

	if ((v & COUNTER_CLOSED) || !counter_has_tables(d))
		return sum;
	bucket = counter_bucket(d, key);
	for (cpu = 0; cpu < d->nr_cpus; cpu++)
		for (i = bucket; i < bucket + COUNTER_WAYS; i++)
			sum += counter_look(counter_entry(d, cpu, i), key);
	return sum;
}

void counter_check(const struct counter_domain *d, u64 nr_tokens)
{
	u64 nr_entries = d->mask / sizeof(struct counter_entry) + COUNTER_WAYS, sum = 0;
	u32 cpu, i;

	for (cpu = 0; counter_has_tables(d) && cpu < d->nr_cpus; cpu++)
		for (i = 0; i < nr_entries; i++) {
			const struct counter_entry *e = counter_entry(d, cpu, i);
			u64 away = host_load_relaxed(&e->away);
			u64 packed = host_load_relaxed(&e->packed);
			u64 live = counter_live(host_load_relaxed(&e->local), away);

			CHECK(live >> 62 == 0,
			      "M24: no entry counts less than nothing");
			CHECK(away != COUNTER_MARK,
			      "M27: a mark goes with the last token");
			CHECK((packed & COUNTER_PACKED_COUNT) ||
			              !(packed & COUNTER_PACKED_MARK),
			      "M27: so does a packed one");
			sum += live + (packed & COUNTER_PACKED_COUNT);
		}
	CHECK(sum == nr_tokens, "M22: entries count the tokens that name them");
}
