// SPDX-License-Identifier: GPL-2.0
/*
 * KLOC: memory.kloc, which says for the programs of a control group whether a file that they open
 * gets a knode. A group that says nothing does as its parent; the root's is on.
 */
#include <linux/cgroup.h>
#include <linux/init.h>
#include <linux/kernfs.h>
#include <linux/memcontrol.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/xarray.h>

#include "kloc.h"

/* True while any group says on or off. */
DEFINE_STATIC_KEY_FALSE(kloc_groups);

enum kloc_word { KLOC_DEFAULT, KLOC_ON, KLOC_OFF, NR_KLOC_WORDS };

static const char * const kloc_words[NR_KLOC_WORDS] = { "default", "on", "off" };

/* By cgroup_id(), which is never used again: a word, but for KLOC_DEFAULT. */
static DEFINE_XARRAY(kloc_said);
static DEFINE_MUTEX(kloc_said_mutex);

static enum kloc_word kloc_word_of(struct cgroup *group)
{
	void *word = xa_load(&kloc_said, cgroup_id(group));

	return word ? xa_to_value(word) : KLOC_DEFAULT;
}

/* May the file that this task opens have a knode? */
bool __kloc_wanted(void)
{
	enum kloc_word word = KLOC_DEFAULT;
	struct cgroup_subsys_state *css;

	rcu_read_lock();
	for (css = task_css(current, memory_cgrp_id); css && word == KLOC_DEFAULT;
	     css = css->parent)
		word = kloc_word_of(css->cgroup);
	rcu_read_unlock();
	return word != KLOC_OFF || MUTANT(KLOC_GROUP_IGNORED);
}

/* Groups that are gone: nothing tells us when they go. */
static void kloc_forget_groups(void)
{
	unsigned long id;
	void *word;

	xa_for_each(&kloc_said, id, word) {
		struct cgroup *group = cgroup_get_from_id(id);

		if (IS_ERR(group))
			xa_erase(&kloc_said, id);
		else
			cgroup_put(group);
	}
}

static int kloc_group_show(struct seq_file *m, void *v)
{
	seq_printf(m, "%s\n", kloc_words[kloc_word_of(seq_css(m)->cgroup)]);
	return 0;
}

static ssize_t kloc_group_write(struct kernfs_open_file *of, char *buf, size_t count, loff_t off)
{
	unsigned long id = cgroup_id(of_css(of)->cgroup);
	int word = sysfs_match_string(kloc_words, strstrip(buf)), err = 0;

	if (word < 0)
		return word;
	mutex_lock(&kloc_said_mutex);
	kloc_forget_groups();
	if (word == KLOC_DEFAULT)
		xa_erase(&kloc_said, id);
	else
		err = xa_err(xa_store(&kloc_said, id, xa_mk_value(word), GFP_KERNEL));
	if (xa_empty(&kloc_said))
		static_branch_disable(&kloc_groups);
	else
		static_branch_enable(&kloc_groups);
	mutex_unlock(&kloc_said_mutex);
	return err ?: count;
}

static struct cftype kloc_files[] = {
	{
		.name = "kloc",
		.seq_show = kloc_group_show,
		.write = kloc_group_write,
	},
	{ }
};

static int __init kloc_cgroup_init(void)
{
	return cgroup_add_dfl_cftypes(&memory_cgrp_subsys, kloc_files);
}
late_initcall(kloc_cgroup_init);
