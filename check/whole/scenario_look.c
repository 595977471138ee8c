/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * An administrator beside readers: lists, statistics, drops, loads, resizes, moves, SIGHUP. And one
 * who replaces the service, or starts another one at the same socket.
 */
#include "check/whole/said.h"
#include "check/whole/scenarios.h"
#include "check/whole/settle.h"
#include "lib/look.h"
#include "lib/port.h"

struct admin_list {
	enum look_list list;
	u32 nr;
};

static int admin_each(void *arg, const void *record)
{
	struct admin_list *l = arg;

	if (l->list == LOOK_TIERS)
		said_tier(record);
	if (l->list == LOOK_TIMES)
		said_times(record);
	if (l->list == LOOK_FILES)
		said_file(record);
	return ++l->nr > 5000 ? -E2BIG : 0;
}

static int admin_lists(struct look *look)
{
	struct admin_list l = { (enum look_list)machine_draw(LOOK_TIERS + 1), 0 };
	int err = look_list(look, l.list, admin_each, &l);

	if (err == -E2BIG)
		machine_fail("a list does not end");
	return err;
}

static int admin_stat(struct look *look)
{
	struct lodic_stat stat;
	int err = look_stat(look, &stat);

	if (!err && (stat.cached > stat.frames || stat.pinned > stat.frames))
		machine_fail("%llu frames, %llu cached, %llu pinned",
		             (unsigned long long)stat.frames,
		             (unsigned long long)stat.cached,
		             (unsigned long long)stat.pinned);
	return err;
}

static int admin_resizes(struct look *look)
{
	struct look_resize resize;
	int err;

	if (machine_draw(4) == 0)
		err = look_room(look, (u64)machine_draw(64) << 12, &resize);
	else
		err = look_resize(look, machine_draw(4) > 0 ? (u64)32 << 10 << machine_draw(5) : 0,
		                  &resize);
	if (!err)
		said_resize(&resize);
	return err == -EBUSY || err == -EINVAL ? 0 : err;
}

static int admin_one(struct look *look)
{
	u32 file = machine_draw(WORLD_FILES);
	const struct inode *inode = files_find(world_paths[file]);
	struct look_dropped dropped = { 0 };
	int err;

	switch (machine_draw(8)) {
	case 0: return look_drop(look, 0, LOOK_ALL, &dropped);
	case 1: return look_drop(look, WORLD_DEV, inode->ino, &dropped);
	case 2: err = look_keep(look, WORLD_DEV, inode->ino); break;
	case 3:
		err = look_move(look, WORLD_DEV, inode->ino,
		                machine_draw(2) ? LOOK_TIER_FAST : LOOK_TIER_SLOW);
		break;
	case 4: return admin_resizes(look);
	case 5: return admin_stat(look);
	default: return admin_lists(look);
	}
	return err == -ENOENT || err == -ENOTSUP || err == -EPERM || err == -EAGAIN ? 0 : err;
}

static void admin_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct look *look = NULL;
	int pid, err = 0;

	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		if (look && (err || machine_draw(8) == 0)) {
			look_close(look);
			look = NULL;
		}
		if (!look && look_open(WORLD_SOCKET, &look, &pid) != 0)
			look = NULL;
		if (look) {
			err = admin_one(look);
			machine_note("the administrator's request: %d", err);
			said_look(err);
		}
		if (machine_draw(8) == 0 && world_youngest_service())
			process_signal(world_youngest_service(), SIGNAL_HANG_UP);
		port_sleep(machine_draw(300) * (u64)1000000);
	}
	if (look)
		look_close(look);
	settle_given_back(&before);
}

void scenario_look(void)
{
	struct process *p;

	for (u32 i = 1 + machine_draw(3); i > 0; i--)
		world_reader(50 + machine_draw(200));
	if (machine_draw(2))
		world_writer(1 + machine_draw(5));
	for (u32 i = 1 + machine_draw(2); i > 0; i--) {
		p = process_start("admin", WORLD_USER, admin_run,
		                  (void *)(uintptr_t)(1 + machine_draw(40)));
		p->mortal = true;
		settle_expect(p);
	}
}

static void operator_run(void *arg)
{
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		struct process *p = world_youngest_service();

		switch (machine_draw(8)) {
		case 0: world_service(false); break;
		case 1:
			if (p)
				process_kill(p);
			break;
		case 2:
			if (p)
				process_signal(p, SIGNAL_END);
			break;
		default: world_service(true); break;
		}
		task_wait(NULL, machine.now_ns + machine_long() / 10);
	}
}

struct process *world_operator(u32 nr_rounds)
{
	struct process *p = process_start("operator", WORLD_USER, operator_run,
	                                  (void *)(uintptr_t)nr_rounds);

	settle_expect(p);
	return p;
}

void scenario_succession(void)
{
	u32 nr = 1 + machine_draw(6);

	for (u32 i = 1 + machine_draw(3); i > 0; i--)
		world_reader(50 + machine_draw(200));
	if (machine_draw(2))
		world_writer(1 + machine_draw(5));
	world_operator(nr);
}
