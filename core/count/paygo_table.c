/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Tables of entries that own a reference. Contract: core/count/paygo_table.h. */
#include "core/count/paygo_table.h"

#include "core/count/count_gate.h"

/* What core/paygo_gate.h wants defined. A key is the object's number and one. */
struct paygo_words {
	struct paygo_table *table;
};

static u64 *paygo_global(struct paygo_table *t, u64 key)
{
	return &t->globals[(key - 1) * COUNT_LINE_WORDS];
}

static inline bool paygo_disabled(struct paygo_words words)
{
	return host_load_relaxed(words.table->disabled) != 0;
}

static inline void paygo_add(struct paygo_words words, u64 key, u64 n)
{
	host_fetch_add(paygo_global(words.table, key), n);
}

#include "core/paygo_gate.h"

#define PER_LINE (COUNT_LINE_BYTES / (u32)sizeof(struct paygo_entry))
_Static_assert(COUNT_LINE_BYTES % sizeof(struct paygo_entry) == 0, "none is split");

static u64 paygo_table_key(u32 object)
{
	return (u64)object + 1;
}

static struct paygo_entry *paygo_table_entry(struct paygo_table *t, u32 cpu, u32 i)
{
	return &t->entries[(u64)cpu * t->stride + i];
}

static struct paygo_bucket paygo_table_bucket(struct paygo_table *t, u32 cpu,
                                              u32 object)
{
	u32 first = count_hash(object, t->nr_buckets) * t->nr_ways;

	return (struct paygo_bucket){ { t },
		                      paygo_table_entry(t, cpu, first),
		                      t->nr_ways };
}

u64 paygo_table_cpu_bytes(const struct paygo_table *t)
{
	return (u64)t->stride * sizeof(struct paygo_entry);
}

static u64 paygo_table_open_bytes(const struct paygo_table *t)
{
	return (u64)t->nr_cpus * COUNT_LINE_BYTES;
}

void paygo_table_fini(struct paygo_table *t)
{
	if (t->entries)
		host_free(t->entries, t->nr_cpus * paygo_table_cpu_bytes(t));
	if (t->open)
		host_free(t->open, paygo_table_open_bytes(t));
	if (t->disabled)
		host_free(t->disabled, COUNT_LINE_BYTES);
	t->entries = NULL;
	t->open = NULL;
	t->disabled = NULL;
}

int paygo_table_shape(struct paygo_table *t, u32 nr_buckets, u32 nr_ways)
{
	if (t->entries)
		host_free(t->entries, t->nr_cpus * paygo_table_cpu_bytes(t));
	t->nr_buckets = nr_buckets;
	t->nr_ways = nr_ways;
	t->stride = (nr_buckets * nr_ways + PER_LINE - 1) / PER_LINE * PER_LINE;
	t->entries =
		host_alloc(t->nr_cpus * paygo_table_cpu_bytes(t), COUNT_LINE_BYTES);
	return t->entries ? 0 : -ENOMEM;
}

int paygo_table_init(struct paygo_table *t, u64 *globals, u32 nr_objects)
{
	bool few = nr_objects < PAYGO_TABLE_FEW;
	int err;

	*t = (struct paygo_table){ .globals = globals,
		                   .nr_cpus = host_nr_cpus(),
		                   .idle = PAYGO_TABLE_IDLE,
		                   .eager = PAYGO_TABLE_EAGER };
	err = paygo_table_shape(t, few ? 1 : PAYGO_TABLE_ENTRIES / PAYGO_TABLE_WAYS,
	                        few ? PAYGO_TABLE_FEW_WAYS : PAYGO_TABLE_WAYS);
	t->open = host_alloc(paygo_table_open_bytes(t), COUNT_LINE_BYTES);
	t->disabled = host_alloc(COUNT_LINE_BYTES, COUNT_LINE_BYTES);
	if (!err && t->open && t->disabled)
		return 0;
	paygo_table_fini(t);
	return -ENOMEM;
}

/* The section in which the caller is home on the CPU that it returns. */
static u32 paygo_table_begin(void)
{
	return host_preempt_off();
}

static void paygo_table_end(void)
{
	host_preempt_on();
}

/* Home: one open entry more, or less. */
static void paygo_table_opened(struct paygo_table *t, u32 cpu, u64 nr)
{
	u64 *open = &t->open[(u64)cpu * COUNT_LINE_WORDS];

	host_store_relaxed(open, host_load_relaxed(open) + nr);
}

bool paygo_table_ref(struct paygo_table *t, u32 object, u64 *ret_token)
{
	u32 cpu = paygo_table_begin();
	struct paygo_entry *e = paygo_gate_hit(paygo_table_bucket(t, cpu, object),
	                                       paygo_table_key(object));

	if (e && host_load_relaxed(&e->mark) != 0)
		host_store_relaxed(&e->mark, 0);
	paygo_table_end();
	if (e)
		*ret_token = PAYGO_TOKEN | cpu;
	return e;
}

bool paygo_table_install(struct paygo_table *t, u32 object, u64 *ret_token)
{
	u32 cpu = paygo_table_begin();
	struct paygo_entry *e = paygo_gate_install(paygo_table_bucket(t, cpu, object),
	                                           paygo_table_key(object));

	if (e) {
		host_store_relaxed(&e->mark, 0);
		paygo_table_opened(t, cpu, 1);
	}
	paygo_table_end();
	if (e)
		*ret_token = PAYGO_TOKEN | cpu;
	return e;
}

static void paygo_table_drop(struct paygo_table *t, u64 key, u64 nr)
{
	host_fetch_add(paygo_global(t, key), -nr);
}

void paygo_table_unref(struct paygo_table *t, u32 object, u64 token)
{
	u64 key = paygo_table_key(object);
	u32 home = (u32)token;
	struct paygo_bucket b = paygo_table_bucket(t, home, object);
	bool here, done = false;

	here = paygo_table_begin() == home;
	if (here)
		done = paygo_gate_unref_home(b, key);
	paygo_table_end();
	if (!here)
		done = paygo_gate_unref_away(b, key);
	if (!done)
		paygo_table_drop(t, key, 1);
}

/* Home: closes the entry if nobody has hit it for idle ticks; idle 0: in any case. Returns
 * what the caller must drop, and in ret_key where. */
static u64 paygo_table_close(struct paygo_table *t, u32 cpu, u32 i, u32 idle,
                             u64 *ret_key)
{
	struct paygo_entry *e = paygo_table_entry(t, cpu, i);
	u64 age;

	DCHECK(i < t->nr_buckets * t->nr_ways, "an entry of that CPU's");
	if (!paygo_gate_is_open(e))
		return 0;
	age = host_load_relaxed(&e->mark) + 1;
	if (age < idle) {
		host_store_relaxed(&e->mark, age);
		return 0;
	}
	*ret_key = host_load_relaxed(&e->key);
	paygo_table_opened(t, cpu, -(u64)1);
	return paygo_gate_fold((struct paygo_words){ t }, e);
}

/* A section for each entry, so that each is short. */
static void paygo_table_close_all(struct paygo_table *t, u32 cpu, u32 idle)
{
	u32 nr = t->nr_buckets * t->nr_ways;
	u32 i;

	/* Relaxed, and perhaps of another CPU: then there is nothing to do here anyway. */
	if (host_load_relaxed(&t->open[(u64)cpu * COUNT_LINE_WORDS]) == 0)
		return;
	for (i = 0; i < nr; i++) {
		u64 drop = 0;
		u64 key = 0;

		if (paygo_table_begin() == cpu)
			drop = paygo_table_close(t, cpu, i, idle, &key);
		paygo_table_end();
		if (drop)
			paygo_table_drop(t, key, drop); /* O33 */
	}
}

void paygo_table_tick(struct paygo_table *t, u32 cpu)
{
	paygo_table_close_all(t, cpu, t->idle);
}

void paygo_table_fold(struct paygo_table *t, u32 cpu)
{
	paygo_table_close_all(t, cpu, 0);
}

void paygo_table_fold_dead(struct paygo_table *t, u32 cpu)
{
	u32 nr = t->nr_buckets * t->nr_ways;
	u32 i;

	for (i = 0; i < nr; i++) {
		u64 key = 0;
		u64 drop = paygo_table_close(t, cpu, i, 0, &key);

		if (drop)
			paygo_table_drop(t, key, drop); /* O33 */
	}
}

void paygo_table_disable(struct paygo_table *t, bool disable)
{
	host_xchg(t->disabled, disable);
}

u32 paygo_table_nr_open(struct paygo_table *t, u32 object)
{
	u32 nr = 0;
	u32 cpu;

	for (cpu = 0; cpu < t->nr_cpus; cpu++) {
		const struct paygo_entry *e = paygo_gate_find(
			paygo_table_bucket(t, cpu, object), paygo_table_key(object));

		nr += e && paygo_gate_is_open(e);
	}
	return nr;
}

u64 paygo_table_live(struct paygo_table *t, u32 object)
{
	u64 live = 0;
	u32 cpu;

	for (cpu = 0; cpu < t->nr_cpus; cpu++) {
		const struct paygo_entry *e = paygo_gate_find(
			paygo_table_bucket(t, cpu, object), paygo_table_key(object));

		if (e && paygo_gate_is_open(e))
			live += paygo_gate_live(e);
	}
	return live;
}

/* How many of held are counted in key's entry on cpu. */
static u64 paygo_table_named(const struct count_held *held, u32 nr_held, u32 cpu,
                             u64 key)
{
	u64 nr = 0;
	u32 i;

	for (i = 0; i < nr_held; i++)
		nr += held[i].token == (PAYGO_TOKEN | cpu) &&
		      paygo_table_key(held[i].object) == key;
	return nr;
}

static void paygo_table_check_cpu(struct paygo_table *t, u32 cpu,
                                  const struct count_held *held, u32 nr_held)
{
	u64 open = 0;
	u32 i;

	for (i = 0; i < t->nr_buckets * t->nr_ways; i++) {
		struct paygo_entry *e = paygo_table_entry(t, cpu, i);
		u64 key = host_load_relaxed(&e->key);

		if (key == 0)
			continue;
		CHECK(paygo_gate_find(paygo_table_bucket(t, cpu, (u32)key - 1), key) ==
		              e,
		      "PG4: a key has one entry, in its bucket");
		CHECK(paygo_gate_live(e) == paygo_table_named(held, nr_held, cpu, key),
		      "PG1: an entry counts its tokens");
		open += paygo_gate_is_open(e);
	}
	CHECK(host_load_relaxed(&t->open[(u64)cpu * COUNT_LINE_WORDS]) == open,
	      "a table knows how many entries are open");
}

void paygo_table_check(struct paygo_table *t, const struct count_held *held,
                       u32 nr_held)
{
	u32 cpu, i;

	for (cpu = 0; cpu < t->nr_cpus; cpu++)
		paygo_table_check_cpu(t, cpu, held, nr_held);
	for (i = 0; i < nr_held; i++)
		if (held[i].token & PAYGO_TOKEN)
			CHECK(paygo_gate_find(paygo_table_bucket(t, (u32)held[i].token,
			                                         held[i].object),
			                      paygo_table_key(held[i].object)),
			      "PG5: a token finds its entry");
}
