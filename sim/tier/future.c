/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the oracle sees: sim/tier/future.h. */
#include <errno.h>
#include <stdlib.h>

#include "core/kloc/kloc.h"
#include "sim/tier/future.h"
#include "sim/tier/table.h"

#define NO_EVENT 0xffffffffu

struct ahead {
	struct tier_event event;
	u32 next; /* place of the event that touches the same object next */
};

struct future {
	struct tier_source source;
	struct tier_source *inner;
	struct ahead *events; /* a ring of FUTURE_EVENTS */
	u64 read, given;      /* events so far; the place is the rest */
	bool ended;
	struct table
		touches; /* value: place of the first touch ahead; more: of the last one */
};

static u32 place_of(u64 number)
{
	return (u32)(number % FUTURE_EVENTS);
}

static bool is_touch(const struct tier_event *event)
{
	return event->op == TIER_READ || event->op == TIER_WRITE;
}

static int future_note(struct future *f, u32 place)
{
	struct ahead *ahead = &f->events[place];
	const struct tier_event *event = &ahead->event;
	struct table_entry *entry;

	ahead->next = NO_EVENT;
	if (!is_touch(event))
		return 0;
	entry = table_find(&f->touches, event->file, event->kind, event->index);
	if (entry) {
		f->events[entry->more].next = place;
		entry->more = place;
		return 0;
	}
	entry = table_insert(&f->touches, event->file, event->kind, event->index);
	if (!entry)
		return -ENOMEM;
	entry->value = entry->more = place;
	return 0;
}

static int future_fill(struct future *f)
{
	while (!f->ended && f->read - f->given < FUTURE_EVENTS) {
		u32 place = place_of(f->read);
		int got = f->inner->next(f->inner, &f->events[place].event);

		if (got < 0)
			return got;
		f->ended = got == 0;
		if (f->ended)
			break;
		f->read++;
		got = future_note(f, place);
		if (got < 0)
			return got;
	}
	return 0;
}

static int future_next(struct tier_source *source, struct tier_event *ret_event)
{
	struct future *f = (struct future *)source;
	struct table_entry *entry;
	struct ahead *ahead;
	int err = future_fill(f);

	if (err)
		return err;
	if (f->given == f->read)
		return 0;
	ahead = &f->events[place_of(f->given)];
	*ret_event = ahead->event;
	f->given++;
	if (!is_touch(ret_event))
		return 1;
	entry = table_find(&f->touches, ret_event->file, ret_event->kind,
	                   ret_event->index);
	if (ahead->next == NO_EVENT)
		table_erase(&f->touches, entry);
	else
		entry->value = ahead->next;
	return 1;
}

static void future_close(struct tier_source *source)
{
	struct future *f = (struct future *)source;

	f->inner->close(f->inner);
	table_end(&f->touches);
	free(f->events);
	free(f);
}

struct tier_source *future_open(struct tier_source *source)
{
	struct future *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->events = malloc(FUTURE_EVENTS * sizeof(*f->events));
	if (!f->events || table_begin(&f->touches) != 0) {
		free(f->events);
		free(f);
		return NULL;
	}
	f->inner = source;
	f->source = *source;
	f->source.next = future_next;
	f->source.close = future_close;
	return &f->source;
}

u64 future_next_use(const struct tier_source *source, u32 file, u32 kind, u32 index)
{
	const struct future *f = (const struct future *)source;
	const struct table_entry *entry = table_find(&f->touches, file, kind, index);
	u32 given = place_of(f->given);

	if (!entry)
		return KLOC_NEVER;
	return f->given + (entry->value + FUTURE_EVENTS - given) % FUTURE_EVENTS;
}
