/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the CPUs' lists of knodes must stand (core/kloc/knode_list.h):
 *
 *   kloc-list        two CPUs use a file, which then ends; its knode becomes another file's
 *   kloc-list-ticks  two CPUs use files that stay, while the manager collects and ticks
 *
 * The oracle knows which knode each file has, and when a file has ended. A use of a file that ended
 * before the use began must find nothing. A use counts for no other file, and none is lost.
 */
#include "check/case.h"
#include "core/kloc/knode_list.h"

#define FILES 3u /* 0 and 1 are there at first; 2 gets the knode of the one that ends */
#define KNODES 2u
#define CPUS 2u
#define USES 2u
#define NO_USE (~(u64)0)

struct list_file {
	u64 inode;
	u32 knode;      /* KNODE_NONE: it has none, or no longer */
	u32 generation; /* that the knode has while it is the file's */
	bool has_ended;
	bool was_used; /* a use began: it had found the file, in a list or in the kmap */
	u64 last_use;  /* the tick before its last use; NO_USE: none has ended */
	u64 last_counted; /* the last tick at which the manager counted a use; NO_USE: none */
};

static struct list_world {
	u64 lock; /* of the kmap */
	struct knode_lists lists;
	struct list_file files[FILES];
	u64 ends; /* drawn: file 0 or 1 */
} * w;

static u32 file_of_knode(u32 knode)
{
	u32 file;

	for (file = 0; file < FILES && w->files[file].knode != knode; file++)
		;
	return file;
}

/* As a kernel finds a knode whose inode it has no pointer for. */
static struct knode_token look_up(u32 file)
{
	struct knode_token token = { .knode = KNODE_NONE };

	host_lock(&w->lock);
	if (w->files[file].knode != KNODE_NONE)
		token = knode_list_token(&w->lists, w->files[file].knode);
	host_unlock(&w->lock);
	return token;
}

static void use(u32 cpu, u32 file)
{
	struct list_file *f = &w->files[file];
	bool had_ended = f->has_ended;
	u32 knode = f->knode;
	u64 tick;
	struct knode_token token;

	if (had_ended)
		check_told();
	token = knode_list_find(&w->lists, cpu, f->inode, NULL);
	if (token.knode != KNODE_NONE) {
		CHECK_ASSERT(!had_ended, "KL20, KL21: what has ended is not served");
		CHECK_ASSERT(knode == KNODE_NONE || token.knode == knode,
		             "KL20: a file's own knode is served");
		CHECK_ASSERT(token.generation == f->generation,
		             "KL20: what is served is of the file's own time");
	} else {
		token = look_up(file);
	}
	if (token.knode == KNODE_NONE)
		return;
	f->was_used = true;
	tick = host_load_relaxed(&w->lists.tick);
	knode_list_use(&w->lists, cpu, token);
	f->last_use = tick;
}

static void collect(void)
{
	u32 cpu, i, age = 0, knode, file;
	u64 tick;

	for (cpu = 0; cpu < CPUS; cpu++)
		for (i = 0; i < w->lists.length; i++) {
			knode = knode_list_collect(&w->lists, cpu, i, &age);
			if (knode == KNODE_NONE)
				continue;
			file = file_of_knode(knode);
			CHECK_ASSERT(file < FILES && w->files[file].was_used,
			             "KL22, KL23: a use counts for its own file");
			tick = w->lists.tick - age;
			if (w->files[file].last_counted == NO_USE ||
			    w->files[file].last_counted < tick)
				w->files[file].last_counted = tick;
		}
}

/* ---- tasks ---- */

static void user(void *arg)
{
	u32 cpu = (u32)(uintptr_t)arg, turn;

	for (turn = 0; turn < USES; turn++)
		use(cpu, (u32)w->ends);
	use(cpu, 2);
}

static void end_file(u32 file)
{
	struct list_file *f = &w->files[file];

	host_lock(&w->lock);
	knode_list_forget(&w->lists, f->knode);
	f->knode = KNODE_NONE;
	host_unlock(&w->lock);
	f->has_ended = true;
	check_note("file %u has ended", file);
}

static void manager(void *arg)
{
	u32 knode = w->files[w->ends].knode;

	(void)arg;
	end_file((u32)w->ends);
	collect();
	host_lock(&w->lock);
	w->files[2].generation = knode_list_token(&w->lists, knode).generation;
	knode_list_name(&w->lists, knode, w->files[2].inode);
	w->files[2].knode = knode;
	host_unlock(&w->lock);
	collect();
	knode_list_tick(&w->lists);
}

static void two_files_user(void *arg)
{
	u32 cpu = (u32)(uintptr_t)arg;

	use(cpu, cpu);
	use(cpu, 1 - cpu);
	use(cpu, cpu);
}

static void collector(void *arg)
{
	u32 turn;

	(void)arg;
	for (turn = 0; turn < 2; turn++) {
		collect();
		knode_list_tick(&w->lists);
	}
}

/* ---- the world ---- */

struct list_case {
	void (*user)(void *arg);
	void (*manager)(void *arg);
};

static void list_setup(const void *arg)
{
	const struct list_case *c = arg;
	u32 i;

	w = host_alloc(sizeof(*w), 64);
	CHECK_ASSERT(w && knode_list_init(&w->lists, KNODES, CPUS, 2), "memory");
	for (i = 0; i < FILES; i++)
		w->files[i] = (struct list_file){ .inode = 10 + i,
			                          .knode = KNODE_NONE,
			                          .last_use = NO_USE,
			                          .last_counted = NO_USE };
	for (i = 0; i < KNODES; i++) {
		knode_list_name(&w->lists, i, w->files[i].inode);
		w->files[i].knode = i;
		w->files[i].generation = 1;
		check_name(&w->lists.names[i].inode, 8, "inode[%u]", i);
		check_name(&w->lists.names[i].generation, 8, "generation[%u]", i);
	}
	check_name(w->lists.entries, 8 * 2 * w->lists.stride, "entries");
	check_name(&w->lists.tick, 8, "tick");
	check_name(&w->lock, 8, "lock");
	check_draw(&w->ends, 2);
	for (i = 0; i < CPUS; i++)
		check_task("user", i, c->user, (void *)(uintptr_t)i);
	check_task("manager", CPUS, c->manager, NULL);
}

static void list_finish(const void *arg)
{
	u32 i;

	(void)arg;
	collect();
	for (i = 0; i < FILES; i++) {
		const struct list_file *f = &w->files[i];

		if (f->knode == KNODE_NONE || f->last_use == NO_USE)
			continue;
		CHECK_ASSERT(f->last_counted != NO_USE &&
		                     f->last_counted >= f->last_use,
		             "KL24: no use is lost");
	}
}

void check_cases_kloc_list(struct check_list *list)
{
	static const struct {
		const char *name;
		struct list_case c;
	} scenarios[] = {
		{ "kloc-list", { user, manager } },
		{ "kloc-list-ticks", { two_files_user, collector } },
	};
	u32 i;

	for (i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		struct check_case one = { .scenario = scenarios[i].name,
			                  .scheme = "list",
			                  .run = { scenarios[i].name, CPUS + 1,
			                           &scenarios[i].c, list_setup,
			                           list_finish } };

		check_list_add(list, &one);
	}
}
