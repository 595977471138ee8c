/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Programs that hold ranges, small ones (copies) and such as the service has. The bytes are those
 * of one moment between the call and the hold's being ready, and stay so.
 */
#include <string.h>

#include "check/whole/scenarios.h"
#include "check/whole/said.h"
#include "check/whole/settle.h"
#include "lib/port.h"

#define MOST_HOLDS 4u
#define READY_NS ((u64)3600 * 1000000000)

struct kept_hold {
	struct lodic_hold *hold;
	struct world_open open;
	u64 offset, bytes, least; /* bytes: 0, to the end */
	u64 sum; /* of its bytes; 0: not yet ready */
};

static bool hold_reads_failed(void)
{
	return machine.nr_faults[FAULT_ERRNO] > 0 || machine.nr_faults[FAULT_SHORT] > 0;
}

static u64 hold_sum(const u64 *words, u64 nr)
{
	u64 sum = 1;

	for (u64 i = 0; i < nr; i++)
		sum = sum * 31 + words[i];
	return sum;
}

/* It is ready: are its bytes of one moment? A writer goes from the first byte to the last. */
static void hold_check(struct kept_hold *kept)
{
	const u64 *words = lodic_hold_data(kept->hold);
	u64 bytes = lodic_hold_bytes(kept->hold), nr = bytes / sizeof(u64);
	u64 sum = hold_sum(words, nr);

	if (kept->sum != 0 && kept->sum != sum)
		machine_fail("the bytes of a hold have changed");
	kept->sum = sum;
	if (kept->bytes != 0 && bytes != kept->bytes && !world_has_cuts(&kept->open))
		machine_fail("a hold of %llu bytes has %llu",
		             (unsigned long long)kept->bytes, (unsigned long long)bytes);
	world_check(&kept->open, kept->offset, words, bytes, kept->least);
	for (u64 i = 1; i < nr; i++)
		if (words[i] >> 40 > words[i - 1] >> 40 ||
		    words[0] >> 40 > (words[i] >> 40) + 1)
			machine_fail("a hold has bytes of two moments");
}

/* A hold fails with EIO only if a read of a file has failed. */
static void hold_check_error(int err)
{
	if (err == -EIO && !hold_reads_failed())
		machine_fail("no read has failed, and a hold fails with EIO");
}

static void hold_release(struct kept_hold *kept)
{
	if (!kept->hold)
		return;
	if (kept->sum != 0)
		hold_check(kept);
	lodic_release(kept->hold);
	kept->hold = NULL;
}

static void hold_take(struct lodic *lodic, const struct world_open *open, struct kept_hold *kept)
{
	bool big = world_bytes(open) > WORLD_FILE_BYTES;
	u64 pages = (big ? WORLD_BIG_BYTES - ((u64)1 << 20) : WORLD_FILE_BYTES) / 4096;
	int err;

	hold_release(kept);
	kept->open = *open;
	kept->sum = 0;
	kept->offset = machine_draw((u32)pages) * (u64)4096;
	kept->offset += machine_draw(512) * (u64)8;
	kept->bytes = 0;
	if (machine_draw(2)) {
		kept->bytes = machine_draw((u32)(WORLD_FILE_BYTES - kept->offset % 4096) / 8) *
		              (u64)8;
		if (big)
			kept->bytes = (u64)1 << 20;
		if (kept->offset + kept->bytes > world_bytes(open))
			kept->bytes = 0;
	}
	kept->least = world_version(open);
	++*world_closed();
	err = lodic_hold(lodic, open->file, (off_t)kept->offset, kept->bytes,
	                 machine_draw(2) ? LODIC_WAIT : 0, &kept->hold);
	machine_note("lodic_hold() = %d", err);
	hold_check_error(err);
	if (err)
		kept->hold = NULL;
}

/* Waits until it is ready, or has failed. Then the file may be closed. */
static void hold_wait(struct kept_hold *kept)
{
	u64 until = machine.now_ns + READY_NS;
	int ready = 0;

	while (kept->hold && (ready = lodic_hold_ready(kept->hold)) == 0) {
		if (machine.now_ns > until && machine.faults_end)
			machine_fail("a hold does not get ready");
		port_sleep(10000000);
	}
	said_ready(ready);
	hold_check_error(ready);
	if (kept->hold && ready == 1)
		hold_check(kept);
	else
		hold_release(kept);
}

/* Another description of its memory has the same bytes. */
static void hold_again(const struct kept_hold *kept)
{
	u64 bytes = lodic_hold_bytes(kept->hold);
	off_t at;
	int fd = lodic_hold_fd(kept->hold, &at), err;
	u64 all = (u64)at + bytes;
	void *there;

	machine_note("lodic_hold_fd() = %d", fd);
	if (fd == -EPROTO && machine.nr_failed[CALL_MEMORY_LOOK] == 0 &&
	    machine.nr_failed[CALL_MODE] == 0)
		machine_fail("another hold's memory comes for a hold");
	/* A resize goes on in the same process, and takes holds along. */
	if (fd < 0 && world.calm)
		machine_fail("nothing fails, and a hold has no descriptor: %d", fd);
	if (fd < 0)
		return;
	all = (all + 4095) & ~(u64)4095;
	err = port_map(NULL, all, PORT_READ, PORT_SHARED, fd, 0, &there);
	if (!err) {
		if (memcmp((u8 *)there + at, lodic_hold_data(kept->hold), bytes) != 0)
			machine_fail("a hold's memory has other bytes elsewhere");
		port_unmap(there, all);
	}
	port_close(fd);
}

/* Once all is well a hold is there at once, or the file is not cached. */
static void holds_settle(struct lodic *lodic, const struct world_open *open)
{
	u64 until = machine.now_ns + (u64)120 * 1000000000;
	struct kept_hold kept = { .open = *open };
	int err;

	do {
		kept.least = world_version(open);
		++*world_closed();
		err = lodic_hold(lodic, open->file, 0, 0, LODIC_WAIT, &kept.hold);
		if (err)
			port_sleep(500000000);
	} while (err && machine.now_ns < until);
	if (err && !(err == -ENOSPC || (world.few_files && err == -ESTALE)))
		machine_fail("nothing of %s can be held: %d", world_path(open), err);
	if (!err)
		hold_wait(&kept);
	hold_release(&kept);
}

static void holder_all_again(const struct kept_hold *kept)
{
	for (u32 i = 0; i < MOST_HOLDS; i++)
		if (kept[i].hold && kept[i].sum != 0 && machine_draw(2))
			hold_again(&kept[i]);
}

static void holder_work(struct lodic *lodic, struct lodic_context *context, u32 nr_rounds)
{
	struct kept_hold kept[MOST_HOLDS] = { { 0 } };
	struct world_open open[3];
	u32 nr = 0;

	nr += world_open(lodic, WORLD_BIG, &open[nr]);
	for (u32 i = 0; i < 2; i++)
		nr += world_open(lodic, world_paths[i], &open[nr]);
	for (u32 i = 0; nr > 0 && i < nr_rounds; i++) {
		struct kept_hold *one = &kept[machine_draw(MOST_HOLDS)];

		switch (machine_draw(6)) {
		case 0:
		case 1: hold_take(lodic, &open[machine_draw(nr)], one); break;
		case 2:
			hold_wait(one);
			holder_all_again(kept);
			break;
		case 3: hold_release(one); break;
		case 4:
			if (one->hold && one->sum != 0)
				hold_again(one);
			break;
		default: world_rounds(context, open, nr, 5); break;
		}
	}
	for (u32 i = 0; i < MOST_HOLDS; i++)
		hold_wait(&kept[i]);
	settle_here();
	for (u32 i = 0; i < MOST_HOLDS / 2; i++)
		hold_release(&kept[i]);
	for (u32 i = 0; i < nr; i++)
		holds_settle(lodic, &open[i]);
	for (u32 i = 0; i < nr; i++)
		world_close(&open[i]);
	world_context_close(context);
	lodic_detach(lodic);
	for (u32 i = 0; i < MOST_HOLDS; i++)
		hold_release(&kept[i]);
}

static void holder_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct lodic_context *context;
	struct lodic *lodic;

	if (world_attach(&lodic) == 0) {
		if (world_context_open(lodic, &context) == 0)
			holder_work(lodic, context, (u32)(uintptr_t)arg);
		else
			lodic_detach(lodic);
	}
	settle_given_back_but(&before, *world_closed());
}

/* ---- a program that keeps holds while services come and go ---- */

static void keeper_take(struct lodic *lodic, const struct world_open *open,
                        struct kept_hold *kept, bool cuts)
{
	int err;

	hold_release(kept);
	*kept = (struct kept_hold){ .open = *open,
		                    .offset = machine_draw(64) * (u64)4096,
		                    .bytes = (u64)1 << 20,
		                    .least = world_version(open) };
	++*world_closed();
	err = lodic_hold(lodic, open->file, (off_t)kept->offset, kept->bytes, 0,
	                 &kept->hold);
	machine_note("the keeper's lodic_hold() = %d", err);
	hold_check_error(err);
	if (err)
		kept->hold = NULL;
	if (cuts) {
		task_wait(NULL, machine.now_ns + machine_draw(400) * NS_PER_US);
		world_cut(WORLD_BIG);
	}
	hold_wait(kept);
	if (cuts)
		world_rewrite(WORLD_BIG, false);
}

/* Each service counts its holds anew, and must not take one for another service's. */
static void keeper_work(struct lodic *lodic, const struct world_open *open, bool cuts)
{
	struct kept_hold kept[MOST_HOLDS] = { { 0 } };

	for (u32 i = 4 + machine_draw(12); i > 0; i--) {
		bool cut = cuts && machine_draw(2);

		keeper_take(lodic, open, &kept[machine_draw(MOST_HOLDS)], cut);
		holder_all_again(kept);
		if (machine_draw(3) == 0)
			world_service(true);
		port_sleep(machine_draw(1000) * (u64)1000000);
	}
	for (u32 i = 0; i < MOST_HOLDS; i++)
		hold_release(&kept[i]);
}

static void keeper_run(void *arg)
{
	struct world_open open;
	struct lodic *lodic;

	if (world_attach(&lodic) != 0)
		return;
	if (world_open(lodic, WORLD_BIG, &open)) {
		keeper_work(lodic, &open, arg != NULL);
		world_close(&open);
	}
	lodic_detach(lodic);
}

/* Not mortal: it may write. cuts: only if nobody else writes. */
static void keeper_start(bool cuts)
{
	static const char yes[] = "";

	settle_expect(process_start("keeper", WORLD_USER, keeper_run,
	                            cuts ? (void *)(uintptr_t)yes : NULL));
}

static void big_writer_run(void *arg)
{
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		const char *path =
			machine_draw(2) ? WORLD_BIG : world_paths[machine_draw(2)];

		/* No lease breaks by that: a hold may be read meanwhile. */
		if (machine_draw(3) == 0) {
			world_cut(path);
			task_wait(NULL,
			          machine.now_ns + machine_draw(4) * (u64)1000000);
		}
		world_rewrite(path, machine_draw(3) == 0);
		task_wait(NULL, machine.now_ns + machine_draw(2000) * (u64)1000000);
	}
}

struct process *world_holder(u32 nr_rounds)
{
	struct process *p = process_start("holder", WORLD_USER, holder_run,
	                                  (void *)(uintptr_t)nr_rounds);

	p->mortal = true;
	settle_expect(p);
	return p;
}

void scenario_holds(void)
{
	bool replaced = machine_draw(3) == 0, writes;

	world.hold_bytes = (u64)2 << 20 << machine_draw(2);
	for (u32 i = 1 + machine_draw(3); i > 0; i--)
		world_holder(2 + machine_draw(replaced ? 60 : 20));
	if (replaced)
		world_operator(1 + machine_draw(6));
	writes = machine_draw(2);
	if (writes)
		settle_expect(process_start("writer", WORLD_USER, big_writer_run,
		                            (void *)(uintptr_t)(1 + machine_draw(5))));
	if (machine_draw(2))
		keeper_start(!writes);
}
