/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Holds (core/cache/hold.h): which bytes a request gets, and what counts.
 *
 *   hold-publish  two workers read a range while a writer opens its file. The disk may begin to
 *                 err, and a mapping may be left that hinders the seal. One program waits for the
 *                 hold; the other one joins it, and asks for it by its number as well
 *   hold-share    a hold is there, and leaves as soon as nobody has it. Two programs ask for it
 *                 while a writer opens the file; one of them is killed. When the file is admitted
 *                 again, they ask for its new bytes
 *   hold-ends     the arena ends while a second one is there, as in a resize. Nothing touches
 *                 the live word of the first. Another file has the same id in the second
 *   hold-charge   ranges that do not fit at one time. Programs map, fork, send what they have
 *                 to each other, and close, in any order. One asks for what no hold has whole
 *   hold-killed   the same, and one of the programs is killed
 */
#include "check/hold_world.h"

static struct hold_process *process(u32 number)
{
	return &hold_world->processes[number];
}

/* Takes it, looks twice, and releases it. */
static bool visit(struct hold_process *p, u32 version, u64 from, u64 to)
{
	struct hold_memory *m = hold_take(p, version, from, to);

	if (!m)
		return false;
	CHECK_ASSERT(m->version == version,
	             "HD8: a hold of the file that was asked for");
	CHECK_ASSERT(m->range * HOLD_WORDS <= from && to <= (m->range + 1) * HOLD_WORDS,
	             "HD7: a hold has all that was asked for");
	hold_look_at(p, m, from, to);
	hold_look_at(p, m, from, to);
	hold_release(p, m);
	return true;
}

/* ---- the end of the proof ---- */

static void write_file(void)
{
	for (u32 i = 0; i < HOLD_WORDS; i++)
		host_store_relaxed(&hold_world->disk[i], hold_truth(HOLD_AFTER, i));
}

static void writer(void *arg)
{
	(void)arg;
	hold_world->break_asked = true;
	check_wait(hold_flag, &hold_world->lease_given_back);
	hold_world->writer_open = true;
	check_note("has the file open for writing");
	write_file();
	host_fence_full(); /* close() */
	hold_world->writer_closed = true;
}

static void give_back(void *ctx)
{
	(void)ctx;
	host_relax(); /* fcntl(F_UNLCK) */
	hold_world->lease_given_back = true;
}

static void lease_thread(void *arg)
{
	(void)arg;
	check_wait(hold_flag, &hold_world->break_asked);
	file_proof_end(&hold_world->proofs[0], give_back, NULL);
	hold_world->broken = true;
	check_wait(hold_flag, &hold_world->writer_closed);
	hold_world->again_id = file_proof_next_id(HOLD_FILE, 1);
	file_proof_admit(&hold_world->proofs[0], hold_world->again_id,
	                 HOLD_RANGE_BYTES);
	hold_world->again = true;
}

/* The arena ends, then its leases fall. */
static void ending_thread(void *arg)
{
	(void)arg;
	arena_end(&hold_world->headers[0]);
	hold_world->writer_open = true;
	check_note("lets a writer open the file");
	write_file();
	hold_world->broken = true;
}

/* ---- hold-publish ---- */

static void publish_asker(void *arg)
{
	if (visit(arg, HOLD_BEFORE, 0, HOLD_WORDS))
		return;
	check_wait(hold_flag, &hold_world->again);
	visit(arg, HOLD_AFTER, 0, HOLD_WORDS);
}

static bool a_number_is_known(void *arg)
{
	(void)arg;
	return hold_world->last_number > 0 || check_is_done(process(0)->task);
}

static void publish_joiner(void *arg)
{
	struct hold_process *p = arg;
	struct hold_memory *m;
	u64 number;

	visit(p, HOLD_BEFORE, 1, HOLD_WORDS);
	check_wait(a_number_is_known, NULL);
	number = hold_world->last_number;
	if (number == 0)
		return;                  /* the file had changed before anybody asked */
	m = hold_take_number(p, number); /* perhaps too early */
	if (!m) {
		hold_wait(number);
		m = hold_take_number(p, number);
	}
	if (!m)
		return;
	hold_look_at(p, m, 0, HOLD_WORDS);
	hold_release(p, m);
}

static void disk_fault(void *arg)
{
	(void)arg;
	hold_world->disk_errs = true;
}

static void mapping_fault(void *arg)
{
	(void)arg;
	hold_world->mapping_left = true;
}

static void publish_tasks(void)
{
	check_task("lease", 3, lease_thread, NULL);
	check_task("writer", 4, writer, NULL);
	hold_process(0, "asker", 5, publish_asker, true);
	hold_process(1, "joiner", 6, publish_joiner, true);
	check_fault("disk", disk_fault, NULL);
	check_fault("mapping", mapping_fault, NULL);
}

/* ---- hold-share ---- */

static void share_asker(void *arg)
{
	visit(arg, HOLD_BEFORE, 0, HOLD_WORDS);
	check_wait(hold_flag, &hold_world->again);
	visit(arg, HOLD_AFTER, 0, HOLD_WORDS);
}

static void share_keeper(void *arg)
{
	struct hold_process *p = arg;
	struct hold_memory *m = hold_take(p, HOLD_BEFORE, 0, HOLD_WORDS);

	if (!m)
		return;
	hold_look_at(p, m, 0, HOLD_WORDS);
	visit(p, HOLD_BEFORE, 0, 1);
	hold_look_at(p, m, 0, HOLD_WORDS); /* whatever the writer has done */
	hold_release(p, m);
}

static void kill_either(void *arg)
{
	(void)arg;
	hold_kill(process(host_choose(2)));
}

static void share_tasks(void)
{
	check_task("lease", 2, lease_thread, NULL);
	check_task("writer", 3, writer, NULL);
	hold_process(0, "asker", 4, share_asker, true);
	hold_process(1, "keeper", 5, share_keeper, true);
	check_fault("kernel", kill_either, NULL);
}

/* ---- hold-ends ---- */

static void ends_asker(void *arg)
{
	visit(arg, HOLD_BEFORE, 0, HOLD_WORDS);
	visit(arg, HOLD_BEFORE, HOLD_WORDS, 2 * HOLD_WORDS);
}

static void ends_other(void *arg)
{
	visit(arg, HOLD_OTHER, 0, HOLD_WORDS);
}

static void ends_tasks(void)
{
	check_task("lease", 2, ending_thread, NULL);
	hold_process(0, "asker", 3, ends_asker, true);
	hold_process(1, "other", 4, ends_other, true);
}

/* ---- hold-charge, hold-killed ---- */

static void charge_parent(void *arg)
{
	struct hold_process *p = arg;
	struct hold_memory *m = hold_take(p, HOLD_BEFORE, 0, HOLD_WORDS);

	if (!m)
		return;
	hold_fork(p, process(2));
	hold_look_at(p, m, 0, HOLD_WORDS);
	hold_release(p, m);
}

static void charge_other(void *arg)
{
	struct hold_process *p = arg;
	struct hold_memory *m;

	visit(p, HOLD_BEFORE, HOLD_WORDS, 2 * HOLD_WORDS);     /* if there is room */
	visit(p, HOLD_BEFORE, HOLD_WORDS - 1, HOLD_WORDS + 1); /* partly outside each */
	m = hold_receive(p, process(2));
	if (m) {
		hold_look_at(p, m, 0, HOLD_WORDS);
		hold_release(p, m);
	}
	visit(p, HOLD_BEFORE, HOLD_WORDS, 2 * HOLD_WORDS);
}

static bool child_runs(void *arg)
{
	const struct hold_process *p = arg;

	return p->runs || check_is_done(process(0)->task);
}

static void charge_child(void *arg)
{
	struct hold_process *p = arg;

	check_wait(child_runs, p);
	for (u32 i = 0; i < HOLD_MEMORIES; i++) {
		struct hold_memory *m = &hold_world->memories[i];

		if (p->has[i] == 0)
			continue;
		hold_look_at(p, m, 0, HOLD_WORDS);
		hold_send(p, process(1), m);
		hold_release(p, m); /* now only the message has it, perhaps */
	}
}

static void charge_tasks(void)
{
	hold_process(0, "parent", 2, charge_parent, true);
	hold_process(1, "other", 3, charge_other, true);
	hold_process(2, "child", 4, charge_child, false);
}

static void kill_one(void *arg)
{
	(void)arg;
	hold_kill(process(host_choose(HOLD_PROCESSES)));
}

static void killed_tasks(void)
{
	charge_tasks();
	check_fault("kernel", kill_one, NULL);
}

static void add(struct check_list *list, const char *scenario, u32 nr_cpus,
                const struct hold_case *c)
{
	struct check_case one = { .scenario = scenario,
		                  .scheme = "lodic",
		                  .run = { scenario, nr_cpus, c, hold_setup,
		                           hold_finish } };

	check_list_add(list, &one);
}

void check_cases_hold(struct check_list *list)
{
	static const struct hold_case publish = { publish_tasks, 3 * HOLD_UNIT, 2,
		                                  false, false };
	static const struct hold_case share = { share_tasks, 3 * HOLD_UNIT, 1, true,
		                                true };
	static const struct hold_case ends = { ends_tasks, 3 * HOLD_UNIT, 1, true,
		                               false };
	static const struct hold_case charge = { charge_tasks, 2 * HOLD_UNIT - 1, 1,
		                                 false, true };
	static const struct hold_case killed = { killed_tasks, 2 * HOLD_UNIT - 1, 1,
		                                 false, true };

	add(list, "hold-publish", 7, &publish);
	add(list, "hold-share", 6, &share);
	add(list, "hold-ends", 5, &ends);
	add(list, "hold-charge", 5, &charge);
	add(list, "hold-killed", 5, &killed);
}
