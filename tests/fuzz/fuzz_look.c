/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * This program asks a service that lies what it knows about itself, by all functions of
 * lib/look.h. Replies are cut off or too long, and counts, cursors, lengths and texts are random.
 * Each function must end, with records that keep to their form or with a named error. No text may
 * run out of its record.
 *
 * Each execution has random numbers of its own, so `--from N --executions 1` repeats one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/peer.h"

#define MOST_PAGES 4u
#define MOST_RECORDS 12u
#define MOST_ASKED 60u /* a list whose cursor rises or falls ends sooner */
/* One in so many. */
#define BREAK 3u
#define CIRCLE 50u

static struct {
	u64 random;
	u32 pages; /* of this execution's list, so far */
	u32 asked;
	bool broken;
	bool circles; /* its pages lead back to each other, for ever */
	u64 records, whole, refused;
} fuzz;

static u64 below(u64 n)
{
	return random_below(&fuzz.random, n);
}

static bool one_in(u64 n)
{
	return below(n) == 0;
}

static u64 odd(void)
{
	return random_next(&fuzz.random) >> below(64);
}

/* How long a record of that list is that is as it must be. */
static u64 record_bytes(u32 op)
{
	switch (op) {
	case WIRE_FILES: return (sizeof(struct look_file) + 2 + below(300) + 7) / 8 * 8;
	case WIRE_READERS: return sizeof(struct look_reader);
	case WIRE_CONTEXTS: return sizeof(struct look_context);
	case WIRE_TIMES: return sizeof(struct look_times);
	case WIRE_TIERS: return sizeof(struct look_tier);
	default: return sizeof(struct look_hold);
	}
}

/* Records full of random bytes, with a right length in front: a page as it must be, but for its
 * texts. */
static void answer_list(const struct wire_request *request, struct peer_answer *a)
{
	unsigned char *to = a->page.records;
	u64 at = 0, n;
	u32 length;

	for (u64 left = below(MOST_RECORDS); left > 0; left--) {
		n = record_bytes(request->op);
		if (at + n > sizeof(a->page.records))
			break;
		for (u64 i = 0; i < n; i += 8) {
			u64 word = one_in(3) ? 0 : random_next(&fuzz.random);

			memcpy(to + at + i, &word, 8);
		}
		length = (u32)n;
		memcpy(to + at, &length, sizeof(length));
		at += n;
		a->page.reply.page.nr++;
	}
	a->page.reply.page.bytes = at;
	/* Serials of readers fall, other cursors rise. */
	a->page.reply.page.next =
		request->op != WIRE_READERS ? request->a + 1 + below(1000)
		: request->a > 1000 || request->a == 0
			? (request->a ? request->a : 1u << 20) - 1 - below(500)
			: LOOK_END;
	if (++fuzz.pages >= MOST_PAGES)
		a->page.reply.page.next = LOOK_END;
	a->bytes += at;
}

static void answer_break(struct peer_answer *a)
{
	u64 at = below(sizeof(a->page.reply.page) + 8) / 8 * 8;
	u64 word = odd();
	u32 length = (u32)odd();

	switch (below(6)) {
	case 0: a->page.reply.error = (int32_t)odd(); break;
	case 1: memcpy((char *)&a->page.reply + at, &word, 8); break;
	case 2: a->bytes = below(sizeof(a->page) + 1); break;
	case 3:
		a->page.reply.page.bytes = a->bytes - sizeof(a->page.reply) + odd();
		break;
	case 4: a->hangs_up = one_in(2); break;
	default:
		at = below(sizeof(a->page.records)) / 8 * 8;
		memcpy(a->page.records + at, &length, sizeof(length));
	}
	fuzz.broken = true;
}

static void answer(const struct wire_request *request, struct peer_answer *a)
{
	if (request->op >= WIRE_FILES && request->op != WIRE_DROP &&
	    request->op != WIRE_RESIZE) {
		answer_list(request, a);
	} else {
		for (u64 *word = (u64 *)&a->page.reply + 1;
		     word < (u64 *)(&a->page.reply + 1); word++)
			*word = odd();
		if (request->op == WIRE_DROP)
			a->page.reply.drop.next =
				++fuzz.pages >= MOST_PAGES ? LOOK_END : request->a + 1;
	}
	if (one_in(BREAK))
		answer_break(a);
	if (fuzz.circles) {
		a->page.reply.page.next = request->a == 1 ? 2 : 1;
		fuzz.broken = true;
	}
	REQUIRE(++fuzz.asked < MOST_ASKED, "it goes round in a circle");
}

static void require_text(const char *text, const void *record, u64 bytes)
{
	const char *end = (const char *)record + bytes;

	REQUIRE(text >= (const char *)record && text < end &&
	                memchr(text, 0, (size_t)(end - text)),
	        "a text runs out of its record");
}

/* What a program does with a record. */
static int each(void *ctx, const void *record)
{
	enum look_list list = *(const enum look_list *)ctx;
	const struct look_file *f = record;
	const struct look_reader *r = record;
	const struct look_tier *t = record;

	fuzz.records++;
	switch (list) {
	case LOOK_TIERS: require_text(t->policy, t, t->bytes); break;
	case LOOK_FILES:
		require_text(f->path, f, f->bytes);
		if (*look_file_why(f))
			require_text(look_file_why(f), f, f->bytes);
		require_text(f->proof, f->proof, sizeof(f->proof));
		break;
	case LOOK_READERS: require_text(r->name, r, r->bytes); break;
	case LOOK_CONTEXTS:
		REQUIRE(f->bytes >= sizeof(struct look_context), "short");
		break;
	case LOOK_HOLDS: REQUIRE(f->bytes >= sizeof(struct look_hold), "short"); break;
	case LOOK_TIMES: REQUIRE(f->bytes >= sizeof(struct look_times), "short"); break;
	}
	return one_in(200) ? -ECANCELED : 0;
}

static int look_once(struct look *look)
{
	struct look_dropped dropped = { 0 };
	struct look_resize resize;
	struct lodic_stat stat;
	enum look_list list = (enum look_list)below(LOOK_TIERS + 1);
	int err;

	switch (below(8)) {
	case 0: return look_stat(look, &stat);
	case 1: return look_drop(look, odd(), odd(), &dropped);
	case 2:
		err = look_resize(look, odd(), &resize);
		if (!err)
			REQUIRE(memchr(resize.why, 0, sizeof(resize.why)), "why");
		return err;
	default: return look_list(look, list, each, &list);
	}
}

int main(int argc, char **argv)
{
	char path[FIXTURE_PATH_BYTES];
	struct look *look;
	int pid, err;

	fuzz_begin(argc, argv, 20000);
	fixture_path(path, "s");
	peer_listen(path, answer);
	while (fuzz_next(&fuzz.random)) {
		fuzz.pages = fuzz.asked = 0;
		fuzz.broken = false;
		fuzz.circles = one_in(CIRCLE);
		REQUIRE(look_open(path, &look, &pid) == 0, "not connected");
		err = look_once(look);
		REQUIRE(err <= 0 && err > -4096, "an unnamed error: %d", err);
		REQUIRE(fuzz.broken || !err || err == -ECANCELED, "refused: %d", err);
		fuzz.whole += !err;
		fuzz.refused += err != 0;
		look_close(look);
		peer_reset();
	}
	fuzz_end("%llu answers whole, %llu refused, %llu records looked at",
	         (unsigned long long)fuzz.whole, (unsigned long long)fuzz.refused,
	         (unsigned long long)fuzz.records);
	return 0;
}
