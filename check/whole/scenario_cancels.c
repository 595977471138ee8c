/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A program whose threads are cancelled, wherever pthread_cancel(3) may end them. What they had
 * opened is known to the program, which closes it. So nothing is left in the end.
 */
#include "check/whole/scenarios.h"
#include "check/whole/settle.h"
#include "lib/port.h"

#define MOST_THREADS 3u
#define MOST_NS 2000000u

struct cancels_thread {
	struct lodic *lodic;
	struct lodic_context *context;
	struct lodic_file *file;
	struct lodic_hold *hold;
	struct task *task;
	int fd;
};

static void cancels_close(struct cancels_thread *t)
{
	struct lodic_hold *hold = t->hold;
	struct lodic_file *file = t->file;

	t->hold = NULL;
	if (hold)
		lodic_release(hold);
	t->file = NULL;
	if (file)
		lodic_close(file);
}

static void cancels_reads(struct cancels_thread *t)
{
	u64 at = machine_draw(WORLD_FILE_BYTES / 512) * (u64)512;
	u8 to[512];

	lodic_read(t->context, t->file, to, sizeof(to), (off_t)at);
}

static void cancels_holds(struct cancels_thread *t)
{
	u64 bytes;

	if (t->hold)
		return;
	++*world_closed();
	bytes = machine_draw(2) ? 4096 : 0;
	lodic_hold(t->lodic, t->file, 0, bytes, machine_draw(4) ? LODIC_WAIT : 0, &t->hold);
}

static void cancels_work(void *arg)
{
	struct cancels_thread *t = arg;

	for (u32 i = 0; i < 1000; i++) {
		if (!t->file) {
			++*world_closed();
			lodic_open(t->lodic, t->fd, &t->file);
		}
		if (!t->file || !t->context) {
			port_sleep(1000000);
			continue;
		}
		switch (machine_draw(8)) {
		case 0: cancels_close(t); break;
		case 1: cancels_holds(t); break;
		case 2:
			lodic_prefetch(t->context, t->file, 0, WORLD_FILE_BYTES,
			               machine_draw(4) ? LODIC_WAIT : 0);
			break;
		case 3: port_sleep(machine_draw(20) * (u64)1000000); break;
		default: cancels_reads(t); break;
		}
	}
}

static void cancels_round(struct cancels_thread *threads, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		if (world_context_open(threads[i].lodic, &threads[i].context) != 0)
			threads[i].context = NULL;
	for (u32 i = 0; i < nr; i++)
		threads[i].task = task_start(process_now(), "cancelled", cancels_work,
		                             &threads[i]);
	for (u32 i = 0; i < nr; i++) {
		u64 ns = machine_draw(MOST_NS);

		port_sleep(machine_draw(2) ? ns : ns * 100);
		task_cancel(threads[i].task);
	}
	for (u32 i = 0; i < nr; i++) {
		while (threads[i].task->state != TASK_OVER)
			task_wait(&threads[i].task->over, NS_NEVER);
		if (machine_draw(2))
			cancels_close(&threads[i]);
		/* It is of no more use if its thread was in a call (misuse.h). */
		if (threads[i].context)
			world_context_close(threads[i].context);
		threads[i].context = NULL;
	}
}

static void cancels_files(struct lodic *lodic, u32 nr_rounds)
{
	struct cancels_thread threads[MOST_THREADS] = { { 0 } };
	u32 nr = 0, most = 1 + machine_draw(MOST_THREADS);

	while (nr < most) {
		struct cancels_thread *t = &threads[nr];

		t->lodic = lodic;
		t->fd = port_open(machine_draw(4) ? world_paths[nr] : WORLD_BIG);
		if (t->fd < 0)
			break;
		if (machine_draw(2)) /* as O_DIRECT has it */
			fd_get(t->fd)->mode |= PORT_DIRECT;
		nr++;
	}
	for (u32 i = 0; i < nr_rounds; i++)
		cancels_round(threads, nr);
	settle_here();
	for (u32 i = 0; i < nr; i++) {
		cancels_close(&threads[i]);
		port_close(threads[i].fd);
	}
}

static void cancels_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct lodic *lodic;

	if (world_attach(&lodic) == 0) {
		cancels_files(lodic, (u32)(uintptr_t)arg);
		lodic_detach(lodic);
	}
	settle_given_back_but(&before, *world_closed());
	process_exit(0);
}

void scenario_cancels(void)
{
	world.hold_bytes = (u64)2 << 20;
	for (u32 i = 1 + machine_draw(2); i > 0; i--) {
		u32 nr_rounds = 1 + machine_draw(6);
		struct process *p = process_start("cancels", WORLD_USER, cancels_run,
		                                  (void *)(uintptr_t)nr_rounds);

		p->mortal = true;
		settle_expect(p);
	}
	if (machine_draw(2))
		world_writer(1 + machine_draw(5));
	if (machine_draw(2))
		world_reader(50 + machine_draw(100));
}
