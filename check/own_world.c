/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The world of a program's own objects, and its oracle. Contract: check/own_world.h. */
#include "check/own_world.h"

#define LODIC_COUNTER_HOST "check/counter_host.h"
#include "lodic/counter.h"

#define BUCKETS 2u
/* Words to choose from: some of them fall into the last bucket, behind which nothing is. */
#define WORDS 64u
#define BYTES_TRUE 0x77u
#define STILL (~(u64)0) /* put_at of a task that has not put it */

struct own_world *own;

static bool sequences(void)
{
	return !own->c->packed && !(own->packed >> check_self() & 1);
}

/* What holders did with the object happens before its release. */
static void see_marks(const struct own_object *o)
{
	u64 marked;
	u32 i;

	for (i = 0; i < CHECK_MAX_TASKS; i++) {
		marked = o->marked[i];
		CHECK_ASSERT(marked == 0 || host_load_relaxed(&o->marks[i]) >= marked,
		             "M26: a release sees what holders did");
	}
}

/* The object's memory goes back to the program. */
static void release(u32 object)
{
	struct own_object *o = &own->objects[object];

	check_note("releases object %u", object);
	CHECK_ASSERT(o->nr_killing > 0 || o->kill_done,
	             "only a killed object is released");
	CHECK_ASSERT(!o->released, "M26: an object is released once");
	CHECK_ASSERT(o->nr_held == 0, "M21: a released object has no holder");
	see_marks(o);
	o->released = true;
	check_poison(o->bytes, 8);
}

static u32 object_of(const u64 *word)
{
	u32 i;

	for (i = 0; i < OWN_OBJECTS && own->objects[i].word != word; i++)
		;
	CHECK_ASSERT(i < OWN_OBJECTS, "a word of the world's");
	return i;
}

/* ---- what the inline calls call, as lib/counter/domain.c does ---- */

bool lodic_counter_try_get_call(struct lodic_domain *domain,
                                struct lodic_counter *counter, uint64_t *ret_token)
{
	(void)domain;
	switch (counter_try_ref(&own->domain, &counter->word, sequences(), ret_token)) {
	case COUNTER_TAKEN: return true;
	case COUNTER_REFUSED_LAST: release(object_of(&counter->word)); return false;
	default: return false;
	}
}

uint64_t lodic_counter_get_call(struct lodic_domain *domain,
                                struct lodic_counter *counter)
{
	(void)domain;
	return counter_ref(&own->domain, &counter->word, sequences());
}

void lodic_counter_put_call(struct lodic_domain *domain, struct lodic_counter *counter,
                            uint64_t token)
{
	(void)domain;
	if (counter_unref(&own->domain, &counter->word, token, sequences()))
		release(object_of(&counter->word));
}

/* ---- tasks' calls ---- */

static struct lodic_counter *counter_of(u32 object)
{
	return (struct lodic_counter *)own->objects[object].word;
}

static struct lodic_domain *domain(void)
{
	return (struct lodic_domain *)&own->domain;
}

/* No kill is under way, and none was done. The caller knows of those without a fence. A life that
 * is renewed begins with a store, of which nobody is told. */
static bool is_alive(const struct own_object *o)
{
	if (o->kill_done || o->nr_killing > 0 || o->nr_lives > 0)
		return false;
	if (o->nr_killed > 0)
		check_told();
	return true;
}

bool own_get(u32 object, u64 *ret_token)
{
	struct own_object *o = &own->objects[object];
	bool late = o->kill_done, alive = is_alive(o);
	u64 nr_killed = o->nr_killed;
	bool done =
		own->c->inline_calls
			? lodic_counter_try_get(domain(), counter_of(object), ret_token)
			: lodic_counter_try_get_call(domain(), counter_of(object),
	                                             ret_token);

	CHECK_ASSERT(done || o->nr_killed > (alive ? nr_killed : 0),
	             "M34: a get fails only for what is killed");
	if (!done)
		return false;
	CHECK_ASSERT(!late || !o->kill_done, "no reference of what was killed before");
	CHECK_ASSERT(!o->released, "no reference of what is released");
	o->nr_held++;
	check_note("holds object %u", object);
	return true;
}

u64 own_get_more(u32 object)
{
	u64 token = own->c->inline_calls
	                    ? lodic_counter_get(domain(), counter_of(object))
	                    : lodic_counter_get_call(domain(), counter_of(object));

	own->objects[object].nr_held++;
	return token;
}

void own_put(u32 object, u64 token)
{
	struct own_object *o = &own->objects[object];
	u32 me = check_self();

	check_note("gives object %u back", object);
	o->nr_held--;
	o->told[me] = false;
	if (o->put_at[me] == STILL)
		o->put_at[me] = o->marked[me];
	if (own->c->inline_calls)
		lodic_counter_put(domain(), counter_of(object), token);
	else
		lodic_counter_put_call(domain(), counter_of(object), token);
}

void own_look(u32 object)
{
	struct own_object *o = &own->objects[object];
	u32 me = check_self();

	CHECK_ASSERT(check_load_held(o->bytes) == BYTES_TRUE + o->nr_lives,
	             "M32: a holder finds what the object was made of");
	host_store_relaxed(&o->marks[me], ++o->marked[me]);
}

/* Those entries of the object's bucket that have this key, a bit each. */
static u64 entries_with(u64 key)
{
	u32 bucket = (BUCKETS - 1) * COUNTER_WAYS, cpu, i;
	u64 entries = 0;

	for (cpu = 0; cpu < own->domain.nr_cpus; cpu++)
		for (i = 0; i < COUNTER_WAYS; i++)
			if (counter_entry(&own->domain, cpu, bucket + i)->key == key)
				entries |= (u64)1 << (cpu * COUNTER_WAYS + i);
	return entries;
}

static u64 key_of(u32 object)
{
	return (u64)(size_t)own->objects[object].word;
}

static void aborted(void)
{
	if (own->nr_aborts++ == 0)
		own->late = entries_with(key_of(own->killing));
}

/* Several kill one object at a time at most, and the first of them aborts. */
static void kill_begins(u32 object)
{
	if (own->objects[object].nr_killing > 0 || own->objects[object].kill_done)
		return;
	own->killing = object;
	own->nr_aborts = 0;
	own->late = 0;
}

/* No kill is under way, and none was done. What was there may have been gated by none. */
static void see_open(u32 object)
{
	const struct own_object *o = &own->objects[object];

	CHECK_ASSERT(*o->word < COUNTER_BIAS,
	             "M35: a word is open after a kill without a fence");
	CHECK_ASSERT(!entries_with(key_of(object) | COUNTER_GATED),
	             "M35: so are its keys");
}

static enum counter_kill kill_once(u32 object)
{
	struct own_object *o = &own->objects[object];
	enum counter_kill kill;

	kill_begins(object);
	o->nr_killed++;
	o->nr_killing++;
	kill = counter_kill(&own->domain, o->word);
	if (kill == COUNTER_KILLED_LAST)
		release(object);
	o->nr_killing--;
	if (kill == COUNTER_NO_FENCE && o->nr_killing == 0 && !o->kill_done)
		see_open(object);
	return kill;
}

bool own_kill(u32 object)
{
	struct own_object *o = &own->objects[object];
	enum counter_kill kill;

	do
		kill = kill_once(object);
	while (kill == COUNTER_NO_FENCE);
	if (kill == COUNTER_KILLED_BEFORE)
		return false;
	CHECK_ASSERT(own->nr_aborts != 1 || !(own->late & entries_with(key_of(object) |
	                                                               COUNTER_GATED)),
	             "M30: a kill that gates a late key aborts once more");
	o->kill_done = true;
	own->nr_kills++;
	CHECK_ASSERT(own->nr_kills == 1 || object != 0,
	             "one of several killers is told so");
	return true;
}

void own_renew(u32 object)
{
	struct own_object *o = &own->objects[object];

	CHECK_ASSERT(o->released && o->nr_held == 0, "what is renewed was released");
	check_revive(o->bytes, 8);
	o->kill_done = o->released = false;
	own->nr_kills = 0;
	host_store_relaxed(o->bytes, BYTES_TRUE + ++o->nr_lives);
	check_note("renews object %u", object);
	host_store_release(o->word, 0);
}

void own_query(u32 object)
{
	CHECK_ASSERT(counter_query(&own->domain, own->objects[object].word),
	             "M24: a query sees who holds it all the while");
}

void own_tell(u32 object)
{
	check_tell();
	own->objects[object].told[check_self()] = true;
}

void own_ask(u32 object)
{
	struct own_object *o = &own->objects[object];
	u64 put_at;
	u32 i;

	check_told(); /* who asks knows of those that hold it */
	for (i = 0; i < CHECK_MAX_TASKS; i++)
		o->put_at[i] = o->told[i] ? STILL : 0;
	if (counter_query(&own->domain, o->word))
		return;
	for (i = 0; i < CHECK_MAX_TASKS; i++) {
		put_at = o->put_at[i];
		CHECK_ASSERT(put_at != STILL,
		             "M24: a query sees who holds it all the while");
		CHECK_ASSERT(put_at == 0 || host_load_relaxed(&o->marks[i]) >= put_at,
		             "M33: a query's false comes with what holders did");
	}
}

/* ---- the beginning and the end ---- */

static void *world_alloc(size_t n)
{
	void *p = host_alloc(n, 64);

	CHECK_ASSERT(p, "memory for the world");
	return p;
}

static void name_entries(void)
{
	static const char *const words[] = { "key", "local", "away", "packed" };
	u32 cpu, i, w;

	for (cpu = 0; cpu < own->domain.nr_cpus; cpu++)
		for (i = 0; i < COUNTER_WAYS; i++)
			for (w = 0; w < 4; w++)
				check_name((u64 *)counter_entry(
						   &own->domain, cpu,
						   (BUCKETS - 1) * COUNTER_WAYS + i) +
				                   w,
				           8, "cpu[%u].%s[%u]", cpu, words[w], i);
}

void own_setup(const void *arg)
{
	const struct own_case *c = arg;
	struct counter_domain *d;
	u64 *words;
	u32 i, nr = 0;

	own = world_alloc(sizeof(*own));
	own->c = c;
	d = &own->domain;
	d->scheme = c->scheme;
	d->nr_cpus = host_nr_cpus();
	d->mask = (BUCKETS - 1) * COUNTER_LINE;
	d->stride = BUCKETS * COUNTER_WAYS * sizeof(struct counter_entry);
	d->entries = world_alloc(d->nr_cpus * d->stride);
	words = world_alloc(WORDS * sizeof(u64));
	for (i = 0; i < WORDS && nr < OWN_OBJECTS; i++) {
		struct own_object *o = &own->objects[nr];

		if (counter_bucket(d, (u64)(size_t)&words[i]) !=
		    (BUCKETS - 1) * COUNTER_WAYS)
			continue;
		o->word = &words[i];
		o->bytes = world_alloc(64);
		o->marks = world_alloc(CHECK_MAX_TASKS * sizeof(u64));
		*o->bytes = BYTES_TRUE;
		check_name(o->word, 8, "word[%u]", nr);
		check_name(o->bytes, 8, "bytes[%u]", nr);
		check_name(o->marks, CHECK_MAX_TASKS * sizeof(u64), "marks[%u]", nr);
		nr++;
	}
	CHECK_ASSERT(nr == OWN_OBJECTS, "enough words of one bucket");
	name_entries();
	check_on_abort(aborted);
	c->tasks(c);
	if (c->mixed)
		check_draw(&own->packed, 1u << OWN_TASKS);
}

void own_finish(const void *arg)
{
	u32 i;

	(void)arg;
	for (i = 0; i < own->nr_passed; i++)
		if (own->passed[i].there) {
			own->passed[i].there = false;
			own_put(own->passed[i].object, own->passed[i].token);
		}
	counter_check(&own->domain, 0);
	for (i = 0; i < OWN_OBJECTS; i++) {
		struct own_object *o = &own->objects[i];

		CHECK_ASSERT(o->nr_held == 0,
		             "all tasks have given back what they held");
		CHECK_ASSERT(counter_sum(&own->domain, o->word) == 0,
		             "a sum is what is held");
		if (!o->kill_done)
			own_kill(i);
		CHECK_ASSERT(o->released, "M22: a killed object comes free");
	}
	counter_check(&own->domain, 0);
}
