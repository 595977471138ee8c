// SPDX-License-Identifier: GPL-2.0
/* KLOC: /sys/kernel/mm/kloc and the word kloc= of the kernel's command line. */
#include <linux/init.h>
#include <linux/kobject.h>
#include <linux/mutex.h>
#include <linux/nodemask.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "kloc.h"

#include <trace/events/kloc.h>

/*
 * Of the other policies of the paper Linux itself has what they do to page cache: see
 * Documentation/mm/kloc.rst. Here they group nothing.
 */
const struct kloc_policy kloc_policies[] = {
	{ "naive", false, MOVER_NONE },
	{ "nimble", false, MOVER_NONE },
	{ "autonuma", false, MOVER_NONE },
	{ "kloc-nomigration", true, MOVER_NONE },
	{ "kloc", true, MOVER_STATE },
};

const unsigned int kloc_nr_policies = ARRAY_SIZE(kloc_policies);

/* Of kloc_set, and one tick at a time. */
DEFINE_MUTEX(kloc_mutex);
struct kloc_settings kloc_set = {
	.policy = &kloc_policies[ARRAY_SIZE(kloc_policies) - 1],
	.rules = {
		.age_limit = LIFE_AGE_LIMIT,
		.ping_pong = LIFE_PING_PONG,
		.forgive = LIFE_FORGIVE,
		.mover = MOVER_STATE,
		.eager = true,
	},
	.tick_ms = 1000,
};

/* kloc_mutex is held. */
void kloc_rules_changed(void)
{
	kloc_set.rules.mover = kloc_set.policy->mover;
	trace_kloc_rules(kloc_set.policy->name, static_key_enabled(&kloc_on), &kloc_set.rules,
			 kloc_tick_now());
}

int kloc_enable(bool on)
{
	int err = 0;

	mutex_lock(&kloc_mutex);
	if (on && !static_key_enabled(&kloc_on)) {
		err = kloc_threads_make();
		if (!err) {
			static_branch_enable(&kloc_on);
			kloc_rules_changed();
			kloc_start();
		}
	} else if (!on && static_key_enabled(&kloc_on)) {
		static_branch_disable(&kloc_on);
		kloc_rules_changed();
	}
	mutex_unlock(&kloc_mutex);
	if (!on)
		kloc_stop();
	return err;
}

/* -- Counters -------------------------------------------------------------------------- */

static const char * const kloc_stat_names[NR_KLOC_STATS] = {
	"knodes", "active", "unlinked", "opens", "closes", "aged", "spared", "shrunk", "demoted",
	"promoted", "busy", "no_target", "no_room", "passes", "cancelled", "kept", "retained",
	"forgiven", "list_hits", "list_misses", "list_stale", "placed_fast", "placed_slow",
	"no_memory",
};

long kloc_stat_sum(enum kloc_stat what)
{
	long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu(kloc_stats.n[what], cpu);
	return sum;
}

static ssize_t stat_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	long inactive = kloc_stat_sum(KLOC_KNODES) - kloc_stat_sum(KLOC_NR_ACTIVE) -
		kloc_stat_sum(KLOC_NR_UNLINKED);
	int i, at = 0;

	for (i = 0; i < NR_KLOC_STATS; i++)
		at += sysfs_emit_at(buf, at, "%s %ld\n", kloc_stat_names[i], kloc_stat_sum(i));
	return at + sysfs_emit_at(buf, at, "inactive %ld\ntick %u\n", inactive, kloc_tick_now());
}

static struct kobj_attribute stat_attr = __ATTR_RO(stat);

/* -- Settings -------------------------------------------------------------------------- */

static ssize_t enabled_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", static_key_enabled(&kloc_on));
}

static ssize_t enabled_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	bool on;
	int err = kstrtobool(buf, &on);

	if (!err)
		err = kloc_enable(on);
	return err ?: count;
}

static struct kobj_attribute enabled_attr = __ATTR_RW(enabled);

static ssize_t policy_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	unsigned int i;
	int at = 0;

	for (i = 0; i < kloc_nr_policies; i++) {
		bool is = kloc_set.policy == &kloc_policies[i];

		at += sysfs_emit_at(buf, at, "%s%s%s%c", is ? "[" : "", kloc_policies[i].name,
				    is ? "]" : "", i + 1 < kloc_nr_policies ? ' ' : '\n');
	}
	return at;
}

static ssize_t policy_store(struct kobject *kobj, struct kobj_attribute *attr,
			    const char *buf, size_t count)
{
	unsigned int i;

	for (i = 0; i < kloc_nr_policies; i++)
		if (sysfs_streq(buf, kloc_policies[i].name))
			break;
	if (i == kloc_nr_policies)
		return -EINVAL;
	mutex_lock(&kloc_mutex);
	WRITE_ONCE(kloc_set.policy, &kloc_policies[i]);
	kloc_rules_changed();
	mutex_unlock(&kloc_mutex);
	return count;
}

static struct kobj_attribute policy_attr = __ATTR_RW(policy);

static ssize_t promote_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", kloc_set.rules.promote_whole);
}

static ssize_t promote_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	bool on;
	int err = kstrtobool(buf, &on);

	if (err)
		return err;
	mutex_lock(&kloc_mutex);
	kloc_set.rules.promote_whole = on;
	kloc_rules_changed();
	mutex_unlock(&kloc_mutex);
	return count;
}

static struct kobj_attribute promote_attr = __ATTR_RW(promote);

/**
 * struct kloc_number - a setting that is one number
 * @attr: its file.
 * @at: where it is.
 * @lowest: it may be no less,
 * @highest: and no more.
 */
struct kloc_number {
	struct kobj_attribute attr;
	unsigned int *at;
	unsigned int lowest, highest;
};

static ssize_t number_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", *container_of(attr, struct kloc_number, attr)->at);
}

static ssize_t number_store(struct kobject *kobj, struct kobj_attribute *attr,
			    const char *buf, size_t count)
{
	struct kloc_number *number = container_of(attr, struct kloc_number, attr);
	unsigned int n;
	int err = kstrtouint(buf, 0, &n);

	if (!err && (n < number->lowest || n > number->highest))
		err = -EINVAL;
	if (err)
		return err;
	mutex_lock(&kloc_mutex);
	WRITE_ONCE(*number->at, n);
	kloc_rules_changed();
	if (static_key_enabled(&kloc_on))
		kloc_start();
	mutex_unlock(&kloc_mutex);
	return count;
}

#define KLOC_NUMBER(name, field, least, most) {						\
	.attr = __ATTR(name, 0644, number_show, number_store),				\
	.at = &kloc_set.field, .lowest = least, .highest = most				\
}

static struct kloc_number kloc_numbers[] = {
	KLOC_NUMBER(age_limit, rules.age_limit, 0, INT_MAX),
	KLOC_NUMBER(ping_pong, rules.ping_pong, 1, 255),
	KLOC_NUMBER(forgive, rules.forgive, 0, INT_MAX),
	KLOC_NUMBER(tick_ms, tick_ms, 0, 3600 * 1000),
	KLOC_NUMBER(rate_mb, rate_mb, 0, INT_MAX),
};

static ssize_t memsize_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	int at = 0, nid;

	for_each_node_state(nid, N_MEMORY) {
		unsigned long limit = READ_ONCE(kloc_limit[nid]);

		if (limit == ULONG_MAX)
			at += sysfs_emit_at(buf, at, "%d max\n", nid);
		else
			at += sysfs_emit_at(buf, at, "%d %lu\n", nid, limit << PAGE_SHIFT);
	}
	return at;
}

/* NODE BYTES, or NODE max. */
static ssize_t memsize_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	unsigned long limit = ULONG_MAX;
	char word[24];
	char *end;
	int nid;

	if (sscanf(buf, "%d %23s", &nid, word) != 2)
		return -EINVAL;
	if (strcmp(word, "max")) {
		limit = memparse(word, &end) >> PAGE_SHIFT;
		if (*end || end == word)
			return -EINVAL;
	}
	if (nid < 0 || nid >= MAX_NUMNODES || !node_state(nid, N_MEMORY))
		return -ENXIO;
	WRITE_ONCE(kloc_limit[nid], limit);
	return count;
}

static struct kobj_attribute memsize_attr = __ATTR_RW(memsize);

static struct attribute *kloc_attrs[] = {
	&enabled_attr.attr,
	&policy_attr.attr,
	&promote_attr.attr,
	&memsize_attr.attr,
	&kloc_numbers[0].attr.attr,
	&kloc_numbers[1].attr.attr,
	&kloc_numbers[2].attr.attr,
	&kloc_numbers[3].attr.attr,
	&kloc_numbers[4].attr.attr,
	&stat_attr.attr,
	NULL
};

static const struct attribute_group kloc_group = { .name = "kloc", .attrs = kloc_attrs };

/* -- At boot --------------------------------------------------------------------------- */

static bool kloc_at_boot __initdata;

static int __init kloc_parse(char *word)
{
	return kstrtobool(word, &kloc_at_boot);
}
early_param("kloc", kloc_parse);

static int __init kloc_sysfs_init(void)
{
	int err = sysfs_create_group(mm_kobj, &kloc_group);

	if (err)
		pr_err("kloc: no files in sysfs: %d\n", err);
	/* Tiers are known by now: drivers that tell of slow memory have come up. */
	if (kloc_at_boot)
		err = kloc_enable(true);
	if (err)
		pr_err("kloc: cannot be switched on: %d\n", err);
	return err;
}
late_initcall(kloc_sysfs_init);
