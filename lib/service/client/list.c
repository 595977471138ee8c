/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A program that looks at the service gets pages. The main thread makes each page between two other
 * things that it does, so a page must cost no more than one of those.
 *
 * Nothing here waits: the service asks the kernel for the names of descriptors that it has
 * open itself, and /proc for the names of programs.
 */
#include <stdio.h>
#include <string.h>

#include "core/pte.h"
#include "lib/service/client/connection.h"
#include "lib/service/client/list.h"
#include "lib/service/file/files.h"
#include "lib/service/file/pause.h"
#include "lib/service/file/proof.h"
#include "lib/service/file/refused.h"
#include "lib/service/frame/mover.h"
#include "lib/service/hold/hold_table.h"
#include "lib/service/hold/hold_tier.h"
#include "lib/service/tier/policy.h"
#include "lib/service/client/state.h"
#include "lib/service/file/held.h"
#include "lib/service/frame/fill.h"
#include "lib/service/tier/tier.h"

/* What one page may look at. Ours: each bound keeps a page below a millisecond or so. */
#define LIST_SLOTS 4096u /* of files; the records limit the paths */
#define LIST_READERS 64u /* each costs an open of a file in /proc */
#define LIST_HOLDS 4096u /* places of their table; the records limit the page as well */
#define WHY_BYTES 256
#define NS_PER_S ((u64)1000000000)

/* Room for one more record. NULL: the page is full, and the next one begins with it. */
static void *list_add(struct wire_page *page, size_t bytes)
{
	u64 at = page->reply.page.bytes;
	u32 length = (u32)((bytes + 7) & ~(size_t)7);
	void *record = page->records + at;

	if (at + length > sizeof(page->records))
		return NULL;
	memset(record, 0, length);
	memcpy(record, &length, sizeof(length)); /* each record's first word */
	page->reply.page.bytes += length;
	page->reply.page.nr++;
	return record;
}

static struct look_file *list_add_file(struct wire_page *page, const char *path,
                                       const char *why)
{
	size_t n = strlen(path) + 1, why_bytes = strlen(why) + 1;
	struct look_file *r = list_add(page, sizeof(*r) + n + why_bytes);

	if (!r)
		return NULL;
	memcpy(r->path, path, n);
	memcpy(r->path + n, why, why_bytes);
	return r;
}

static bool list_held(const struct clients *s, struct wire_page *page,
                      const struct held_file *f)
{
	char path[PROOF_PATH_BYTES];
	struct look_file *r;

	if (proof_path(held_fd(f), path) != 0)
		path[0] = '\0';
	r = list_add_file(page, path, "");
	if (!r)
		return false;
	held_look(s->files, f, r);
	r->held = hold_table_bytes_of(s->holding, f);
	return true;
}

/* The reason, and when it ends, if that is known. */
static void list_why(const struct clients *s, const struct refused *refused,
                     char why[WHY_BYTES])
{
	u64 left_ns = pause_left_ns(s->files, refused->dev, refused->ino);
	const char *reason = refused_reason(refused->error, refused->revoked);

	if (left_ns > 0)
		snprintf(why, WHY_BYTES, "%s; again in %llu s", reason,
		         (unsigned long long)((left_ns + NS_PER_S - 1) / NS_PER_S));
	else
		snprintf(why, WHY_BYTES, "%s", reason);
}

static bool list_refused(const struct clients *s, struct wire_page *page,
                         const struct refused *refused, u64 now)
{
	char why[WHY_BYTES];
	struct look_file *r;

	if (refused->error == 0)
		return true;
	list_why(s, refused, why);
	r = list_add_file(page, refused->path, why);
	if (!r)
		return false;
	r->state = refused->revoked ? LOOK_REVOKED : LOOK_REFUSED;
	r->dev = refused->dev;
	r->ino = refused->ino;
	r->reason = refused->error;
	r->ago_ns = now - refused->when_ns;
	return true;
}

/* First the slots of held files, and then those that are not held. */
void list_files(const struct clients *s, u64 cursor, struct wire_page *page)
{
	u64 slots = s->shape->nr_files, nr = slots + refused_nr(s->files);
	u64 end = cursor < nr && nr - cursor > LIST_SLOTS ? cursor + LIST_SLOTS : nr;
	u64 now = host_now_ns();
	bool room = true;

	for (; cursor < end && room; cursor += room) {
		const struct held_file *f;

		if (cursor >= slots)
			room = list_refused(s, page,
			                    refused_at(s->files, (u32)(cursor - slots)),
			                    now);
		else if ((f = held_at(s->files, (u32)cursor)) != NULL)
			room = list_held(s, page, f);
	}
	page->reply.page.next = cursor < nr ? cursor : LOOK_END;
}

/* As ps(1) shows it; "": the process has gone. The kernel keeps it to 15 bytes. */
static void list_name(u32 pid, char *name, size_t room)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	if (port_system_text(path, name, room) < 0)
		name[0] = '\0';
	name[strcspn(name, "\n")] = '\0';
}

/* The newest come first. The cursor is the serial number of the last one told. */
void list_readers(const struct clients *s, u64 cursor, struct wire_page *page)
{
	u64 now = host_now_ns();
	struct look_reader *r;

	page->reply.page.next = LOOK_END;
	for (const struct client *c = s->first; c; c = c->next) {
		if (!client_is_reader(c) || c->gone || (cursor && c->serial >= cursor))
			continue;
		r = page->reply.page.nr < LIST_READERS ? list_add(page, sizeof(*r))
		                                       : NULL;
		if (!r) {
			page->reply.page.next = cursor;
			return;
		}
		cursor = r->serial = c->serial;
		r->pid = (u32)c->pid;
		r->age_ns = now - c->since_ns;
		r->files = c->opens.nr;
		r->hung_up = c->socket < 0;
		list_name(r->pid, r->name, sizeof(r->name));
	}
}

/* As it looks while its owner goes on. */
static u64 list_nr_pinned(const struct clients *s, const struct context_table *t)
{
	u64 nr = 0;

	if (s->arena->counts)
		return LOOK_UNKNOWN;
	if (!t->entries)
		return 0; /* K4 */
	if (s->shape->scheme != ARENA_HAZARD)
		return host_load_relaxed(&t->memory->nr_pinned); /* C8 */
	for (u32 i = 0; i < ARENA_HAZARD_SLOTS; i++)
		nr += host_load_relaxed(&t->entries[i]) != 0;
	return nr;
}

void list_contexts(const struct clients *s, u64 cursor, struct wire_page *page)
{
	u64 end = s->arena->nr_contexts;

	for (; cursor < end; cursor++) {
		const struct context_table *t = &s->arena->contexts[cursor];
		const struct context_memory *m = t->memory;
		struct look_context *r;

		if (!m)
			continue;
		r = list_add(page, sizeof(*r));
		if (!r)
			break;
		r->place = (u32)cursor;
		r->serial = s->seats[cursor].client->serial;
		r->quota = s->seats[cursor].quota;
		r->pinned = r->quota ? list_nr_pinned(s, t) : 0;
		r->hits = host_load_relaxed(&m->counters[CONTEXT_HITS]);
		r->soft_misses = host_load_relaxed(&m->counters[CONTEXT_SOFT]);
		r->misses = host_load_relaxed(&m->counters[CONTEXT_MISSES]);
		r->pins_refused = host_load_relaxed(&m->counters[CONTEXT_FULL]);
	}
	page->reply.page.next = cursor < end ? cursor : LOOK_END;
}

/* Only those that have memory. */
void list_holds(const struct clients *s, u64 cursor, struct wire_page *page)
{
	u64 nr = hold_table_nr_places(s->holding);
	u64 end = cursor < nr && nr - cursor > LIST_HOLDS ? cursor + LIST_HOLDS : nr;

	for (; cursor < end; cursor++) {
		struct look_hold hold, *r;

		if (!hold_table_look(s->holding, cursor, &hold))
			continue;
		r = list_add(page, sizeof(*r));
		if (!r)
			break;
		hold.bytes = r->bytes;
		*r = hold;
	}
	page->reply.page.next = cursor < nr ? cursor : LOOK_END;
}

void list_times(const struct clients *s, u64 cursor, struct wire_page *page)
{
	(void)cursor; /* all of them fit */
	for (u32 kind = 0; kind < LOOK_NR_TIMES; kind++) {
		struct look_times *r = list_add(page, sizeof(*r));
		u32 bytes = r->bytes;

		*r = *fill_times(s->frames, kind);
		r->bytes = bytes;
		r->kind = kind;
	}
	page->reply.page.next = LOOK_END;
}

void list_tiers(const struct clients *s, u64 cursor, struct wire_page *page)
{
	const struct hold_tier_sum none = { 0 };

	(void)cursor; /* both fit */
	for (u32 tier = 0; tier < (tier_are_two(s->tiers) ? NR_TIERS : 1); tier++) {
		struct look_tier *r = list_add(page, sizeof(*r));
		const struct hold_tier_sum *holds =
			hold_table(s->holding) ? &hold_table(s->holding)->tiers[tier]
					       : &none;

		r->tier = tier;
		r->busy = !mover_is_idle(s->frames) || hold_tier_is_busy(s->holding);
		tier_look(s->tiers, (enum tier)tier, r);
		r->holds = holds->nr;
		r->hold_bytes = holds->bytes;
		r->holds_came = holds->came;
		r->holds_refused = holds->refused;
		snprintf(r->policy, sizeof(r->policy), "%s",
		         tier_has_policy(s->tiers) ? s->options->placing.policy : "");
	}
	page->reply.page.next = LOOK_END;
}
