/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What is made of several pieces of memory, of which one or two are refused. Then all the others
 * must be given back, and no error may be left where the next try begins. At the end all is given
 * back. One task is enough for that.
 *
 *   init  the state of a counting scheme, and queues of reclaim. Scheme kloc is a room, trees one
 *         with trees, too, and oracle one whose policy asks for memory of its own
 */
#include "check/case.h"
#include "core/cache/reclaim.h"
#include "core/count/paygo_table.h"
#include "core/kloc/kloc.h"

#define REFUSALS 2u
#define OBJECTS 2u
#define USERS 2u

struct init_world {
	struct frame frames[OBJECTS];
	struct count count;
	struct reclaim reclaim;
	struct kloc *kloc;
};

struct init_case {
	const struct count_scheme *scheme;
	enum kloc_policy_id policy;
	bool trees;
	const char *name;
};

static struct init_world *init_world;

static void whole(int err, u64 before, bool made)
{
	CHECK_ASSERT(err == 0 || err == -ENOMEM, "no memory is the only reason");
	CHECK_ASSERT(err == 0 || check_allocated() == before,
	             "what was not made has no memory");
	CHECK_ASSERT(!err == made, "made, or not");
}

static void freed(u64 before)
{
	CHECK_ASSERT(check_allocated() == before, "all memory is given back");
}

/* A reference of each user's, so that there is a state to give back. */
static void use_scheme(struct count *c)
{
	u64 token;
	u32 user;

	count_thaw(c, 0);
	for (user = 0; user < USERS; user++) {
		if (count_share(c, user, 0) != 0)
			continue;
		if (count_ref(c, 0, user, &token))
			count_unref(c, 0, user, token);
		count_unshare(c, user, 0);
	}
}

/* Another table comes in place of the one that was used, if there is memory for it. */
static void use_shape(struct count *c)
{
	struct paygo_table *t = c->scheme->table ? c->scheme->table(c) : NULL;
	int err = t ? paygo_table_shape(t, 1, 2) : 0;

	CHECK_ASSERT(err == 0 || (err == -ENOMEM && !t->entries),
	             "no memory is the only reason");
}

static void init_scheme(void *arg)
{
	const struct init_case *one = arg;
	struct count *c = &init_world->count;
	u64 before = check_allocated();
	int err;

	do {
		err = count_init(c, one->scheme, init_world->frames, OBJECTS, USERS);
		whole(err, before, !one->scheme->counts ? !err : !!c->state);
	} while (err);
	use_scheme(c);
	use_shape(c);
	count_fini(c);
	freed(before);
}

/* One file and one object of it, which touch all that the room is made of. */
static void use_room(struct kloc *k)
{
	struct kloc_new object = { .bytes = 1, .kind = KLOC_FRAME };
	u32 number, tier;

	CHECK_ASSERT(kloc_map(k, 1, 0, &object.knode) == 0, "there is room for a file");
	kloc_open(k, object.knode, 0);
	CHECK_ASSERT(kloc_add(k, &object, &number, &tier) == 0, "and for an object");
	kloc_close(k, object.knode, 0);
	kloc_remove(k, number);
}

static void init_room(void *arg)
{
	const struct init_case *one = arg;
	struct kloc_shape s = { .capacity = { 2, 2 },
		                .nr_tiers = 2,
		                .nr_objects = 4,
		                .nr_knodes = 2,
		                .nr_cpus = 1,
		                .list_length = 2,
		                .policy = one->policy };
	u64 before = check_allocated();
	int err;

	kloc_parameters_default(one->policy, &s.parameters);
	s.parameters.knode_tier = KLOC_NO_TIER;
	s.parameters.trees = one->trees;
	do {
		err = kloc_init(&s, &init_world->kloc);
		whole(err, before, init_world->kloc);
	} while (err);
	use_room(init_world->kloc);
	kloc_fini(init_world->kloc);
	freed(before);
}

static void init_reclaim(void *arg)
{
	u64 before = check_allocated();
	int err;

	(void)arg;
	do {
		err = reclaim_init(&init_world->reclaim, OBJECTS);
		whole(err, before, !err);
	} while (err);
	reclaim_fini(&init_world->reclaim);
	freed(before);
}

static void init_setup(const void *arg)
{
	const struct init_case *one = arg;
	u32 i;

	init_world = host_alloc(sizeof(*init_world), 64);
	CHECK_ASSERT(init_world, "memory for the world");
	for (i = 0; i < OBJECTS; i++) {
		frame_fill_begin(&init_world->frames[i]);
		frame_fill_end(&init_world->frames[i], block_id(1, i));
	}
	check_task("maker", 0,
	           one->scheme                      ? init_scheme
	           : one->policy < KLOC_NR_POLICIES ? init_room
	                                            : init_reclaim,
	           (void *)(uintptr_t)arg);
	check_refuse(CHECK_NO_MEMORY, REFUSALS);
}

static void init_add(struct check_list *list, const char *name,
                     const struct init_case *arg)
{
	struct check_case one = { .scenario = "init",
		                  .scheme = name,
		                  .run = { "init", 1, arg, init_setup, NULL } };

	check_list_add(list, &one);
}

void check_cases_init(struct check_list *list)
{
	static const struct init_case reclaim = { .policy = KLOC_NR_POLICIES };
	static const struct init_case rooms[] = {
		{ NULL, KLOC_POLICY_KLOC, false, "kloc" },
		{ NULL, KLOC_POLICY_KLOC, true, "trees" },
		{ NULL, KLOC_POLICY_ORACLE, false, "oracle" }
	};
	static struct init_case schemes[32];
	u32 i;

	CHECK_ASSERT(count_nr_schemes <= sizeof(schemes) / sizeof(schemes[0]),
	             "room for all schemes");
	for (i = 0; i < count_nr_schemes; i++) {
		schemes[i].scheme = count_schemes[i];
		init_add(list, count_schemes[i]->name, &schemes[i]);
	}
	for (i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++)
		init_add(list, rooms[i].name, &rooms[i]);
	init_add(list, "reclaim", &reclaim);
}
