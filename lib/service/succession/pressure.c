/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See pressure.h. Only the main thread comes here. It does not wake up for this: a service that
 * sleeps holds nothing, or looks after it once a second anyway. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/block.h"
#include "lib/cgroup.h"
#include "lib/port.h"
#include "lib/service/base/base.h"
#include "lib/service/hold/holds.h"
#include "lib/service/succession/pressure.h"
#include "lib/service/succession/resize.h"
#include "lib/service/memory/memory.h"
#include "lib/service/succession/budget.h"

#define LOOK_NS ((u64)1000 * NS_PER_MS)
#define TEXT_BYTES 256
#define MIB_SHIFT 20

bool pressure_parse(const char *text, u32 *ret_some)
{
	unsigned int whole, part;

	if (sscanf(text, "some avg10=%3u.%2u", &whole, &part) != 2 || whole > 100)
		return false;
	*ret_some = whole * 100 + part;
	return true;
}

static u64 pressure_smaller(const struct pressure *p, u64 bytes)
{
	u64 least = p->configured / PRESSURE_LEAST_PART;
	u64 next = bytes / 4 * 3;

	least = least > SERVICE_MIN_CACHE_BYTES ? least : SERVICE_MIN_CACHE_BYTES;
	return next > least ? next : least;
}

static u64 pressure_larger(const struct pressure *p, u64 bytes)
{
	u64 next = bytes / 3 * 4;

	return next < p->configured ? next : p->configured;
}

enum pressure_step pressure_decide(struct pressure *p, u64 now_ns, u32 some, u64 bytes,
                                   bool warm, u64 *ret_bytes)
{
	u64 pause_ns = p->tight ? PRESSURE_TIGHT_PAUSE_NS : PRESSURE_PAUSE_NS;
	bool early = p->resized_ns > 0 && now_ns - p->resized_ns < pause_ns;
	u64 next = bytes;

	if (some >= PRESSURE_LOW)
		p->calm_ns = 0;
	else if (p->calm_ns == 0)
		p->calm_ns = now_ns;
	if (some >= PRESSURE_HIGH && warm)
		return PRESSURE_HOLDS;
	if (some >= PRESSURE_HIGH)
		next = pressure_smaller(p, bytes);
	else if (p->calm_ns > 0 && now_ns - p->calm_ns >= PRESSURE_CALM_NS)
		next = pressure_larger(p, bytes);
	/* A user may have made it smaller than pressure would. */
	if (early || (some >= PRESSURE_HIGH ? next >= bytes : next <= bytes))
		return PRESSURE_NOTHING;
	p->resized_ns = now_ns;
	p->calm_ns = 0; /* each step back wants its own quiet time */
	*ret_bytes = next;
	return PRESSURE_CACHE;
}

/* false: there is no number. */
static bool pressure_look(const struct pressure *p, u32 *ret_some)
{
	char text[TEXT_BYTES];

	return port_system_text(p->sizes->pressure, text, sizeof(text)) > 0 &&
	       pressure_parse(text, ret_some);
}

void pressure_configure(struct pressure *p, u64 bytes)
{
	p->configured = bytes;
}

bool pressure_is_tight(const struct pressure *p)
{
	return p->tight;
}

bool pressure_lasts(const struct pressure *p)
{
	bool looks = p->sizes->pressure || p->sizes->watch_groups;

	return p->tight || p->sizes->cache_bytes < p->configured ||
	       (looks && p->calm_ns == 0);
}

bool pressure_fits(const struct cgroup *room, u64 bytes, u64 *next)
{
	u64 half = room->left / 2 & ~(u64)(BLOCK_BYTES - 1);

	if (room->limit == UINT64_MAX)
		return true;
	if (*next > bytes)
		return room->left > *next &&
		       room->left - (*next - bytes) >=
		               room->limit / MEMORY_TIGHT_PART * 2;
	*next = *next < half ? *next : half;
	return *next >= SERVICE_MIN_CACHE_BYTES;
}

static void pressure_resize(struct pressure *p, const struct cgroup *room, u32 some,
                            u64 bytes)
{
	bool smaller = bytes < p->sizes->cache_bytes;

	/* Holds may have taken meanwhile what the arena has given back. */
	if (!smaller && budget_limit(p->budget) > 0 &&
	    bytes > budget_limit(p->budget) - budget_used(p->budget) +
	                    p->sizes->cache_bytes)
		return;
	if (!pressure_fits(room, p->sizes->cache_bytes, &bytes)) {
		if (smaller && !p->said_room)
			service_say(
				p->base, SERVICE_WARNING, "no_room",
				"the control group has %llu of %llu MiB left: too little "
				"to make a smaller cache",
				(unsigned long long)(room->left >> MIB_SHIFT),
				(unsigned long long)(room->limit >> MIB_SHIFT));
		p->said_room |= smaller;
		return;
	}
	if (resize_begin(p->of, bytes, 0) != 0)
		return;
	if (p->tight)
		service_say(
			p->base, SERVICE_WARNING, "pressure",
			"the control group has %llu of %llu MiB left: the cache gets "
			"%llu MiB",
			(unsigned long long)(room->left >> MIB_SHIFT),
			(unsigned long long)(room->limit >> MIB_SHIFT),
			(unsigned long long)(bytes >> MIB_SHIFT));
	else
		service_say(p->base, SERVICE_WARNING, "pressure",
		            "memory pressure is %u.%02u %%: the cache gets %llu MiB",
		            some / 100, some % 100,
		            (unsigned long long)(bytes >> MIB_SHIFT));
}

/* What PSI says. A group that is tight is at least as bad. false: nobody says anything. */
static bool pressure_ask(struct pressure *p, u32 *ret_some)
{
	bool known = p->sizes->pressure && pressure_look(p, ret_some);

	if (!known && p->sizes->pressure && !p->said) {
		service_say(p->base, SERVICE_WARNING, "no_pressure",
		            "%s says nothing of memory pressure", p->sizes->pressure);
		p->said = true;
	}
	if (!known)
		*ret_some = 0;
	if (p->tight && *ret_some < PRESSURE_HIGH)
		*ret_some = PRESSURE_HIGH;
	return known || p->sizes->watch_groups;
}

void pressure_tick(struct pressure *p)
{
	struct cgroup room = { UINT64_MAX, UINT64_MAX, UINT64_MAX };
	u64 now = host_now_ns(), bytes;
	enum pressure_step step;
	u32 some;

	if (now < p->next_ns || resize_is_under_way(p->of))
		return;
	p->next_ns = now + LOOK_NS;
	if (p->sizes->watch_groups)
		cgroup_look(CGROUP_LIST, CGROUP_MOUNT, &room);
	p->tight = memory_is_tight(&room);
	p->said_room &= p->tight;
	if (!pressure_ask(p, &some))
		return;
	step = pressure_decide(p, now, some, p->sizes->cache_bytes,
	                       holds_any(p->holding), &bytes);
	if (step == PRESSURE_HOLDS && !holds_give_back(p->holding))
		step = pressure_decide(p, now, some, p->sizes->cache_bytes, false,
		                       &bytes);
	if (step == PRESSURE_CACHE)
		pressure_resize(p, &room, some, bytes);
}

void pressure_take_over(struct pressure *p, const struct pressure *old)
{
	p->configured = old->configured;
	p->next_ns = old->next_ns;
	p->resized_ns = old->resized_ns;
	p->calm_ns = old->calm_ns;
	p->tight = old->tight;
	p->said = old->said;
	p->said_room = old->said_room;
}
