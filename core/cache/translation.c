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

static bool translation_leads(u64 word, u64 tag)
{
	return (word ^ tag) >> 32 == 0 && translation_frame(word) >= FRAME_FIRST;
}

/* Eight words from a multiple of eight on, the home of hash among them. */
static u64 *translation_bucket(const struct translation *t, u64 hash)
{
	return t->words + (hash >> t->shift) / BUCKET_WAYS * BUCKET_WAYS;
}

static u64 *translation_find_in(u64 *bucket, u64 tag, u64 *ret_word)
{
	u32 way;

	for (way = 0; way < BUCKET_WAYS; way++) {
		u64 word = host_load_relaxed(&bucket[way]);

		if (translation_leads(word, tag)) {
			*ret_word = word;
			return &bucket[way];
		}
	}
	return NULL;
}

u64 *translation_find(const struct translation *t, u64 block, u64 *ret_word)
{
	u64 hash = block_hash(block);
	u64 tag = translation_tag(hash, block);
	u64 *at = &t->words[hash >> t->shift];
	u64 word = host_load_relaxed(at);

	if (likely(translation_leads(word, tag))) {
		*ret_word = word;
		return at; /* at home: no search, whose end no processor predicts */
	}
	at = translation_find_in(translation_bucket(t, hash), tag, ret_word);
	if (at)
		return at;
	return translation_find_in(
		translation_bucket(t, translation_second_hash(block)), tag, ret_word);
}

u64 *translation_find_exact(const struct translation *t, u64 block, u32 frame)
{
	u64 hash = block_hash(block);
	u64 tag = translation_tag(hash, block);
	u64 word;
	u64 *at = translation_find_in(translation_bucket(t, hash), tag, &word);

	if (at && translation_frame(word) == frame)
		return at;
	at = translation_find_in(translation_bucket(t, translation_second_hash(block)),
	                         tag, &word);
	return at && translation_frame(word) == frame ? at : NULL;
}

/* Into the bucket of hash: its home if that is free, else any other way. */
static bool translation_set_in(struct translation *t, u64 hash, u64 tag, u32 frame)
{
	u64 *bucket = translation_bucket(t, hash);
	u32 home = (u32)(hash >> t->shift) % BUCKET_WAYS;
	u64 word;
	u32 i;

	if (translation_find_in(bucket, tag, &word))
		return false;
	for (i = 0; i < BUCKET_WAYS; i++) {
		u64 *at = &bucket[(home + i) % BUCKET_WAYS];

		if (host_load_relaxed(at) != 0)
			continue;
		/* O3, partners: the acquire loads of the frame's seq in context_read() and
		 * of its pins in context_look(). The block's bytes come first. */
		host_store_release(at, translation_word(tag, frame));
		return true;
	}
	return false;
}

bool translation_set(struct translation *t, u64 block, u32 frame)
{
	u64 hash = block_hash(block);
	u64 tag = translation_tag(hash, block);

	return translation_set_in(t, hash, tag, frame) ||
	       translation_set_in(t, translation_second_hash(block), tag, frame);
}
