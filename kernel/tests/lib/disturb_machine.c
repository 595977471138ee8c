// SPDX-License-Identifier: GPL-2.0
/*
 * Disturbers that the machine brings along: swapping, hint faults of NUMA balancing, and the
 * switch of LODIC itself.
 */
#include "disturb.h"

#include "balancing.h"
#include "clock.h"
#include "ktap.h"
#include "random.h"
#include "swap.h"
#include "switches.h"
#include "text.h"

/* Fails the race if a counter of the machine stands where it stood before. */
static void disturb_must_grow(struct running *r, const char *name)
{
	long long now = text_vmstat(name);

	if (r->skip[0])
		return;
	r->done = now - r->before;
	if (now <= r->before)
		ktap_fail("%s has not grown: shows nothing", name);
}

/* -- swap -------------------------------------------------------------------------------- */

static int disturb_swap_setup(struct running *r)
{
	int err = swap_on();

	if (err)
		return race_skip(r, "no swap: %s", strerror(-err));
	r->before = text_vmstat("pswpout");
	r->done_name = "pages swapped out";
	return 0;
}

static void disturb_swap_teardown(struct running *r)
{
	if (r->skip[0])
		return;
	disturb_must_grow(r, "pswpout");
	swap_off();
}

/* -- hint faults ------------------------------------------------------------------------- */

static int disturb_hints_setup(struct running *r)
{
	if (!disturb_two_nodes())
		return race_skip(r, "one memory node");
	if (text_read_number("/proc/sys/kernel/numa_balancing") != 1)
		return race_skip(r, "no NUMA balancing");
	if (balancing_fast(true))
		return race_skip(r, "the scan's period cannot be set");
	r->before = text_vmstat("numa_hint_faults");
	r->done_name = "hint faults";
	return 0;
}

/* A scan makes entries PROT_NONE. This thread's own loads fault at them. */
static void disturb_hints(struct seat *s)
{
	u32 i;

	for (i = 0; i < 1000; i++)
		(void)*(volatile char *)(s->map + i * PAGE % HOT_BYTES);
	if (s->round % 16 == 0)
		madvise(s->map, s->map_bytes, MADV_DONTNEED);
}

static void disturb_hints_teardown(struct running *r)
{
	disturb_must_grow(r, "numa_hint_faults");
	balancing_fast(false);
}

/* -- the switch -------------------------------------------------------------------------- */

/* Patching code under load is safe in QEMU only with one thread for all processors. */
static int disturb_switch_setup(struct running *r)
{
	if (!text_has_word("/proc/cmdline", "lodic.one_thread"))
		return race_skip(
			r, "QEMU runs a thread for each processor: see switch.sh");
	r->done_name = "turns of the switch";
	return 0;
}

static void disturb_switch(struct running *r)
{
	if (text_write_number(SYSCTL_FOLIOREF, r->round % 2))
		ktap_fail("vm.folioref");
	r->done++;
	clock_sleep_ms(random_next(&r->rng) % 16);
}

static void disturb_switch_teardown(struct running *r)
{
	if (!r->skip[0])
		text_write_number(SYSCTL_FOLIOREF, 1);
}

/* -- the table --------------------------------------------------------------------------- */

static const struct race races[] = {
	/* One process: the kernel pages out only what one process maps. */
	{ .name = "swap-tmpfs",
	  .fs = "tmpfs",
	  .procs = 1,
	  .threads = 4,
	  .inside = disturb_madv_pageout,
	  .setup = disturb_swap_setup,
	  .teardown = disturb_swap_teardown,
	  .min_fold = 1 },
	/* Balancing leaves mappings alone that nobody may write by. */
	{ .name = "numa-hints",
	  .fs = "ext4",
	  .flags = CREW_WRITABLE,
	  .procs = 2,
	  .threads = 2,
	  .inside = disturb_hints,
	  .setup = disturb_hints_setup,
	  .teardown = disturb_hints_teardown,
	  .min_fold = 1 },
	{ .name = "switch",
	  .fs = "ext4",
	  .flags = CREW_UNMAP | CREW_GUEST,
	  .procs = 3,
	  .threads = 2,
	  .outside = disturb_switch,
	  .setup = disturb_switch_setup,
	  .teardown = disturb_switch_teardown,
	  .min_fold = 1 },
};

const struct race_table disturb_machine = { races, NR(races) };
