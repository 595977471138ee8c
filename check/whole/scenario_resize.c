/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A cache that gets another size again and again, while readers pin, hold and post hints. The size
 * is always enough for all files. So if nothing fails, and nobody writes, what was cached before is
 * cached afterwards, and each hint that was posted before is followed.
 */
#include "check/whole/said.h"
#include "check/whole/scenarios.h"
#include "check/whole/settle.h"
#include "lib/look.h"
#include "lib/port.h"
#include "lib/service/service.h"

#define NS_PER_MS ((u64)1000000)
#define MIB ((u64)1 << 20)
#define MOST_FILES 16u
#define BIG_BLOCKS (WORLD_BIG_BYTES / LODIC_BLOCK_BYTES)
/* Each takes less if nothing fails. Our choice. */
#define RESIZE_MS 60000u
#define FOLLOW_MS 5000u

static bool resize_written; /* somebody writes to files */

struct warm {
	u64 ino[MOST_FILES], cached[MOST_FILES];
	u32 nr;
};

static void resize_adjust(struct service_options *options)
{
	options->sizes.cache_bytes = (2 + machine_draw(3)) * MIB;
	options->keeping.nr_files = MOST_FILES;
	options->keeping.keep_ms = 3600000;
	options->sizes.fast_bytes = 0;
	options->placing.policy = NULL;
	options->sizes.pressure = NULL;
	options->sizes.watch_groups = false;
}

static int warm_note(void *arg, const void *record)
{
	const struct look_file *file = record;
	struct warm *warm = arg;

	if (file->state != LOOK_HELD || warm->nr == MOST_FILES)
		return 0;
	warm->ino[warm->nr] = file->ino;
	warm->cached[warm->nr++] = file->cached;
	return 0;
}

static u64 warm_of(const struct warm *warm, u64 ino)
{
	u64 most = 0;

	for (u32 i = 0; i < warm->nr; i++)
		if (warm->ino[i] == ino && warm->cached[i] > most)
			most = warm->cached[i];
	return most;
}

static void warm_compare(const struct warm *before, const struct warm *after)
{
	if (!world.calm || resize_written)
		return;
	for (u32 i = 0; i < before->nr; i++)
		if (warm_of(after, before->ino[i]) < before->cached[i])
			machine_fail(
				"%llu blocks of a file were cached; after a resize, %llu",
				(unsigned long long)before->cached[i],
				(unsigned long long)warm_of(after, before->ino[i]));
}

/* The error of a request, or 0. */
static int resizer_waits(struct look *look)
{
	u64 until = machine.now_ns + RESIZE_MS * NS_PER_MS;
	struct look_resize resize;
	int err;

	do {
		port_sleep(machine_draw(40) * NS_PER_MS);
		err = look_resize(look, 0, &resize);
		if (err)
			return err;
		said_resize(&resize);
		if (machine.now_ns > until && world.calm)
			machine_fail("a resize does not end");
	} while (resize.state == LOOK_RESIZE_RUNS && machine.now_ns < until);
	if (resize.state == LOOK_RESIZE_FAILED && world.calm)
		machine_fail("nothing fails, and a resize does: %d", resize.error);
	return 0;
}

static int resizer_once(struct look *look)
{
	struct warm before = { .nr = 0 }, after = { .nr = 0 };
	struct look_resize resize;
	int err = look_list(look, LOOK_FILES, warm_note, &before);

	if (!err)
		err = look_resize(look, (2 + machine_draw(3)) * MIB, &resize);
	if (err == -EBUSY)
		return 0;
	if (!err)
		err = resizer_waits(look);
	if (!err)
		err = look_list(look, LOOK_FILES, warm_note, &after);
	if (!err)
		warm_compare(&before, &after);
	return err;
}

static void resizer_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct look *look = NULL;
	int pid;

	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		if (!look && look_open(WORLD_SOCKET, &look, &pid) != 0)
			look = NULL;
		if (look && resizer_once(look) != 0) {
			look_close(look);
			look = NULL;
		}
		port_sleep(machine_draw(400) * NS_PER_MS);
	}
	if (look)
		look_close(look);
	settle_given_back(&before);
}

/* ---- hints ---- */

/* Is the service that has this context still the one that programs use? */
static bool poster_is_vouched(struct lodic_context *context,
                              const struct world_open *open)
{
	struct lodic_view view;

	return lodic_view_begin(context, open->file, 0, &view) == 0 &&
	       lodic_view_valid(context, &view);
}

static void poster_looks(struct lodic_context *context, const struct world_open *open,
                         u32 block)
{
	u64 until = machine.now_ns + FOLLOW_MS * NS_PER_MS;
	struct lodic_pin pin;
	int err;

	do {
		err = lodic_pin(context, open->file, (off_t)block * LODIC_BLOCK_BYTES,
		                &pin);
		if (err == -ESTALE)
			port_sleep(100 * NS_PER_MS);
	} while (err == -ESTALE && machine.now_ns < until);
	if (err == 0)
		lodic_unpin(context, &pin);
	if (err == -EAGAIN)
		machine_fail("the hint of block %u was posted, and is not followed",
		             block);
}

static void poster_posts(struct lodic_context *context, const struct world_open *open)
{
	bool posted[BIG_BLOCKS] = { false };

	lodic_prefetch(context, open->file, 0, 1, LODIC_WAIT);
	for (u32 i = 1; i < BIG_BLOCKS; i++) {
		if (lodic_prefetch(context, open->file, (off_t)i * LODIC_BLOCK_BYTES, 1,
		                   0) == 0)
			posted[i] = poster_is_vouched(context, open);
		else
			world_read(context, open);
		port_sleep((1 + machine_draw(machine_draw(4) > 0 ? 200 : 20000)) *
		           NS_PER_US);
	}
	port_sleep(FOLLOW_MS * NS_PER_MS);
	for (u32 i = 1; i < BIG_BLOCKS && world.calm && !resize_written; i++)
		if (posted[i])
			poster_looks(context, open, i);
}

static void poster_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct lodic_context *context;
	struct world_open open;
	struct lodic *lodic;

	(void)arg;
	if (world_attach(&lodic) == 0) {
		if (world_context_open(lodic, &context) == 0) {
			if (world_open(lodic, WORLD_BIG, &open)) {
				poster_posts(context, &open);
				settle_here();
				world_close(&open);
			}
			lodic_context_close(context);
		}
		lodic_detach(lodic);
	}
	settle_given_back_but(&before, *world_closed());
}

static void resize_start(const char *name, void (*run)(void *arg), u32 nr)
{
	struct process *p = process_start(name, WORLD_USER, run, (void *)(uintptr_t)nr);

	p->mortal = true;
	settle_expect(p);
}

void scenario_resize(void)
{
	world.adjust = resize_adjust;
	world.hold_bytes = (u64)4 << 20;
	if (machine_draw(3) > 0)
		world_calm();
	resize_written = machine_draw(4) == 0;
	resize_start("resizer", resizer_run, 2 + machine_draw(10));
	resize_start("poster", poster_run, 0);
	for (u32 i = machine_draw(3); i > 0; i--)
		world_reader(50 + machine_draw(200));
	for (u32 i = machine_draw(3); i > 0; i--)
		world_holder(2 + machine_draw(20));
	if (resize_written)
		world_writer(1 + machine_draw(5));
}
