/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Searching and changing block -> frame. See core/cache/translation.h. */
#include "core/cache/translation.h"

u64 translation_nr_words(u32 nr_frames)
{
	u64 n = BUCKET_WAYS * 2;

	while (n < (u64)nr_frames * 4)
		n *= 2;
	return n;
}

void translation_init(struct translation *t, u64 *words, u64 nr_words)
{
	u32 log = 0;

	CHECK(nr_words >= BUCKET_WAYS * 2, "T2: at least two buckets");
	while ((u64)1 << log < nr_words)
		log++;
	t->words = words;
	t->shift = 64 - log;
}

/* Eight words from a multiple of eight on, the home of hash among them. */
static u64 *translation_bucket(const struct translation *t, u64 hash)
{
	return t->words + (hash >> t->shift) / BUCKET_WAYS * BUCKET_WAYS;
}

/* The word in bucket, and in ret_spills whether blocks of the bucket stand elsewhere. */
static u64 *translation_find_in(u64 *bucket, u64 tag, u64 *ret_word, u64 *ret_spills)
{
	u64 spills = 0;
	u32 way;

	for (way = 0; way < BUCKET_WAYS; way++) {
		u64 word = host_load_relaxed(&bucket[way]);

		if (translation_leads(word, tag)) {
			*ret_word = word;
			return &bucket[way];
		}
		spills |= word & TRANSLATION_SPILL;
	}
	*ret_spills = spills;
	return NULL;
}

static u64 *translation_second(const struct translation *t, u64 block)
{
	return translation_bucket(t, translation_second_hash(block));
}

u64 *translation_find(const struct translation *t, u64 block, u64 *ret_word)
{
	u64 hash = block_hash(block);
	u64 tag = translation_tag(hash, block);
	u64 *at = &t->words[hash >> t->shift];
	u64 word = host_load_relaxed(at);
	u64 spills = 0;

	if (likely(translation_leads(word, tag))) {
		*ret_word = word;
		return at; /* at home: no search, whose end no processor predicts */
	}
	at = translation_find_in(translation_bucket(t, hash), tag, ret_word, &spills);
	if (at || likely(!spills)) /* T3 */
		return at;
	return translation_find_in(translation_second(t, block), tag, ret_word,
	                           &spills);
}

u64 *translation_find_exact(const struct translation *t, u64 block, u32 frame)
{
	u64 hash = block_hash(block);
	u64 tag = translation_tag(hash, block);
	u64 word, spills;
	u64 *at = translation_find_in(translation_bucket(t, hash), tag, &word, &spills);

	if (at && translation_frame(word) == frame)
		return at;
	at = translation_find_in(translation_second(t, block), tag, &word, &spills);
	return at && translation_frame(word) == frame ? at : NULL;
}

/* Sets or clears one spill bit of bucket. false: all are set already. */
static bool translation_spill(u64 *bucket, bool set)
{
	u32 way;

	for (way = 0; way < BUCKET_WAYS; way++) {
		u64 word = host_load_relaxed(&bucket[way]);

		if (!(word & TRANSLATION_SPILL) == set) {
			host_store_relaxed(&bucket[way], word ^ TRANSLATION_SPILL);
			return true;
		}
	}
	return false;
}

/* Into bucket: the home if that is free, else any other way. */
static bool translation_set_in(u64 *bucket, u32 home, u64 tag, u32 frame)
{
	u64 word, spills;
	u32 i;

	if (translation_find_in(bucket, tag, &word, &spills))
		return false;
	for (i = 0; i < BUCKET_WAYS; i++) {
		u64 *at = &bucket[(home + i) % BUCKET_WAYS];

		word = host_load_relaxed(at);
		if (translation_frame(word) != 0)
			continue;
		host_store_relaxed(at, (word & TRANSLATION_SPILL) |
		                               translation_word(tag, frame)); /* O3 */
		return true;
	}
	return false;
}

static u32 translation_way(const struct translation *t, u64 hash)
{
	return (u32)(hash >> t->shift) % BUCKET_WAYS;
}

bool translation_set(struct translation *t, u64 block, u32 frame)
{
	u64 hash = block_hash(block), second_hash = translation_second_hash(block);
	u64 *first = translation_bucket(t, hash),
	    *second = translation_second(t, block);
	u64 tag = translation_tag(hash, block);

	if (translation_set_in(first, translation_way(t, hash), tag, frame))
		return true;
	if (first == second || !translation_spill(first, true)) /* T3 */
		return false;
	if (translation_set_in(second, translation_way(t, second_hash), tag, frame))
		return true;
	translation_spill(first, false);
	return false;
}

bool translation_is_spilled(const struct translation *t, u64 block, const u64 *at)
{
	const u64 *first = translation_bucket(t, block_hash(block));

	return at < first || at >= first + BUCKET_WAYS;
}

void translation_clear(struct translation *t, u64 block, u32 frame)
{
	u64 *at = translation_find_exact(t, block, frame);

	if (!at)
		return;
	host_store_relaxed(at, host_load_relaxed(at) & TRANSLATION_SPILL);
	if (translation_is_spilled(t, block, at))
		translation_spill(translation_bucket(t, block_hash(block)), false);
}

void translation_move(struct translation *t, u64 block, u32 from, u32 to)
{
	u64 *at = translation_find_exact(t, block, from);

	if (!at)
		return;
	/* O50, partner: the acquire fence in context_read(). The new frame's seq and name come
	 * first. SPILL stays: it may stand for another block of the bucket, which is not here. */
	host_store_release(
		at, (host_load_relaxed(at) & TRANSLATION_SPILL) |
			    translation_word(translation_tag(block_hash(block), block),
	                                     to));
}
