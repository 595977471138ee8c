/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See misuse.h. */
#include "lib/client/misuse.h"

#ifdef LODIC_DEBUG

#include "lib/port.h"

/* How many closed objects keep their place. Our choice: enough that a program which opens and
 * closes one thing at a time is found out. */
#define NR_KEPT 16u

/* Atomic, without a lock: a hold may be released in a forked child, whose parent had other
 * threads. */
static struct {
	u64 objects[NR_KEPT];
	u64 next;
} kept;

void misuse_opened(struct misuse *m, const u64 *mark)
{
	m->mark = mark;
	m->open = MISUSE_OPEN;
}

void misuse_closed(struct misuse *m, void *object)
{
	u64 place = host_fetch_add(&kept.next, 1) % NR_KEPT;

	m->open = 0;
	port_free(m->pins);
	m->pins = NULL;
	port_free((void *)host_xchg(&kept.objects[place], (u64)object));
}

void misuse_context_enter(struct misuse *m)
{
	CHECK(m->open == MISUSE_OPEN, "a context is used after lodic_context_close()");
	CHECK(host_cas(&m->busy, 0, 1) || *m->mark == 0,
	      "two threads use one context at once");
}

void misuse_context_leave(struct misuse *m)
{
	host_store_release(&m->busy, 0);
}

/* A thread that was cancelled in a call has left its context busy. */
void misuse_context_close(const struct misuse *m)
{
	CHECK(m->open == MISUSE_OPEN, "a context is closed twice");
}

/* Room for one more pin. Without memory the context goes on, and its copies are not looked for. */
static bool misuse_make_room(struct misuse *m)
{
	u64 most = m->max_pins ? m->max_pins * 2 : 16;
	const struct lodic_pin **more;

	if (m->nr_pins < m->max_pins)
		return true;
	more = port_alloc(most * sizeof(*more));
	if (!more) {
		m->blind = true;
		return false;
	}
	if (m->nr_pins > 0)
		memcpy(more, m->pins, m->nr_pins * sizeof(*more));
	port_free(m->pins);
	m->pins = more;
	m->max_pins = most;
	return true;
}

void misuse_pinned(struct misuse *m, const struct lodic_pin *pin)
{
	for (u64 i = m->nr_pins; i > 0; i--)
		if (m->pins[i - 1] == pin)
			return;
	if (!m->blind && misuse_make_room(m))
		m->pins[m->nr_pins++] = pin;
}

void misuse_unpin(struct misuse *m, const struct lodic_pin *pin)
{
	u64 i = m->nr_pins;

	/* Given back already, or a forked child, where it does nothing. */
	if (!pin->word || *m->mark == 0 || m->blind)
		return;
	while (i > 0 && m->pins[i - 1] != pin)
		i--;
	CHECK(i > 0, "a pin is given back by a copy of what lodic_pin() has filled");
	m->pins[i - 1] = m->pins[--m->nr_pins];
}

#endif
